"""The loop's estimates are the core's, and its two forms, policy and walk, do the same."""

import numpy as np
import pytest

from lab.policies.loop_runs import (
    fetches_until,
    fixed_log,
    joined_log,
    loop_log,
    loop_scale_for_budget,
    stale_until,
)
from lab.policies.loops import COST_LOOP, COST_PRIOR, Loop, LoopPolicy
from recrawl.core.price import due_elapsed
from recrawl.papers.change_rate import (
    PollHistories,
    PseudoObservations,
    irregular_change_rate,
    substitute_edges,
)
from recrawl.sim import Bookkeeper, Fetcher, KnownPages, Web, make_web, realistic_web, simulate

pytestmark = pytest.mark.slow

HOUR = 3_600.0
DAY = 24 * HOUR
LOOPS = {
    "cost": COST_LOOP,
    "price": Loop(fraction=1 / 3, pseudo=COST_PRIOR, price=2 * HOUR, seconds_max=30 * DAY),
    "bare": Loop(fraction=0.8, first=5 * DAY),
    "prior": Loop(
        fraction=1.0,
        pseudo=PseudoObservations(changed_after=10 * DAY, unchanged_after=20 * DAY),
    ),
}


@pytest.fixture(scope="module")
def web() -> Web:
    return realistic_web(3, 80, horizon=120 * DAY)


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> Loop:
    return LOOPS[request.param]


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_the_policy_and_the_walk_fetch_the_same_pages_as_often(
    web: Web, loop: Loop, scale: float
) -> None:
    policy = LoopPolicy(loop, scale=scale)
    policy.start(KnownPages(web.importance, web.cost, web.group, web.kind, True), 0.0)
    fetcher = Fetcher(web)
    books = Bookkeeper(web)
    while (policy.due_at <= web.horizon).any():
        pages = np.flatnonzero(policy.due_at <= web.horizon)
        at = policy.due_at[pages]
        outcomes = fetcher.fetch(pages, at)
        books.record(pages, at, outcomes.error)
        policy.learn(at, pages, outcomes)
    account = books.close()
    log = loop_log(web, loop, scale=scale, is_spread=True)
    assert np.array_equal(log.page_fetches, account.page_fetches)
    fresh = web.horizon - np.add.reduceat(log.stale_seconds, log.offsets[:-1])
    assert fresh == pytest.approx(account.page_fresh_seconds, abs=1e-3)


@pytest.mark.slow_without_jit
def test_waits_are_a_fraction_of_the_estimate_of_the_core(loop: Loop) -> None:
    web = make_web(1, 100 * DAY, np.geomspace(1 / HOUR, 0.01 / DAY, 12))
    log = loop_log(web, loop)
    for page in range(web.n_pages):
        rows = slice(log.offsets[page], log.offsets[page + 1])
        elapsed, changed = log.elapsed[rows], log.changed[rows]
        n_polls = elapsed.size - 1
        assert n_polls == 0 or elapsed[0] == pytest.approx(loop.first_seconds)
        for n in range(1, min(n_polls, 40)):
            history = PollHistories.of_one_page(elapsed[:n], changed[:n])
            rate, _ = irregular_change_rate(history, pseudo=loop.pseudo)
            rate = substitute_edges(history, rate)[0]
            wait = due_elapsed(rate, loop.price) if loop.price else loop.fraction / rate
            wait = np.clip(wait, loop.seconds_min, loop.seconds_max)
            assert elapsed[n] == pytest.approx(wait)


def test_costs_first_poll_comes_after_a_third_of_the_most_likely_period() -> None:
    assert COST_LOOP.first_seconds / HOUR == pytest.approx(57.5 / 3, rel=1e-3)
    assert COST_LOOP.pseudo is COST_PRIOR


def test_a_loop_needs_a_first_interval_and_a_positive_fraction() -> None:
    with pytest.raises(ValueError, match="first interval"):
        Loop(fraction=1.0)
    with pytest.raises(ValueError, match="fraction"):
        Loop(fraction=0.0, first=1.0)


def test_intervals_cover_all_time_and_the_last_is_cut_off(loop: Loop) -> None:
    web = make_web(9, 30 * DAY, np.geomspace(1 / HOUR, 0.01 / DAY, 5))
    log = loop_log(web, loop)
    total = np.add.reduceat(log.elapsed, log.offsets[:-1])
    assert total == pytest.approx(np.full(web.n_pages, web.horizon))
    assert not log.is_fetch[log.offsets[1:] - 1].any()
    assert (log.stale_seconds <= log.elapsed + 1e-6).all()


def test_polls_at_a_fixed_interval_see_the_actual_changes() -> None:
    web = make_web(5, 50 * DAY, np.full(6, 1 / DAY))
    log = fixed_log(web, 8 * HOUR)
    for page in range(web.n_pages):
        rows = slice(log.offsets[page], log.offsets[page + 1])
        edges = np.concatenate([[0.0], log.ended_at[rows]])
        at = web.changes.at[web.changes.offsets[page] : web.changes.offsets[page + 1]]
        counted = np.histogram(at, edges)[0]
        assert np.array_equal(counted > 0, log.changed[rows])
        first = np.searchsorted(at, edges[:-1])
        stale = np.where(counted > 0, edges[1:] - at[np.minimum(first, at.size - 1)], 0.0)
        assert log.stale_seconds[rows] == pytest.approx(stale)


def test_stale_time_and_fetches_add_up_over_time() -> None:
    web = make_web(7, 20 * DAY, np.full(5, 1 / DAY))
    log = joined_log([fixed_log(web, 12 * HOUR), fixed_log(web, 8 * HOUR)])
    edges = np.linspace(0.0, web.horizon, 101)
    stale = stale_until(log, edges)
    assert stale[:, 0] == pytest.approx(np.zeros(10))
    assert stale[:, -1] == pytest.approx(np.add.reduceat(log.stale_seconds, log.offsets[:-1]))
    assert (np.diff(stale) >= -1e-9).all()
    assert (np.diff(stale) <= np.diff(edges) + 1e-6).all()
    assert fetches_until(log, edges)[:, -1].tolist() == 5 * [40] + 5 * [60]


@pytest.mark.slow_without_jit
def test_a_loop_scaled_to_a_budget_spends_nearly_all_of_it(web: Web) -> None:
    budget = web.n_pages / (10 * DAY)
    scale = loop_scale_for_budget(web, COST_LOOP, budget)
    n_fetches = int(loop_log(web, COST_LOOP, scale=scale, is_spread=True).page_fetches.sum())
    assert 0.95 * budget * web.horizon < n_fetches <= budget * web.horizon
    account = simulate(web, LoopPolicy(COST_LOOP, scale=scale), 30 * budget)
    assert account.n_fetches == pytest.approx(n_fetches, rel=0.05)
