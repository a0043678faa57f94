"""Figures for monitoring agree with the statistics."""

import threading
from collections.abc import Callable

import numpy as np
import pytest

from recrawl.corpus import Corpus, Outcome
from recrawl.corpus.inspect.page_sample import sample_slots
from recrawl.corpus.monitoring import metrics
from tests.manual_clock import ManualClock

URLS = [f"https://site{i}.example/{j}" for i in range(6) for j in range(5)]
SAME = (
    *("n_pages", "n_due", "in_flight", "n_ordered", "n_outcomes", "n_polls", "n_changed"),
    *("n_signals", "n_void", "pages_by_status"),
    *("budget_unit", "budget_per_second", "run_budget", "credit"),
)


def test_they_are_those_of_the_statistics(
    open_corpus: Callable[..., Corpus], clock: ManualClock
) -> None:
    corpus = open_corpus(budget={"rate": "36000/h"}, corpus={"partitions": 3})
    corpus.add(URLS)
    before = corpus.metrics()
    assert before.demand_per_second is None
    assert before.snapshot_age_seconds is None
    clock.pass_seconds(10)
    orders = corpus.lease(12)
    answers = [200, 200, 404, 503]
    corpus.report(
        [
            Outcome(handle=o.handle, status=s, digest=b"x")
            for o, s in zip(orders, answers, strict=False)
        ]
    )
    corpus.signal(URLS[:3], source="sitemap")
    clock.pass_seconds(3_600)
    found, stats = corpus.metrics(), corpus.stats()
    for name in SAME:
        assert getattr(found, name) == getattr(stats, name), name
    assert found.freshness_modelled == pytest.approx(stats.freshness_modelled)
    assert found.weighted_freshness_modelled == pytest.approx(stats.weighted_freshness_modelled)
    assert found.price == pytest.approx(stats.price)
    assert found.demand_per_second is not None
    by_verdict = {name: n for name, n in found.outcomes_by_verdict.items() if n}
    assert by_verdict == {"changed": 2, "gone": 1, "transient_error": 1}
    assert found.log_lag_records == 0
    assert found.n_records_since_snapshot > 0


def test_the_age_of_snapshots_is_known_after_a_restart(
    open_corpus: Callable[..., Corpus], clock: ManualClock
) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    corpus.snapshot()
    clock.pass_seconds(60)
    found = corpus.metrics()
    assert (found.snapshot_age_seconds, found.n_records_since_snapshot) == (60, 0)
    corpus.close()
    assert open_corpus().metrics().snapshot_age_seconds is not None


def test_a_sample_represents_the_pages_that_are_fetched(
    open_corpus: Callable[..., Corpus],
) -> None:
    corpus = open_corpus()
    corpus.add([f"https://site{i % 50}.example/{i}" for i in range(3_000)])
    corpus.remove([f"https://site{i % 50}.example/{i}" for i in range(1_000)])
    tables = corpus.nodes[0].shard.tables
    every = sample_slots(tables, 10_000)
    assert every.is_all
    assert every.slot.size == 2_000
    some = sample_slots(tables, 300)
    assert some.n_pages.sum() == pytest.approx(2_000, rel=0.02)
    assert np.isin(some.slot, every.slot).all()


def test_no_lock_is_held_between_pieces(
    open_corpus: Callable[..., Corpus], monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    monkeypatch.setattr(metrics, "_SLOTS_AT_ONCE", 4)
    free = []

    def look(*_: object) -> None:
        def take() -> None:
            with corpus.nodes[0].lock:
                free.append(True)

        asked = threading.Thread(target=take)
        asked.start()
        asked.join(300)

    monkeypatch.setattr(metrics, "_log_lag", look)
    found = corpus.metrics()
    assert sum(found.pages_by_status.values()) == len(URLS)
    assert free == [True]
