"""A small shop for Scrapy: listings lead to item pages, which change at known instants.

A download handler answers requests from memory, so that nothing but Scrapy and the add-on takes
time.  Half of the pages have an ``ETag``.
"""

import asyncio
import time
from bisect import bisect_right
from math import ceil
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit
from zlib import crc32

import numpy as np
from scrapy.http import HtmlResponse

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

__all__ = ["ROOT_URL", "SITE_KEY", "DayClock", "ShopSite", "SiteHandler"]

ROOT_URL: Final = "http://shop.example/"
SITE_KEY: Final = "BENCHMARK_SITE"
"""Setting of Scrapy that holds the `ShopSite` of a crawl."""
START_MS: Final = 1_767_225_600_000
DAY_MS: Final = 86_400_000
_LINKS_PER_LISTING: Final = 100
_N_CATEGORIES: Final = 10
# Mean times between two changes of item pages, in days.
_PERIOD_MEDIAN: Final = 15.0
_PERIOD_SIGMA: Final = 1.5
_PERIOD_MIN: Final = 0.5
_PERIOD_MAX: Final = 365.0
# New items per day of the slowest and of the fastest category, with 2,000 items.
_NEW_MIN: Final = 0.02
_NEW_MAX: Final = 2.0


class ShopSite:
    """The site, and the truth about it.  Times are in days.

    Parameters
    ----------
    n_items
        Number of item pages at the start.
    n_days
        Length of the history.
    seed
        Random seed.
    """

    def __init__(self, n_items: int, n_days: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.now = 0.0
        """Time of the answers."""
        self.born: list[float] = []
        """Time at which each item page appeared; 0 for those of the start."""
        self.changes: list[list[float]] = []
        """Times at which each item page changed."""
        self.n_item_requests = 0
        self.n_listing_requests = 0
        self.n_not_modified = 0
        self._categories: list[list[int]] = [[] for _ in range(_N_CATEGORIES)]
        share = n_items / 2_000
        rates = share * np.geomspace(_NEW_MIN, _NEW_MAX, _N_CATEGORIES)
        births = [(0.0, item % _N_CATEGORIES) for item in range(n_items)]
        for category, rate in enumerate(rates):
            times = rng.uniform(0, n_days, rng.poisson(rate * n_days))
            births += [(float(at), category) for at in times]
        for born, category in sorted(births):
            self._categories[category].append(len(self.born))
            self.born.append(born)
            period = _PERIOD_MEDIAN * np.exp(_PERIOD_SIGMA * rng.standard_normal())
            span = n_days - born
            n_changes = rng.poisson(span / np.clip(period, _PERIOD_MIN, _PERIOD_MAX))
            self.changes.append(sorted((born + rng.uniform(0, span, n_changes)).tolist()))

    def version(self, item: int, at: float) -> int:
        """Return the version of an item page: the number of its changes until a time."""
        return bisect_right(self.changes[item], at)

    def is_born(self, item: int) -> bool:
        """Return whether an item page exists now."""
        return self.born[item] <= self.now

    def n_pages(self, at: float) -> int:
        """Return the number of pages at a time: items, listings and the first page."""
        n_items = [sum(self.born[one] <= at for one in items) for items in self._categories]
        return 1 + sum(n_items) + sum(max(ceil(n / _LINKS_PER_LISTING), 1) for n in n_items)

    def replaced_at(self, item: int, version: int) -> float:
        """Return the time at which a version is replaced; infinity if it is the last one."""
        changes = self.changes[item]
        return changes[version] if version < len(changes) else float("inf")

    def page(self, path: str) -> str | None:
        """Return the page at a path now; None if there is none."""
        kind, *numbers = path.strip("/").split("/")
        if not kind:
            return _html("Shop", (f"/list/{one}/0" for one in range(_N_CATEGORIES)))
        if kind == "item":
            item = int(numbers[0])
            if not self.is_born(item):
                return None
            return _html(f"Item {item}: version {self.version(item, self.now)}", ())
        category, number = map(int, numbers)
        items = [one for one in reversed(self._categories[category]) if self.is_born(one)]
        first = number * _LINKS_PER_LISTING
        links = [f"/item/{one}" for one in items[first : first + _LINKS_PER_LISTING]]
        if first + _LINKS_PER_LISTING < len(items):
            links.append(f"/list/{category}/{number + 1}")
        return _html(f"Category {category}, page {number}", links)

    def answer(self, request: "Request") -> "Response":
        """Return the response to a request now."""
        path = urlsplit(request.url).path
        if path.startswith("/item/"):
            self.n_item_requests += 1
        else:
            self.n_listing_requests += 1
        text = self.page(path)
        if text is None:
            return HtmlResponse(request.url, status=404, body=b"", request=request)
        headers = {"Content-Type": "text/html; charset=utf-8"}
        if sum(path.encode()) % 2:
            headers["ETag"] = f'"{crc32(text.encode()):x}"'
            if request.headers.get("If-None-Match") == headers["ETag"].encode():
                self.n_not_modified += 1
                return HtmlResponse(request.url, status=304, headers=headers, request=request)
        return HtmlResponse(request.url, headers=headers, body=text.encode(), request=request)


def _html(title: str, links: Any) -> str:
    lines = "\n".join(f'<li><a href="{link}">{link}</a></li>' for link in links)
    return (
        f"<!doctype html><html><head><title>{title}</title></head><body><h1>{title}</h1>"
        f"<ul>{lines}</ul></body></html>"
    )


class DayClock:
    """A clock that starts at midnight of a chosen day and then runs like the real one."""

    def __init__(self) -> None:
        self.begin(0)

    def begin(self, day: int) -> None:
        """Set the clock to the beginning of a day."""
        self._start_ms = START_MS + day * DAY_MS
        self._began = time.monotonic()

    def wall_ms(self) -> int:
        """Return milliseconds since 1970."""
        return self._start_ms + round(1_000 * (time.monotonic() - self._began))

    def running_ms(self) -> int:
        """Return milliseconds that never decrease."""
        return self.wall_ms()

    def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        time.sleep(seconds)


class SiteHandler:
    """A download handler of Scrapy that asks the site in the settings.

    Parameters
    ----------
    site
        The site.
    """

    lazy = False

    def __init__(self, site: ShopSite) -> None:
        self._site = site

    @classmethod
    def from_crawler(cls, crawler: "Crawler") -> Self:
        """Return the handler of a crawler."""
        return cls(crawler.settings[SITE_KEY])

    async def download_request(self, request: "Request") -> "Response":
        """Return the response to a request, after other work had its turn."""
        await asyncio.sleep(0)
        return self._site.answer(request)

    async def close(self) -> None:
        """Close nothing."""
