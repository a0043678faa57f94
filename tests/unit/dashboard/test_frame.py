"""The frame of all pages: headers, files, errors, and results that are kept for a while."""

import asyncio
import re
import subprocess
import sys
import threading
from typing import Any

import pytest
from fastapi import FastAPI

from recrawl.dashboard.attach import _DashboardRoute
from recrawl.dashboard.frame.page_reads import PageReads
from recrawl.dashboard.frame.text_filters import FILTERS
from recrawl.dashboard.limits import DashboardLimits
from recrawl.dashboard.pages.fetch_results import RESULT_WORDS
from recrawl.messages.samples import RESULTS
from tests.unit.dashboard.browser_client import BrowserClient
from tests.unit.service.running_server import RunningServer


@pytest.mark.parametrize(
    "path", ["/", "/login", "/ui/news/", "/ui/none/", "/ui/news/none", "/assets/none", "/ui/"]
)
def test_every_answer_has_the_headers(open_server: RunningServer, path: str) -> None:
    headers = BrowserClient(open_server).get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"


def test_pages_have_no_code_or_style_of_their_own(open_server: RunningServer) -> None:
    html = BrowserClient(open_server).get("/ui/news/").data.decode()
    assert re.search(r"<style|\sstyle=|\son\w+=|javascript:", html) is None
    assert re.findall(r"<script[^>]*>([^<]*)</script>", html) == [""]
    # Nothing is loaded from elsewhere; links that lead away tell the other site nothing.
    loaded = re.findall(r'(?:src|action)="([^"]*)"|<link[^>]* href="([^"]*)"', html)
    assert all("".join(one).startswith("/") for one in loaded)
    for link in re.findall(r"<a [^>]*>", html):
        assert re.search(r'href="[/#?]', link) or 'rel="noreferrer' in link


def test_files_are_kept_by_browsers_only_under_their_exact_name(open_server: RunningServer) -> None:
    browser = BrowserClient(open_server)
    html = browser.get("/ui/news/").data.decode()
    for path in re.findall(r'"(/assets/[^"]+)"', html):
        answer = browser.get(path)
        assert answer.status == 200
        assert answer.headers["cache-control"].endswith("immutable")
        assert browser.get(path.partition("?")[0]).headers["cache-control"] == "no-cache"
    assert browser.get("/assets/../application.py").status == 404


def test_unknown_pages_are_answered_without_details(open_server: RunningServer) -> None:
    answer = BrowserClient(open_server).get("/ui/news/<script>alert(1)</script>")
    assert answer.status == 404
    assert b"<script>alert" not in answer.data
    wrong = BrowserClient(open_server).get("/ui/%3Cb%3E/")
    assert wrong.status == 422
    assert b"<b>" not in wrong.data


@pytest.mark.parametrize(
    ("path", "allowed"),
    [("/ui/news/", "GET"), ("/ui/news/page", "GET, POST"), ("/logout", "POST"), ("/", "GET")],
)
def test_a_method_that_a_page_does_not_take_is_refused_with_those_that_it_does(
    open_server: RunningServer, path: str, allowed: str
) -> None:
    for method in ("HEAD", "PUT", "OPTIONS"):
        answer = BrowserClient(open_server).request(method, path)
        assert (answer.status, answer.headers["allow"]) == (405, allowed)
        assert answer.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize("path", ["/ui", "/login/", "/assets", "/v1/corpora/", "//evil.example/"])
def test_no_redirect_leads_to_the_host_that_a_request_names(
    open_server: RunningServer, path: str
) -> None:
    answer = BrowserClient(open_server).get(path)
    assert answer.status == 404
    assert "location" not in answer.headers


def test_the_dashboard_is_loaded_once_and_beside_the_event_loop() -> None:
    threads: list[str] = []

    class Route(_DashboardRoute):
        def _load(self) -> Any:
            threads.append(threading.current_thread().name)

            async def answer(scope: Any, receive: Any, send: Any) -> None: ...

            return answer

    async def ask() -> None:
        route: Any = Route(FastAPI())
        await asyncio.gather(*(route.handle({}, None, None) for _ in range(5)))

    asyncio.run(ask())
    assert len(threads) == 1
    assert threads[0] != threading.main_thread().name


def test_an_error_shows_no_traceback(
    open_server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("secret detail")

    hosted = open_server.app.state.service.corpora.find("news")
    monkeypatch.setattr(hosted.corpus, "sample", fail)
    answer = BrowserClient(open_server).get("/ui/news/")
    assert answer.status == 500
    assert b"secret" not in answer.data
    assert answer.headers["x-request-id"].encode() in answer.data
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


def test_the_api_stays_as_it_is(open_server: RunningServer) -> None:
    assert open_server.get("/stats").status == 200
    assert open_server.request("GET", "/v1/none").problem == "unknown-path"
    paths = open_server.request("GET", "/v1/openapi.json").json["paths"]
    assert all(path.startswith("/v1/") or path in ("/healthz", "/readyz") for path in paths)


def test_nothing_is_loaded_before_somebody_opens_the_dashboard() -> None:
    code = (
        "import sys, recrawl.dashboard; from recrawl.service import create_app; "
        "app = create_app({}, dashboard=recrawl.dashboard.attach_dashboard); "
        "print('jinja2' in sys.modules, 'recrawl.dashboard.application' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.split() == ["False", "False"]


class Hosted:
    """A corpus whose calls run in a thread, as those of a server do."""

    name = "news"

    async def show(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(function, *args, **kwargs)


def test_many_who_look_at_once_cause_one_call() -> None:
    asyncio.run(_look_at_once())


async def _look_at_once() -> None:
    limits = DashboardLimits(kept_max=3, kept_seconds=3_600)
    reads, calls, go = PageReads(limits), [], threading.Event()

    def look(number: int = 0) -> int:
        go.wait(300)
        calls.append(number)
        if number == 7:
            raise ValueError("seven")
        return number

    hosted: Any = Hosted()
    waiting = [asyncio.create_task(reads.read(hosted, look)) for _ in range(20)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    go.set()
    assert await asyncio.gather(*waiting[1:]) == [0] * 19
    assert await reads.read(hosted, look) == 0
    assert calls == [0]
    reads.forget(hosted)
    assert await reads.read(hosted, look) == 0
    assert calls == [0, 0]
    for _ in range(2):  # errors are not kept
        with pytest.raises(ValueError, match="seven"):
            await reads.read(hosted, look, 7)
    assert calls == [0, 0, 7, 7]
    for number in range(1, 6):
        await reads.read(hosted, look, number)
    assert len(reads._kept) == 3


def test_only_what_is_certain_is_100_percent() -> None:
    chance = FILTERS["chance"]
    assert [chance(p) for p in (0.0, 0.004, 0.5, 0.996, 1.0)] == [
        *("0 %", "< 1 %", "50 %", "> 99 %", "100 %")
    ]
    assert FILTERS["share_known"](None) == "not known yet"


def test_every_result_of_a_fetch_has_words() -> None:
    assert list(RESULT_WORDS) == list(RESULTS)
