"""Report a few plain outcomes of a node as rows: columns of Arrow would take longer than the rest.

Plain is an outcome of a leased page, without a body, a text, a sketch or a divergence.  Others go
the general way, `recrawl.node.reporting.many`; both have the same effect.
"""

from collections.abc import Sequence
from math import isnan
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from recrawl.node.clock import NodeTime
from recrawl.node.content.bodies import is_given
from recrawl.node.few_reported import few_outcomes_entry
from recrawl.node.node import Node, Submission
from recrawl.node.orders import NOT_MODIFIED, Outcome, has_controls, order_in, order_of
from recrawl.node.repeated_outcomes import verdict_by_digest
from recrawl.node.reporting.many import (
    UNKNOWN,
    Answers,
    http_date_ms,
    retry_after_seconds,
    status_classes,
    stored_digest,
    verdicts,
)
from recrawl.shard import Verdict
from recrawl.store import ETAG_BYTES_MAX, LAST_MODIFIED_BYTES_MAX
from recrawl.store.batch import list_of_bytes
from recrawl.store.fetch_records import Content

__all__ = ["FEW_OUTCOMES_MAX", "PlainRows", "begin_few", "finish_few", "is_plain", "plain_rows_of"]

FEW_OUTCOMES_MAX = 256
"""More outcomes of a node than this are faster as columns."""

_NO_CONTENT: Content = (None,) * 6
_STATUS_MAX = 299
_CHANGED, _UNCHANGED = int(Verdict.CHANGED), int(Verdict.UNCHANGED)
# Stands for a verdict that is not known before the content is compared.
_BY_CONTENT = 255


def is_plain(outcome: object) -> bool:
    """Return whether `begin_few` can report what a user gave as an outcome, without further checks.

    It must be of a page that was seen, with a digest or the user's own word on whether it changed.
    """
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


class PlainRows(NamedTuple):
    """Plain outcomes as lists, a list for each column."""

    order: list[int]
    verdict: list[int]
    """`Verdict` by the status; `_BY_CONTENT` if the content decides."""
    changed: list[int]
    """1 or 0 as reported; -1 to compare digests."""
    digest: list[bytes | None]
    """Digest of the stored length."""
    etag: list[bytes | None]
    last_modified: list[bytes | None]
    moved_to: list[bytes | None]
    fetched_at_ms: list[int]
    retry_after_seconds: list[float]
    status_class: list[int]

    @classmethod
    def from_outcomes(cls, outcomes: Sequence[Outcome]) -> Self:
        """Return the rows of outcomes for which `is_plain` holds."""
        n = len(outcomes)
        return cls(
            order=[order_in(outcome.handle) for outcome in outcomes],
            verdict=[
                _UNCHANGED if outcome.status == NOT_MODIFIED else _BY_CONTENT
                for outcome in outcomes
            ],
            changed=[
                UNKNOWN if outcome.changed is None else int(outcome.changed) for outcome in outcomes
            ],
            digest=[
                None if outcome.digest is None else stored_digest(outcome.digest)
                for outcome in outcomes
            ],
            etag=[outcome.etag for outcome in outcomes],
            last_modified=[outcome.last_modified for outcome in outcomes],
            moved_to=[None] * n,
            fetched_at_ms=[outcome.fetched_at_ms for outcome in outcomes],
            retry_after_seconds=[0.0] * n,
            status_class=[outcome.status // 100 for outcome in outcomes],
        )

    @classmethod
    def from_answers(cls, answers: Answers) -> Self:
        """Return the rows of outcomes that are columns."""
        undecided = np.full(answers.handle.size, _BY_CONTENT, np.uint8)
        return cls(
            order=order_of(answers.handle).tolist(),
            verdict=verdicts(answers.status, answers.disallowed, undecided).tolist(),
            changed=answers.changed.tolist(),
            digest=list_of_bytes(answers.digest),
            etag=list_of_bytes(answers.etag),
            last_modified=list_of_bytes(answers.last_modified),
            moved_to=list_of_bytes(answers.moved_to),
            fetched_at_ms=answers.fetched_at_ms.tolist(),
            retry_after_seconds=retry_after_seconds(answers).tolist(),
            status_class=status_classes(answers).tolist(),
        )

    def take(self, rows: Sequence[int]) -> Self:
        """Return the given rows."""
        columns: list[Any] = [[column[row] for row in rows] for column in self]
        return type(self)(*columns)


def plain_rows_of(answers: Answers) -> NDArray[np.bool_]:
    """Return which outcomes can be reported as `PlainRows`."""
    can_be_rows = (answers.handle > 0) & np.isnan(answers.divergence)
    if answers.has_content:
        can_be_rows &= ~is_given(answers.content)
    if answers.sketch.null_count < len(answers.sketch):
        can_be_rows &= answers.sketch.is_null().to_numpy(zero_copy_only=False)
    return can_be_rows


def begin_few(node: Node, plain: PlainRows, time: NodeTime) -> Submission | None:
    """Put plain outcomes into the next append to the log; `finish_few` returns their effect.

    Parameters
    ----------
    node
        Node of the pages.
    plain
        Outcomes with orders of this node.
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
    orders = plain.order
    if min(orders) < first or max(orders) >= following:
        return None
    page = leases.page[np.array(orders, np.int64) & last_place]
    pages = page.tolist()
    if min(pages) < 0 or len({*pages}) < len(pages):
        return None
    known = store.digests_of(page)
    modified_ms = [0] * len(pages)
    if shard.settings.last_modified == "trust":
        modified_ms = [http_date_ms(text) for text in plain.last_modified]
    no_values = [None] * len(pages)
    contents: list[Content] = [
        *zip(
            plain.digest,
            plain.etag,
            plain.last_modified,
            no_values,
            no_values,
            plain.moved_to,
            strict=True,
        )
    ]
    entry = few_outcomes_entry(
        contents,
        page=pages,
        order=orders,
        fetched_at_ms=[
            min(at_ms, now_ms) if at_ms > 0 else now_ms for at_ms in plain.fetched_at_ms
        ],
        last_modified_at_ms=modified_ms,
        divergence=[float("nan")] * len(pages),
        retry_after_seconds=plain.retry_after_seconds,
        verdict=[
            _verdict_by_content(changed, digest, recent) if verdict == _BY_CONTENT else verdict
            for verdict, changed, digest, recent in zip(
                plain.verdict, plain.changed, plain.digest, known, strict=True
            )
        ],
        status_class=plain.status_class,
    )
    has_content = any(content != _NO_CONTENT for content in contents)
    return node.begin([entry if has_content else entry.outcomes], at_ms=now_ms)


def finish_few(node: Node, begun: Submission) -> tuple[NDArray[np.bool_], NDArray[np.uint8]]:
    """Wait until outcomes are logged and applied; return which counted, and their transitions."""
    (applied,) = node.finish(begun)
    return applied.valid, applied.transition


def _verdict_by_content(changed: int, digest: bytes | None, recent: list[bytes]) -> int:
    if changed != UNKNOWN:
        return _CHANGED if changed else _UNCHANGED
    return int(verdict_by_digest(digest, recent, None))
