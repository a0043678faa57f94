"""A real Chromium, whose pages wait as long as a busy machine takes."""

from typing import Any, Final

from playwright.sync_api import Browser, Page, Playwright

from recrawl.browser import BrowserSettings

__all__ = ["WAIT_MS", "launch_browser", "new_page"]

WAIT_MS: Final = 120_000
"""Longest wait for what a page does, in milliseconds."""


def launch_browser(playwright: Playwright) -> Browser:
    """Start the Chromium of this machine, under any of its names."""
    return playwright.chromium.launch(
        executable_path=BrowserSettings().find_executable(),
        args=["--no-sandbox"],
        timeout=WAIT_MS,
    )


def new_page(browser: Browser, **options: Any) -> Page:
    """Open a page of a browser, with options of `Browser.new_page`."""
    page = browser.new_page(**options)
    page.set_default_timeout(WAIT_MS)
    return page
