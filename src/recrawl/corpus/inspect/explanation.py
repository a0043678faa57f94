"""Everything known of one page, with names instead of numbers."""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from recrawl.corpus.budget_view import seconds_to_next_fetch
from recrawl.corpus.wrong_answers import wrong_answer_name
from recrawl.node.longevity.page_longevity import PageLongevity, longevity_of
from recrawl.node.node import Node, use_logged_price
from recrawl.node.settings.urgent import OPERATOR
from recrawl.shard import Shard, Transition
from recrawl.shard.explain import Explanation, Why
from recrawl.shard.state.tables import GROUP_CLOSED, GROUP_SPLIT
from recrawl.store import Cursor, Names, Store, metadata_object

__all__ = [
    "CHANGES_READ_MAX",
    "REPORTED_WITHIN_MS",
    "GroupView",
    "PageExplanation",
    "explain_page",
    "first_cursor",
    "last_outcome",
    "page_explanation",
]

CHANGES_READ_MAX = 10_000
"""Largest number of changes read for one answer."""
REPORTED_WITHIN_MS = 86_400_000
"""A fetch reported later than this counts as one that found nothing new."""
# A shard stores whole seconds.
_SLACK_MS = 1_000
_CHANGES_PER_READ = 1_000


def first_cursor(store: Store, at_ms: int) -> Cursor | None:
    """Return the cursor of the first change from an instant on; None if the feed begins later."""
    first = store.first_change
    oldest = store.changes(first, 1)
    if first != (0, 0) and (not oldest or oldest[0].at_ms > at_ms):
        return None
    low, high = first.position, store.position
    while low < high:
        middle = (low + high) // 2
        found = store.changes(Cursor(middle, 0), 1)
        if not found or found[0].at_ms >= at_ms:
            high = middle
        else:
            low = found[0].cursor.position + 1
    return Cursor(low, 0) if low > first.position else first


def last_outcome(
    store: Store, page: int, *, added_at_ms: int, fetched_at_ms: int
) -> Transition | None:
    """Return what the latest fetch of a page meant; NONE if it found nothing new.

    Parameters
    ----------
    store
        Store with the feed of changes.
    page
        Number of the page.
    added_at_ms
        Time at which the page was added.  An earlier fetch was imported, and the feed has it at
        another time.
    fetched_at_ms
        Time of the fetch.

    Returns
    -------
    transition
        None if unknown: the feed begins later, or has too many changes about then.
    """
    if fetched_at_ms + _SLACK_MS < added_at_ms:
        return None
    after = first_cursor(store, fetched_at_ms - _SLACK_MS)
    if after is None:
        return None
    found = Transition.NONE
    for _ in range(CHANGES_READ_MAX // _CHANGES_PER_READ):
        changes = store.changes(after, _CHANGES_PER_READ)
        for change in changes:
            if change.at_ms > fetched_at_ms + REPORTED_WITHIN_MS:
                return found
            if change.page == page:
                found = Transition(change.transition)
        if len(changes) < _CHANGES_PER_READ:
            return found
        after = changes[-1].cursor
    return found if found != Transition.NONE else None


# `Explanation` has a smaller price than this where there is none.
_PRICE_MIN = 1e-299


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """The host (or domain) of a page, and how often it may be fetched from."""

    name: str
    n_pages: int
    delay_seconds: float
    in_flight: int
    in_flight_max: int
    errors: int
    """Number of transient errors in a row."""
    blocked_until_ms: int | None
    is_closed: bool
    is_split: bool = False
    """Whether other partitions have pages of the host, too, and take turns with this one."""
    window_until_ms: int | None = None
    """End of the present or next turn of this partition; None if it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageExplanation:
    """Everything known of a page, and why it is or is not due."""

    url: str
    fetch_url: str
    group: str
    """Host or domain that politeness settings apply to."""
    group_view: GroupView
    kind: str | None
    """Name of its kind; None if no pattern matches it."""
    sources: tuple[str, ...]
    """Names of the sources that signalled it, in the order of ``state.sources``."""
    etag: bytes | None
    last_modified: bytes | None
    moved_to: str | None
    last_outcome: Transition | None
    """Result of the latest fetch; NONE if it found nothing new, None if unknown."""
    estimator: str
    """Estimator of change rates: "gamma", "plug_in" or "counts"."""
    prior_is_default: bool = False
    """Whether the prior of the page is the default, not learned from pages of its kind."""
    budget_per_second: float | None
    """Budget of the page's partition; None if unlimited."""
    is_past: bool
    """Whether this explains an earlier time."""
    window: str | None = None
    """Hours in which pages are leased (``budget.between``), with their time zone; None for all."""
    window_wait_seconds: float | None = None
    """Seconds until these hours begin; None within them, or if there are none."""
    budget_wait_seconds: float | None = None
    """Seconds until the budget pays for the next fetch; None if it does now, or never."""
    standby_seconds: float | None = None
    """Seconds by which this may be out of date, if a standby of the partition answers; None if its
    owner does."""
    now_ms: int
    state: Explanation
    """The explanation by the shard, with numbers."""
    doc_id: str | None = None
    """Name that the user gave the page."""
    metadata: dict[str, Any] | None = None
    """JSON object that the user gave with the page."""
    key: str | None = None
    """Key of the page, in a corpus grouped by key."""
    longevity: PageLongevity | None = None
    """How much of the page its changes replace; None if no fetch has shown that."""
    n_wrong_answers: int = 0
    """Number of answers that were not the page, although their status said so."""
    wrong_answer: str | None = None
    """What the last of them was: a name of `recrawl.content.WrongAnswer` in lower case."""
    wrong_answer_at_ms: int | None = None
    """Time of the last of them."""
    wanted_at_ms: int | None = None
    """When somebody last wanted the page fetched now, see `Corpus.fetch_now`; None if it has been
    fetched since."""

    @property
    def why(self) -> Why:
        """Why a lease returns the page now, or does not, the hours of the budget included."""
        if self.window_wait_seconds is not None and self.state.why in (Why.DUE, Why.EARLY):
            return Why.OUTSIDE_WINDOW
        return self.state.why

    @property
    def has_price(self) -> bool:
        """Whether there is a price: there is none without a budget, or before the first lease."""
        return self.state.price > _PRICE_MIN

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain dictionaries, lists and numbers, for JSON.

        Names are stable; times are in milliseconds since 1970.
        """
        state = asdict(self.state)
        for name in ("group", "kind", "sources", "forward", "lease"):
            del state[name]
        names = {v.source: name for v, name in zip(self.state.sources, self.sources, strict=True)}
        lease = self.state.lease
        return {
            "url": self.url,
            "fetch_url": self.fetch_url,
            "doc_id": self.doc_id,
            "metadata": self.metadata,
            "key": self.key,
            "now_ms": self.now_ms,
            **state,
            "status": self.state.status.name.lower(),
            "why": self.why.name.lower(),
            "price": self.state.price if self.has_price else None,
            "last_outcome": _outcome_name(self.last_outcome),
            "kind": self.kind,
            "host": asdict(self.group_view),
            "lease": asdict(lease) | {"reason": lease.reason.name.lower()} if lease else None,
            "sources": [
                asdict(view) | {"source": name}
                for view, name in zip(self.state.sources, self.sources, strict=True)
            ],
            "forward": [
                asdict(one) | {"source": None if one.source is None else names.get(one.source)}
                for one in self.state.forward
            ],
            "etag": _text(self.etag),
            "last_modified": _text(self.last_modified),
            "moved_to": self.moved_to,
            "n_wrong_answers": self.n_wrong_answers,
            "wrong_answer": self.wrong_answer,
            "wrong_answer_at_ms": self.wrong_answer_at_ms,
            "wanted_at_ms": self.wanted_at_ms,
            "estimator": self.estimator,
            "prior_is_default": self.prior_is_default,
            "budget_per_second": self.budget_per_second,
            "budget_wait_seconds": self.budget_wait_seconds,
            "longevity": None if self.longevity is None else asdict(self.longevity),
            "window": self.window,
            "window_wait_seconds": self.window_wait_seconds,
            "standby_seconds": self.standby_seconds,
        }


def _outcome_name(outcome: Transition | None) -> str | None:
    if outcome is None:
        return None
    return "unchanged" if outcome == Transition.NONE else outcome.name.lower()


def _text(header: bytes | None) -> str | None:
    return None if header is None else header.decode("latin-1")


def _group_view(shard: Shard, group: int, name: str) -> GroupView:
    groups = shard.tables.groups
    blocked, until = int(groups.blocked_until[group]), int(groups.window_until[group])
    return GroupView(
        name=name,
        n_pages=int(groups.n_pages[group]),
        delay_seconds=int(groups.delay_ms[group]) / 1000,
        in_flight=int(groups.in_flight[group]),
        in_flight_max=int(groups.in_flight_max[group]),
        errors=int(groups.n_errors[group]),
        blocked_until_ms=blocked or None,
        is_closed=bool(groups.flags[group] & GROUP_CLOSED),
        is_split=bool(groups.flags[group] & GROUP_SPLIT),
        window_until_ms=until if until > shard.now_ms else None,
    )


def _is_prior_default(state: Explanation, shard: Shard) -> bool:
    shape = shard.settings.prior_shape
    # The shard stores priors rounded.
    return math.isclose(state.prior_shape, shape, rel_tol=0.01) and math.isclose(
        state.prior_seconds, shape * shard.settings.prior_period, rel_tol=0.01
    )


def _split_sources(
    state: Explanation, store: Store
) -> tuple[Explanation, tuple[str, ...], int | None]:
    """Return a state with the sources that are evidence, their names, and when a person asked."""
    stored = store.names_of(Names.SOURCE, [view.source for view in state.sources])
    names = [(name or "").partition("\t")[0] for name in stored]
    wanted_at_ms, kept, own = None, [], None
    for name, view in zip(names, state.sources, strict=True):
        if name != OPERATOR:
            kept.append(view)
            continue
        own = view.source
        if view.signals_since_fetch:
            wanted_at_ms = view.claimed_at_ms
    if own is not None:
        forward = tuple(one for one in state.forward if one.source != own)
        state = replace(state, sources=tuple(kept), forward=forward)
    return state, tuple(name for name in names if name != OPERATOR), wanted_at_ms


def page_explanation(
    shard: Shard, store: Store, page: int, now_ms: int, *, is_past: bool = False
) -> PageExplanation | None:
    """Return what is known of a page; None if the shard does not have the page.

    Parameters
    ----------
    shard
        Shard with the page.
    store
        Store with its URL and names.
    page
        Number of the page.
    now_ms
        Time to explain, in milliseconds since 1970.
    is_past
        Whether the shard is of an earlier time than the store.  Then only names are taken from the
        store, because its records of fetches are of now.
    """
    state = shard.explain(page, now_ms)
    if state is None:
        return None
    if state.fetched_at_ms is None and state.due_at_ms is not None:
        # The shard treats it as fetched long ago, which makes it due before it was added.
        state = replace(state, due_at_ms=max(state.due_at_ms, state.added_at_ms))
    row = np.array([page], np.int64)
    key, url = store.keys_and_urls_of(row)
    fetched_at_ms = state.fetched_at_ms
    outcome = None
    if fetched_at_ms is not None and not is_past:
        outcome = last_outcome(
            store, page, added_at_ms=state.added_at_ms, fetched_at_ms=fetched_at_ms
        )
    record = store.records_of(row)
    kind = store.names_of(Names.KIND, [state.kind])[0] if state.kind else None
    state, sources, wanted_at_ms = _split_sources(state, store)
    group = store.names_of(Names.GROUP, [state.group])[0] or ""
    own = store.user_data_of(row)
    longevity = None
    if not is_past:
        has_curve = shard.settings.objective == "fragments"
        longevity = longevity_of(state, record.profile[0], has_curve=has_curve)
    text = store.page_contents_of(row)
    wrong_answer = None if is_past else wrong_answer_name(text.wrong_answer[0])
    budget = float(shard.tables.registers.budget[0])
    wait = 0.0 if is_past else seconds_to_next_fetch(shard, now_ms)
    return PageExplanation(
        url=url[0].as_py() or "",
        fetch_url=store.fetch_urls_of(row, url)[0].as_py() or "",
        group=group,
        group_view=_group_view(shard, state.group, group),
        kind=kind,
        sources=sources,
        etag=None if is_past else record.etag[0],
        last_modified=None if is_past else record.last_modified[0],
        moved_to=None if is_past else record.moved_to[0],
        last_outcome=outcome,
        estimator=shard.settings.estimator,
        prior_is_default=_is_prior_default(state, shard),
        budget_per_second=budget if math.isfinite(budget) else None,
        is_past=is_past,
        budget_wait_seconds=wait if 0 < wait < math.inf else None,
        now_ms=now_ms,
        state=state,
        doc_id=own.doc_id[0],
        metadata=metadata_object(own.metadata[0]),
        key=None if key is None else key[0].as_py(),
        longevity=longevity,
        n_wrong_answers=0 if is_past else text.n_wrong_answers[0],
        wrong_answer=wrong_answer,
        wrong_answer_at_ms=None if wrong_answer is None else text.wrong_answer_at_ms[0],
        wanted_at_ms=wanted_at_ms,
    )


def explain_page(node: Node, name: pa.StringArray, now_ms: int) -> PageExplanation | None:
    """Return what is known of the page with a name; None if it is not tracked."""
    with node.lock:
        page = node.store.pages_of(name)
        if page[0] < 0:
            return None
        if node.is_reader:
            use_logged_price(node.shard)
        return page_explanation(
            node.shard, node.store, int(page[0]), max(now_ms, node.shard.now_ms)
        )
