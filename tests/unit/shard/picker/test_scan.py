"""The exact scan orders the most valuable pages."""

import math

import numpy as np
import pytest

from recrawl.shard.picker import Picker, scan
from recrawl.shard.picker.queue.market import empty_market, fit_market
from recrawl.shard.picker.queue.turns import end_decision
from recrawl.shard.picker.scan import order_exactly
from recrawl.shard.settings import ShardSettings
from recrawl.shard.state.status import PageStatus, PriceMode, Reason
from recrawl.shard.state.words import with_bounded, with_held
from tests.unit.shard.picker.corpus import NOW, NOW_MS, random_tables, terms, worths

# Corpora of many thousands of pages; the faults in tests/simulation run without compilation.
pytestmark = pytest.mark.slow_without_jit

SCAN = ShardSettings(picker="scan")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.mark.parametrize("n_pages", [50, 3_000, 60_000])
def test_orders_the_pages_worth_most(n_pages: int, rng: np.random.Generator) -> None:
    tables = random_tables(n_pages, rng, budget=1.0)
    picker = Picker(SCAN, terms())
    everything = worths(tables, NOW_MS, np.arange(n_pages))
    for _ in range(2):
        # The second scan has a guess from the first.
        proposal = picker.decide(tables, NOW_MS, 20)
        got = worths(tables, NOW_MS, proposal.slot)
        np.testing.assert_allclose(got, np.sort(everything)[::-1][:20])


def test_never_orders_a_held_page(rng: np.random.Generator) -> None:
    tables = random_tables(100, rng, budget=1.0)
    for slot in range(0, 100, 2):
        tables.pages.word[slot] = with_held(tables.pages.word[slot], True)
    proposal = Picker(SCAN, terms()).decide(tables, NOW_MS, 1_000)
    assert sorted(proposal.slot) == list(range(1, 100, 2))


def test_a_group_with_one_in_flight_gets_one_order(rng: np.random.Generator) -> None:
    tables = random_tables(2_000, rng, budget=1.0, n_groups=10)
    tables.groups.in_flight_max[:] = 1
    tables.groups.in_flight[3] = 1
    tables.groups.ready_at[4] = NOW_MS + 1
    tables.groups.blocked_until[5] = NOW_MS + 1
    tables.groups.flags[6] = 2
    proposal = Picker(SCAN, terms()).decide(tables, NOW_MS, 1_000)
    assert sorted(tables.pages.group[proposal.slot]) == [0, 1, 2, 7, 8, 9]
    # Each of them its best page.
    for slot, group in zip(proposal.slot, tables.pages.group[proposal.slot], strict=True):
        of_group = np.flatnonzero(tables.pages.group == group)
        assert worths(tables, NOW_MS, of_group).max() == worths(tables, NOW_MS, np.array([slot]))


def test_a_bucket_allows_its_burst(rng: np.random.Generator) -> None:
    tables = random_tables(500, rng, budget=1.0)
    tables.groups.in_flight_max[:] = 100
    tables.groups.delay_ms[:] = 1_000
    tables.groups.burst[:] = 7
    picker = Picker(SCAN, terms())
    assert picker.decide(tables, NOW_MS, 1_000).slot.size == 7
    # No order was applied, so nothing has changed.
    assert picker.decide(tables, NOW_MS, 1_000).slot.size == 7
    tables.groups.in_flight[:] = 98
    assert picker.decide(tables, NOW_MS, 1_000).slot.size == 2


def test_at_a_fixed_price_only_pages_worth_it_are_ordered(rng: np.random.Generator) -> None:
    tables = random_tables(5_000, rng, budget=1.0)
    everything = worths(tables, NOW_MS, np.arange(5_000))
    price = math.exp2(np.quantile(everything, 0.9))
    tables.registers.price_mode[0] = PriceMode.FIXED
    tables.registers.fixed_price[0] = price
    picker = Picker(SCAN, terms())
    proposal = picker.decide(tables, NOW_MS, 5_000)
    assert proposal.slot.size == (everything >= math.log2(price)).sum()
    assert picker.price == price


def test_a_longest_interval_goes_first_and_a_shortest_holds_back(rng: np.random.Generator) -> None:
    tables = random_tables(1_000, rng, budget=1.0)
    pages = tables.pages
    ranked = np.argsort(worths(tables, NOW_MS, np.arange(1_000)))
    least, best = int(ranked[0]), int(ranked[-1])
    tables.limits.interval_max[1] = NOW - pages.fetched_at[least] - 1.0
    pages.limits[least] = 1
    pages.not_before[best] = NOW + 10
    for slot in (least, best):
        pages.word[slot] = with_bounded(pages.word[slot], True)
    proposal = Picker(SCAN, terms()).decide(tables, NOW_MS, 10)
    assert proposal.slot[0] == least
    assert proposal.reason[0] == Reason.CEILING
    assert best not in proposal.slot


def test_shares_go_to_new_pages_and_to_audits(rng: np.random.Generator) -> None:
    tables = random_tables(10_000, rng, budget=1.0)
    tables.pages.status[:5_000] = PageStatus.NEW
    settings = ShardSettings(picker="scan", discovery_share=0.3, audit_share=0.1)
    proposal = Picker(settings, terms()).decide(tables, NOW_MS, 2_000)
    assert proposal.slot.size == 2_000
    assert np.unique(proposal.slot).size == 2_000
    # Five standard deviations of 2 000 fair draws by hash; the numbers are fixed.
    n_audits = (proposal.reason == Reason.AUDIT).sum()
    n_found = (proposal.reason == Reason.DISCOVERY).sum()
    assert abs(n_audits - 200) < 5 * 13.4
    assert abs(n_found - 540) < 5 * 20
    is_found = proposal.slot[proposal.reason == Reason.DISCOVERY]
    assert (tables.pages.status[is_found] == PageStatus.NEW).all()


@pytest.mark.parametrize("log2_guess", [math.inf, -30.0, 0.0, 30.0])
@pytest.mark.parametrize("chunk", [100, 1 << 20])
def test_equal_pages_come_in_the_order_of_their_slots(
    log2_guess: float, chunk: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_pages, n_groups = 3_000, 700
    tables = random_tables(n_pages, rng, budget=1.0, n_groups=n_groups)
    for column in tables.pages:
        if column is not tables.pages.group:
            column[1_000:] = column[rng.integers(0, 30, n_pages - 1_000)]
    tables.groups.in_flight_max[:] = rng.integers(2, 9, n_groups)
    tables.groups.delay_ms[:] = 0
    monkeypatch.setattr(scan, "_CHUNK", chunk)
    worth = worths(tables, NOW_MS, np.arange(n_pages))
    left = tables.groups.in_flight_max.astype(int)
    best: list[int] = []
    for slot in np.lexsort((np.arange(n_pages), -worth)).tolist():
        group = tables.pages.group[slot]
        if worth[slot] > -math.inf and left[group]:
            left[group] -= 1
            best.append(slot)
    market = fit_market(empty_market(), n_pages, n_groups)
    for n in (0, 1, 50, 900, n_pages):
        ranked, market = order_exactly(tables, terms(), market, NOW_MS, n, log2_guess=log2_guess)
        end_decision(market, ranked.slot)
        assert ranked.slot.tolist() == best[:n]
        np.testing.assert_array_equal(ranked.log2_worth, worth[ranked.slot])
