"""Report a few plain outcomes without building columns, which would take longer than the rest.

Plain is an outcome of a leased page that was seen, with a digest or the user's own word on whether
it changed.  Others go the general way, `recrawl.node.reporting.many`; both have the same effect.
"""

from collections.abc import Sequence
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recrawl.node.clock import NodeTime
from recrawl.node.few_reported import few_outcomes_entry
from recrawl.node.node import Node, Submission
from recrawl.node.orders import NOT_MODIFIED, Outcome, has_controls, order_in
from recrawl.node.repeated_outcomes import verdict_by_digest
from recrawl.node.reporting.many import http_date_ms, stored_digest
from recrawl.shard import Verdict
from recrawl.store import ETAG_BYTES_MAX, LAST_MODIFIED_BYTES_MAX
from recrawl.store.fetch_records import Content

__all__ = ["FEW_OUTCOMES_MAX", "begin_few", "finish_few", "is_plain"]

FEW_OUTCOMES_MAX = 256
"""More outcomes than this are faster as columns."""

_NO_CONTENT: Content = (None,) * 6
_STATUS_MAX = 299


def is_plain(outcome: object) -> bool:
    """Return whether `begin_few` can report what a user gave as an outcome."""
    if not isinstance(outcome, Outcome):
        return False
    given: Any = outcome  # a user may have put anything into it
    status, digest, changed = given.status, given.digest, given.changed
    return (
        type(given.handle) is int
        and given.handle > 0
        and type(status) is int
        and (200 <= status <= _STATUS_MAX or status == NOT_MODIFIED)
        and (changed is None or type(changed) is bool)
        and (digest is None or type(digest) is bytes)
        and (digest is not None or changed is not None or status == NOT_MODIFIED)
        and type(given.fetched_at_ms) is int
        and outcome.retry_after_seconds == 0.0
        and not outcome.disallowed
        and outcome.moved_to is None
        and outcome.sketch is None
        and outcome.body is None
        and outcome.text is None
        and outcome.observation is None
        and isnan(outcome.divergence)
        and _is_header(outcome.etag, ETAG_BYTES_MAX)
        and _is_header(outcome.last_modified, LAST_MODIFIED_BYTES_MAX)
    )


def _is_header(value: object, n_bytes_max: int) -> bool:
    if value is None:
        return True
    return type(value) is bytes and len(value) <= n_bytes_max and not has_controls(value)


def begin_few(node: Node, outcomes: Sequence[Outcome], time: NodeTime) -> Submission | None:
    """Put plain outcomes into the next append to the log; `finish_few` returns their effect.

    Parameters
    ----------
    node
        Node of the pages.
    outcomes
        Outcomes for which `is_plain` holds, with handles of orders of this node.
    time
        Time of the node.

    Returns
    -------
    Submission or None
        None if they have to go the general way: an order is not known any more, a page occurs
        twice, or pages are compared by their texts.
    """
    shard, store = node.shard, node.store
    if store.content_counts is not None or shard.settings.objective == "fragments":
        return None
    now_ms = node.tick(time)
    registers, leases = shard.tables.registers, shard.tables.leases
    first, following = int(registers.first_order[0]), int(registers.next_order[0])
    last_place = leases.page.size - 1
    orders = [order_in(outcome.handle) for outcome in outcomes]
    if min(orders) < first or max(orders) >= following:
        return None
    pages = [int(leases.page[order & last_place]) for order in orders]
    if min(pages) < 0 or len({*pages}) < len(pages):
        return None
    page = np.array(pages, np.int64)
    known = store.digests_of(page)
    verdicts: list[int] = []
    contents: list[Content] = []
    for outcome, recent in zip(outcomes, known, strict=True):
        digest = None if outcome.digest is None else stored_digest(outcome.digest)
        verdicts.append(_verdict(outcome, digest, recent))
        contents.append((digest, outcome.etag, outcome.last_modified, None, None, None))
    modified_ms = [0] * len(pages)
    if shard.settings.last_modified == "trust":
        modified_ms = [http_date_ms(outcome.last_modified) for outcome in outcomes]
    entry = few_outcomes_entry(
        contents,
        page=pages,
        order=orders,
        fetched_at_ms=[
            min(outcome.fetched_at_ms, now_ms) if outcome.fetched_at_ms > 0 else now_ms
            for outcome in outcomes
        ],
        last_modified_at_ms=modified_ms,
        divergence=[float("nan")] * len(pages),
        retry_after_seconds=[0.0] * len(pages),
        verdict=verdicts,
        status_class=[outcome.status // 100 for outcome in outcomes],
    )
    has_content = any(content != _NO_CONTENT for content in contents)
    return node.begin([entry if has_content else entry.outcomes], at_ms=now_ms)


def finish_few(node: Node, begun: Submission) -> tuple[NDArray[np.bool_], NDArray[np.uint8]]:
    """Wait until outcomes are logged and applied; return which counted, and their transitions."""
    (applied,) = node.finish(begun)
    return applied.valid, applied.transition


def _verdict(outcome: Outcome, digest: bytes | None, recent: list[bytes]) -> int:
    if outcome.status == NOT_MODIFIED:
        return int(Verdict.UNCHANGED)
    if outcome.changed is not None:
        return int(Verdict.CHANGED if outcome.changed else Verdict.UNCHANGED)
    return int(verdict_by_digest(digest, recent, None))
