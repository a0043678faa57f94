"""Commands that run long print the time before what the library logs, so that it can be matched."""

import logging
import re
from pathlib import Path
from typing import Any

import pytest

from recrawl.errors import RecrawlError
from tests.unit.cli.conftest import Recrawl

FACES = [
    ("serve", "recrawl.service.serve_corpora", ["serve", "--port", "0", "--for", "1s"]),
    ("run", "recrawl.cli.commands.run._make_session", ["run", "--for", "1s"]),
    ("worker", "recrawl.cluster.run_worker", ["worker", "--keys", "keys", "--for", "1s"]),
]


def warn(*_: Any, **__: Any) -> None:
    logging.getLogger("recrawl.anything").warning("something has happened")
    raise RecrawlError("it is over")


@pytest.mark.parametrize(("name", "called", "arguments"), FACES, ids=[one[0] for one in FACES])
def test_a_log_line_begins_with_its_time(
    in_corpus: Recrawl,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    called: str,
    arguments: list[str],
) -> None:
    pytest.importorskip("uvicorn")
    (tmp_path / "keys").touch()
    if name == "worker":
        pytest.importorskip("confluent_kafka")
        (tmp_path / "recrawl.toml").touch()
        monkeypatch.setattr("recrawl.cluster.check_worker_start", lambda *_, **__: None)
    monkeypatch.setattr(called, warn)
    ran = in_corpus(*arguments)
    assert "it is over" in ran.err
    found = re.findall(r"^(.*)something has happened$", ran.err, re.MULTILINE)
    assert len(found) == 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ", found[0])
