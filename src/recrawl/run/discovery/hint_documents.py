"""Sitemaps and feeds as pages of the corpus: what is new in a version, and when to look again.

A document is compared with its version before.  Entries whose date moved become signals, entries
that were not there become pages.  The corpus learns from later fetches how often the signals of
each host are right.

When to look again
------------------
News add up in a document: while nobody reads it, each true entry leaves one more copy stale.  With
``s`` true news per second (weighted by the importance of their pages) the loss grows as ``s t``,
and has become ``s T² / 2`` after ``T`` seconds.  recrawl fetches what saves as much as the price,
so a document is read again after

    T = sqrt(2 price / s)

A page's own value would not do: it stops growing once the page has changed, whatever its
importance, so that the busiest sitemaps would seem worth the least.

Reading at that interval pays only if it is cheaper than polling the pages alone.  Per second, in
stale copies plus the price of all fetches, a document of ``n`` pages that change at the rate
``r = s / n`` costs

    n (T - (1 - e^{-rT}) / r) / T + (price / p) n (1 - e^{-rT}) / T + price / T

where ``p`` is the share of its signals that are true, and the pages alone cost
``n min_t (t - (1 - e^{-rt}) / r + price) / t``, or ``n`` if they are not worth their price.  A
document that does not pay is read once a week, so that it can show more.

A feed shows only its latest entries, and what it no longer shows is lost.  So a feed that pays at
that pace is read when half of its entries are probably new.

Of the signals that a document sends, a share counts, because the corpus has not fetched the page
since the claimed date, and of these the share ``p`` is true.  The corpus learns both; new pages
count as true.  So ``s`` falls with the precision of a source, and an unreliable sitemap is read
more rarely.  Nor does a page count that changes so fast that a copy of it is not worth its price,
not even right after a change: most news are about such pages.  A few of the signalled pages are
looked at to learn their share.

Documents of a site that say the same are not all read: see `recrawl.run.discovery.overlap`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.corpus import Corpus
from recrawl.run.discovery.memory import (
    REMEMBERED_MAX,
    DocumentVersion,
    NewsRate,
    hash_entries,
)
from recrawl.signals import DocumentKind, HintLimits, HintReader

__all__ = [
    "DOCUMENT_KEY",
    "POLL_SECONDS_MAX",
    "POLL_SECONDS_MIN",
    "DocumentHints",
    "DocumentNews",
    "SignalQuality",
    "apply_polls",
    "claimed_ms",
    "compare_versions",
    "news_per_second",
    "read_hints",
    "read_quality",
    "seconds_to_next_poll",
    "turnover_seconds",
]

DOCUMENT_KEY: Final = "recrawl"
"""Key of the metadata that marks a page of the corpus as a sitemap or feed."""
POLL_SECONDS_MIN: Final = 600.0
"""Shortest time between two fetches of a document."""
POLL_SECONDS_MAX: Final = 7 * 86_400.0
"""Longest time between two fetches of a document."""
FIRST_POLL_SECONDS: Final = 3_600.0
"""Time until a document is read again while the corpus has no price yet, at least."""
FIRST_SHARE: Final = 0.05
"""Share of the budget that all documents together take at most while there is no price."""

TOGETHER_SHARE: Final = 0.8
"""Share of the dates of a sitemap from which on they count as moved together."""
TOGETHER_MIN: Final = 8
"""Number of dates from which on they can move together, and signals that are then sent."""
TOGETHER_PRECISION_MIN: Final = 0.5
"""Precision from which on dates that move together are all sent."""
JUDGED_MIN: Final = 16.0
"""Number of signals after which a precision is no longer only assumed."""

SITEMAP_SOURCE: Final = "sitemap"
REBUILT_SOURCE: Final = "rebuilt sitemap"
FEED_SOURCE: Final = "feed"
_SOURCES: Final = (SITEMAP_SOURCE, REBUILT_SOURCE, FEED_SOURCE)

# A new document is taken to bring half a true entry a day, until it has shown more.
_PRIOR_NEWS: Final = 0.5
_PRIOR_SECONDS: Final = 86_400.0
# Each version counts nine tenths of the one after it.
_DECAY: Final = 0.9
_PRECISION_ASSUMED: Final = 0.25
# Signals that are taken to count before it is known how many do.
_COUNTED_PRIOR: Final = 4.0
_TTL_SECONDS_MAX: Final = 86_400.0
# Intervals at which pages can be polled alone.
_ALONE_SECONDS: Final = np.geomspace(600.0, 365 * 86_400.0, 100)
_PRECISE_MS: Final = 60_000
# Number of signalled pages of a version that are looked at.
_LOOKED_AT_MAX: Final = 6


class DocumentHints(NamedTuple):
    """All entries of one document, as columns."""

    kind: DocumentKind
    url: list[str]
    earliest_ms: NDArray[np.int64]
    latest_ms: NDArray[np.int64]
    ttl_seconds: float
    """Time for which a feed asks not to be read again; 0 if it does not."""

    def take(self, rows: NDArray[np.int64]) -> "DocumentHints":
        """Return some of the entries."""
        url = [self.url[row] for row in rows]
        return self._replace(
            url=url, earliest_ms=self.earliest_ms[rows], latest_ms=self.latest_ms[rows]
        )


def read_hints(body: bytes, n_entries_max: int) -> DocumentHints:
    """Return the entries of a sitemap, an index or a feed; none if it is something else.

    Parameters
    ----------
    body
        Body of the document.
    n_entries_max
        Number of entries that are read.
    """
    reader = HintReader([body], HintLimits(n_entries_max=n_entries_max))
    batches = list(reader)
    return DocumentHints(
        kind=reader.kind,
        url=[url for batch in batches for url in batch.url],
        earliest_ms=np.concatenate([np.empty(0, np.int64), *(one.earliest_ms for one in batches)]),
        latest_ms=np.concatenate([np.empty(0, np.int64), *(one.latest_ms for one in batches)]),
        ttl_seconds=min(reader.ttl_seconds or 0.0, _TTL_SECONDS_MAX),
    )


def claimed_ms(hints: DocumentHints, now_ms: int) -> NDArray[np.int64]:
    """Return the instant of change that each entry claims; 0 where it claims none.

    A day that is not over claims no instant: the change may be later than the last fetch, or
    earlier.  One that is over claims its end, so that a fetch after it has seen the change.

    Parameters
    ----------
    hints
        Entries.
    now_ms
        Instant at which they were fetched.
    """
    is_precise = hints.latest_ms - hints.earliest_ms <= _PRECISE_MS
    claimed = np.where(is_precise, hints.earliest_ms, hints.latest_ms)
    return np.where((claimed <= now_ms) & (hints.latest_ms > 0), claimed, 0)


class DocumentNews(NamedTuple):
    """What is new in a version of a document."""

    new: NDArray[np.int64]
    """Rows of entries that were never there."""
    later: NDArray[np.int64]
    """Rows of entries that were there with an earlier date, or without one."""
    is_together: bool
    """Whether nearly all dates moved, as when a site is built anew."""


def compare_versions(hints: DocumentHints, before: DocumentVersion) -> DocumentNews:
    """Return what is new in a document since the version before.

    Parameters
    ----------
    hints
        Entries of the document now, each URL once.
    before
        Memory of the version before.
    """
    hashes = hash_entries(hints.url)
    claimed = _seconds(hints)
    if before.hashes.size == 0:
        return DocumentNews(np.arange(hashes.size), np.empty(0, np.int64), False)
    place = np.searchsorted(before.hashes, hashes)
    place = np.minimum(place, before.hashes.size - 1)
    is_known = before.hashes[place] == hashes
    earlier = before.claimed_at[place]
    is_dated = is_known & (claimed > 0) & (earlier > 0)
    is_later = is_known & (claimed > earlier)
    n_dated = int(np.count_nonzero(is_dated))
    n_moved = int(np.count_nonzero(is_dated & (claimed != earlier)))
    is_together = n_dated >= TOGETHER_MIN and n_moved >= TOGETHER_SHARE * n_dated
    return DocumentNews(np.flatnonzero(~is_known), np.flatnonzero(is_later), is_together)


def remember_version(
    hints: DocumentHints,
    before: DocumentVersion | None,
    *,
    fetched_at_ms: int,
    is_kept: NDArray[np.bool_] | None = None,
) -> DocumentVersion:
    """Return what to remember of a document: its entries, and earlier ones while there is room.

    Entries that are missing may come back: a feed shows the latest ten, and a sitemap may be cut.

    Parameters
    ----------
    hints
        Entries of the document now, each URL once.
    before
        Memory of the version before; None for the first one.
    fetched_at_ms
        Instant of the fetch.
    is_kept
        Whether each entry is remembered; all are if None.
    """
    hashes, claimed = hash_entries(hints.url), _seconds(hints)
    if is_kept is not None:
        hashes, claimed = hashes[is_kept], claimed[is_kept]
    start = before if before is not None else DocumentVersion(fetched_at_ms=fetched_at_ms)
    if start.hashes.size:
        is_missing = ~np.isin(start.hashes, hashes)
        room = max(REMEMBERED_MAX - hashes.size, 0)
        hashes = np.concatenate([hashes, start.hashes[is_missing][:room]])
        claimed = np.concatenate([claimed, start.claimed_at[is_missing][:room]])
    order = np.argsort(hashes[:REMEMBERED_MAX], kind="stable")
    return replace(
        start,
        fetched_at_ms=fetched_at_ms,
        n_left_out=0 if is_kept is None else int(np.count_nonzero(~is_kept)),
        hashes=hashes[order],
        claimed_at=claimed[order],
    )


def _seconds(hints: DocumentHints) -> NDArray[np.uint32]:
    return (hints.earliest_ms // 1_000).astype(np.uint32)


def choose_sample(rows: NDArray[np.int64], hints: DocumentHints, at_ms: int) -> NDArray[np.int64]:
    """Return a few rows, others at another time, to test whether dates that move together are true.

    Parameters
    ----------
    rows
        Rows to choose from.
    hints
        Entries of the document.
    at_ms
        Instant of the fetch.
    """
    ranks = hash_entries([f"{at_ms} {hints.url[row]}" for row in rows])
    return rows[np.sort(np.argsort(ranks, kind="stable")[:TOGETHER_MIN])]


def add_news(
    news: NewsRate,
    *,
    seconds: float,
    n_signals: int = 0,
    n_together: int = 0,
    n_pages: int = 0,
    n_repeated: int = 0,
    n_looked_at: int = 0,
    n_worth: int = 0,
) -> NewsRate:
    """Return how much a document has announced, with one more version.

    Parameters
    ----------
    news
        Sums of what it had announced before.
    seconds
        Time since the version before.
    n_signals, n_together, n_pages
        Number of signals of each kind, and of new pages, in this version.
    n_repeated
        Number of signals of the first kind that another document of the site showed before; they
        are not among ``n_signals``.
    n_looked_at, n_worth
        Number of signalled pages that were looked at, and of those that are worth their price.
    """
    return NewsRate(
        _DECAY * news.n_signals + n_signals,
        _DECAY * news.n_together + n_together,
        _DECAY * news.n_pages + n_pages,
        _DECAY * news.seconds + max(seconds, 0.0),
        _DECAY * news.n_repeated + n_repeated,
        _DECAY * news.n_looked_at + n_looked_at,
        _DECAY * news.n_worth + n_worth,
    )


def count_worth(corpus: Corpus, urls: Sequence[str]) -> tuple[int, int]:
    """Look at a few signalled pages; return how many these are, and how many are worth a fetch.

    A fetch right after a change is worth the time until the next change, weighted by importance.

    Parameters
    ----------
    corpus
        Corpus with the pages.
    urls
        URLs of the pages, tracked or not.
    """
    n_looked_at = n_worth = 0
    for url in urls[:: max(len(urls) // _LOOKED_AT_MAX, 1)][:_LOOKED_AT_MAX]:
        page = corpus.explain(url)
        if page is None or not page.has_price:
            continue
        state = page.state
        n_looked_at += 1
        gain = state.importance * state.kind_weight / max(state.change_rate_per_second, 1e-12)
        n_worth += gain > state.price * state.cost
    return n_looked_at, n_worth


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalQuality:
    """How good the signals of a document are, and what a fetch costs.

    Parameters
    ----------
    precision
        Share of true signals, by source.
    n_judged
        Number of signals that fetches have tested, by source.
    counted_share
        Share of the sent signals that the corpus counted, by source.
    importance
        Importance of a page that the document has signalled.
    price
        Value from which on recrawl fetches a page; None if there is no price yet.
    poll_seconds
        Time after which the document was to be read again.
    """

    precision: Mapping[str, float]
    n_judged: Mapping[str, float]
    counted_share: Mapping[str, float] = field(default_factory=dict)
    importance: float = 1.0
    price: float | None = None
    poll_seconds: float = math.inf

    def precision_of(self, source: str) -> float:
        """Return the share of a source's signals that are true; assumed if nothing is known."""
        return self.precision.get(source, _PRECISION_ASSUMED)

    def true_share_of(self, source: str) -> float:
        """Return the share of a source's signals that are news to the corpus and true."""
        return self.precision_of(source) * self.counted_share.get(source, 1.0)

    def is_judged(self, source: str) -> bool:
        """Return whether the precision of a source is no longer only assumed."""
        return self.n_judged.get(source, 0.0) >= JUDGED_MIN

    def is_trusted_together(self) -> bool:
        """Return whether dates that moved together have proved right often enough."""
        is_right = self.precision_of(REBUILT_SOURCE) >= TOGETHER_PRECISION_MIN
        return self.is_judged(REBUILT_SOURCE) and is_right


def read_quality(
    corpus: Corpus, url: str, sample_url: str, n_sent: Mapping[str, int]
) -> SignalQuality:
    """Return what the corpus has learned of a document's signals.

    Parameters
    ----------
    corpus
        Corpus with the document.
    url
        URL of the document.
    sample_url
        URL of a page that it has signalled; empty if there is none.
    n_sent
        Number of signals that its site has sent, by source.
    """
    document = corpus.explain(url)
    if document is None:
        return SignalQuality(precision={}, n_judged={})
    rows = [corpus.source(source, document.group) for source in _SOURCES]
    known = [row for row in rows if row is not None]
    sample = corpus.explain(sample_url) if sample_url else None
    return SignalQuality(
        precision={row.source: row.precision for row in known},
        n_judged={row.source: row.n_judged for row in known},
        counted_share={
            row.source: min(
                (row.n_signals + _COUNTED_PRIOR) / (n_sent[row.source] + _COUNTED_PRIOR), 1.0
            )
            for row in known
            if row.source in n_sent
        },
        importance=1.0 if sample is None else sample.state.importance,
        price=document.state.price if document.has_price else None,
        poll_seconds=document.state.interval_seconds_max,
    )


def news_per_second(news: NewsRate, quality: SignalQuality, source: str) -> float:
    """Return the value of what a document announces: true news per second, by importance.

    Parameters
    ----------
    news
        Sums of what it has announced.
    quality
        Quality of its signals.
    source
        Source of the signals that moved on their own.
    """
    worth_share = (news.n_worth + 1.0) / (news.n_looked_at + 1.0)
    n_signalled = (
        quality.true_share_of(source) * news.n_signals
        + quality.true_share_of(REBUILT_SOURCE) * news.n_together
    )
    n_true = worth_share * n_signalled + news.n_pages
    return quality.importance * (n_true + _PRIOR_NEWS) / (news.seconds + _PRIOR_SECONDS)


def seconds_to_next_poll(
    news_rate: float,
    price: float,
    *,
    n_pages: float = math.inf,
    precision: float = 1.0,
    turnover_seconds: float = math.inf,
    ttl_seconds: float = 0.0,
) -> float:
    """Return the time after which a document is worth reading again: see the top of this module.

    Parameters
    ----------
    news_rate
        True news per second, weighted by importance.
    price
        Value from which on recrawl fetches a page.
    n_pages
        Number of pages that the document lists, weighted by importance.
    precision
        Share of its signals that are true.
    turnover_seconds
        Time in which half of the entries that a feed shows are replaced by others.
    ttl_seconds
        Time for which the document asks not to be read again.

    Examples
    --------
    >>> hour = 3600.0
    >>> round(seconds_to_next_poll(10 / (24 * hour), price=2 * hour) / hour, 1)
    3.1
    """
    seconds = math.sqrt(2 * price / news_rate) if news_rate > 0 else POLL_SECONDS_MAX
    for wish in (min(seconds, turnover_seconds), seconds):
        wait = min(max(wish, POLL_SECONDS_MIN), POLL_SECONDS_MAX)
        if n_pages == math.inf or _pays(news_rate, price, n_pages, precision, wait):
            return max(wait, ttl_seconds)
    return max(POLL_SECONDS_MAX, ttl_seconds)


def turnover_seconds(news: NewsRate, n_listed: int) -> float:
    """Return the time in which half of the entries that a feed shows are replaced by others.

    Parameters
    ----------
    news
        Sums of what it has announced.
    n_listed
        Number of entries that it shows.
    """
    n_replaced = news.n_signals + news.n_repeated
    return news.seconds * n_listed / (2.0 * n_replaced) if n_replaced > 0 else math.inf


def _pays(news_rate: float, price: float, n_pages: float, precision: float, seconds: float) -> bool:
    """Return whether reading a document at an interval costs less than polling its pages alone."""
    if n_pages <= 0 or news_rate <= 0:
        return False
    rate = news_rate / n_pages
    changed = -math.expm1(-rate * seconds)
    stale = seconds - changed / rate
    cost = (n_pages * (stale + price / max(precision, 1e-9) * changed) + price) / seconds
    alone = (_ALONE_SECONDS + np.expm1(-rate * _ALONE_SECONDS) / rate + price) / _ALONE_SECONDS
    return cost < n_pages * min(float(alone.min()), 1.0)


def seconds_without_price(budget_per_second: float | None, n_documents: int) -> float:
    """Return the time after which a document is read again while there is no price.

    Parameters
    ----------
    budget_per_second
        Fetches per second; None if they are unlimited.
    n_documents
        Number of documents of the corpus.
    """
    if not budget_per_second:
        return FIRST_POLL_SECONDS
    fair = n_documents / (FIRST_SHARE * budget_per_second)
    return min(max(fair, FIRST_POLL_SECONDS), POLL_SECONDS_MAX)


def apply_polls(corpus: Corpus, poll_seconds: Mapping[str, float]) -> None:
    """Set when documents are read again.

    Their importance is 0: they are fetched because of their age alone, and do not count in the
    weighted freshness.

    Parameters
    ----------
    corpus
        Corpus with the documents.
    poll_seconds
        Longest time until the next fetch, by URL.
    """
    for url, seconds in poll_seconds.items():
        corpus.set([url], importance=0.0, max_age=seconds, kind="sitemap or feed")


def first_of_each(urls: Sequence[str | None], dates: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows of distinct URLs, each with its latest date; rows without a URL are left out.

    Parameters
    ----------
    urls
        URLs.
    dates
        Date of each.
    """
    latest: dict[str, int] = {}
    for row, url in enumerate(urls):
        if url is None:
            continue
        known = latest.get(url)
        if known is None or dates[row] > dates[known]:
            latest[url] = row
    return np.array(sorted(latest.values()), np.int64)
