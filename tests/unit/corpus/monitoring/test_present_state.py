"""The present state of a corpus agrees with its statistics, and can be added up."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from recrawl.client.answers import read_sample
from recrawl.corpus import Corpus, Histogram, Outcome
from recrawl.corpus import corpus as corpus_module
from recrawl.corpus.monitoring import present
from recrawl.corpus.monitoring.present import merge_samples
from recrawl.messages.samples import DURATION_EDGES_SECONDS, FRESHNESS_EDGES, HISTOGRAMS
from recrawl.service.formats.answers import json_answer
from recrawl.shard.figures import page_sums, sum_pages
from tests.manual_clock import ManualClock

Open = Callable[..., Corpus]
URLS = [f"https://site{i}.example/{j}" for i in range(6) for j in range(i + 1)]


def used_corpus(open_corpus: Open, clock: ManualClock, **sections: object) -> Corpus:
    """Return a corpus some of whose pages have been fetched."""
    corpus = open_corpus(budget={"rate": "36000/h"}, **sections)
    corpus.add(URLS)
    corpus.set(URLS[:4], kind="news")
    clock.pass_seconds(10)
    orders = corpus.lease(12)
    answers = [200, 200, 200, 404, 503]
    corpus.report(
        [
            Outcome(handle=one.handle, status=status, digest=b"x")
            for one, status in zip(orders, answers, strict=False)
        ]
    )
    corpus.signal(URLS[:3], source="sitemap")
    clock.pass_seconds(3_600)
    return corpus


@pytest.mark.parametrize("rate", ["36000/h", "unlimited"])
def test_it_is_that_of_the_statistics(open_corpus: Open, clock: ManualClock, rate: str) -> None:
    corpus = used_corpus(open_corpus, clock, corpus={"partitions": 3})
    corpus.set_budget(None if rate == "unlimited" else rate)
    found, stats = corpus.sample(), corpus.stats()
    total = found.total
    assert (total.n_pages, total.n_due) == (stats.n_pages, stats.n_due)
    assert (found.in_flight, found.n_signals) == (stats.in_flight, stats.n_signals)
    # Shares of partitions are added up in another order.
    assert found.budget_per_second == pytest.approx(stats.budget_per_second)
    assert found.price == pytest.approx(stats.price)
    assert total.freshness == pytest.approx(stats.freshness_modelled)
    assert total.weighted_freshness == pytest.approx(stats.weighted_freshness_modelled)
    assert (found.n_hosts, found.n_sources) == (6, 2)
    assert {row.source for row in found.sources} == {"sitemap"}
    by_result = {name: n for name, n in total.results.items() if n}
    assert by_result == {"first": 3, "gone": 1, "failed": 1}
    assert (total.n_fetches, total.spent) == (stats.n_outcomes, stats.n_outcomes)


def test_parts_add_up_to_the_whole(open_corpus: Open, clock: ManualClock) -> None:
    found = used_corpus(open_corpus, clock, corpus={"partitions": 3}).sample()
    assert list(found.hosts) == [f"site{i}.example" for i in range(5, -1, -1)]
    assert found.hosts["site5.example"].n_pages == 6
    assert set(found.kinds) == {"", "news"}
    assert found.kinds["news"].n_pages == 4
    assert list(found.partitions) == [0, 1, 2]
    for parts in (found.hosts, found.kinds, found.partitions):
        for name in ("n_pages", "fresh_pages", "weight", "fresh_weight", "n_due", "spent"):
            whole = getattr(found.total, name)
            assert sum(getattr(one, name) for one in parts.values()) == pytest.approx(whole), name
        for name, n in found.total.results.items():
            assert sum(one.results[name] for one in parts.values()) == n, name
    assert list(found.histograms) == list(HISTOGRAMS)
    assert found.histograms["freshness"].total == len(URLS)
    assert found.histograms["copy_age"].counts[DURATION_EDGES_SECONDS.index(3_600.0)] == 4
    assert found.histograms["due_wait"].total == found.total.n_due


def test_it_comes_back_from_json(open_corpus: Open, clock: ManualClock) -> None:
    found = used_corpus(open_corpus, clock).sample()
    answer = json_answer(found.as_dict())
    assert read_sample(json.loads(bytes(answer.body))) == found


def test_pages_may_be_sampled_and_pieces_are_small(
    open_corpus: Open, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = open_corpus()
    corpus.add([f"https://site{i % 50}.example/{i}" for i in range(3_000)])
    corpus.remove([f"https://site{i % 50}.example/{i}" for i in range(1_000)])
    shard = corpus.nodes[0].shard
    monkeypatch.setattr(page_sums, "_SLOTS_AT_ONCE", 100)
    *pieces, sums = sum_pages(shard, np.arange(50), clock.wall_ms(), n_pages_max=300, seed=7)
    assert pieces == [None] * 3
    assert sums is not None
    assert sums.total[0] == pytest.approx(2_000, rel=0.02)
    assert sums.hosts[:, 0].sum() == pytest.approx(sums.total[0])
    *_, others = sum_pages(shard, np.arange(50), clock.wall_ms(), n_pages_max=300, seed=8)
    assert others is not None
    assert (others.hosts != sums.hosts).any()
    monkeypatch.setattr(present, "PAGES_SUMMED_MAX", 500)
    assert corpus.sample().total.n_pages == 2_000


def test_unlimited_budgets_and_prices_are_merged(open_corpus: Open, clock: ManualClock) -> None:
    one = used_corpus(open_corpus, clock).sample()
    other = replace(one, partitions={4: one.total}, price=3 * one.price, budget_per_second=None)
    both = merge_samples([one, other], n_away=2)
    assert both.price == pytest.approx(2 * one.price)
    assert both.budget_per_second is None
    assert both.n_partitions_away == 2
    assert both.hosts["site5.example"].n_pages == 12
    assert both.total.freshness == pytest.approx(one.total.freshness)


def test_quantiles_are_those_of_the_merged_ranges() -> None:
    one = Histogram(edges=(0.0, 1.0, 2.0, math.inf), counts=(3.0, 1.0, 0.0))
    other = Histogram(edges=one.edges, counts=(0.0, 0.0, 4.0))
    assert (one + other).counts == (3.0, 1.0, 4.0)
    assert (one + other).quantile(0.5) == 2.0
    assert (one + other).quantile(0.9) == 2.0
    assert one.quantile(0.25) == pytest.approx(1 / 3)
    assert math.isnan(Histogram(edges=(0.0, 1.0), counts=(0.0,)).quantile(0.5))
    with pytest.raises(ValueError, match="different ranges"):
        _ = one + Histogram(edges=(0.0, 1.0), counts=(1.0,))
    assert len(FRESHNESS_EDGES) == len(DURATION_EDGES_SECONDS)


@pytest.mark.parametrize(
    ("reads", "call"),
    [
        ("read_present", lambda corpus: corpus.sample()),
        ("read_series", lambda corpus: corpus.samples()),
        ("read_source_series", lambda corpus: corpus.source_samples("sitemap", "a.example")),
        ("read_metrics", lambda corpus: corpus.metrics()),
    ],
)
def test_a_partition_is_not_closed_while_it_is_read(
    open_corpus: Open, monkeypatch: pytest.MonkeyPatch, reads: str, call: Callable[[Corpus], Any]
) -> None:
    corpus = open_corpus(corpus={"partitions": 2})
    corpus.add(["https://a.example/"])
    read = getattr(corpus_module, reads)
    can_be_closed: list[bool] = []

    def look(*args: Any, **kwargs: Any) -> Any:
        can_be_closed.extend(corpus.nodes.wait_for_users(node, 0.0) for node in corpus.nodes)
        return read(*args, **kwargs)

    monkeypatch.setattr(corpus_module, reads, look)
    call(corpus)
    assert can_be_closed == [False, False]
    assert all(corpus.nodes.wait_for_users(node, 0.0) for node in corpus.nodes)
