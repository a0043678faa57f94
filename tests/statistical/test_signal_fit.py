"""Precision and recall of single pages: counting is biased, the likelihood is not."""

import numpy as np

from recrawl.papers.signal_quality import SignalledPolls, count_quality, fit_signals

Numbers = np.ndarray


def pages_of_appendix_e(
    rng: np.random.Generator, n_pages: int, horizon: float
) -> tuple[SignalledPolls, Numbers, Numbers, Numbers]:
    """Return polls, precision, recall and signal rate of pages as in Signals App. E."""
    precision, recall = rng.uniform(0.2, 0.95, (2, n_pages))
    change_rate = 1 / rng.uniform(2, 20, n_pages)
    poll_rate = change_rate * np.exp(rng.uniform(np.log(0.25), np.log(4), n_pages))
    n_polls = np.round(poll_rate * horizon).astype(int)
    page = np.repeat(np.arange(n_pages), n_polls)
    elapsed = rng.exponential(1 / poll_rate[page])
    announced = rng.poisson((recall * change_rate)[page] * elapsed)
    false = rng.poisson((recall * change_rate * (1 / precision - 1))[page] * elapsed)
    silent = rng.poisson(((1 - recall) * change_rate)[page] * elapsed)
    polls = SignalledPolls(
        np.concatenate([[0], np.cumsum(n_polls)]),
        elapsed,
        (announced + false).astype(np.float64),
        announced + silent > 0,
    )
    gamma = np.bincount(page, polls.n_signals) / np.bincount(page, elapsed)
    return polls, precision, recall, gamma


def test_counting_is_biased_and_the_likelihood_is_not(rng: np.random.Generator) -> None:
    """Signals App. E, figs 10 and 11, with 300 pages and a fifth of the paper's horizon.

    The mean errors of the fit are within 5 of their standard errors, which are below 0.003; the
    mean squared error is some 1e-3 here, and the paper's 1e-4 with its longer horizon.  Counting
    is 0.2 too high.
    """
    polls, precision, recall, gamma = pages_of_appendix_e(rng, n_pages=300, horizon=20_000)
    fit = fit_signals(polls)
    assert fit.converged.all()
    true_rate = fit.precision * gamma
    fitted_recall = true_rate / (fit.unsignalled_change_rate + true_rate)
    for fitted, true in ((fit.precision, precision), (fitted_recall, recall)):
        error = fitted - true
        standard_error = error.std() / np.sqrt(error.size)
        assert standard_error < 0.003
        assert abs(error.mean()) < 5 * standard_error + 0.002
        assert (error**2).mean() < 2e-3
    counted = count_quality(polls)
    for found, true in zip(counted, (precision, recall), strict=True):
        assert (found - true).mean() > 0.1


def test_a_longer_horizon_shrinks_the_error(rng: np.random.Generator) -> None:
    """Four times as many polls: a quarter of the mean squared error, give or take; no floor."""
    errors = []
    for horizon in (10_000, 40_000):
        polls, precision, _, _ = pages_of_appendix_e(rng, n_pages=200, horizon=horizon)
        errors.append(((fit_signals(polls).precision - precision) ** 2).mean())
    assert 0.1 < errors[1] / errors[0] < 0.6
