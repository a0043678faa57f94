"""IndexNow: sites announce pages that they have changed, added or removed.

A site proves that a notice is its own with a key, which it also has in a file; the server fetches
that file.  The key proves who sent the notice, not that a page has changed: the URLs become signals
of the source ``indexnow``, and recrawl learns for each host how reliable they are.
"""

import asyncio
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

import msgspec

from recrawl.service.hosting.hosted import HostedCorpus
from recrawl.service.limits import ServiceLimits
from recrawl.service.problems import Problem, too_busy
from recrawl.service.receivers.announced_pages import check_all_taken, signal_announced
from recrawl.service.receivers.host_limits import HostLimits
from recrawl.service.receivers.notice_urls import host_of_page

__all__ = ["SOURCE", "FetchText", "IndexNow", "Notice", "NoticeBody", "read_notice"]

SOURCE = "indexnow"
"""Name of the source of these signals."""
FetchText = Callable[[str], Awaitable[bytes | None]]
"""Function that fetches a small file; None if there is no such file."""

_KEY = re.compile(r"[A-Za-z0-9-]{8,128}")
_VALID_SECONDS = 86_400.0
_INVALID_SECONDS = 600.0
_KEYS_MAX = 10_000
_CHECKS_MAX = 64
# Attempts to signal pages whose partitions are away, and the time between them.
_ATTEMPTS_MAX = 12
_AGAIN_SECONDS = 5.0

logger = logging.getLogger(__name__)


class NoticeBody(msgspec.Struct, rename="camel"):
    """The body of a notice, with the names of the protocol."""

    host: str
    key: str
    url_list: list[str]
    key_location: str | None = None


class Notice(NamedTuple):
    """URLs of one host, and the key that proves that the host sent them."""

    host: str
    key: str
    key_url: str
    urls: tuple[str, ...]


def read_notice(
    urls: Sequence[str], key: str, *, host: str | None, key_url: str | None, n_urls_max: int
) -> Notice:
    """Return a notice, after checking that its parts fit together.

    Parameters
    ----------
    urls
        URLs of changed pages.
    key
        Key of the site.
    host
        Host of all URLs; that of the first one if None.
    key_url
        URL of the file with the key; at the root of the host if None.
    n_urls_max
        Number of URLs that a notice may have.
    """
    if not _KEY.fullmatch(key):
        raise Problem("invalid-body", "key must have 8 to 128 letters, digits and '-'")
    if not 1 <= len(urls) <= n_urls_max:
        raise Problem("invalid-body", f"a notice has 1 to {n_urls_max:,} URLs, got {len(urls):,}")
    host = host_of_page(urls[0]) if host is None else host.lower()
    hosts = {host_of_page(url) for url in urls}
    if hosts != {host}:
        other = min(hosts - {host})
        raise Problem("invalid-value", f"all URLs must be on {host[:200]}, got {other[:200]}")
    if key_url is None:
        return Notice(host, key, f"https://{host}/{key}.txt", tuple(urls))
    if host_of_page(key_url) != host:
        raise Problem("invalid-value", f"keyLocation must be on {host[:200]}")
    below = urlsplit(urljoin(key_url, ".")).path or "/"
    for url in urls:
        if not _resolved_path(url).startswith(below):
            raise Problem("invalid-value", f"the key at {key_url} is for URLs below {below} only")
    return Notice(host, key, key_url, tuple(urls))


def _resolved_path(url: str) -> str:
    """Return the path of a URL, in which "/blog/../" does not lead out of a folder."""
    path = re.sub("%2e", ".", urlsplit(url).path.replace("\\", "/"), flags=re.IGNORECASE) or "/"
    return urlsplit(urljoin("http://host/", path)).path


class _Checked(NamedTuple):
    is_valid: bool
    until: float


class IndexNow:
    """The notices of one server.

    Parameters
    ----------
    fetch_text
        Function that fetches the file of a key; it must connect to public addresses alone.
    limits
        Limits of the server.
    """

    def __init__(self, fetch_text: FetchText, limits: ServiceLimits) -> None:
        self._fetch_text = fetch_text
        self._hosts = HostLimits(limits.indexnow_urls_per_hour)
        self._n_urls_max = limits.indexnow_urls_max
        self._checked: OrderedDict[tuple[str, str], _Checked] = OrderedDict()
        self._waiting: dict[tuple[str, str], list[tuple[HostedCorpus, Notice]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def n_urls_max(self) -> int:
        """Number of URLs that a notice may have."""
        return self._n_urls_max

    async def receive(self, hosted: HostedCorpus, notice: Notice) -> int:
        """Signal the pages of a notice; return 200, or 202 if its key is still to be checked."""
        if not await hosted.read(_is_tracked, hosted.corpus, notice.host):
            # Says nothing about which hosts are tracked, and fetches nothing from others.
            return 202
        seconds = self._hosts.take(notice.host, len(notice.urls))
        if seconds:
            raise Problem(
                "too-busy",
                f"{notice.host} has announced too many URLs",
                headers={"Retry-After": str(seconds)},
            )
        name = (notice.key_url, notice.key)
        checked = self._checked.get(name)
        if checked is not None and time.monotonic() < checked.until:
            if not checked.is_valid:
                raise Problem("key-not-verified", f"{notice.key_url} does not have the key")
            away = await _signal(hosted, notice.urls)
            self._hosts.give_back(notice.host, len(away))
            check_all_taken(away, len(notice.urls))
            return 200
        self._check_later(name, hosted, notice)
        return 202

    def _check_later(self, name: tuple[str, str], hosted: HostedCorpus, notice: Notice) -> None:
        waiting = self._waiting.get(name)
        if waiting is not None:
            if sum(len(one.urls) for _, one in waiting) + len(notice.urls) > self._n_urls_max:
                raise too_busy("the key of this host is still being checked")
            waiting.append((hosted, notice))
            return
        if len(self._waiting) >= _CHECKS_MAX:
            raise too_busy("many keys are being checked")
        self._waiting[name] = [(hosted, notice)]
        task = asyncio.create_task(self._check(name))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _check(self, name: tuple[str, str]) -> None:
        url, key = name
        text = None
        try:
            text = await self._fetch_text(url)
        finally:
            # A key file may begin with a byte order mark, and end with a line feed.
            found = (text or b"").decode("utf-8-sig", "replace").strip()
            is_valid = found == key
            until = time.monotonic() + (_VALID_SECONDS if is_valid else _INVALID_SECONDS)
            self._checked.pop(name, None)
            self._checked[name] = _Checked(is_valid, until)
            while len(self._checked) > _KEYS_MAX:
                self._checked.popitem(last=False)
            waiting = self._waiting.pop(name)
        if is_valid:
            for hosted, notice in waiting:
                await _signal_until_taken(hosted, notice.urls)

    async def close(self) -> None:
        """End the checks that run; their notices are lost, and sites are polled anyway."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


def _is_tracked(corpus: Any, host: str) -> bool:
    if corpus.config.corpus.group_by != "host":
        return True
    return bool(corpus.n_pages_of_host(host))


async def _signal(hosted: HostedCorpus, urls: Sequence[str]) -> list[str]:
    return await signal_announced(hosted, list(urls), source=SOURCE)


async def _signal_until_taken(hosted: HostedCorpus, urls: Sequence[str]) -> None:
    """Signal pages for which the site has its answer, 202, already."""
    for _ in range(_ATTEMPTS_MAX):
        urls = await _signal(hosted, urls)
        if not urls:
            return
        await asyncio.sleep(_AGAIN_SECONDS)
    logger.warning("%d pages of IndexNow could not be reached, and are not signalled", len(urls))
