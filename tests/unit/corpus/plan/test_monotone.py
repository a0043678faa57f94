import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import PchipInterpolator

from recrawl.corpus.plan.monotone import Monotone

# In millionths: scipy divides by the heights, which overflows for the smallest numbers there are.
_HEIGHTS = st.integers(-5_000_000, 5_000_000).map(lambda millionths: millionths / 1e6)
_STEPS = st.lists(st.tuples(st.floats(0.01, 10), _HEIGHTS), min_size=1, max_size=12)


@given(_STEPS, st.floats(0, 1))
def test_the_curve_equals_that_of_scipy(steps: list[tuple[float, float]], place: float) -> None:
    x, y = np.cumsum([(0.0, 0.0), *steps], axis=0).T
    at = place * float(x[-1])
    assert Monotone(x, y)(at) == pytest.approx(float(PchipInterpolator(x, y)(at)), abs=1e-9)


@given(_STEPS, st.floats(0, 1))
def test_place_of_is_the_inverse_of_the_curve(
    steps: list[tuple[float, float]], share: float
) -> None:
    x, y = np.cumsum([(0.0, 0.0), *((a, abs(b)) for a, b in steps)], axis=0).T
    curve = Monotone(x, y)
    height = share * float(y[-1])
    assert curve(curve.place_of(height)) == pytest.approx(height, abs=1e-6)


def test_a_height_beyond_the_end_has_no_place() -> None:
    curve = Monotone(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    assert curve.place_of(1.5) == math.inf
    assert curve.place_of(math.nan) == math.inf
    assert curve.place_of(-1.0) == 0.0
    assert curve(7.0) == 1.0


def test_too_few_or_unsorted_points_are_rejected() -> None:
    for x, y in (([0.0], [0.0]), ([0.0, 0.0], [0.0, 1.0]), ([0.0, 1.0], [0.0])):
        with pytest.raises(ValueError, match="x must rise"):
            Monotone(np.array(x), np.array(y))
