"""Draw the history of one page: events on a time axis and curves below, as SVG or plain text."""

from collections.abc import Sequence

import numpy as np

from recrawl.charts import Axis, Lane, Panel, Series, timeline
from recrawl.core.arrays import FloatArray
from recrawl.corpus.past.page_history import (
    BeliefSeries,
    EarlierChange,
    PageHistory,
    Poll,
    is_change,
)
from recrawl.shard import Transition, Verdict
from recrawl.units import instant_text

__all__ = ["text_key", "text_timeline", "timeline_svg"]

# Kinds of marks in the drawing, and the symbol of each in a line of text.
_SYMBOLS = {
    "poll": "·",
    "first": "◇",
    "reverted": "◐",
    "changed": "●",
    "gone": "○",
    "error": "×",
}
_SIGNAL = "▾"
_KEY = {
    "◇": "first fetch",
    "·": "unchanged",
    "●": "changed",
    "◐": "back to an earlier version",
    "○": "gone",
    "×": "error",
    _SIGNAL: "signal",
}
# If several marks fall into one place, the last of these is shown.
_BY_IMPORTANCE = ("error", "poll", "first", "gone", "reverted", "changed")
_SOURCES_MAX = 12
# The axis of values begins at the lowest price divided by this.
_BELOW_PRICE = 30.0


def text_key(lines: Sequence[str]) -> str:
    """Return the legend of the symbols that occur in lines of text."""
    found = [f"{mark} {word}" for mark, word in _KEY.items() if any(mark in one for one in lines)]
    return "  ".join(found)


def _kind_of(poll: Poll) -> str:
    match poll.verdict:
        case Verdict.TRANSIENT_ERROR | Verdict.DISALLOWED | Verdict.WRONG_ANSWER:
            return "error"
        case Verdict.GONE | Verdict.MOVED:
            return "gone"
        case Verdict.REVERTED:
            return "reverted"
    if poll.transition == Transition.NEW:
        return "first"
    return "changed" if is_change(poll) else "poll"


def _poll_text(poll: Poll) -> str:
    if poll.transition == Transition.NEW:
        return "first fetch"
    return poll.verdict.name.lower().replace("_", " ")


def _kind_of_change(change: EarlierChange) -> str:
    if change.transition in (Transition.GONE, Transition.MOVED, Transition.RETIRED):
        return "gone"
    return "reverted" if change.transition == Transition.REVERTED else "changed"


def _sources(history: PageHistory) -> list[str]:
    names = sorted({signal.source for signal in history.signals})
    return names[:_SOURCES_MAX]


# ---------------------------------------------------------------------------- as SVG


def _lanes(history: PageHistory, end_ms: int) -> list[Lane]:
    polls = history.counted
    lanes = [
        Lane(
            name="polls",
            at_ms=[poll.fetched_at_ms for poll in polls],
            # Charts have no mark of its own for the first fetch; its text names it.
            what=[_kind_of(poll).replace("first", "poll") for poll in polls],
            text=[_poll_text(poll) for poll in polls],
        )
    ]
    if history.earlier:
        lanes.append(
            Lane(
                name="earlier changes",
                at_ms=[change.at_ms for change in history.earlier],
                what=[_kind_of_change(change) for change in history.earlier],
                text=[change.transition.name.lower() for change in history.earlier],
            )
        )
    for source in _sources(history):
        times = [signal.at_ms for signal in history.signals if signal.source == source]
        lanes.append(Lane(name=source, at_ms=times, what=["signal"] * len(times)))
    due_at_ms = history.due_at_ms
    if due_at_ms is not None and history.until_ms < due_at_ms <= end_ms:
        text = ["if nothing happens until then"]
        lanes.append(Lane(name="next due", at_ms=[due_at_ms], what=["due"], text=text))
    return lanes


def _join(past: BeliefSeries, ahead: BeliefSeries | None, name: str) -> FloatArray:
    """Return one column of the past and future beliefs in one array."""
    parts = [past] if ahead is None else [past, ahead]
    return np.concatenate([np.asarray(getattr(part, name), np.float64) for part in parts])


def _panels(history: PageHistory) -> list[Panel]:
    past, ahead = history.believed, history.ahead
    if past is None:
        return []
    at_ms, fresh, value, price = (
        _join(past, ahead, name) for name in ("at_ms", "freshness", "value", "price")
    )
    panels = [
        Panel(
            title="Probability that the copy is fresh",
            y=Axis(scale="share", low=0.0, high=1.0),
            series=[Series(name="", x=at_ms, y=fresh, is_main=True)],
        )
    ]
    asked = price[np.isfinite(price)]
    if asked.size:
        # Just after a fetch the value is 0, which a logarithmic axis cannot show.
        low = float(asked.min()) / _BELOW_PRICE
        top = value[np.isfinite(fresh) & (value > low)]
        high = 1.5 * max(float(asked.max()), float(top.max(initial=low)))
        panels.append(
            Panel(
                title="Value of a fetch, and the price (seconds of staleness)",
                y=Axis(scale="log", low=low, high=high),
                series=[
                    Series(name="value", x=at_ms, y=np.clip(value, low, high), is_main=True),
                    Series(name="price", x=at_ms, y=price, style="dashed"),
                ],
            )
        )
    return panels


def timeline_svg(history: PageHistory, *, title: str | None = None, width: int = 900) -> str:
    """Return the history of a page as an SVG: polls, changes, signals and, if known, beliefs.

    Where the beliefs reach the time at which the page comes due next, it has a mark.

    Parameters
    ----------
    history
        History of the page.
    title
        Heading; the URL by default.
    width
        Width in pixels.
    """
    start_ms = min([history.begins_ms, *(change.at_ms for change in history.earlier)])
    end_ms = history.until_ms
    if history.ahead is not None and history.ahead.at_ms.size:
        end_ms = int(history.ahead.at_ms[-1])
    return timeline(
        _lanes(history, end_ms),
        title=history.url if title is None else title,
        start_ms=start_ms,
        end_ms=max(end_ms, start_ms + 1),
        panels=_panels(history),
        now_ms=history.until_ms,
        width=width,
    )


# ---------------------------------------------------------------------------- as text


def _places(at_ms: Sequence[int], history: PageHistory, width: int) -> list[int]:
    start_ms = history.begins_ms
    span = max(history.until_ms - start_ms, 1)
    return [min(max((at - start_ms) * width // span, 0), width - 1) for at in at_ms]


def text_timeline(history: PageHistory, *, width: int = 60) -> list[tuple[str, str]]:
    """Return the history of a page as lines of text, each with its name.

    Parameters
    ----------
    history
        History of the page.
    width
        Length of a line in characters.
    """
    polls = history.counted
    shown: dict[int, str] = {}
    for place, poll in zip(
        _places([poll.fetched_at_ms for poll in polls], history, width), polls, strict=True
    ):
        shown[place] = max(shown.get(place, "error"), _kind_of(poll), key=_BY_IMPORTANCE.index)
    lines = [("polls", "".join(_SYMBOLS.get(shown.get(i, ""), " ") for i in range(width)))]
    for source in _sources(history):
        times = [signal.at_ms for signal in history.signals if signal.source == source]
        places = set(_places(times, history, width))
        lines.append((source, "".join(_SIGNAL if i in places else " " for i in range(width))))
    first, last = instant_text(history.begins_ms), instant_text(history.until_ms)
    lines.append(("", f"{first}{last:>{max(width - len(first), len(last) + 1)}}"))
    return lines
