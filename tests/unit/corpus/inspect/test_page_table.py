"""The table of all pages agrees with the explanation of each page."""

import asyncio
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from recrawl import AsyncCorpus, Outcome
from recrawl.corpus import Corpus
from recrawl.corpus.inspect.page_table import PAGE_COLUMNS
from tests.manual_clock import ManualClock

Open = Callable[..., Corpus]
DAY = 86_400.0
URLS = [f"https://h{i % 7}.example/{'news' if i % 3 else 'docs'}/{i}" for i in range(90)]


def eventful(open_corpus: Open, clock: ManualClock) -> Corpus:
    """Return a corpus in which much has happened: its pages differ in every column."""
    news = {"match": "/news/*", "kind": "news", "importance": 4}
    corpus = open_corpus(pattern=[news], budget={"rate": "50/h", "burst": "1h"})
    rng = np.random.default_rng(3)
    corpus.add(URLS, cost=rng.uniform(0.5, 2.0, len(URLS)))
    corpus.add(["https://H1.example/given differently"])
    corpus.set(URLS[:5], min_age="1h", max_age="2d", importance=9)
    corpus.set(URLS[5:8], stale_for="1d", stale_probability=0.1)
    corpus.set(URLS[8:10], doc_id="mine", metadata={"n": 1})
    for _ in range(6):
        orders = corpus.lease(40)
        corpus.report(
            [
                Outcome(
                    handle=order.handle,
                    status=404 if rng.random() < 0.1 else 503 if rng.random() < 0.1 else 200,
                    digest=bytes([int(rng.integers(4))]),
                    etag=b'"a"',
                    last_modified=b"Sun, 06 Nov 1994 08:49:37 GMT",
                )
                for order in orders[5:]
            ]
        )
        corpus.signal(URLS[20:40], source="sitemap")
        clock.pass_seconds(DAY / 3)
    corpus.report(Outcome(url=URLS[-1], status=301, moved_to="https://h1.example/moved"))
    corpus.remove(URLS[80:85])
    corpus.add(["https://h9.example/in-a-slot-used-again"])
    corpus.lease(3)
    return corpus


def test_each_row_is_what_explain_says(open_corpus: Open, clock: ManualClock) -> None:
    corpus = eventful(open_corpus, clock)
    table = pa.Table.from_batches(corpus.pages(batch=16))
    assert table.num_rows == corpus.stats().n_pages
    assert table.schema == PAGE_COLUMNS
    for row in table.to_pylist():
        known = corpus.explain(row["url"])
        assert known is not None
        state = known.state
        exact = {
            "fetch_url": known.fetch_url,
            "etag": known.etag,
            "last_modified": known.last_modified,
            "moved_to": known.moved_to,
            "doc_id": known.doc_id,
            "key": known.key,
            "group": known.group,
            "kind": known.kind,
            "status": state.status.name.lower(),
            "added_at_ms": state.added_at_ms,
            "fetched_at_ms": state.fetched_at_ms,
            "errors": state.errors,
            "is_in_flight": state.lease is not None,
            "interval_seconds_min": state.interval_seconds_min,
            "interval_seconds_max": (
                state.interval_seconds_max if math.isfinite(state.interval_seconds_max) else None
            ),
        }
        assert {name: row[name] for name in exact} == exact
        for name in ("importance", "cost", "belief_shape", "belief_seconds", "value"):
            assert row[name] == pytest.approx(getattr(state, name), rel=1e-12)
        for name in ("change_rate_per_second", "freshness_probability"):
            assert row[name] == pytest.approx(getattr(state, name), rel=1e-12)
        assert (row["due_at_ms"] is None) == (state.due_at_ms is None)
        assert row["due_at_ms"] is None or abs(row["due_at_ms"] - state.due_at_ms) <= 1


def test_the_pages_of_the_test_above_differ_in_every_column(
    open_corpus: Open, clock: ManualClock
) -> None:
    table = pa.Table.from_batches(eventful(open_corpus, clock).pages())
    for name in PAGE_COLUMNS.names:
        # Only a corpus grouped by key has keys.
        assert len(table[name].unique()) > 1 or name == "key", name


@pytest.mark.parametrize("batch", [1, 7, 64, 100_000])
def test_batches_of_any_size_hold_the_same_pages(
    open_corpus: Open, clock: ManualClock, batch: int
) -> None:
    corpus = open_corpus(corpus={"partitions": 3})
    corpus.add(URLS)
    corpus.remove(URLS[10:20])
    batches = list(corpus.pages(["url", "group", "status"], batch=batch))
    assert max(part.num_rows for part in batches) <= batch
    assert min(part.num_rows for part in batches) > 0
    urls = pa.Table.from_batches(batches)["url"].to_pylist()
    assert sorted(urls) == sorted(URLS[:10] + URLS[20:])


def test_columns_can_be_chosen_also_without_urls(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    corpus.remove(URLS[:3])
    (found,) = corpus.pages(["status", "importance", "kind"])
    assert found.schema.names == ["status", "importance", "kind"]
    assert found.num_rows == len(URLS) - 3
    assert found["status"].unique().to_pylist() == ["new"]


def test_a_corpus_without_pages_has_no_batches(open_corpus: Open) -> None:
    assert list(open_corpus().pages()) == []


def test_a_reader_gives_the_same_table(open_corpus: Open, clock: ManualClock) -> None:
    writer = eventful(open_corpus, clock)
    clock.pass_seconds(5)
    writer.nodes[0].tick(writer.time)  # which puts the price on record
    reader = open_corpus(read_only=True)
    expected = pa.Table.from_batches(writer.pages())
    assert pa.Table.from_batches(reader.pages()).equals(expected)


def test_a_page_unknown_to_the_shard_or_the_store_of_a_reader_is_left_out(
    open_corpus: Open,
) -> None:
    writer = open_corpus()
    writer.add(URLS[:10])
    reader = open_corpus(read_only=True)
    writer.remove(URLS[:4])
    writer.add(["https://h0.example/new", *URLS[20:30]])
    reader.nodes[0].follow()  # the shard is ahead of the store
    left = pa.Table.from_batches(reader.pages())["url"].to_pylist()
    assert sorted(left) == sorted(URLS[4:10])
    reader.refresh()
    assert sum(part.num_rows for part in reader.pages(["url"])) == writer.stats().n_pages


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"columns": ["url", "colour"]}, "got \\['colour'\\]"),
        ({"columns": []}, "columns must be some of"),
        ({"batch": 0}, "batch must be 1 to"),
        ({"batch": 1 << 30}, "batch must be 1 to"),
    ],
)
def test_unknown_columns_and_bad_batch_sizes_are_rejected_at_once(
    open_corpus: Open, asked: dict[str, object], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        open_corpus().pages(**asked)  # type: ignore[arg-type]


def test_the_asyncio_corpus_yields_the_same(tmp_path: Path) -> None:
    async def urls() -> list[str]:
        async with AsyncCorpus(tmp_path) as corpus:
            await corpus.add(URLS)
            batches = [part async for part in corpus.pages(["url"], batch=20)]
        assert len(batches) > 1
        return [url for part in batches for url in part["url"].to_pylist()]

    assert sorted(asyncio.run(urls())) == sorted(URLS)
