"""Explain one page: all that is known of it, and why it is or is not due, as data."""

import math
from dataclasses import dataclass

import numpy as np

from recrawl.core.belief.codes import decode_of
from recrawl.core.belief.gamma import GammaBelief, rate_quantile
from recrawl.shard.apply.newcomers import (
    are_newcomers_limited,
    domain_credit_of,
    domain_of,
    shares_in_effect,
)
from recrawl.shard.apply.signals import aged_last_of
from recrawl.shard.due import (
    Terms,
    bounds_of,
    due_at_of,
    in_window_of,
    log2_value_of,
    page_due_of,
    ready_at_of,
)
from recrawl.shard.early import Early, stale_from_of
from recrawl.shard.state.codes import (
    evident_last_of,
    link_row_of,
    log2_of_code,
    prior_of,
    rate_of,
    ratio_of_code,
    signal_totals_of,
)
from recrawl.shard.state.rules import Rules
from recrawl.shard.state.status import LeaseStage, PageStatus, Reason, Why
from recrawl.shard.state.tables import GROUP_CLOSED, SOURCE_PRECISION_GIVEN, Tables
from recrawl.shard.state.trust import delay_of, next_precision_of, precision_of
from recrawl.shard.state.words import (
    EPOCH_SECONDS,
    is_bounded,
    is_held,
    last_of,
    log2_period_of,
    shape_of,
    with_last,
)

__all__ = [
    "Explanation",
    "Forward",
    "Lease",
    "SourceView",
    "Why",
    "explanation_of",
    "is_share_spent",
]


# log2 of a price that every page of any importance is worth.
_LOG2_PRICE_NONE = -1e3


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceView:
    """Signals of one source about a page, and the quality of the source."""

    source: int
    precision: float
    is_given: bool
    is_judged: bool
    """Whether fetches have tested its signals, on any page."""
    delay_seconds: float
    signals_since_fetch: int
    signals_ever: float
    claimed_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """An order in flight."""

    order: int
    ordered_at_ms: int
    expires_at_ms: int
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """A change that would bring a page forward, and its due time then."""

    what: str
    source: int | None
    due_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All that a shard knows of a page; instants in milliseconds since 1970, None for never."""

    page: int
    status: PageStatus
    kind: int
    group: int
    added_at_ms: int
    fetched_at_ms: int | None
    effective_fetched_at_ms: int
    """Last fetch moved back by signals: without them, the page would be as likely stale."""
    errors: int
    not_before_ms: int | None
    lease: Lease | None
    belief_shape: float
    belief_seconds: float
    prior_shape: float
    prior_seconds: float
    unsignalled_change_rate_per_second: float
    change_rate_per_second: float
    change_period_seconds_low: float
    """Lower end of the 90 % interval of the mean time between unsignalled changes."""
    change_period_seconds_high: float
    """Upper end of that interval."""
    signal_recall: float
    sources: tuple[SourceView, ...]
    freshness_probability: float
    """Probability that the copy still equals the page."""
    importance: float
    kind_weight: float
    """Factor on the importance of all pages of its kind."""
    cost: float
    ceiling: float
    ratio: float
    scroll_items: int
    interval_seconds_min: float
    interval_seconds_max: float
    stale_seconds: float
    stale_probability: float
    value: float
    """Value of fetching it now, per cost."""
    price: float
    due_at_ms: int | None
    early_from_ms: int | None = None
    """From when on a lease returns the page before it is due, if budget is left; None if not."""
    group_ready_at_ms: int | None
    newcomer_until_ms: int | None = None
    """Until when the page is a newcomer, with a limited share; None if it is not one."""
    why: Why
    forward: tuple[Forward, ...]


def _ms(seconds: float) -> int | None:
    return round((seconds + EPOCH_SECONDS) * 1000) if math.isfinite(seconds) else None


def _lease_of(tables: Tables, page: int) -> Lease | None:
    leases = tables.leases
    rows = np.flatnonzero((leases.page == page) & (leases.stage == LeaseStage.IN_FLIGHT))
    if rows.size == 0:
        return None
    row = int(rows[0])
    first, size = int(tables.registers.first_order[0]), leases.page.size
    return Lease(
        order=first + (row - first) % size,
        ordered_at_ms=int(leases.ordered_at[row]),
        expires_at_ms=int(leases.expires_at[row]),
        reason=Reason(int(leases.reason[row])),
    )


def _sources_of(tables: Tables, rules: Rules, slot: int) -> tuple[SourceView, ...]:
    pages, links, sources = tables.pages, tables.links, tables.sources
    views = []
    for k in range(int(pages.n_sources[slot])):
        if k == 0:
            source, n, ever = pages.source[slot], pages.n_signals[slot], pages.signal_count[slot]
            claimed = pages.claimed_at[slot]
        else:
            row = link_row_of(links, slot, k)
            source, n, ever = links.source[row], links.n_signals[row], links.signal_count[row]
            claimed = links.claimed_at[row]
        views.append(
            SourceView(
                source=int(source),
                precision=float(precision_of(sources, int(source), rules)),
                is_given=bool(sources.flags[source] & SOURCE_PRECISION_GIVEN),
                is_judged=bool(sources.true[source] or sources.total[source]),
                delay_seconds=float(delay_of(sources, int(source), rules)),
                signals_since_fetch=int(n),
                signals_ever=float(ever),
                claimed_at_ms=_ms(float(claimed)) if claimed else None,
            )
        )
    return tuple(views)


def is_share_spent(tables: Tables, rules: Rules, slot: int, now: float) -> bool:
    """Return whether a page is a newcomer whose domain, or all newcomers, have no credit."""
    if tables.pages.newcomer_until[slot] <= now:
        return False
    shares = shares_in_effect(
        tables.groups, tables.registers, rules.new_pages_share, rules.new_domain_share
    )
    if not are_newcomers_limited(*shares):
        return False
    domain = domain_of(tables.groups, int(tables.pages.group[slot]))
    credit = domain_credit_of(tables.groups, tables.registers, domain, *shares)
    of_all = float(tables.registers.newcomer_credit[0]) if shares[0] < 1.0 else math.inf
    return min(credit, of_all) < 1.0


def _early_from(tables: Tables, terms: Terms, slot: int, early: Early) -> float:
    """Return from when on a lease returns a page at whatever price; infinite if it never does."""
    pages, limits = tables.pages, tables.limits
    if early == Early.NONE or pages.importance[slot] == 0:
        return math.inf
    earliest = float(page_due_of(pages, limits, slot, terms, _LOG2_PRICE_NONE))
    if early == Early.ALL:
        return earliest
    latest = bounds_of(pages, limits, slot)[1]
    return max(earliest, min(float(stale_from_of(pages.word[slot])), latest))


def _why(tables: Tables, rules: Rules, slot: int, now: float, due: float, early_from: float) -> Why:
    pages, groups = tables.pages, tables.groups
    word, group = pages.word[slot], int(pages.group[slot])
    if pages.status[slot] == PageStatus.RETIRED:
        return Why.RETIRED
    if is_held(word):
        return Why.IN_FLIGHT
    if pages.not_before[slot] > now:
        return Why.BACKING_OFF
    if min(due, early_from) > now:
        if is_bounded(word) and bounds_of(pages, tables.limits, slot)[0] > now:
            return Why.FLOOR
        return Why.NOT_YET if math.isfinite(due) else Why.NEVER
    now_ms = round((now + EPOCH_SECONDS) * 1000)
    if groups.flags[group] & GROUP_CLOSED:
        return Why.GROUP_CLOSED
    if groups.blocked_until[group] > now_ms:
        return Why.GROUP_BLOCKED
    if groups.in_flight[group] >= groups.in_flight_max[group]:
        return Why.GROUP_BUSY
    if in_window_of(groups, group, 0.0, now_ms) > now_ms:
        return Why.PART_WAITS
    if ready_at_of(groups, group, now_ms) > now_ms:
        return Why.GROUP_RESTING
    if is_share_spent(tables, rules, slot, now):
        return Why.SHARE_SPENT
    return Why.DUE if due <= now else Why.EARLY


def _forward(
    tables: Tables, rules: Rules, terms: Terms, slot: int, now: float, price: float
) -> tuple[Forward, ...]:
    """Return what would bring the page forward: a signal of each source, price, importance."""
    word = tables.pages.word[slot]
    found = []
    if tables.pages.status[slot] != PageStatus.NEW:
        for view in _sources_of(tables, rules, slot):
            n = view.signals_since_fetch
            precision = next_precision_of(tables.sources, view.source, rules, n)
            # A compiled kernel returns an int, which may be too large for the next kernel's int64.
            aged = np.uint64(with_last(word, aged_last_of(word, rules, now, precision)))
            due = max(float(due_at_of(aged, terms, math.log2(price))), now)
            found.append(Forward(what="signal", source=view.source, due_at_ms=_ms(due)))
    for what, factor in (("half the price", 0.5), ("twice the importance", 0.5)):
        due = max(float(due_at_of(word, terms, math.log2(price * factor))), now)
        found.append(Forward(what=what, source=None, due_at_ms=_ms(due)))
    return tuple(found)


def explanation_of(
    tables: Tables,
    rules: Rules,
    terms: Terms,
    slot: int,
    now_ms: int,
    *,
    price: float,
    early: Early = Early.NONE,
) -> Explanation:
    """Return what is known of the page in a slot, at a time and a price."""
    pages, limits = tables.pages, tables.limits
    now = now_ms / 1000 - EPOCH_SECONDS
    word = pages.word[slot]
    early_from = _early_from(tables, terms, slot, early)
    is_priced = price > 0.0 or early != Early.STALE
    price = max(price, 1e-300)
    due = float(page_due_of(pages, limits, slot, terms, math.log2(price)))
    if not is_priced:
        # A run has a budget and no price: all but the freshest copies are due.
        due = max(due, early_from)
    rate = float(rate_of(pages, rules, slot)[0])
    shape, seconds = decode_of(pages.belief_shape[slot], pages.belief_seconds[slot])
    prior = prior_of(
        tables.priors, int(pages.kind[slot]), slot, int(tables.registers.rebased_to[0])
    )
    true_rate, _ = signal_totals_of(pages, tables.links, tables.sources, rules, slot, now)
    quantile = rate_quantile(GammaBelief.of(shape, seconds), [0.05, 0.95])
    coded = float(rules.shapes[shape_of(word)])
    fetched = float(pages.fetched_at[slot])
    last = float(evident_last_of(pages, tables.links, tables.sources, rules, slot))
    age = max(now - last, 0.0) * math.exp2(-log2_period_of(word))
    row = int(pages.limits[slot])
    stale_probability = float(limits.stale_probability[row])
    ready = float(ready_at_of(tables.groups, int(pages.group[slot]), now_ms))
    until = float(pages.newcomer_until[slot])
    page = slot | int(pages.generation[slot]) << 32
    return Explanation(
        page=page,
        status=PageStatus(int(pages.status[slot])),
        kind=int(pages.kind[slot]),
        group=int(pages.group[slot]),
        added_at_ms=_ms(float(pages.first_seen[slot])) or 0,
        fetched_at_ms=_ms(fetched) if fetched else None,
        effective_fetched_at_ms=_ms(float(last_of(word))) or 0,
        errors=int(pages.errors[slot]),
        not_before_ms=_ms(float(pages.not_before[slot])) if pages.not_before[slot] else None,
        lease=_lease_of(tables, page),
        belief_shape=shape,
        belief_seconds=seconds,
        prior_shape=float(prior[0]),
        prior_seconds=float(prior[1]),
        unsignalled_change_rate_per_second=rate,
        change_rate_per_second=rate + true_rate,
        change_period_seconds_low=float(1 / max(quantile[1], 1e-30)),
        change_period_seconds_high=float(1 / max(quantile[0], 1e-30)),
        signal_recall=true_rate / (rate + true_rate),
        sources=_sources_of(tables, rules, slot),
        freshness_probability=math.exp(-coded * math.log1p(age / coded)) if fetched else 0.0,
        importance=math.exp2(log2_of_code(int(pages.importance[slot]))),
        kind_weight=math.exp2(log2_of_code(int(tables.priors.weight[pages.kind[slot]]))),
        cost=math.exp2(log2_of_code(int(pages.cost[slot]))),
        ceiling=int(pages.ceiling[slot]) / 255 if pages.ceiling[slot] else 1.0,
        ratio=float(ratio_of_code(int(pages.ratio[slot]))),
        scroll_items=int(pages.curve[slot]),
        interval_seconds_min=float(limits.interval_min[row]),
        interval_seconds_max=float(limits.interval_max[row]),
        stale_seconds=float(limits.stale_for[row]) if stale_probability > 0 else 0.0,
        stale_probability=stale_probability,
        value=math.exp2(float(log2_value_of(word, terms, now))),
        price=price,
        due_at_ms=_ms(due),
        group_ready_at_ms=round(ready) if math.isfinite(ready) else None,
        newcomer_until_ms=_ms(until) if until > now else None,
        early_from_ms=None if early_from >= due else _ms(early_from),
        why=_why(tables, rules, slot, now, due, early_from),
        forward=_forward(tables, rules, terms, slot, now, price),
    )
