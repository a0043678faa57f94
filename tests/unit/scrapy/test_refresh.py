"""Refresh mode: recrawl chooses the pages, and the spider's requests only add pages."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from aiohttp import web

import recrawl
from tests.unit.scrapy.crawls import Crawl


def test_the_users_spider_gets_the_pages_that_are_due(crawl: Crawl) -> None:
    first = crawl.run("DuePagesSpider", RECRAWL_MODE="refresh")
    assert len(first.items) == 30
    assert {item["news"]["transition"] for item in first.items} == {"new"}
    assert set(crawl.site.take_paths().values()) == {1}
    crawl.run("DuePagesSpider", RECRAWL_MODE="refresh")
    assert not crawl.site.requests
    crawl.site.version["/page/3"] = 1
    later = crawl.run("DuePagesSpider", RECRAWL_MODE="refresh", days=30)
    (item,) = later.items
    assert item["url"].endswith("/page/3")
    assert item["label"] == "x"
    assert item["news"]["transition"] == "changed"
    assert item["news"]["previous_at_ms"] > 0


def test_a_crawl_ends_when_the_budget_of_the_run_is_spent(crawl: Crawl) -> None:
    done = crawl.run("DuePagesSpider", RECRAWL_MODE="refresh", RECRAWL_BUDGET="7/run")
    assert crawl.site.take_paths().total() == 7
    assert done.stat("recrawl/fetched") == 7
    done = crawl.run("DuePagesSpider", RECRAWL_MODE="refresh", RECRAWL_BUDGET="7/run")
    assert done.stat("recrawl/fetched") == 0
    next_run: dict[str, Any] = {"RECRAWL_BUDGET": "7/run", "RECRAWL_RUN": "another"}
    done = crawl.run("DuePagesSpider", RECRAWL_MODE="refresh", **next_run)
    assert done.stat("recrawl/fetched") == 7
    assert crawl.site.take_paths().total() == 7


def test_pages_of_a_corpus_with_its_own_configuration(crawl: Crawl, tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    text = '[budget]\nrate = "5/run"\n[politeness]\ndelay = 0.05\n'
    (folder / "recrawl.toml").write_text(text)
    with recrawl.open(folder) as corpus:
        corpus.add([f"{crawl.site.url}/page/{i}" for i in range(20)])
    done = crawl.run("DuePagesSpider", RECRAWL_MODE="refresh", paths=())
    # Without a stored request, a page goes to the callback `parse`, which this spider lacks.
    assert done.stat("recrawl/fetched") == 5
    assert crawl.site.take_paths().total() == 5


def test_a_crawl_fetches_a_page_once_however_short_its_longest_interval(crawl: Crawl) -> None:
    crawl.run("DuePagesSpider", RECRAWL_MODE="refresh", RECRAWL_MAX_AGE="1s")
    assert crawl.site.take_paths().total() == 33
    crawl.run("DuePagesSpider", RECRAWL_MODE="refresh", RECRAWL_MAX_AGE="1s", days=1)
    assert crawl.site.take_paths().total() == 33


def test_pages_that_are_due_again_hide_no_others(crawl: Crawl) -> None:
    site = crawl.site
    answered = site.answer

    def answer_late(request: web.Request) -> web.StreamResponse:
        # The pages fetched before a listing are due again when it adds others.
        time.sleep(1.2 if request.path.startswith("/list") else 0.0)
        return answered(request)

    site.answer = answer_late  # type: ignore[method-assign]
    # Fewer requests at once than pages that are due again, so that one lease cannot hold them all.
    options = {"RECRAWL_MAX_AGE": "1s", "CONCURRENT_REQUESTS": 4, "RECRAWL_LEASE": "3s"}
    crawl.run("DuePagesSpider", RECRAWL_MODE="refresh", **options)
    assert site.take_paths() == Counter(
        [f"/list/{k}" for k in range(3)] + [f"/page/{i}" for i in range(30)]
    )


def test_the_ready_spider_is_known_to_a_project(crawl: Crawl, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "scrapy.cfg").write_text("[settings]\ndefault = shop_settings\n")
    (project / "shop_settings.py").write_text(
        'ADDONS = {"recrawl.scrapy.Addon": 500}\nSPIDER_MODULES = []\nBOT_NAME = "shop"\n'
        "TELNETCONSOLE_ENABLED = False\nREMOTE_CONTROL_ENABLED = False\n"
    )
    urls = ",".join(f"{crawl.site.url}/page/{i}" for i in range(3))
    command = ["crawl", "refresh", "-a", f"urls={urls}", "-o", "pages.jsonl"]
    environment = dict(os.environ, RECRAWL_KERNELS="interpreted")
    done = subprocess.run(
        [sys.executable, "-m", "scrapy", *command],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    assert "recrawl: fetched 3 pages (3 new)" in done.stderr
    items = [json.loads(line) for line in (project / "pages.jsonl").read_text().splitlines()]
    assert len(items) == 3
    assert {item["transition"] for item in items} == {"new"}
    assert all("says something of its own" in item["text"] for item in items)
    assert (project / ".scrapy" / "recrawl" / "refresh" / "FORMAT").exists()
