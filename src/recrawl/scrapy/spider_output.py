"""A spider middleware that remembers which requests a page led to, and when its items are done."""

import logging
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any, Self

from itemadapter import ItemAdapter
from scrapy import Request, signals

from recrawl.scrapy.crawl_corpus import FETCH_KEY, CrawlCorpus
from recrawl.scrapy.page_store import FOLLOW_UP_CHARACTERS_MAX, FOLLOW_UPS_MAX
from recrawl.scrapy.reporter import PageFetch
from recrawl.scrapy.request_json import NotStorableError, encode_request

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response

__all__ = ["SpiderOutputMiddleware"]

logger = logging.getLogger(__name__)


class SpiderOutputMiddleware:
    """Notes what callbacks yield for each page.

    Parameters
    ----------
    crawler
        Crawler of Scrapy.
    """

    def __init__(self, crawler: "Crawler") -> None:
        self._crawler = crawler
        self._crawl = CrawlCorpus.of(crawler)
        self._is_warned_of_field = False
        for signal in (signals.item_scraped, signals.item_dropped):
            crawler.signals.connect(self._end_item, signal=signal)
        for signal in (signals.item_error, signals.spider_error):
            crawler.signals.connect(self._fail, signal=signal)

    @classmethod
    def from_crawler(cls, crawler: "Crawler") -> Self:
        """Return the middleware of a crawler."""
        return cls(crawler)

    def process_spider_output(self, response: "Response", result: Iterable[Any]) -> Iterable[Any]:
        """Pass on what a callback yields."""
        fetch = self._begin(response)
        for one in result:
            self._note(fetch, one)
            yield one
        self._end(response)

    async def process_spider_output_async(
        self, response: "Response", result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Pass on what an asynchronous callback yields."""
        fetch = self._begin(response)
        async for one in result:
            self._note(fetch, one)
            yield one
        self._end(response)

    def _begin(self, response: "Response") -> PageFetch | None:
        fetch = self._fetch_of(response)
        if fetch is not None:
            fetch.follow_ups, fetch.n_characters = [], 0
        return fetch

    def _fetch_of(self, response: "Response | None") -> PageFetch | None:
        if response is None or response.request is None or not self._crawl.is_open:
            return None
        return self._crawl.in_callback.get(response.request.meta.get(FETCH_KEY, 0))

    def _note(self, fetch: PageFetch | None, one: Any) -> None:
        if fetch is None:
            return
        if isinstance(one, Request):
            self._note_request(fetch, one)
        elif one is not None:
            fetch.n_items_open += 1
            if fetch.news is not None:
                self._crawl.note_item(one, fetch.news)
                self._fill_field(one, fetch)

    def _note_request(self, fetch: PageFetch, request: Request) -> None:
        if fetch.follow_ups is None:
            return
        spider = self._crawler.spider
        assert spider is not None
        try:
            fetch.follow_ups.append(encode_request(request, spider))
        except NotStorableError as error:
            self._crawl.warn_of_unstorable(error)
            fetch.follow_ups = None
            return
        fetch.n_characters += len(fetch.follow_ups[-1])
        if len(fetch.follow_ups) > FOLLOW_UPS_MAX or fetch.n_characters > FOLLOW_UP_CHARACTERS_MAX:
            fetch.follow_ups = None
            self._crawl.warn_of_unstorable(
                NotStorableError(f"{fetch.url} leads to more requests than recrawl stores")
            )

    def _fill_field(self, item: Any, fetch: PageFetch) -> None:
        name = self._crawl.settings.item_field
        if name is None or fetch.news is None:
            return
        try:
            ItemAdapter(item)[name] = fetch.news.as_dict()
        except (KeyError, TypeError, AttributeError) as error:
            if not self._is_warned_of_field:
                self._is_warned_of_field = True
                logger.warning(
                    "Items of type %s have no field %r (RECRAWL_ITEM_FIELD), so they do not say "
                    "what changed: %s",
                    type(item).__name__,
                    name,
                    error,
                )

    def _end(self, response: "Response") -> None:
        fetch = self._fetch_of(response)
        if fetch is not None:
            fetch.is_consumed = True
            self._finish(response, fetch)

    def _end_item(self, response: "Response | None" = None) -> None:
        fetch = self._fetch_of(response)
        if response is not None and fetch is not None:
            fetch.n_items_open -= 1
            self._finish(response, fetch)

    def _fail(self, response: "Response | None" = None) -> None:
        """Forget a page whose callback or pipeline failed; the store keeps it open."""
        if response is not None and response.request is not None:
            self._crawl.in_callback.pop(response.request.meta.get(FETCH_KEY, 0), None)

    def _finish(self, response: "Response", fetch: PageFetch) -> None:
        if fetch.is_consumed and fetch.n_items_open <= 0 and response.request is not None:
            self._crawl.finish(response.request.meta[FETCH_KEY])
