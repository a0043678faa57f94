"""The sitemaps and feeds of a host."""

import gzip
import time
from html import escape

from recrawl.sim.pages.draws import Draws
from recrawl.testing.web.pages import HostPages, http_date
from recrawl.testing.web.replies import Reply
from recrawl.testing.web.traits import FeedKind, SitemapDates, SitemapForm

__all__ = ["answer_feed", "answer_sitemap", "sitemap_path"]

STALE_SECONDS = 86_400
BUILD_SECONDS = 6 * 3_600
N_FEED_PAGES = 10
HUGE_URLS = 60_000
"""Number of URLs in a sitemap of the form ``HUGE``: more than the standard allows."""

_N_PER_SITEMAP = 50
_N_PER_SITEMAP_MAX = 50_000
# Of hosts with more pages, only so many are looked at for the feed.
_N_FEED_CANDIDATES_MAX = 1_000
_XML = ("Content-Type", "application/xml; charset=utf-8")


def sitemap_path(form: SitemapForm) -> str | None:
    """Return the path of the sitemap of a host, or ``None`` if it has none."""
    if form is SitemapForm.MISSING:
        return None
    if form is SitemapForm.GZIP:
        return "/sitemap.xml.gz"
    return "/sitemap.txt" if form is SitemapForm.TEXT else "/sitemap.xml"


def _iso(at_ms: int, *, is_date_only: bool) -> str:
    pattern = "%Y-%m-%d" if is_date_only else "%Y-%m-%dT%H:%M:%S+00:00"
    return time.strftime(pattern, time.gmtime(at_ms // 1_000))


def lastmod_ms(pages: HostPages, page: int, at_ms: int) -> int | None:
    """Return what the sitemap of a host says about the last change of a page.

    Parameters
    ----------
    pages
        Pages of the host.
    page
        Number of the page.
    at_ms
        Instant of the request.
    """
    dates = pages.traits.sitemap_dates
    if dates is SitemapDates.NONE:
        return None
    if dates is SitemapDates.BUILD_TIME:
        return at_ms - at_ms % (1_000 * BUILD_SECONDS)
    if dates is SitemapDates.WRONG:
        day = at_ms // 86_400_000
        return (
            at_ms - Draws(pages.traits.name, "lastmod", page, day).integer(0, 30 * 86_400) * 1_000
        )
    if dates is SitemapDates.STALE:
        at_ms -= at_ms % (1_000 * STALE_SECONDS)
    return pages.current(page, at_ms)[0]


def _entry(pages: HostPages, page: int, at_ms: int) -> str:
    lastmod = lastmod_ms(pages, page, at_ms)
    date = ""
    if lastmod is not None:
        is_date_only = pages.traits.sitemap_dates is SitemapDates.DATE_ONLY
        date = f"<lastmod>{_iso(lastmod, is_date_only=is_date_only)}</lastmod>"
    return f"<url><loc>{escape(pages.url(page))}</loc>{date}</url>\n"


def _sitemap_xml(element: str, rows: str) -> bytes:
    namespace = "http://www.sitemaps.org/schemas/sitemap/0.9"
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n<{element} xmlns="{namespace}">\n'
    return f"{head}{rows}</{element}>\n".encode()


def _index(pages: HostPages, n_sitemaps: int, at_ms: int) -> bytes:
    date = _iso(at_ms, is_date_only=True)
    rows = "".join(
        f"<sitemap><loc>{pages.origin}/sitemap-{i}.xml</loc><lastmod>{date}</lastmod></sitemap>\n"
        for i in range(n_sitemaps)
    )
    return _sitemap_xml("sitemapindex", rows)


def answer_sitemap(pages: HostPages, path: str, at_ms: int) -> Reply | None:
    """Return the answer for a sitemap of a host, or ``None`` if it has none at this path.

    Parameters
    ----------
    pages
        Pages of the host.
    path
        Path of the request.
    at_ms
        Instant of the request.
    """
    form, n_pages = pages.traits.sitemap, pages.traits.n_pages
    is_index = form is SitemapForm.INDEX or n_pages > _N_PER_SITEMAP_MAX
    size = _N_PER_SITEMAP_MAX if n_pages > _N_PER_SITEMAP_MAX else _N_PER_SITEMAP
    if is_index and path.startswith("/sitemap-") and path.endswith(".xml"):
        number = path.removeprefix("/sitemap-").removesuffix(".xml")
        first = int(number) * size if number.isdigit() and len(number) < 6 else n_pages
        if first >= n_pages:
            return None
        numbers = range(first, min(first + size, n_pages))
        return _xml_reply(
            _sitemap_xml("urlset", "".join(_entry(pages, page, at_ms) for page in numbers))
        )
    if path != sitemap_path(form):
        return None
    if is_index:
        return _xml_reply(_index(pages, -(-n_pages // size), at_ms))
    if form is SitemapForm.TEXT:
        text = "".join(f"{pages.url(page)}\n" for page in range(n_pages))
        return Reply(headers=(("Content-Type", "text/plain; charset=utf-8"),), body=text.encode())
    entries = "".join(_entry(pages, page, at_ms) for page in range(n_pages))
    if form is SitemapForm.HUGE:
        rows = range(HUGE_URLS - n_pages)
        entries += "".join(f"<url><loc>{pages.origin}/old/{i}</loc></url>\n" for i in rows)
    body = _sitemap_xml("urlset", entries)
    if form is SitemapForm.BROKEN:
        return _xml_reply(body[: 2 * len(body) // 3])
    if form is SitemapForm.GZIP:
        return Reply(
            headers=(("Content-Type", "application/gzip"),), body=gzip.compress(body, 6, mtime=0)
        )
    return _xml_reply(body)


def _xml_reply(body: bytes) -> Reply:
    return Reply(headers=(_XML,), body=body)


def answer_feed(pages: HostPages, path: str, at_ms: int) -> Reply | None:
    """Return the answer for the feed of a host, or ``None`` if it has none at this path.

    Parameters
    ----------
    pages
        Pages of the host.
    path
        Path of the request.
    at_ms
        Instant of the request.
    """
    kind = pages.traits.feed
    if kind is FeedKind.MISSING or path != "/feed.xml":
        return None
    candidates = range(min(pages.traits.n_pages, _N_FEED_CANDIDATES_MAX))
    changed = sorted(((pages.current(page, at_ms)[0], page) for page in candidates), reverse=True)
    latest = changed[:N_FEED_PAGES]
    body = _atom(pages, latest, at_ms) if kind is FeedKind.ATOM else _rss(pages, latest, at_ms)
    if kind is FeedKind.BROKEN:
        body = body[: len(body) // 2]
    media_type = "application/atom+xml" if kind is FeedKind.ATOM else "application/rss+xml"
    return Reply(headers=(("Content-Type", f"{media_type}; charset=utf-8"),), body=body)


def _rss(pages: HostPages, latest: list[tuple[int, int]], at_ms: int) -> bytes:
    items = "".join(
        f"<item><title>Page {page}</title><link>{pages.url(page)}</link>"
        f'<guid isPermaLink="false">{pages.traits.name}/{page}/{changed_ms}</guid>'
        f"<pubDate>{http_date(changed_ms)}</pubDate></item>\n"
        for changed_ms, page in latest
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<rss version="2.0"><channel>'
        f"<title>{pages.traits.name}</title><link>{pages.origin}/</link><description>Latest"
        f"</description><lastBuildDate>{http_date(at_ms)}</lastBuildDate>\n{items}"
        "</channel></rss>\n"
    ).encode()


def _atom(pages: HostPages, latest: list[tuple[int, int]], at_ms: int) -> bytes:
    entries = "".join(
        f'<entry><title>Page {page}</title><link href="{pages.url(page)}"/>'
        f"<id>{pages.url(page)}</id><updated>{_iso(changed_ms, is_date_only=False)}</updated>"
        "</entry>\n"
        for changed_ms, page in latest
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">'
        f"<title>{pages.traits.name}</title><id>{pages.origin}/</id>"
        f"<updated>{_iso(at_ms, is_date_only=False)}</updated>\n{entries}</feed>\n"
    ).encode()
