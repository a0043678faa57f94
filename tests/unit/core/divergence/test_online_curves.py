"""Divergence curves learned from polls, against pages whose curves are known."""

import math

import numpy as np
import pytest

from recrawl.core.belief import GammaBelief
from recrawl.core.divergence import ChangeProfiles, DivergencePrior, OnlineFit
from recrawl.core.divergence.online_curves import CurveLearner, DivergenceTotals, pooled_prior

DAY = 86_400.0
LEARNER = CurveLearner()


def totals_of(n_changed: list[float], mean_divergence: list[float]) -> DivergenceTotals:
    n = np.array(n_changed)
    return DivergenceTotals(n, n.copy(), n * np.array(mean_divergence))


def test_only_changed_polls_that_were_compared_count() -> None:
    totals = DivergenceTotals.empty(3)
    belief = GammaBelief.of(np.ones(4), DAY)
    found = [0.4, 0.2, np.nan, 0.3]
    LEARNER.observe(totals, [0, 1, 1, 0], belief, DAY, [True, False, True, True], found)
    np.testing.assert_array_equal(totals.n_changed, [2, 0, 0])
    np.testing.assert_allclose(totals.divergence, [0.7, 0, 0])
    np.testing.assert_allclose(totals.expected_changes, [2, 0, 0])


@pytest.mark.parametrize("ratio", [0.03, 0.3, 1.0])
@pytest.mark.parametrize("interval", [0.1, 1.0, 5.0])
def test_the_curve_of_a_page_polled_for_long_is_found(ratio: float, interval: float) -> None:
    """Polls that find the mean curve, given a change; what is left is the corpus' weight."""
    totals = DivergenceTotals.empty(1)
    belief = GammaBelief.of([1e5], 1e5 * DAY)
    ceiling = 0.6
    found = ceiling * math.expm1(-ratio * interval) / math.expm1(-interval)
    for _ in range(2_000):
        LEARNER.observe(totals, [0], belief, interval * DAY, True, found)
    curves = LEARNER.curves(totals, ceiling)
    assert curves.ceiling[0] == ceiling
    assert curves.ratio[0] == pytest.approx(ratio, rel=0.03)


def test_a_page_that_showed_nothing_is_thought_to_be_like_the_corpus() -> None:
    totals = totals_of([0.0] + [30.0] * 400, [0.0] + [0.03] * 400)
    mean = LEARNER.corpus_mean(totals)
    assert mean == pytest.approx(0.03, abs=0.002)
    curves = LEARNER.curves(totals, ceiling=0.6)
    assert curves.ratio[0] == pytest.approx(-math.log1p(mean / 0.6 * math.expm1(-1.0)))


def test_an_empty_corpus_is_thought_to_be_like_others() -> None:
    totals = DivergenceTotals.empty(4)
    assert LEARNER.corpus_mean(totals) == pytest.approx(LEARNER.mean_divergence)


def test_few_large_changes_move_a_page_more_than_the_most_probable_size() -> None:
    """One poll in twenty finds the page replaced: the mean, not the median, is what counts."""
    totals = DivergenceTotals.empty(1)
    belief = GammaBelief.of([1e5], 1e5 * DAY)
    for poll in range(200):
        LEARNER.observe(totals, [0], belief, 0.01 * DAY, True, 1.0 if poll % 20 == 0 else 0.0)
    curves = LEARNER.curves(totals, ceiling=0.9)
    assert curves.ceiling[0] * curves.ratio[0] == pytest.approx(0.05, rel=0.1)


def test_no_page_diverges_faster_than_it_changes() -> None:
    curves = LEARNER.curves(totals_of([50.0], [0.9]), ceiling=0.2)
    assert curves.ratio[0] == 1.0
    assert 0.85 < curves.ceiling[0] <= 1.0


def test_the_fit_counts_as_far_as_polls_find_pages_at_their_ceiling() -> None:
    """Polled every 5 changes: one page has then lost all it can, the other hardly anything."""
    n_polls = np.full(2, 1e6)
    totals = DivergenceTotals(n_polls, 5.0 * n_polls, n_polls * [0.5, 0.005])
    learner = CurveLearner()
    alone = learner.curves(totals, ceiling=0.5).ratio
    np.testing.assert_allclose(alone, [1.0, 0.002], rtol=0.01)
    lower = learner.curves(totals, ceiling=0.5, fitted_ratio=[0.3, 0.0002]).ratio
    np.testing.assert_allclose(lower, [0.3, 0.002 * 0.1**0.01], rtol=0.01)
    higher = learner.curves(totals, ceiling=0.5, fitted_ratio=2.0).ratio
    np.testing.assert_allclose(higher, alone)


def test_single_rows_can_be_requested() -> None:
    totals = totals_of([9.0, 5.0, 20.0], [0.1, 0.5, 0.02])
    every = LEARNER.curves(totals, [0.5, 0.6, 0.7])
    some = LEARNER.curves(totals, [0.7, 0.5], corpus_mean=LEARNER.corpus_mean(totals), rows=[2, 0])
    np.testing.assert_array_equal(some.ceiling, every.ceiling[[2, 0]])
    np.testing.assert_array_equal(some.ratio, every.ratio[[2, 0]])


def test_the_pooled_prior_is_that_of_the_corpus() -> None:
    rng = np.random.default_rng(1)
    log_ratio = rng.normal(np.log(0.3), 0.5, 2_000)
    logit = rng.normal(-1.0, 0.8, 2_000)
    ceiling = 1 / (1 + np.exp(-logit))
    change_rate = np.full(2_000, 1 / DAY)
    sure = np.full(2_000, 1e-3)
    fit = OnlineFit(ceiling, np.exp(log_ratio) / DAY, sure, sure, np.ones(2_000, np.bool_))
    prior = pooled_prior(DivergencePrior(), fit, change_rate)
    assert prior.ratio_median == pytest.approx(0.3, rel=0.06)
    assert prior.log_ratio_sd == pytest.approx(0.5, rel=0.1)
    assert prior.ceiling_median == pytest.approx(1 / (1 + math.e), rel=0.1)
    assert prior.logit_ceiling_sd == pytest.approx(0.8, rel=0.1)
    assert prior.sketch_size == DivergencePrior().sketch_size


def test_a_corpus_that_showed_nothing_leaves_the_prior_where_it_is() -> None:
    prior = DivergencePrior()
    fit = prior.fit(ChangeProfiles.empty(10), 1 / DAY)
    pooled = pooled_prior(prior, fit, 1 / DAY)
    assert pooled.ratio_median == pytest.approx(prior.ratio_median)
    assert pooled.log_ratio_sd == pytest.approx(prior.log_ratio_sd, rel=0.01)
    assert pooled.logit_ceiling_sd == pytest.approx(prior.logit_ceiling_sd, rel=0.01)
    no_pages = prior.fit(ChangeProfiles.empty(0), 1 / DAY)
    assert pooled_prior(prior, no_pages, 1 / DAY) == prior


@pytest.mark.parametrize(
    ("name", "value"),
    [("mean_divergence", 1.0), ("n_pages", 0.0), ("n_changed", -1.0), ("ratio_max", math.inf)],
)
def test_impossible_settings_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} must be"):
        CurveLearner(**{name: value})
