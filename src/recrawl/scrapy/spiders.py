"""A ready spider that keeps the pages of a corpus fresh: ``scrapy crawl refresh``."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response, TextResponse

from recrawl.content import observe

__all__ = ["RefreshSpider"]


class RefreshSpider(Spider):
    """Fetches the pages that are due, and yields an item for each.

    Parameters
    ----------
    urls
        URLs to add to the corpus, separated by spaces or commas; ``-a urls=…``.
    """

    name = "refresh"
    custom_settings = {"RECRAWL_MODE": "refresh", "RECRAWL_NEWS": True}  # noqa: RUF012 - as Scrapy declares it

    def __init__(self, urls: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_urls = urls.replace(",", " ").split()

    async def start(self) -> AsyncIterator[Request]:
        """Yield a request for each URL that was given."""
        for url in self.start_urls:
            yield Request(url)

    def parse(self, response: Response, **kwargs: Any) -> Iterator[dict[str, Any]]:
        """Yield what is known of a page: URL, title, text and change."""
        del kwargs
        item: dict[str, Any] = {"url": response.url, "status": response.status}
        if isinstance(response, TextResponse):
            content_type = response.headers.get(b"Content-Type") or b""
            seen = observe(
                response.body, content_type.decode("latin-1"), response.url, with_texts=True
            )
            item |= {"title": seen.title, "text": "\n".join(seen.texts or ())}
        yield item | response.meta.get("recrawl", {})
