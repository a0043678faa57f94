"""A program that runs one crawl with the spider and settings of a test; see `crawls.Crawl`."""

import json
import logging
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import scrapy
from scrapy import signals
from scrapy.crawler import AsyncCrawlerProcess


class SiteSpider(scrapy.Spider):
    """Follows the links of a listing, and yields an item for each page."""

    name = "site"

    async def start(self) -> AsyncIterator[Any]:
        for url in self.urls:  # type: ignore[attr-defined]
            yield scrapy.Request(url, dont_filter=True)

    def parse(self, response: Any, **kwargs: Any) -> Iterator[Any]:
        for link in response.css("a.next"):
            yield response.follow(link)
        for link in response.css("li a"):
            label = link.css("::text").get()
            yield response.follow(
                link, self.parse_page, cb_kwargs={"label": label}, meta={"from": response.url}
            )

    def parse_page(self, response: Any, label: str) -> Iterator[Any]:
        yield {
            "url": response.url,
            "label": label,
            "from": response.meta["from"],
            "status": response.status,
            "transition": response.meta.get("recrawl", {}).get("transition"),
        }


class CallbackSpider(SiteSpider):
    """Yields an item for unchanged pages, too."""

    def parse_unchanged(self, url: str, meta: dict[str, Any]) -> Iterator[Any]:
        yield {"url": url, "unchanged": True}


class LambdaSpider(SiteSpider):
    """Has callbacks that cannot be stored."""

    def parse(self, response: Any, **kwargs: Any) -> Iterator[Any]:
        for link in response.css("li a"):
            yield response.follow(link, callback=lambda found: iter([{"url": found.url}]))


class MetaSpider(SiteSpider):
    """Copies the meta of responses, as many spiders do."""

    def parse(self, response: Any, **kwargs: Any) -> Iterator[Any]:
        for link in response.css("a.next, li a"):
            yield response.follow(link, self.parse, meta=dict(response.meta))
        yield {"url": response.url}


class SlowSpider(SiteSpider):
    """Never ends its callbacks for items."""

    def parse_page(self, response: Any, label: str) -> Iterator[Any]:
        yield {"url": response.url}
        raise RuntimeError("the callback fails")


class RenamedSpider(SiteSpider):
    """Has another name for a callback."""

    def parse(self, response: Any, **kwargs: Any) -> Iterator[Any]:
        for link in response.css("li a"):
            yield response.follow(link, self.parse_renamed)

    parse_page = None  # type: ignore[assignment]

    def parse_renamed(self, response: Any) -> Iterator[Any]:
        yield {"url": response.url}


class BrokenPipeline:
    """Fails for one item."""

    def process_item(self, item: Any) -> Any:
        if item["url"].endswith("/page/3"):
            raise RuntimeError("the database is down")
        return item


class DuePagesSpider(scrapy.Spider):
    """Gets its pages from recrawl alone."""

    name = "site"

    async def start(self) -> AsyncIterator[Any]:
        for url in self.urls:  # type: ignore[attr-defined]
            yield scrapy.Request(url, self.parse_start)

    def parse_start(self, response: Any) -> Iterator[Any]:
        for link in response.css("a.next"):
            yield response.follow(link, self.parse_start)
        for link in response.css("li a"):
            yield response.follow(link, self.parse_page, cb_kwargs={"label": "x"})

    def parse_page(self, response: Any, label: str) -> Iterator[Any]:
        yield {"url": response.url, "label": label, "news": response.meta["recrawl"]}


class SteppedClock:
    """The system clock, a given number of milliseconds ahead."""

    ahead_ms = 0

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms

    def running_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def main() -> None:
    """Run the crawl that the first argument describes, and write what it did to the second."""
    asked = json.loads(sys.argv[1])
    SteppedClock.ahead_ms = asked["ahead_ms"]
    messages: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(f"{record.levelname} {record.getMessage()}")

    logging.getLogger("recrawl").addHandler(Keep(logging.INFO))
    settings = {
        "LOG_LEVEL": "INFO",
        "TELNETCONSOLE_ENABLED": False,
        "REMOTE_CONTROL_ENABLED": False,
        "ROBOTSTXT_OBEY": False,
        "RECRAWL_CLOCK": SteppedClock,
        **asked["settings"],
    }
    if not asked["with_addon"]:
        settings = {k: v for k, v in settings.items() if not k.startswith("RECRAWL")}
    else:
        settings["ADDONS"] = {"recrawl.scrapy.Addon": 500, **settings.get("ADDONS", {})}
    process = AsyncCrawlerProcess(settings)
    crawler = process.create_crawler(globals()[asked["spider"]])
    items: list[Any] = []

    def keep_item(item: Any) -> None:
        items.append(dict(item))

    crawler.signals.connect(keep_item, signal=signals.item_scraped)
    process.crawl(crawler, urls=asked["urls"])
    process.start()
    assert crawler.stats is not None
    stats = {k: v for k, v in crawler.stats.get_stats().items() if isinstance(v, int | float | str)}
    done = {"items": items, "stats": stats, "messages": messages, "version": scrapy.__version__}
    Path(sys.argv[2]).write_text(json.dumps(done))


if __name__ == "__main__":
    main()
