"""A downloader middleware that reports each answer to the corpus.

It stands where retries and redirects have been dealt with and bodies are unpacked, so that it sees
one answer for each page.  "Not modified" answers never reach a callback; here they are seen.
"""

from collections.abc import AsyncIterator, Callable
from inspect import isasyncgen, isawaitable
from typing import TYPE_CHECKING, Any, Final, Self

from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.misc import arg_to_iter
from twisted.internet.defer import Deferred
from xxhash import xxh3_128_digest

from recrawl.corpus import Outcome
from recrawl.scrapy.crawl_corpus import FETCH_KEY, CrawlCorpus
from recrawl.scrapy.politeness.robots import DisallowedByRobots
from recrawl.scrapy.reporter import PageFetch, PageNews
from recrawl.scrapy.scheduler import DROPPED_KEY
from recrawl.signals.headers import parse_retry_after

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

__all__ = ["ObserverMiddleware"]

_NOT_MODIFIED: Final = 304
_CONDITIONS: Final = (b"If-None-Match", b"If-Modified-Since")


class ObserverMiddleware:
    """Sends validators, and reports what each fetch found.

    Parameters
    ----------
    crawler
        Crawler of Scrapy.
    """

    def __init__(self, crawler: "Crawler") -> None:
        self._crawler = crawler
        self._crawl = CrawlCorpus.of(crawler)

    @classmethod
    def from_crawler(cls, crawler: "Crawler") -> Self:
        """Return the middleware of a crawler."""
        return cls(crawler)

    def process_request(self, request: Request) -> Response | None:
        """Add the validators of the copy; answer a dropped request without sending it."""
        crawl = self._crawl
        if not crawl.is_open:
            return None
        if DROPPED_KEY in request.meta:
            return Response(request.url, status=_NOT_MODIFIED, flags=["recrawl"], request=request)
        fetch = crawl.in_flight.get(request.meta.get(FETCH_KEY, 0))
        if fetch is None:
            return None
        fetch.started_at_ms = crawl.now_ms()
        has_moved = bool(request.meta.get("redirect_urls"))
        if has_moved and fetch.was_conditional:
            # Validators belong to the URL that sent them.
            for name in _CONDITIONS:
                request.headers.pop(name, None)
            fetch.was_conditional = False
        elif not has_moved and not any(name in request.headers for name in _CONDITIONS):
            for name, value in zip(_CONDITIONS, (fetch.etag, fetch.last_modified), strict=True):
                if value is not None:
                    request.headers[name] = value
                    fetch.was_conditional = True
        return None

    async def process_response(self, request: Request, response: Response) -> Response:
        """Report an answer, and add what it changed to ``response.meta["recrawl"]``."""
        crawl = self._crawl
        if DROPPED_KEY in request.meta:
            follow_ups = request.meta.pop(DROPPED_KEY)
            return self._answer_unchanged(request, response, follow_ups)
        number = request.meta.get(FETCH_KEY, 0)
        fetch = crawl.take_fetch(request)
        if fetch is None or not crawl.is_open:
            return response
        if "cached" in response.flags:
            # Scrapy's HTTP cache answered: nobody asked the site.
            self._crawl.release(fetch)
            return response
        outcome = _outcome_of(fetch, request, response, reads_body=crawl.reads_bodies)
        news = await self._report(fetch, outcome)
        if news is not None:
            request.meta["recrawl"] = news.as_dict()
        if response.status == _NOT_MODIFIED and fetch.was_conditional:
            return self._answer_unchanged(request, response, fetch.follow_ups)
        if 200 <= response.status < 300:
            fetch.news = news
            crawl.in_callback[number] = fetch
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Report that there was no answer."""
        fetch = self._crawl.take_fetch(request)
        if fetch is None or not self._crawl.is_open:
            return
        is_disallowed = isinstance(exception, DisallowedByRobots)
        if isinstance(exception, IgnoreRequest) and not is_disallowed:
            self._crawl.release(fetch)
            return
        outcome = fetch.failure(self._crawl.now_ms(), is_disallowed=is_disallowed)
        self._crawl.reporter.report(fetch, outcome)

    async def _report(self, fetch: PageFetch, outcome: Outcome) -> PageNews | None:
        """Report an answer; return what changed if items are to say so, else None."""
        reporter = self._crawl.reporter
        if not (reporter.is_awaited or reporter.is_behind):
            reporter.report(fetch, outcome)
            return None
        done: Deferred[PageNews | None] = Deferred()
        reporter.report(fetch, outcome, done.callback)
        news = await maybe_deferred_to_future(done)
        return news if reporter.is_awaited else None

    def _answer_unchanged(
        self, request: Request, response: Response, follow_ups: list[str] | None
    ) -> Response:
        """Return a response whose callback issues the requests that the page led to before."""
        callback = self._unchanged_callback(request, follow_ups or [])
        meta = {**request.meta, "handle_httpstatus_all": True}
        response.request = request.replace(callback=callback, cb_kwargs={}, errback=None, meta=meta)
        return response

    def _unchanged_callback(
        self, request: Request, follow_ups: list[str]
    ) -> Callable[[Response], AsyncIterator[Any]]:
        spider, crawl = self._crawler.spider, self._crawl
        assert spider is not None
        parse = None
        if crawl.settings.unchanged == "callback":
            parse = getattr(spider, "parse_unchanged", None)

        async def answer_unchanged(response: Response) -> AsyncIterator[Any]:
            del response
            crawl.counts.reissued += len(follow_ups)
            for again in crawl.decode(follow_ups) or ():
                yield again
            if parse is None:
                return
            found = parse(request.url, dict(request.meta))
            if isawaitable(found):
                found = await found
            if isasyncgen(found):
                async for one in found:
                    yield one
            else:
                for one in arg_to_iter(found):
                    yield one

        return answer_unchanged


def _outcome_of(
    fetch: PageFetch, request: Request, response: Response, *, reads_body: bool
) -> Outcome:
    """Return the outcome; whatever happened counts for the page that was asked for."""
    headers = response.headers
    is_found = 200 <= response.status < 300
    status = response.status
    if status == _NOT_MODIFIED and not any(name in request.headers for name in _CONDITIONS):
        status = 0  # nobody asked whether the page was modified
    elif 300 <= status < 400 and status != _NOT_MODIFIED:
        status = 0  # a redirect that was not followed names no target
    content_type = headers.get(b"Content-Type")
    etag, last_modified, asked = headers.get(b"ETag"), headers.get(b"Last-Modified"), None
    if request.meta.get("redirect_urls"):
        # Validators of another URL would be sent to this one next time; its delay is its own.
        etag = last_modified = None
    else:
        if status == _NOT_MODIFIED:
            # The answer may lack validators that still hold.
            etag, last_modified = etag or fetch.etag, last_modified or fetch.last_modified
        if text := headers.get(b"Retry-After"):
            asked = parse_retry_after(text.decode("latin-1"), now_ms=fetch.started_at_ms)
    return Outcome(
        handle=fetch.handle,
        url=None if fetch.handle else fetch.url,
        status=status,
        body=response.body if is_found and reads_body else None,
        # Without its text, a body is compared by its bytes, and need not be kept until then.
        digest=xxh3_128_digest(response.body) if is_found and not reads_body else None,
        content_type=None if content_type is None else content_type.decode("latin-1"),
        etag=etag,
        last_modified=last_modified,
        fetched_at_ms=fetch.started_at_ms,
        retry_after_seconds=asked or 0.0,
    )
