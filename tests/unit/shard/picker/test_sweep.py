"""The rolling sweep orders what the scan would, at a fraction of the cost."""

import numpy as np
import pytest

from recrawl.shard.picker.queue.market import has_bit
from recrawl.shard.settings import ShardSettings
from recrawl.shard.state.status import PriceMode, Reason
from recrawl.shard.state.words import EPOCH_SECONDS
from tests.unit.shard.picker.corpus import (
    Fetching,
    add_pages,
    due_times,
    settled_tables,
    worths,
)

# Corpora of many thousands of pages; the faults in tests/simulation run without compilation.
pytestmark = pytest.mark.slow_without_jit

SWEEP = ShardSettings(picker="sweep")


def fetching(
    n_pages: int, budget: float, *, settings: ShardSettings = SWEEP, seed: int = 1, **rest: int
) -> Fetching:
    tables, _ = settled_tables(n_pages, np.random.default_rng(seed), budget=budget, **rest)
    return Fetching(tables, settings)


def test_the_budget_is_spent_in_every_second() -> None:
    run = fetching(20_000, 4.0)
    assert {p.slot.size for p in run.run(200)} == {4}


def test_the_price_is_that_of_the_scan() -> None:
    prices = []
    for kind in ("scan", "sweep"):
        run = fetching(20_000, 5.0, settings=ShardSettings(picker=kind))
        run.run(300)
        prices.append(run.picker.price)
    assert prices[0] == pytest.approx(prices[1], rel=0.02)


def test_orders_of_the_sweep_are_worth_as_much_as_those_of_the_scan() -> None:
    totals = []
    for kind in ("scan", "sweep"):
        run = fetching(20_000, 5.0, settings=ShardSettings(picker=kind))
        total = 0.0
        for _ in range(400):
            tables, before = run.tables, run.tables.pages.word.copy()
            proposal = run.tick()
            after, tables.pages.word[:] = tables.pages.word.copy(), before
            total += np.exp2(worths(tables, run.now_ms, proposal.slot)).sum()
            tables.pages.word[:] = after
        totals.append(total)
    assert totals[1] == pytest.approx(totals[0], rel=0.01)


def test_the_sweep_finds_every_due_page() -> None:
    run = fetching(20_000, 5.0)
    for _ in range(5):
        run.run(60)
        picker = run.picker
        slots = np.arange(20_000)
        now = run.now_ms / 1000 - EPOCH_SECONDS
        due = due_times(run.tables, np.log2(picker.price))
        waits = np.array([has_bit(picker._market.waits, slot) for slot in range(20_000)])
        in_wheel = np.isin(slots, picker._sweep.pages_in_wheel())
        held = (run.tables.pages.word & np.uint64(1 << 31)) != 0
        assert not ((due < now) & ~waits & ~in_wheel & ~held).any()


def test_the_same_run_gives_the_same_orders() -> None:
    logs = []
    for _ in range(2):
        run = fetching(5_000, 3.0, n_groups=40)
        logs.append(np.concatenate([p.slot for p in run.run(100)]))
    np.testing.assert_array_equal(logs[0], logs[1])


@pytest.mark.parametrize("in_flight_max", [1, 3])
def test_groups_are_never_ordered_from_beyond_their_limits(in_flight_max: int) -> None:
    tables, _ = settled_tables(20_000, np.random.default_rng(3), budget=8.0, n_groups=60)
    tables.groups.in_flight_max[:] = in_flight_max
    tables.groups.delay_ms[:] = 5_000
    tables.groups.burst[:] = 2
    run = Fetching(tables, SWEEP)
    ordered: list[tuple[int, int]] = []
    for _ in range(300):
        proposal = run.tick()
        groups = tables.pages.group[proposal.slot]
        assert (tables.groups.in_flight <= in_flight_max).all()
        ordered.extend((run.now_ms, int(group)) for group in groups)
    times = np.array([at for at, _ in ordered])
    group_of = np.array([group for _, group in ordered])
    for group in range(60):
        at = np.sort(times[group_of == group])
        if in_flight_max == 1:
            # Two seconds of fetching, then five of rest.
            assert (np.diff(at) >= 7_000).all()
        else:
            # A burst of two, then one in five seconds.
            assert (at[2:] - at[:-2] >= 5_000).all()


@pytest.mark.parametrize("factor", [2.0, 0.5])
def test_a_new_budget_is_spent_at_once(factor: float) -> None:
    run = fetching(20_000, 6.0)
    run.run(60)
    run.tables.registers.budget[0] *= factor
    sizes = [p.slot.size for p in run.run(300)]
    assert set(sizes[3:]) == {round(6.0 * factor)}


def test_the_sweep_finds_added_pages_by_itself() -> None:
    run = fetching(20_000, 5.0, room=24_000)
    run.run(30)
    added = add_pages(run.tables, 2_000, np.random.default_rng(5), mean_age=400 * 86_400.0)
    sizes, n_added = [], 0
    for _ in range(120):
        proposal = run.tick()
        sizes.append(proposal.slot.size)
        n_added += np.isin(proposal.slot, added).sum()
    assert set(sizes) == {5}
    assert n_added > 300


def test_a_fixed_price_orders_what_is_due_and_nothing_else() -> None:
    tables, price = settled_tables(20_000, np.random.default_rng(4), budget=5.0)
    tables.registers.price_mode[0] = PriceMode.FIXED
    tables.registers.fixed_price[0] = price
    run = Fetching(tables, SWEEP)
    sizes = [run.tick(1_000).slot.size for _ in range(300)]
    # Poisson of 1 500 in all; five standard deviations and the spread of the first sweep.
    assert abs(sum(sizes) - 1_500) < 5 * 39 + 100


def test_pages_of_a_lost_proposal_are_found_again() -> None:
    run = fetching(20_000, 5.0)
    run.run(20)
    lost = run.picker.decide(run.tables, run.now_ms + 1, 50)
    due = lost.slot[lost.reason == Reason.VALUE]
    assert due.size > 0
    found = np.concatenate([proposal.slot for proposal in run.run(120)])
    is_found = np.isin(due, found)
    # Most are ordered again.  The least valuable may still wait, as others do, or a price that
    # has risen since may have made them due later.
    assert is_found.mean() > 0.8
    late = due[~is_found]
    waits = np.array([has_bit(run.picker._market.waits, slot) for slot in late], np.bool_)
    in_wheel = np.isin(late, run.picker._sweep.pages_in_wheel())
    now = run.now_ms / 1000 - EPOCH_SECONDS
    is_due = due_times(run.tables, np.log2(run.picker.price))[late] <= now
    assert (waits | in_wheel | ~is_due).all()
