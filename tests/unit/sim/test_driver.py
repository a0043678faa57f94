from typing import Any

import numpy as np
import pytest

from benchmarks.learning import ORACLE, run_without_signals
from recrawl.sim import (
    CC_NEWS,
    ChangeRatio,
    Failures,
    Fetcher,
    FetchOutcomes,
    FixedInterval,
    Flapping,
    Heritrix,
    IntervalPolicy,
    IntervalRule,
    NutchAdaptive,
    Oracle,
    Policy,
    ProportionalToImportance,
    SignalSource,
    StormCrawler,
    Times,
    Uniform,
    YaCy,
    make_web,
    papers_web,
    realistic_web,
    run_freely,
    scale_for_budget,
    signals_web,
    simulate,
    trust_signals,
)
from recrawl.sim.policies.policy import KnownPages

HOUR, DAY = 3_600.0, 86_400.0

RULES = [
    FixedInterval(),
    NutchAdaptive(),
    StormCrawler(),
    CC_NEWS,
    Heritrix(),
    YaCy(),
    ChangeRatio(),
]


def one_page(*changed_at: float, **settings: object) -> Fetcher:
    times = Times(np.array([0, len(changed_at)]), np.array(changed_at, np.float64))
    return Fetcher(make_web(0, 100.0, [0.0], changes=times, **settings))  # type: ignore[arg-type]


def fetch(fetcher: Fetcher, *at: float) -> FetchOutcomes:
    return fetcher.fetch(np.zeros(len(at), np.int64), np.array(at))


def test_an_outcome_reports_changes_since_the_last_fetch() -> None:
    outcomes = fetch(one_page(5.0, 7.0, 30.0, has_date=True), 2.0, 7.0, 20.0, 40.0)
    assert outcomes.changed.tolist() == [False, True, False, True]
    assert outcomes.elapsed.tolist() == [2.0, 5.0, 13.0, 20.0]
    np.testing.assert_array_equal(outcomes.last_modified_at, [np.nan, 7.0, 7.0, 30.0])
    assert outcomes.divergence.tolist() == [0.0, 1.0, 0.0, 1.0]


def test_a_return_to_an_earlier_version_is_reported() -> None:
    times = Times(np.array([0, 4]), np.array([1.0, 2.0, 3.0, 4.0]))
    web = make_web(0, 100.0, [0.0], changes=times)._replace(version=np.array([1, 0, 2, 1]))
    outcomes = fetch(Fetcher(web), 1.5, 2.5, 3.5, 4.5)
    assert outcomes.changed.all()
    assert outcomes.reverted.tolist() == [False, True, False, True]


def test_a_page_that_changed_and_changed_back_is_unchanged() -> None:
    times = Times(np.array([0, 2]), np.array([1.0, 2.0]))
    web = make_web(0, 100.0, [0.0], changes=times)._replace(version=np.array([-1, 0]))
    assert not fetch(Fetcher(web), 3.0).changed[0]


def test_a_failed_fetch_shows_nothing() -> None:
    web = make_web(0, 1_000.0, [0.5], page_failures=Failures(share=0.5, seconds=100.0))
    start, end = web.errors.start[0], web.errors.end[0]
    fetcher = Fetcher(web)
    outcomes = fetcher.fetch(np.zeros(3, np.int64), np.array([start, end - 0.01, end]))
    assert outcomes.error.tolist() == [True, True, False]
    assert not outcomes.changed[:2].any()
    assert outcomes.elapsed[2] == end


def test_the_first_fetch_of_a_page_is_no_poll() -> None:
    outcomes = Fetcher(make_web(0, 10.0, [1.0]), has_copies=False).fetch(
        np.zeros(1, np.int64), np.array([5.0])
    )
    assert outcomes.elapsed[0] == np.inf
    assert not outcomes.changed[0]


@pytest.mark.slow_without_jit
def test_the_oracle_equals_an_independent_simulation() -> None:
    """The benchmark's own loop, in hours, on the same changes."""
    web = papers_web(3, horizon=500 * HOUR, n_pages=200)
    account = simulate(web, Oracle(web), 5 / HOUR)
    whole, half = run_without_signals(
        ORACLE,
        5.0,
        500.0,
        web.change_rate * HOUR,
        web.importance,
        Times(web.changes.offsets, web.changes.at / HOUR),
        (1.0, 1.0),
        np.ones(1),
        np.zeros(1),
        0.0,
    )
    assert account.n_fetches == 2_500
    assert account.freshness == pytest.approx(whole, abs=1e-4)
    assert account.part(1).freshness == pytest.approx(half, abs=1e-4)


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("n_per_pick", [1, 7])
def test_the_same_run_gives_the_same_account(n_per_pick: int) -> None:
    web = signals_web(1, horizon=300 * HOUR, n_pages=60)
    policies: list[Policy] = [Oracle(web), trust_signals(), Uniform(), ProportionalToImportance()]
    for policy in policies:
        first = simulate(web, policy, 3 / HOUR, n_per_pick=n_per_pick)
        again = simulate(web, policy, 3 / HOUR, n_per_pick=n_per_pick)
        np.testing.assert_array_equal(first.sums, again.sums)


@pytest.mark.slow_without_jit
def test_signals_improve_the_oracle() -> None:
    web = signals_web(0, horizon=1_000 * HOUR)
    deaf = Oracle(web._replace(recall=0 * web.recall, false_rate=0 * web.false_rate))
    with_signals = simulate(web, Oracle(web), 3 / HOUR).freshness
    assert with_signals > simulate(web, deaf, 3 / HOUR).freshness + 0.02


@pytest.mark.slow_without_jit
def test_two_sources_are_worth_more_than_one() -> None:
    rate = np.full(100, 0.02 / HOUR)
    source = SignalSource.with_precision(change_rate=rate, recall=0.4, precision=0.6)
    one = make_web(0, 1_000 * HOUR, rate, sources=[source])
    two = make_web(0, 1_000 * HOUR, rate, sources=[source, source])
    assert simulate(two, Oracle(two), 1 / HOUR).freshness > (
        simulate(one, Oracle(one), 1 / HOUR).freshness
    )


def test_latency_keeps_a_page_from_being_picked_twice() -> None:
    class Watched(Uniform):
        def pick(self, at: float, n: int) -> np.ndarray:
            pages = super().pick(at, n)
            under_way.extend(pages.tolist())
            return pages

    under_way: list[int] = []
    web = make_web(0, 100.0, np.full(4, 0.01))
    account = simulate(web, Watched(), 1.0, latency_seconds=2.5)
    assert len(under_way) == 100
    assert account.n_fetches == 97  # those of the last moments never arrive
    for policy in (Oracle(web), IntervalPolicy(FixedInterval(first_seconds=1.0))):
        assert simulate(web, policy, 1.0, latency_seconds=2.5).n_fetches <= 98


def test_an_interval_policy_fetches_only_what_is_due() -> None:
    web = make_web(0, 90 * DAY, np.full(10, 0.1 / DAY))
    account = simulate(web, IntervalPolicy(FixedInterval()), 100 / DAY)
    assert account.n_fetches == 30


def test_interval_policies_retry_what_failed() -> None:
    policy = IntervalPolicy(StormCrawler())
    one = np.ones(1)
    policy.start(KnownPages(one, one, np.zeros(1, np.int64), np.zeros(1, np.int64), False), 0.0)
    page = policy.pick(0.0, 1)
    assert page.tolist() == [0]
    assert policy.pick(0.0, 1).size == 0
    true, false = np.ones(1, np.bool_), np.zeros(1, np.bool_)
    policy.learn(np.zeros(1), page, FetchOutcomes(false, one, one, true, false, one))
    assert policy.due_at[0] == 2 * HOUR


def test_signals_make_pages_due() -> None:
    policy = trust_signals()
    two = np.ones(2)
    policy.start(KnownPages(two, two, np.zeros(2, np.int64), np.zeros(2, np.int64), True), 0.0)
    policy.on_signals(np.array([5.0]), np.array([1]), np.array([0]), np.array([4.0]))
    assert policy.pick(6.0, 2).tolist() == [1]
    policy.on_signals(np.array([7.0]), np.array([0]), np.array([0]), np.array([0.0]))  # old news
    assert policy.pick(8.0, 2).size == 0


def test_a_policy_with_the_old_name_of_on_signals_gets_signals_and_a_warning() -> None:
    class OldPolicy:
        def __init__(self) -> None:
            turns = Uniform()
            self.start, self.pick, self.learn = turns.start, turns.pick, turns.learn
            self.has_signals = False

        def hear(self, *_: object) -> None:
            self.has_signals = True

    web = signals_web(0, horizon=50 * HOUR, n_pages=20)
    policy: Any = OldPolicy()
    with pytest.warns(DeprecationWarning, match="rename the method to on_signals"):
        simulate(web, policy, 1 / HOUR)
    assert policy.has_signals


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_a_scaled_rule_spends_the_budget(rule: IntervalRule) -> None:
    web = papers_web(2, horizon=1_000 * HOUR, n_pages=100)
    scale = scale_for_budget(web, rule, 2 / HOUR)
    n_fetches = run_freely(web, rule, scale=scale).n_fetches
    assert 0.9 * 2_000 < n_fetches <= 2_000


def test_proportional_fetches_follow_importance() -> None:
    policy = ProportionalToImportance()
    importance = np.array([8.0, 4.0, 2.0, 1.0, 1.0, 0.0])
    zeros = np.zeros(6, np.int64)
    policy.start(KnownPages(importance, importance, zeros, zeros, True), 0.0)
    picked = np.concatenate([policy.pick(0.0, 1) for _ in range(1_600)])
    counts = np.bincount(picked, minlength=6)
    np.testing.assert_allclose(counts, importance * 100, atol=1)


@pytest.mark.slow_without_jit
def test_nightly_batches_are_accounted_for() -> None:
    web = realistic_web(0, 500, horizon=60 * DAY)
    account = simulate(web, Uniform(), 50 / DAY, n_per_pick=50)
    assert account.n_fetches == 3_000
    assert 0 < account.fragment_staleness < 1 - account.freshness < 1


@pytest.mark.slow_without_jit
def test_flapping_pages_are_fresh_more_often_than_their_changes_say() -> None:
    rate = np.full(200, 1 / DAY)
    steady = make_web(0, 100 * DAY, rate)
    flapping = make_web(0, 100 * DAY, rate, flapping=Flapping(share=1.0, seconds=HOUR))
    assert simulate(flapping, Uniform(), 20 / DAY).freshness > 0.9
    assert simulate(steady, Uniform(), 20 / DAY).freshness < 0.3


@pytest.mark.parametrize(
    "settings", [{"budget": 0.0}, {"n_per_pick": 0}, {"latency_seconds": -1.0}], ids=str
)
def test_invalid_settings_raise(settings: dict[str, float]) -> None:
    web = make_web(0, 10.0, [0.1])
    with pytest.raises(ValueError, match="must"):
        simulate(web, Uniform(), **{"budget": 1.0, **settings})  # type: ignore[arg-type]


def test_a_scale_must_be_positive() -> None:
    with pytest.raises(ValueError, match="scale must be positive"):
        IntervalPolicy(FixedInterval(), scale=0.0)


@pytest.mark.parametrize(
    "picked", [np.array([50]), np.array([-1]), [0], None, np.array([0.5]), np.array([0, 1])]
)
def test_what_a_policy_picks_is_checked(picked: Any) -> None:
    class Odd(Uniform):
        def pick(self, at: float, n: int) -> Any:
            return picked

    web = make_web(0, 100.0, np.full(50, 0.01))
    with pytest.raises(ValueError, match="pick must return"):
        simulate(web, Odd(), 1.0)
