"""The oracle of the month: a crawler that knows every change rate and what each hint is worth.

It knows of each page its true rate of change, and of each sitemap and feed how it is wrong; it
never knows an instant of a future change.  Its budget counts fetches of pages, sitemaps and feeds,
as recrawl's does.  It obeys robots.txt and keeps the delays of hosts.

- It fetches a sitemap or feed at the interval that is best at the price of a fetch.  The price is
  the one at which the budget is spent; both follow from the rates (see `plan_documents`).
  It reads none before it has tried to fetch once every page that is worth the price.
- It spends all other fetches on the page of greatest value: Longevity's U for the time since the
  page was last known to be unchanged, and 1/rate for a page that a hint shows to have changed.
- An answer that does not show the page costs it a fetch, as it costs recrawl; it tries again after
  an hour, and after twice as long each time.
- It has the advantage in two places.  It knows all pages and hints from the start, without looking
  for them.  It recognises every change, and the right version of every page.

To see what its knowledge is worth, it can be run without some of it (`Ignorance`).
"""

import math
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urljoin, urlsplit

import numpy as np

from recrawl.core.arrays import FloatArray
from recrawl.core.value import crawl_value
from recrawl.testing.web import (
    CopyMade,
    FeedKind,
    LocalWeb,
    SitemapDates,
    SitemapForm,
    WebPage,
)
from recrawl.testing.web.hints import N_FEED_PAGES
from recrawl.testing.web.robots import is_allowed, robots_delay_seconds

__all__ = ["IGNORANCES", "Ignorance", "OracleRun", "plan_documents", "run_oracle"]

Ignorance = Literal["first_rates", "rates", "silence"]
"""What an oracle can be kept from knowing: the rates of pages that it has not fetched yet (it takes
the typical one); the rates of all pages (it knows how many pages have which rate, and learns that
of each page from its own fetches); or that a page which a sitemap or feed does not name has not
changed."""
IGNORANCES: tuple[Ignorance, ...] = ("first_rates", "rates", "silence")
_N_RATES = 40

_DAY = 86_400.0
_DAY_MS = 86_400_000
_REDIRECTS_MAX = 10
# A page whose answer does not show it is tried again after this time, then after twice as long.
_RETRY_SECONDS = 3_600.0
_DOUBLINGS_MAX = 9
_N_PER_SITEMAP = 50
_INTERVALS = np.geomspace(600.0, 60 * _DAY, 200)
# A broken sitemap ends after two thirds of its bytes, a broken feed after half of them.
_BROKEN_SITEMAP_SHARE = 0.6
_N_BROKEN_FEED_PAGES = 3
_FALSE_DATES = (SitemapDates.NONE, SitemapDates.BUILD_TIME, SitemapDates.WRONG)


@dataclass(slots=True)
class _Document:
    """A sitemap or feed that tells the truth about some pages: rows of the table of pages."""

    host: str
    rows: np.ndarray
    dates: SitemapDates
    n_listed: int  # a feed lists only the pages that changed last
    interval: float = math.inf
    next_at: float = math.inf

    def first_wait(self) -> float:
        """Return when to read it first after the fill: documents take turns."""
        return self.interval * (zlib.crc32(self.host.encode()) % 1_000) / 1_000


@dataclass(slots=True)
class OracleRun:
    """What an oracle did.

    Parameters
    ----------
    copies
        Copies that it made.
    n_fetches, n_documents, n_failures
        Number of its fetches, how many of them were of sitemaps and feeds, and how many answers did
        not show the page.
    price
        Staleness in seconds that a fetch had to save when the documents were planned.
    """

    copies: list[CopyMade] = field(default_factory=list)
    n_fetches: int = 0
    n_documents: int = 0
    n_failures: int = 0
    price: float = 0.0


def _documents(web: LocalWeb, pages: Sequence[WebPage], at_end: float) -> list[_Document]:
    """Return the sitemaps and feeds that say something true and that robots.txt allows."""
    rows: dict[str, list[int]] = {}
    for row, page in enumerate(pages):
        rows.setdefault(page.host, []).append(row)
    found = []
    for host, known in rows.items():
        traits = web.hosts[host].traits
        has_dates = traits.sitemap_dates not in _FALSE_DATES
        if traits.sitemap not in (SitemapForm.MISSING, SitemapForm.TEXT) and has_dates:
            n_listed, n_per_file = traits.n_pages, traits.n_pages
            if traits.sitemap is SitemapForm.BROKEN:
                n_listed = int(_BROKEN_SITEMAP_SHARE * traits.n_pages)
            if traits.sitemap is SitemapForm.INDEX:
                n_per_file = _N_PER_SITEMAP
            files: dict[int, list[int]] = {}
            for row in known:
                if pages[row].page < n_listed:
                    files.setdefault(pages[row].page // n_per_file, []).append(row)
            found += [
                _Document(host, np.array(part), traits.sitemap_dates, len(part))
                for part in files.values()
            ]
        if traits.feed is not FeedKind.MISSING and is_allowed(traits, "/feed.xml", at_end):
            is_broken = traits.feed is FeedKind.BROKEN
            n_listed = _N_BROKEN_FEED_PAGES if is_broken else N_FEED_PAGES
            document = _Document(host, np.array(known), SitemapDates.RIGHT, n_listed)
            found.append(document)
    return found


def _mean_stale(rate: FloatArray, interval: FloatArray) -> FloatArray:
    """Return the seconds for which a page is stale in an interval after it was fresh."""
    # ∫₀ᵀ (1 - e^{-λs}) ds = T - (1 - e^{-λT}) / λ
    safe = np.maximum(rate, 1e-30)
    return np.maximum(interval + np.expm1(-safe * interval) / safe, 0.0)


def _cost_alone(rate: FloatArray, price: float) -> tuple[FloatArray, FloatArray]:
    """Return staleness plus price per second of pages that are polled alone, and their polls."""
    each = (_mean_stale(rate[:, np.newaxis], _INTERVALS) + price) / _INTERVALS
    best = each.argmin(axis=1)
    cost = each[np.arange(rate.size), best]
    is_polled = cost < 1.0
    return np.where(is_polled, cost, 1.0), np.where(is_polled, 1 / _INTERVALS[best], 0.0)


def _plan_at_price(
    rate: FloatArray, documents: Sequence[_Document], price: float
) -> tuple[float, list[float]]:
    """Return fetches per second at a price, and the best interval of each document."""
    alone, polls = _cost_alone(rate, price)
    intervals = [math.inf] * len(documents)
    saved = [0.0] * len(documents)
    total = polls.copy()
    by_host: dict[str, list[int]] = {}
    for number, document in enumerate(documents):
        by_host.setdefault(document.host, []).append(number)
    n_document_fetches = 0.0
    for number, document in enumerate(documents):
        mine = rate[document.rows]
        waits = _INTERVALS
        stale = _mean_stale(mine[:, np.newaxis], waits)
        changed = -np.expm1(-mine[:, np.newaxis] * waits)
        following = (stale + price * changed) / waits
        # A feed shows only so many changes; a longer interval leaves the others unseen.
        shown = np.minimum(1.0, document.n_listed / np.maximum(changed.sum(axis=0), 1e-9))
        before = alone[document.rows][:, np.newaxis]
        gain = shown * np.maximum(before - following, 0.0).sum(axis=0) - price / waits
        if document.dates is SitemapDates.STALE:
            gain = np.where(waits < 0.9 * _DAY, -math.inf, gain)
        best = int(gain.argmax())
        if gain[best] > 0:
            intervals[number], saved[number] = float(waits[best]), float(gain[best])
    for numbers in by_host.values():
        # A feed beside a sitemap says the same: take what saves more.
        whole = [n for n in numbers if documents[n].n_listed == documents[n].rows.size]
        feeds = [n for n in numbers if n not in whole]
        if whole and feeds:
            worse = feeds if sum(saved[n] for n in whole) >= saved[feeds[0]] else whole
            for n in worse:
                intervals[n] = math.inf
        for n in numbers:
            if math.isfinite(intervals[n]):
                mine = rate[documents[n].rows]
                changed = -np.expm1(-mine * intervals[n]) / intervals[n]
                stale = _mean_stale(mine, np.full(mine.size, intervals[n]))
                cost = stale / intervals[n] + price * changed
                is_better = cost < alone[documents[n].rows]
                total[documents[n].rows] = np.where(is_better, changed, total[documents[n].rows])
                n_document_fetches += 1 / intervals[n]
    return float(total.sum() + n_document_fetches), intervals


def plan_documents(
    rate: FloatArray, documents: Sequence[_Document], budget: float
) -> tuple[float, list[float]]:
    """Return the price at which a budget is spent, and the interval of each document.

    A document that is read every T seconds shows which of its pages changed, and these are fetched.
    Per second a page of rate λ then costs (T - (1 - e^{-λT})/λ)/T of staleness and
    (1 - e^{-λT})/T fetches, and the document 1/T fetches.  The best T at a price minimises
    staleness plus price times fetches; a page that is cheaper alone is polled alone.

    Parameters
    ----------
    rate
        Changes per second of each page.
    documents
        Sitemaps and feeds that say something true.
    budget
        Fetches per second.
    """
    low, high = 1.0, 1e9
    for _ in range(40):
        price = math.sqrt(low * high)
        spent, _ = _plan_at_price(rate, documents, price)
        low, high = (price, high) if spent > budget else (low, price)
    return high, _plan_at_price(rate, documents, high)[1]


class _Oracle:
    """The state of an oracle while it crawls."""

    def __init__(
        self,
        web: LocalWeb,
        pages: Sequence[WebPage],
        rate: FloatArray,
        documents: list[_Document],
        without: Collection[Ignorance] = (),
    ) -> None:
        self.web = web
        self.without = without
        self.typical_rate = float(np.exp(np.log(np.maximum(rate, 1e-12)).mean()))
        self.pages = pages
        self.rate = rate
        self.documents = documents
        n_pages = len(pages)
        hosts = {page.host: None for page in pages}
        self.host_names = list(hosts)
        numbers = {name: number for number, name in enumerate(self.host_names)}
        self.host = np.array([numbers[page.host] for page in pages])
        self.host_free_at = np.zeros(len(hosts))
        self.version = np.full(n_pages, -1)
        self.fetched_at = np.full(n_pages, -math.inf)
        self.known_until = np.full(n_pages, -math.inf)  # unchanged from the fetch until then
        self.has_changed = np.ones(n_pages, dtype=bool)  # without a copy, or by a hint
        self.found_change = np.zeros(n_pages, dtype=bool)
        self.next_try_at = np.zeros(n_pages)
        self.n_failures = np.zeros(n_pages, dtype=np.int64)
        self.run = OracleRun()
        # How probable each of some rates is for each page, by what its fetches have shown.
        safe = np.maximum(rate, 1e-12)
        self.rates = np.geomspace(safe.min(), safe.max() * 1.001, _N_RATES)
        nearest = np.abs(np.log(safe)[:, np.newaxis] - np.log(self.rates)).argmin(axis=1)
        shares = np.bincount(nearest, minlength=_N_RATES) / n_pages
        self.belief = np.tile(shares, (n_pages, 1))

    def is_filled(self) -> bool:
        """Return whether every page that is worth its price has a copy, or has been tried."""
        is_worthless = self._rate_believed() * self.run.price > 1.0
        return bool(((self.version >= 0) | (self.next_try_at > 0) | is_worthless).all())

    def _rate_believed(self) -> FloatArray:
        if "rates" in self.without:
            return 1.0 / (self._belief_now() @ (1.0 / self.rates))
        if "first_rates" in self.without:
            return np.where(self.version >= 0, self.rate, self.typical_rate)
        return self.rate

    def _belief_now(self) -> FloatArray:
        """Return the probability of each rate, given also for how long pages did not change."""
        has_copy = np.isfinite(self.fetched_at)
        unchanged = np.zeros(has_copy.size)
        unchanged[has_copy] = self.known_until[has_copy] - self.fetched_at[has_copy]
        found = self.belief * np.exp(-self.rates * unchanged[:, np.newaxis])
        return found / found.sum(axis=1, keepdims=True)

    def _learn_rate(self, row: int, at: float, *, is_new: bool) -> None:
        """Learn from a fetch whether a page has changed since it was known to be unchanged."""
        if not math.isfinite(self.fetched_at[row]):
            return
        same = np.exp(-self.rates * (at - self.known_until[row]))
        found = self._belief_now()[row] * ((1.0 - same) if is_new else same)
        self.belief[row] = found / found.sum() if found.sum() > 0 else self.belief[row]

    def values(self, at: float) -> FloatArray:
        """Return the value of fetching each page now; -inf if it may not be fetched."""
        elapsed = np.where(self.has_changed, math.inf, at - self.known_until)
        if "rates" in self.without:
            each = np.asarray(crawl_value(self.rates, elapsed[:, np.newaxis]))
            values = (self._belief_now() * each).sum(axis=1)
        else:
            values = np.asarray(crawl_value(np.maximum(self._rate_believed(), 1e-12), elapsed))
        is_free = (self.host_free_at[self.host] <= at) & (self.next_try_at <= at)
        return np.where(is_free, values, -math.inf)

    def fetch_best(self, at: float) -> None:
        """Fetch the page of greatest value that robots.txt allows."""
        values = self.values(at)
        for row in np.argsort(-values, kind="stable"):
            if values[row] <= 0 or self._fetch(int(row), at):
                return

    def _fetch(self, row: int, at: float) -> bool:
        page = self.pages[row]
        traits = self.web.hosts[page.host].traits
        at_ms = self.web.started_at_ms + round(1_000 * at)
        path = self.web.hosts[page.host].path(page.page)
        if not is_allowed(traits, path, at):
            self.next_try_at[row] = at + _RETRY_SECONDS
            return False
        version = self._shown_version(page.host, path, at_ms)
        self.run.n_fetches += 1
        self._keep_host_delay(self.host[row], at)
        if version is None:
            n_doublings = min(int(self.n_failures[row]), _DOUBLINGS_MAX)
            self.next_try_at[row] = at + _RETRY_SECONDS * 2.0**n_doublings
            self.n_failures[row] += 1
            self.run.n_failures += 1
            return True
        self.n_failures[row] = 0
        self.run.copies.append(CopyMade(page.host, page.page, at_ms, version))
        is_new = version != self.version[row]
        if self.has_changed[row] and not is_new:
            # A second server still has the old version.
            self.next_try_at[row] = at + _RETRY_SECONDS
            return True
        if "rates" in self.without:
            self._learn_rate(row, at, is_new=is_new)
        self.version[row] = version
        self.found_change[row] = is_new
        self.fetched_at[row] = self.known_until[row] = at
        self.has_changed[row] = False
        return True

    def _keep_host_delay(self, host: int, at: float) -> None:
        traits = self.web.hosts[self.host_names[host]].traits
        delay = max(robots_delay_seconds(traits), 1.0) + traits.answer_seconds
        self.host_free_at[host] = at + delay

    def _shown_version(self, host: str, path: str, at_ms: int) -> int | None:
        """Return the version of a page that an answer shows, or None if it shows none."""
        url = self.web.hosts[host].origin + path
        for _ in range(_REDIRECTS_MAX + 1):
            parts = urlsplit(url)
            name = self.web.host_named(parts.netloc)
            if name is None:
                return None
            reply = self.web.answer(name, parts.path or "/", at_ms, {})
            if reply.status == 200:
                return reply.version if reply.version >= 0 and name == host else None
            location = dict(reply.headers).get("Location")
            if location is None or "[" in location:
                return None
            url = urljoin(url, location)
        return None

    def read(self, document: _Document, at: float) -> None:
        """Read a sitemap or feed, and keep what it says about the pages."""
        self.run.n_fetches += 1
        self.run.n_documents += 1
        host = self.web.hosts[document.host]
        self._keep_host_delay(self.host[document.rows[0]], at)
        as_of = at - at % _DAY if document.dates is SitemapDates.STALE else at
        as_of_ms = self.web.started_at_ms + round(1_000 * as_of)
        rows = document.rows
        changed_ms = np.array([host.current(self.pages[row].page, as_of_ms)[0] for row in rows])
        changed_at = (changed_ms - self.web.started_at_ms) / 1_000
        is_listed = np.ones(rows.size, dtype=bool)
        listed_since = -math.inf
        if document.n_listed < rows.size:
            # A feed says nothing about pages that changed before those that it lists, nor about
            # others that changed in the same instant as the last of them.
            pages = np.array([self.pages[row].page for row in rows])
            latest = np.lexsort((pages, changed_at))[-document.n_listed :]
            is_listed[:] = False
            is_listed[latest] = True
            listed_since = changed_at[latest[0]]
        has_copy = np.isfinite(self.fetched_at[rows])
        if document.dates is SitemapDates.DATE_ONLY:
            fetched_at = np.where(has_copy, self.fetched_at[rows], 0.0)
            day, fetched_day = changed_at // _DAY, fetched_at // _DAY
            is_later = (day > fetched_day) | ((day == fetched_day) & ~self.found_change[rows])
            # A change on the day of the fetch may have come after it.
            is_open = (day == fetched_day) & self.found_change[rows]
            open_seconds = np.where(is_open, _DAY - fetched_at % _DAY, 0.0)
            until = at - np.minimum(open_seconds, at - fetched_at)
        else:
            is_later = (changed_at > self.fetched_at[rows]) & is_listed
            is_said = is_listed | (listed_since < self.known_until[rows])
            until = np.where(is_said, as_of, -math.inf)
        self.has_changed[rows] |= has_copy & is_later
        is_same = has_copy & ~self.has_changed[rows]
        better = np.maximum(self.known_until[rows], until)
        if "silence" not in self.without:
            self.known_until[rows] = np.where(is_same, better, self.known_until[rows])
        document.next_at = at + document.interval
        if document.dates is SitemapDates.STALE:
            n_days = max(round(document.interval / _DAY), 1)
            document.next_at = at - at % _DAY + n_days * _DAY + 1.0


def run_oracle(
    web: LocalWeb,
    pages: Sequence[WebPage],
    fetches_per_day: float,
    n_days: float,
    *,
    has_signals: bool = True,
    without: Collection[Ignorance] = (),
) -> OracleRun:
    """Crawl a web as an oracle and return what it did.

    Parameters
    ----------
    web
        Hosts, and the truth about their pages.
    pages
        Pages to keep fresh.
    fetches_per_day
        Budget.
    n_days
        Length of the crawl.
    has_signals
        Whether it reads sitemaps and feeds.
    without
        What it does not know.
    """
    per_day = [web.hosts[page.host].changes_per_day(page.page) for page in pages]
    rate = np.array(per_day) / _DAY
    documents = _documents(web, pages, n_days * _DAY) if has_signals else []
    price, intervals = plan_documents(rate, documents, fetches_per_day / _DAY)
    for document, interval in zip(documents, intervals, strict=True):
        document.interval = interval
    read = [document for document in documents if math.isfinite(document.interval)]
    oracle = _Oracle(web, pages, rate, read, without)
    oracle.run.price = price
    n_fetches = int(fetches_per_day * n_days)
    is_filled = False
    for number in range(n_fetches):
        at = number * _DAY / fetches_per_day
        if not is_filled and oracle.is_filled():
            is_filled = True
            for document in oracle.documents:
                document.next_at = at + document.first_wait()
        due = [
            document
            for document in oracle.documents
            if document.next_at <= at and oracle.host_free_at[oracle.host[document.rows[0]]] <= at
        ]
        if due:
            oracle.read(min(due, key=lambda document: document.next_at), at)
        else:
            oracle.fetch_best(at)
    return oracle.run
