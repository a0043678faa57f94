"""The webs, delays and instants on which Signals' claims are measured."""

import numpy as np
import pytest

from lab.claims.s1_signal_quality.claim import true_quality
from lab.claims.s5_corrupted_signals.semi_synthetic import Population, corrupted
from lab.claims.s8_delayed_signals.claim import LAWS, delayed
from lab.claims.s9_changing_budget.claim import instants_of
from lab.claims.s10_fitting_signals.claim import crawl_polls
from lab.claims.sg_fetches_saved.claim import budget_of_freshness
from lab.greedy import Told
from lab.signal_webs import without_false_signals
from recrawl.sim import SignalSource, Times, make_web, signals_paper_web


def test_crawls_count_the_signals_and_changes_since_the_last_one() -> None:
    crawls = Times(np.array([0, 3, 4]), np.array([1.0, 2.0, 4.0, 5.0]))
    changes = Times(np.array([0, 2, 2]), np.array([0.5, 3.0]))
    signals = Times(np.array([0, 3, 4]), np.array([0.5, 0.7, 1.5, 2.0]))
    polls = crawl_polls(crawls, changes, signals)
    assert polls.elapsed.tolist() == [1.0, 1.0, 2.0, 5.0]
    assert polls.n_signals.tolist() == [2.0, 1.0, 0.0, 1.0]
    assert polls.changed.tolist() == [True, False, True, False]


def test_only_pages_with_good_signals_pass_the_thresholds() -> None:
    web = Population(n_pages=2_000).web(0, horizon=1.0)
    told = Told.truth(web)
    passes = (told.precision > 0.7) & (told.recall > 0.6)
    assert passes[:100].all()
    assert not passes[100:].any()
    assert web.importance[:100].sum() / web.importance.sum() == pytest.approx(0.264)


def test_no_noise_is_the_truth_and_noise_is_in_proportion() -> None:
    web = Population(n_pages=500).web(0, horizon=1.0)
    truth, same, noisy = Told.truth(web), corrupted(web, 0.0, 1), corrupted(web, 0.2, 1)
    np.testing.assert_allclose(same.precision, truth.precision)
    np.testing.assert_allclose(same.recall, truth.recall)
    for told, true in ((noisy.precision, truth.precision), (noisy.recall, truth.recall)):
        assert np.all(told - 0.8 * true >= -1e-9)
        assert np.all(told - 0.8 * true <= 0.2 + 1e-9)


def test_noise_adds_no_signals_to_a_silent_page() -> None:
    web = Population(n_pages=500, is_silent=True).web(0, horizon=50.0)
    told = corrupted(web, 0.2, 1)
    assert web.signals.offsets[-1] == web.signals.offsets[25]
    assert not told.recall[25:].any()
    assert not told.false_rate[25:].any()


def test_late_signals_are_the_same_signals_later() -> None:
    web = signals_paper_web(0, 20, horizon=200.0)
    for delay in LAWS.values():
        late = delayed(web, delay, seed=0)
        assert np.array_equal(np.sort(late.signals.claimed_at), np.sort(web.signals.claimed_at))
        assert np.all(late.signals.at >= late.signals.claimed_at)
        page = late.signals.pages()
        assert np.all(np.diff(late.signals.at)[page[1:] == page[:-1]] >= 0)


def test_delays_have_a_mean_of_six_of_their_unit() -> None:
    """Within 5 standard errors of a Poisson or exponential mean (fails 1 in 1.7 million)."""
    web = signals_paper_web(0, 100, horizon=200.0)
    for delay in LAWS.values():
        if delay is not None:
            late = delayed(web, delay, seed=0).signals
            mean = (late.at - late.claimed_at).mean() / delay.unit
            error = (6.0**0.5 if delay.is_poisson else 6.0) / late.at.size**0.5
            assert abs(mean - 6.0) < 5 * error


def test_no_false_signals_are_left_and_changes_stay() -> None:
    web = signals_paper_web(0, 30, horizon=100.0)
    true_only = without_false_signals(web)
    assert np.array_equal(true_only.changes.at, web.changes.at)
    assert np.isin(true_only.signals.at, true_only.changes.at).all()


@pytest.mark.parametrize(
    ("recall", "false_rate", "precision"), [(1.0, 0.0, 1.0), (0.0, 1.0, 0.0)], ids=["true", "false"]
)
def test_the_quality_of_hosts_is_counted(
    recall: float, false_rate: float, precision: float
) -> None:
    source = SignalSource(recall=recall, false_rate=false_rate)
    web = make_web(0, 100.0, np.full(10, 0.5), group=np.arange(10) // 5, sources=[source])
    quality = true_quality(web)
    assert quality.precision.tolist() == [precision] * 2
    assert quality.recall.tolist() == [recall] * 2


def test_fetches_are_even_in_each_phase() -> None:
    at = instants_of(np.array([0.0, 2.0]), np.array([2.0, 3.0]), np.array([1.0, 4.0]))
    assert at.tolist() == [1.0, 2.0, 2.25, 2.5, 2.75, 3.0]


def test_the_least_budget_that_is_fresh_enough_is_found() -> None:
    budget = budget_of_freshness(lambda spent: spent / (1 + spent), 0.5, 8.0)
    assert budget == pytest.approx(1.0, abs=1e-3)
