"""Judge the text of answers by what the store remembers of their pages and hosts.

Nothing is written here: the node logs the judgements with the outcomes, and a replay applies them
without judging again.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.node.content.bodies import is_given
from recrawl.node.node import Node
from recrawl.node.records import (
    BASELINE_FLAG,
    JUDGED_FLAG,
    MEMORY_CHANGE_FLAG,
    TEMPLATE_FLAG,
)
from recrawl.node.repeated_outcomes import CountedInTurn
from recrawl.shard import PageStatus, Verdict
from recrawl.shard.events import slot_of_page
from recrawl.shard.state.codes import log2_of_code
from recrawl.store import pack_passages
from recrawl.store.content.differences import pack_difference

if TYPE_CHECKING:
    from recrawl.content import ContentSettings, HostMemory, Judgement, PageMemory

__all__ = [
    "WRONG_AGAIN_SECONDS",
    "JudgedTexts",
    "judge_texts",
    "text_digests",
    "update_host_memory",
]

WRONG_AGAIN_SECONDS: Final = 3 * 3_600.0
"""Time to leave a page alone after a second wrong answer in a row; each further one doubles it."""
PRICE_SHARE: Final = 0.3
"""Share of the price for which a page waits after a wrong answer, at least.

A fetch in vain costs the price, in seconds for which some page is outdated.  Where fetches are
scarce it is better to wait until the wrong answers are probably over."""
_DOUBLINGS_MAX: Final = 6


class JudgedTexts(NamedTuple):
    """Judgements as columns, one row per outcome; rows without content have none."""

    is_judged: NDArray[np.bool_]
    verdict: NDArray[np.uint8]
    """Verdict for the shard."""
    digest: list[bytes | None]
    """Digest of the text that counts; None for a wrong answer."""
    sketch: list[bytes | None]
    divergence: NDArray[np.float32]
    memory: list[bytes | None]
    """New memory of the page, or its difference from the stored one if the flags say so; None if it
    has not changed."""
    host_update: list[bytes | None]
    passages: list[bytes | None]
    wrong_answer: NDArray[np.uint8]
    flags: NDArray[np.uint8]
    is_in_doubt: NDArray[np.bool_]
    """Whether the next answer decides if something counts, so it must not be "not modified"."""
    retry_seconds: NDArray[np.float32]
    """Time to leave a page alone that gave wrong answers in a row; 0 for the usual time."""

    def has_any(self) -> bool:
        """Return whether any outcome was judged."""
        return bool(self.is_judged.any())


def update_host_memory(memory: bytes | None, updates: Sequence[bytes]) -> bytes:
    """Return the memory of a host after updates that outcomes have logged."""
    from recrawl.content import HostMemory  # noqa: PLC0415

    host = HostMemory.from_bytes(memory or b"")
    for update in updates:
        host.apply(update)
    return host.to_bytes()


def text_digests(node: Node, page: NDArray[np.int64]) -> list[bytes | None]:
    """Return the digests of the texts that pages had when their text was last read.

    None for a page whose text was never read.
    """
    if node.store.content_counts is None:
        return [None] * page.size
    from recrawl.content import PageMemory  # noqa: PLC0415

    memories = (
        None if memory is None else PageMemory.from_bytes(memory)
        for memory in node.store.page_contents_of(page).memory
    )
    return [None if memory is None else memory.digest for memory in memories]


class _Memories:
    """Memories of the pages and hosts of outcomes, as stored and as of the outcomes before."""

    def __init__(self, node: Node, page: NDArray[np.int64]) -> None:
        from recrawl.content import HostMemory, PageMemory  # noqa: PLC0415

        self._page_memory, self._host_memory = PageMemory, HostMemory
        self._node = node
        pages = node.shard.tables.pages
        numbers = np.unique(page)
        slots = slot_of_page(numbers)
        stored = node.store.page_contents_of(numbers).memory
        self.stored_bytes = dict(zip(numbers.tolist(), stored, strict=True))
        self.page_bytes = dict(self.stored_bytes)
        groups = pages.group[slots].astype(np.int64)
        self.group = dict(zip(numbers.tolist(), groups.tolist(), strict=True))
        distinct = np.unique(groups)
        found = node.store.host_memories_of(distinct)
        self._host_bytes = dict(zip(distinct.tolist(), found, strict=True))
        self._hosts: dict[int, HostMemory] = {}
        self._host_updates: dict[int, list[bytes]] = {}
        is_active = (pages.status[slots] == PageStatus.ACTIVE) & (pages.fetched_at[slots] > 0)
        self.is_active = dict(zip(numbers.tolist(), is_active.tolist(), strict=True))
        self.is_seen = dict(
            zip(numbers.tolist(), (pages.fetched_at[slots] > 0).tolist(), strict=True)
        )

    def price_of(self, page: int) -> float:
        """Return the price of a fetch in seconds for which the copy of a page is outdated."""
        shard = self._node.shard
        pages = shard.tables.pages
        price = shard.price_at(int(shard.tables.registers.now[0]))
        slot = slot_of_page(page)
        weight = log2_of_code(int(pages.importance[slot])) - log2_of_code(int(pages.cost[slot]))
        return price * math.exp2(-weight) if price > 0.0 and math.isfinite(weight) else 0.0

    def page_memory(self, page: int) -> "PageMemory | None":
        """Return the memory of a page; None if there is none, or it cannot be read."""
        data = self.page_bytes[page]
        return None if data is None else self._page_memory.from_bytes(data)

    def host_memory(self, group: int) -> "HostMemory":
        """Return the memory of a host, with the updates of outcomes before."""
        host = self._hosts.get(group)
        if host is None:
            host = self._host_memory.from_bytes(self._host_bytes[group] or b"")
            self._hosts[group] = host
        for update in self._host_updates.pop(group, ()):
            host.apply(update)
        return host

    def update_host(self, group: int, update: bytes) -> None:
        """Note an update of the memory of a host, for the outcomes that follow."""
        self._host_updates.setdefault(group, []).append(update)


def judge_texts(
    node: Node,
    page: NDArray[np.int64],
    contents: NDArray[np.object_],
    settings: "ContentSettings",
    says_changed: NDArray[np.bool_],
    in_turn: CountedInTurn | None,
) -> JudgedTexts:
    """Judge the observations of outcomes, each by the state that the outcomes before it leave.

    Parameters
    ----------
    node
        Node of the pages.
    page
        Page of each outcome.
    contents
        Observation of each outcome, None for those that have none.
    settings
        Rules of judging.
    says_changed
        Whether the user says of an outcome if the page has changed: then it was the page.
    in_turn
        Prediction of the outcomes that will count, if a page occurs several times; else None.
    """
    n = page.size
    judged = JudgedTexts(
        is_judged=is_given(contents),
        verdict=np.zeros(n, np.uint8),
        digest=[None] * n,
        sketch=[None] * n,
        divergence=np.full(n, np.nan, np.float32),
        memory=[None] * n,
        host_update=[None] * n,
        passages=[None] * n,
        wrong_answer=np.zeros(n, np.uint8),
        flags=np.zeros(n, np.uint8),
        is_in_doubt=np.zeros(n, np.bool_),
        retry_seconds=np.zeros(n, np.float32),
    )
    rows = np.flatnonzero(judged.is_judged)
    if rows.size == 0:
        return judged
    from recrawl.content import judge  # noqa: PLC0415

    memories = _Memories(node, page[rows])
    for i in rows.tolist():
        number = int(page[i])
        group = memories.group[number]
        before = memories.page_memory(number)
        judgement = judge(contents[i], before, memories.host_memory(group), settings)
        verdict = _verdict_of(judgement, is_seen=memories.is_seen[number])
        is_wrong = verdict == Verdict.WRONG_ANSWER
        if is_wrong and says_changed[i]:
            judged.is_judged[i] = False
            continue
        if in_turn is not None and not in_turn.counts(i, is_poll=not is_wrong):
            judged.verdict[i] = verdict
            continue
        _put_judgement(judged, i, number, judgement, verdict, memories)
        if judgement.memory is not before:
            _put_memory(judged, i, number, judgement.memory.to_bytes(), memories)
        if in_turn is None and judged.memory[i] is not None:
            _shorten_memory(judged, i, memories.stored_bytes[number])
        if not is_wrong:
            memories.is_seen[number] = memories.is_active[number] = True
    return judged


def _verdict_of(judgement: "Judgement", *, is_seen: bool) -> Verdict:
    from recrawl.content import ContentVerdict  # noqa: PLC0415

    match judgement.verdict:
        case ContentVerdict.CHANGED:
            return Verdict.CHANGED
        case ContentVerdict.REVERTED | ContentVerdict.CORRECTED:
            # In the feed, so that an index gets the page, but not a change of it.
            return Verdict.REVERTED
        case ContentVerdict.WRONG_ANSWER:
            return Verdict.WRONG_ANSWER
        case ContentVerdict.FIRST if not is_seen:
            return Verdict.CHANGED
    # Also the first text of a page that was compared by digests before: there is nothing to
    # compare it with.
    return Verdict.UNCHANGED


def _put_judgement(
    judged: JudgedTexts,
    i: int,
    page: int,
    judgement: "Judgement",
    verdict: Verdict,
    memories: _Memories,
) -> None:
    """Write one judgement into the columns, and into the memories for the outcomes after it."""
    from recrawl.content import ContentVerdict  # noqa: PLC0415

    is_wrong = verdict == Verdict.WRONG_ANSWER
    is_baseline = judgement.verdict in (ContentVerdict.FIRST, ContentVerdict.BASELINE)
    judged.verdict[i] = verdict
    judged.flags[i] = JUDGED_FLAG
    if is_baseline and verdict == Verdict.UNCHANGED:
        judged.flags[i] |= BASELINE_FLAG
    if judgement.is_template_change:
        judged.flags[i] |= TEMPLATE_FLAG
    judged.is_in_doubt[i] = judgement.memory.is_in_doubt
    if is_wrong:
        judged.wrong_answer[i] = judgement.wrong_answer
        worth = PRICE_SHARE * memories.price_of(page)
        judged.retry_seconds[i] = max(_retry_seconds(judgement.memory.n_wrong), worth)
    else:
        judged.digest[i] = judgement.digest
        judged.sketch[i] = judgement.observation.sketch_of(judgement.is_counted)
        judged.divergence[i] = judgement.divergence
        # The feed has a change unless the page is there as before.
        if verdict != Verdict.UNCHANGED or not memories.is_active[page]:
            judged.passages[i] = _passages_of(judgement)
    if judgement.host_update:
        judged.host_update[i] = judgement.host_update
        memories.update_host(memories.group[page], judgement.host_update)


def _retry_seconds(n_wrong: int) -> float:
    """Return how long to leave a page alone after some wrong answers in a row.

    The first is asked again soon: many are gone then.  Those that stay last for hours, and an
    answer that is given often enough counts as the page, so it must not be asked for too fast.
    """
    n_doublings = min(n_wrong - 2, _DOUBLINGS_MAX)
    return WRONG_AGAIN_SECONDS * 2.0**n_doublings if n_wrong >= 2 else 0.0


def _put_memory(judged: JudgedTexts, i: int, page: int, memory: bytes, memories: _Memories) -> None:
    if memory != memories.page_bytes[page]:
        judged.memory[i] = memories.page_bytes[page] = memory


def _shorten_memory(judged: JudgedTexts, i: int, stored: bytes | None) -> None:
    """Replace a memory by its difference from the stored one, if that is shorter."""
    memory = judged.memory[i]
    if memory is None or stored is None:
        return
    difference = pack_difference(memory, stored)
    if len(difference) < len(memory):
        judged.memory[i] = difference
        judged.flags[i] |= MEMORY_CHANGE_FLAG


def _passages_of(judgement: "Judgement") -> bytes:
    found = judgement.observation.texts
    texts = None if found is None else [found[i] for i in judgement.added_places.tolist()]
    return pack_passages(judgement.kept, judgement.added, judgement.removed, texts)
