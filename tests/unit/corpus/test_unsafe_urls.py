"""Nothing that a fetcher sends back to a server can split a request."""

from collections.abc import Callable
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

from recrawl.corpus import Corpus, Outcome
from recrawl.readers import OBSERVED
from recrawl.store import StoreBatch
from tests.manual_clock import ManualClock

Open: TypeAlias = Callable[..., Corpus]
CONTROLS = [*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0))]


def fetch_urls(corpus: Corpus) -> dict[str, str]:
    return {order.url: order.fetch_url for order in corpus.lease(1_000)}


def test_urls_with_control_characters_are_refused(open_corpus: Open) -> None:
    corpus = open_corpus()
    urls = [f"https://a.example/{i}{control}b" for i, control in enumerate(CONTROLS)]
    splitting = "https://a.example/ HTTP/1.1\r\nHost: b.example\r\n\r\nGET /secret"
    added = corpus.add([*urls, splitting, "https://a.example/ok"])
    assert (added.n_added, added.n_refused) == (1, len(urls) + 1)
    assert fetch_urls(corpus) == {"https://a.example/ok": "https://a.example/ok"}
    # They name no page elsewhere either.
    assert corpus.signal(["https://a.example/o\nk"], source="feed") == 0
    assert corpus.requests(["https://a.example/o\tk"]) == 0


def test_a_url_that_cannot_be_sent_as_it_is_is_sent_in_canonical_form(open_corpus: Open) -> None:
    corpus = open_corpus()
    given = {
        "https://a.example/b c": "https://a.example/b%20c",
        "  https://a.example/ends\r\n": "https://a.example/ends",
        "https://b\u00fccher.example/\u00e9": "https://xn--bcher-kva.example/%C3%A9",
        "https://A.example/Case#top": "https://A.example/Case#top",
    }
    assert corpus.add(list(given)).n_added == 4
    assert sorted(fetch_urls(corpus).values()) == sorted(given.values())


def test_a_url_stored_by_an_earlier_version_is_sent_in_canonical_form(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(["https://a.example/x%20y"])
    store = corpus.nodes[0].store
    page = store.pages_of(pa.array(["https://a.example/x%20y"]))
    batch = StoreBatch()
    batch.add_pages(page, store.urls_of(page), pa.array(["https://a.example/x y\r\nX: 1"]))
    nothing, text = pa.nulls(1, pa.binary()), pa.array([b'"1"\r\nX: 1'], pa.binary())
    batch.add_content(page, nothing, text, text, nothing, nothing, pa.nulls(1, pa.string()))
    store.write(batch, store.position)
    (order,) = corpus.lease(1)
    assert order.fetch_url == "https://a.example/x%20y"
    assert order.etag is order.last_modified is None


@pytest.mark.parametrize("value", ['"1"\r\nX-Evil: 1', "\x00", "a\tb", "x\x7f", "a\n"])
@pytest.mark.parametrize("as_table", [False, True])
def test_headers_with_control_characters_are_not_stored(
    open_corpus: Open, clock: ManualClock, value: str, as_table: bool
) -> None:
    corpus = open_corpus()
    urls = ["https://a.example/1", "https://a.example/2"]
    corpus.add(urls)
    header = value.encode()
    rows: list[dict[str, Any]] = [
        {"url": urls[0], "digest": b"1", "etag": header, "last_modified": header},
        {"url": urls[1], "digest": b"1", "etag": b'"\xe9"', "last_modified": b"yesterday"},
    ]
    rows[0]["moved_to"] = f"https://b.example/{value}!"
    rows[1]["moved_to"] = "https://b.example/"
    done = corpus.report(
        pa.Table.from_pylist(rows) if as_table else [Outcome(**row) for row in rows]
    )
    assert done.counted.all()
    assert done.has_dropped.tolist() == [True, False]
    clock.pass_seconds(86_400 * 400)
    orders = {order.url: order for order in corpus.lease(2)}
    assert (orders[urls[0]].etag, orders[urls[0]].last_modified) == (None, None)
    assert (orders[urls[1]].etag, orders[urls[1]].last_modified) == (b'"\xe9"', b"yesterday")
    moved = [row["moved_to"] for batch in corpus.export_batches() for row in batch.to_pylist()]
    assert sorted(moved, key=str) == [None, "https://b.example/"]


def test_an_import_refuses_urls_with_control_characters(open_corpus: Open) -> None:
    corpus = open_corpus()
    schema_rows = {
        "url": ["https://a.example/\r\nb", "https://a.example/ok"],
        "at_ms": [1, 1],
        "status": [200, 200],
        "changed": [True, True],
        "digest": [b"1", b"1"],
        "importance": [1.0, 1.0],
    }
    arrays = [pa.array(schema_rows.get(field.name, [None, None]), field.type) for field in OBSERVED]
    with corpus.import_crawl() as crawl:
        crawl.add_batch(pa.record_batch(arrays, schema=OBSERVED))
    assert [order.url for order in corpus.lease(10)] == ["https://a.example/ok"]
