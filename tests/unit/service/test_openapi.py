"""The OpenAPI document is true: requests made from it get the answers that it describes."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from recrawl.corpus import Corpus
from tests.unit.service.conftest import URLS
from tests.unit.service.running_server import RunningServer

SETTINGS = """
[parameters]
"path.corpus" = "news"
"path.host" = "site0.example"
"query.wait" = 0.01
"""
# A request of the right form may be refused for a reason that no schema can express: a cursor of
# another corpus, an idempotency key that was used, a pattern that is not one.  The document says
# so for those operations, and only they may answer 422.
REFUSING = """
[[operations]]
include-name = "{name}"
checks.positive_data_acceptance.expected-statuses = ["2xx", 404, 422]
"""


def settings_of(document: dict[str, Any]) -> str:
    refusing = [
        f"{method.upper()} {path}"
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if "422" in operation["responses"]
    ]
    return SETTINGS + "".join(REFUSING.format(name=name) for name in refusing)


@pytest.mark.slow
@pytest.mark.slow_without_jit
def test_generated_requests_get_the_answers_of_the_document(
    server: RunningServer, corpus: Corpus, tmp_path: Path
) -> None:
    corpus.add(URLS)
    document = server.request("GET", "/v1/openapi.json").json
    (tmp_path / "schemathesis.toml").write_text(settings_of(document))
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run"),
        *(f"http://127.0.0.1:{server.port}/v1/openapi.json", "--checks", "all"),
        *("--generation-deterministic", "--max-examples", "30", "--request-timeout", "30"),
    ]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]


def test_the_document_names_what_it_refers_to(server: RunningServer) -> None:
    document = server.request("GET", "/v1/openapi.json").json
    assert document["openapi"] == "3.1.0"
    text = str(document)
    for name in document["components"]["schemas"]:
        assert f"#/components/schemas/{name}" in text, f"{name} is not used"
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert operation["summary"], path
            assert "problem+json" in str(operation["responses"]["default"])


def test_the_document_says_when_requests_of_the_right_form_are_refused(
    server: RunningServer,
) -> None:
    document = server.request("GET", "/v1/openapi.json").json
    prefix = "/v1/corpora/{corpus}"
    strict = {
        f"{method} {path.removeprefix(prefix)}"
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if method != "get" and "422" not in operation["responses"]
    }
    assert strict >= {"post /orders/extend", "post /orders/release", "delete /consumers/{consumer}"}
    (n,) = (
        one["schema"]
        for one in document["paths"][f"{prefix}/orders"]["post"]["parameters"]
        if one["name"] == "n"
    )
    assert n["maximum"] == 10_000


def test_whole_numbers_may_be_written_as_floats(server: RunningServer) -> None:
    assert server.post("/orders/release", {"handles": [7.0]}).json["status"] == ["unknown"]
    lines = b'{"handle": 7.0, "status": 304.0}\n{"handle": 7, "status": 304}\n'
    answer = server.post("/outcomes", lines, Content_Type="application/x-ndjson")
    assert answer.json["status"] == ["unknown", "unknown"]
    for wrong in (7.5, 1e300, -1.0):
        assert server.post("/orders/release", {"handles": [wrong]}).problem == "invalid-value"
