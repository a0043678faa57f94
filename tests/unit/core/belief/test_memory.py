"""Memory: correlated surprises shorten it, those of a page that keeps to its rate do not."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.core.belief.memory import (
    CORRELATION_TOLERATED,
    kept_share_of,
    memory_lost_of,
    surprise_of,
)

chances = st.floats(0.0, 1.0)


@given(chances)
def test_a_surprise_is_none_on_average_if_the_chance_was_right(fresh_chance: float) -> None:
    mean = fresh_chance * surprise_of(fresh_chance, False)
    mean += (1 - fresh_chance) * surprise_of(fresh_chance, True)
    assert mean == pytest.approx(0.0, abs=1e-15)


@given(st.floats(0.0, 6.0), st.floats(-1.0, 1.0), st.floats(-1.0, 1.0))
def test_memory_stays_within_its_limits_and_moves_little(
    lost: float, surprise: float, before: float
) -> None:
    after = memory_lost_of(lost, surprise, before, 6.0)
    assert 0 <= after <= 6
    assert abs(after - lost) <= 0.05 * (1 + CORRELATION_TOLERATED)


def test_without_a_poll_before_memory_only_grows() -> None:
    assert memory_lost_of(1.0, 0.5, 0.0, 6.0) < 1.0


def test_evidence_fades_by_time_and_by_changes() -> None:
    assert kept_share_of(0.0, 0.0, 1.0, 1.0) == 1.0
    assert kept_share_of(1.0, 0.0, 1.0, 1.0) == 0.5
    assert kept_share_of(0.0, 6.0, 1.0, 3.0) == 0.25
    assert kept_share_of(9.0, 6.0, math.inf, math.inf) == 1.0


def lost_after(outcomes: np.ndarray, chance: float) -> float:
    """Return the octaves of memory lost to a page's outcomes under a constant believed chance."""
    lost, before = 3.0, 0.0
    for changed in outcomes.tolist():
        surprise = float(surprise_of(1 - chance, changed))
        lost = float(memory_lost_of(lost, surprise, before, 6.0))
        before = surprise
    return lost


def test_independent_outcomes_restore_memory_and_bursts_take_it(rng: np.random.Generator) -> None:
    """Fixed seed; the drift of independent ones is 5 deviations from the middle."""
    independent = rng.random(2_000) < 0.5
    assert lost_after(independent, 0.5) < 0.5
    in_bursts = np.repeat(rng.random(500) < 0.5, 4)
    assert lost_after(in_bursts, 0.5) > 5.5
