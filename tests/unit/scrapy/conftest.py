"""A site that is served, and a crawl of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.scrapy.crawls import Crawl, Site, serve_site


@pytest.fixture
def site() -> Iterator[Site]:
    with serve_site(Site()) as served:
        yield served


@pytest.fixture
def crawl(site: Site, tmp_path: Path) -> Crawl:
    return Crawl(site, tmp_path)
