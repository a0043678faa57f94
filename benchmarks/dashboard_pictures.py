"""Take pictures of every page of the dashboard, and check each with axe-core.

``recrawl serve`` shows a corpus with a simulated month of history to a real Chromium, wide and
narrow, light and dark.  The pictures are for people to look at.  axe-core, if it is given, reports
what keeps people with disabilities from using a page.
"""

import shutil
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.dashboard import serve
from benchmarks.dashboard_month import MonthPages, fill_month, read_names

__all__ = ["AXE_RUN", "measure", "paths_of"]

_WIDTHS: Final = (1_440, 390)
_SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
_HEIGHT: Final = 900
_TIMEOUT_SECONDS: Final = 300
AXE_RUN: Final = """
async () => (await axe.run(document, {resultTypes: ["violations"]})).violations.map(
  (one) => `${one.impact} ${one.id}: ${one.nodes.map((node) => node.target.join(" ")).join(", ")}`)
"""
"""Code that returns what axe-core finds on a page, with how serious it is first."""


def paths_of(names: MonthPages) -> dict[str, str]:
    """Return the path of every page of the dashboard after ``/ui/``, by a name for its picture.

    Parameters
    ----------
    names
        Host, page and source to open.
    """

    def part(text: str) -> str:
        return quote(text, safe="")

    source = f"news/sources?source={part(names.source)}"
    return {
        "overview": "news/",
        "overview-month": "news/?span=month",
        "overview-years": "news/?span=years",
        "plan": "news/plan",
        "plan-targets": "news/plan?at=150&targets=95+%25%0A99+%25+of+/news/*+under+6+h",
        "hosts": "news/hosts",
        "hosts-by-errors": "news/hosts?sort=errors",
        "hosts-unknown": "news/hosts?find=www.unknown.example",
        "host": f"news/hosts/{part(names.host)}",
        "host-month": f"news/hosts/{part(names.host)}?span=month",
        "sources": "news/sources",
        "source": source,
        "source-on-host": f"{source}&host={part(names.host)}&span=month",
        "kinds": "news/kinds",
        "page-search": "news/page",
        "page-unknown": f"news/page?url={part(names.product)}x",
        "page": f"news/page?url={part(names.product)}",
        "page-with-text": f"news/page?url={part(names.story)}",
        "proof": "news/proof",
        "login": "../login",
        "error-unknown-page": "news/none",
        "error-unknown-corpus": "none/",
        "error-value": "news/plan?at=999",
    }


def measure(
    n_pages: int,
    output: Path,
    *,
    days: float = 30.0,
    minutes: float = 1_440.0,
    folder: Path | None = None,
    axe: Path | None = None,
) -> dict[str, Any]:
    """Write pictures of all pages; return the seconds of each, and what axe-core finds.

    Parameters
    ----------
    n_pages
        Number of tracked pages.
    output
        Folder for the pictures.
    days
        Length of the simulated past.
    minutes
        Length of its end that is simulated by the minute.
    folder
        Folder of the corpus, which is made if it is missing and then kept; a temporary one if
        None.
    axe
        The file ``axe.min.js`` of the npm package axe-core.
    """
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="recrawl-pictures-") as temporary:
        corpus = folder or Path(temporary) / "corpus"
        if not corpus.exists():
            fill_month(corpus, n_pages, days=days, minutes=minutes)
        names = read_names(corpus)
        with serve(corpus) as base:
            paths = paths_of(names)
            seconds = {name: [_open(base, path) for _ in range(2)] for name, path in paths.items()}
            code = None if axe is None else axe.read_text()
            findings = _take_pictures(base, paths, output, code)
    return {
        "n_pages": n_pages,
        "first_and_second_seconds": {
            name: [round(one, 3) for one in both] for name, both in seconds.items()
        },
        "findings": findings,
    }


def _open(base: str, path: str) -> float:
    """Open a page, also one of errors; return the seconds it took."""
    began = time.perf_counter()
    try:
        with urllib.request.urlopen(_address(base, path), timeout=_TIMEOUT_SECONDS) as answer:
            answer.read()
    except urllib.error.HTTPError as error:
        error.read()
    return time.perf_counter() - began


def _address(base: str, path: str) -> str:
    return f"{base}/{path[3:]}" if path.startswith("../") else f"{base}/ui/{path}"


def _take_pictures(
    base: str, paths: dict[str, str], output: Path, axe: str | None
) -> dict[str, list[str]]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    assert chromium, "pictures need Chromium"
    found: dict[str, list[str]] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for width in _WIDTHS:
            for scheme in _SCHEMES:
                page = _new_page(browser, width, scheme)
                for name, path in paths.items():
                    page.goto(_address(base, path), timeout=1_000 * _TIMEOUT_SECONDS)
                    picture = f"{name}-{width}-{scheme}"
                    page.screenshot(path=output / f"{picture}.png", full_page=True)
                    wrong = [*_is_wider(page, width), *_find_barriers(page, axe)]
                    if wrong:
                        found[picture] = wrong
                page.close()
        browser.close()
    return found


def _new_page(browser: Browser, width: int, scheme: Literal["light", "dark"]) -> Page:
    return browser.new_page(viewport={"width": width, "height": _HEIGHT}, color_scheme=scheme)


def _is_wider(page: Page, width: int) -> list[str]:
    """Return a finding if a page is wider than the window, so that one has to scroll sideways."""
    wide = page.evaluate("document.documentElement.scrollWidth")
    return [f"the page is {wide} px wide"] if wide > width else []


def _find_barriers(page: Page, axe: str | None) -> list[str]:
    if axe is None:
        return []
    page.evaluate(axe)
    barriers: list[str] = page.evaluate(AXE_RUN)
    return barriers
