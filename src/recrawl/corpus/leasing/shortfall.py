"""Why a lease has fewer pages than requested: the budget, its hours, hosts, or pages not due.

Reasons that concern pages are counted.  Of a large corpus a sample is counted, so that the answer
takes milliseconds.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import RowArray
from recrawl.corpus.budget_view import BudgetView, seconds_to_next_fetch
from recrawl.corpus.inspect.page_waits import WHYS, waits_of
from recrawl.messages.leases import Orders, Shortfall, ShortfallReason, is_run_over
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.config.time_windows import zone_of
from recrawl.node.node import Node
from recrawl.shard import Shard
from recrawl.shard.state.status import PageStatus, Why
from recrawl.units import count_text, seconds_text

__all__ = [
    "PAGES_COUNTED_MAX",
    "Orders",
    "Shortfall",
    "ShortfallReason",
    "budget_reason",
    "find_shortfall",
    "is_run_over",
    "merge_shortfalls",
    "window_reason",
    "window_text",
]

PAGES_COUNTED_MAX = 1 << 16
"""Number of pages of a partition up to which all are counted; of more, about this many."""


# ---------------------------------------------------------------------------- the whole corpus


def window_text(config: CorpusConfig) -> str | None:
    """Return the hours in which pages are leased, with their time zone; None for all hours."""
    windows = config.budget.between
    return None if windows is None else f"{windows} ({config.budget.time_zone})"


def window_reason(config: CorpusConfig, now_ms: int) -> ShortfallReason | None:
    """Return the reason that pages may not be leased at this time of day; None if they may."""
    windows = config.budget.between
    if windows is None:
        return None
    zone = zone_of(config.budget.time_zone)
    opens_at_ms = windows.opens_at_ms(now_ms, zone)
    if opens_at_ms <= now_ms:
        return None
    seconds = (opens_at_ms - now_ms) / 1000
    return ShortfallReason(
        why=Why.OUTSIDE_WINDOW,
        n_pages=None,
        seconds=seconds,
        text=f"pages are leased only between {window_text(config)}, next in "
        f"{seconds_text(seconds)} (budget.between in recrawl.toml)",
    )


def _is_spent(shard: Shard) -> bool:
    """Return whether a partition can pay for no order now."""
    return seconds_to_next_fetch(shard) > 0


def budget_reason(
    shards: Sequence[Shard], config: CorpusConfig, run: str, n_missing: int
) -> ShortfallReason | None:
    """Return the reason that a budget is spent in some partitions; None if it is in none.

    Parameters
    ----------
    shards
        Shards of the partitions.
    config
        Configuration of the corpus.
    run
        Name of the present run.
    n_missing
        Number of pages that are missing.
    """
    spent = [shard for shard in shards if shard.n_pages and _is_spent(shard)]
    if not spent:
        return None
    view = BudgetView.of(shards, config.budget.cost_per_fetch)
    if view.run_budget is not None:
        text = f"the budget of {view.text} is spent in the run {run!r}"
        return ShortfallReason(why=Why.RUN_SPENT, n_pages=None, seconds=None, text=text)
    if not view.per_second:
        is_zero = view.credit_max == 0
        text = "the budget is 0" if is_zero else "the budget was for one run and is spent"
        text += "; set another with `recrawl set --budget RATE`"
        return ShortfallReason(why=Why.NO_BUDGET, n_pages=None, seconds=None, text=text)
    seconds = min(seconds_to_next_fetch(shard) for shard in spent)
    text = f"the budget of {view.text} is spent for now, the next fetch is possible in "
    text += seconds_text(seconds)
    if view.unit == "fetches" and 1 < n_missing <= view.credit_max:
        left = n_missing - sum(shard.credit(shard.now_ms) for shard in spent)
        text += f" and {n_missing:,} in {seconds_text(max(left, 0.0) / view.per_second)}"
    return ShortfallReason(why=Why.BUDGET_SPENT, n_pages=None, seconds=seconds, text=text)


# ---------------------------------------------------------------------------- pages


class _Waiting(NamedTuple):
    n_pages: float
    until_ms: float


def _sample(shard: Shard) -> tuple[RowArray, int]:
    """Return slots of pages a fixed distance apart, and the distance."""
    n_slots = int(shard.tables.registers.n_slots[0])
    stride = max(1, -(-n_slots // PAGES_COUNTED_MAX))
    slots = np.arange(0, n_slots, stride)
    return slots[shard.tables.pages.status[slots] != PageStatus.FREE], stride


def _count_waiting(shard: Shard, now_ms: int) -> tuple[dict[Why, _Waiting], bool]:
    """Return how many pages wait for each reason, and whether they are a sample."""
    slots, stride = _sample(shard)
    waits = waits_of(shard, slots, now_ms)
    counts = np.bincount(waits.why, minlength=len(WHYS))
    found = {}
    for code in np.flatnonzero(counts):
        until = waits.until_ms[waits.why == code]
        found[WHYS[code]] = _Waiting(float(counts[code] * stride), float(until.min()))
    return found, stride > 1


def _merge(parts: Iterable[dict[Why, _Waiting]]) -> dict[Why, _Waiting]:
    found: dict[Why, _Waiting] = {}
    for part in parts:
        for why, waiting in part.items():
            before = found.get(why, _Waiting(0.0, math.inf))
            found[why] = _Waiting(
                before.n_pages + waiting.n_pages, min(before.until_ms, waiting.until_ms)
            )
    return found


class _Texts(NamedTuple):
    """How a reason reads."""

    one: str
    many: str
    when: str = ""
    """When the first of the pages stops waiting."""
    setting: str = ""
    """Setting that the reason comes from, and how to change it."""


_COUNTED_TEXTS = {
    Why.NOT_YET: _Texts(
        "is not worth a fetch yet", "are not worth a fetch yet", "the next in about {}"
    ),
    Why.EARLY: _Texts(
        "is not due yet and can be leased early; lease again",
        "are not due yet and can be leased early; lease again",
    ),
    Why.NEVER: _Texts("is never worth the price", "are never worth the price"),
    Why.IN_FLIGHT: _Texts(
        "is leased already and not reported",
        "are leased already and not reported",
        "the first lease ends in {}",
        "see leases.length",
    ),
    Why.BACKING_OFF: _Texts(
        "waits after its last fetch",
        "wait after their last fetches",
        "the next in {}",
        "see [errors]",
    ),
    Why.FLOOR: _Texts(
        "has a min_age that is not over", "have a min_age that is not over", "next in {}"
    ),
    Why.GROUP_BUSY: _Texts(
        "is on a host that has as many fetches in flight as it may",
        "are on hosts that have as many fetches in flight as they may",
        setting="see politeness.in_flight_max, or for one host `recrawl set --host HOST "
        "--in-flight-max N`",
    ),
    Why.GROUP_RESTING: _Texts(
        "is on a host that waits between fetches",
        "are on hosts that wait between fetches",
        "the next in {}",
        "see politeness.delay, or for one host `recrawl set --host HOST --delay TIME`",
    ),
    Why.PART_WAITS: _Texts(
        "is on a host that is split over partitions, of which another may fetch now",
        "are on hosts that are split over partitions, of which others may fetch now",
        "the next in {}",
        "see corpus.group_pages_max",
    ),
    Why.GROUP_BLOCKED: _Texts(
        "is on a paused host", "are on paused hosts", "the next in {}", "see errors.breaker"
    ),
    Why.GROUP_CLOSED: _Texts(
        "is on a closed host",
        "are on closed hosts",
        setting="`recrawl set --host HOST --open` opens one",
    ),
    Why.RETIRED: _Texts(
        "was gone too often and is given up",
        "were gone too often and are given up",
        setting="see errors.gone_polls_max; add it again to have it fetched",
    ),
    Why.SHARE_SPENT: _Texts(
        "is new on a host that has used its share of the budget for new pages",
        "are new on hosts that have used their share of the budget for new pages",
        setting="see [protection], or for one host `recrawl set --host HOST --unlimited`",
    ),
    Why.DUE: _Texts(
        "is due but was not looked at yet; lease again",
        "are due but were not looked at yet; lease again",
    ),
}


def _counted_reason(why: Why, n_pages: int, seconds: float) -> ShortfallReason:
    texts = _COUNTED_TEXTS.get(why, _Texts(f"waits: {why}", f"wait: {why}", "the next in {}"))
    is_known = math.isfinite(seconds)
    when = texts.when.format(seconds_text(seconds)) if is_known else ""
    more = "; ".join(part for part in (when, texts.setting) if part)
    return ShortfallReason(
        why=why,
        n_pages=n_pages,
        seconds=seconds if is_known else None,
        text=count_text(n_pages, f"page {texts.one}", f"pages {texts.many}")
        + (f" ({more})" if more else ""),
    )


def find_shortfall(
    nodes: Sequence[Node],
    config: CorpusConfig,
    *,
    run: str,
    n_requested: int,
    n_leased: int,
    now_ms: int,
) -> Shortfall:
    """Return why a lease that has just been made has fewer pages than requested.

    Parameters
    ----------
    nodes
        Nodes of all partitions.
    config
        Configuration of the corpus.
    run
        Name of the run that paid.
    n_requested
        Number of pages requested.
    n_leased
        Number of pages leased.
    now_ms
        Time in milliseconds since 1970.
    """
    shards = [node.shard for node in nodes]
    reasons: list[ShortfallReason] = []
    is_sampled = False
    if sum(shard.n_pages for shard in shards) == 0:
        text = "the corpus has no pages yet; add some with `recrawl add`"
        if not shards:
            text = "no partition of the corpus is open in this process"
        reasons.append(ShortfallReason(why=Why.NO_PAGES, n_pages=None, seconds=None, text=text))
    else:
        budget = budget_reason(shards, config, run, n_requested - n_leased)
        reasons += [] if budget is None else [budget]
        most = shards[0].settings.orders_max
        if n_leased >= most:
            text = f"one lease has at most {most:,} pages of a partition (picker.orders_max)"
            reasons.append(
                ShortfallReason(why=Why.LEASE_FULL, n_pages=None, seconds=0.0, text=text)
            )
        counted = [_count_waiting(s, now_ms) for s in shards if s.n_pages and not _is_spent(s)]
        is_sampled = any(sampled for _, sampled in counted)
        waiting = _merge(found for found, _ in counted)
        held = waiting.pop(Why.IN_FLIGHT, None)
        # Pages of this very lease do not count as leased already.
        if held is not None and held.n_pages > n_leased:
            waiting[Why.IN_FLIGHT] = held._replace(n_pages=held.n_pages - n_leased)
        by_number = sorted(waiting.items(), key=lambda item: -item[1].n_pages)
        reasons += [
            _counted_reason(why, round(n_pages), max((until_ms - now_ms) / 1000, 0.0))
            for why, (n_pages, until_ms) in by_number
        ]
    if not reasons:
        text = "all other pages are in this lease already" if n_leased else "no page can be leased"
        reasons.append(ShortfallReason(why=Why.IN_FLIGHT, n_pages=0, seconds=None, text=text))
    return Shortfall(
        n_requested=n_requested,
        n_leased=n_leased,
        reasons=tuple(reasons),
        is_sampled=is_sampled,
    )


def merge_shortfalls(
    parts: Sequence[Shortfall], *, n_requested: int, n_leased: int
) -> Shortfall | None:
    """Return why leases from several parts of a corpus have fewer pages than requested.

    Parameters
    ----------
    parts
        Shortfall of each part.
    n_requested, n_leased
        Number of pages of all parts.
    """
    whole: dict[Why, ShortfallReason] = {}
    counted: dict[Why, _Waiting] = {}
    for reason in (reason for part in parts for reason in part.reasons):
        if reason.n_pages is None:
            known = whole.get(reason.why)
            seconds = math.inf if reason.seconds is None else reason.seconds
            if known is None or seconds < (math.inf if known.seconds is None else known.seconds):
                whole[reason.why] = reason
        elif reason.n_pages:
            until = math.inf if reason.seconds is None else reason.seconds
            before = counted.get(reason.why, _Waiting(0.0, math.inf))
            counted[reason.why] = _Waiting(
                before.n_pages + reason.n_pages, min(before.until_ms, until)
            )
    if len(whole) + len(counted) > 1:
        whole.pop(Why.NO_PAGES, None)  # a part has none, and another one has some
    by_number = sorted(counted.items(), key=lambda item: -item[1].n_pages)
    reasons = [
        *whole.values(),
        *(_counted_reason(why, round(n), seconds) for why, (n, seconds) in by_number),
    ]
    if not reasons:
        reasons = [reason for part in parts for reason in part.reasons][:1]
    if not reasons:
        return None
    return Shortfall(
        n_requested=n_requested,
        n_leased=n_leased,
        reasons=tuple(reasons),
        is_sampled=any(part.is_sampled for part in parts),
    )
