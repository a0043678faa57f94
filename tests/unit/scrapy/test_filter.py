"""Filter mode: pages that are not worth fetching yet are dropped, and all else is reached."""

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import recrawl
from tests.unit.scrapy.crawls import Crawl, Handler, Site, serve_site


def test_a_second_crawl_at_once_fetches_nothing_and_reaches_everything(crawl: Crawl) -> None:
    plain = crawl.run(with_addon=False)
    assert len(plain.items) == 30
    crawl.site.requests.clear()
    first = crawl.run()
    key = lambda item: item["url"]  # noqa: E731
    same = [{**item, "transition": None} for item in sorted(first.items, key=key)]
    assert same == sorted(plain.items, key=key)
    assert {item["transition"] for item in first.items} == {"new"}
    assert crawl.site.take_paths().total() == 33
    second = crawl.run()
    assert second.items == []
    assert not crawl.site.requests
    assert second.stat("recrawl/dropped") == 33
    assert second.stat("recrawl/dropped/not_yet") == 33
    assert second.stat("downloader/request_count") == 0
    (summary,) = (line for line in second.messages if "recrawl: fetched" in line)
    assert "dropped 33 requests for pages not worth fetching yet (100 % saved)" in summary


def test_responses_need_not_wait_for_their_report(crawl: Crawl) -> None:
    first = crawl.run(RECRAWL_NEWS=False)
    assert len(first.items) == 30
    assert first.stat("recrawl/new") == 33
    assert {item["transition"] for item in first.items} == {None}
    crawl.site.take_paths()
    assert crawl.run(RECRAWL_NEWS=False).stat("recrawl/dropped") == 33
    assert not crawl.site.requests
    later = crawl.run(RECRAWL_NEWS=False, days=30)
    assert later.stat("recrawl/unchanged") == 33
    assert later.items == []


def test_pages_behind_unchanged_listings_are_fetched_when_they_are_due(crawl: Crawl) -> None:
    crawl.run()
    crawl.site.take_paths()
    crawl.site.version["/page/7"] = 1
    later = crawl.run(days=30)
    assert len(later.items) == 1
    assert later.items[0]["url"].endswith("/page/7")
    assert later.items[0]["transition"] == "changed"
    assert later.items[0]["label"] == "Page 7"
    assert later.items[0]["from"].endswith("/list/0")
    assert crawl.site.take_paths().total() == 33  # all with validators
    assert later.stat("downloader/response_status_count/304") == 32
    assert later.stat("recrawl/unchanged") == 32


def test_a_new_page_of_a_changed_listing_is_found(crawl: Crawl) -> None:
    crawl.site.n_listings = 1
    crawl.run()
    crawl.site.n_pages = 12
    crawl.site.version["/list/0"] = 1
    crawl.site.take_paths()
    later = crawl.run(days=8)
    assert {item["label"] for item in later.items if item["transition"] == "new"} == {
        "Page 10",
        "Page 11",
    }


def test_pagination_of_many_pages_is_reached_without_recursion(tmp_path: Path) -> None:
    with serve_site(Site(n_listings=300, n_pages=1)) as site:
        crawl = Crawl(site, tmp_path)
        crawl.run()
        site.take_paths()
        assert crawl.run().stat("recrawl/dropped") == 600
        assert not site.requests


def test_unchanged_pages_can_have_a_callback(crawl: Crawl) -> None:
    crawl.run()
    crawl.site.take_paths()
    later = crawl.run("CallbackSpider", RECRAWL_UNCHANGED="callback")
    assert not crawl.site.requests
    assert len(later.items) == 33
    assert all(item["unchanged"] for item in later.items)
    # "Not modified" answers count as unchanged, too.
    later = crawl.run("CallbackSpider", days=30, RECRAWL_UNCHANGED="callback")
    assert crawl.site.take_paths().total() == 33
    assert len(later.items) == 33


def test_requests_that_cannot_be_stored_keep_their_page_fetched(crawl: Crawl) -> None:
    first = crawl.run("LambdaSpider")
    assert len(first.items) == 10
    assert any("cannot store a request" in line for line in first.messages)
    crawl.site.take_paths()
    second = crawl.run("LambdaSpider")
    assert crawl.site.take_paths() == {"/list/0": 1}
    assert second.stat("recrawl/dropped") == 10


def test_copied_meta_does_not_confuse_pages(crawl: Crawl) -> None:
    first = crawl.run("MetaSpider")
    assert len(first.items) == 33
    assert crawl.site.take_paths().total() == 33
    crawl.run("MetaSpider")
    assert not crawl.site.requests


def test_pages_whose_callback_failed_are_fetched_again(crawl: Crawl) -> None:
    crawl.site.n_listings = 1
    crawl.run("SlowSpider")
    crawl.site.take_paths()
    again = crawl.run()
    assert crawl.site.take_paths().total() == 10
    assert {item["transition"] for item in again.items} == {"new"}
    crawl.run()
    assert not crawl.site.requests


def test_a_listing_whose_callbacks_were_renamed_is_fetched_again(crawl: Crawl) -> None:
    crawl.site.n_listings = 1
    crawl.run()
    crawl.site.take_paths()
    again = crawl.run("RenamedSpider")
    assert crawl.site.take_paths() == {"/list/0": 1}
    assert any("a stored request cannot be read" in line for line in again.messages)
    assert again.stat("recrawl/dropped") == 10


def test_a_page_whose_item_was_lost_in_a_pipeline_is_fetched_again(crawl: Crawl) -> None:
    pipelines: dict[str, Any] = {"ITEM_PIPELINES": {"__main__.BrokenPipeline": 1}}
    assert len(crawl.run(**pipelines).items) == 29
    crawl.site.take_paths()
    again = crawl.run()
    assert crawl.site.take_paths() == {"/page/3": 1}
    assert [item["transition"] for item in again.items] == ["new"]


def test_a_second_process_crawls_without_recrawl(crawl: Crawl) -> None:
    crawl.run()
    crawl.site.take_paths()
    with recrawl.open(crawl.folder / "corpus"):
        second = crawl.run()
    assert len(second.items) == 30
    assert crawl.site.take_paths().total() == 33
    (line,) = (line for line in second.messages if line.startswith("WARNING"))
    assert "recrawl is not used in this crawl: another process has the corpus" in line


def test_other_requests_are_left_alone(crawl: Crawl) -> None:
    crawl.run()
    crawl.site.take_paths()
    crawl.run(RECRAWL_ENABLED=False)
    assert crawl.site.take_paths().total() == 33


def test_redirects_and_errors_count_for_the_requested_page(crawl: Crawl) -> None:
    def move(request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": "/page/100"})

    def fail(request: web.Request) -> web.StreamResponse:
        return web.Response(status=500)

    crawl.site.others |= {"/page/1": move, "/page/2": fail}
    first = crawl.run(RETRY_TIMES=1)
    assert {item["url"].rpartition("/")[2] for item in first.items} >= {"0", "100"}
    assert len(first.items) == 29
    assert first.stat("recrawl/new") == 32
    assert crawl.site.take_paths()["/page/2"] == 2
    second = crawl.run()
    assert not crawl.site.requests
    assert second.stat("recrawl/dropped/backing_off") == 1
    later = crawl.run(days=30)
    sent = dict(crawl.site.requests)
    assert "If-None-Match" not in sent["/page/100"]
    assert "If-None-Match" not in sent["/page/1"]
    assert len(later.items) == 1  # the redirected page, whose target's validators are its own


def test_redirects_that_lead_nowhere_fail_and_hold_up_nothing(crawl: Crawl) -> None:
    def move_to(path: str) -> Handler:
        return lambda _: web.Response(status=302, headers={"Location": path})

    loops = {"/page/1": "/page/1", "/page/2": "/hop/0", "/hop/0": "/hop/1", "/hop/1": "/hop/2"}
    crawl.site.others |= {path: move_to(target) for path, target in loops.items()}
    options: dict[str, Any] = {"REDIRECT_MAX_TIMES": 2}
    # One page stays open, which the second crawl fetches when nothing else is left.
    pipelines: dict[str, Any] = {"ITEM_PIPELINES": {"__main__.BrokenPipeline": 1}}
    first = crawl.run(**options | pipelines)
    assert first.stat("recrawl/failed") == 2
    assert len(first.items) == 27
    crawl.site.take_paths()
    second = crawl.run(**options)
    assert crawl.site.take_paths() == {"/page/3": 1}
    assert second.stat("recrawl/dropped/backing_off") == 2
    later = crawl.run(days=30, **options | pipelines)
    assert later.stat("recrawl/failed") == 2
    crawl.run(days=31, **options)


def test_an_unknown_setting_is_refused(crawl: Crawl) -> None:
    process = crawl.start(RECRAWL_BUGDET="5/run")
    output, _ = process.communicate(timeout=60)
    assert "RECRAWL_BUGDET is not a setting of recrawl" in output


def test_new_pages_are_fetched_whatever_the_price(crawl: Crawl) -> None:
    assert len(crawl.run(RECRAWL_PRICE="520w").items) == 30
    crawl.site.take_paths()
    assert crawl.run(RECRAWL_PRICE="520w", days=30).stat("recrawl/dropped") == 33


@pytest.mark.parametrize("budget", ["10/run", "10/day"])
def test_a_budget_limits_fetches(crawl: Crawl, budget: str) -> None:
    done = crawl.run(RECRAWL_BUDGET=budget, paths=("/list/0", "/list/1", "/list/2"))
    assert crawl.site.take_paths().total() == 10
    assert done.stat("recrawl/fetched") == 10
