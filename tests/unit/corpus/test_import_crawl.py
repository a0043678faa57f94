"""Importing the fetch log of an earlier crawl."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import recrawl
from recrawl.corpus import Corpus
from recrawl.corpus import import_crawl as history
from recrawl.corpus.import_crawl import CrawlImport, ImportCounts

DAY_MS = 86_400_000
START_MS = 1_700_000_000_000
OBSERVED = pa.schema(
    [
        ("url", pa.string()),
        ("at_ms", pa.int64()),
        ("digest", pa.binary()),
        ("changed", pa.bool_()),
        ("status", pa.int16()),
        ("importance", pa.float64()),
    ]
)
URL = "https://a.example/"


def observed(*rows: dict[str, Any]) -> pa.RecordBatch:
    whole = [{name: row.get(name) for name in OBSERVED.names} for row in rows]
    return pa.RecordBatch.from_pylist(whole, OBSERVED)


def fetch(day: float, **columns: Any) -> dict[str, Any]:
    return {"url": URL, "at_ms": START_MS + round(day * DAY_MS)} | columns


def learned(corpus: Corpus, *batches: pa.RecordBatch) -> ImportCounts:
    with CrawlImport(corpus) as old:
        for batch in batches:
            old.add_batch(batch)
        *_, last = old.learn()
    return last


def changes(corpus: Corpus) -> list[str]:
    return [change.what.name for change in corpus.changes()]


def test_fetches_in_any_order_are_learned_in_order_of_time(tmp_path: Path) -> None:
    digests = [b"1", b"1", b"2", b"2", b"3"]
    rows = [fetch(day, digest=digest) for day, digest in enumerate(digests)]
    shuffled = [rows[i] for i in (3, 0, 4, 2, 1)]
    with recrawl.open(tmp_path) as corpus:
        found = learned(corpus, observed(*shuffled[:2]), observed(*shuffled[2:]))
        assert (found.n_pages, found.n_fetches, found.n_changed) == (1, 5, 2)
        assert (found.from_ms, found.until_ms) == (START_MS, START_MS + 4 * DAY_MS)
        assert changes(corpus) == ["NEW", "CHANGED", "CHANGED"]


@pytest.mark.parametrize("rows_in_memory", [1, 100, 4_000_000])
def test_an_import_learns_what_single_reports_would_teach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_in_memory: int
) -> None:
    monkeypatch.setattr(history, "ROWS_IN_MEMORY_MAX", rows_in_memory)
    monkeypatch.setattr(history, "_ROWS_PER_REPORT", 7)
    rng = np.random.default_rng(5)
    rows = [
        {
            "url": f"https://h{page % 3}.example/{page}",
            "at_ms": START_MS + k * DAY_MS + page,
            "digest": bytes([int(rng.integers(4))]),
            "status": int(rng.choice([200, 200, 200, 304, 404, 301])),
        }
        for k in range(12)
        for page in range(9)
    ]
    for row in rows:
        if row["status"] != 200:
            row["digest"] = None
    urls = sorted({str(row["url"]) for row in rows})
    config = recrawl.CorpusConfig.from_dict({"corpus": {"partitions": 2}})
    with (
        recrawl.open(tmp_path / "at-once", config) as at_once,
        recrawl.open(tmp_path / "one-by-one", config) as one_by_one,
    ):
        found = learned(at_once, *(observed(*rows[i : i + 30]) for i in range(0, len(rows), 30)))
        one_by_one.add(urls)
        for row in rows:
            at_ms = row.pop("at_ms")
            outcome: Any = row | {"fetched_at_ms": at_ms}
            one_by_one.report(recrawl.Outcome(**outcome))
        assert found.n_fetches == len(rows)
        assert at_once.stats().n_changed == one_by_one.stats().n_changed
        for url in urls:
            ours, theirs = at_once.explain(url), one_by_one.explain(url)
            assert ours is not None
            assert theirs is not None
            assert ours.state.status == theirs.state.status
            assert ours.state.fetched_at_ms == theirs.state.fetched_at_ms
            assert ours.state.belief_shape == pytest.approx(theirs.state.belief_shape, rel=0.02)
            assert ours.state.belief_seconds == pytest.approx(theirs.state.belief_seconds, rel=0.02)
    assert not list(tmp_path.glob("*/.import-*"))


def test_a_second_file_continues_after_the_first(tmp_path: Path) -> None:
    with recrawl.open(tmp_path) as corpus:
        learned(
            corpus, observed(fetch(0, digest=b"1"), fetch(1, digest=b"2"), fetch(2, status=304))
        )
        found = learned(
            corpus,
            observed(
                fetch(1.5, digest=b"9"),
                fetch(3, digest=b"2"),
                fetch(4, digest=b"3"),
            ),
        )
        assert (found.n_added, found.n_fetches, found.n_void, found.n_changed) == (0, 2, 1, 1)


def test_a_page_that_returns_to_an_earlier_version_is_reverted(tmp_path: Path) -> None:
    with recrawl.open(tmp_path) as corpus:
        learned(corpus, observed(*(fetch(day, digest=bytes([day % 2])) for day in range(6))))
        assert changes(corpus) == ["NEW", "CHANGED", *["REVERTED"] * 4]


def test_a_log_can_have_its_own_flags_of_changes(tmp_path: Path) -> None:
    with recrawl.open(tmp_path) as corpus:
        found = learned(
            corpus,
            observed(*(fetch(day, changed=bool(day % 2), importance=4.0) for day in range(6))),
        )
        assert found.n_changed == 3
        page = corpus.explain(URL)
        assert page is not None
        assert page.state.importance == pytest.approx(4, rel=0.01)


def test_fetches_that_teach_nothing_are_counted(tmp_path: Path) -> None:
    with recrawl.open(tmp_path) as corpus:
        found = learned(
            corpus,
            observed(
                fetch(0, digest=b"1"),
                fetch(0.000001, digest=b"2"),  # within the same second
                fetch(1, status=503),
                fetch(2, status=0),
                fetch(3),
                {"url": "mailto:x@y", "at_ms": START_MS, "digest": b"1"},
                fetch(4, digest=b"2", importance=-1.0),
            ),
        )
        assert found[2:8] == (2, 0, 2, 1, 1, 1)
        group = corpus.explain(URL)
        assert group is not None
        assert group.state.errors == 0  # of long ago


def test_an_empty_crawl_teaches_nothing(tmp_path: Path) -> None:
    with recrawl.open(tmp_path) as corpus:
        assert learned(corpus) == (0, 0, 0, 0, 0, 0, 0, 0, None, None)


def test_importance_is_set_page_by_page(tmp_path: Path) -> None:
    with recrawl.open(tmp_path) as corpus:
        corpus.add([URL, "https://b.example/"])
        urls = pa.array([URL, "https://unknown.example/", "https://b.example/", "no url"])
        assert corpus.set_each(urls, importance=np.array([3.0, 4.0, 5.0, 6.0])) == 2
        page = corpus.explain("https://b.example/")
        assert page is not None
        assert page.state.importance == pytest.approx(5, rel=0.01)
