"""The log of requests has a line for each, with the id of its answer."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from recrawl.corpus import Corpus
from recrawl.service import create_key
from recrawl.service.keys import KeyRing
from recrawl.service.operations import request_log
from recrawl.service.operations.request_log import RequestLogFile
from tests.unit.service.conftest import URLS
from tests.unit.service.running_server import RunningServer


def test_it_has_a_line_for_each_request(open_corpus: Callable[..., Corpus], tmp_path: Path) -> None:
    file = tmp_path / "requests.jsonl"
    with RunningServer({"news": open_corpus()}, request_log=str(file)) as server:
        server.post("/pages", [{"url": URLS[0]}])
        server.get(f"/page?url={URLS[0]}", X_Request_Id="mine-1")
        other = server.request("GET", "/nothing?secret=1").headers["x-request-id"]
    added, explained, unknown = map(json.loads, file.read_text().splitlines())
    assert set(added) == {
        *("at", "id", "method", "route", "corpus", "status", "seconds", "total_seconds"),
        *("n_bytes", "key", "key_name", "client"),
    }
    assert added["route"] == "/v1/corpora/{corpus}/pages"
    assert (added["method"], added["corpus"], added["status"]) == ("POST", "news", 200)
    assert 0 < added["seconds"] <= added["total_seconds"]
    assert added["client"] == "127.0.0.1"
    assert explained["id"] == "mine-1"
    assert explained["n_bytes"] > 100
    assert (unknown["id"], unknown["route"], unknown["status"]) == (other, "unknown", 404)
    # A URL or a secret in a query is nobody's business.
    assert URLS[0] not in file.read_text()
    assert "secret" not in file.read_text()


def test_a_refused_request_has_its_route_and_its_key(
    open_corpus: Callable[..., Corpus], tmp_path: Path
) -> None:
    file = tmp_path / "requests.jsonl"
    rings, keys = {}, {}
    for name, scope in (("news", "read"), ("shop", "admin")):
        folder = tmp_path / f"keys-{name}"
        folder.mkdir()
        keys[name] = create_key(folder, [scope], name=f"for {name}", now_ms=1)
        rings[name] = KeyRing(folder)
    expired, _ = create_key(tmp_path, ["read"], name="old", now_ms=1, expires_at_ms=2)
    rings["old"] = KeyRing(tmp_path)
    corpora = {name: open_corpus(name) for name in rings}
    wrong = keys["news"][0][:-20] + "0" * 20
    with RunningServer(corpora, keys=rings, is_local=False, request_log=str(file)) as server:
        for key in ("", keys["news"][0], keys["shop"][0], expired, wrong):
            answer = server.post("/orders", Authorization=f"Bearer {key}")
            assert answer.status in (401, 403)
        server.get("/hosts/site0.example")
        server.get("/nothing")
        server.request("GET", "/metrics")
    lines = list(map(json.loads, file.read_text().splitlines()))
    orders, others = lines[:5], lines[5:]
    assert {line["route"] for line in orders} == {"/v1/corpora/{corpus}/orders"}
    assert {line["corpus"] for line in orders} == {"news"}
    assert [line["status"] for line in orders] == [401, 403, 401, 401, 401]
    assert [line["key_name"] for line in orders] == [None, "for news", "for shop", "old", None]
    assert orders[1]["key"] == keys["news"][1].id
    assert [line["route"] for line in others] == [
        "/v1/corpora/{corpus}/hosts/{host}",
        "unknown",
        "/metrics",
    ]


def test_standard_error_is_a_file_too(capsys: pytest.CaptureFixture[str]) -> None:
    log = RequestLogFile("-")
    log.write(id="a")
    log.close()
    assert json.loads(capsys.readouterr().err)["id"] == "a"


def test_lines_that_cannot_be_written_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_log, "_LINES_MAX", 3)
    log = RequestLogFile("/dev/full")
    for i in range(20):
        log.write(id=str(i))
    log.close()
    assert log.n_left_out == 20
