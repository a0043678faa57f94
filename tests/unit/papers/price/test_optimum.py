"""The continuous optimum, against general optimisers, its own conditions and the paper's webs."""

import numpy as np
import pytest
from scipy.optimize import NonlinearConstraint, minimize

from recrawl.core.signal_quality import SignalRates, from_recall
from recrawl.core.value import expected_fetch_interval, expected_fresh_time, noisy_value
from recrawl.papers.price.cost import freshness_at_interval
from recrawl.papers.price.optimum import continuous_optimum, thresholds_at_price
from tests.reference import renewal_steps


def paper_web(rng: np.random.Generator, n_pages: int) -> tuple[SignalRates, np.ndarray]:
    """Return rates and importance of the Signals paper's experiments (§6)."""
    change_rate, importance = rng.uniform(0, 1, (2, n_pages))
    recall = rng.beta(0.25, 0.25, n_pages)
    return from_recall(change_rate, recall, rng.uniform(0.1, 0.6, n_pages)), importance


def without_signals(rates: SignalRates) -> SignalRates:
    return SignalRates.of(rates.change_rate(), 0.0, 0.0)


@pytest.mark.parametrize("budget", [0.5, 2.0, 10.0])
def test_matches_a_general_optimiser_without_signals(budget: float) -> None:
    """Over the rates, with freshness ξ/Δ (1 - e^{-Δ/ξ}): Signals eq. 5."""
    change_rate = np.array([0.2, 0.9, 1.0, 3.0])
    importance = np.array([1.0, 0.5, 2.0, 1.5])
    cost = np.array([1.0, 2.0, 0.5, 1.0])

    def lost(log_rate: np.ndarray) -> float:
        freshness = freshness_at_interval(change_rate, np.exp(-log_rate))
        return -float(importance @ freshness / importance.sum())

    found = minimize(
        lost,
        np.log(np.full(4, budget / cost.sum())),
        method="SLSQP",
        constraints=NonlinearConstraint(lambda log_rate: cost @ np.exp(log_rate), budget, budget),
        bounds=[(-12, 5)] * 4,
        options={"ftol": 1e-14, "maxiter": 500},
    )
    best = continuous_optimum(
        from_recall(change_rate, 0.0, 0.0), budget, importance=importance, cost=cost
    )
    assert best.converged
    assert cost @ best.fetch_rate == pytest.approx(budget, rel=1e-7)
    assert best.weighted_freshness >= -found.fun - 1e-9
    # A general optimiser gets as far but for the pages that should not be fetched at all.
    assert best.weighted_freshness == pytest.approx(-found.fun, abs=2e-5)


def test_matches_a_general_optimiser_with_signals() -> None:
    """Over thresholds, with ψ and w by solving the renewal equation numerically."""
    rates = from_recall(
        change_rate=np.array([0.5, 1.0, 2.0]),
        recall=np.array([0.8, 0.3, 0.0]),
        false_signal_rate=np.array([0.2, 0.4, 0.0]),
    )
    rates = rates._replace(
        signal_rate=np.where(rates.signal_rate > 0, rates.signal_rate, 1e-9),
        precision=np.where(rates.precision > 0, rates.precision, 0.5),
    )
    importance, cost = np.array([1.0, 1.5, 3.0]), np.array([1.0, 1.0, 2.0])

    def outcome(log_threshold: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        solved = [
            renewal_steps.solve(*(float(c[i]) for c in rates), float(np.exp(log_threshold[i])))  # type: ignore[call-arg]
            for i in range(3)
        ]
        interval = np.array([s.interval for s in solved])
        return cost / interval, np.array([s.fresh_time for s in solved]) / interval

    def lost(log_threshold: np.ndarray) -> float:
        return -float(importance @ outcome(log_threshold)[1] / importance.sum())

    found = minimize(
        lost,
        np.zeros(3),
        method="SLSQP",
        constraints=NonlinearConstraint(lambda x: outcome(x)[0].sum(), 2.5, 2.5),
        bounds=[(-4, 2.5)] * 3,
        options={"ftol": 1e-13, "maxiter": 200},
    )
    best = continuous_optimum(rates, 2.5, importance=importance, cost=cost)
    assert best.weighted_freshness == pytest.approx(-found.fun, abs=1e-8)
    np.testing.assert_allclose(best.effective_elapsed, np.exp(found.x), rtol=1e-3)


@pytest.mark.parametrize("signals", [False, True])
def test_meets_its_conditions(signals: bool, rng: np.random.Generator) -> None:
    """Theorem 1: V(ι) = Λ, or below it for pages never fetched; and the budget is spent."""
    rates, importance = paper_web(rng, 1_000)
    # A page all of whose changes are announced has no threshold in time.
    rates = rates._replace(unsignalled_change_rate=np.maximum(rates.unsignalled_change_rate, 1e-6))
    if not signals:
        rates = without_signals(rates)
    best = continuous_optimum(rates, 100.0, importance=importance, tolerance=1e-10)
    assert best.converged
    assert best.fetch_rate.sum() == pytest.approx(100.0, rel=1e-9)
    followed = np.isfinite(best.effective_elapsed)
    value = noisy_value(*rates, best.effective_elapsed, importance=importance)
    np.testing.assert_allclose(value[followed], best.price, rtol=1e-8)
    limit = importance / rates.change_rate()
    assert np.all(limit[~followed] <= best.price * (1 + 1e-9))
    assert not best.fetch_rate[~followed].any()
    assert 0.2 < followed.mean() < 0.9
    # Rates and freshness are those of the thresholds, by ψ and w.
    interval = expected_fetch_interval(*rates, best.effective_elapsed)
    fresh_time = expected_fresh_time(*rates, best.effective_elapsed)
    # One page in thousands has its greatest value at this very price, and is followed in part.
    whole = followed & np.isclose(best.fetch_rate, 1 / interval, rtol=1e-6, atol=0)
    assert (followed & ~whole).sum() <= 1
    freshness = fresh_time[whole] / interval[whole]
    np.testing.assert_allclose(best.freshness[whole], freshness, rtol=1e-6)
    assert best.weighted_freshness == pytest.approx(
        float(importance @ best.freshness / importance.sum()), rel=1e-12
    )


@pytest.mark.slow_without_jit
@pytest.mark.parametrize(
    ("n_pages", "plain", "signalled"), [(100, 0.8317, 0.9110), (1_000, 0.3656, 0.3840)]
)
def test_the_papers_webs_reach_the_freshness_known_for_them(
    n_pages: int, plain: float, signalled: float, rng: np.random.Generator
) -> None:
    """R = 100; 40 webs against the mean of 20 to 30 others, which has a standard error of .002.

    Five standard errors of the difference.
    """
    found = np.empty((40, 2))
    for web in range(40):
        rates, importance = paper_web(rng, n_pages)
        for column, seen in enumerate((without_signals(rates), rates)):
            best = continuous_optimum(seen, 100.0, importance=importance)
            assert best.converged
            found[web, column] = best.weighted_freshness
    error = 5 * np.hypot(found.std(axis=0) / np.sqrt(40), 0.0023)
    assert np.all(np.abs(found.mean(axis=0) - [plain, signalled]) < error)
    assert np.all(found[:, 1] > found[:, 0])


def test_pages_that_change_too_fast_are_not_followed() -> None:
    best = continuous_optimum(from_recall([1.0, 2.0, 50.0], 0.0, 0.0), 3.0)
    assert best.fetch_rate[2] == 0.0
    assert best.effective_elapsed[2] == np.inf
    assert best.freshness[2] == 0.0


def test_more_budget_is_worth_its_price() -> None:
    """The price is the derivative of the objective by the budget."""
    rates = from_recall([0.3, 1.0, 2.0], [0.7, 0.2, 0.9], [0.1, 0.5, 0.2])
    less, best, more = (
        continuous_optimum(rates, budget, importance=[1, 2, 3], tolerance=1e-12)
        for budget in (1.999, 2.0, 2.001)
    )
    gain = 6 * (more.weighted_freshness - less.weighted_freshness) / 0.002
    assert gain == pytest.approx(best.price, rel=1e-5)


def test_a_page_on_the_margin_is_followed_in_part() -> None:
    """Signals never false: at a price of 1/Δ a page is fetched at each signal, or never.

    Neither rate spends this budget, so that part of the time it is one and part the other.
    """
    rates = SignalRates.of([0.5, 1.0], [0.5, 3.0], 1.0)
    best = continuous_optimum(rates, 2.5)
    assert best.converged
    assert best.price == pytest.approx(0.25, rel=1e-6)
    assert best.fetch_rate.sum() == pytest.approx(2.5, rel=1e-9)
    assert 0 < best.fetch_rate[1] < 3.0


def test_pages_all_of_whose_changes_are_announced_are_fetched_after_signals() -> None:
    """Fetched at every n-th signal: rate γ/n, fresh for (1 - q^n)/(1 - q) of n waits."""
    rates = SignalRates.of([0.0, 1.0], [2.0, 0.0], 0.3)
    q = 0.7
    counts = np.arange(1, 9)
    value = ((1 - q**counts) / (1 - q) - counts * q**counts) / 2.0
    for price in (0.1, 0.4, 0.7):
        _, fetch_rate, freshness = thresholds_at_price(rates, price)
        n = int(counts[value > price][0])
        assert fetch_rate[0] == pytest.approx(2.0 / n, rel=1e-9)
        assert freshness[0] == pytest.approx((1 - q**n) / (1 - q) / n, rel=1e-9)


def test_pages_that_never_change_cost_nothing_and_stay_fresh() -> None:
    best = continuous_optimum(SignalRates.of([0.0, 1.0], 0.0, 0.0), 2.0)
    np.testing.assert_allclose(best.fetch_rate, [0.0, 2.0], rtol=1e-7)
    assert best.freshness[0] == 1.0


def test_no_budget_and_nothing_to_spend_it_on() -> None:
    nothing = continuous_optimum(from_recall([1.0, 2.0], 0.0, 0.0), 0.0)
    assert nothing.converged
    assert not nothing.fetch_rate.any()
    static = continuous_optimum(SignalRates.of([0.0, 0.0], 0.0, 0.0), 1.0)
    assert not static.converged
    assert not static.fetch_rate.any()
    assert static.weighted_freshness == 1.0


def test_keeps_the_shape_of_its_pages() -> None:
    rates = from_recall([[1.0, 2.0, 3.0]], [[0.2], [0.6]], 0.1)
    best = continuous_optimum(rates, 4.0, importance=[[1.0], [2.0]])
    flat = continuous_optimum(
        SignalRates(*(c.reshape(-1) for c in rates)), 4.0, importance=[1, 1, 1, 2, 2, 2]
    )
    assert best.fetch_rate.shape == best.effective_elapsed.shape == (2, 3)
    np.testing.assert_array_equal(best.freshness.reshape(-1), flat.freshness)
    at_price = thresholds_at_price(rates, best.price, importance=[[1.0], [2.0]])
    np.testing.assert_allclose(at_price[0], best.effective_elapsed, rtol=1e-9)


def test_a_page_that_does_not_matter_is_not_fetched() -> None:
    best = continuous_optimum(from_recall([1.0, 1.0], 0.5, 0.3), 1.0, importance=[1.0, 0.0])
    np.testing.assert_allclose(best.fetch_rate, [1.0, 0.0], rtol=1e-6)


def test_does_not_depend_on_the_unit_of_time() -> None:
    hourly = from_recall([0.3, 1.0, 2.0], [0.7, 0.2, 0.9], [0.1, 0.5, 0.2])
    daily = SignalRates(hourly[0] * 24, hourly[1] * 24, hourly[2])
    per_hour = continuous_optimum(hourly, 2.0, tolerance=1e-11)
    per_day = continuous_optimum(daily, 48.0, tolerance=1e-11)
    assert per_day.price * 24 == pytest.approx(per_hour.price, rel=1e-9)
    np.testing.assert_allclose(per_day.fetch_rate, per_hour.fetch_rate * 24, rtol=1e-9)


@pytest.mark.slow_without_jit
def test_a_large_web_starts_from_a_sample_of_its_pages(rng: np.random.Generator) -> None:
    rates, importance = paper_web(rng, 25_000)
    best = continuous_optimum(rates, 2_500.0, importance=importance)
    assert best.converged
    assert best.fetch_rate.sum() == pytest.approx(2_500.0, rel=1e-6)
