"""Ask sites for their robots.txt files and first sitemaps, before pages are fetched.

Pages that are added after a corpus has begun to work are newcomers, with a limited share of the
budget.  So the sitemaps of the sites that the user gave are read first.
"""

import asyncio
from collections.abc import AsyncGenerator, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from recrawl.fetch import (
    FetchAnswer,
    FetchKind,
    FetchProblem,
    FetchRequest,
    FetchTime,
    PageFetcher,
    RobotsRules,
    RobotsState,
)
from recrawl.run.discovery.hint_documents import DocumentHints, read_hints
from recrawl.run.discovery.limits import DiscoverySettings
from recrawl.signals import DocumentKind

__all__ = [
    "WELL_KNOWN_PATHS",
    "FirstDocument",
    "SiteAnswer",
    "SiteToAsk",
    "ask_site",
    "ask_sites",
    "own_children",
    "site_of",
]

WELL_KNOWN_PATHS: Final = ("/sitemap.xml", "/sitemap_index.xml")
"""Where a sitemap is looked for if robots.txt names none."""
SITES_AT_ONCE_MAX: Final = 100
"""Number of sites that are asked at a time."""

# What these answers say about a document may be different at the next attempt.
_PASSING: Final = frozenset(
    {
        FetchProblem.HOST_DELAY,
        FetchProblem.CONNECT,
        FetchProblem.DNS,
        FetchProblem.DROPPED,
        FetchProblem.TIMED_OUT,
        FetchProblem.CLOSED,
    }
)


@dataclass(frozen=True, slots=True)
class SiteToAsk:
    """A site whose robots.txt is read now.

    Parameters
    ----------
    origin
        Scheme, host and port.
    is_first
        Whether it is asked for the first time, so that its first sitemaps are read at once.
    """

    origin: str
    is_first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstDocument:
    """A sitemap that was read without an order.

    Parameters
    ----------
    answer
        Answer of the fetcher.
    depth
        Number of indexes above it.
    hints
        Entries of the sitemap.
    """

    answer: FetchAnswer
    depth: int
    hints: DocumentHints


@dataclass(slots=True, kw_only=True)
class SiteAnswer:
    """What a site says about its sitemaps.

    Parameters
    ----------
    origin
        Scheme, host and port.
    is_reached
        Whether its robots.txt was read, or is known to be missing.
    named
        Sitemaps that its robots.txt names.
    documents
        Sitemaps that were read.
    waiting
        Sitemaps to be read later, each with the number of indexes above it.
    """

    origin: str
    is_reached: bool = False
    named: tuple[str, ...] = ()
    documents: list[FirstDocument] = field(default_factory=list)
    waiting: list[tuple[str, int]] = field(default_factory=list)


async def ask_sites(
    fetcher: PageFetcher,
    sites: Sequence[SiteToAsk],
    settings: DiscoverySettings,
    time: FetchTime,
) -> AsyncGenerator[list[SiteAnswer], None]:
    """Ask several sites at once, and yield their answers in groups.

    The first group is there when all sites have answered, or when some have and
    ``gather_seconds`` are over; then each answer comes as soon as it is complete.  So a site that
    does not answer keeps no other one waiting.  After the time limit, the last group has what is
    known of the rest.

    Parameters
    ----------
    fetcher
        Fetcher, which is polite.
    sites
        Sites to ask.
    settings
        Limits.
    time
        Clock, and how to wait.
    """
    slots = asyncio.Semaphore(SITES_AT_ONCE_MAX)
    answers = [SiteAnswer(origin=site.origin) for site in sites]
    complete: list[SiteAnswer] = []
    has_news = asyncio.Event()

    async def ask(site: SiteToAsk, answer: SiteAnswer) -> None:
        try:
            async with slots:
                await ask_site(fetcher, site, answer, settings)
        finally:
            complete.append(answer)
            has_news.set()

    tasks = [
        asyncio.create_task(ask(site, answer)) for site, answer in zip(sites, answers, strict=True)
    ]
    gathering = asyncio.create_task(time.sleep(settings.gather_seconds))
    alarm = asyncio.create_task(time.sleep(settings.ask_seconds_max))
    n_yielded = 0
    try:
        while n_yielded < len(answers) and not alarm.done():
            await _wait_for_first(has_news, gathering, alarm)
            if len(complete) > n_yielded and (gathering.done() or len(complete) == len(answers)):
                group = complete[n_yielded:]
                n_yielded += len(group)
                yield group
    finally:
        for task in (*tasks, gathering, alarm):
            task.cancel()
        await asyncio.gather(*tasks, gathering, alarm, return_exceptions=True)
    if n_yielded < len(answers):
        yielded = {answer.origin for answer in complete[:n_yielded]}
        yield [answer for answer in answers if answer.origin not in yielded]


async def _wait_for_first(has_news: asyncio.Event, *alarms: "asyncio.Task[None]") -> None:
    """Wait until there is news, or one of the alarms that have not gone off yet does."""
    news = asyncio.create_task(has_news.wait())
    ahead = [alarm for alarm in alarms if not alarm.done()]
    try:
        await asyncio.wait([news, *ahead], return_when=asyncio.FIRST_COMPLETED)
    finally:
        news.cancel()
        has_news.clear()


async def ask_site(
    fetcher: PageFetcher, site: SiteToAsk, answer: SiteAnswer, settings: DiscoverySettings
) -> None:
    """Read the robots.txt and, the first time, the first sitemaps of a site.

    Parameters
    ----------
    fetcher
        Fetcher.
    site
        Site to ask.
    answer
        Answer, which is filled step by step.
    settings
        Limits.
    """
    named = await _named_sitemaps(fetcher, site.origin)
    if named is None:
        return
    answer.named = tuple(named[: settings.documents_per_site_max])
    answer.is_reached = True
    if not site.is_first:
        answer.waiting = [(url, 0) for url in answer.named]
        return
    # Those that are not read in time are read later.
    answer.waiting = [(url, 0) for url in answer.named]
    if answer.named:
        await _read_first(fetcher, answer, settings)
        return
    for path in WELL_KNOWN_PATHS:
        answer.waiting = [(site.origin + path, 0)]
        await _read_first(fetcher, answer, settings)
        if answer.documents:
            return


async def _named_sitemaps(fetcher: PageFetcher, origin: str) -> list[str] | None:
    """Return the sitemaps that a robots.txt names; None if the site cannot be asked now."""
    url = f"{origin}/robots.txt"
    robots = getattr(fetcher, "robots", None)
    if robots is not None:
        file = await robots(url)
        if file is None or (file.rules is None and file.state == RobotsState.UNREACHABLE):
            return None
        return [] if file.rules is None else list(file.rules.sitemaps)
    answer = await fetcher.fetch(FetchRequest(url=url, kind=FetchKind.ROBOTS))
    if answer.problem in _PASSING or answer.status >= 500:
        return None
    if not 200 <= answer.status < 300:
        return []
    return list(RobotsRules.of_body(answer.body, "recrawl").sitemaps)


async def _read_first(
    fetcher: PageFetcher, answer: SiteAnswer, settings: DiscoverySettings
) -> None:
    """Read waiting sitemaps, and those that indexes among them name, up to the limits."""
    n_entries = 0
    while answer.waiting:
        if len(answer.documents) >= settings.first_documents_max:
            return
        if n_entries >= settings.entries_per_document_max:
            return
        url, depth = answer.waiting[0]
        got = await fetcher.fetch(FetchRequest(url=url, kind=FetchKind.SITEMAP))
        answer.waiting.pop(0)
        if got.problem in _PASSING or got.status >= 500 or got.status == 429:
            if url in answer.named or depth:
                answer.waiting.append((url, depth))
            return
        if got.status != 200 or got.problem is not None:
            continue
        hints = await asyncio.to_thread(read_hints, got.body, settings.entries_per_document_max)
        if hints.kind == DocumentKind.NOTHING:
            continue
        answer.documents.append(FirstDocument(answer=got, depth=depth, hints=hints))
        if hints.kind == DocumentKind.INDEX:
            if depth < settings.index_depth_max:
                # Before the others: an index without its sitemaps says nothing.
                room = max(settings.documents_per_site_max - len(answer.waiting), 0)
                children = own_children(hints.url, url, {site_of(answer.origin)})
                answer.waiting[:0] = [(child, depth + 1) for child in children[:room]]
        else:
            n_entries += len(hints.url)


def site_of(url: str) -> str:
    """Return the host of an absolute URL without ``www.``, which most sites have as a second name.

    Examples
    --------
    >>> site_of("https://www.example.com:8443/a"), site_of("http://example.com")
    ('example.com:8443', 'example.com')
    """
    host = url.partition("://")[2].partition("/")[0].partition("?")[0].lower()
    return host.removeprefix("www.")


def own_children(children: Sequence[str], index_url: str, sites: Collection[str]) -> list[str]:
    """Return the sitemaps of an index that it may name: on its own host, or on those it speaks for.

    Parameters
    ----------
    children
        URLs in the index.
    index_url
        URL of the index.
    sites
        Sites whose robots.txt names the index.
    """
    allowed = {site_of(index_url), *sites}
    return [child for child in children if site_of(child) in allowed]
