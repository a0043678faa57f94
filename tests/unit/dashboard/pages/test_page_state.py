"""The page about one URL shows a fetch at once, also after a person has acted."""

from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from recrawl.corpus import Corpus, Outcome
from recrawl.dashboard import attach_dashboard
from recrawl.dashboard.limits import DashboardLimits
from recrawl.dashboard.pages import page_sight
from tests.manual_clock import ManualClock
from tests.unit.dashboard.browser_client import BrowserClient
from tests.unit.service.running_server import RunningServer

URL = "https://site0.example/1"
LIVE = f"/ui/news/page/live?url={quote(URL, safe='')}"


def test_the_state_is_new_after_an_action_although_the_timeline_takes_long(
    corpus: Corpus,
    folder: Path,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    histories: list[Any] = []

    def history(*args: Any, **kwargs: Any) -> Any:
        histories.append(args)
        return found(*args, **kwargs)

    dashboard = partial(attach_dashboard, limits=DashboardLimits(kept_seconds=3_600))
    with RunningServer({"news": corpus}, folders={"news": folder}, dashboard=dashboard) as server:
        hosted = server.app.state.service.corpora.find("news")
        found = hosted.corpus.history
        monkeypatch.setattr(hosted.corpus, "history", history)
        browser = BrowserClient(server)
        assert "Never fetched" in browser.get(LIVE).data.decode()
        assert len(histories) == 1
        corpus.report([Outcome(url=URL, digest=b"a")])
        clock.pass_seconds(60)
        form = {"action": "fetch", "url": URL}
        assert browser.post("/ui/news/page", form).status == 303
        html = browser.get(LIVE).data.decode()
        assert "Last fetched" in html
        assert len(histories) == 2
        browser.get(LIVE)
        assert len(histories) == 2


def test_words_do_not_follow_a_history_without_the_last_fetch(
    corpus: Corpus, clock: ManualClock
) -> None:
    for _ in range(3):
        clock.pass_seconds(3_600)
        corpus.report([Outcome(url=URL, digest=b"a")])
    past = page_sight.read_page_past(corpus, URL, None)
    present = page_sight.read_page_present(corpus, URL, None)
    assert present is not None
    assert "No change in 3 fetches" in page_sight.PageSight.of(present, past).words
    clock.pass_seconds(3_600)
    corpus.report([Outcome(url=URL, digest=b"b")])
    later = page_sight.read_page_present(corpus, URL, None)
    assert later is not None
    assert later.version != present.version
    words = page_sight.PageSight.of(later, past).words
    assert "No change in" not in words
    assert "changed" in words
