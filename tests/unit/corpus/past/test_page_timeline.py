"""The history of a page is drawn as SVG and as lines of text."""

from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from recrawl.corpus.past.page_history import (
    BeliefSeries,
    EarlierChange,
    PageHistory,
    PageSignal,
    Poll,
)
from recrawl.corpus.past.page_timeline import text_timeline, timeline_svg
from recrawl.shard import Transition, Verdict

DAY = 86_400_000
START = 1_700_000_000_000


def poll(day: float, verdict: Verdict, transition: Transition | None = None) -> Poll:
    at_ms = START + round(day * DAY)
    return Poll(at_ms, at_ms, verdict, transition, True)


def moments(first_day: float, last_day: float) -> BeliefSeries:
    at_ms = np.linspace(START + first_day * DAY, START + last_day * DAY, 20).astype(np.int64)
    return BeliefSeries(
        at_ms=at_ms,
        freshness=np.linspace(1, 0.5, 20),
        value=np.linspace(0, 2_000, 20),
        price=np.full(20, 1_500.0),
    )


def history(**changes: Any) -> PageHistory:
    fields: dict[str, Any] = {
        "url": "https://a.example/<1>",
        "from_ms": START,
        "until_ms": START + 10 * DAY,
        "is_whole": True,
        "polls": (
            poll(0, Verdict.CHANGED, Transition.NEW),
            poll(2, Verdict.UNCHANGED, Transition.NONE),
            poll(4, Verdict.CHANGED, Transition.CHANGED),
            poll(6, Verdict.TRANSIENT_ERROR, Transition.NONE),
            poll(8, Verdict.GONE, Transition.GONE),
            poll(9.99, Verdict.REVERTED, Transition.REVERTED),
        ),
        "signals": (PageSignal(START + 3 * DAY, "sitemap"), PageSignal(START + 5 * DAY, "ping")),
        "orders": (),
        "earlier": (),
        "believed": None,
        "ahead": None,
    }
    return PageHistory(**(fields | changes))


def test_text_has_a_mark_for_each_poll_at_its_time() -> None:
    lines = dict(text_timeline(history(), width=10))
    assert lines["polls"] == "◇ · ● × ○◐"
    assert lines["sitemap"] == "   ▾      "
    assert lines["ping"] == "     ▾    "
    assert lines[""].startswith("2023-11-14")


def test_of_several_polls_in_one_place_the_most_important_is_shown() -> None:
    polls = (
        poll(1.0, Verdict.UNCHANGED),
        poll(1.1, Verdict.CHANGED),
        poll(1.2, Verdict.TRANSIENT_ERROR),
    )
    lines = dict(text_timeline(history(polls=polls), width=10))
    assert lines["polls"] == " ●        "


def test_ignored_outcomes_are_not_shown() -> None:
    void = poll(5, Verdict.CHANGED)._replace(is_counted=False)
    assert dict(text_timeline(history(polls=(void,)), width=10))["polls"].strip() == ""


def test_imported_fetches_are_shown_at_their_own_time() -> None:
    imported = tuple(
        poll(day - 10, Verdict.UNCHANGED)._replace(at_ms=START + DAY) for day in (0, 5, 15)
    )
    imported_history = history(polls=imported, signals=())
    assert dict(text_timeline(imported_history, width=20))["polls"] == "·    ·         ·    "
    assert dict(text_timeline(imported_history, width=20))[""].startswith("2023-11-04")
    drawn = " ".join(ET.fromstring(timeline_svg(imported_history)).itertext())
    assert "Nov 4" in drawn or "11-04" in drawn or "4 Nov" in drawn


def test_the_drawing_is_valid_svg_and_has_every_event() -> None:
    drawn = timeline_svg(
        history(
            believed=moments(0, 10),
            ahead=moments(10, 12),
            earlier=(
                EarlierChange(START - DAY, Transition.CHANGED),
                EarlierChange(START - 2 * DAY, Transition.GONE),
            ),
        )
    )
    text = " ".join(ET.fromstring(drawn).itertext())
    for word in ("polls", "sitemap", "ping", "earlier changes", "fresh", "price", "https://a.ex"):
        assert word in text


def test_the_next_time_that_the_page_is_due_has_a_mark() -> None:
    def drawn(day: float | None) -> str:
        due_at_ms = None if day is None else START + round(day * DAY)
        return timeline_svg(
            history(believed=moments(0, 10), ahead=moments(10, 12), due_at_ms=due_at_ms)
        )

    text = " ".join(ET.fromstring(drawn(11)).itertext())
    assert "next due" in text
    assert "due, 2023-11-25 22:13:20 UTC: if nothing happens until then" in text
    for day in (None, 9.0, 13.0):  # never, due already, and after the end of the drawing
        assert "due" not in drawn(day)


@pytest.mark.parametrize(
    "changes",
    [
        {"polls": (), "signals": ()},
        {"until_ms": START},
        {"believed": moments(0, 0), "ahead": moments(0, 0)},
    ],
)
def test_a_short_history_can_be_drawn(changes: dict[str, Any]) -> None:
    ET.fromstring(timeline_svg(history(**changes)))
    text_timeline(history(**changes), width=20)


def test_before_there_is_a_price_no_value_is_drawn() -> None:
    believed = moments(0, 10)
    believed.price[:] = np.nan
    drawn = timeline_svg(history(believed=believed), title="")
    assert "Value of a fetch" not in drawn
    assert "Probability that the copy is fresh" in drawn
