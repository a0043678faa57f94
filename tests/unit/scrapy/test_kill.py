"""A crawl that is killed at any moment loses nothing, and the next one goes on."""

import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.unit.scrapy.crawls import Crawl, Site, serve_site

# A long run has 20: RECRAWL_TEST_KILLS=20.
N_KILLS = int(os.environ.get("RECRAWL_TEST_KILLS", "4"))
LEASE_SECONDS = 3


def test_a_crawl_that_is_killed_again_and_again_finds_every_item(tmp_path: Path) -> None:
    with serve_site(Site(n_listings=N_KILLS, n_pages=20)) as site:
        crawl = Crawl(site, tmp_path)
        out = tmp_path / "items.jsonl"
        options: dict[str, Any] = {
            "FEEDS": {str(out): {"format": "jsonlines"}},
            "RECRAWL_LEASE": f"{LEASE_SECONDS}s",
            "DOWNLOAD_DELAY": 0.03,
        }
        n_before = 0
        for kill in range(N_KILLS):
            process = crawl.start(**options)
            deadline = time.monotonic() + 60
            while (
                len(site.requests) < n_before + 4 + 5 * (kill % 4) and time.monotonic() < deadline
            ):
                time.sleep(0.005)
            process.kill()
            process.communicate(timeout=60)
            n_before = len(site.requests)
        last = crawl.run(**options | {"DOWNLOAD_DELAY": 0})
        assert last.stat("finish_reason") == "finished"
        counts = site.take_paths()
        assert len(counts) == site.n_all
        # Only pages whose items may not have been processed are fetched again: those under way.
        again = Counter({path: n - 1 for path, n in counts.items() if n > 1})
        assert again.total() <= N_KILLS * 16
        assert crawl.run().stat("recrawl/dropped") == site.n_all
        assert not site.requests


def test_a_crawl_that_is_interrupted_twice_keeps_its_reports(tmp_path: Path) -> None:
    with serve_site(Site(n_listings=1, n_pages=20)) as site:
        crawl = Crawl(site, tmp_path)
        process = crawl.start(DOWNLOAD_DELAY=0.1, RECRAWL_CONTENT=True, RECRAWL_NEWS=False)
        deadline = time.monotonic() + 120
        while len(site.requests) < 8 and time.monotonic() < deadline:
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=120)
        assert "could not report" not in output
        # Nothing is reserved for the crawl that ended: else this one would wait for minutes.
        crawl.run(RECRAWL_CONTENT=True, RECRAWL_WAIT_MAX="1s")
        counts = site.paths()
        assert len(counts) == site.n_all
        # Items of pages that were under way may not have been processed.
        assert Counter({path: n - 1 for path, n in counts.items()}).total() <= 16
