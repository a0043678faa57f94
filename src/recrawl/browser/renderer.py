"""Render one page: run its scripts on a document that has been fetched, and read what it shows."""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Final

from playwright.async_api import BrowserContext, CDPSession, Dialog, Error, Page

from recrawl.browser.chromium import Chromium
from recrawl.browser.guarding_proxy import GuardingProxy
from recrawl.browser.page_traffic import PageTraffic
from recrawl.browser.script_cache import ScriptCache
from recrawl.browser.settings import BrowserSettings
from recrawl.errors import ConfigError
from recrawl.fetch.fetch_time import FetchTime, SystemTime
from recrawl.fetch.fetcher import FetchAnswer, FetchRedirect
from recrawl.fetch.guarded_sockets import SystemResolver
from recrawl.fetch.http_fetcher import HttpFetcher

__all__ = ["RenderedPage", "Renderer"]

_LOOK_SECONDS: Final = 0.05
_READ_SECONDS_MAX: Final = 10.0
# Runs beside the scripts of the page, which cannot change it.  Elements are copied to a document
# in which nothing runs; content of shadow roots is put where readers of HTML look for it.
_READ_PAGE: Final = """
(charactersMax) => {
  const inert = document.implementation.createHTMLDocument("");
  const isDropped = (node) => {
    if (node.nodeType === 8) return true;
    if (node.nodeType !== 1) return false;
    const name = node.localName;
    if (name === "noscript" || name === "style") return true;
    return name === "script" && !/json/.test(node.type);
  };
  const stack = [];
  const push = (node, parent) => {
    const copy = inert.importNode(node, false);
    parent.appendChild(copy);
    stack.push([node, copy]);
  };
  const root = inert.createElement("div");
  if (document.documentElement) push(document.documentElement, root);
  while (stack.length) {
    const [node, copy] = stack.pop();
    const children = [...(node.shadowRoot ? node.shadowRoot.childNodes : []), ...node.childNodes];
    for (const child of children) if (!isDropped(child)) push(child, copy);
  }
  const text = "<!DOCTYPE html>" + root.innerHTML;
  return text.length > charactersMax ? "" : text;
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedPage:
    """What a page shows after its scripts have run, and what that cost.

    Parameters
    ----------
    body
        HTML in UTF-8, without scripts and styles; empty if rendering failed.
    document
        Answer with the document that the page showed in the end.
    redirects
        Documents from which scripts navigated to another one.
    seconds
        Seconds of rendering, without waits for the delays of hosts.
    n_bytes_received
        Bytes that the page received, the first document not included.
    n_requests
        Requests of the page, the first document not included.
    problem
        Sentence that says why rendering failed, or which limit ended it; empty if nothing did.
    """

    body: bytes
    document: FetchAnswer
    redirects: tuple[FetchRedirect, ...] = ()
    seconds: float = 0.0
    n_bytes_received: int = 0
    n_requests: int = 0
    problem: str = ""


class Renderer:
    """Renders documents that a plain fetcher has fetched.

    Parameters
    ----------
    plain
        Fetcher of documents and robots.txt files, whose gate and guard hold for the browser too.
    settings
        Limits.
    time
        Clock; the system's if None.

    Raises
    ------
    ConfigError
        If Chromium is not installed, or the plain fetcher uses a proxy.
    """

    def __init__(
        self, plain: HttpFetcher, settings: BrowserSettings, *, time: FetchTime | None = None
    ) -> None:
        self._plain = plain
        self._settings = settings
        self._time = SystemTime() if time is None else time
        if plain.settings.proxy is not None:
            raise ConfigError("a browser cannot be used together with FetchSettings.proxy")
        self._own_resolver = SystemResolver() if plain.resolver is None else None
        self._resolver = plain.resolver or self._own_resolver or SystemResolver()
        self._scripts = ScriptCache(settings.script_cache_bytes_max)
        self._slots = asyncio.Semaphore(settings.pages_at_once_max)
        self.chromium = Chromium(
            settings, plain.guard, self._resolver, user_agent=plain.settings.user_agent
        )
        """Processes of the browser."""

    async def render(self, document: FetchAnswer) -> RenderedPage:
        """Run the scripts of a document, and return what it shows; nothing raises.

        Parameters
        ----------
        document
            Answer of the plain fetcher, an HTML page.
        """
        async with self._slots:
            loop = asyncio.get_running_loop()
            started = loop.time()
            limits = self._plain.settings
            proxy = GuardingProxy(
                self._settings,
                self._plain.guard,
                self._resolver,
                connect_seconds_max=limits.connect_seconds_max,
                idle_seconds_max=limits.idle_seconds_max,
            )
            traffic = PageTraffic(
                self._settings, self._plain, self._scripts, self._time, proxy, document
            )
            body, problem = b"", ""
            try:
                await proxy.open()
                async with self.chromium.open_context(proxy) as context:
                    try:
                        body, problem = await self._show(context, traffic, proxy)
                    finally:
                        # First, because the browser sends requests that nobody has decided
                        # about when its page is closed.
                        await proxy.close()
                        await traffic.end()
            except Exception as error:  # whatever a page makes the browser do is an answer
                problem = str(error)[:200] or type(error).__name__
            finally:
                await proxy.close()
            return RenderedPage(
                body=body,
                document=traffic.document,
                redirects=tuple(traffic.redirects),
                seconds=max(loop.time() - started - traffic.waited_seconds, 1e-6),
                n_bytes_received=proxy.n_bytes_received + traffic.document_bytes,
                n_requests=traffic.n_requests,
                problem=problem,
            )

    async def close(self) -> None:
        """End the browser; a second call has no effect."""
        await self.chromium.close()
        if self._own_resolver is not None:
            await self._own_resolver.close()

    async def _show(
        self, context: BrowserContext, traffic: PageTraffic, proxy: GuardingProxy
    ) -> tuple[bytes, str]:
        """Open the document, wait until its scripts are done, and return its HTML."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._settings.seconds_max
        page = await context.new_page()
        crashed = asyncio.Event()
        page.on("crash", lambda _: crashed.set())
        page.on("dialog", lambda dialog: asyncio.ensure_future(_dismiss(dialog)))
        context.on("page", lambda other: asyncio.ensure_future(_close_page(other)))
        await traffic.attach(context, page)
        session = await context.new_cdp_session(page)
        try:
            async with asyncio.timeout_at(until):
                await page.goto(
                    traffic.document.final_url,
                    wait_until="commit",
                    timeout=self._settings.seconds_max * 1000,
                )
                while not (crashed.is_set() or proxy.limit_reached):
                    if self.chromium.has_ended(context):
                        raise Error("the browser ended")
                    if await self._is_complete(session, traffic):
                        break
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError:
            pass
        if crashed.is_set():
            return b"", "the page took more memory than script_memory_mb_max, or crashed"
        try:
            async with asyncio.timeout(_READ_SECONDS_MAX):
                text = await self._read(session)
        except TimeoutError:
            return b"", "the scripts of the page do not end"
        if not text:
            return b"", "the page is larger than body_bytes_max"
        body = text.encode("utf-8", "replace")
        return body, "" if proxy.limit_reached is None else f"{proxy.limit_reached} was reached"

    async def _is_complete(self, session: CDPSession, traffic: PageTraffic) -> bool:
        """Return whether a page has been quiet, and has run the scripts that it has."""
        loop = asyncio.get_running_loop()
        if not _is_quiet(traffic, loop.time() - self._settings.quiet_seconds):
            return False
        # The page answers when its scripts let it, on a busy machine after some seconds.
        answer = await session.send("Runtime.evaluate", {"expression": "document.readyState"})
        if answer["result"].get("value") != "complete":
            return False
        # This answer may come before the event of a request that a script has just begun.
        await asyncio.sleep(_LOOK_SECONDS)
        return _is_quiet(traffic, loop.time() - self._settings.quiet_seconds)

    async def _read(self, session: CDPSession) -> str:
        """Return the HTML of a page, by a script that the page cannot reach."""
        frame = (await session.send("Page.getFrameTree"))["frameTree"]["frame"]
        if not frame["url"].startswith(("http:", "https:")):
            # A page of the browser itself, about a failure.
            raise Error("the browser did not show the page")
        world = await session.send("Page.createIsolatedWorld", {"frameId": frame["id"]})
        answer = await session.send(
            "Runtime.evaluate",
            {
                "expression": f"({_READ_PAGE})({self._plain.settings.body_bytes_max})",
                "contextId": world["executionContextId"],
                "returnByValue": True,
            },
        )
        return str(answer["result"].get("value") or "")


def _is_quiet(traffic: PageTraffic, since: float) -> bool:
    return traffic.is_quiet and traffic.changed_at <= since


async def _dismiss(dialog: Dialog) -> None:
    """Close an alert or a question, for which scripts would wait."""
    with contextlib.suppress(Error):
        await dialog.dismiss()


async def _close_page(page: Page) -> None:
    """Close a window that a script has opened."""
    with contextlib.suppress(Error):
        await page.close()
