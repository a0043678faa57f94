import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.charts.axes import Axis, Span, span_of


def _span(axis: Axis, *values: float) -> Span:
    return span_of(axis, [np.array(values, np.float64)], n_ticks=5, is_rounded=True)


def test_ends_are_round() -> None:
    span = _span(Axis(), 3.0, 96.0)
    assert (span.low, span.high) == (0.0, 100.0)


def test_an_axis_need_not_begin_at_zero() -> None:
    span = _span(Axis(), 96.0, 99.0)
    assert (span.low, span.high) == (96.0, 99.0)


def test_an_axis_of_shares_ends_at_one_unless_the_data_exceed_it() -> None:
    assert _span(Axis(scale="share"), 0.2, 0.97).high == 1.0
    assert _span(Axis(scale="share"), 0.2, 1.32).high > 1.32


def test_given_ends_are_kept() -> None:
    span = _span(Axis(low=-3.0, high=7.5), 0.0, 100.0)
    assert (span.low, span.high) == (-3.0, 7.5)


@pytest.mark.parametrize("scale", ["linear", "log", "share", "time"])
@given(values=st.lists(st.floats(), max_size=5), low=st.floats() | st.none())
def test_the_ends_of_an_axis_always_differ(
    scale: str, values: list[float], low: float | None
) -> None:
    axis = Axis(scale=scale, low=low)  # type: ignore[arg-type]
    for is_rounded in (False, True):
        columns = [np.array(values, np.float64)]
        span = span_of(axis, columns, n_ticks=5, is_rounded=is_rounded)
        assert span.low < span.high
        places = span.places(np.array(values, np.float64))
        assert not np.isinf(places).any()
        span.ticks(5)


def test_what_is_not_positive_has_no_place_on_a_logarithmic_axis() -> None:
    span = _span(Axis(scale="log"), 1.0, 100.0)
    assert np.isnan(span.places(np.array([0.0, -1.0, np.nan]))).all()
    assert span.place(10.0) == pytest.approx(0.5)


def test_an_unknown_scale_is_refused() -> None:
    with pytest.raises(ValueError, match="scale must be"):
        Axis(scale="cubic")  # type: ignore[arg-type]
