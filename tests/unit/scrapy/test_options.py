"""The add-on beside other features of Scrapy: it works with them, or warns clearly."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.scrapy.crawls import Crawl

# Folders with other versions of Scrapy, such as "2.14=/tmp/scrapy-2.14:2.16=/tmp/scrapy-2.16".
LIBRARIES = dict(
    one.split("=", 1) for one in os.environ.get("RECRAWL_TEST_SCRAPY", "").split(":") if one
)
VERSIONS = ("2.14", "2.16", "2.18")


@pytest.mark.parametrize("version", VERSIONS)
def test_results_are_equal_on_older_versions(crawl: Crawl, version: str) -> None:
    if version not in LIBRARIES:
        assert not os.environ.get("CI"), "RECRAWL_TEST_SCRAPY must name the other versions in CI"
        pytest.skip("RECRAWL_TEST_SCRAPY does not name this version")
    crawl.library = LIBRARIES[version]
    first = crawl.run()
    assert first.version.startswith(version)
    assert len(first.items) == 30
    assert crawl.site.take_paths().total() == 33
    crawl.site.version["/page/7"] = 1
    second = crawl.run()
    assert second.stat("recrawl/dropped") == 33
    assert not crawl.site.requests
    later = crawl.run(days=30)
    assert [item["transition"] for item in later.items] == ["changed"]
    assert later.stat("recrawl/unchanged") == 32
    refreshed = crawl.run("DuePagesSpider", days=60, RECRAWL_MODE="refresh")
    assert refreshed.stat("recrawl/unchanged") == 33


def test_without_a_reactor(crawl: Crawl) -> None:
    first = crawl.run(TWISTED_REACTOR_ENABLED=False)
    assert len(first.items) == 30
    assert crawl.run(TWISTED_REACTOR_ENABLED=False).stat("recrawl/dropped") == 33
    later = crawl.run(TWISTED_REACTOR_ENABLED=False, days=30)
    assert later.stat("recrawl/unchanged") == 33


def test_answers_of_the_http_cache_are_no_observations(crawl: Crawl, tmp_path: Path) -> None:
    options: dict[str, Any] = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(tmp_path / "cache")}
    first = crawl.run(**options)
    assert len(first.items) == 30
    later = crawl.run(days=30, **options)
    assert later.stat("httpcache/hit") == 33
    assert later.stat("recrawl/fetched") == 0
    crawl.site.take_paths()
    # Nothing was learned, so everything is still due.
    assert crawl.run(days=30).stat("recrawl/fetched") == 33


def test_the_cache_is_warned_of(crawl: Crawl, tmp_path: Path) -> None:
    policy = "scrapy.extensions.httpcache.RFC2616Policy"
    process = crawl.start(
        HTTPCACHE_ENABLED=True, HTTPCACHE_DIR=str(tmp_path / "cache"), HTTPCACHE_POLICY=policy
    )
    output, _ = process.communicate(timeout=120)
    assert "HTTPCACHE_POLICY is RFC2616Policy" in output


def test_with_automatic_throttling(crawl: Crawl) -> None:
    options: dict[str, Any] = {"AUTOTHROTTLE_ENABLED": True, "AUTOTHROTTLE_START_DELAY": 0.01}
    assert len(crawl.run(**options).items) == 30
    assert crawl.run(**options).stat("recrawl/dropped") == 33


def test_a_job_directory_keeps_requests_that_were_not_sent(crawl: Crawl, tmp_path: Path) -> None:
    options: dict[str, Any] = {"JOBDIR": str(tmp_path / "job"), "DOWNLOAD_DELAY": 0.1}
    process = crawl.start(**options)
    deadline = time.monotonic() + 60
    while len(crawl.site.requests) < 8 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=120)
    n_first = crawl.site.paths().total()
    assert 8 <= n_first < 33, output
    rest = crawl.run(**options | {"DOWNLOAD_DELAY": 0})
    counts = crawl.site.take_paths()
    assert counts.total() == 33
    assert set(counts.values()) == {1}
    assert rest.stat("finish_reason") == "finished"
    assert crawl.run().stat("recrawl/dropped") == 33


def test_with_scrapy_poet(crawl: Crawl) -> None:
    addons = {"scrapy_poet.Addon": 300}
    first = crawl.run(ADDONS=addons)
    assert len(first.items) == 30
    assert crawl.run(ADDONS=addons).stat("recrawl/dropped") == 33
    assert crawl.run(ADDONS=addons, days=30).stat("recrawl/unchanged") == 33


def test_an_export_that_would_be_replaced_is_warned_of(crawl: Crawl, tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    feeds = {str(path): {"format": "jsonlines", "overwrite": True}}
    first = crawl.run(FEEDS=feeds)
    assert not any("replaces one that may have more" in line for line in first.messages)
    second = crawl.run(FEEDS=feeds)
    assert any("replaces one that may have more" in line for line in second.messages)


def test_items_say_what_changed_and_unchanged_ones_are_dropped(
    crawl: Crawl, tmp_path: Path
) -> None:
    crawl.site.has_etags = False
    changes = tmp_path / "changes.jsonl"
    options: dict[str, Any] = {
        "RECRAWL_CONTENT": True,
        "RECRAWL_KEEP_TEXT": True,
        "RECRAWL_ITEM_FIELD": "change",
        "RECRAWL_CHANGES": str(changes),
        "ITEM_PIPELINES": {"recrawl.scrapy.DropUnchanged": 0},
    }
    first = crawl.run(**options)
    assert {item["change"]["transition"] for item in first.items} == {"new"}
    crawl.site.version["/page/7"] = 1
    later = crawl.run(days=30, **options)
    assert crawl.site.take_paths().total() == 66
    (item,) = later.items
    assert item["change"]["transition"] == "changed"
    assert item["change"]["added_text"] == ["Page 7 says something of its own in version 1."]
    assert len(item["change"]["removed"]) == 1
    assert later.stat("item_dropped_count") == 29
    lines = [json.loads(line) for line in changes.read_text().splitlines()]
    assert [line["transition"] for line in lines] == ["new"] * 33 + ["changed"]
    assert lines[-1]["url"].endswith("/page/7")
