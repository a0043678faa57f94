"""Claims on recorded histories count what visits find as a plain walk over visits does."""

import numpy as np
import pytest

from lab.change_days import ChangeDays, Stretches
from lab.claim import Scale
from lab.claims.g18_weekly_polls.claim import SETTINGS as WEEKLY
from lab.claims.g18_weekly_polls.claim import _control, _estimates
from lab.claims.gt1_changes_detected.claim import (
    IMPROVED,
    NAIVE,
    SETTINGS,
    UNIFORM,
    found_by_policy,
    n_found_after,
    shared_visits,
)


def random_stretches(seed: int, n_pages: int = 40, n_days: int = 91) -> Stretches:
    rng = np.random.default_rng(seed)
    rate = rng.random(n_pages) ** 3
    page, day = np.nonzero(rng.random((n_pages, n_days)) < rate[:, np.newaxis])
    return Stretches(n_days=n_days, kind=np.zeros(n_pages, np.int64), page=page, day=day)


@pytest.mark.parametrize("draw", range(5))
def test_visits_find_the_same_changes_as_a_loop_over_them(draw: int) -> None:
    stretches = random_stretches(draw)
    n_visits = np.random.default_rng(draw).integers(0, 30, 40)
    start, left = 35, 56
    n = 0
    for page in range(40):
        ended = stretches.day[stretches.page == page] + 1
        last = float(start)
        for k in range(1, n_visits[page] + 1):
            at = start + k * left / n_visits[page] + 1e-9
            n += bool(np.any((ended > last) & (ended <= at)))
            last = at
    assert n_found_after(stretches, n_visits, start) == n


def test_uniform_visits_are_the_regular_ones() -> None:
    stretches = random_stretches(9)
    found = found_by_policy(stretches, SETTINGS[Scale.QUICK], seed=0)
    assert found[UNIFORM] == stretches.n_found(7).sum()


@pytest.mark.parametrize("offset", [0.0, 0.3, 0.99])
def test_all_visits_are_allocated(offset: float) -> None:
    weight = np.random.default_rng(0).random(1_000) ** 4
    visits = shared_visits(weight, 3_000, offset)
    assert visits.sum() == 3_000
    assert np.all(np.abs(visits - 3_000 * weight / weight.sum()) < 1 + 1e-9)


def test_estimates_help_if_pages_differ() -> None:
    """Half of the pages hardly ever change, the others every three days or so."""
    rng = np.random.default_rng(3)
    rate = np.repeat([0.002, 0.3], 200)
    page, day = np.nonzero(rng.random((400, 91)) < rate[:, np.newaxis])
    stretches = Stretches(n_days=91, kind=np.zeros(400, np.int64), page=page, day=day)
    found = found_by_policy(stretches, SETTINGS[Scale.QUICK], seed=0)
    assert found[UNIFORM] < 0.8 * found[NAIVE]
    assert found[UNIFORM] < 0.8 * found[IMPROVED]


def test_poisson_pages_are_estimated_without_much_bias() -> None:
    found = _estimates(_control(WEEKLY[Scale.QUICK]), WEEKLY[Scale.QUICK])
    assert np.all(found.naive <= 1 + 1e-12)
    assert abs(found.improved.mean() - 1) < 0.1 < abs(found.naive.mean() - 1)


def test_pages_that_change_too_rarely_or_too_often_are_dropped() -> None:
    settings = WEEKLY[Scale.QUICK]
    n_changes = np.array([2, 3, 41, 42])
    page = np.repeat(np.arange(4), n_changes)
    day = np.concatenate([np.arange(n) * 3 for n in n_changes])
    history = ChangeDays(
        kinds=("a",),
        kind=np.zeros(4, np.int64),
        n_days=np.full(4, settings.n_days),
        page=page,
        day=day,
    )
    found = _estimates(history.stretches(settings.n_days, seed=0), settings)
    assert found.n_changes.tolist() == [3, 41]
