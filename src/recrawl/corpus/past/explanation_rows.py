"""The explanation of a page in numbers, as the command line and web pages show it."""

import json
import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

from recrawl.corpus.inspect.explanation import PageExplanation
from recrawl.shard.explain import Why
from recrawl.units import count_text, instant_text, number_text, seconds_text, share_text

__all__ = ["explanation_of_answer", "explanation_rows"]


def _sources_rows(page: PageExplanation) -> list[tuple[str, str]]:
    rows = []
    for name, view in zip(page.sources, page.state.sources, strict=True):
        how = "set by you" if view.is_given else "learned" if view.is_judged else "assumed"
        since = count_text(view.signals_since_fetch, "signal")
        rows.append(
            (
                f"signals of {name}",
                f"{share_text(view.precision)} correct ({how}), "
                f"{seconds_text(view.delay_seconds)} after the change; "
                f"{since} since the last fetch",
            )
        )
    return rows


def _limits_words(page: PageExplanation) -> str:
    state = page.state
    parts = []
    if state.interval_seconds_min > 0:
        parts.append(f"min_age {seconds_text(state.interval_seconds_min)}")
    if math.isfinite(state.interval_seconds_max):
        parts.append(f"max_age {seconds_text(state.interval_seconds_max)}")
    if state.stale_probability > 0:
        stale = seconds_text(state.stale_seconds)
        parts.append(f"stale for more than {stale}: at most {share_text(state.stale_probability)}")
    if state.newcomer_until_ms is not None:
        parts.append(f"newcomer until {instant_text(state.newcomer_until_ms)}")
    if page.window is not None:
        parts.append(f"leased only between {page.window}")
    return "; ".join(parts) or "none"


def _host_words(page: PageExplanation) -> str:
    host = page.group_view
    delay = f"{seconds_text(host.delay_seconds)} between fetches" if host.delay_seconds else ""
    flight = f"{host.in_flight} of {host.in_flight_max} in flight"
    pages = count_text(host.n_pages, "page")
    return ", ".join(part for part in (f"{host.name}: {pages}", delay, flight) if part)


def _belief_words(shape: float, seconds: float) -> str:
    return f"as if {number_text(shape)} changes had been seen in {seconds_text(seconds)}"


# Reasons in the words of a user, where those of the scheduler need an explanation.
_WHY_WORDS = {
    Why.NOT_YET: "a fetch is not worth the price yet",
    Why.NEVER: "a fetch is never worth the price",
    Why.FLOOR: "it was fetched less than its min_age ago",
    Why.EARLY: "a fetch is not worth the price yet, but the budget allows more fetches than pages "
    "are due",
}
_DECIMALS_MAX = 5
_RATIO_MAX = 1_000.0
# Units of what a fetch saves.
_UNITS = ((86_400.0, "days"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))


def _value_words(value: float, price: float | None) -> str:
    """Return what a fetch saves and what it must save, in the same unit with the same digits.

    Examples
    --------
    >>> _value_words(2_400.0, 9_000.0)
    '40.0 min of staleness saved; the price is 150.0 min'
    >>> _value_words(5.004, 5.0)
    '5.004 s of staleness saved; the price is 5.000 s'
    """
    if price is None:
        return f"{seconds_text(round(value, 2))} of staleness saved; there is no price"
    low, high = sorted((value, price))
    shown = low if _RATIO_MAX * low >= high else high  # the one that has three digits
    unit, name = next((one for one in _UNITS if shown >= one[0]), _UNITS[-1])
    decimals = 0 if shown >= 100 * unit else 1 if shown >= 10 * unit else 2
    while decimals < _DECIMALS_MAX and round((high - low) / unit, decimals) == 0:
        decimals += 1
    least = 10.0**-decimals
    saved, needed = (
        f"less than {least:.{decimals}f} {name}"
        if 0 < one < least * unit / 2
        else f"{one / unit:,.{decimals}f} {name}"
        for one in (value, price)
    )
    return f"{saved} of staleness saved; the price is {needed}"


def explanation_rows(page: PageExplanation) -> list[tuple[str, str]]:
    """Return what is known of a page as names and values, in the words of the user.

    Parameters
    ----------
    page
        Explanation of the page, or `explanation_of_answer`.
    """
    state = page.state
    rows = [
        ("status", f"{state.status.name.lower()}; added {instant_text(state.added_at_ms)}"),
        ("why", _WHY_WORDS.get(page.why) or page.why.value.replace("its group", "its host")),
    ]
    if page.fetch_url != page.url:
        rows.append(("fetched as", page.fetch_url))
    if page.key is not None:
        rows.append(("key", page.key))
    if page.doc_id is not None:
        rows.append(("doc_id", page.doc_id))
    if page.metadata is not None:
        rows.append(("metadata", json.dumps(page.metadata, ensure_ascii=False)))
    if state.fetched_at_ms is not None:
        rows.append(("last fetch", instant_text(state.fetched_at_ms)))
    if state.due_at_ms is not None:
        # A signal can make it due as of a time before it was fetched or added.
        known_at_ms = state.added_at_ms if state.fetched_at_ms is None else state.fetched_at_ms
        rows.append(("due", instant_text(max(state.due_at_ms, known_at_ms))))
    if page.estimator == "gamma":
        rows += [
            ("belief", _belief_words(state.belief_shape, state.belief_seconds)),
            ("prior", _belief_words(state.prior_shape, state.prior_seconds)),
        ]
    rows.append(("changes", f"{number_text(state.change_rate_per_second * 86_400)} a day"))
    rows += _sources_rows(page)
    weight = "" if abs(state.kind_weight - 1) < 1e-3 else f" × {number_text(state.kind_weight)}"
    rows += [
        ("value of a fetch", _value_words(state.value, state.price if page.has_price else None)),
        ("importance", number_text(round(state.importance, 3)) + weight),
        ("cost", number_text(round(state.cost, 3))),
        ("limits", _limits_words(page)),
        ("kind", page.kind or "other"),
        ("host", _host_words(page)),
    ]
    return rows


def explanation_of_answer(members: Mapping[str, Any]) -> PageExplanation:
    """Return the answer of a service with the attributes of an explanation that are shown.

    Parameters
    ----------
    members
        Members of the answer: those of `PageExplanation.as_dict`.
    """
    members = dict(members)
    # JSON has no infinity.
    longest = members["interval_seconds_max"]
    state = members | {
        "status": SimpleNamespace(name=members["status"]),
        "sources": [SimpleNamespace(**view) for view in members["sources"]],
        "interval_seconds_max": math.inf if longest is None else longest,
    }
    page = members | {
        "state": SimpleNamespace(**state),
        "sources": [view["source"] for view in members["sources"]],
        "group_view": SimpleNamespace(**members["host"]),
        "has_price": members["price"] is not None,
        "why": Why[members["why"].upper()],
    }
    return cast("PageExplanation", SimpleNamespace(**page))
