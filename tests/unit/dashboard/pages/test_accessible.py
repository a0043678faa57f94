"""People can use every page: by keyboard, on a phone, in the dark, and with a screen reader."""

from collections.abc import Iterator
from functools import partial

import pytest
from playwright.sync_api import Browser, expect

import recrawl
from recrawl.corpus import CorpusConfig, Outcome
from recrawl.dashboard import attach_dashboard
from recrawl.dashboard.limits import DashboardLimits
from tests.corpus_fixtures import IMPOLITE
from tests.manual_clock import ManualClock
from tests.unit.dashboard.pages.axe_core import serious_findings
from tests.unit.dashboard.real_browser import new_page
from tests.unit.service.running_server import RunningServer

FAST = DashboardLimits(pages_per_second=1e6, address_pages_per_second=1e6)
HOST = "shop.example"
URL = f"https://{HOST}/product/tea"
PATHS = {
    "/ui/news/": "Overview",
    "/ui/news/?span=month": "Overview",
    "/ui/news/plan?targets=95+%25": "Plan",
    "/ui/news/hosts": "Hosts",
    "/ui/news/hosts?sort=errors": "Hosts",
    "/ui/news/hosts?find=none.example": "Hosts",
    f"/ui/news/hosts/{HOST}": HOST,
    "/ui/news/sources": "Sources of signals",
    f"/ui/news/sources?source=sitemap&host={HOST}": "sitemap",
    "/ui/news/kinds": "Kinds of pages",
    "/ui/news/page": "Page",
    f"/ui/news/page?url={URL}x": "Page",
    f"/ui/news/page?url={URL}": URL,
    "/ui/news/proof": "Proof",
    "/login": "Log in",
    "/ui/news/none": "There is no such page",
    "/ui/news/plan?at=999": "A value is not valid",
}
# What has the focus, and whether one can see that it has.
FOCUSED = """
() => {
  const one = document.activeElement, style = getComputedStyle(one);
  const is_seen = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
  return [one === document.body ? "" : one.tagName + " " + (one.id || one.innerText || one.name),
          is_seen];
}
"""
# Everything that one can do on a page, as the keyboard should reach it.
ACTIONS = """
() => [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea")]
  .map((one) => one.tagName + " " + (one.id || one.innerText || one.name))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A corpus in which every page has something to show, and which no test changes."""
    clock, folder = ManualClock(), tmp_path_factory.mktemp("accessible")
    sections = {
        "audit": {"share": 0.5},
        "holdout": {"share": 0.3, "interval": "1d"},
        "budget": {"rate": "40/day"},
        "content": {"keep_text": True},
        "pattern": [{"match": "/product/*", "kind": "product", "max_age": "7d"}],
        "politeness": IMPOLITE,
    }
    corpus = recrawl.open(folder, CorpusConfig.from_dict(sections), clock=clock)
    corpus.add([URL, *(f"https://{HOST}/product/{i}" for i in range(10))])
    corpus.add([f"https://site{i}.example/{j}" for i in range(6) for j in range(4)])
    for day in range(4):
        for _ in range(3):
            clock.pass_seconds(60)
            orders = corpus.lease(40)
            text = f"A cup of green tea costs {day} euros in this shop today."
            corpus.report([Outcome(handle=one.handle, text=text) for one in orders])
        corpus.signal([URL], source="sitemap")
        clock.pass_seconds(86_400 - 180)
    corpus.report([Outcome(url="https://site1.example/1", status=503)])
    corpus.set_host("site2.example", is_closed=True)
    corpus.set_host("site3.example", blocked_until_ms=clock.wall_ms() + 3_600_000)
    with (
        corpus,
        RunningServer(
            {"news": corpus},
            folders={"news": folder},
            dashboard=partial(attach_dashboard, limits=FAST),
        ) as running,
    ):
        yield running


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1_440, 390])
def test_axe_core_finds_nothing_serious(
    browser: Browser, server: RunningServer, axe: str, width: int, scheme: str
) -> None:
    page = new_page(browser, viewport={"width": width, "height": 900}, color_scheme=scheme)
    found = {}
    for path, title in PATHS.items():
        page.goto(f"http://127.0.0.1:{server.port}{path}")
        expect(page.locator("h1")).to_have_text(title)
        found[path] = serious_findings(page, axe)
        if page.evaluate("document.documentElement.scrollWidth") > width:
            found[path].append("the page is wider than the window")
    page.close()
    assert {path: some for path, some in found.items() if some} == {}


@pytest.mark.parametrize("path", ["/ui/news/", "/ui/news/plan", f"/ui/news/hosts/{HOST}"])
def test_the_keyboard_reaches_everything(
    browser: Browser, server: RunningServer, path: str
) -> None:
    page = new_page(browser)
    page.goto(f"http://127.0.0.1:{server.port}{path}")
    actions = page.evaluate(ACTIONS)
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED) == ["A Skip to the content", True]
    assert page.locator(".skip").bounding_box()["x"] >= 0  # type: ignore[index]
    reached: list[str] = []
    for _ in range(4 * len(actions)):
        what, is_seen = page.evaluate(FOCUSED)
        if what == "" or what in reached[:1]:
            break  # the end of the page
        assert is_seen, what
        reached.append(what)
        page.keyboard.press("Tab")
    page.close()
    assert [one for one in reached if one in set(actions)] == actions


def test_the_skip_link_leads_past_the_navigation(browser: Browser, server: RunningServer) -> None:
    page = new_page(browser)
    page.goto(f"http://127.0.0.1:{server.port}/ui/news/hosts")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED) == ["INPUT find", True]
    page.close()


def test_on_a_phone_all_tabs_are_in_sight_and_charts_show_their_newest_end(
    browser: Browser, server: RunningServer
) -> None:
    page = new_page(browser, viewport={"width": 390, "height": 844})
    page.goto(f"http://127.0.0.1:{server.port}/ui/news/")
    for tab in page.locator("nav a").all():
        box = tab.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
    chart, svg = page.locator("figure").first, page.locator("figure svg").first
    outer, inner = chart.bounding_box(), svg.bounding_box()
    assert outer is not None
    assert inner is not None
    assert inner["width"] > outer["width"]
    assert inner["x"] + inner["width"] == pytest.approx(outer["x"] + outer["width"], abs=2)
    page.close()


def test_the_slider_says_its_budget(browser: Browser, server: RunningServer) -> None:
    page = new_page(browser)
    page.goto(f"http://127.0.0.1:{server.port}/ui/news/plan")
    budget, slider = page.locator("#at-budget"), page.locator("#at")
    expect(budget).to_have_text("40 fetches/day")
    slider.focus()
    page.keyboard.press("PageUp")
    expect(budget).not_to_have_text("40 fetches/day")
    expect(slider).to_have_attribute("aria-valuetext", budget.inner_text())
    page.close()
