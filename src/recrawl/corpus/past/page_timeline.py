"""The history of one page as a picture: marks over time, beliefs below; also in plain text."""

from collections.abc import Sequence

import numpy as np

from recrawl.charts import Axis, Lane, Panel, Series, timeline
from recrawl.core.arrays import FloatArray
from recrawl.corpus.past.page_history import FedChange, Moments, PageHistory, Poll, is_change
from recrawl.shard import Transition, Verdict
from recrawl.units import instant_text

__all__ = ["text_key", "text_timeline", "timeline_svg"]

# What a mark of the picture stands for, and what stands for it in a line of text.
_LETTERS = {"poll": "·", "reverted": "◐", "changed": "●", "gone": "○", "error": "×"}
_SIGNAL = "▾"
_KEY = {
    "·": "unchanged",
    "●": "changed",
    "◐": "back to an earlier version",
    "○": "gone",
    "×": "error",
    _SIGNAL: "signal",
}
# Where several fall into one place, the most telling is shown.
_TELLING = ("error", "poll", "gone", "reverted", "changed")
_SOURCES_MAX = 12
# The axis of values begins at the lowest price over this.
_BELOW_PRICE = 30.0


def text_key(lines: Sequence[str]) -> str:
    """Return what the marks in lines of text stand for, those that occur."""
    found = [f"{mark} {word}" for mark, word in _KEY.items() if any(mark in one for one in lines)]
    return "  ".join(found)


def _kind_of(poll: Poll) -> str:
    match poll.verdict:
        case Verdict.TRANSIENT_ERROR | Verdict.DISALLOWED:
            return "error"
        case Verdict.GONE | Verdict.MOVED:
            return "gone"
        case Verdict.REVERTED:
            return "reverted"
    return "changed" if is_change(poll) else "poll"


def _kind_of_change(change: FedChange) -> str:
    if change.transition in (Transition.GONE, Transition.MOVED, Transition.RETIRED):
        return "gone"
    return "reverted" if change.transition == Transition.REVERTED else "changed"


def _sources(history: PageHistory) -> list[str]:
    names = sorted({signal.source for signal in history.signals})
    return names[:_SOURCES_MAX]


# ---------------------------------------------------------------------------- the picture


def _lanes(history: PageHistory) -> list[Lane]:
    polls = history.counted
    lanes = [
        Lane(
            name="polls",
            at_ms=[poll.fetched_at_ms for poll in polls],
            what=[_kind_of(poll) for poll in polls],
            text=[poll.verdict.name.lower().replace("_", " ") for poll in polls],
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
        heard = [signal.at_ms for signal in history.signals if signal.source == source]
        lanes.append(Lane(name=source, at_ms=heard, what=["signal"] * len(heard)))
    return lanes


def _joined(past: Moments, ahead: Moments | None, name: str) -> FloatArray:
    """Return one column of what was believed, and of what will be."""
    parts = [past] if ahead is None else [past, ahead]
    return np.concatenate([np.asarray(getattr(part, name), np.float64) for part in parts])


def _panels(history: PageHistory) -> list[Panel]:
    past, ahead = history.believed, history.ahead
    if past is None:
        return []
    at_ms, fresh, value, price = (
        _joined(past, ahead, name) for name in ("at_ms", "freshness", "value", "price")
    )
    panels = [
        Panel(
            title="Chance that the copy is fresh",
            y=Axis(scale="share", low=0.0, high=1.0),
            series=[Series(name="", x=at_ms, y=fresh, is_main=True)],
        )
    ]
    asked = price[np.isfinite(price)]
    if asked.size:
        # Just after a fetch it is worth nothing, which a logarithmic axis cannot show.
        low = float(asked.min()) / _BELOW_PRICE
        top = value[np.isfinite(fresh) & (value > low)]
        high = 1.5 * max(float(asked.max()), float(top.max(initial=low)))
        panels.append(
            Panel(
                title="What a fetch is worth, and its price (seconds of staleness)",
                y=Axis(scale="log", low=low, high=high),
                series=[
                    Series(name="value", x=at_ms, y=np.clip(value, low, high), is_main=True),
                    Series(name="price", x=at_ms, y=price, style="dashed"),
                ],
            )
        )
    return panels


def timeline_svg(history: PageHistory, *, title: str | None = None, width: int = 900) -> str:
    """Return a page's history as an SVG: polls, changes and signals, and beliefs if it has them.

    Parameters
    ----------
    history
        Of the page.
    title
        Stands above; the URL unless given.
    width
        In pixels.
    """
    start_ms = min([history.begins_ms, *(change.at_ms for change in history.earlier)])
    end_ms = history.until_ms
    if history.ahead is not None and history.ahead.at_ms.size:
        end_ms = int(history.ahead.at_ms[-1])
    return timeline(
        _lanes(history),
        title=history.url if title is None else title,
        start_ms=start_ms,
        end_ms=max(end_ms, start_ms + 1),
        panels=_panels(history),
        now_ms=history.until_ms,
        width=width,
    )


# ---------------------------------------------------------------------------- in text


def _places(at_ms: Sequence[int], history: PageHistory, width: int) -> list[int]:
    start_ms = history.begins_ms
    span = max(history.until_ms - start_ms, 1)
    return [min(max((at - start_ms) * width // span, 0), width - 1) for at in at_ms]


def text_timeline(history: PageHistory, *, width: int = 60) -> list[tuple[str, str]]:
    """Return a page's history as a few lines of text, each with its name.

    Parameters
    ----------
    history
        Of the page.
    width
        Characters of a line.
    """
    polls = history.counted
    shown: dict[int, str] = {}
    for place, poll in zip(
        _places([poll.fetched_at_ms for poll in polls], history, width), polls, strict=True
    ):
        shown[place] = max(shown.get(place, "error"), _kind_of(poll), key=_TELLING.index)
    lines = [("polls", "".join(_LETTERS.get(shown.get(i, ""), " ") for i in range(width)))]
    for source in _sources(history):
        heard = [signal.at_ms for signal in history.signals if signal.source == source]
        places = set(_places(heard, history, width))
        lines.append((source, "".join(_SIGNAL if i in places else " " for i in range(width))))
    first, last = instant_text(history.begins_ms), instant_text(history.until_ms)
    lines.append(("", f"{first}{last:>{max(width - len(first), len(last) + 1)}}"))
    return lines
