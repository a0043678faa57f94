"""Bodies that are wrong, huge or meant to harm get an answer that says so, and nothing else."""

import gzip
import json
import random
import socket
import time
import zlib
from http.client import HTTPConnection
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from recrawl.corpus import Corpus
from recrawl.service.formats.arrow_bodies import read_arrow
from recrawl.service.formats.row_kinds import OUTCOME_ROWS, PAGE_ROWS
from recrawl.service.formats.rows import ARROW, JSON, NDJSON, read_rows
from recrawl.service.limits import ServiceLimits
from recrawl.service.problems import Problem
from tests.unit.service.conftest import URLS
from tests.unit.service.running_server import RunningServer
from tests.unit.service.test_pages import arrow_bytes, arrow_rows

LIMITS = ServiceLimits()
DEEP = b"[" * 100_000
WRONG_JSON: list[bytes] = [
    b"",
    b"null",
    b"{",
    b"[",
    b"[{]",
    b'[{"url": "https://a.example/"},]',
    b"\xff\xfe",
    b'["https://a.example/"]',
    b'[{"url": 7}]',
    b'[{"url": null}]',
    b"[{}]",
    b'[{"url": "https://a.example/", "colour": 1}]',
    b'[{"url": "https://a.example/", "importance": -1}]',
    b'[{"url": "https://a.example/", "importance": 1e300}]',
    b'[{"url": "https://a.example/", "importance": NaN}]',
    b'[{"url": "https://a.example/", "importance": "2"}]',
    b'[{"url": "https://a.example/", "metadata": []}]',
    b'[{"url": "https://a.example/", "doc_id": {}}]',
    DEEP,
    b'[{"url": "https://a.example/", "metadata": {"a": ' + DEEP,
    b'{"url": "https://a.example/"}',
]


@pytest.mark.parametrize("body", WRONG_JSON, ids=lambda body: repr(body[:40]))
def test_a_wrong_body_is_refused(server: RunningServer, corpus: Corpus, body: bytes) -> None:
    answer = server.post("/pages", body, Content_Type="application/json")
    assert answer.status in (400, 422), answer
    assert answer.problem in ("invalid-body", "invalid-value")
    assert corpus.n_pages == 0


def test_rows_with_odd_texts_are_refused_alone(server: RunningServer, corpus: Corpus) -> None:
    odd = ["", "\x00", "https://a.example/\x00b", "x" * 100_000, "javascript:alert(1)", "//a", "é"]
    rows: list[dict[str, Any]] = [{"url": text} for text in odd]
    rows += [{"url": "https://b.example/", "doc_id": "x" * 300}]
    rows += [{"url": "https://c.example/", "metadata": {"a": "x" * 9_000}}]
    rows += [{"url": "https://d.example/"}]
    answer = server.post("/pages", rows)
    assert answer.json["counts"] == {"done": 1, "refused": len(rows) - 1}
    assert corpus.n_pages == 1
    lone = b'[{"url": "https://a.example/\\ud800"}]'
    assert server.post("/pages", lone, Content_Type="application/json").status in (200, 400)
    assert corpus.n_pages == 1


def test_unknown_formats_paths_and_methods(server: RunningServer) -> None:
    for kind in ("text/plain", "", "application/xml", "multipart/form-data"):
        answer = server.post("/pages", b"[]", Content_Type=kind)
        assert (answer.status, answer.problem) == (415, "unknown-format")
        assert "application/json" in answer.headers["accept"]
    arrow = server.post("/orders/release", b"", Content_Type=ARROW)
    assert arrow.problem == "unknown-format"
    answer = server.post("/pages", b"[]", Content_Type=JSON, Content_Encoding="br")
    assert (answer.status, answer.problem) == (415, "unknown-format")
    assert server.get("/nothing").problem == "unknown-path"
    assert server.request("DELETE", "/v1/corpora/news/stats").problem == "wrong-method"
    answer = server.request("DELETE", "/v1/corpora/news/pages")
    assert answer.headers["allow"] == "GET, PATCH, POST"
    assert server.request("POST", "/v1/corpora/news/hosts/a").headers["allow"] == "GET, PATCH"
    assert server.request("GET", "/v1/corpora/other/stats").problem == "unknown-corpus"
    assert server.request("GET", "/v1/corpora/%00/stats").status in (404, 422)
    assert server.request("GET", "/v1/corpora/" + "x" * 500 + "/stats").problem == "invalid-value"


def test_compressed_bodies_are_read(server: RunningServer, corpus: Corpus) -> None:
    body = gzip.compress(json.dumps([{"url": url} for url in URLS]).encode())
    answer = server.post("/pages", body, Content_Type=JSON, Content_Encoding="gzip")
    assert answer.json["counts"] == {"done": len(URLS)}
    for wrong in (b"", b"\x1f\x8b", body[:-4], body + b"x", body[:20] + b"zz" + body[22:], b"[]"):
        answer = server.post("/pages", wrong, Content_Type=JSON, Content_Encoding="gzip")
        assert answer.problem == "invalid-body"


def test_a_bomb_is_refused_before_it_unpacks(corpus: Corpus) -> None:
    limits = ServiceLimits(body_bytes_max=3 << 20)
    bomb = zlib.compressobj(9, wbits=31)
    packed = bomb.compress(b" " * (200 << 20)) + bomb.flush()
    assert len(packed) < limits.body_bytes_max
    with RunningServer({"news": corpus}, limits=limits) as server:
        answer = server.post("/pages", packed, Content_Type=JSON, Content_Encoding="gzip")
        assert (answer.status, answer.problem) == (413, "body-too-large")
        assert server.app.state.service.memory.n_held == 0
        exact = b"[" + b" " * ((3 << 20) - 2) + b"]"
        sent = {"Content_Type": JSON, "Content_Encoding": "gzip"}
        assert server.post("/pages", gzip.compress(exact), **sent).status == 200
        assert server.post("/pages", gzip.compress(exact + b" "), **sent).status == 413


def test_requests_that_are_cut_off_leave_nothing(server: RunningServer) -> None:
    head = b"POST /v1/corpora/news/pages HTTP/1.1\r\nHost: localhost\r\n"
    for request in (
        head + b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n[{",
        head + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n[{",
        head + b"Content-Length: nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
            client.sendall(request)
    assert server.request("GET", "/healthz").status == 200
    ends_at = time.monotonic() + 20  # the server may notice the end of a connection a moment later
    while server.app.state.service.memory.n_held and time.monotonic() < ends_at:
        time.sleep(0.01)
    assert server.app.state.service.memory.n_held == 0


def test_a_length_beyond_the_limit_is_refused_before_the_body(server: RunningServer) -> None:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.putrequest("POST", "/v1/corpora/news/pages")
    connection.putheader("Content-Type", JSON)
    connection.putheader("Content-Length", str(10**12))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


# ---------------------------------------------------------------------------- Arrow


def wrong_tables() -> dict[str, bytes]:
    url = pa.array(["https://a.example/"])
    n_rows = LIMITS.rows_max + 1
    return {
        "nothing": b"",
        "noise": bytes(range(256)) * 4,
        "a compressed buffer": arrow_bytes(
            pa.table({"url": ["x" * 10_000] * 100}),
            options=pa.ipc.IpcWriteOptions(compression="zstd"),
        ),
        "a dictionary": arrow_bytes(pa.table({"url": url.dictionary_encode()})),
        "views of texts": arrow_bytes(pa.table({"url": url.cast(pa.string_view())})),
        "a list": arrow_bytes(pa.table({"url": pa.array([["https://a.example/"]])})),
        "runs": arrow_bytes(
            pa.table({"url": pa.RunEndEncodedArray.from_arrays(pa.array([10**6], pa.int32()), url)})
        ),
        "no url": arrow_bytes(pa.table({"key": url})),
        "another column": arrow_bytes(pa.table({"url": url, "colour": url})),
        "a column twice": arrow_bytes(pa.Table.from_arrays([url, url], ["url", "url"])),
        "numbers as url": arrow_bytes(pa.table({"url": [1]})),
        "texts as importance": arrow_bytes(pa.table({"url": url, "importance": ["1"]})),
        "negative importance": arrow_bytes(pa.table({"url": url, "importance": [-1.0]})),
        "infinite importance": arrow_bytes(pa.table({"url": url, "importance": [np.inf]})),
        "too many rows": arrow_bytes(pa.table({"url": pa.nulls(n_rows, pa.string())})),
        "too many rows of nothing": arrow_bytes(pa.table({"url": pa.nulls(10**9)})),
        "texts that are not UTF-8": arrow_bytes(
            pa.table({"url": pa.array([b"\xff\xfe"]).view(pa.string())})
        ),
    }


@pytest.mark.parametrize("name", wrong_tables())
def test_a_wrong_table_is_refused(server: RunningServer, corpus: Corpus, name: str) -> None:
    answer = server.post("/pages", wrong_tables()[name], Content_Type=ARROW)
    assert answer.status in (400, 413, 415, 422), answer
    assert answer.problem
    assert corpus.n_pages == 0


def test_null_and_nan_mean_no_value(server: RunningServer, corpus: Corpus) -> None:
    table = pa.table(
        {
            "url": [*URLS[:3], None],
            "importance": pa.array([np.nan, None, 4.0, 1.0], pa.float32()),
            "doc_id": pa.nulls(4),
        }
    )
    answer = server.post("/pages", arrow_bytes(table), Content_Type=ARROW)
    assert answer.json["status"] == ["done", "done", "done", "refused"]
    page = corpus.explain(URLS[2])
    assert page is not None
    assert page.as_dict()["importance"] == pytest.approx(4.0, rel=0.1)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return data with a few bytes changed, repeated, removed or cut off."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        if not changed:
            break
        at = rng.randrange(len(changed))
        match rng.randrange(5):
            case 0:
                changed[at] = rng.randrange(256)
            case 1:
                del changed[at : at + rng.randint(1, 8)]
            case 2:
                changed[at:at] = changed[at : at + rng.randint(1, 64)]
            case 3:
                del changed[at:]
            case _:
                changed[at : at + 4] = rng.choice([b"\xff" * 4, b"\x00" * 4, b"\x7f\xff\xff\xff"])
    return bytes(changed)


OUTCOMES: list[dict[str, Any]] = [
    {"handle": 4096, "status": 200, "digest": "abc", "etag": '"x"', "divergence": 0.5},
    {"url": URLS[0], "fetched_at_ms": 1_700_000_000_000, "status": 404, "moved_to": URLS[1]},
]


def test_mutated_bodies_are_read_or_refused(seed: int) -> None:
    rng = random.Random(seed)
    rows = [{"url": url, "importance": 2.0, "doc_id": "d"} for url in URLS]
    wholes = [
        (PAGE_ROWS, JSON, json.dumps([*rows, {"url": "x", "metadata": {"a": [1]}}]).encode()),
        (PAGE_ROWS, NDJSON, "\n".join(map(json.dumps, rows)).encode()),
        (PAGE_ROWS, ARROW, arrow_rows(rows)),
        (OUTCOME_ROWS, JSON, json.dumps(OUTCOMES).encode()),
        (OUTCOME_ROWS, ARROW, arrow_rows(OUTCOMES)),
    ]
    n_refused = 0
    for _ in range(2_000):
        for kind, format, whole in wholes:
            try:
                found = read_rows(mutated(whole, rng), format, kind, LIMITS)
                for name in kind.columns:
                    if format == ARROW or name in kind.row.__struct_fields__:
                        found.column(name)
            except Problem:
                n_refused += 1
    assert n_refused > 500


def test_every_prefix_of_a_table_is_refused_or_shorter() -> None:
    whole = arrow_rows([{"url": url, "importance": 1.0} for url in URLS])
    for n in range(len(whole)):
        try:
            assert read_arrow(whole[:n], PAGE_ROWS, 100).num_rows <= len(URLS)
        except Problem:
            continue


def test_mutated_requests_never_fail_the_server(server: RunningServer, corpus: Corpus) -> None:
    corpus.add(URLS)
    rng = random.Random(7)
    bodies = [
        ("/pages", JSON, json.dumps([{"url": url, "importance": 1} for url in URLS[:3]]).encode()),
        ("/pages", ARROW, arrow_rows([{"url": url, "doc_id": "x"} for url in URLS[:3]])),
        ("/outcomes", JSON, json.dumps(OUTCOMES).encode()),
        ("/outcomes", ARROW, arrow_rows(OUTCOMES)),
        ("/signals?source=s", JSON, json.dumps([{"url": URLS[0], "at_ms": 5}]).encode()),
        ("/requests", JSON, json.dumps([{"url": URLS[0], "n_requests": 5}]).encode()),
        ("/orders/by-url", JSON, json.dumps([{"url": URLS[0]}]).encode()),
        ("/orders/extend", JSON, b'{"handles": [4096], "seconds": 60}'),
        ("/pages/settings", JSON, b'{"urls": ["x"], "settings": {"max_age": "6h"}}'),
    ]
    connection = HTTPConnection("127.0.0.1", server.port, timeout=30)
    for _ in range(60):
        for path, format, body in bodies:
            headers = {"Content-Type": format}
            connection.request("POST", f"/v1/corpora/news{path}", mutated(body, rng), headers)
            answer = connection.getresponse()
            data = answer.read()
            assert answer.status < 500, (path, body, data)
            if answer.status != 200:
                assert json.loads(data)["type"].startswith("urn:recrawl:problem:")
            if answer.getheader("connection") == "close":
                connection.close()
    connection.close()
    assert server.get("/stats").status == 200
