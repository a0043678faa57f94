"""The value of a page without signals, against the incomplete gamma function and its laws."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import gammainc

from recrawl.core.value import crawl_value

rates = st.floats(1e-12, 1e3)
durations = st.floats(1e-6, 1e12)


def test_matches_the_incomplete_gamma_function() -> None:
    """1 - (1+x)e^-x is P(2, x), the regularised incomplete gamma function."""
    x = np.geomspace(1e-12, 1e3, 4_001)
    np.testing.assert_allclose(crawl_value(1.0, x), gammainc(2, x), rtol=1e-13)


def test_a_page_that_never_changes_is_worth_nothing() -> None:
    assert crawl_value(0.0, 1e9) == 0.0


@given(change_rate=rates, elapsed=durations)
def test_does_not_depend_on_the_unit_of_time(change_rate: float, elapsed: float) -> None:
    """A value is a time: in days it is the same number of seconds."""
    in_days = crawl_value(change_rate * 86_400, elapsed / 86_400) * 86_400
    np.testing.assert_allclose(in_days, crawl_value(change_rate, elapsed), rtol=1e-9)


@given(change_rate=rates, elapsed=st.tuples(durations, durations))
def test_grows_with_age_up_to_its_limit(change_rate: float, elapsed: tuple[float, float]) -> None:
    younger, older = crawl_value(change_rate, sorted(elapsed))
    assert 0 <= younger <= older * (1 + 1e-12)
    assert older <= (1 + 1e-12) / change_rate
