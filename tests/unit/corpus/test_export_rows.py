"""The rows of an export agree with the explanations of pages."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import recrawl
from recrawl.corpus import EXPORT_SCHEMA


def test_a_row_says_what_an_explanation_says(tmp_path: Path) -> None:
    config = recrawl.CorpusConfig.from_dict(
        {"corpus": {"partitions": 2}, "budget": {"rate": "1/h"}}
    )
    urls = [f"https://h{i % 4}.example/{i}" for i in range(20)]
    with recrawl.open(tmp_path, config) as corpus:
        corpus.add(urls, importance=np.arange(1, 21), cost=2)
        corpus.set(urls[3:5], kind="shop", min_age="1h", stale_for="1d", stale_probability=0.1)
        for url in urls[:10]:
            for at_ms in (1_700_000_000_000, 1_750_000_000_000):
                outcome = recrawl.Outcome(url=url, changed=True, fetched_at_ms=at_ms, etag=b"\xe9")
                corpus.report(outcome)
        corpus.signal(urls[:3], source="feed")
        table = pa.Table.from_batches(corpus.export_batches(), schema=EXPORT_SCHEMA)
        rows = {row["url"]: row for row in table.to_pylist()}
        assert set(rows) == set(urls)
        for url, row in rows.items():
            page = corpus.explain(url)
            assert page is not None
            state = page.state
            assert row["host"] == page.group
            assert row["kind"] == page.kind
            assert row["status"] == state.status.name.lower()
            assert row["fetched_at_ms"] == state.fetched_at_ms
            assert row["importance"] == pytest.approx(state.importance, rel=1e-5)
            assert row["cost"] == pytest.approx(state.cost, rel=1e-5)
            rate = state.change_rate_per_second * 86_400
            assert row["change_rate_per_day"] == pytest.approx(rate, rel=1e-3)
            low, high = state.change_period_seconds_low, state.change_period_seconds_high
            assert row["change_period_days_low"] == pytest.approx(low / 86_400, rel=1e-5)
            assert row["change_period_days_high"] == pytest.approx(high / 86_400, rel=1e-5)
            fresh = state.freshness_probability
            assert row["freshness_probability"] == pytest.approx(fresh, rel=1e-3)
            assert (row["stale_probability"] is not None) == (url in urls[3:5])
            assert row["etag"] == ("é" if url in urls[:10] else None)


def test_an_empty_corpus_exports_no_rows(tmp_path: Path) -> None:
    with recrawl.open(tmp_path) as corpus:
        assert list(corpus.export_batches()) == []
