"""robots.txt as RFC 9309 says, Crawl-delay and Retry-After, alone and with the add-on."""

import itertools
import time
from typing import Any

import pytest
from aiohttp import web

from tests.unit.scrapy.crawls import Crawl

ALONE: dict[str, Any] = {
    "ROBOTSTXT_OBEY": True,
    "RETRY_ENABLED": False,
    "DOWNLOADER_MIDDLEWARES": {
        "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
        "recrawl.scrapy.RobotsMiddleware": 100,
        "recrawl.scrapy.HostDelayMiddleware": 560,
    },
}


def _answer(status: int, text: str = "") -> web.Response:
    return web.Response(status=status, text=text)


@pytest.mark.parametrize("with_addon", [True, False])
def test_an_unreachable_robots_file_disallows_everything(crawl: Crawl, with_addon: bool) -> None:
    crawl.site.others["/robots.txt"] = lambda _: _answer(500)
    done = crawl.run(with_addon=with_addon, **ALONE)
    assert not crawl.site.take_paths()
    assert done.stat("robotstxt/unreachable") == 1


def test_the_body_of_an_error_is_no_rule_and_rules_are_obeyed(crawl: Crawl) -> None:
    rules = "User-agent: *\nDisallow: /page/1"
    crawl.site.others["/robots.txt"] = lambda _: _answer(403, rules)
    assert len(crawl.run(with_addon=False, **ALONE).items) == 30
    crawl.site.others["/robots.txt"] = lambda _: _answer(200, rules)
    crawl.site.take_paths()
    done = crawl.run(ROBOTSTXT_OBEY=True)
    paths = crawl.site.take_paths()
    assert not any(path.startswith("/page/1") for path in paths)
    assert len(done.items) == 30 - 11
    again = crawl.run(ROBOTSTXT_OBEY=True, days=1)
    # A disallowed page is not asked for again the next day.
    assert again.stat("robotstxt/forbidden") == 0


def test_crawl_delay_and_retry_after_are_obeyed(crawl: Crawl) -> None:
    crawl.site.n_listings, crawl.site.n_pages = 1, 3
    instants: list[float] = []

    def note(request: web.Request) -> web.StreamResponse:
        instants.append(time.monotonic())
        if len(instants) == 2:
            return web.Response(status=429, headers={"Retry-After": "2"})
        return web.Response(text="<h1>Page</h1>", content_type="text/html")

    crawl.site.others["/robots.txt"] = lambda _: _answer(200, "User-agent: *\nCrawl-delay: 0.5")
    crawl.site.others |= {f"/page/{i}": note for i in range(3)}
    options = ALONE | {"RETRY_ENABLED": True}
    done = crawl.run(with_addon=False, **options)
    assert len(done.items) == 3
    waits = [after - before for before, after in itertools.pairwise(instants)]
    assert len(waits) == 3
    assert min(waits) > 0.45
    assert max(waits) > 1.9


def test_a_long_delay_ends_the_requests_to_a_host(crawl: Crawl) -> None:
    # The spider's requests are sent last in, first out, so this one is the second.
    crawl.site.others["/page/9"] = lambda _: web.Response(
        status=503, headers={"Retry-After": "3600"}
    )
    done = crawl.run(CONCURRENT_REQUESTS=1, RETRY_ENABLED=False)
    assert done.stat("recrawl/host_delays/retry_after") == 1
    assert crawl.site.take_paths().total() == 2
    again = crawl.run()
    # The corpus remembers it for the next crawl.
    assert not crawl.site.requests
    assert again.stat("recrawl/dropped/group_blocked") > 0
