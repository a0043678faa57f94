"""Audited freshness by kind and host, beside what the model expected."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from recrawl import Corpus, Outcome
from recrawl.corpus.inspect.audits import (
    AUDITED_HOSTS_MAX,
    audit_table,
    difference_bound,
    merge_audit_tables,
)
from tests.manual_clock import ManualClock

Open = Callable[..., Corpus]
N_HOSTS = 4
URLS = [f"https://h{i % N_HOSTS}.example/{i}" for i in range(40)]


def crawl(corpus: Corpus, clock: ManualClock, n_days: int = 8) -> None:
    """Fetch pages for some days; those of host 0 always have changed."""
    corpus.add(URLS)
    for day in range(n_days):
        clock.pass_seconds(86_400)
        corpus.report(
            Outcome(
                handle=order.handle,
                digest=str(day).encode() if order.url.startswith("https://h0.") else b"same",
            )
            for order in corpus.lease(40)
        )


def test_audits_are_shown_by_kind_and_host(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(audit={"share": 0.5}, corpus={"partitions": 2})
    crawl(corpus, clock)
    table = corpus.audited_freshness()
    parts = [(row.part, row.name) for row in table.rows]
    assert parts[:1] == [("corpus", "")]
    assert {name for part, name in parts if part == "host"} == {
        f"h{i}.example" for i in range(N_HOSTS)
    }
    whole, *rows = table.rows
    audited = corpus.stats().audited
    assert (whole.n_audited, whole.n_fresh) == (audited.n_audited, audited.n_fresh)
    assert whole.n_audited > 40
    assert (whole.audited_low, whole.audited_high) == (audited.ratio_low, audited.ratio_high)
    for part in ("kind", "host"):
        some = [row for row in rows if row.part == part]
        assert sum(row.n_pages for row in some) == 40
        assert sum(row.n_audited for row in some) == whole.n_audited
        assert sum(row.n_fresh for row in some) == whole.n_fresh
        assert sum(row.modelled_sum for row in some) == pytest.approx(whole.modelled_sum)
        assert sum(row.variance_sum for row in some) == pytest.approx(whole.variance_sum)
    stale = next(row for row in rows if row.name == "h0.example")
    assert stale.audited == 0.0
    assert stale.modelled is not None
    assert stale.difference == pytest.approx(-stale.modelled)


def test_tables_of_parts_are_merged_by_addition(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(audit={"share": 0.5}, corpus={"partitions": 3})
    crawl(corpus, clock)
    parts = [audit_table([node]) for node in corpus.nodes]
    merged, whole = merge_audit_tables(parts), corpus.audited_freshness()
    assert merged.n_judged == whole.n_judged
    for one, other in zip(merged.rows, whole.rows, strict=True):
        assert one.as_dict() == pytest.approx(other.as_dict())


def test_only_the_largest_hosts_have_rows(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add([f"https://h{i}.example/{k}" for i in range(250) for k in range(1 + i % 2)])
    hosts = [row for row in corpus.audited_freshness().rows if row.part == "host"]
    assert len(hosts) == AUDITED_HOSTS_MAX
    assert [row.n_pages for row in hosts[:125]] == [2] * 125
    assert hosts[0].audited is None
    assert not any(row.disagrees for row in hosts)
    assert (hosts[0].difference_low, hosts[0].difference_high) == (-1.0, 1.0)


def test_a_corpus_without_audits_has_a_row_that_says_so(open_corpus: Open) -> None:
    (row,) = open_corpus().audited_freshness().rows
    assert (row.part, row.n_pages, row.n_audited, row.audited) == ("corpus", 0, 0, None)


@pytest.mark.parametrize("chance", [0.5, 0.9, 0.99])
def test_a_right_model_is_rarely_accused_however_often_one_looks(chance: float) -> None:
    """1,000 series of 2,000 audits, looked at after each one; the seed is fixed."""
    rng = np.random.default_rng(7)
    steps = (rng.random((1_000, 2_000)) < chance) - chance
    variance = chance * (1 - chance) * np.arange(1, 2_001)
    bound = np.array([difference_bound(v, 0.05) for v in variance])
    is_accused = (np.abs(np.cumsum(steps, axis=1)) >= bound).any(axis=1)
    # At most 5 %, plus three standard deviations of 1,000 series.
    assert is_accused.mean() <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 1_000)


def test_a_wrong_model_is_found_soon() -> None:
    """The model says 0.9 and 0.8 is true: found within 600 audits in nearly all series."""
    rng = np.random.default_rng(8)
    fresh = (rng.random((500, 600)) < 0.8).cumsum(axis=1)
    n = np.arange(1, 601)
    bound = np.array([difference_bound(0.09 * k, 0.05) for k in n])
    assert (np.abs(fresh - 0.9 * n) >= bound).any(axis=1).mean() > 0.99


def test_audits_of_older_versions_are_not_compared(open_corpus: Open, clock: ManualClock) -> None:
    """They are in the counts of the corpus, but nobody knows what the model expected of them."""
    corpus = open_corpus(audit={"share": 0.5})
    crawl(corpus, clock)
    before = corpus.audited_freshness().rows[0]
    registers = corpus.nodes[0].shard.tables.registers
    registers.n_audited[0] += 1_000
    registers.n_audited_fresh[0] += 900
    assert corpus.audited_freshness().rows[0] == before
