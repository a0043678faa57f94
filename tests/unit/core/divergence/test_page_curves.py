"""Curves learned from polls: bases are started in turn, and the population comes from the pages."""

import doctest

import numpy as np
import pytest

from recrawl.core.arrays import FloatArray
from recrawl.core.belief import GammaBelief, mean_rate
from recrawl.core.divergence import (
    ComparedPolls,
    CurveEvidence,
    CurvePopulation,
    PageCurveLearner,
    is_pooling_due,
    page_curves,
)

DAY = 86_400.0


def test_the_doctests_pass() -> None:
    assert doctest.testmod(page_curves).failed == 0


def polls_of(day: int, divergence: list[float], from_bases: FloatArray) -> ComparedPolls:
    """Return polls that found every page changed after a day."""
    n_pages = len(divergence)
    return ComparedPolls(
        at=np.full(n_pages, day * DAY),
        elapsed=np.full(n_pages, DAY),
        belief=GammaBelief.of(np.full(n_pages, 30.0), 30 * DAY),
        changed=np.ones(n_pages, np.bool_),
        divergence=np.array(divergence),
        from_bases=from_bases,
        has_version=np.ones(n_pages, np.bool_),
    )


def learn_days(
    learner: PageCurveLearner, n_days: int, ceiling: list[float], lost: list[float]
) -> CurveEvidence:
    """Return the evidence of pages that lose a share of their content every day."""
    n_pages = len(ceiling)
    evidence = CurveEvidence.empty(n_pages)
    rows = np.arange(n_pages)
    learner.start_bases(evidence, rows, 0.0)
    top, rate = np.array(ceiling), -np.log1p(-np.array(lost))
    for day in range(1, n_days + 1):
        ages = day - evidence.profiles.base_at / DAY
        from_bases = top[:, np.newaxis] * -np.expm1(-rate[:, np.newaxis] * ages)
        learner.observe(evidence, rows, polls_of(day, (top * lost).tolist(), from_bases))
    return evidence


def test_a_base_is_started_after_some_polls_and_replaces_the_oldest() -> None:
    learner = PageCurveLearner(n_polls_per_base=2)
    evidence = learn_days(learner, 12, [0.5], [0.1])
    assert sorted(evidence.profiles.base_at[0] / DAY) == [4, 6, 8, 10, 12]
    assert evidence.n_since_base.tolist() == [0]


def test_a_version_that_is_not_known_never_becomes_a_base() -> None:
    learner, evidence = PageCurveLearner(n_polls_per_base=1), CurveEvidence.empty(1)
    unknown = polls_of(1, [0.3], np.full((1, 5), np.nan))._replace(has_version=np.array([False]))
    assert not learner.observe(evidence, [0], unknown).is_started.any()
    assert np.isnan(evidence.profiles.base_at).all()
    assert evidence.totals.divergence.tolist() == [0.3]
    known = polls_of(2, [0.3], np.full((1, 5), np.nan))
    assert learner.observe(evidence, [0], known).is_started.all()
    assert evidence.profiles.base_at[0, 0] == 2 * DAY


def test_curves_tell_pages_apart_and_pages_without_polls_get_the_populations() -> None:
    learner = PageCurveLearner()
    evidence = learn_days(learner, 40, [0.9, 0.9, 0.2], [0.9, 0.05, 0.5])
    curves = learner.curves(evidence, CurvePopulation(), np.full(3, 1 / DAY))
    assert curves.ceiling[[0, 2]] == pytest.approx([0.9, 0.2], abs=0.05)
    # The second page was not watched long enough to know its ceiling.
    assert 0.6 < curves.ceiling[1] < 0.95
    assert curves.ratio[0] > 5 * curves.ratio[1]
    some = learner.curves(evidence, CurvePopulation(), 1 / DAY, rows=[2, 0])
    np.testing.assert_allclose(some.ratio, curves.ratio[[2, 0]])
    unknown = learner.curves(CurveEvidence.empty(2), CurvePopulation(), 1 / DAY)
    assert unknown.ceiling.tolist() == [CurvePopulation().prior.ceiling_median] * 2
    assert unknown.ratio[0] == unknown.ratio[1]


def test_the_population_is_that_of_the_pages() -> None:
    learner = PageCurveLearner()
    evidence = learn_days(learner, 60, [0.3] * 20, [0.02] * 20)
    rate = mean_rate(GammaBelief.of(np.full(20, 30.0), 30 * DAY))
    population = CurvePopulation()
    for _ in range(10):
        population = learner.pool(evidence, population, rate)
    assert population.prior.ceiling_median == pytest.approx(0.3, abs=0.05)
    assert population.prior.ratio_median == pytest.approx(0.02, rel=0.2)
    assert population.mean_divergence < 0.05
    nothing = learner.pool(CurveEvidence.empty(3), CurvePopulation(), 1 / DAY)
    assert nothing == CurvePopulation()


def test_the_population_is_learned_again_when_polls_have_grown_by_a_quarter() -> None:
    assert [is_pooling_due(n, 0) for n in (49, 50)] == [False, True]
    assert [is_pooling_due(n, 100) for n in (124, 125)] == [False, True]


def test_settings_must_be_in_range() -> None:
    for n in (0, 256):
        with pytest.raises(ValueError, match="n_polls_per_base must be from 1 to 255"):
            PageCurveLearner(n_polls_per_base=n)
