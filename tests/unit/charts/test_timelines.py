import numpy as np
import pytest

from recrawl.charts import MARK_KINDS, Axis, Lane, Panel, Series, timeline
from tests.unit.charts.drawings import SVG, of_class, parsed, texts

_DAY = 86_400_000
_START, _END = 20_000 * _DAY, 20_030 * _DAY


def _titles(svg: str) -> list[str]:
    return [e.text or "" for e in parsed(svg).iter(f"{SVG}title")]


def _timeline(*lanes: Lane, panels: tuple[Panel, ...] = (), now_ms: int | None = None) -> str:
    return timeline(
        lanes, title="A page", start_ms=_START, end_ms=_END, panels=panels, now_ms=now_ms
    )


def test_marks_have_a_hover_text_with_kind_and_time() -> None:
    lane = Lane(
        name="fetches",
        at_ms=[_START + _DAY, _START + 2 * _DAY],
        what=["poll", "changed"],
        text=["", "12 <words>"],
    )
    titles = _titles(_timeline(lane))
    assert titles == [
        "poll, 2024-10-05 00:00:00 UTC",
        "changed, 2024-10-06 00:00:00 UTC: 12 <words>",
    ]


def test_the_key_names_each_kind_once() -> None:
    lane = Lane(name="all", at_ms=np.full(14, _START), what=[*MARK_KINDS, "other"] * 2)
    chart = _timeline(lane)
    assert [texts(chart).count(kind) for kind in (*MARK_KINDS, "other")] == [1] * 7


def test_marks_of_one_kind_in_one_pixel_are_merged() -> None:
    lane = Lane(name="a", at_ms=_START + np.arange(5_000) * 1_000, what=["poll"] * 5_000)
    titles = _titles(_timeline(lane))
    assert len(titles) < 10
    assert titles[0].endswith("UTC")
    assert " × poll, " in titles[0]


def test_marks_outside_the_time_axis_are_omitted() -> None:
    lane = Lane(name="a", at_ms=[_START - 1, _END + 1, 2**62], what=["poll"] * 3)
    assert _titles(_timeline(lane)) == []


def test_panels_share_the_axis_of_time() -> None:
    line = Series(name="value", x=[_START, _END], y=[0.2, 0.9])
    panel = Panel(title="P(fresh)", y=Axis(scale="share"), series=[line])
    chart = _timeline(Lane(name="a", at_ms=[], what=[]), panels=(panel, panel))
    assert texts(chart).count("P(fresh)") == 2
    assert texts(chart).count("2024") == 1


def test_now_is_marked_and_the_future_shaded() -> None:
    assert "now" in texts(_timeline(now_ms=_START + _DAY))
    assert of_class(_timeline(now_ms=_START + _DAY), "rc-shade")
    assert "now" not in texts(_timeline(now_ms=_END + _DAY))


def test_a_timeline_of_zero_length_is_valid() -> None:
    assert parsed(timeline([], title="", start_ms=0, end_ms=0)) is not None


def test_columns_of_wrong_length_raise() -> None:
    with pytest.raises(ValueError, match="what must have as many rows as at_ms, 2, got 1"):
        Lane(name="a", at_ms=[1, 2], what=["poll"])
    with pytest.raises(ValueError, match="width must be at least"):
        timeline([], title="", start_ms=0, end_ms=1, width=1)


def test_lanes_alone_have_an_axis_of_time_only() -> None:
    shown = texts(_timeline(Lane(name="fetches", at_ms=[_START], what=["poll"])))
    assert "fetches" in shown
    assert not any(words[:1].isdigit() and "." in words for words in shown)
