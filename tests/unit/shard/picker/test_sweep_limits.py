"""The sweep within its limits: groups, costs, shares and room."""

import numpy as np
import pytest

from recrawl.shard import Claimed, Outcomes, PagesAdded, Shard, event_of
from recrawl.shard.picker.queue.market import M_SIZE
from recrawl.shard.settings import ShardSettings
from recrawl.shard.state.codes import log2_code_of
from recrawl.shard.state.status import BudgetUnit, PageStatus, Reason
from recrawl.shard.state.words import with_bounded
from tests.unit.shard.picker.corpus import (
    CLASSES,
    DAY,
    NOW_MS,
    Fetching,
    settled_tables,
    worths,
)

# Corpora of many thousands of pages; the faults in tests/simulation run without compilation.
pytestmark = pytest.mark.slow_without_jit


def fetching(n_pages: int, budget: float, settings: ShardSettings, **rest: object) -> Fetching:
    tables, _ = settled_tables(n_pages, np.random.default_rng(1), budget=budget, **rest)
    return Fetching(tables, settings)


def value_of(run: Fetching, n_ticks: int) -> float:
    """Return the total worth of orders; a page beyond its longest interval counts as 0."""
    total, words = 0.0, run.tables.pages.word
    for _ in range(n_ticks):
        before = words.copy()
        proposal = run.tick()
        after, words[:] = words.copy(), before
        worth = worths(run.tables, run.now_ms, proposal.slot)
        total += np.exp2(worth[worth < 500.0]).sum()
        words[:] = after
    return total


def test_signals_bounds_and_groups_cost_no_value_against_the_scan() -> None:
    totals = []
    for kind in ("scan", "sweep"):
        run = fetching(100_000, 10.0, ShardSettings(picker=kind), n_groups=1_000, classes=CLASSES)
        tables = run.tables
        tables.groups.delay_ms[:] = 8_000
        tables.groups.in_flight_max[:] = 1
        tables.limits.interval_max[1] = 5 * DAY
        tables.limits.interval_min[2] = 3_600.0
        for slot in range(0, 100_000, 10):
            tables.pages.limits[slot] = 1 + (slot // 10) % 2
            tables.pages.word[slot] = with_bounded(tables.pages.word[slot], True)
        totals.append(value_of(run, 250))
    assert totals[1] == pytest.approx(totals[0], rel=0.002)


def test_a_settled_corpus_has_no_spare_orders() -> None:
    run = fetching(20_000, 5.0, ShardSettings(picker="sweep"))
    reasons = np.concatenate([proposal.reason for proposal in run.run(600)])
    assert (reasons == Reason.SPARE).mean() < 0.01


def test_a_small_pool_keeps_to_its_size_and_spends_the_budget() -> None:
    settings = ShardSettings(picker="sweep", pool_max=1_024)
    run = fetching(20_000, 5.0, settings)
    # All pages are long overdue.
    run.now_ms = NOW_MS + int(100 * DAY * 1000)
    sizes = [proposal.slot.size for proposal in run.run(60)]
    assert set(sizes) == {5}
    assert run.picker._market.slot.size == 1_024
    assert run.picker._market.gauge[M_SIZE] <= 1_024


def test_a_budget_of_cost_is_spent() -> None:
    run = fetching(20_000, 5.0, ShardSettings(picker="sweep"))
    registers, cost = run.tables.registers, np.where(np.arange(20_000) % 2, 4.0, 1.0)
    run.tables.pages.cost[:] = [log2_code_of(c) for c in cost]
    registers.budget_unit[0] = BudgetUnit.COST
    registers.credit_max[0] = 20.0
    spent = []
    for _ in range(200):
        registers.credit[0] = min(registers.credit[0] + 5.0, 20.0)
        registers.credited_at[0] = run.now_ms + run.tick_ms
        proposal = run.tick(1_000)
        spent.append(cost[proposal.slot].sum())
        registers.credit[0] -= spent[-1]
    # The last order of a decision may take a credit of 4 below zero.
    assert sum(spent) == pytest.approx(1_000.0, abs=25.0)


def test_shares_go_to_new_pages_and_to_audits_while_sweeping() -> None:
    settings = ShardSettings(picker="sweep", discovery_share=0.3, audit_share=0.1)
    run = fetching(20_000, 10.0, settings)
    run.tables.pages.status[:4_000] = PageStatus.NEW
    proposals = run.run(100)
    slots = np.concatenate([proposal.slot for proposal in proposals])
    reasons = np.concatenate([proposal.reason for proposal in proposals])
    assert slots.size == 1_000
    # Five standard deviations of 1 000 draws by hash; the numbers are fixed.
    assert abs((reasons == Reason.AUDIT).sum() - 100) < 5 * 9.5
    assert abs((reasons == Reason.DISCOVERY).sum() - 270) < 5 * 14
    assert (run.tables.pages.status[slots[reasons == Reason.DISCOVERY]] == PageStatus.NEW).all()


def test_a_wheel_of_another_width_loses_no_orders() -> None:
    run = fetching(20_000, 0.02, ShardSettings(picker="sweep"))
    run.run(30)
    long = run.picker.sweep_seconds
    run.tables.registers.budget[0] = 5.0
    sizes = [proposal.slot.size for proposal in run.run(200)]
    assert run.picker.sweep_seconds < long / 4
    assert set(sizes[3:]) == {5}


def test_touches_are_counted() -> None:
    run = fetching(20_000, 5.0, ShardSettings(picker="sweep"))
    run.run(50)
    before = run.picker.n_touched
    n_orders = sum(proposal.slot.size for proposal in run.run(100))
    # Each ordered page enters and leaves wheel and market, and some enter again.
    assert 2 * n_orders < run.picker.n_touched - before < 20 * n_orders


def test_more_equal_pages_than_the_pool_holds_are_all_ordered_in_time() -> None:
    """In a new corpus all pages are due and equally valuable."""
    settings = ShardSettings(picker="sweep", pool_max=2_000, group_delay=0, group_in_flight_max=50)
    shard = Shard(settings)
    shard.apply(event_of(Claimed, owner=1, epoch=1, at_ms=NOW_MS))
    new = event_of(
        PagesAdded,
        page=shard.free_pages(20_000),
        group=np.arange(20_000) % 400,
        kind=0,
        importance=1.0,
        cost=1.0,
        at_ms=NOW_MS,
    )
    shard.apply(new)
    seen = np.zeros(20_000, np.int64)
    for i in range(60):
        orders = shard.decide(NOW_MS + 1_000 * i, 500)
        shard.apply(orders)
        seen[orders.page] += 1
        outcomes = event_of(
            Outcomes,
            page=orders.page,
            order=orders.order,
            fetched_at_ms=NOW_MS + 1_000 * i,
            verdict=1,
            divergence=np.nan,
            last_modified_at_ms=0,
            status_class=2,
            retry_after_seconds=0.0,
        )
        shard.apply(outcomes)
        shard.apply(shard.tick(NOW_MS + 1_000 * i + 1))
    assert np.count_nonzero(seen) > 18_000
