"""Beliefs learned from simulated polls are as good as the exact posterior, and unbiased."""

import numpy as np
import pytest

from recrawl.core.belief import GammaBelief, after_poll, mean_rate, rate_quantile
from recrawl.core.price import averaged_due_elapsed
from recrawl.core.signal_quality import false_chance, signal_rate
from tests.reference.belief_posterior import DensePosterior
from tests.reference.signals_pages import SignalledPages

HOUR = 3_600.0


@pytest.mark.parametrize("spread", [0.5, 1.5], ids=["near-regular", "irregular"])
def test_two_hundred_polls_give_nearly_the_exact_posterior(
    spread: float, rng: np.random.Generator
) -> None:
    """Mean rate and due time within 5 % at the median; within 10 % from the first poll on.

    Pages change every 100 h or so, log-normal with σ = 1.8, and are polled at intervals spread
    around their period.  Both sides start from the Gamma prior that fits such rates best.  Prices
    are those at which a page of the true rate would be due after 0.2 to 1 of its period.  After
    200 polls nine in ten pages are within 5 % too.
    """
    n_pages = 150
    rates = SignalledPages.lognormal(rng, n_pages, 0.0, 0.5).change_rate
    belief = GammaBelief.of(np.full(n_pages, 0.45), np.full(n_pages, 0.45 * 20 * HOUR))
    exact = DensePosterior(
        belief.shape, belief.seconds, np.arange(np.log(1e-12 / HOUR), np.log(100 / HOUR), 0.03)
    )
    for n_polls in range(1, 201):
        elapsed = rng.lognormal(0, spread, n_pages) / rates
        changed = rng.random(n_pages) < -np.expm1(-rates * elapsed)
        belief = after_poll(belief, elapsed, changed)
        exact.poll(elapsed, changed)
        if n_polls not in (1, 3, 10, 30, 200):
            continue
        error = np.abs(mean_rate(belief) / exact.mean() - 1)
        errors = [error]
        for share in (0.02, 0.1, 0.25):
            price = share / rates
            due = averaged_due_elapsed(belief, price)
            exact_due = exact.due(price, 1.0, 1e12)
            is_due = (exact_due < 1e11) & (due < 1e11)
            assert is_due.mean() > 0.8
            errors.append(np.abs(due[is_due] / exact_due[is_due] - 1))
        assert max(np.median(e) for e in errors) < (0.05 if n_polls == 200 else 0.1)
        if n_polls == 200:
            assert max(np.quantile(e, 0.9) for e in errors) < 0.05


def test_a_belief_is_as_sure_as_it_should_be(rng: np.random.Generator) -> None:
    """Rates drawn from the prior itself lie in their 80 % intervals for 80 % of 4 000 pages.

    Within 5 standard errors (3.2 %) and 2 % for matching posteriors by Gamma distributions.
    """
    n_pages = 4_000
    rates = rng.gamma(0.5, 1 / (0.5 * 100 * HOUR), n_pages) + 1e-15
    belief = GammaBelief.of(np.full(n_pages, 0.5), np.full(n_pages, 0.5 * 100 * HOUR))
    for n_polls in range(1, 41):
        elapsed = rng.lognormal(np.log(50 * HOUR), 1.0, n_pages)
        belief = after_poll(belief, elapsed, rng.random(n_pages) < -np.expm1(-rates * elapsed))
        if n_polls in (2, 10, 40):
            low, high = rate_quantile(belief, 0.1), rate_quantile(belief, 0.9)
            inside = np.mean((low < rates) & (rates < high))
            assert abs(inside - 0.8) < 0.052


@pytest.mark.parametrize("recall", [0.5, 0.9])
@pytest.mark.parametrize("precision", [0.2, 0.5, 0.9])
def test_the_whole_rate_is_learned_without_bias(
    recall: float, precision: float, rng: np.random.Generator
) -> None:
    """α + precision·γ over the true rate: the mean of 1 000 pages' ratios after 200 polls.

    Its standard error is below 0.5 % (asserted), so that 5 % leaves ten of them.
    """
    n_pages = 1_000
    pages = SignalledPages.lognormal(rng, n_pages, recall, precision)
    mean = (1 - recall) * 0.05 / HOUR
    belief = GammaBelief.of(np.full(n_pages, 0.45), np.full(n_pages, 0.45 / mean))
    n_signals, seconds = np.zeros(n_pages), np.zeros(n_pages)
    for _ in range(200):
        elapsed = rng.lognormal(0, 1.0, n_pages) / pages.change_rate
        signals, changed = pages.poll(rng, elapsed)
        belief = after_poll(belief, elapsed, changed, false_chance(precision, signals))
        n_signals += signals
        seconds += elapsed
    learned = mean_rate(belief) + precision * signal_rate(n_signals, seconds, 0.0, 0.0)
    ratio = learned / pages.change_rate
    assert ratio.std() / np.sqrt(n_pages) < 0.005
    assert abs(ratio.mean() - 1) < 0.05
    assert abs(np.median(ratio) - 1) < 0.05


def test_taking_the_belief_for_the_whole_rate_is_a_trap(rng: np.random.Generator) -> None:
    """At a recall of 0.9 it is a tenth of it."""
    pages = SignalledPages.lognormal(rng, 300, 0.9, 0.8)
    belief = GammaBelief.of(np.full(300, 0.45), np.full(300, 0.45 * 200 * HOUR))
    for _ in range(200):
        elapsed = rng.lognormal(0, 0.5, 300) / pages.change_rate
        signals, changed = pages.poll(rng, elapsed)
        belief = after_poll(belief, elapsed, changed, false_chance(0.8, signals))
    assert np.median(mean_rate(belief) / pages.change_rate) == pytest.approx(0.1, abs=0.02)
