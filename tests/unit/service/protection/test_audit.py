"""The audit log: who did what, when and from where, in bounded files."""

import json
import multiprocessing
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from recrawl.corpus import Corpus
from recrawl.service import AuditEntry, append_audit_entry, create_key, read_audit_log
from recrawl.service.keys import KeyRing
from recrawl.service.protection import audit
from tests.unit.service.conftest import URLS
from tests.unit.service.running_server import RunningServer


def entries(folder: Path, **options: int) -> list[AuditEntry]:
    return list(read_audit_log(folder, **options))


def test_administrative_requests_are_listed(
    open_corpus: Callable[..., Corpus], tmp_path: Path
) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    folder = tmp_path / "corpus"
    began = time.time_ns() // 1_000_000
    admin, stored = create_key(folder, ["admin"], name="ops", now_ms=began)
    reader, _ = create_key(folder, ["read", "report"], name="reader", now_ms=began)
    with RunningServer(
        {"news": corpus},
        keys={"news": KeyRing(folder)},
        is_local=False,
        folders={"news": folder},
        trusted_proxies=["127.0.0.1"],
    ) as server:
        sent = {"Authorization": f"Bearer {admin}", "X-Forwarded-For": "203.0.113.5"}
        base = "/v1/corpora/news"
        done = server.request("PATCH", f"{base}/hosts/site0.example", {"delay": "5s"}, sent)
        # It is in the log before the answer is there.
        (first,) = entries(folder)
        assert server.request("PUT", f"{base}/budget", {"rate": "much"}, sent).status == 422
        rows = [{"url": url} for url in URLS[:3]]
        assert server.request("POST", f"{base}/pages/remove", rows, sent).status == 200
        # Neither what others may do nor what they may not.
        assert server.request("GET", f"{base}/budget", None, sent).status == 200
        sent = {"Authorization": f"Bearer {reader}"}
        assert server.request("POST", f"{base}/pages", rows, sent).status == 200
        assert server.request("PUT", f"{base}/budget", {"rate": "1/h"}, sent).status == 403
    found = entries(folder)
    assert first == found[0]
    assert began <= first.at_ms <= time.time_ns() // 1_000_000
    assert first._replace(at_ms=0) == AuditEntry(
        at_ms=0,
        who="ops",
        what="PATCH /hosts/{host}",
        target="site0.example",
        status=200,
        key=stored.id,
        client="203.0.113.5",
        request_id=done.headers["x-request-id"],
        values="delay=5s",
    )
    assert [(one.what, one.n_rows, one.status, one.values) for one in found[1:]] == [
        ("PUT /budget", None, 422, "rate=much"),
        ("POST /pages/remove", 3, 200, ""),
    ]
    text = (folder / "audit.jsonl").read_text()
    assert not any(url in text for url in URLS)
    assert stat.S_IMODE((folder / "audit.jsonl").stat().st_mode) == 0o600


def test_an_open_server_has_an_audit_log_too(server: RunningServer, tmp_path: Path) -> None:
    body = {"name": "search", "url": "https://receiver.example/"}
    assert server.post("/webhooks", body).status == 201
    assert server.post("/webhooks/search/rotate", {}).status == 200
    created, rotated = entries(tmp_path / "corpus")
    assert (created.who, created.what, created.key) == ("without key", "POST /webhooks", None)
    # Addresses of receivers may have secrets.
    assert created.values == "name=search"
    assert (rotated.what, rotated.target) == ("POST /webhooks/{webhook}/rotate", "search")


def test_a_full_disk_does_not_hold_up_an_answer(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("recrawl.service.protection.audit_layer.append_audit_entry", fail)
    assert server.request("PUT", "/v1/corpora/news/budget", {"rate": "1/h"}).status == 200
    assert "the audit log cannot be written" in caplog.text


def test_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "AUDIT_FILE_BYTES_MAX", 1_000)
    monkeypatch.setattr(audit, "AUDIT_FILES_MAX", 3)
    for i in range(200):
        append_audit_entry(tmp_path, AuditEntry(i, "a" * 10_000, "keys create"))
    files = sorted(tmp_path.glob("audit*"))
    assert [file.name for file in files] == ["audit.1.jsonl", "audit.2.jsonl", "audit.jsonl"]
    assert all(file.stat().st_size <= 1_000 for file in files)
    found = [one.at_ms for one in entries(tmp_path)]
    assert found == list(range(200 - len(found), 200))
    assert len(found) >= 6
    assert [one.at_ms for one in entries(tmp_path, after_ms=198)] == [198, 199]


def test_damaged_lines_are_left_out(tmp_path: Path) -> None:
    append_audit_entry(tmp_path, AuditEntry(1, "a", "keys create"))
    with (tmp_path / "audit.jsonl").open("ab") as file:
        file.write(b'[]\n{"at_ms": "x"}\n{"at_ms": 2}\n\xff\n{"at_ms": 5, "who": "b", "wh')
    entry = AuditEntry(6, "newer\nline", "keys revoke", "é")
    append_audit_entry(tmp_path, entry)
    assert entries(tmp_path) == [AuditEntry(1, "a", "keys create"), entry]
    with (tmp_path / "audit.jsonl").open("ab") as file:
        line = {"at_ms": 7, "who": "a", "what": "b", "of_a_newer_version": 1}
        file.write(json.dumps(line).encode() + b"\n")
    assert entries(tmp_path)[-1] == AuditEntry(7, "a", "b")


def _append_many(folder: Path, who: str) -> None:
    for i in range(50):
        append_audit_entry(folder, AuditEntry(i, who, "keys create"))


def test_processes_do_not_mix_their_lines(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    started = [context.Process(target=_append_many, args=(tmp_path, who)) for who in "ab"]
    for one in started:
        one.start()
    for one in started:
        one.join(60)
    found = entries(tmp_path)
    for who in "ab":
        assert [one.at_ms for one in found if one.who == who] == list(range(50))
