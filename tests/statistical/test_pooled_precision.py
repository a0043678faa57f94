"""A source's precision, learned from all of its pages while their rates are learned too."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from recrawl.core.belief import GammaBelief, after_poll, mean_rate
from recrawl.core.signal_quality import (
    PrecisionLearner,
    SourceCounts,
    false_chance,
    precision_after_fetch,
    signal_rate,
)
from tests.reference.signals_likelihood import precision_log_likelihood
from tests.reference.signals_pages import SignalledPages

HOUR, DAY = 3_600.0, 86_400.0
Round = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_]]
# The mean of rates log-normal around 1/100 h with σ = 1.8, times the share unsignalled on average.
PRIOR = GammaBelief.with_mean_rate(0.05 * 0.4 / HOUR, shape=0.45)


class Crawl(NamedTuple):
    """Result of a simulated crawl."""

    precision: float
    n_signals: int
    rounds: list[Round]


def crawl(
    rng: np.random.Generator,
    *,
    precision: float,
    n_pages: int,
    n_signals_max: int,
    changes_per_poll: float,
    prior: GammaBelief = PRIOR,
) -> Crawl:
    """Poll pages of recall 0.3 to 0.9 until ``n_signals_max`` signals came, learning online.

    A page is polled when it is believed to have changed ``changes_per_poll`` times, more or less.
    """
    pages = SignalledPages.lognormal(rng, n_pages, rng.uniform(0.3, 0.9, n_pages), precision)
    learner, counts = PrecisionLearner(), SourceCounts.zeros(1)
    belief = GammaBelief.of(np.full(n_pages, prior.shape), prior.seconds)
    signals, seconds = np.zeros(n_pages), np.zeros(n_pages)
    rounds: list[Round] = []
    while signals.sum() < n_signals_max:
        believed = float(learner.precision(counts)[0])
        gamma = signal_rate(signals, seconds, 0.02 / HOUR, 15 * HOUR)
        whole = mean_rate(belief) + believed * gamma
        elapsed = changes_per_poll / whole * rng.lognormal(0, 0.5, n_pages)
        elapsed = elapsed.clip(0.2 * HOUR, 5_000 * HOUR)
        n, changed = pages.poll(rng, elapsed)
        learner.observe(counts, 0, belief, elapsed, n, changed)
        believed = float(learner.precision(counts)[0])
        belief = after_poll(belief, elapsed, changed, false_chance(believed, n))
        signals += n
        seconds += elapsed
        rounds.append((elapsed, n, changed))
    return Crawl(float(learner.precision(counts)[0]), int(signals.sum()), rounds)


@pytest.mark.parametrize("precision", [0.2, 0.5, 0.9])
def test_a_large_pool_gives_the_precision_within_three_hundredths(precision: float) -> None:
    """Ten seeds, each of them.  6 000 signals: a standard deviation of 0.009 at most."""
    for seed in range(10):
        found = crawl(
            np.random.default_rng(seed),
            precision=precision,
            n_pages=300,
            n_signals_max=6_000,
            changes_per_poll=0.3,
        )
        assert abs(found.precision - precision) < 0.03


@pytest.mark.parametrize("precision", [0.2, 0.5, 0.9])
def test_three_hundred_signals_give_it_without_bias(precision: float) -> None:
    """The mean of ten seeds.  One alone cannot do better than 0.029 at a precision of 0.5: that is
    the deviation of 300 signals whose truth is known.
    """
    found = [
        crawl(
            np.random.default_rng(seed),
            precision=precision,
            n_pages=60,
            n_signals_max=300,
            changes_per_poll=0.15,
        )
        for seed in range(10)
    ]
    assert max(result.n_signals for result in found) < 450
    errors = np.array([result.precision - precision for result in found])
    assert abs(errors.mean()) < 0.03
    assert errors.std() < 0.06


def most_likely_precision(found: Crawl, precision: float, prior: GammaBelief) -> float:
    """Return the precision within 0.15 of the true one that makes all polls most likely."""
    candidates = np.linspace(max(precision - 0.15, 0.01), min(precision + 0.15, 0.99), 31)
    shape, seconds = float(prior.shape), float(prior.seconds)
    likely = [precision_log_likelihood(p, shape, seconds, found.rounds) for p in candidates]
    return float(candidates[int(np.argmax(likely))])


@pytest.mark.parametrize("precision", [0.2, 0.5, 0.9])
def test_learning_online_loses_little_against_all_polls_at_once(precision: float) -> None:
    """The most likely precision given all polls, with every page's rate summed over."""
    found = crawl(
        np.random.default_rng(3),
        precision=precision,
        n_pages=150,
        n_signals_max=2_000,
        changes_per_poll=0.5,
    )
    assert abs(found.precision - most_likely_precision(found, precision, PRIOR)) < 0.025


@pytest.mark.parametrize("factor", [0.1, 10.0])
def test_a_wrong_prior_of_the_rates_misleads_no_more_than_it_must(factor: float) -> None:
    """A mean ten times too low or too high, few polls a page: off by less than 0.1.

    So is the most likely precision given all polls, from the same prior, within 0.04 of it.
    """
    prior = GammaBelief.of(PRIOR.shape, PRIOR.seconds / factor)
    errors = []
    for seed in range(5):
        found = crawl(
            np.random.default_rng(seed),
            precision=0.5,
            n_pages=300,
            n_signals_max=1_500,
            changes_per_poll=0.5,
            prior=prior,
        )
        errors.append((found.precision - 0.5, most_likely_precision(found, 0.5, prior) - 0.5))
    online, at_once = np.mean(errors, axis=0)
    assert abs(online) < 0.1
    assert abs(online - at_once) < 0.04


def test_crediting_changes_by_the_precision_believed_now_would_be_slow(
    rng: np.random.Generator,
) -> None:
    """Why a precision is a Beta belief and not a pair of sums of expected true signals.

    Those take the share n·p / (1 - (1-p)^n F) of a changed interval for true, with the p of that
    moment, right or wrong, and never take it back: after 7 000 signals 0.9 is still taken for 0.8.
    """
    n_pages = 500
    alpha, gamma = 0.9, 2.1 / 0.9  # per interval
    true, total = 1.0, 2.0
    learner, counts = PrecisionLearner(), SourceCounts.zeros(1)
    belief = GammaBelief.with_mean_rate(np.full(n_pages, alpha), shape=1e6)  # rates known
    for _ in range(6):
        n = rng.poisson(gamma, n_pages)
        none = np.exp(-alpha) * 0.1**n
        changed = rng.random(n_pages) > none
        learner.observe(counts, 0, belief, 1.0, n, changed)
        for signals, is_changed in zip(n, changed, strict=True):
            p = true / total
            if is_changed and signals:
                true += signals * p / (1 - math.exp(-alpha) * (1 - p) ** signals)
            total += signals
    assert total > 6_500
    assert true / total < 0.83
    assert abs(learner.precision(counts)[0] - 0.9) < 0.03


def test_two_sources_are_told_apart(rng: np.random.Generator) -> None:
    """A good and a bad one on the same pages: each within 0.03 after some 8 000 signals."""
    n_pages, precisions = 400, np.array([0.9, 0.2])
    rates = rng.lognormal(np.log(0.01), 1.0, n_pages) / HOUR
    alpha, true_rates = 0.3 * rates, np.multiply.outer([0.4, 0.3], rates)
    learner, counts = PrecisionLearner(), SourceCounts.zeros(2)
    belief = GammaBelief.with_mean_rate(np.full(n_pages, alpha.mean()), shape=0.7)
    for _ in range(20):
        elapsed = 0.4 / rates * rng.lognormal(0, 0.5, n_pages)
        announced = rng.poisson(true_rates * elapsed)
        shares = ((1 - precisions) / precisions)[:, None]
        n = announced + rng.poisson(true_rates * shares * elapsed)
        changed = announced.sum(axis=0) + rng.poisson(alpha * elapsed) > 0
        chance = false_chance(learner.precision(counts)[:, None], n)
        for source in (0, 1):
            learner.observe(counts, source, belief, elapsed, n[source], changed, chance[1 - source])
        belief = after_poll(belief, elapsed, changed, chance.prod(axis=0))
    np.testing.assert_allclose(learner.precision(counts), precisions, atol=0.03)


def test_late_signals_are_left_out_and_the_rest_is_right(rng: np.random.Generator) -> None:
    """Delays of 3 h at daily polls: counting every signal takes 0.8 for less than 0.75.

    Signals within three delays after a fetch are not counted, but explain changes.
    """
    n_pages, n_days, delay, precision = 400, 40, 3 * HOUR, 0.8
    period = 2 * DAY
    n_changes = rng.poisson(n_days * DAY / period, n_pages)
    page = np.repeat(np.arange(n_pages), n_changes)
    changed_at = rng.uniform(0, n_days * DAY, page.size)
    signalled = rng.random(page.size) < 0.7
    arrives = changed_at[signalled] + rng.exponential(delay, int(signalled.sum()))
    n_false = round(arrives.size * (1 - precision) / precision)
    arrives = np.concatenate([arrives, rng.uniform(0, n_days * DAY, n_false)])
    signal_page = np.concatenate([page[signalled], rng.integers(0, n_pages, n_false)])

    learned = []
    for too_soon in (0.0, 3 * delay):
        learner, counts = PrecisionLearner(), SourceCounts.zeros(1)
        belief = GammaBelief.with_mean_rate(np.full(n_pages, 0.4 / period), shape=3.0)
        for day in range(n_days):
            changed = np.bincount(page[changed_at // DAY == day], minlength=n_pages) > 0
            today = arrives // DAY == day
            since_fetch = arrives[today] - day * DAY
            late = since_fetch < too_soon
            n = np.bincount(signal_page[today][~late], minlength=n_pages)
            believed = float(learner.precision(counts)[0])
            others = np.ones(n_pages)
            chance = 1 - precision_after_fetch(believed, since_fetch[late], delay)
            np.multiply.at(others, signal_page[today][late], chance)
            learner.observe(counts, 0, belief, DAY, n, changed, others)
            belief = after_poll(belief, DAY, changed, others * false_chance(believed, n))
        learned.append(float(learner.precision(counts)[0]))
    assert learned[0] < 0.75
    assert abs(learned[1] - precision) < 0.03
