"""Crawl a shop with Scrapy once a day: without the add-on, as a filter, and as a scheduler.

2,000 item pages change at instants drawn from Poisson processes with mean periods from half a day
to a year (log-normal, median 15 days); new ones appear in ten categories, from 0.02 to 2 a day.
Every crawl begins at midnight of a simulated day.  The site stands still while a crawl runs, so
the plain crawl delivers exactly the versions that are current at midnight.

- ``freshness``: share of the time in which the last delivered item is the current version, over
  all item pages and the time since they appeared; a page that was never delivered is not fresh.
- ``n_versions``: versions that are current at a midnight after the first one, new pages included.
  A version that is replaced before the next midnight does not count, as no daily crawl sees it.
- ``delivered``: share of these versions that were delivered at all.  ``superseded`` were replaced
  before they were fetched, ``outstanding`` are still current at the end and not delivered.
- ``not_within``: share of these versions that were not delivered within some days after the plain
  crawl would have done so, of those that appear early enough for this.
- ``new_pages``: how many days later than by the plain crawl new pages were delivered.
"""

import asyncio
import json
import logging
import multiprocessing
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from math import ceil, inf
from pathlib import Path
from typing import Any, Final, TypedDict

from scrapy import Request, Spider, signals
from scrapy.crawler import AsyncCrawlerRunner
from scrapy.http import Response

from benchmarks.scrapy_site import ROOT_URL, SITE_KEY, DayClock, ShopSite, SiteHandler

__all__ = ["DaysRow", "as_markdown", "measure"]

_N_AT_ONCE: Final = 128
_LATE_DAYS: Final = (0, 1, 3, 7)
_HREF: Final = re.compile(r'href="([^"]+)"')


class DaysRow(TypedDict):
    """One variant."""

    variant: str
    n_days: int
    """Days that were crawled; of the plain crawl, the others follow from the truth."""
    n_fetches: int
    n_item_fetches: int
    n_listing_fetches: int
    n_not_modified: int
    fetches_per_day_of_second_half: float
    freshness: float
    freshness_of_second_half: float
    n_items: int
    n_versions: int
    delivered: float
    superseded: float
    outstanding: float
    not_within: dict[str, float]
    new_pages: dict[str, float]
    n_errors: int
    seconds: float


class _ShopSpider(Spider):
    """Follows all listings, and yields the version of each item page."""

    name = "shop"

    async def start(self) -> AsyncIterator[Request]:
        """Yield the request for the first page."""
        yield Request(ROOT_URL, self.parse_listing)

    def parse_listing(self, response: Response) -> Iterator[Request]:
        """Yield requests for all links of a listing."""
        for link in _HREF.findall(response.text):
            is_item = link.startswith("/item/")
            yield response.follow(link, self.parse_item if is_item else self.parse_listing)

    def parse_item(self, response: Response) -> Iterator[dict[str, int]]:
        """Yield the number and version of an item."""
        words = response.text.partition("<h1>Item ")[2].partition("<")[0].split(": version ")
        yield {"item": int(words[0]), "version": int(words[1])}


class _ErrorCounter(logging.Handler):
    """Counts messages of errors, and prints the first ones."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.n = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Count a message."""
        self.n += 1
        if self.n <= 3:
            print(self.format(record), file=sys.stderr, flush=True)


_Deliveries = dict[tuple[int, int], int]
"""The day on which each version of an item was delivered first."""


def _crawl_days(
    name: str, settings: Mapping[str, Any], n_items: int, n_days: int, n_crawled: int, seed: int
) -> tuple[DaysRow, list[int]]:
    """Return what a variant did in some days, and its fetches by day."""
    site, clock, errors = ShopSite(n_items, n_days, seed), DayClock(), _ErrorCounter()
    logging.getLogger().addHandler(errors)
    delivered: _Deliveries = {}
    n_delivered = 0
    fetches: list[int] = []

    async def crawl_all() -> None:
        for day in range(n_crawled):

            def note(item: dict[str, int], day: int = day) -> None:
                nonlocal n_delivered
                n_delivered += 1
                delivered.setdefault((item["item"], item["version"]), day)

            clock.begin(day)
            site.now = float(day)
            n_before = site.n_item_requests + site.n_listing_requests
            runner = AsyncCrawlerRunner(
                {
                    "LOG_LEVEL": "ERROR",
                    "TELNETCONSOLE_ENABLED": False,
                    "TWISTED_REACTOR_ENABLED": False,
                    "ROBOTSTXT_OBEY": False,
                    # More at a time is faster; the number of fetches hardly changes (by 0.05 %).
                    "CONCURRENT_REQUESTS": _N_AT_ONCE,
                    "CONCURRENT_REQUESTS_PER_DOMAIN": _N_AT_ONCE,
                    "DOWNLOAD_HANDLERS": {"http": SiteHandler, "https": None},
                    SITE_KEY: site,
                    **({"RECRAWL_CLOCK": clock} if "ADDONS" in settings else {}),
                    **settings,
                }
            )
            crawler = runner.create_crawler(_ShopSpider)
            crawler.signals.connect(note, signal=signals.item_scraped, weak=False)
            await runner.crawl(crawler)
            fetches.append(site.n_item_requests + site.n_listing_requests - n_before)

    started = time.perf_counter()
    asyncio.run(crawl_all())
    seconds = time.perf_counter() - started
    logging.getLogger().removeHandler(errors)
    truth = _plain_deliveries(site, n_days)
    if n_crawled < n_days:
        # Only the plain crawl: check what was crawled, and take the rest from the truth.
        expected = {key: day for key, day in truth.items() if day < n_crawled}
        assert delivered == expected, "the plain crawl does not deliver what is current"
        delivered = truth
        assert fetches == [site.n_pages(day) for day in range(n_crawled)]
        fetches += [site.n_pages(day) for day in range(n_crawled, n_days)]
    row: DaysRow = {
        "variant": name,
        "n_days": n_crawled,
        "n_fetches": sum(fetches),
        "n_item_fetches": site.n_item_requests,
        "n_listing_fetches": site.n_listing_requests,
        "n_not_modified": site.n_not_modified,
        "fetches_per_day_of_second_half": round(
            sum(fetches[n_days // 2 :]) / max(n_days - n_days // 2, 1), 1
        ),
        "freshness": _freshness(site, delivered, 0, n_days),
        "freshness_of_second_half": _freshness(site, delivered, n_days // 2, n_days),
        "n_items": n_delivered,
        **_judge_versions(site, delivered, truth, n_days),  # type: ignore[typeddict-item]
        "new_pages": _judge_new_pages(site, delivered, n_days),
        "n_errors": errors.n,
        "seconds": round(seconds, 1),
    }
    return row, fetches


def _plain_deliveries(site: ShopSite, n_days: int) -> _Deliveries:
    """Return what a crawl of all pages delivers every day."""
    delivered: _Deliveries = {}
    for day in range(n_days):
        for item, born in enumerate(site.born):
            if born <= day:
                delivered.setdefault((item, site.version(item, day)), day)
    return delivered


def _freshness(site: ShopSite, delivered: _Deliveries, first: float, last: float) -> float:
    """Return the share of a time in which the last delivered version is the current one."""
    fresh = 0.0
    for (item, version), day in delivered.items():
        fresh += max(min(site.replaced_at(item, version), last) - max(day, first), 0.0)
    return round(fresh / sum(last - max(born, first) for born in site.born), 4)


def _judge_versions(
    site: ShopSite, delivered: _Deliveries, truth: _Deliveries, n_days: int
) -> dict[str, Any]:
    versions = {key: day for key, day in truth.items() if day > 0}
    n = max(len(versions), 1)
    missing = [key for key in versions if key not in delivered]
    is_current = [site.replaced_at(*key) > n_days - 1 for key in missing]
    not_within = {}
    for k in _LATE_DAYS:
        early = {key: day for key, day in versions.items() if day + k < n_days}
        n_late = sum(delivered.get(key, inf) > day + k for key, day in early.items())
        not_within[f"{k} days"] = round(n_late / max(len(early), 1), 4)
    return {
        "n_versions": len(versions),
        "delivered": round(1 - len(missing) / n, 4),
        "superseded": round((len(missing) - sum(is_current)) / n, 4),
        "outstanding": round(sum(is_current) / n, 4),
        "not_within": not_within,
    }


def _judge_new_pages(site: ShopSite, delivered: _Deliveries, n_days: int) -> dict[str, float]:
    found: dict[int, int] = {}
    for (item, _), day in delivered.items():
        found[item] = min(found.get(item, day), day)
    new = [item for item, born in enumerate(site.born) if 0 < born <= n_days - 1]
    late = [found[item] - ceil(site.born[item]) for item in new if item in found]
    return {
        "n": len(new),
        "not_found": len(new) - len(late),
        "late": sum(days > 0 for days in late),
        "late_by_more_than_3_days": sum(days > 3 for days in late),
        "mean_days": round(sum(late) / max(len(late), 1), 2),
        "max_days": max(late, default=0),
    }


def measure(
    n_items: int = 2_000,
    n_days: int = 60,
    *,
    n_plain_days: int = 5,
    prices: tuple[str, ...] = ("4h", "1h", "1d"),
    seed: int = 0,
    on_row: Callable[[DaysRow], None] = lambda _: None,
) -> list[DaysRow]:
    """Return what each variant fetched and delivered.

    Parameters
    ----------
    n_items
        Number of item pages at the start.
    n_days
        Number of days, with one crawl each.
    n_plain_days
        Number of days that the plain crawl runs; the others follow from the truth.
    prices
        Values of ``RECRAWL_PRICE``; the first one also sets the budget of the other mode.
    seed
        Random seed of the site.
    on_row
        Function to call with each row.
    """
    rows: list[DaysRow] = []
    # A process of its own: other users of Twisted may have installed a reactor in this one.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:

        def run(name: str, n_crawled: int = n_days, **settings: str) -> DaysRow:
            with tempfile.TemporaryDirectory() as scratch:
                chosen: dict[str, Any] = {}
                if settings:
                    chosen = {
                        "ADDONS": {"recrawl.scrapy.Addon": 500},
                        "RECRAWL_CORPUS": str(Path(scratch) / "corpus"),
                        "RECRAWL_CONTENT": False,
                        **settings,
                    }
                job = pool.submit(_crawl_days, name, chosen, n_items, n_days, n_crawled, seed)
                row, fetches = job.result()
            rows.append(row)
            on_row(row)
            print(json.dumps(fetches), file=sys.stderr, flush=True)
            return row

        run("plain", min(n_plain_days, n_days))
        filtered = [
            run(f"filter, price {price}", RECRAWL_MODE="filter", RECRAWL_PRICE=price)
            for price in prices
        ]
        run(
            f"refresh, price {prices[0]}",
            RECRAWL_MODE="refresh",
            RECRAWL_PRICE=prices[0],
        )
        n_per_day = ceil(filtered[0]["n_fetches"] / n_days)
        for unit in ("day", "run"):
            run(
                f"refresh, budget {n_per_day}/{unit}",
                RECRAWL_MODE="refresh",
                RECRAWL_BUDGET=f"{n_per_day}/{unit}",
            )
    return rows


def as_markdown(rows: list[DaysRow]) -> str:
    """Return the rows as a table."""
    lines = [
        "| variant | fetches | per day, second half | freshness | second half | delivered |"
        " superseded | outstanding | not within 0, 1, 3, 7 days | new pages late, > 3 days, never |"
        " mean, max days late |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        new = row["new_pages"]
        late = ", ".join(f"{share:.1%}" for share in row["not_within"].values())
        cells = [
            row["variant"],
            f"{row['n_fetches']:,}",
            f"{row['fetches_per_day_of_second_half']:,.0f}",
            f"{row['freshness']:.3f}",
            f"{row['freshness_of_second_half']:.3f}",
            f"{row['delivered']:.1%}",
            f"{row['superseded']:.1%}",
            f"{row['outstanding']:.1%}",
            late,
            f"{new['late']}, {new['late_by_more_than_3_days']}, {new['not_found']} of {new['n']}",
            f"{new['mean_days']}, {new['max_days']}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
