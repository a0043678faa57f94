"""The OpenAPI document is true: requests made from it get the answers that it describes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from recrawl.corpus import Corpus
from tests.unit.service.conftest import URLS
from tests.unit.service.running_server import RunningServer

SETTINGS = """
[parameters]
"path.corpus" = "news"
"path.host" = "site0.example"
"""
# This one expects that every request of the right form is accepted.  A rate, a cursor or an
# idempotency key may have the right form and still be wrong.
EXCLUDED = "positive_data_acceptance"


@pytest.mark.slow
@pytest.mark.slow_without_jit
def test_generated_requests_get_the_answers_of_the_document(
    server: RunningServer, corpus: Corpus, tmp_path: Path
) -> None:
    corpus.add(URLS)
    (tmp_path / "schemathesis.toml").write_text(SETTINGS)
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run"),
        *(f"http://127.0.0.1:{server.port}/v1/openapi.json", "--checks", "all"),
        *("--exclude-checks", EXCLUDED, "--generation-deterministic"),
        *("--max-examples", "30", "--request-timeout", "30"),
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
