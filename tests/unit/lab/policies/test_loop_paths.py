"""Paths poll by poll agree with what the core computes without drawing anything."""

import numpy as np
import pytest

from lab.policies.loop_paths import loop_paths
from recrawl.papers.change_rate import PseudoObservations, best_initial_interval


@pytest.mark.slow_without_jit
def test_the_deviation_of_many_paths_is_that_of_all_outcomes(rng: np.random.Generator) -> None:
    """Within 5 standard errors of a median over correlated estimates, generously counted."""
    rate, first, n_paths = 0.1, 7.0, 20_000
    expected = best_initial_interval(rate, first, n_polls=4, interval_factor=0.8).deviation[0]
    paths = loop_paths(rng, np.full(n_paths, rate), first, 4, fraction=0.8)
    off = np.abs(paths.period - 1 / rate).reshape(-1)
    margin = 5 * 0.5 / np.sqrt(n_paths)
    low, high = np.quantile(off, [0.5 - margin, 0.5 + margin])
    assert low <= expected <= high


def test_edges_are_distinguished_from_estimates(rng: np.random.Generator) -> None:
    paths = loop_paths(rng, [1e-9, 1e9], [5.0, 5.0], 3, fraction=0.5)
    assert paths.is_never.tolist() == [[True] * 3, [False] * 3]
    assert paths.is_always.tolist() == [[False] * 3, [True] * 3]
    assert paths.period[0] == pytest.approx([5.0, 7.5, 11.25])
    assert paths.period[1] == pytest.approx([5.0, 2.5, 1.25])


def test_a_pair_of_polls_keeps_estimates_from_the_edges(rng: np.random.Generator) -> None:
    pseudo = PseudoObservations(changed_after=10.0, unchanged_after=10.0)
    paths = loop_paths(rng, [1e-9, 1e9], 1 / pseudo.mode_rate, 3, pseudo=pseudo)
    assert (np.diff(paths.period[0]) > 0).all()
    assert (np.diff(paths.period[1]) < 0).all()
    assert paths.elapsed[:, 0] == pytest.approx(np.full(2, 10 / np.log(2)))
