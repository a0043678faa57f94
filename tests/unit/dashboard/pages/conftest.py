"""A real Chromium for the tests of pages, and what checks them."""

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.unit.dashboard.pages.axe_core import AxeMissing, read_axe
from tests.unit.dashboard.real_browser import WAIT_MS, launch_browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = launch_browser(playwright)
        expect.set_options(timeout=WAIT_MS)
        yield found
        found.close()


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The code of axe-core; without it a test is skipped, except in CI, where it fails."""
    try:
        return read_axe(tmp_path_factory.mktemp("axe"))
    except AxeMissing as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))
