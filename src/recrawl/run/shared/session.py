"""One worker of a shared corpus: a crawl that takes its pages from a service."""

import asyncio
import math
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, TextIO, cast
from urllib.parse import urlsplit

from recrawl.client import AsyncClient
from recrawl.corpus import Corpus
from recrawl.errors import LockedError
from recrawl.fetch import FetchSettings, HostGate
from recrawl.fetch.sinks import Sink
from recrawl.run.crawl import CrawlSummary
from recrawl.run.discovery import DiscoverySettings
from recrawl.run.progress import CrawlProgress
from recrawl.run.session import CrawlSession
from recrawl.run.settings import CrawlSettings
from recrawl.run.shared.corpus import SharedCorpus
from recrawl.run.shared.gate import SharedGate

__all__ = ["WorkerSession", "lock_worker_folder"]

WORKERS_MAX: Final = 1_000
"""Number of workers of one corpus on one machine."""


class WorkerSession(CrawlSession):
    """A crawl of a shared corpus, as ``recrawl run -C https://…`` makes it.

    Before each request it begins a turn at the host with the service, so that delays, crawl delays
    and Retry-After hold for all workers together.

    Parameters
    ----------
    corpus
        Corpus on the server; the caller closes its client.
    turns
        Client for the turns at hosts, which `run` closes.  Its retries should be short.
    fetch_settings
        Limits and politeness of the fetcher.
    sinks
        Sinks for new versions of the pages that this worker fetches; `run` closes them.
    discovery_settings
        Limits of discovery; the default ones if None.
    has_browser
        Whether pages that are empty without scripts are rendered in Chromium.
    progress
        Counts to update; new ones if None.
    """

    def __init__(
        self,
        corpus: SharedCorpus,
        turns: AsyncClient,
        fetch_settings: FetchSettings,
        sinks: Sequence[Sink],
        *,
        discovery_settings: DiscoverySettings | None = None,
        has_browser: bool = False,
        progress: CrawlProgress | None = None,
    ) -> None:
        # It has the methods of a corpus that a crawl uses.
        super().__init__(
            cast("Corpus", corpus),
            fetch_settings,
            sinks,
            discovery_settings=discovery_settings,
            has_browser=has_browser,
            progress=progress,
            is_shared=True,
        )
        self._shared = corpus
        self._turns = turns

    async def run(
        self,
        urls: Sequence[str] = (),
        settings: CrawlSettings | None = None,
        stopping: asyncio.Event | None = None,
    ) -> CrawlSummary:
        """Crawl until the settings or the event end it; see `CrawlSession.run`."""
        stopping = asyncio.Event() if stopping is None else stopping
        settings = replace(settings or CrawlSettings(), is_shared=True)
        watching = asyncio.create_task(self._watch(stopping, settings.for_seconds))
        try:
            return await super().run(urls, settings, stopping)
        finally:
            watching.cancel()
            await self._turns.close()

    async def _watch(self, stopping: asyncio.Event, for_seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(None if math.isinf(for_seconds) else for_seconds):
                await stopping.wait()
        self._shared.stop()

    def _open_gate(self, folder: Path) -> HostGate:
        del folder  # the service keeps the delays
        return SharedGate(self._fetch_settings, self._time, self._turns)

    async def _close_gate(self, gate: HostGate) -> None:
        assert isinstance(gate, SharedGate)
        await gate.close()


def lock_worker_folder(url: str, folder: Path | None = None) -> tuple[Path, TextIO]:
    """Return a folder that no other worker uses, and the file that locks it while it is open.

    Parameters
    ----------
    url
        Address of the corpus.
    folder
        Folder to use; by default the first free one for this corpus among the user's files.

    Raises
    ------
    LockedError
        If another worker uses the given folder.
    """
    if folder is not None:
        file = _lock(folder)
        if file is None:
            raise LockedError(f"another worker uses {folder}; give each worker a folder of its own")
        return folder, file
    parts = urlsplit(url)
    name = f"{parts.netloc.rpartition('@')[2]}{parts.path}".strip("/").lower()
    name = "".join(one if one.isalnum() or one in ".-" else "-" for one in name)
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    for number in range(1, WORKERS_MAX + 1):
        own = Path(state) / "recrawl" / "workers" / name / str(number)
        file = _lock(own)
        if file is not None:
            return own, file
    raise LockedError(f"this machine has {WORKERS_MAX:,} workers of {url}, which is the limit")


def _lock(folder: Path) -> TextIO | None:
    """Return the open lock file of a folder; None if another process has locked it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / "lock").open("a", encoding="utf-8")
    try:
        import fcntl  # noqa: PLC0415 - Windows does not have it
    except ImportError:
        return file
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file
