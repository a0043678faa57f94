"""The corpus of one crawl, which the components of the add-on share."""

import asyncio
import atexit
import gc
import logging
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.utils.asyncio import is_asyncio_available
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

import recrawl
from recrawl.corpus import (
    COMPILE_TIME_TEXT,
    CorpusConfig,
    LeasedUrl,
    Order,
    Why,
    compile_all,
    is_compiled,
)
from recrawl.errors import LockedError, RecrawlError
from recrawl.kernel_mode import kernel_folder, kernel_mode
from recrawl.scrapy.addon_settings import AddonSettings, corpus_config
from recrawl.scrapy.change_file import append_changes
from recrawl.scrapy.page_store import FinishedPage, KnownPage, PageStore
from recrawl.scrapy.reporter import PageFetch, PageNews, ReportCounts, Reporter
from recrawl.scrapy.request_json import NotStorableError, decode_request, encode_request
from recrawl.units import count_text, share_text
from recrawl.urls import canonical

if TYPE_CHECKING:
    from recrawl.corpus import Corpus, Orders

__all__ = ["FETCH_KEY", "CrawlCorpus", "Decision", "Disposal", "loop_caller"]

logger = logging.getLogger(__name__)

FETCH_KEY: Final = "recrawl_fetch"
"""Key of ``Request.meta`` that names the `PageFetch` of a request."""
_CONFIG_FILE: Final = "recrawl.toml"
# Settings that belong to the configuration of a corpus, which a file in its folder replaces.
_OVERRULED: Final = (
    "RECRAWL_BUDGET",
    "RECRAWL_PRICE",
    "RECRAWL_MAX_AGE",
    "RECRAWL_CONTENT",
    "RECRAWL_KEEP_TEXT",
)
# Reasons that end soon, while the crawl runs.
_SHORT: Final = frozenset({Why.IN_FLIGHT, Why.GROUP_BUSY, Why.GROUP_RESTING})
_NOT_WORTH: Final = frozenset({Why.NOT_YET, Why.NEVER})
_NO_PAGE: Final = frozenset({Why.INVALID_URL, Why.NOT_TRACKED})
_WAIT_SECONDS_MIN: Final = 0.05
# Items between a callback and the pipeline that asks for them.
_ITEMS_MAX: Final = 10_000
_ATTRIBUTE: Final = "recrawl_corpus"


class Disposal(Enum):
    """What happens to a request."""

    FETCH = "fetch"
    DROP = "drop"
    WAIT = "wait"
    IGNORE = "ignore"
    """It is fetched, and recrawl does not learn from it."""


class Decision(NamedTuple):
    """What happens to a request, and why."""

    disposal: Disposal
    why: Why
    url: str = ""
    """Canonical URL of the page; empty if it is not needed."""
    seconds: float = 0.0
    """Seconds to wait before the next decision."""
    fetch: PageFetch | None = None
    known: KnownPage | None = None


@dataclass(slots=True)
class _Counts:
    """Numbers for the summary."""

    dropped: int = 0
    over_budget: int = 0
    """Requests among the dropped ones that the budget did not pay for."""
    reissued: int = 0


class CrawlCorpus:
    """The corpus of one crawl: which requests to send, and what the answers mean.

    Parameters
    ----------
    crawler
        Crawler of Scrapy.
    """

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        name = crawler.spidercls.name if crawler.spider is None else crawler.spider.name
        self.settings = AddonSettings.of(crawler.settings, name)
        self.corpus: Corpus | None = None
        self.in_flight: dict[int, PageFetch] = {}
        """Pages that are being fetched."""
        self.in_callback: dict[int, PageFetch] = {}
        """Pages whose items are being processed."""
        self.counts = _Counts()
        self.notes_items = False
        """Whether items are remembered with the news of their pages, for `DropUnchanged`."""
        self._item_news: OrderedDict[int, tuple[Any, PageNews]] = OrderedDict()
        # Pages that this crawl has asked for: hash of the URL, and name of the callback.
        self._fetched: dict[int, str] = {}
        self._n_fetches = 0
        self._freshness_before = 0.0
        self._reporter: Reporter | None = None
        self._pages: PageStore | None = None
        self._is_warned_of_unstorable = False
        self._is_warned_of_unreadable = False

    @classmethod
    def of(cls, crawler: Crawler) -> "CrawlCorpus":
        """Return the one corpus of a crawler."""
        # The components of a crawl are made by Scrapy, one by one, and have only the crawler in
        # common; so it keeps this object, and both are freed together.
        found = crawler.__dict__.get(_ATTRIBUTE)
        if found is None:
            found = crawler.__dict__[_ATTRIBUTE] = cls(crawler)
        return found

    # ------------------------------------------------------------------ opening and closing

    @property
    def is_open(self) -> bool:
        """Whether this crawl uses the corpus."""
        return self.corpus is not None

    async def prepare(self) -> None:
        """Compile what is not compiled yet, in other processes, and say so."""
        for name in ("numba", "asyncio"):
            # Scrapy shows all messages by default, and the compiler writes thousands.
            if logging.getLogger(name).level == logging.NOTSET:
                logging.getLogger(name).setLevel(logging.INFO)
        if kernel_mode() == "interpreted" or is_compiled():
            return
        if kernel_folder() is None:
            return  # `recrawl.open` warns
        logger.info(
            "recrawl compiles its code for this machine first (%s).  `recrawl doctor --compile` "
            "does this beforehand.",
            COMPILE_TIME_TEXT,
        )
        call_in_loop = loop_caller()
        done: Deferred[None] = Deferred()

        def compile_now() -> None:
            try:
                compile_all()
            except (RuntimeError, OSError) as error:
                logger.warning("%s", error)
            call_in_loop(lambda: done.callback(None))

        threading.Thread(target=compile_now, name="recrawl-compiling", daemon=True).start()
        await maybe_deferred_to_future(done)
        logger.info("recrawl has compiled its code.")

    def open(self) -> None:
        """Open the corpus; a corpus that another process uses is not used, with a warning."""
        chosen = self.settings
        scrapy = self.crawler.settings
        chosen.folder.mkdir(parents=True, exist_ok=True)
        has_file = (chosen.folder / _CONFIG_FILE).exists()
        overruled = [name for name in _OVERRULED if has_file and scrapy.get(name) is not None]
        if overruled:
            logger.warning(
                "%s: not used, because %s configures this corpus.",
                ", ".join(overruled),
                chosen.folder / _CONFIG_FILE,
            )
        config = corpus_config(
            chosen,
            delay_seconds=scrapy.getfloat("DOWNLOAD_DELAY"),
            n_per_host=scrapy.getint("CONCURRENT_REQUESTS_PER_DOMAIN"),
            previous=CorpusConfig.from_toml(chosen.folder / _CONFIG_FILE) if has_file else None,
        )
        try:
            corpus = recrawl.open(chosen.folder, config, clock=chosen.clock, accept_clock=True)
        except LockedError:
            logger.warning(
                "recrawl is not used in this crawl: another process has the corpus %s open. "
                "Every request is sent.  Give each crawl that runs at the same time its own "
                "folder with RECRAWL_CORPUS.",
                chosen.folder,
            )
            return
        except RecrawlError as error:
            # Scrapy shows it below a long traceback.
            logger.error("recrawl cannot open its corpus: %s", error)
            raise
        self._freshness_before = corpus.stats().freshness_modelled
        self._pages = PageStore(chosen.folder)
        self._reporter = Reporter(
            corpus,
            chosen.folder,
            loop_caller(),
            lambda: len(self.in_flight),
            is_awaited=chosen.says_news or chosen.item_field is not None or self.notes_items,
        )
        self._reporter.start()
        self.corpus = corpus
        # A crawl that is interrupted twice does not close its scheduler.
        atexit.register(self.close)
        _spare_loaded_objects()

    def close(self) -> None:
        """Report what is waiting, print the summary and close the corpus."""
        corpus, reporter = self.corpus, self._reporter
        if corpus is None or reporter is None or self._pages is None:
            return
        atexit.unregister(self.close)
        reporter.release([one.handle for one in self.in_flight.values() if one.handle])
        reporter.stop()
        self.corpus = None
        self._summarise(corpus, reporter.counts)
        if self.settings.changes_path is not None:
            try:
                append_changes(corpus, self.settings.changes_path)
            except (RecrawlError, OSError) as error:
                logger.error("Changes could not be written to RECRAWL_CHANGES: %s", error)
        self._pages.close()
        self._pages = self._reporter = None
        corpus.close()

    def _summarise(self, corpus: "Corpus", reported: ReportCounts) -> None:
        counts, stats = self.counts, self.crawler.stats
        assert stats is not None
        freshness = corpus.stats().freshness_modelled
        n_asked = reported.fetched + counts.dropped
        stats.set_value("recrawl/fetched", reported.fetched)
        stats.set_value("recrawl/dropped", counts.dropped)
        stats.set_value("recrawl/failed", reported.failed)
        stats.set_value("recrawl/forbidden", reported.forbidden)
        stats.set_value("recrawl/reissued_requests", counts.reissued)
        stats.set_value("recrawl/pages", corpus.n_pages)
        stats.set_value("recrawl/freshness_before", round(self._freshness_before, 4))
        stats.set_value("recrawl/freshness", round(freshness, 4))
        for transition, n in sorted(reported.by_transition.items()):
            stats.set_value(f"recrawl/{transition}", n)
        found = [f"{n:,} {one}" for one, n in sorted(reported.by_transition.items())]
        if reported.failed:
            found.append(f"{reported.failed:,} failed")
        if reported.not_reported:
            found.append(f"{reported.not_reported:,} not reported")
        if reported.forbidden:
            found.append(f"{reported.forbidden:,} forbidden by robots.txt and not fetched")
        n_saved = counts.dropped - counts.over_budget
        saved = share_text(n_saved / n_asked) if n_asked else "0 %"
        over = count_text(counts.over_budget, "request")
        logger.info(
            "recrawl: fetched %s%s; dropped %s for pages not worth fetching yet (%s saved)%s.  "
            "Estimated freshness of %s: %s before, %s now.",
            count_text(reported.fetched, "page"),
            f" ({', '.join(found)})" if found else "",
            count_text(n_saved, "request"),
            saved,
            f" and {over} because the budget is spent" if counts.over_budget else "",
            count_text(corpus.n_pages, "page"),
            share_text(self._freshness_before),
            share_text(freshness),
        )

    # ------------------------------------------------------------------ decisions

    def is_page(self, request: Request) -> bool:
        """Return whether recrawl decides about a request: a plain GET that is not switched off."""
        return (
            request.method == "GET"
            and not request.body
            and request.url.startswith(("http://", "https://"))
            and request.meta.get("recrawl_enabled", True) is not False
        )

    def continues(self, request: Request) -> bool:
        """Return whether a request goes on with a fetch: a redirect, or another attempt."""
        return request.meta.get(FETCH_KEY) in self.in_flight

    def decide(self, requests: Sequence[Request]) -> list[Decision]:
        """Return what happens to requests for pages, and order those that are fetched.

        Parameters
        ----------
        requests
            Requests for which `is_page` holds.
        """
        assert self.corpus is not None
        assert self._pages is not None
        urls = [request.url for request in requests]
        names = canonical(pa.array(urls, pa.string())).url.to_pylist()
        known = self._pages.find([name for name in names if name is not None])
        new = [url for url, name in zip(urls, names, strict=True) if name and name not in known]
        leased = self._lease(urls, new)
        return [
            self._decide(request, name, known.get(name), answer)
            for request, name, answer in zip(requests, names, leased, strict=True)
        ]

    def _lease(self, urls: list[str], new: list[str]) -> list[LeasedUrl]:
        """Return an answer for each URL; those that are not tracked are added first.

        Parameters
        ----------
        urls
            URLs of all requests.
        new
            URLs of pages that the add-on does not remember.
        """
        assert self.corpus is not None
        seconds, run = self.settings.lease_seconds, self.settings.run
        if new:
            self.corpus.add(new)
        answers = list(self.corpus.lease_urls(urls, seconds=seconds, run=run))
        # Somebody may have removed pages that the add-on remembers.
        removed = [i for i, one in enumerate(answers) if one.why == Why.NOT_TRACKED]
        if removed:
            added = [urls[i] for i in removed]
            again = self.corpus.lease_urls(added, add=True, seconds=seconds, run=run)
            for i, answer in zip(removed, again, strict=True):
                answers[i] = answer
        return answers

    def _decide(
        self, request: Request, name: str | None, known: KnownPage | None, answer: LeasedUrl
    ) -> Decision:
        why = answer.why
        if name is None or why in _NO_PAGE:
            return Decision(Disposal.IGNORE, why)
        if answer.order is not None:
            return Decision(
                Disposal.FETCH, why, fetch=self._begin(request, name, known, answer.order)
            )
        callback = self._fetched.get(hash(name))
        if callback is not None:
            if callback == _callback_name(request) and not request.dont_filter:
                return Decision(Disposal.DROP, why)  # under way, or done
            # The spider wants something else of the same page, or asks again on purpose.
            return Decision(Disposal.IGNORE, why)
        if why in _SHORT and (seconds := answer.seconds) is not None:
            if seconds <= self.settings.wait_seconds_max:
                return Decision(Disposal.WAIT, why, seconds=max(seconds, _WAIT_SECONDS_MIN))
            return Decision(Disposal.DROP, why, name, known=known)
        is_needed = known is not None and (
            known.is_always_fetched or known.open_transition is not None
        )
        # At a fixed price, a page that changes faster than the price would never be fetched; but a
        # spider that visits it wants what is new.
        is_restless = why == Why.NEVER and self.settings.price is not None
        # Nor is a new page ever too dear: what it is worth is not known before it is fetched.
        is_new = known is None or known.fetched_at_ms == 0
        is_too_dear = is_new and why in _NOT_WORTH and self.settings.price is not None
        if is_needed or is_restless or is_too_dear:
            return Decision(Disposal.FETCH, why, fetch=self._begin(request, name, known, None))
        return Decision(Disposal.DROP, why, name, known=known)

    def lease_due(self, n: int) -> "Orders":
        """Return pages that are due, for a crawl that refreshes."""
        assert self.corpus is not None
        return self.corpus.lease(n, seconds=self.settings.lease_seconds, run=self.settings.run)

    def begin_order(self, order: Order, known: KnownPage | None, request: Request) -> Request:
        """Note that a page is fetched because it is due; return the marked request."""
        return self.mark(request, self._begin(request, order.url, known, order))

    def find_pages(self, urls: Sequence[str]) -> dict[str, KnownPage]:
        """Return what is remembered of pages, given by canonical URL."""
        assert self._pages is not None
        return self._pages.find(urls)

    def open_requests(self) -> list[tuple[str, str | None]]:
        """Return the pages whose items an earlier crawl may not have processed."""
        assert self._pages is not None
        return self._pages.open_pages()

    def track(self, requests: Sequence[Request]) -> None:
        """Add the pages of requests, and remember the requests."""
        assert self.corpus is not None
        assert self._pages is not None
        urls = [request.url for request in requests]
        names = canonical(pa.array(urls, pa.string())).url.to_pylist()
        self.corpus.add(urls)
        texts = [
            (name, self._encode(one)) for name, one in zip(names, requests, strict=True) if name
        ]
        self._pages.add_requests((name, text) for name, text in texts if text is not None)

    def _begin(
        self, request: Request, name: str, known: KnownPage | None, order: Order | None
    ) -> PageFetch:
        self._fetched[hash(name)] = _callback_name(request)
        fetch = PageFetch(url=name, request=self._encode(request))
        if order is not None:
            fetch.handle = order.handle
        if known is not None:
            fetch.previous_at_ms = known.fetched_at_ms
            fetch.open_transition = known.open_transition
            fetch.follow_ups = known.follow_ups
            # "Not modified" is of use only if everything behind the page is known.
            is_done = known.follow_ups is not None and known.open_transition is None
            if order is not None and is_done and self.decode(known.follow_ups or []) is not None:
                fetch.etag, fetch.last_modified = order.etag, order.last_modified
        return fetch

    def begin_again(self, request: Request, url: str, known: KnownPage) -> Request:
        """Note that a page is fetched because the requests that it led to cannot be read."""
        return self.mark(request, self._begin(request, url, known, None))

    def decode(self, follow_ups: Sequence[str]) -> list[Request] | None:
        """Return stored requests; None if one of them cannot be read, as after a renaming."""
        spider = self.crawler.spider
        assert spider is not None
        try:
            return [decode_request(text, spider) for text in follow_ups]
        except NotStorableError as error:
            assert self.crawler.stats is not None
            self.crawler.stats.inc_value("recrawl/requests_not_read")
            if not self._is_warned_of_unreadable:
                self._is_warned_of_unreadable = True
                logger.warning("%s.  The page that led to it is fetched again.", error)
            return None

    def mark(self, request: Request, fetch: PageFetch) -> Request:
        """Return the request with the number of its fetch."""
        self._n_fetches += 1
        self.in_flight[self._n_fetches] = fetch
        request.meta[FETCH_KEY] = self._n_fetches
        return request

    def _encode(self, request: Request) -> str | None:
        spider = self.crawler.spider
        assert isinstance(spider, Spider)
        try:
            return encode_request(request, spider)
        except NotStorableError as error:
            self.warn_of_unstorable(error)
            return None

    def warn_of_unstorable(self, error: NotStorableError) -> None:
        """Count a request that cannot be stored, and warn of the first one."""
        assert self.crawler.stats is not None
        self.crawler.stats.inc_value("recrawl/requests_not_stored")
        if not self._is_warned_of_unstorable:
            self._is_warned_of_unstorable = True
            logger.warning(
                "recrawl cannot store a request: %s.  The page that yields it is fetched in every "
                "crawl.  Use methods of the spider as callbacks, and plain values in meta and "
                "cb_kwargs.",
                error,
            )

    # ------------------------------------------------------------------ answers

    @property
    def reporter(self) -> Reporter:
        """The thread that reports answers."""
        assert self._reporter is not None
        return self._reporter

    @property
    def reads_bodies(self) -> bool:
        """Whether the corpus compares the text of pages."""
        return self.corpus is not None and self.corpus.config.content.enabled

    def now_ms(self) -> int:
        """Return the time of the corpus."""
        assert self.corpus is not None
        return self.corpus.now_ms()

    def take_fetch(self, request: Request) -> PageFetch | None:
        """Return the fetch that ends with an answer to a request; None if there is none."""
        return self.in_flight.pop(request.meta.get(FETCH_KEY, 0), None)

    def fail(self, request: Request) -> None:
        """Report that a request has led nowhere, if it belongs to a fetch."""
        fetch = self.take_fetch(request)
        if fetch is not None and self.is_open:
            self.reporter.report(fetch, fetch.failure(self.now_ms()))

    def fail_all(self) -> None:
        """Report that all fetches under way have led nowhere."""
        while self.in_flight:
            _, fetch = self.in_flight.popitem()
            self.reporter.report(fetch, fetch.failure(self.now_ms()))

    def release(self, fetch: PageFetch) -> None:
        """Give back the order of a page that was not fetched."""
        if fetch.handle and self.is_open:
            self.reporter.release([fetch.handle])

    def finish(self, number: int) -> None:
        """Note that the callback of a page has ended and its items have been processed."""
        fetch = self.in_callback.pop(number, None)
        if fetch is not None and self.is_open:
            self.reporter.finish(FinishedPage(fetch.url, fetch.request, fetch.follow_ups))

    def note_item(self, item: Any, news: PageNews) -> None:
        """Remember the news of the page that an item comes from."""
        if self.notes_items:
            # The item is kept, so that no other one gets its id.
            self._item_news[id(item)] = item, news
            if len(self._item_news) > _ITEMS_MAX:
                self._item_news.popitem(last=False)

    def take_item_news(self, item: Any) -> PageNews | None:
        """Return the news of the page that an item comes from; None if they are not known."""
        found = self._item_news.pop(id(item), None)
        return None if found is None else found[1]

    def has_fetched(self, url: str) -> bool:
        """Return whether this crawl has fetched a page, given by canonical URL."""
        return hash(url) in self._fetched

    @property
    def n_pages(self) -> int:
        """Number of pages in the corpus."""
        return 0 if self.corpus is None else self.corpus.n_pages


@cache
def _spare_loaded_objects() -> None:
    """Let the garbage collector pass over what is loaded now, once in a process.

    The libraries of recrawl have two hundred thousand objects that live as long as the process.  To
    visit them again and again would take a sixth of the time of a crawl.
    """
    gc.collect()
    gc.freeze()


def _callback_name(request: Request) -> str:
    # The same few texts for all requests, so that they take no memory.
    return sys.intern(getattr(request.callback, "__name__", "") or "")


def loop_caller() -> Callable[[Callable[[], None]], None]:
    """Return a function that calls another one in the thread of this event loop."""
    if is_asyncio_available():
        loop = asyncio.get_running_loop()

        def call(function: Callable[[], None]) -> None:
            # A crawl that was interrupted twice has no loop any more.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(function)

        return call
    from twisted.internet import reactor  # noqa: PLC0415 - importing it installs it

    call_from_thread: Callable[[Callable[[], None]], None] = reactor.callFromThread
    return call_from_thread
