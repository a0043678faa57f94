"""A person goes from the overview to a page, has it fetched, and sees the change, in Chromium."""

import re
import threading
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, expect

from recrawl.corpus import Corpus, Outcome
from recrawl.dashboard import attach_dashboard
from recrawl.service.protection.audit import read_audit_log
from tests.manual_clock import ManualClock
from tests.unit.dashboard.real_browser import new_page
from tests.unit.service.running_server import RunningServer

URL = "https://shop.example/tea"
OLD = "A cup of green tea costs four euros in this shop."
NEW = "A cup of green tea costs five euros since this morning."


def _body(text: str) -> bytes:
    return f"<html><p>Everything about tea, which we like very much.</p><p>{text}</p>".encode()


class _Fetcher(threading.Thread):
    """Fetches what is due, again and again, and finds that the page has changed."""

    def __init__(self, corpus: Corpus, clock: ManualClock) -> None:
        super().__init__(daemon=True)
        self._corpus, self._clock = corpus, clock
        self.text = OLD
        self.is_over = threading.Event()

    def fetch_once(self) -> None:
        self._clock.pass_seconds(2)
        orders = self._corpus.lease(10)
        self._corpus.report(
            [
                Outcome(handle=one.handle, body=_body(self.text), content_type="text/html")
                for one in orders
            ]
        )

    def run(self) -> None:
        while not self.is_over.wait(0.2):
            self.fetch_once()


def test_a_person_has_a_page_fetched_and_sees_the_change(
    browser: Browser, open_corpus: Callable[..., Corpus], clock: ManualClock, folder: Path
) -> None:
    corpus = open_corpus(content={"keep_text": True})
    corpus.add([URL, "https://other.example/"])
    corpus.report([Outcome(url=URL, body=_body(OLD), content_type="text/html")])
    fetcher = _Fetcher(corpus, clock)
    fetcher.fetch_once()  # compiles what the browser would have to wait for
    clock.pass_seconds(86_400)
    with RunningServer(
        {"news": corpus}, folders={"news": folder}, dashboard=attach_dashboard
    ) as server:
        page = new_page(browser)
        page.goto(f"http://127.0.0.1:{server.port}/")
        expect(page.locator("h1")).to_have_text("Overview")
        page.get_by_role("link", name="Hosts").click()
        page.get_by_role("link", name="shop.example", exact=True).click()
        expect(page.locator("h1")).to_have_text("shop.example")
        page.get_by_role("link", name=URL).click()
        expect(page.locator("#words")).to_contain_text("Last fetched")
        expect(page.get_by_text(NEW)).to_have_count(0)
        fetcher.text = NEW
        fetcher.start()
        try:
            page.get_by_role("button", name="Fetch now").click()
            expect(page.get_by_role("status")).to_contain_text("A fetcher gets the page first")
            # The page brings itself up to date.
            expect(page.locator(".passage.added", has_text=NEW)).to_be_visible(timeout=300_000)
            expect(page.locator(".passage.removed", has_text=OLD)).to_be_visible()
        finally:
            fetcher.is_over.set()
            fetcher.join()
        expect(page.locator("figure > svg")).to_be_visible()
        page.close()
        history = corpus.history(URL, with_beliefs=False)
        assert history is not None
        assert [one.source for one in history.signals] == ["operator"]
    (entry,) = read_audit_log(folder)
    assert (entry.what, entry.target) == ("dashboard: fetch a page now", URL)


def test_a_person_changes_a_host_and_a_page_with_the_keyboard(
    browser: Browser, open_server: RunningServer, corpus: Corpus, folder: Path
) -> None:
    page = new_page(browser)
    base = f"http://127.0.0.1:{open_server.port}/ui/news"
    page.goto(f"{base}/hosts/site0.example")
    page.get_by_label("Seconds between fetches").fill("7")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_have_text("The delay is set.")
    assert corpus.host("site0.example").delay_seconds == 7
    for button, is_closed in (("Close the host", True), ("Open the host", False)):
        page.get_by_role("button", name=button).focus()
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile(f"done={'close' if is_closed else 'open'}"))
        expect(page.get_by_role("status")).to_be_visible()
        assert corpus.host("site0.example").is_closed is is_closed
    page.get_by_label("Fetch nothing for").select_option("1 day")
    page.get_by_role("button", name="Block").click()
    expect(page.get_by_text("waits until")).to_be_visible()
    assert (corpus.host("site0.example").blocked_until_ms or 0) > corpus.now_ms()
    page.get_by_role("button", name="Fetch again now").click()
    expect(page.locator(".tag", has_text="open")).to_be_visible()
    page.get_by_label("Pages whose address begins with").fill("/3")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("prefix="))
    page.get_by_role("link", name="https://site0.example/3").click()
    page.get_by_label("Importance").fill("5")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_have_text("The importance is set.")
    page.get_by_role("button", name="Stop tracking").click()
    expect(page.get_by_role("status")).to_contain_text("no longer tracked")
    assert corpus.explain("https://site0.example/3") is None
    page.get_by_label("Address of a page").fill("https://site0.example/")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="https://site0.example/1")).to_be_visible()
    page.close()
    whats = [entry.what.removeprefix("dashboard: ") for entry in read_audit_log(folder)]
    assert whats == [
        *("delay a host", "close a host", "open a host", "block a host", "unblock a host"),
        *("set the importance of a page", "stop tracking a page"),
    ]
