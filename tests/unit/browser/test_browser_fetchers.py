"""Pages that need a browser are rendered, politely and within limits."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

from recrawl.browser import (
    BrowserFetcher,
    BrowserSettings,
    PageGrade,
    RenderMemory,
    ShellAwareFetcher,
    renderer,
)
from recrawl.browser.chromium import processes_of
from recrawl.errors import ConfigError
from recrawl.fetch import FetchKind, FetchProblem, FetchRequest, FetchSettings, HttpFetcher
from recrawl.testing.fetchers import (
    FETCHER_CHECKS,
    FetcherCheck,
    ScriptedSite,
    SeenRequest,
    http_answer,
    open_site,
)
from tests.unit.browser.browser_fixtures import (
    SHELL,
    SHELL_SITE,
    TEXT,
    browser_settings,
    fetch_settings,
    html,
)

# These start a browser each, and no kernel matters to them: CI runs them with one kind alone.
ONCE_IN_CI = pytest.mark.slow_without_jit

# A rendered page is not the bytes that the site sent.
NOT_OF_RENDERED_PAGES = {"check_a_page_comes_whole"}


@pytest.mark.parametrize("check", FETCHER_CHECKS, ids=lambda check: check.__name__)
def test_the_promises_of_a_fetcher_that_knows_shells(check: FetcherCheck) -> None:
    """Pages that are not shells come as the plain fetcher receives them."""

    def open_fetcher(settings: FetchSettings) -> ShellAwareFetcher:
        return ShellAwareFetcher(HttpFetcher(settings), browser_settings())

    check(open_fetcher)


@pytest.mark.parametrize(
    "check",
    [check for check in FETCHER_CHECKS if check.__name__ not in NOT_OF_RENDERED_PAGES],
    ids=lambda check: check.__name__,
)
def test_the_promises_of_a_fetcher_that_renders(check: FetcherCheck) -> None:
    def open_fetcher(settings: FetchSettings) -> BrowserFetcher:
        return BrowserFetcher(HttpFetcher(settings), browser_settings())

    check(open_fetcher)


def run(
    scripts: dict[str, Any],
    use: Callable[[ShellAwareFetcher, ScriptedSite], Awaitable[None]],
    *,
    browser: dict[str, Any] | None = None,
    memory: RenderMemory | None = None,
    **changes: Any,
) -> None:
    async def main() -> None:
        async with open_site(scripts) as site:
            plain = HttpFetcher(fetch_settings(**changes))
            fetcher = ShellAwareFetcher(plain, browser_settings(**browser or {}), memory)
            try:
                await use(fetcher, site)
            finally:
                await fetcher.close()

    asyncio.run(main())


def test_a_shell_is_rendered_and_other_pages_are_not(tmp_path: Path) -> None:
    full = f"<!doctype html><title>Full</title><p>{TEXT}</p><script src='/app.js'></script>"

    async def use(fetcher: ShellAwareFetcher, site: ScriptedSite) -> None:
        answer = await fetcher.fetch(FetchRequest(url=f"{site.url}/page"))
        assert TEXT.encode() in answer.body
        assert (answer.status, answer.problem) == (200, None)
        assert answer.content_type == "text/html; charset=utf-8"
        # The validators belong to the shell, which stays the same when the text changes.
        assert (answer.etag, answer.last_modified) == (None, None)
        assert site.paths() == ["/page", "/app.js", "/data.json"]
        assert answer.n_requests == 3
        assert answer.n_bytes_received > len(TEXT) + len(SHELL)
        assert answer.seconds > 0.2
        agents = {seen.headers["user-agent"] for seen in site.requests}
        assert agents == {fetcher.settings.user_agent}
        # The script is remembered; the data is not.
        answer = await fetcher.fetch(FetchRequest(url=f"{site.url}/page"))
        assert TEXT.encode() in answer.body
        assert site.paths()[3:] == ["/page", "/data.json"]
        n_before = len(site.requests)
        answer = await fetcher.fetch(FetchRequest(url=f"{site.url}/full"))
        assert answer.body == full.encode()
        answer = await fetcher.fetch(FetchRequest(url=f"{site.url}/page", kind=FetchKind.SITEMAP))
        assert answer.body == SHELL.encode()
        assert len(site.requests) == n_before + 2
        assert fetcher.n_rendered == 2
        assert fetcher.memory.gain_share("127.0.0.1", PageGrade.SHELL) == 1.0
        # The browser has served its time, and another one is started.
        answer = await fetcher.fetch(FetchRequest(url=f"{site.url}/page"))
        assert TEXT.encode() in answer.body
        assert fetcher.renderer.chromium.n_starts == 2
        assert len(fetcher.renderer.chromium._instances) == 1

    path = tmp_path / "rendering"
    limits = {"pages_per_browser_max": 2}
    run({**SHELL_SITE, "/full": html(full)}, use, memory=RenderMemory(path), browser=limits)
    assert RenderMemory(path).gain_share("127.0.0.1", PageGrade.SHELL) == 1.0


def test_requests_of_a_page_are_polite() -> None:
    """They pass the gate of their host one by one, and obey its robots.txt file."""
    page = """<!doctype html><title>App</title><div id="root"></div>
    <link rel="stylesheet" href="/style.css"><img src="/image.png">
    <script>
    const get = (url, more) => fetch(url, more).then((answer) => answer.text());
    document.querySelector("link").onload = () => { document.body.append("styled "); };
    Promise.allSettled([get("/a"), get("/b"), get("/private/c"),
      get("/d", {method: "POST", body: "x"}), get("/busy")])
      .then((found) => { document.body.append(found.map((x) => x.status).join(" ")); });
    setInterval(() => get("/again"), 50);
    </script>"""
    delay = 0.3

    async def use(fetcher: ShellAwareFetcher, site: ScriptedSite) -> None:
        answer = await fetcher.fetch(FetchRequest(url=f"{site.url}/page"))
        await fetcher.fetch(FetchRequest(url=f"{site.url}/robots.txt", kind=FetchKind.ROBOTS))
        assert set(site.paths()) == {"/page", "/a", "/b", "/busy", "/again"}
        assert site.paths().count("/again") == 2
        starts = [seen.at_seconds for seen in site.requests]
        gaps = [later - earlier for earlier, later in pairwise(starts)]
        assert min(gaps) >= delay - 0.002, gaps
        # The plain fetcher returned the page, because rendering brought too little text.
        assert answer.body == page.encode()
        assert answer.n_requests == len(site.requests) - 2
        assert fetcher.memory.gain_share("127.0.0.1", PageGrade.SHELL) == 0.0
        # The second time, rendering is left out.
        n_before = len(site.requests)
        await fetcher.fetch(FetchRequest(url=f"{site.url}/page"))
        assert len(site.requests) == n_before + 1

    busy = http_answer(b"busy", status=429, headers="Retry-After: 1\r\n")
    run({"/page": html(page), "/busy": busy}, use, delay_seconds=delay)


def test_a_page_is_not_complete_if_its_last_request_is_heard_of_late() -> None:
    """The browser may answer before it tells of a request that a script has begun."""

    class Traffic:
        is_quiet, changed_at = True, 0.0

    class Session:
        async def send(self, *_: Any) -> dict[str, Any]:
            asyncio.get_running_loop().call_soon(setattr, traffic, "is_quiet", False)
            return {"result": {"value": "complete"}}

    traffic = Traffic()

    async def main() -> None:
        plain = HttpFetcher(fetch_settings())
        one = renderer.Renderer(plain, browser_settings(quiet_seconds=0.01))
        session: Any = Session()
        assert not await one._is_complete(session, cast(Any, traffic))
        await one.close()
        await plain.close()

    asyncio.run(main())


@ONCE_IN_CI
def test_nothing_is_sent_after_the_end_of_a_page() -> None:
    page = """<!doctype html><title>App</title><script>
    for (let i = 0; i < 200; i++) fetch(`/${i}`);
    </script>"""

    async def use(fetcher: ShellAwareFetcher, site: ScriptedSite) -> None:
        answer = await fetcher.fetch(FetchRequest(url=f"{site.url}/page"))
        n_requests = len(site.requests)
        # One in 0.3 s, while the page is open and while it is read, which takes 10 s at most.
        assert 2 < n_requests < 100
        assert answer.n_requests <= n_requests
        assert answer.seconds < 60
        # The host is free, and no request of the page comes later.
        await fetcher.fetch(FetchRequest(url=f"{site.url}/other"))
        await asyncio.sleep(1.0)
        assert len(site.requests) == n_requests + 1

    limits = {"seconds_max": 15.0, "requests_max": 1_000}
    run({"/page": html(page)}, use, browser=limits, delay_seconds=0.3)


@ONCE_IN_CI
def test_scripts_may_lead_to_another_document() -> None:
    way = "<!doctype html><title>Way</title><script>location = '/moved'</script>"

    async def use(fetcher: ShellAwareFetcher, site: ScriptedSite) -> None:
        answer = await fetcher.fetch(FetchRequest(url=f"{site.url}/way"))
        assert answer.final_url == f"{site.url}/page"
        assert TEXT.encode() in answer.body
        assert [one.url for one in answer.redirects] == [f"{site.url}/way"]
        assert site.paths() == ["/way", "/moved", "/page", "/app.js", "/data.json"]
        assert answer.n_requests == 5
        # Not to one that robots.txt disallows, and not for ever.
        answer = await fetcher.fetch(FetchRequest(url=f"{site.url}/hidden"))
        assert "/private/x" not in site.paths()
        assert b"stays" in answer.body
        await fetcher.fetch(FetchRequest(url=f"{site.url}/endless"))
        assert len([path for path in site.paths() if path.startswith("/endless")]) == 4

    async def endless(seen: SeenRequest, writer: asyncio.StreamWriter) -> None:
        text = f"<!doctype html><title>x</title><script>location = '{seen.path}x'</script>"
        writer.write(html(text))

    hidden = "<!doctype html><p>stays<script>location = '/private/x'</script>"
    scripts = {
        **SHELL_SITE,
        "/way": html(way),
        "/moved": http_answer(status=302, headers="Location: /page\r\n"),
        "/hidden": html(hidden),
        **{"/endless" + "x" * i: endless for i in range(9)},
    }
    run(scripts, use)


HOSTILE = {
    "/loop": "<script>for (;;) {}</script>",
    "/memory": "<script>const a = []; for (;;) a.push(new Array(1e6).fill(a.length));</script>",
    "/dialogs": "<script>alert(1); confirm(2); prompt(3); print();</script>",
    "/windows": "<script>for (let i = 0; i < 50; i++) window.open('/page');</script>",
    "/unload": "<script>onbeforeunload = (e) => { e.preventDefault(); return 'x'; }</script>",
    "/fakes": "<script>Document.prototype.createElement = 1; JSON.stringify = 1;"
    "document.implementation = 1; Element.prototype.appendChild = () => 1;</script>",
    "/deep": "<script>let at = document.body; for (let i = 0; i < 5000; i++) {"
    "const e = document.createElement('b'); at.append(e); at = e; }</script>",
}


@ONCE_IN_CI
def test_hostile_pages_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renderer, "_READ_SECONDS_MAX", 2.0)

    async def use(fetcher: ShellAwareFetcher, site: ScriptedSite) -> None:
        answers = await asyncio.gather(
            *(fetcher.fetch(FetchRequest(url=site.url + path)) for path in HOSTILE)
        )
        for path, answer in zip(HOSTILE, answers, strict=True):
            assert (answer.status, answer.problem) == (200, None), path
        assert fetcher.n_rendered == len(HOSTILE)
        # The browser still works, or works again; on a busy machine not within two seconds.
        monkeypatch.setattr(fetcher.renderer, "_settings", browser_settings(seconds_max=120.0))
        monkeypatch.setattr(renderer, "_READ_SECONDS_MAX", 60.0)
        fetcher.memory = RenderMemory()
        answer = await fetcher.fetch(FetchRequest(url=f"{site.url}/page"))
        assert TEXT.encode() in answer.body

    pages = {
        path: html(f"<!doctype html><title>x</title><body>{text}") for path, text in HOSTILE.items()
    }
    limits = {
        "seconds_max": 2.0,
        "script_memory_mb_max": 64,
        "pages_at_once_max": 5,
    }
    memory = RenderMemory()
    memory.wants = lambda *_: True  # type: ignore[method-assign]
    run({**SHELL_SITE, **pages}, use, browser=limits, memory=memory)


LIMITED = {
    "/flood": ("fetch('/endless')", "received_bytes_max was reached"),
    "/large": (
        "document.body.append('x'.repeat(3e6))",
        "the page is larger than body_bytes_max",
    ),
}


@ONCE_IN_CI
def test_the_size_of_a_page_is_limited() -> None:
    async def flood(seen: SeenRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"x" * 10_000)
            await writer.drain()

    async def use(fetcher: ShellAwareFetcher, site: ScriptedSite) -> None:
        for path, (text, problem) in LIMITED.items():
            fetcher.memory = RenderMemory()
            fetcher.render_problems.clear()
            answer = await fetcher.fetch(FetchRequest(url=site.url + path))
            assert text.encode() in answer.body
            assert fetcher.render_problems == {problem: 1}

    pages = {
        path: html(f"<!doctype html><title>x</title><body><script>{text}</script>")
        for path, (text, _) in LIMITED.items()
    }
    limits = {"received_bytes_max": 2_000_000, "seconds_max": 60.0}
    run({**pages, "/endless": flood}, use, browser=limits, body_bytes_max=2_000_000)


@ONCE_IN_CI
def test_a_browser_that_grows_too_large_is_ended_and_started_again() -> None:
    page = """<!doctype html><title>x</title><script>
    const kept = []; setInterval(() => { const a = new Uint8Array(1e8); a.fill(1); kept.push(a); });
    fetch("/hang"); </script>"""

    async def hang(seen: SeenRequest, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    async def use(fetcher: ShellAwareFetcher, site: ScriptedSite) -> None:
        answer = await fetcher.fetch(FetchRequest(url=f"{site.url}/grows"))
        assert answer.body == page.encode()
        assert fetcher.render_problems == {"the browser took more memory than memory_mb_max": 1}
        fetcher.memory = RenderMemory()
        answer = await fetcher.fetch(FetchRequest(url=f"{site.url}/page"))
        assert TEXT.encode() in answer.body
        assert fetcher.renderer.chromium.n_starts == 2

    scripts = {**SHELL_SITE, "/grows": html(page), "/hang": hang}
    run(scripts, use, browser={"memory_mb_max": 500, "seconds_max": 120.0})


@ONCE_IN_CI
def test_a_driver_that_is_killed_is_started_again() -> None:
    """The page that was being rendered is returned as it was received."""
    page = f"{SHELL}<script>fetch('/hang')</script>"

    async def hang(seen: SeenRequest, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    async def use(fetcher: ShellAwareFetcher, site: ScriptedSite) -> None:
        task = asyncio.create_task(fetcher.fetch(FetchRequest(url=f"{site.url}/stays")))
        while "/hang" not in site.paths():
            await asyncio.sleep(0.05)
        (instance,) = fetcher.renderer.chromium._instances
        first = processes_of(instance.mark)[0]
        driver = int(Path(f"/proc/{first}/stat").read_text().rpartition(")")[2].split()[1])
        assert driver != os.getpid()
        os.kill(driver, signal.SIGKILL)
        answer = await asyncio.wait_for(task, 300)
        assert answer.body == page.encode()
        fetcher.memory = RenderMemory()
        answer = await fetcher.fetch(FetchRequest(url=f"{site.url}/page"))
        assert TEXT.encode() in answer.body
        assert fetcher.renderer.chromium.n_starts == 2

    scripts = {**SHELL_SITE, "/stays": html(page), "/hang": hang}
    run(scripts, use, browser={"seconds_max": 40.0}, connections_per_host=3)


@ONCE_IN_CI
def test_shadow_roots_and_late_text_are_read() -> None:
    page = """<!doctype html><title>App</title><x-tea></x-tea><noscript>Enable JavaScript</noscript>
    <script type="module">
    customElements.define("x-tea", class extends HTMLElement {
      connectedCallback() {
        this.attachShadow({mode: "open"}).innerHTML = "<h1>Tea</h1><p>WORDS</p><slot></slot>";
      }
    });
    </script>""".replace("WORDS", TEXT)

    async def use(fetcher: ShellAwareFetcher, site: ScriptedSite) -> None:
        answer = await fetcher.fetch(FetchRequest(url=f"{site.url}/shadow"))
        assert TEXT.encode() in answer.body
        assert b"JavaScript" not in answer.body
        assert b"<script" not in answer.body

    run({"/shadow": html(page)}, use)


@ONCE_IN_CI
def test_a_page_that_cannot_be_rendered_is_a_problem_of_its_fetch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(renderer, "_READ_SECONDS_MAX", 1.0)

    async def main() -> None:
        pages: dict[str, Any] = {"/loop": html("<!doctype html><script>for (;;) {}</script>")}
        async with open_site(pages) as site:
            fetcher = BrowserFetcher(
                HttpFetcher(fetch_settings()), browser_settings(seconds_max=20.0)
            )
            answer = await fetcher.fetch(FetchRequest(url=f"{site.url}/loop"))
            assert (answer.body, answer.problem) == (b"", FetchProblem.BAD_ANSWER)
            assert answer.detail == "the scripts of the page do not end"
            await fetcher.close()
            await fetcher.close()

    asyncio.run(main())


def test_wrong_settings_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for changes in ({"seconds_max": 0.0}, {"requests_max": -1}, {"quiet_seconds": float("nan")}):
        with pytest.raises(ConfigError):
            BrowserSettings(**changes)
    with pytest.raises(ConfigError, match="is not a program"):
        BrowserSettings(executable=str(tmp_path) + "/none").find_executable()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="Chromium is not installed"):
        BrowserSettings().find_executable()

    async def main() -> None:
        plain = HttpFetcher(fetch_settings(proxy="http://127.0.0.1:1"))
        with pytest.raises(ConfigError, match="proxy"):
            ShellAwareFetcher(plain)
        await plain.close()

    asyncio.run(main())
