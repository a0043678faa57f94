"""While a page is read, nobody waits long for a node: its names are read without its lock."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute

from recrawl.corpus import Corpus, Outcome
from recrawl.dashboard import attach_dashboard
from recrawl.dashboard.application import _PAGES
from recrawl.store import Store
from tests.manual_clock import ManualClock
from tests.unit.dashboard.browser_client import BrowserClient
from tests.unit.service.running_server import RunningServer

N_HOSTS = 60
PATHS = {
    "/": "",
    "/ui/{corpus}/": "",
    "/ui/{corpus}/live": "live",
    "/ui/{corpus}/plan": "plan?targets=90+%25+of+/1*",
    "/ui/{corpus}/plan/answer": "plan/answer?at=100",
    "/ui/{corpus}/hosts": "hosts?find=nowhere.example",
    "/ui/{corpus}/hosts/{host:path}": "hosts/site1.example?prefix=/1",
    "/ui/{corpus}/sources": "sources?source=sitemap&host=site1.example",
    "/ui/{corpus}/kinds": "kinds",
    "/ui/{corpus}/page": "page?url=https://site1.example/none",
    "/ui/{corpus}/page/live": "page/live?url=https://site1.example/1",
    "/ui/{corpus}/proof": "proof",
}
# One page is explained from the shard and the store as they are at one moment.
NAMES_READ_MAX = 4


class WatchedLock:
    """A lock that knows whether this thread holds it."""

    held = threading.local()

    def __init__(self, lock: Any) -> None:
        self._lock = lock

    def __enter__(self) -> bool:
        found = bool(self._lock.__enter__())
        self.held.depth = getattr(self.held, "depth", 0) + 1
        return found

    def __exit__(self, *error: object) -> None:
        self.held.depth -= 1
        self._lock.__exit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lock, name)


@pytest.fixture
def corpus(open_corpus: Callable[..., Corpus], clock: ManualClock) -> Corpus:
    corpus = open_corpus(
        corpus={"partitions": 2},
        audit={"share": 0.5},
        holdout={"share": 0.5, "interval": "1d"},
        pattern=[{"match": f"/{i}*", "kind": f"kind{i}"} for i in range(4)],
    )
    corpus.add([f"https://site{i}.example/{j}" for i in range(N_HOSTS) for j in range(4)])
    for _ in range(3):
        clock.pass_seconds(86_400)
        outcomes = [Outcome(handle=one.handle, digest=b"same") for one in corpus.lease(400)]
        corpus.report(outcomes)
        corpus.signal([f"https://site{i}.example/1" for i in range(N_HOSTS)], source="sitemap")
        for node in corpus.nodes:
            node.tick(corpus.time)
    return corpus


def test_pages_read_no_names_while_they_hold_the_lock_of_a_node(
    corpus: Corpus, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[str, int]] = []

    def watch(name: str) -> None:
        method = getattr(Store, name)

        def watched(self: Store, *args: Any) -> Any:
            if getattr(WatchedLock.held, "depth", 0):
                read.append((name, len(args[-1])))
            return method(self, *args)

        monkeypatch.setattr(Store, name, watched)

    for name in ("names_of", "numbers_of", "page_names_of", "read_urls_of", "records_of"):
        watch(name)
    paths = {
        route.path
        for part in _PAGES
        for route in part.router.routes
        if isinstance(route, APIRoute) and "GET" in (route.methods or ())
    }
    assert paths == {*PATHS}, "a new page belongs into this test"
    with RunningServer(
        {"news": corpus}, folders={"news": folder}, dashboard=attach_dashboard
    ) as server:
        browser = BrowserClient(server)
        for node in corpus.nodes:
            monkeypatch.setattr(node, "lock", WatchedLock(node.lock))
        for end in PATHS.values():
            status = browser.get(f"/ui/news/{end}").status
            assert status == (404 if "/none" in end else 200), end
        assert read, "explaining a page reads its name"
        assert [one for one in read if one[1] > NAMES_READ_MAX] == []
