"""Fetchers that render pages: one that always does, and one that does where it brings text."""

import asyncio
from collections import Counter
from dataclasses import replace

from recrawl.browser.page_traffic import is_html_page
from recrawl.browser.render_memory import (
    PageGrade,
    RenderMemory,
    grade_page,
    has_script,
    is_gain,
)
from recrawl.browser.renderer import RenderedPage, Renderer
from recrawl.browser.settings import BrowserSettings
from recrawl.content import observe
from recrawl.fetch.fetcher import FetchAnswer, FetchKind, FetchProblem, FetchRequest
from recrawl.fetch.host_gate import HostGate
from recrawl.fetch.http_fetcher import HttpFetcher
from recrawl.fetch.robots import RobotsFile
from recrawl.fetch.settings import FetchSettings
from recrawl.fetch.target_urls import parse_target

__all__ = ["BrowserFetcher", "ShellAwareFetcher"]

# Validators belong to the document that was sent, which may stay the same while its text changes.
_DROPPED_HEADERS = frozenset({"content-encoding", "content-length", "etag", "last-modified"})


class BrowserFetcher:
    """Renders every HTML page.

    The document itself is fetched by a plain fetcher: robots.txt, delays, redirects, limits and
    problems are those of `recrawl.fetch.HttpFetcher`.  The browser then runs its scripts.

    Parameters
    ----------
    plain
        Fetcher of documents; closed with this one.
    settings
        Limits of the browser.

    Raises
    ------
    ConfigError
        If Chromium is not installed, or the plain fetcher uses a proxy.
    """

    def __init__(self, plain: HttpFetcher, settings: BrowserSettings | None = None) -> None:
        self.plain = plain
        """Fetcher of documents."""
        self.renderer = Renderer(plain, settings or BrowserSettings())
        """Browser that renders them."""
        self.n_rendered = 0
        """Pages that were rendered."""
        self.render_problems: Counter[str] = Counter()
        """Pages whose rendering failed or was cut off, by reason."""

    @property
    def settings(self) -> FetchSettings:
        """Settings of the plain fetcher."""
        return self.plain.settings

    @property
    def gate(self) -> HostGate:
        """Delays of hosts."""
        return self.plain.gate

    async def robots(self, url: str) -> RobotsFile | None:
        """Return the robots.txt file that holds for a URL; None if it cannot be fetched yet.

        Parameters
        ----------
        url
            Absolute URL of any page of the site.
        """
        return await self.plain.robots(url)

    async def fetch(self, request: FetchRequest) -> FetchAnswer:
        """Fetch one URL, and render it if it is an HTML page.

        Parameters
        ----------
        request
            URL, validators and kind.
        """
        if request.kind != FetchKind.PAGE:
            return await self.plain.fetch(request)
        answer = await self.plain.fetch(request)
        if not is_html_page(answer):
            return answer
        page = await self._render(answer)
        if page.body:
            return _as_rendered(answer, page)
        failed = _with_cost(answer, page)
        return replace(failed, body=b"", problem=FetchProblem.BAD_ANSWER, detail=page.problem)

    async def close(self) -> None:
        """End the browser and close all connections; a second call has no effect."""
        await self.renderer.close()
        await self.plain.close()

    async def _render(self, answer: FetchAnswer) -> RenderedPage:
        page = await self.renderer.render(answer)
        self.n_rendered += 1
        if page.problem:
            self.render_problems[page.problem] += 1
        return page


class ShellAwareFetcher(BrowserFetcher):
    """Fetches pages plainly, and renders those whose plain answer lacks its text.

    Which hosts have such pages is learned.  A page for which rendering brings no text is returned
    as the plain fetcher received it, at the cost of both.

    Parameters
    ----------
    plain
        Fetcher of documents; closed with this one.
    settings
        Limits of the browser.
    memory
        Memory of what rendering brought on each host; a new one if None.

    Raises
    ------
    ConfigError
        If Chromium is not installed, or the plain fetcher uses a proxy.
    """

    def __init__(
        self,
        plain: HttpFetcher,
        settings: BrowserSettings | None = None,
        memory: RenderMemory | None = None,
    ) -> None:
        super().__init__(plain, settings)
        self.memory = RenderMemory() if memory is None else memory
        """What is known of hosts."""

    async def fetch(self, request: FetchRequest) -> FetchAnswer:
        """Fetch one URL, and render it if its plain answer is a shell.

        Parameters
        ----------
        request
            URL, validators and kind.
        """
        answer = await self.plain.fetch(request)
        if request.kind != FetchKind.PAGE or not is_html_page(answer):
            return answer
        if not has_script(answer.body):
            return answer
        # In a thread: reading a page takes milliseconds, and compiles kernels at the first time.
        before = await asyncio.to_thread(observe, answer.body, answer.content_type)
        grade = grade_page(before, answer.body)
        target = parse_target(answer.final_url)
        if grade == PageGrade.FULL or target is None:
            return answer
        if not self.memory.wants(target.host, grade):
            return answer
        page = await self._render(answer)
        rendered = _as_rendered(answer, page)
        after = await asyncio.to_thread(observe, page.body, rendered.content_type)
        has_gained = bool(page.body) and is_gain(before, after)
        self.memory.learn(target.host, grade, is_gain=has_gained)
        return rendered if has_gained else _with_cost(answer, page)

    async def close(self) -> None:
        """Save the memory, end the browser, close all connections; may be called twice."""
        self.memory.save()
        await super().close()


def _with_cost(answer: FetchAnswer, page: RenderedPage) -> FetchAnswer:
    """Return an answer with the cost of rendering added."""
    return replace(
        answer,
        seconds=answer.seconds + page.seconds,
        n_bytes_received=answer.n_bytes_received + page.n_bytes_received,
        n_requests=answer.n_requests + page.n_requests,
    )


def _as_rendered(answer: FetchAnswer, page: RenderedPage) -> FetchAnswer:
    """Return the rendered page as an answer."""
    shown = page.document
    headers = {name: text for name, text in shown.headers.items() if name not in _DROPPED_HEADERS}
    return replace(
        _with_cost(answer, page),
        final_url=shown.final_url,
        body=page.body,
        headers=headers | {"content-type": "text/html; charset=utf-8"},
        redirects=(*answer.redirects, *page.redirects),
    )
