"""What a page needs: its corpus, the person who looks at it, and what that person may do."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import RedirectResponse

from recrawl.dashboard.frame.page_errors import PageError
from recrawl.dashboard.frame.page_rates import PageRates
from recrawl.dashboard.frame.page_reads import PageReads
from recrawl.dashboard.limits import DashboardLimits
from recrawl.dashboard.login.visitors import Visitor, Visitors
from recrawl.messages.samples import STEPS, Sample
from recrawl.service.calls import Service
from recrawl.service.hosting.hosted import HostedCorpus
from recrawl.service.keys import ApiKey, Scope
from recrawl.service.problems import Problem
from recrawl.service.protection.rates import RateLimit

__all__ = [
    "Dashboard",
    "OpenedPage",
    "PageSection",
    "dashboard_of",
    "find_page",
    "open_action",
    "open_page",
    "read_form",
    "see_other",
    "take_visitor",
    "usable_corpora",
]

_T = TypeVar("_T")


class PageSection(NamedTuple):
    """An entry of the navigation."""

    title: str
    path: str
    """End of the path after the name of the corpus; empty for the overview."""


class Dashboard(NamedTuple):
    """Everything that the pages of a server share."""

    service: Service
    limits: DashboardLimits
    visitors: Visitors
    reads: PageReads
    logins: RateLimit
    page_rates: PageRates
    sections: tuple[PageSection, ...]


@dataclass(frozen=True, slots=True)
class OpenedPage:
    """A page of one corpus, as one person sees it."""

    name: str
    """Name of the corpus."""
    hosted: HostedCorpus
    key: ApiKey | None
    """API key of the person; None for a corpus without keys, where everybody may do everything."""
    corpora: tuple[str, ...]
    """Names of all corpora that the person may look at."""
    reads: PageReads

    @property
    def corpus(self) -> Any:
        """Object with the methods of `recrawl.Corpus`; call them by `read` and `change`."""
        return self.hosted.corpus

    @property
    def local(self) -> Any:
        """Corpus with the partitions that are open in this process, which may be all."""
        return self.hosted.local

    @property
    def is_cluster(self) -> bool:
        """Whether several workers share the partitions of the corpus."""
        return hasattr(self.hosted.corpus, "cluster_metrics")

    def allows(self, scope: str) -> bool:
        """Return whether the person may do what needs a scope, such as "admin"."""
        return self.key is None or self.key.allows(Scope(scope))

    async def read(self, function: Callable[..., _T], *args: Hashable, **kwargs: Hashable) -> _T:
        """Return the result of a call that reads the corpus, at most a few seconds old."""
        return await self._between_leases(self.reads.read(self.hosted, function, *args, **kwargs))

    async def read_current(self, function: Callable[..., _T], *args: Hashable) -> _T:
        """Return the result of a quick call, never older than five seconds."""
        return await self._between_leases(self.reads.read_current(self.hosted, function, *args))

    async def read_slow(
        self, version: Hashable, function: Callable[..., _T], *args: Hashable
    ) -> _T:
        """Return the result of a slow call; an older one while a new one is made."""
        reading = self.reads.read_slow(self.hosted, version, function, *args)
        return await self._between_leases(reading)

    async def _between_leases(self, reading: Awaitable[_T]) -> _T:
        """Return what was read when no lease runs, because what the page makes of it takes time."""
        found = await reading
        await self.hosted.give_way()
        return found

    async def read_each_minute(
        self, sample: Sample, function: Callable[..., _T], *args: Hashable
    ) -> _T:
        """Return the result of a slow call that another sample of the state may change.

        The samples of the past have one for each minute.
        """
        return await self.read_slow(sample.at_ms // STEPS["minute"], function, *args)

    async def change(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        """Run a function that changes the corpus; pages show the change at once."""
        try:
            return await self.hosted.change(function, *args, **kwargs)
        finally:
            self.reads.forget(self.hosted)


def dashboard_of(request: Request) -> Dashboard:
    """Return the dashboard that a request was sent to."""
    dashboard: Dashboard = request.app.state.dashboard
    return dashboard


def find_page(request: Request) -> OpenedPage | None:
    """Return the page that a request has opened; None if it has none."""
    page: OpenedPage | None = request.scope.get("state", {}).get("page")
    return page


def take_visitor(request: Request) -> Visitor:
    """Return who opens a page; raise a problem if the visitor has opened too many."""
    dashboard = dashboard_of(request)
    visitor = dashboard.visitors.find(request)
    dashboard.page_rates.take(request, visitor)
    return visitor


def usable_corpora(request: Request) -> list[str]:
    """Return the names of the corpora that a person may look at; raise if none can have a login.

    A corpus without keys, which a proxy or another name does not reach, leaves the others alone.
    """
    dashboard = dashboard_of(request)
    visitor = dashboard.visitors.find(request)
    usable: list[str] = []
    n_closed, refused = 0, None
    for name in dashboard.service.corpora.names:
        try:
            key = dashboard.service.access.admit_page(request, name, visitor.key_id(name))
        except Problem as problem:
            if problem.name == "key-needed":
                n_closed += 1
            else:
                refused = problem
        else:
            if key is None or key.allows(Scope.READ):
                usable.append(name)
    if refused is not None and not usable and not n_closed:
        raise refused
    return usable


def open_page(request: Request, corpus: str, scope: Scope = Scope.READ) -> OpenedPage:
    """Return the page of a request, after checking that the person may look at it.

    Parameters
    ----------
    request
        Request of the browser.
    corpus
        Name of the corpus in its path.
    scope
        Scope that the person's key must have.
    """
    dashboard, visitor = dashboard_of(request), take_visitor(request)
    key = dashboard.service.access.admit_page(request, corpus, visitor.key_id(corpus))
    if key is not None:
        request.state.key_id, request.state.key_name = key.id, key.name
        if not key.allows(scope):
            raise PageError(
                403,
                "Your API key does not allow this",
                f"It needs the scope {scope}; log in with a key that has it.",
            )
    hosted = dashboard.service.corpora.find(corpus)
    page = OpenedPage(corpus, hosted, key, tuple(usable_corpora(request)), dashboard.reads)
    request.state.page = page
    return page


async def open_action(
    request: Request, corpus: str, scope: Scope, action: str
) -> tuple[OpenedPage, dict[str, str]]:
    """Return the page and the fields of a form that changes something, after all checks.

    The audit log of the corpus gets an entry with the name of the person's key.  The parameters of
    the path other than ``corpus``, such as the name of a host, are its target.

    Parameters
    ----------
    request
        Request of the browser.
    corpus
        Name of the corpus in its path.
    scope
        Scope that the person's key must have.
    action
        Name of the action in the audit log: "set the delay of a host".
    """
    request.state.action = f"dashboard: {action}"
    try:
        page = open_page(request, corpus, scope)
    except PageError:
        request.state.is_admin = True  # a known person who may not do this
        raise
    # Not before: requests of strangers could fill the audit log.
    request.state.is_admin = True
    return page, await read_form(request)


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form, after checking that a page of this server has sent it.

    Parameters
    ----------
    request
        Request with the form.
    """
    dashboard = dashboard_of(request)
    limits = dashboard.limits
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != "application/x-www-form-urlencoded":
        raise Problem("unknown-format", "send a form as application/x-www-form-urlencoded")
    try:
        async with asyncio.timeout(limits.form_seconds_max):
            data = await _read_body(request, limits.form_bytes_max)
    except TimeoutError:
        raise Problem("body-too-slow", "the form did not arrive in time") from None
    try:
        fields = dict(
            parse_qsl(
                data.decode("ascii"),
                keep_blank_values=True,
                errors="strict",
                max_num_fields=limits.fields_max,
            )
        )
    except ValueError:
        raise Problem("invalid-body", "the form cannot be read") from None
    dashboard.visitors.check_form(request, fields.pop("token", ""))
    return fields


async def _read_body(request: Request, n_bytes_max: int) -> bytes:
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > n_bytes_max:
            raise Problem("body-too-large", f"a form has at most {n_bytes_max:,} bytes")
    return bytes(data)


def see_other(path: str) -> RedirectResponse:
    """Return an answer that leads to a page of the dashboard, after a form was taken.

    Parameters
    ----------
    path
        Path of ours, never one that a request gives.
    """
    return RedirectResponse(path, 303)
