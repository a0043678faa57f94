"""The local web: what each host answers to each request, without sockets."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

from recrawl.sim.pages import AnswerFault
from recrawl.sim.pages.draws import Draws
from recrawl.testing.web.hints import answer_feed, answer_sitemap, sitemap_path
from recrawl.testing.web.pages import HostPages, http_date
from recrawl.testing.web.replies import RETRY_AFTER_SECONDS, Reply, spoil
from recrawl.testing.web.robots import answer_robots, is_allowed
from recrawl.testing.web.traits import (
    FeedKind,
    HostTraits,
    MissingPage,
    ReplyFault,
    RobotsKind,
    TlsKind,
)

__all__ = ["LocalWeb", "RequestKind", "WebPage"]

_HTML = (("Content-Type", "text/html; charset=utf-8"),)
_N_LINKS = 100
_REDIRECTS = {
    ReplyFault.REDIRECT: (301, 1),
    ReplyFault.REDIRECT_TEMPORARY: (302, 1),
    ReplyFault.REDIRECT_CHAIN: (301, 4),
    ReplyFault.REDIRECT_LONG: (302, 40),
}
_STATUSES = {
    ReplyFault.NOT_FOUND: 404,
    ReplyFault.GONE: 410,
    ReplyFault.FORBIDDEN: 403,
    ReplyFault.SERVER_ERROR: 500,
    ReplyFault.TOO_MANY: 429,
    ReplyFault.TOO_MANY_SECONDS: 429,
    ReplyFault.TOO_MANY_DATE: 429,
    ReplyFault.UNAVAILABLE: 503,
    ReplyFault.UNAVAILABLE_SECONDS: 503,
    ReplyFault.BAD_RETRY_AFTER: 503,
}
_FAULTS = {fault.value: fault for fault in ReplyFault}
_PRIVATE_URL = "http://169.254.169.254/latest/meta-data/"


class RequestKind(StrEnum):
    """What a request asked for."""

    PAGE = "page"
    ROBOTS = "robots"
    SITEMAP = "sitemap"
    FEED = "feed"


class WebPage(NamedTuple):
    """A page of the local web."""

    host: str
    page: int
    url: str


class LocalWeb:
    """Hosts with pages whose truth is known, and what they answer.

    It opens no sockets; `recrawl.testing.web.serve` does.

    Parameters
    ----------
    host_traits
        Traits of each host.
    started_at_ms
        Instant at which the histories of the pages begin, in milliseconds since 1970.
    page_speed
        Factor by which pages change faster than those of `recrawl.sim.pages`.
    port
        Port in the URLs; ``None`` for URLs without one, which need a resolver that knows the port.
    is_by_address
        Whether URLs have addresses (127.0.0.2, 127.0.0.3, …) instead of the names of hosts.  A
        single host has 127.0.0.1, the only one that every system has.

    Examples
    --------
    >>> web = LocalWeb([HostTraits(name="one.example", n_pages=3)], started_at_ms=1_767_225_600_000)
    >>> [page.url for page in web.pages()]
    ['http://one.example/0', 'http://one.example/1', 'http://one.example/2']
    """

    def __init__(
        self,
        host_traits: Iterable[HostTraits],
        *,
        started_at_ms: int,
        page_speed: float = 1.0,
        port: int | None = None,
        is_by_address: bool = False,
    ) -> None:
        self.started_at_ms = started_at_ms
        self.page_speed = page_speed
        self.is_by_address = is_by_address
        self.hosts: dict[str, HostPages] = {}
        self.addresses: dict[str, str] = {}  # of hosts, by address
        all_traits = list(host_traits)
        first = 1 if is_by_address and len(all_traits) == 1 else 2
        for row, traits in enumerate(all_traits):
            if traits.name in self.hosts:
                raise ValueError(f"names of hosts must be different, got {traits.name!r} twice")
            address = f"127.0.{row // 250}.{row % 250 + first}"
            self.addresses[address] = traits.name
            self.hosts[traits.name] = HostPages(traits, "", started_at_ms, page_speed)
        self.set_ports(port)

    def set_ports(self, port: int | None, tls_ports: Mapping[TlsKind, int] | None = None) -> None:
        """Set the ports in the URLs; without one they have none.

        Parameters
        ----------
        port
            Port of plain HTTP.
        tls_ports
            Ports of HTTPS, by what is wrong with it.
        """
        for address, name in self.addresses.items():
            pages = self.hosts[name]
            host = address if self.is_by_address else name
            scheme, wanted = "http", port
            if pages.traits.tls is not None:
                scheme, wanted = "https", (tls_ports or {}).get(pages.traits.tls)
            pages.origin = f"{scheme}://{host}" + ("" if wanted is None else f":{wanted}")

    # ------------------------------------------------------------------ truth

    def pages(self) -> Iterator[WebPage]:
        """Yield all pages of all hosts."""
        for name, host in self.hosts.items():
            for page in range(host.traits.n_pages):
                yield WebPage(name, page, host.url(page))

    def reachable_pages(self) -> Iterator[WebPage]:
        """Yield the pages that a crawler can get if it obeys robots.txt.

        Pages that some robots.txt allows only at times are left out.
        """
        unsure = (RobotsKind.CHANGES, RobotsKind.UNREACHABLE_AT_FIRST)
        for found in self.pages():
            traits = self.hosts[found.host].traits
            if traits.tls not in (None, TlsKind.RIGHT):
                continue
            path = self.hosts[found.host].path(found.page)
            # Late is after all that changes, early is before it.
            instants = (0.0, 1e9) if traits.robots in unsure else (0.0,)
            if all(is_allowed(traits, path, at) for at in instants):
                yield found

    def find_page(self, url: str) -> WebPage | None:
        """Return the page with a URL, or ``None`` if no host has it."""
        scheme, _, rest = url.partition("://")
        host, slash, path = rest.partition("/")
        name = self.host_named(host)
        if name is None or not slash or scheme not in ("http", "https"):
            return None
        page = self.hosts[name].page_at("/" + path)
        return None if page < 0 else WebPage(name, page, self.hosts[name].url(page))

    def host_named(self, text: str, address: str = "") -> str | None:
        """Return the name of a host from a Host header, or else from the address it was sent to."""
        name = text.partition(":")[0].lower().rstrip(".")
        if name in self.hosts:
            return name
        return self.addresses.get(name) or self.addresses.get(address)

    def since_start_seconds(self, at_ms: int) -> float:
        """Return the time since the web started."""
        return (at_ms - self.started_at_ms) / 1_000

    # ------------------------------------------------------------------ answers

    def answer(self, host: str, path: str, at_ms: int, headers: dict[str, str]) -> Reply:
        """Return the answer of a host.

        Parameters
        ----------
        host
            Name of the host.
        path
            Path with its query.
        at_ms
            Instant of the request, in milliseconds since 1970.
        headers
            Headers of the request, with names in lower case.
        """
        pages = self.hosts[host]
        reply = self._route(pages, path, at_ms, headers)
        return replace(reply, wait_seconds=reply.wait_seconds + pages.traits.answer_seconds)

    def _route(self, pages: HostPages, path: str, at_ms: int, headers: dict[str, str]) -> Reply:
        traits = pages.traits
        page = pages.page_at(path)
        if page >= 0:
            fault = self._drawn_fault(traits, path, at_ms)
            if fault is not None:
                return self._faulty(pages, fault, page, path, at_ms, headers)
            return pages.answer(page, at_ms, headers)
        if path in ("/robots.txt", "/robots/rules.txt"):
            place = sitemap_path(traits.sitemap)
            url = None if place is None else pages.origin + place
            return answer_robots(traits, path, self.since_start_seconds(at_ms), url)
        found = answer_sitemap(pages, path, at_ms) or answer_feed(pages, path, at_ms)
        if found is not None:
            return found
        if path == "/" or path.startswith("/list/"):
            listing = _link_list(pages, path)
            if listing is not None:
                return listing
        if path.startswith("/fault/"):
            fault, page = _parse_fault(path)
            if fault is not None:
                return self._faulty(pages, fault, page % traits.n_pages, path, at_ms, headers)
        if path.startswith("/moved/"):
            return self._hop(pages, path, at_ms, headers)
        if path.startswith("/calendar/") and traits.has_calendar:
            month = _calendar(pages, path)
            if month is not None:
                return month
        return self._answer_missing(pages, at_ms, headers)

    def _answer_missing(self, pages: HostPages, at_ms: int, headers: dict[str, str]) -> Reply:
        kind = pages.traits.missing
        if kind is MissingPage.HOME_PAGE:
            return Reply(status=302, headers=(("Location", "/"),))
        if kind is MissingPage.SOFT_404:
            found = pages.wrong_answer(AnswerFault.SOFT_404, 0, at_ms, headers)
            return replace(found, page=-1)
        status = 404 if kind is MissingPage.NOT_FOUND else 410
        return Reply(status=status, headers=_HTML, body=b"<h1>Not here</h1>\n")

    def _drawn_fault(self, traits: HostTraits, path: str, at_ms: int) -> ReplyFault | None:
        if not traits.faults:
            return None
        draw = Draws(traits.name, "reply fault", path, at_ms).uniform()
        for fault, share in traits.faults:
            draw -= share
            if draw < 0:
                return fault
        return None

    def _faulty(
        self,
        pages: HostPages,
        fault: ReplyFault,
        page: int,
        path: str,
        at_ms: int,
        headers: dict[str, str],
    ) -> Reply:
        if fault in _STATUSES:
            return _status_reply(fault, page, at_ms)
        if fault is ReplyFault.SOFT_404:
            return pages.wrong_answer(AnswerFault.SOFT_404, page, at_ms, headers)
        if fault is ReplyFault.BLOCKED:
            return pages.wrong_answer(AnswerFault.BLOCKED, page, at_ms, headers)
        if fault is ReplyFault.EMPTY:
            return Reply(headers=_HTML, page=page, fault=fault)
        if fault in _REDIRECTS:
            status, n_hops = _REDIRECTS[fault]
            return _redirect(f"/moved/{status}/{n_hops - 1}/{page}", status, page, fault)
        if fault is ReplyFault.REDIRECT_LOOP:
            return _redirect(path, 302, page, fault)
        if fault is ReplyFault.REDIRECT_OTHER_HOST:
            names = list(self.hosts)
            other = self.hosts[names[(names.index(pages.traits.name) + 1) % len(names)]]
            return _redirect(other.url(0), 301, page, fault)
        if fault is ReplyFault.REDIRECT_NOWHERE:
            return Reply(status=301, page=page, fault=fault)
        if fault is ReplyFault.REDIRECT_BAD:
            return _redirect("http://[::bad]:port/\\", 301, page, fault)
        if fault is ReplyFault.REDIRECT_PRIVATE:
            return _redirect(_PRIVATE_URL, 302, page, fault)
        whole = pages.answer(page, at_ms, {})
        return spoil(whole, fault)

    def _hop(self, pages: HostPages, path: str, at_ms: int, headers: dict[str, str]) -> Reply:
        """Return one hop of a chain of redirects, and the page at its end."""
        parts = path.split("/")[2:]
        if len(parts) != 3 or not all(part.isdigit() and len(part) < 9 for part in parts):
            return self._answer_missing(pages, at_ms, headers)
        status, n_hops, page = map(int, parts)
        page %= pages.traits.n_pages
        if n_hops:
            return _redirect(f"/moved/{status}/{n_hops - 1}/{page}", status, page, None)
        return pages.answer(page, at_ms, headers)


def _redirect(target: str, status: int, page: int, fault: ReplyFault | None) -> Reply:
    headers = (("Location", target), *_HTML)
    return Reply(status=status, headers=headers, body=b"<p>Moved", page=page, fault=fault)


def _status_reply(fault: ReplyFault, page: int, at_ms: int) -> Reply:
    value, seconds = None, None
    if fault in (ReplyFault.TOO_MANY_SECONDS, ReplyFault.UNAVAILABLE_SECONDS):
        seconds = float(RETRY_AFTER_SECONDS)
        value = str(RETRY_AFTER_SECONDS)
    elif fault is ReplyFault.TOO_MANY_DATE:
        until_ms = (at_ms // 1_000 + RETRY_AFTER_SECONDS) * 1_000
        value, seconds = http_date(until_ms), (until_ms - at_ms) / 1_000
    elif fault is ReplyFault.BAD_RETRY_AFTER:
        value = "soon, -5"
    extra = () if value is None else (("Retry-After", value),)
    return Reply(
        status=_STATUSES[fault],
        headers=(*_HTML, ("Date", http_date(at_ms)), *extra),
        body=f"<h1>Error {_STATUSES[fault]}</h1>\n".encode(),
        page=page,
        fault=fault,
        retry_after_seconds=seconds,
    )


def _parse_fault(path: str) -> tuple[ReplyFault | None, int]:
    """Return the fault and the page of a path like ``/fault/reset`` or ``/fault/reset/7``."""
    name, _, number = path.removeprefix("/fault/").partition("/")
    page = int(number) if number.isascii() and number.isdigit() and len(number) < 9 else 0
    return _FAULTS.get(name), page


def _link_list(pages: HostPages, path: str) -> Reply | None:
    """Return the home page, or one of the lists of links that follow it."""
    number = path.removeprefix("/list/") if path != "/" else "0"
    if not number.isascii() or not number.isdigit() or len(number) > 6:
        return None
    first = int(number) * _N_LINKS
    if first > 0 and first >= pages.traits.n_pages:
        return None
    last = min(first + _N_LINKS, pages.traits.n_pages)
    links = "".join(
        f'<li><a href="{pages.path(page)}">Page {page}</a></li>\n' for page in range(first, last)
    )
    after = f'<a rel="next" href="/list/{int(number) + 1}">Next page</a>'
    calendar = '<a href="/calendar/2026/1">Calendar</a>'
    feed = '<link rel="alternate" type="application/rss+xml" href="/feed.xml">'
    text = (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{pages.traits.name}'
        f"</title>{feed if pages.traits.feed is not FeedKind.MISSING else ''}</head>\n<body><h1>"
        f"{pages.traits.name}</h1>\n<ul>\n{links}</ul>\n"
        f"{after if last < pages.traits.n_pages else ''}"
        f"{calendar if pages.traits.has_calendar else ''}"
        "</body></html>\n"
    )
    return Reply(headers=_HTML, body=text.encode())


def _calendar(pages: HostPages, path: str) -> Reply | None:
    """Return a month of a calendar that has no end, with links to its neighbours."""
    parts = path.split("/")[2:]
    if len(parts) not in (2, 3) or not all(part.isdigit() and len(part) < 6 for part in parts):
        return None
    year, month = int(parts[0]), int(parts[1])
    if not 1 <= month <= 12:
        return None
    after = (year, month + 1) if month < 12 else (year + 1, 1)
    before = (year, month - 1) if month > 1 else (year - 1, 12)
    days = "".join(
        f'<td><a href="/calendar/{year}/{month}/{day}">{day}</a></td>' for day in range(1, 29)
    )
    text = (
        f'<!DOCTYPE html>\n<html lang="en"><head><title>{month}/{year}</title></head><body><h1>'
        f"Events in {month}/{year} at {pages.traits.name}</h1><p>No events.</p><table><tr>{days}"
        f'</tr></table><a href="/calendar/{before[0]}/{before[1]}">Earlier</a> <a rel="next" '
        f'href="/calendar/{after[0]}/{after[1]}">Later</a></body></html>\n'
    )
    return Reply(headers=_HTML, body=text.encode())


def request_kind(path: str) -> RequestKind:
    """Return what a path asks for."""
    if path.startswith("/robots"):
        return RequestKind.ROBOTS
    if path.startswith("/sitemap"):
        return RequestKind.SITEMAP
    return RequestKind.FEED if path == "/feed.xml" else RequestKind.PAGE
