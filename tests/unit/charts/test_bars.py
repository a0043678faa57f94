import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.charts import Axis, Bar, bar_chart
from tests.unit.charts.drawings import SVG, of_class, parsed, texts


def _widths(svg: str) -> list[float]:
    return [float(e.get("width") or 0) for e in of_class(svg, "rc-fill") if e.tag == f"{SVG}rect"]


def test_bars_are_as_long_as_their_values() -> None:
    chart = bar_chart([Bar(name="a", value=10), Bar(name="b", value=30)], title="t", x=Axis())
    short, long = _widths(chart)
    assert long == pytest.approx(3 * short, rel=0.01)
    assert {"a", "b", "10", "30", "t"} <= set(texts(chart))


def test_bars_below_zero_go_left() -> None:
    chart = bar_chart([Bar(name="a", value=-5), Bar(name="b", value=5)], title="", x=Axis())
    left, right = (float(e.get("x") or 0) for e in of_class(chart, "rc-fill"))
    assert left < right
    assert "−5" in texts(chart)


def test_an_interval_is_drawn_and_words_may_replace_the_value() -> None:
    bar = Bar(name="a", value=0.5, low=0.4, high=0.6, text="half", is_main=True)
    other = Bar(name="b", value=0.7)
    chart = bar_chart([bar, other], title="", x=Axis(scale="share", label="of all"))
    assert len(of_class(chart, "rc-whisker")) == 1
    assert {"half", "70.0 %", "of all"} <= set(texts(chart))
    assert len(of_class(chart, "rc-muted")) == 1


@pytest.mark.parametrize("scale", ["linear", "log", "share"])
@given(values=st.lists(st.floats(), max_size=4))
def test_any_numbers_make_a_valid_bar_chart(scale: str, values: list[float]) -> None:
    bars = [Bar(name=f"b{i}", value=v, low=-v, high=math.inf) for i, v in enumerate(values)]
    chart = bar_chart(bars, title="", x=Axis(scale=scale))  # type: ignore[arg-type]
    assert parsed(chart) is not None
    assert "nan" not in chart


def test_a_chart_that_is_too_narrow_raises() -> None:
    with pytest.raises(ValueError, match="width must be at least"):
        bar_chart([], title="", x=Axis(), width=1)
