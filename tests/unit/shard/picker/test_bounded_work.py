"""The work of one decision is bounded, however many pages are due after a restart or a pause."""

import numpy as np
import pytest

from recrawl.shard.picker import newcomers, rolling
from recrawl.shard.picker.newcomers import Newcomers
from recrawl.shard.picker.queue.market import M_SIZE
from recrawl.shard.picker.sweep import Moment
from recrawl.shard.settings import ShardSettings
from recrawl.shard.state.tables import Tables
from recrawl.shard.state.words import EPOCH_SECONDS
from tests.unit.shard.picker.corpus import (
    DAY,
    NOW_MS,
    Fetching,
    random_tables,
    settled_tables,
    terms,
    worths,
)

pytestmark = pytest.mark.slow_without_jit

N_PAGES = 40_000
SWEEP = ShardSettings(picker="sweep")


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling, "_VISITED_MAX", 2_000)
    monkeypatch.setattr(rolling, "_PLACED_MAX", 500)


def overdue(settings: ShardSettings = SWEEP, n_groups: int = 400) -> Fetching:
    """Return a corpus of which all pages are long due."""
    rng = np.random.default_rng(1)
    run = Fetching(random_tables(N_PAGES, rng, budget=5.0, n_groups=n_groups), settings)
    run.now_ms = NOW_MS + int(100 * DAY * 1000)
    return run


@pytest.mark.usefixtures("small_steps")
def test_a_decision_places_a_bounded_number_of_pages_and_all_are_found_in_the_end() -> None:
    run = overdue()
    n_before = 0
    for _ in range(N_PAGES // 500 + 5):
        proposal = run.tick()
        assert proposal.slot.size == 5
        # From the sweep and from the wheel; each page that is ordered leaves the market again.
        assert run.picker.n_touched - n_before <= 2 * 500 + 3 * 5
        n_before = run.picker.n_touched
    assert run.picker._sweep.n_passes >= 1
    assert int(run.picker._market.gauge[M_SIZE]) > 0.95 * N_PAGES


@pytest.mark.usefixtures("small_steps")
def test_a_decision_visits_a_bounded_number_of_pages_after_a_pause() -> None:
    tables, _ = settled_tables(N_PAGES, np.random.default_rng(1), budget=5.0)
    run = Fetching(tables, ShardSettings(picker="sweep", sweep_seconds=100.0))
    run.run(150)
    run.now_ms += 3_600_000
    visited = []
    for _ in range(10):
        before = run.picker._sweep.cursor
        run.tick()
        visited.append((run.picker._sweep.cursor - before) % N_PAGES)
    # An eighth of a sweep's time counts after the pause, then as many as a decision may visit.
    assert visited[0] <= N_PAGES / 8
    assert max(visited[1:]) <= 2_000


@pytest.mark.usefixtures("small_steps")
def test_a_decision_revalues_a_bounded_number_of_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    run = overdue()
    sweep = run.picker._sweep
    counts = []
    revalue = sweep.revalue

    def counted(tables: Tables, moment: Moment, n_max: int) -> int:
        n_left = revalue(tables, moment, n_max)
        counts.append(n_max - n_left)
        return n_left

    monkeypatch.setattr(sweep, "revalue", counted)
    run.run(200)
    largest_group = int(np.bincount(run.tables.pages.group).max())
    assert max(counts) <= 1_024 + largest_group
    assert sum(counts) > 3 * N_PAGES


@pytest.mark.usefixtures("small_steps")
def test_the_worth_of_waiting_pages_is_kept_up_to_date_in_turns() -> None:
    run = overdue(n_groups=40)
    run.run(150)
    run.now_ms += int(30 * DAY * 1000)
    run.run(60)
    market = run.picker._market
    waits = np.unpackbits(market.waits, bitorder="little")[market.slot].astype(bool)
    waits &= market.key != 0  # entries that were never used
    slots = market.slot[waits].astype(np.int64)
    assert slots.size > 0.9 * N_PAGES
    found = market.key[waits]
    np.testing.assert_allclose(found, worths(run.tables, run.now_ms, slots), atol=0.01)


@pytest.mark.usefixtures("small_steps")
def test_a_first_sweep_in_steps_costs_little_value(monkeypatch: pytest.MonkeyPatch) -> None:
    totals = []
    for n_placed_max in (500, N_PAGES):
        monkeypatch.setattr(rolling, "_PLACED_MAX", n_placed_max)
        monkeypatch.setattr(rolling, "_VISITED_MAX", 4 * n_placed_max)
        run = overdue()
        totals.append(0.0)
        for _ in range(600):
            word = run.tables.pages.word.copy()
            proposal = run.tick()
            after = run.tables.pages.word.copy()
            run.tables.pages.word[:] = word
            totals[-1] += np.exp2(worths(run.tables, run.now_ms, proposal.slot)).sum()
            run.tables.pages.word[:] = after
    assert totals[0] > 0.97 * totals[1]


@pytest.mark.usefixtures("small_steps")
def test_a_market_that_fills_up_drops_its_worse_half_in_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> float:
        raise AssertionError("all pages were compared at once")

    monkeypatch.setattr(rolling, "keep_best_of_all", fail)
    run = overdue(ShardSettings(picker="sweep", pool_max=16_384))
    sizes = []
    for _ in range(300):
        assert run.tick().slot.size == 5
        sizes.append(int(run.picker._market.gauge[M_SIZE]))
    assert 0.7 * 16_384 < max(sizes) < 16_384
    market = run.picker._market
    waits = np.unpackbits(market.waits, bitorder="little")[:N_PAGES].astype(bool)
    worth = worths(run.tables, run.now_ms, np.arange(N_PAGES))
    is_best = worth >= np.sort(worth)[-int(waits.sum())]
    assert (waits & is_best).sum() > 0.9 * waits.sum()


@pytest.mark.usefixtures("small_steps")
def test_of_equal_pages_a_market_that_fills_up_keeps_some(monkeypatch: pytest.MonkeyPatch) -> None:
    run = overdue(ShardSettings(picker="sweep", pool_max=16_384))
    run.tables.pages.word[:] = run.tables.pages.word[0]
    sizes = []
    for _ in range(200):
        assert run.tick().slot.size == 5
        sizes.append(int(run.picker._market.gauge[M_SIZE]))
    assert max(sizes) < 16_384
    assert min(sizes[100:]) > 16_384 // 4


def test_a_list_of_newcomers_made_in_steps_is_that_made_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(newcomers, "_LIST_MAX", 2_000)
    monkeypatch.setattr(newcomers, "_DOMAIN_LIST_MAX", 100)
    tables = random_tables(N_PAGES, np.random.default_rng(3), budget=5.0, n_groups=40)
    until = NOW_MS // 1000 - EPOCH_SECONDS + 10 * DAY
    tables.pages.newcomer_until[:] = np.where(np.arange(N_PAGES) % 3, until, 0)
    # Most of the best pages belong to one group.
    best = np.argsort(-worths(tables, NOW_MS, np.arange(N_PAGES)))[:5_000]
    tables.pages.group[best[::2]] = 7
    lists = []
    for n_slots in (N_PAGES, 1_700):
        monkeypatch.setattr(newcomers, "_SLOTS_PER_DECISION", n_slots)
        made = Newcomers(SWEEP, terms())
        n_steps = -(-N_PAGES // n_slots)
        for i in range(n_steps):
            assert made._listed.size == 0
            made._list_newcomers(tables, NOW_MS + i)
        lists.append(made._listed)
    assert lists[0].size == 2_000
    # The later steps see slightly greater values, so neighbours may change places.
    assert np.intersect1d(lists[0], lists[1]).size > 1_990
