"""Sitemaps and feeds of one site that say the same: which of them are read, and which are spare.

A site often announces a change in its sitemap and in a feed, or in two feeds.  Read both at the
interval that each deserves alone, and half of these fetches bring nothing.  Counting only the news
that a document had first does not help: of two equal documents each is first half of the time, so
both would be read nearly as often as before.

So recrawl notes of each document how many of its news other documents of the site show, too.  A
document whose news are nearly all shown by others, which announce about as many true ones, is a
*spare*: it is read once a week.  Of a sitemap and a feed that are equally good the feed is the
spare, because the sitemap loses nothing between two fetches.  When the others announce only half as
many as before, or as the spare does, or when they disappear or cannot be read, the spare is read at
once.  Then it is compared anew, and stays a spare unless the others announce less than half as many
as it does, so that two documents do not take turns.

Only a document that is worth reading by itself, with signals that fetches have tested, makes
another one a spare, and only for some time after it was read.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.run.discovery.memory import DocumentVersion

__all__ = [
    "COMPARED_MIN",
    "FEED_RATE_SHARE",
    "SITEMAP_RATE_SHARE",
    "SPARE_RATE_SHARE",
    "SPARE_SHARE",
    "SPEAKER_JUDGED_MIN",
    "SPEAKER_PRECISION_MIN",
    "OtherDocument",
    "count_shown",
    "count_waiting",
    "find_shown",
    "is_spare",
    "is_still_spare",
    "rate_of_others",
    "trusted_until",
]

SPARE_SHARE: Final = 0.8
"""Share of its news that others must show, so that a document is a spare."""
FEED_RATE_SHARE: Final = 0.75
"""True news of the others, per true news of a feed, from which on it can be a spare."""
SITEMAP_RATE_SHARE: Final = 1.25
"""The same for a sitemap."""
SPARE_RATE_SHARE: Final = 0.5
"""True news of the others, per true news of a spare, below which it is no longer one."""
SPEAKER_JUDGED_MIN: Final = 1.0
"""Number of its signals that fetches must have tested, so that a document makes others spares.

One is enough: two documents that show the same dates are hardly wrong both."""
SPEAKER_PRECISION_MIN: Final = 0.5
"""Precision that it must have, which is more than is assumed of a source without tests."""
COMPARED_MIN: Final = 8.0
"""Number of news that must have been compared with other documents."""

_TRUSTED_INTERVALS: Final = 3.0
_TRUSTED_SECONDS_MIN: Final = 86_400.0
_DAY_SECONDS: Final = 86_400


class OtherDocument(NamedTuple):
    """Another document of the same site."""

    url: str
    is_feed: bool
    version: DocumentVersion

    def is_trusted(self, now_ms: int) -> bool:
        """Return whether it is worth reading by itself, and was read not long ago."""
        return self.version.true_rate > 0 and self.version.trusted_until_ms > now_ms


def find_shown(
    hashes: NDArray[np.uint64], claimed: NDArray[np.uint32], other: DocumentVersion
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which entries another document knows, and which it shows with the same date or later.

    Parameters
    ----------
    hashes
        Hashes of the URLs of entries.
    claimed
        Date of each in seconds since 1970; 0 if it has none.
    other
        Memory of the other document.
    """
    if other.hashes.size == 0:
        return np.zeros(hashes.size, np.bool_), np.zeros(hashes.size, np.bool_)
    place = np.minimum(np.searchsorted(other.hashes, hashes), other.hashes.size - 1)
    is_known = other.hashes[place] == hashes
    until = other.claimed_at[place].astype(np.int64)
    # A date without a time means some moment of that day.
    until = np.where((until > 0) & (until % _DAY_SECONDS == 0), until + _DAY_SECONDS - 1, until)
    return is_known, is_known & (claimed > 0) & (until >= claimed)


def count_shown(
    hashes: NDArray[np.uint64], claimed: NDArray[np.uint32], others: Sequence[OtherDocument]
) -> tuple[int, int]:
    """Return how many news of a document others show, too, and how many could be compared.

    An entry that is later than the last fetch of a document that may yet show it is not compared.

    Parameters
    ----------
    hashes
        Hashes of the URLs of the news.
    claimed
        Date of each in seconds since 1970; 0 if it has none.
    others
        Other documents of the site, which can be trusted.
    """
    is_shown = np.zeros(hashes.size, np.bool_)
    may_show = np.zeros(hashes.size, np.bool_)
    for other in others:
        is_known, is_there = find_shown(hashes, claimed, other.version)
        is_shown |= is_there
        is_later = claimed.astype(np.int64) * 1_000 >= other.version.fetched_at_ms
        may_show |= (is_known | other.is_feed) & is_later
    return int(np.count_nonzero(is_shown)), int(np.count_nonzero(is_shown | ~may_show))


def count_waiting(
    other: OtherDocument, version: DocumentVersion, before_ms: int, *, is_feed: bool
) -> tuple[int, int]:
    """Return how many later news of another document a new version shows, and how many there are.

    These are the news that `count_shown` could not compare yet.

    Parameters
    ----------
    other
        The other document.
    version
        Memory of the new version.
    before_ms
        Instant of the fetch before.
    is_feed
        Whether the new version is one of a feed.
    """
    claimed_ms = other.version.claimed_at.astype(np.int64) * 1_000
    is_recent = (claimed_ms >= before_ms) & (claimed_ms < other.version.fetched_at_ms)
    hashes, claimed = other.version.hashes[is_recent], other.version.claimed_at[is_recent]
    is_known, is_shown = find_shown(hashes, claimed, version)
    return int(np.count_nonzero(is_shown)), int(np.count_nonzero(is_known | is_feed))


def rate_of_others(others: Iterable[OtherDocument], now_ms: int) -> float:
    """Return the true news per second of documents that can be trusted and are not spares.

    Parameters
    ----------
    others
        Other documents of the site.
    now_ms
        Instant of now.
    """
    return sum(
        one.version.true_rate
        for one in others
        if one.is_trusted(now_ms) and not one.version.is_spare
    )


def is_spare(version: DocumentVersion, others_rate: float, *, is_feed: bool) -> bool:
    """Return whether a document is read rarely, because others of its site say the same.

    Parameters
    ----------
    version
        Memory of the document.
    others_rate
        True news per second of the others, by `rate_of_others`.
    is_feed
        Whether the document is a feed.
    """
    if version.n_compared < COMPARED_MIN or version.n_shown < SPARE_SHARE * version.n_compared:
        return False
    if version.is_spare:
        return others_rate > 0 and others_rate >= SPARE_RATE_SHARE * version.true_rate
    share = FEED_RATE_SHARE if is_feed else SITEMAP_RATE_SHARE
    return others_rate > 0 and others_rate >= share * version.true_rate


def is_still_spare(version: DocumentVersion, others_rate: float) -> bool:
    """Return whether the others still announce enough, so that a spare need not be read.

    Parameters
    ----------
    version
        Memory of the spare.
    others_rate
        True news per second of the others now.
    """
    enough = SPARE_RATE_SHARE * max(version.true_rate, version.spare_rate)
    return others_rate > 0 and others_rate >= enough


def trusted_until(fetched_at_ms: int, poll_seconds: float) -> int:
    """Return until when a document that was read at an instant makes others spares.

    Parameters
    ----------
    fetched_at_ms
        Instant of the fetch.
    poll_seconds
        Time after which it is read again.
    """
    seconds = max(_TRUSTED_INTERVALS * poll_seconds, _TRUSTED_SECONDS_MIN)
    return fetched_at_ms + round(1_000 * seconds)
