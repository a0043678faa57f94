"""Pages over HTTP: add, set, remove, list and explain, in every format."""

import io
import json
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest

from recrawl.corpus import Corpus
from tests.unit.service.conftest import URLS
from tests.unit.service.running_server import RunningServer

ARROW = "application/vnd.apache.arrow.stream"
NDJSON = "application/x-ndjson"
ROWS: list[dict[str, Any]] = [
    {"url": URLS[0], "importance": 2.0, "doc_id": "first"},
    {"url": URLS[1], "cost": 3.0},
    {"url": URLS[2], "metadata": {"team": "docs", "deep": {"n": [1, 2]}}},
    {"url": URLS[0]},
    {"url": "not a url"},
]


def arrow_bytes(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, **options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def arrow_rows(rows: list[dict[str, Any]]) -> bytes:
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [row.get(name) for row in rows] for name in names}
    if "metadata" in columns:
        columns["metadata"] = [one and json.dumps(one) for one in columns["metadata"]]
    return arrow_bytes(pa.table(columns))


def body_in(format: str, rows: list[dict[str, Any]]) -> bytes:
    if format == ARROW:
        return arrow_rows(rows)
    lines = [json.dumps(row) for row in rows]
    text = "\n".join(lines) if format == NDJSON else f"[{','.join(lines)}]"
    return text.encode()


@pytest.mark.parametrize("format", ["application/json", NDJSON, ARROW])
def test_pages_are_added_in_every_format(
    server: RunningServer, corpus: Corpus, format: str
) -> None:
    answer = server.post("/pages", body_in(format, ROWS), Content_Type=format)
    assert answer.status == 200, answer
    # Rows with the same values are added together, so either of the first and fourth is first.
    assert sorted(answer.json["status"][:4]) == ["done", "done", "done", "duplicate"]
    assert answer.json["counts"] == {"done": 3, "duplicate": 1, "refused": 1}
    assert answer.json["reasons"] == {"4": "not a URL"}
    explanation = corpus.explain(URLS[1])
    assert explanation is not None
    assert explanation.as_dict()["cost"] == pytest.approx(3.0, rel=0.1)
    explanation = corpus.explain(URLS[2])
    assert explanation is not None
    assert explanation.metadata == {"team": "docs", "deep": {"n": [1, 2]}}


def test_statuses_can_be_arrow(server: RunningServer) -> None:
    answer = server.post("/pages", ROWS[:2], Accept=ARROW)
    table = pa.ipc.open_stream(answer.data).read_all()
    assert table.column("status").to_pylist() == ["done", "done"]


def test_values_of_each_page_are_set(server: RunningServer, corpus: Corpus) -> None:
    server.post("/pages", [{"url": url} for url in URLS[:3]])
    rows = [
        {"url": URLS[0], "importance": 5.0},
        {"url": URLS[1], "doc_id": "second"},
        {"url": "https://unknown.example/", "importance": 1.0},
        {"url": "not a url"},
    ]
    answer = server.request("PATCH", "/v1/corpora/news/pages", rows)
    assert answer.json["status"] == ["done", "done", "unknown", "refused"]
    first, second = corpus.explain(URLS[0]), corpus.explain(URLS[1])
    assert first is not None
    assert second is not None
    assert first.as_dict()["importance"] == pytest.approx(5.0, rel=0.1)
    assert second.as_dict()["importance"] == pytest.approx(1.0, rel=0.1)
    assert (first.doc_id, second.doc_id) == (None, "second")


def test_settings_hold_for_urls_or_a_pattern(server: RunningServer) -> None:
    server.post("/pages", [{"url": url} for url in URLS])
    body: dict[str, Any] = {"urls": [URLS[0], "no"], "settings": {"max_age": "6h"}}
    assert server.post("/pages/settings", body).json["status"] == ["done", "refused"]
    body = {"pattern": "https://site1.example/*", "settings": {"importance": 3}}
    assert server.post("/pages/settings", body).json["n_pages"] == 5
    wrong: Any
    for wrong in ({"settings": {"colour": 1}, "urls": []}, {"settings": {}}, {"urls": []}):
        assert server.post("/pages/settings", wrong).problem == "invalid-value"


def test_pages_are_removed(server: RunningServer, corpus: Corpus) -> None:
    server.post("/pages", [{"url": url} for url in URLS])
    rows = [{"url": URLS[0]}, {"url": "https://unknown.example/"}]
    answer = server.post("/pages/remove", rows)
    assert answer.json["status"] == ["done", "unknown"]
    answer = server.post("/pages/remove?pattern=" + quote("https://site1.example/*"))
    assert answer.json["n_pages"] == 5
    assert corpus.n_pages == len(URLS) - 6


def test_pages_are_listed_by_cursor_in_every_format(server: RunningServer) -> None:
    rows = [{"url": url, "doc_id": url[-1], "metadata": {"u": url}} for url in URLS]
    server.post("/pages", rows)
    seen: list[dict[str, Any]] = []
    path = "/pages?limit=6"
    while True:
        answer = server.get(path).json
        seen += answer["pages"]
        if answer["cursor"] is None:
            break
        path = f"/pages?limit=6&cursor={answer['cursor']}"
    assert sorted(row["url"] for row in seen) == sorted(URLS)
    assert all(row["metadata"] == {"u": row["url"]} for row in seen)
    assert all(row["doc_id"] == row["url"][-1] for row in seen)
    lines = server.get("/pages?limit=6", Accept=NDJSON)
    assert len(lines.data.splitlines()) == 6
    assert lines.headers["recrawl-cursor"]
    table = server.get("/pages?limit=6&columns=url,value", Accept=ARROW)
    assert pa.ipc.open_stream(table.data).read_all().column_names == ["url", "value"]
    for wrong in ("?cursor=x", "?limit=0", "?columns=colour", "?limit=10001", "?limit=x"):
        assert server.get(f"/pages{wrong}").problem == "invalid-value"


def test_a_page_is_explained(server: RunningServer) -> None:
    server.post("/pages", [{"url": URLS[0], "doc_id": "d", "metadata": {"a": 1}}])
    answer = server.get(f"/page?url={quote(URLS[0])}").json
    assert answer["url"] == URLS[0]
    assert (answer["doc_id"], answer["metadata"]) == ("d", {"a": 1})
    assert answer["words"]
    missing = server.get(f"/page?url={quote(URLS[0] + 'x')}")
    assert (missing.status, missing.problem) == (404, "unknown-page")
    assert missing.json["similar_urls"] == [URLS[0]]


def test_what_is_read_is_json_without_nan(server: RunningServer) -> None:
    server.post("/pages", [{"url": url} for url in URLS])
    paths = ("/stats", "/sources", "/plan", "/configuration", "/budget", "/consumers")
    for path in paths:
        answer = server.get(path)
        assert answer.status == 200, answer
        assert b"NaN" not in answer.data
    assert server.get("/stats").json["n_pages"] == len(URLS)
    target = quote("95 % of /* under 6 h")
    assert len(server.get(f"/plan?target={target}").json["targets"]) == 1
    assert server.get("/plan?target=nonsense").problem == "invalid-value"
