"""What is known of one page, with the names that users gave instead of numbers."""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from recrawl.corpus.inspect.last_outcome import last_outcome
from recrawl.node.node import Node, follow_price
from recrawl.shard import Shard, Transition
from recrawl.shard.explain import Explanation
from recrawl.store import Names, Store

__all__ = ["GroupView", "PageExplanation", "explained", "page_explanation"]

# Of a price: below is what `Explanation` has instead of none.
_PRICE_MIN = 1e-299


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """The host (or domain) of a page, and how often it may be asked."""

    name: str
    n_pages: int
    delay_seconds: float
    in_flight: int
    in_flight_max: int
    errors: int
    """Transient errors in a row."""
    blocked_until_ms: int | None
    is_closed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PageExplanation:
    """Everything known of a page, and why it is or is not due."""

    url: str
    fetch_url: str
    group: str
    """Host or domain that politeness belongs to."""
    group_view: GroupView
    kind: str | None
    """Name of its kind, None where no pattern covers it."""
    sources: tuple[str, ...]
    """Who signalled it, in the order of ``state.sources``."""
    etag: bytes | None
    last_modified: bytes | None
    moved_to: str | None
    last_outcome: Transition | None
    """What the latest fetch meant, NONE if it found nothing new; None if that is not known."""
    estimator: str
    """How change rates are learned: "gamma", "plug_in" or "counts"."""
    budget_per_second: float | None
    """Of the page's partition; None without a limit."""
    is_past: bool
    """Whether this is of an earlier time than what is known."""
    now_ms: int
    state: Explanation
    """As the shard sees it."""

    @property
    def has_price(self) -> bool:
        """Whether a fetch has a price: it has none without a budget, or before one was spent."""
        return self.state.price > _PRICE_MIN

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain dictionaries, lists and numbers, as for JSON.

        Names are stable; instants are milliseconds since 1970.
        """
        state = asdict(self.state)
        for name in ("group", "kind", "sources", "forward", "lease"):
            del state[name]
        names = {v.source: name for v, name in zip(self.state.sources, self.sources, strict=True)}
        lease = self.state.lease
        return {
            "url": self.url,
            "fetch_url": self.fetch_url,
            "now_ms": self.now_ms,
            **state,
            "status": self.state.status.name.lower(),
            "why": self.state.why.name.lower(),
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
            "estimator": self.estimator,
            "budget_per_second": self.budget_per_second,
        }


def _outcome_name(outcome: Transition | None) -> str | None:
    if outcome is None:
        return None
    return "unchanged" if outcome == Transition.NONE else outcome.name.lower()


def _text(header: bytes | None) -> str | None:
    return None if header is None else header.decode("latin-1")


def _group_view(shard: Shard, group: int, name: str) -> GroupView:
    groups = shard.tables.groups
    blocked = int(groups.blocked_until[group])
    return GroupView(
        name=name,
        n_pages=int(groups.n_pages[group]),
        delay_seconds=int(groups.delay_ms[group]) / 1000,
        in_flight=int(groups.in_flight[group]),
        in_flight_max=int(groups.in_flight_max[group]),
        errors=int(groups.n_errors[group]),
        blocked_until_ms=blocked or None,
        is_closed=bool(groups.flags[group] & 2),
    )


def page_explanation(
    shard: Shard, store: Store, page: int, now_ms: int, *, is_past: bool = False
) -> PageExplanation | None:
    """Return what is known of a page; None if the shard has none of this number.

    Parameters
    ----------
    shard
        With the page.
    store
        With its names.
    page
        Its number.
    now_ms
        When this is.
    is_past
        Whether the shard is of an earlier time than the store, which then has names to give and
        nothing else: what fetches left is that of now.
    """
    state = shard.explain(page, now_ms)
    if state is None:
        return None
    if state.fetched_at_ms is None and state.due_at_ms is not None:
        # As if it had been fetched long before, which puts that before the page itself.
        state = replace(state, due_at_ms=max(state.due_at_ms, state.added_at_ms))
    row = np.array([page], np.int64)
    url = store.urls_of(row)
    fetched_at_ms = state.fetched_at_ms
    outcome = None
    if fetched_at_ms is not None and not is_past:
        outcome = last_outcome(
            store, page, added_at_ms=state.added_at_ms, fetched_at_ms=fetched_at_ms
        )
    record = store.records_of(row)
    kind = store.names_of(Names.KIND, [state.kind])[0] if state.kind else None
    sources = store.names_of(Names.SOURCE, [view.source for view in state.sources])
    group = store.names_of(Names.GROUP, [state.group])[0] or ""
    budget = float(shard.tables.registers.budget[0])
    return PageExplanation(
        url=url[0].as_py() or "",
        fetch_url=store.fetch_urls_of(row, url)[0].as_py() or "",
        group=group,
        group_view=_group_view(shard, state.group, group),
        kind=kind,
        sources=tuple((name or "").partition("\t")[0] for name in sources),
        etag=None if is_past else record.etag[0],
        last_modified=None if is_past else record.last_modified[0],
        moved_to=None if is_past else record.moved_to[0],
        last_outcome=outcome,
        estimator=shard.settings.estimator,
        budget_per_second=budget if math.isfinite(budget) else None,
        is_past=is_past,
        now_ms=now_ms,
        state=state,
    )


def explained(node: Node, url: pa.StringArray, now_ms: int) -> PageExplanation | None:
    """Return what is known of the page with a canonical URL; None if there is none."""
    with node.lock:
        page = node.store.pages_of(url)
        if page[0] < 0:
            return None
        if node.is_reader:
            follow_price(node.shard)
        return page_explanation(
            node.shard, node.store, int(page[0]), max(now_ms, node.shard.now_ms)
        )
