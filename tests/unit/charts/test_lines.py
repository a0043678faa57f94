import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recrawl.charts import Axis, Note, Series, line_chart
from tests.unit.charts.drawings import height_of, of_class, parsed, texts

_X = np.arange(1.0, 11.0)


def _chart(*series: Series, notes: tuple[Note, ...] = (), scale: str = "linear") -> str:
    return line_chart(
        series,
        title="A title",
        x=Axis(label="time"),
        y=Axis(label="height", scale=scale),  # type: ignore[arg-type]
        notes=notes,
    )


def test_a_chart_has_its_title_labels_and_names() -> None:
    chart = _chart(Series(name="growth", x=_X, y=_X))
    assert {"A title", "time", "height", "growth"} <= set(texts(chart))
    assert parsed(chart).get("aria-label") == "A title"
    assert parsed(chart).get("viewBox") == "0 0 720 400"


def test_a_chart_has_a_light_and_a_dark_mode() -> None:
    chart = _chart()
    assert "@media (prefers-color-scheme:dark)" in chart
    assert of_class(chart, "rc-ground")


def test_text_is_escaped() -> None:
    chart = line_chart(
        [Series(name="<script>&", x=_X, y=_X)],
        title='"</svg><script>alert(1)</script>',
        x=Axis(label="<a>"),
        y=Axis(label="<b>\x00"),
        notes=[Note(text="<i>", x=2.0)],
    )
    assert "<script>" not in chart
    assert "<script>&" in texts(chart)


def test_nan_leaves_a_gap() -> None:
    y = np.where(_X == 5, np.nan, _X)
    y[7] = np.inf
    lines = of_class(_chart(Series(name="a", x=_X, y=y)), "rc-line")
    assert len(lines) == 3


def test_a_single_point_between_gaps_is_a_dot() -> None:
    chart = _chart(Series(name="a", x=[1, 2, 3], y=[np.nan, 4, np.nan]))
    assert len(of_class(chart, "rc-dot")) == 1
    assert not of_class(chart, "rc-line")


@pytest.mark.parametrize("scale", ["linear", "log", "share", "time"])
@given(
    rows=st.lists(st.tuples(st.floats(), st.floats(), st.floats()), max_size=8),
    style=st.sampled_from(["line", "step", "points", "dashed"]),
)
@settings(max_examples=40)
def test_any_numbers_make_a_valid_chart(
    scale: str, rows: list[tuple[float, float, float]], style: str
) -> None:
    x, y, low = np.array(rows, np.float64).reshape(-1, 3).T
    one = Series(name="a", x=x, y=y, low=low, high=y, style=style)  # type: ignore[arg-type]
    notes = [Note(text="n", x=a, y=b) for a, b, _ in rows]
    axis = Axis(scale=scale)  # type: ignore[arg-type]
    chart = line_chart([one], title="", x=axis, y=axis, notes=notes)
    assert parsed(chart) is not None
    assert "nan" not in chart.lower()
    assert "inf" not in chart.lower()


def test_thousands_of_points_are_thinned_and_keep_their_peaks() -> None:
    x = np.linspace(0, 1, 300_000)
    y = np.zeros(x.size)
    y[123_456] = 1.0
    chart = _chart(Series(name="a", x=x, y=y))
    flat = _chart(Series(name="a", x=x, y=np.zeros(x.size)))
    assert len(chart) < 60_000
    peak = of_class(chart, "rc-line")[0].get("d") or ""
    level = of_class(flat, "rc-line")[0].get("d") or ""
    assert len({pair.split()[-1] for pair in peak[1:].replace("L", " ").split(" ")[1::2]}) == 2
    assert len({pair.split()[-1] for pair in level[1:].replace("L", " ").split(" ")[1::2]}) == 1


def test_unsorted_and_broken_series_are_thinned_too() -> None:
    x = np.tile([0.0, 1.0], 100_000)
    assert len(_chart(Series(name="a", x=x, y=x))) < 60_000
    y = np.where(np.arange(200_000) % 2, np.nan, 1.0)
    assert len(_chart(Series(name="a", x=np.arange(200_000), y=y))) < 300_000


def test_labels_at_line_ends_do_not_overlap() -> None:
    chart = _chart(*(Series(name=f"line {i}", x=_X, y=_X + 0.001 * i) for i in range(8)))
    heights = sorted(height_of(chart, f"line {i}") for i in range(8))
    assert np.all(np.diff(heights) > 14)
    assert of_class(chart, "rc-leader")


def test_too_many_labels_are_moved_to_a_key() -> None:
    chart = _chart(*(Series(name=f"line {i}", x=_X, y=i * _X) for i in range(40)))
    assert "line 0" in texts(chart)
    assert not of_class(chart, "rc-label")


def test_the_main_line_is_highlighted_and_the_others_are_muted() -> None:
    chart = _chart(Series(name="a", x=_X, y=_X), Series(name="b", x=_X, y=2 * _X, is_main=True))
    assert [e.get("class") for e in of_class(chart, "rc-main")] == ["rc-line rc-c0 rc-main"]
    assert [e.get("class") for e in of_class(chart, "rc-muted")] == ["rc-line rc-c1 rc-muted"]


def test_notes_outside_the_axes_are_omitted() -> None:
    notes = (Note(text="in", x=5.0), Note(text="out", x=50.0), Note(text="none"))
    assert {"in", "out", "none"} & set(
        texts(_chart(Series(name="a", x=_X, y=_X), notes=notes))
    ) == {"in"}


def test_the_texts_of_notes_do_not_overlap() -> None:
    notes = tuple(Note(text=f"note {i}", x=5.0 + i / 100) for i in range(3))
    chart = _chart(Series(name="a", x=_X, y=_X), notes=notes)
    places = [(float(e.get("x") or 0), float(e.get("y") or 0)) for e in of_class(chart, "rc-note")]
    assert len(set(places)) == 3


def test_columns_of_different_length_raise() -> None:
    with pytest.raises(ValueError, match="y must have as many rows as x, 3, got 2"):
        Series(name="a", x=[1, 2, 3], y=[1, 2])
    with pytest.raises(ValueError, match="low and high must be given together"):
        Series(name="a", x=[1], y=[1], low=[1])
    with pytest.raises(ValueError, match="style must be"):
        Series(name="a", x=[1], y=[1], style="wavy")  # type: ignore[arg-type]


def test_a_chart_that_is_too_small_raises() -> None:
    with pytest.raises(ValueError, match="width and height must be at least"):
        line_chart([], title="", x=Axis(), y=Axis(), width=10)


def test_points_have_error_bars_and_lines_have_bands() -> None:
    points = Series(name="a", x=_X, y=_X, low=_X - 1, high=_X + 1, style="points")
    assert not of_class(_chart(points), "rc-band")
    assert len(of_class(_chart(points), "rc-line")) == _X.size
    line = Series(name="a", x=_X, y=_X, low=_X - 1, high=_X + 1)
    assert len(of_class(_chart(line), "rc-band")) == 1


def test_only_the_main_line_has_the_main_colour() -> None:
    series = [
        Series(name=f"s{i}", x=np.arange(3.0), y=np.arange(3.0) + i, is_main=i == 4)
        for i in range(14)
    ]
    svg = _chart(*series)
    with_first = [one.get("class", "").split() for one in of_class(svg, "rc-c0")]
    assert with_first
    assert all("rc-main" in names or "rc-strong" in names for names in with_first)
