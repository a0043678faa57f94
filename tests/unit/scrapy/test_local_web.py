"""Crawls of the web that misbehaves, `recrawl.testing.web`, judged by the log of its server."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recrawl.testing.web import (
    LocalWeb,
    ViolationKind,
    find_violations,
    make_hosts,
    read_request_log,
)
from tests.unit.scrapy.crawls import Crawl, Site

N_HOSTS, N_PAGES = 20, 200


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[list[dict[str, str]]]:
    """Serve the web from a process; the first line that it prints comes first."""
    command = ["--hosts", str(N_HOSTS), "--pages", str(N_PAGES), "--log", str(tmp_path / "log")]
    process = subprocess.Popen(
        [sys.executable, "-m", "recrawl.testing.web", *command], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    yield [json.loads(process.stdout.readline()) for _ in range(N_HOSTS + 1)]
    process.terminate()
    process.communicate(timeout=60)


def test_a_web_that_misbehaves_is_crawled_politely_and_then_left_alone(
    hosts: list[dict[str, str]], tmp_path: Path
) -> None:
    first_line, *lines = hosts
    # Hosts that ask for long delays would take minutes.
    urls = tuple(one["url"] for one in lines if one["robots"] not in ("crawl_delay", "slow"))
    crawl = Crawl(Site(), tmp_path)
    options: dict[str, Any] = {
        "ROBOTSTXT_OBEY": True,
        "DOWNLOAD_TIMEOUT": 2,
        "RETRY_ENABLED": False,
        "CONCURRENT_REQUESTS": 32,
        "DOWNLOAD_MAXSIZE": 4 << 20,
    }
    first = crawl.run(paths=urls, RECRAWL_CONTENT=True, **options)
    second = crawl.run(paths=urls, RECRAWL_CONTENT=True, **options)
    assert first.stat("finish_reason") == second.stat("finish_reason") == "finished"
    assert first.stat("recrawl/new") > 80
    assert len(first.items) > 60
    # What answered is not fetched again; what failed waits after its error.
    assert second.stat("recrawl/fetched") <= 0.1 * first.stat("recrawl/fetched")
    web = LocalWeb(
        make_hosts(N_HOSTS, N_PAGES),
        started_at_ms=int(first_line["started_at_ms"]),
        is_by_address=True,
    )
    log = read_request_log(tmp_path / "log")
    kinds = (ViolationKind.DISALLOWED, ViolationKind.ROBOTS_UNREAD, ViolationKind.RETRY_AFTER)
    assert [one for one in find_violations(web, log) if one.kind in kinds] == []
