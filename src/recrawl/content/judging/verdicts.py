"""What a judgement says about an answer of a page."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from recrawl.content.judging.page_memory import PageMemory
from recrawl.content.observation import Observation

__all__ = ["ContentVerdict", "Judgement", "WrongAnswer"]


class ContentVerdict(IntEnum):
    """What an answer says about the content of its page."""

    FIRST = 1
    """The page has no memory yet."""
    BASELINE = 2
    """The text is read in another way than before, so the two versions cannot be compared."""
    UNCHANGED = 3
    """Nothing that counts differs."""
    CHANGED = 4
    """Text that counts is new or gone."""
    REVERTED = 5
    """Text differs, but only by passages that the page had or lacked a short time ago."""
    WRONG_ANSWER = 6
    """The answer is not the page: see `WrongAnswer`."""
    CORRECTED = 7
    """What was taken for the first version of the page was not the page: this one is."""


class WrongAnswer(IntEnum):
    """Why an answer is not an observation of its page."""

    NONE = 0
    SOFT_404 = 1
    """An error page with a status of success."""
    BLOCKED = 2
    """A block page or a test whether the visitor is a robot."""
    CONSENT = 3
    """A page that asks for consent before it shows the content."""
    LOGIN = 4
    """A login wall."""
    EMPTY_SHELL = 5
    """A page whose content is missing."""
    SAME_FOR_MANY = 6
    """A text that many pages of the host suddenly have."""
    TRUNCATED = 7
    """A page whose end is missing."""
    UNREADABLE = 8
    """A body that could not be read, of a page that was read before."""
    OTHER_KIND = 9
    """A body of another kind than before, such as a web page instead of a feed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judgement:
    """What an answer says about its page, and what to remember of it.

    Parameters
    ----------
    verdict
        Whether the content changed.
    wrong_answer
        Why the answer is not the page, or `WrongAnswer.NONE`.
    digest
        Digest of the version of the content, 16 bytes; it stays the same while nothing changes.
    kept, added, removed
        Hashes of the passages that count: in both versions, only in this one, only in the last one.
    added_places
        Places of the added passages in `observation`.
    is_counted
        Whether each passage of `observation` counts.
    divergence
        Share of the words that count which are new or gone, from 0 to 1.
    is_template_change
        Whether a part of the page changed that it shares with most pages of its host.
    observation
        Observation as it was judged: a page that had more passages once is compared as coarsely.
    memory
        New memory of the page.
    host_update
        Bytes for `HostMemory.with_update`; empty if the host's memory stays as it is.
    """

    verdict: ContentVerdict
    wrong_answer: WrongAnswer
    digest: bytes
    kept: NDArray[np.uint64]
    added: NDArray[np.uint64]
    removed: NDArray[np.uint64]
    added_places: NDArray[np.int64]
    is_counted: NDArray[np.bool_]
    divergence: float
    is_template_change: bool
    observation: Observation
    memory: PageMemory
    host_update: bytes
