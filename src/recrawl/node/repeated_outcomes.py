"""Compare several outcomes of one page with each other, when they are reported together.

Each is compared with the one before it that counts.  Which ones count is decided only when they are
applied, but it can be told in advance, from the order of a report and the times of the fetches.  So
all of them are judged first, and then logged with one sync.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.node.node import Node
from recrawl.shard import Verdict
from recrawl.shard.apply.pages import seconds_of
from recrawl.shard.events import slot_of_page
from recrawl.shard.state.status import LeaseStage
from recrawl.store import DIGESTS_MAX

__all__ = [
    "CountedInTurn",
    "Fetches",
    "can_settle",
    "fetch_seconds",
    "judge_in_turn",
    "turns_of",
    "verdict_by_digest",
]


class Fetches(NamedTuple):
    """Outcomes as far as they matter here, one row each, in the order reported."""

    page: NDArray[np.int64]
    order: NDArray[np.int64]
    fetched_at_ms: NDArray[np.int64]
    is_poll: NDArray[np.bool_]
    """Whether the outcome says something about the page, so that its time must be later than that
    of the outcome before."""
    compares_digest: NDArray[np.bool_]
    """Whether the digest decides if the page has changed."""
    digest: list[bytes | None]
    is_text: NDArray[np.bool_]
    """Whether the digest is that of a text that was judged."""


def turns_of(page: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each row how many rows before it are of the same page.

    Examples
    --------
    >>> turns_of(np.array([7, 8, 7, 7, 8])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(page, kind="stable")
    row = np.arange(page.size)
    is_first = np.ones(page.size, np.bool_)
    is_first[1:] = page[order][1:] != page[order][:-1]
    turn = np.empty(page.size, np.int64)
    turn[order] = row - np.maximum.accumulate(np.where(is_first, row, 0))
    return turn


class CountedInTurn:
    """Tells in advance which outcomes will count, if it is asked about them in their order.

    Parameters
    ----------
    node
        Node of the pages.
    page, order, fetched_at_ms
        Page, order and time of each outcome.
    """

    def __init__(
        self,
        node: Node,
        page: NDArray[np.int64],
        order: NDArray[np.int64],
        fetched_at_ms: NDArray[np.int64],
    ) -> None:
        pages = np.unique(page)
        fetched_at = node.shard.tables.pages.fetched_at[slot_of_page(pages)]
        self._last = dict(zip(pages.tolist(), fetched_at.tolist(), strict=True))
        self._page = page.tolist()
        self._is_settled = can_settle(node, page, order).tolist()
        self._fetched = fetch_seconds(node, order, fetched_at_ms).tolist()

    def counts(self, i: int, *, is_poll: bool) -> bool:
        """Return whether an outcome will count; one that does counts for those after it.

        Parameters
        ----------
        i
            Row of the outcome.
        is_poll
            Whether it says something about the page, so that it must be later than the last one.
        """
        page, fetched = self._page[i], self._fetched[i]
        if not self._is_settled[i] or (is_poll and fetched <= self._last[page]):
            return False
        if is_poll:
            self._last[page] = fetched
        return True


def verdict_by_digest(new: bytes | None, known: list[bytes], of_text: bytes | None) -> Verdict:
    """Return what the digest of an answer says about its page.

    Parameters
    ----------
    new
        Digest of the answer.
    known
        Digests of the page's latest contents, newest first.
    of_text
        Digest of the page's text when it was last read, which no other digest can equal: an answer
        that is compared by a digest again begins a new comparison.
    """
    if known and known[0] == new:
        return Verdict.UNCHANGED
    if new in known:
        return Verdict.REVERTED
    return Verdict.UNCHANGED if known and known[0] == of_text else Verdict.CHANGED


def judge_in_turn(
    node: Node,
    fetches: Fetches,
    verdict: NDArray[np.uint8],
    of_text: Mapping[int, bytes | None],
) -> None:
    """Write the verdicts by digest of outcomes of one page each, or of several in turn.

    Parameters
    ----------
    node
        Node of the pages.
    fetches
        Outcomes of pages that occur several times, in the order reported.
    verdict
        Verdicts, changed where the digest decides.
    of_text
        Digest of the text of each page when it was last read.
    """
    pages = np.unique(fetches.page)
    recent = dict(zip(pages.tolist(), node.store.digests_of(pages), strict=True))
    in_turn = CountedInTurn(node, fetches.page, fetches.order, fetches.fetched_at_ms)
    is_poll, compares = fetches.is_poll.tolist(), fetches.compares_digest.tolist()
    is_text, texts = fetches.is_text.tolist(), dict(of_text)
    for i, (page, new) in enumerate(zip(fetches.page.tolist(), fetches.digest, strict=True)):
        known = recent[page]
        if compares[i]:
            verdict[i] = verdict_by_digest(new, known, texts[page])
        if in_turn.counts(i, is_poll=is_poll[i]) and new is not None:
            recent[page] = [new, *(old for old in known if old != new)][:DIGESTS_MAX]
            if is_text[i]:
                texts[page] = new


def can_settle(node: Node, page: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which outcomes have no order, or are the first to report an open order."""
    leases = node.shard.tables.leases
    row = order & (leases.page.size - 1)
    is_known = node.pages_of_orders(order) == page
    is_open = np.isin(leases.stage[row], (LeaseStage.IN_FLIGHT, LeaseStage.EXPIRED))
    is_first = np.zeros(order.size, np.bool_)
    is_first[np.unique(order, return_index=True)[1]] = True
    is_settled: NDArray[np.bool_] = (order <= 0) | (is_known & is_open & is_first)
    return is_settled


def fetch_seconds(
    node: Node, order: NDArray[np.int64], fetched_at_ms: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the times of fetches in shard seconds, no earlier than their orders and not later."""
    leases, now_ms = node.shard.tables.leases, node.shard.now_ms
    ordered_at = leases.ordered_at[order & (leases.page.size - 1)]
    at_ms = np.where(order > 0, np.maximum(fetched_at_ms, ordered_at), fetched_at_ms)
    return np.array([int(seconds_of(at, now_ms)) for at in at_ms.tolist()], np.int64)
