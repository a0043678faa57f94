"""Which requests of a page are sent: politely, few, and none that the text does not need.

The browser asks here before each request of its page.  This is where politeness is decided, with
whole URLs; what must never happen is prevented by `recrawl.browser.guarding_proxy`, which also sees
what does not pass here.
"""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from playwright.async_api import BrowserContext, Error, Page, Request, Route

from recrawl.browser.guarding_proxy import GuardingProxy
from recrawl.browser.script_cache import ScriptCache
from recrawl.browser.settings import BrowserSettings
from recrawl.fetch.fetch_time import FetchTime
from recrawl.fetch.fetcher import FetchAnswer, FetchRedirect, FetchRequest
from recrawl.fetch.http_fetcher import HttpFetcher
from recrawl.fetch.target_urls import parse_target
from recrawl.signals.headers import parse_retry_after

__all__ = ["PageTraffic", "is_html_page"]

_T = TypeVar("_T")

# Types of requests, as Playwright names them, that can bring text.
_WITH_TEXT: Final = frozenset({"script", "xhr", "fetch"})
_SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
_ASKS_FOR_FEWER: Final = frozenset({429, 503})
# A page that asks for the same URL again and again waits for news, not for its text.
_SAME_URL_MAX: Final = 2
# These belong to the connection on which the document came, or to its validators.
_DROPPED_HEADERS: Final = frozenset(
    {"connection", "content-encoding", "content-length", "set-cookie", "transfer-encoding"}
)


def is_html_page(answer: FetchAnswer) -> bool:
    """Return whether an answer is a page that a browser can render.

    Parameters
    ----------
    answer
        Answer of a plain fetch.
    """
    kind = (answer.content_type or "").partition(";")[0].strip().lower()
    is_html = kind in ("text/html", "application/xhtml+xml")
    return answer.problem is None and answer.status == 200 and is_html and bool(answer.body)


class PageTraffic:
    """Decides about the requests of one page, and counts them.

    Parameters
    ----------
    settings
        Limits.
    plain
        Fetcher of documents and robots.txt files, whose gate all requests pass.
    scripts
        Scripts of other pages.
    time
        Clock.
    proxy
        Proxy of the page.
    document
        Answer with the document to render.
    """

    def __init__(
        self,
        settings: BrowserSettings,
        plain: HttpFetcher,
        scripts: ScriptCache,
        time: FetchTime,
        proxy: GuardingProxy,
        document: FetchAnswer,
    ) -> None:
        self._settings = settings
        self._plain = plain
        self._scripts = scripts
        self._time = time
        self._proxy = proxy
        self._page: Page | None = None
        self._is_first = True
        self._n_documents = 0
        self._entered: dict[Request, tuple[str, float]] = {}
        self._pending: set[Request] = set()
        self._sent: set[Request] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._n_of_url: Counter[str] = Counter()
        self._n_waiting = 0
        self._waiting_since = 0.0
        self._is_over = False
        self.document = document
        """Answer with the document that the page shows."""
        self.redirects: list[FetchRedirect] = []
        """Documents from which scripts navigated to another one."""
        self.changed_at = asyncio.get_running_loop().time()
        """When a request last began or ended, in seconds of the event loop."""
        self.waited_seconds = 0.0
        """Seconds in which a request waited for its host."""
        self.n_requests = 0
        """Requests that were sent for the page, the first document not included."""
        self.document_bytes = 0
        """Bytes received for the documents that scripts navigated to."""
        self.n_stopped: Counter[str] = Counter()
        """Requests that were not sent, by reason."""

    @property
    def is_quiet(self) -> bool:
        """Whether no request is under way."""
        return not self._pending

    async def attach(self, context: BrowserContext, page: Page) -> None:
        """Decide about all requests of a context from now on.

        Parameters
        ----------
        context
            Context of the page.
        page
            Page whose main frame may show documents.
        """
        self._page = page
        context.on("request", self._note_start)
        context.on("requestfinished", self._note_end)
        context.on("requestfailed", self._note_end)
        await context.route("**/*", self._decide)

    async def end(self) -> None:
        """Free the hosts that requests of the page still hold."""
        self._is_over = True
        for request in list(self._entered):
            self._leave(request)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _note_start(self, request: Request) -> None:
        """Count the hops of a redirect, about which the browser does not ask."""
        if request.redirected_from is not None and request.redirected_from in self._sent:
            self._expect(request)

    def _expect(self, request: Request) -> None:
        """Note that a request will be answered; those that are stopped do not delay the end."""
        self._sent.add(request)
        self._pending.add(request)
        self.changed_at = asyncio.get_running_loop().time()

    def _note_end(self, request: Request) -> None:
        if request in self._entered and not self._is_over:
            task = asyncio.ensure_future(self._read_answer(request))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if request in self._pending:
            self._pending.discard(request)
            self.changed_at = asyncio.get_running_loop().time()

    async def _read_answer(self, request: Request) -> None:
        """Tell the gate how a host answered, and keep a script for other pages."""
        try:
            response = None if request.failure else await request.response()
            if response is None:
                self._leave(request)
                return
            retry_after = None
            is_failure = response.status in _ASKS_FOR_FEWER
            if is_failure:
                now_ms = self._time.now_ms()
                retry_after = parse_retry_after(response.headers.get("retry-after"), now_ms=now_ms)
            self._leave(request, is_failure=is_failure, retry_after_seconds=retry_after)
            if request.resource_type == "script" and response.status == 200:
                headers = await response.all_headers()
                body = await response.body()
                self._scripts.put(request.url, headers, body, now_ms=self._time.now_ms())
        except Error:  # the page was closed meanwhile
            self._leave(request)

    def _leave(
        self,
        request: Request,
        *,
        is_failure: bool = False,
        retry_after_seconds: float | None = None,
    ) -> None:
        host, started = self._entered.pop(request, (None, 0.0))
        if host is not None:
            self._plain.gate.leave(
                host,
                seconds=asyncio.get_running_loop().time() - started,
                is_failure=is_failure,
                retry_after_seconds=retry_after_seconds,
            )

    async def _decide(self, route: Route, request: Request) -> None:
        """Send, answer or stop one request."""
        try:
            if request.is_navigation_request():
                await self._show_document(route, request)
                return
            reason = await self._send(route, request)
            if reason is not None:
                self.n_stopped[reason] += 1
                self._pending.discard(request)
                await route.abort("blockedbyclient")
        except Error:  # the page was closed meanwhile
            self._leave(request)
        except asyncio.CancelledError:
            self._leave(request)
            raise

    async def _send(self, route: Route, request: Request) -> str | None:
        """Send a request when its host may be contacted, or answer it; return why not."""
        if request.resource_type == "stylesheet":
            # Scripts may wait for a style sheet; the text does not need its content.
            self._expect(request)
            await route.fulfill(status=200, content_type="text/css", body="")
            return None
        if request.resource_type not in _WITH_TEXT:
            return "type"
        if request.method not in _SAFE_METHODS:
            return "method"
        target = parse_target(request.url)
        if target is None:
            return "url"
        if request.resource_type == "script":
            script = self._scripts.find(request.url, now_ms=self._time.now_ms())
            if script is not None:
                self._expect(request)
                await route.fulfill(status=200, headers=script.headers, body=script.body)
                return None
        self._n_of_url[target.text] += 1
        if self._n_of_url[target.text] > _SAME_URL_MAX:
            return "repeated"
        if self.n_requests >= self._settings.requests_max:
            return "requests_max"
        self.n_requests += 1
        self._expect(request)
        reason = await self._while_open(self._wait_for_host(request.url, target.host), "over")
        if reason is not None:
            self.n_requests -= 1
            return reason
        self._entered[request] = (target.host, asyncio.get_running_loop().time())
        if self._is_over:
            self._leave(request)
            return "over"
        self._proxy.admit(target.host, target.port)
        await route.continue_()
        return None

    async def _wait_for_host(self, url: str, host: str) -> str | None:
        """Wait until a request may be sent; return why it may not."""
        if self._plain.settings.obey_robots:
            file = await self._plain.robots(url)
            if file is None:
                return "robots"
            delay = file.rules.crawl_delay_seconds if file.rules is not None else None
            self._plain.gate.set_crawl_delay(host, delay or 0.0)
            if not file.allows(url):
                return "robots"
        return "host_delay" if await self._plain.gate.enter(host) else None

    async def _while_open(self, wait: Coroutine[Any, Any, _T], otherwise: _T) -> _T:
        """Wait for hosts, which costs nothing; end with another result when the page ends."""
        loop = asyncio.get_running_loop()
        if not self._n_waiting:
            self._waiting_since = loop.time()
        self._n_waiting += 1
        task = asyncio.ensure_future(wait)
        self._tasks.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if not self._is_over or not task.cancelled():
                raise
            return otherwise
        finally:
            self._tasks.discard(task)
            self._n_waiting -= 1
            if not self._n_waiting:
                self.waited_seconds += loop.time() - self._waiting_since

    async def _show_document(self, route: Route, request: Request) -> None:
        """Give the main frame its document, which the plain fetcher has fetched or fetches now."""
        reason = None if self._is_main(request) else "frame"
        answer = self.document
        self._expect(request)
        if reason is None and not self._is_first:
            if request.method != "GET":
                reason = "method"
            elif self._n_documents >= self._settings.documents_max:
                reason = "documents_max"
            else:
                self._n_documents += 1
                fetch = self._plain.fetch(FetchRequest(url=request.url))
                answer = await self._while_open(fetch, answer)
                self.document_bytes += answer.n_bytes_received
                self.n_requests += answer.n_requests
                if self._is_over or not is_html_page(answer):
                    reason = "document"
        if reason is not None:
            self.n_stopped[reason] += 1
            self._pending.discard(request)
            # With any other code the browser would show a page of its own about the failure.
            await route.abort("aborted")
            return
        if not self._is_first:
            self.redirects.append(FetchRedirect(self.document.final_url, self.document.status))
            self.document = answer
        self._is_first = False
        headers = {
            name: value for name, value in answer.headers.items() if name not in _DROPPED_HEADERS
        }
        await route.fulfill(status=200, headers=headers, body=answer.body)

    def _is_main(self, request: Request) -> bool:
        try:
            return self._page is not None and request.frame == self._page.main_frame
        except Error:  # a new page has no frame yet
            return False
