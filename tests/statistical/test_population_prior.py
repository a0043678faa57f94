"""The prior of a corpus is found from many short histories of pages drawn from it."""

import numpy as np
import pytest

from recrawl.core.belief import (
    BROAD,
    GammaBelief,
    PopulationPrior,
    after_poll,
    mean_rate,
    rate_likelihoods,
    rebase_beliefs,
    refit_from_beliefs,
)

DAY = 86_400.0
Polls = tuple[np.ndarray, np.ndarray, np.ndarray]


def short_histories(rng: np.random.Generator, rates: np.ndarray, n_polls: int) -> Polls:
    """Return page, elapsed and changed of polls a week apart or so, e-fold more or less."""
    page = np.repeat(np.arange(rates.size), n_polls)
    elapsed = rng.lognormal(np.log(7 * DAY), 1.0, page.size)
    return page, elapsed, rng.random(page.size) < -np.expm1(-rates[page] * elapsed)


@pytest.mark.parametrize("shape", [0.3, 0.5, 0.9])
def test_the_prior_behind_short_histories_is_found(shape: float, rng: np.random.Generator) -> None:
    """Eight polls each of 8 000 pages: the mean within 10 %, the shape within 20 %.

    Over twenty seeds the standard deviations were below 2 % and 3.3 %: five and six of them
    (fails 1 in 1.7 million).
    """
    rates = rng.gamma(shape, 1 / (shape * 30 * DAY), 8_000)
    page, elapsed, changed = short_histories(rng, rates, 8)
    learner = PopulationPrior()
    prior = learner.fit_whole(rate_likelihoods(page, elapsed, changed, 8_000, learner.rates()))
    assert float(mean_rate(prior)) == pytest.approx(1 / (30 * DAY), rel=0.1)
    assert float(prior.shape) == pytest.approx(shape, rel=0.2)


def test_kinds_of_pages_are_told_apart(rng: np.random.Generator) -> None:
    """News, shops and terms pages, 3 000 of each, mixed: each within 15 % and 25 %."""
    shapes, periods = np.array([0.9, 0.5, 0.35]), np.array([2.0, 30.0, 300.0]) * DAY
    kind = np.arange(9_000) % 3
    rates = rng.gamma(shapes[kind]) / (shapes[kind] * periods[kind])
    page, elapsed, changed = short_histories(rng, rates, 8)
    prior = PopulationPrior().fit(page, elapsed, changed, kind)
    np.testing.assert_allclose(mean_rate(prior) * periods, 1.0, rtol=0.15)
    np.testing.assert_allclose(prior.shape / shapes, 1.0, rtol=0.25)


def test_a_kind_of_its_own_predicts_its_pages_better(rng: np.random.Generator) -> None:
    """The prior of their kind predicts the next poll of new pages better than the whole's."""
    periods = np.array([2.0, 300.0]) * DAY
    kind = np.arange(2_000) % 2
    rates = rng.gamma(0.5, 2.0, 2_000) / periods[kind]
    page, elapsed, changed = short_histories(rng, rates, 4)
    learner = PopulationPrior()
    by_kind = learner.fit(page, elapsed, changed, kind)
    whole = learner.fit(page, elapsed, changed, np.zeros(2_000, int))
    fresh = rng.gamma(0.5, 2.0, 2_000) / periods[kind]
    unchanged = rng.random(2_000) < np.exp(-fresh * 7 * DAY)

    def score(shape: np.ndarray, seconds: np.ndarray) -> float:
        chance = (seconds / (seconds + 7 * DAY)) ** shape
        return float(np.log(np.where(unchanged, chance, 1 - chance)).mean())

    assert score(by_kind.shape[kind], by_kind.seconds[kind]) > 0.02 + score(*whole)


def test_refits_between_polls_move_a_corpus_to_its_own_prior(rng: np.random.Generator) -> None:
    """No histories kept: every round of polls is followed by a refit, and beliefs are rebased.

    From the broad prior 20 polls bring mean and shape within 10 %, from one thirtyfold wrong
    within 15 %.
    """
    n_pages, shape = 5_000, 0.5
    rates = rng.gamma(shape, 1 / (shape * 30 * DAY), n_pages)
    for start, tolerance in ((BROAD, 0.1), (GammaBelief.of(0.5, 0.5 * DAY), 0.15)):
        prior = start
        belief = GammaBelief.of(np.full(n_pages, prior.shape), prior.seconds)
        for _ in range(20):
            elapsed = rng.lognormal(np.log(7 * DAY), 1.0, n_pages)
            belief = after_poll(belief, elapsed, rng.random(n_pages) < -np.expm1(-rates * elapsed))
            new_prior = refit_from_beliefs(belief)
            belief, prior = rebase_beliefs(belief, prior, new_prior), new_prior
        assert float(mean_rate(prior)) == pytest.approx(1 / (30 * DAY), rel=tolerance)
        assert float(prior.shape) == pytest.approx(shape, rel=tolerance)
