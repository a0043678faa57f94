"""Everything that a crawl of a corpus needs, opened together and closed in the right order."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from recrawl.corpus import Corpus
from recrawl.fetch import (
    FetchKind,
    FetchSettings,
    FetchTime,
    GateFile,
    HostGate,
    HttpFetcher,
    PageFetcher,
    SystemTime,
)
from recrawl.fetch.sinks import Sink, SinkRunner, SinkStatus, Spool
from recrawl.run.crawl import CrawlSummary, crawl
from recrawl.run.discovery import Discovery, DiscoveryCounts, DiscoverySettings
from recrawl.run.held_orders import HeldOrders
from recrawl.run.progress import CrawlProgress
from recrawl.run.robots_teller import RobotsTeller
from recrawl.run.settings import CrawlSettings

__all__ = ["CrawlSession"]

FOLDER: Final = "run"
"""Folder for spool, delays and orders, in the folder of the corpus."""
_SINK_SECONDS: Final = 5.0


class CrawlSession:
    """A crawl of a corpus with sinks and discovery, as ``recrawl run`` makes it.

    Spool, delays of hosts and held orders are in the folder ``run`` of the corpus, so the next
    session goes on where this one ends, also after ``kill -9``.

    Parameters
    ----------
    corpus
        Corpus to crawl; the caller closes it.
    fetch_settings
        Limits and politeness of the fetcher.
    sinks
        Sinks for new versions of pages; `run` closes them.
    discovery_settings
        Limits of discovery; the default ones if None.
    has_browser
        Whether pages that are empty without scripts are rendered in Chromium.
    time
        Clock, and how to wait; the system's if None.
    progress
        Counts to update; new ones if None.
    is_shared
        Whether other workers fetch pages of the corpus, too: sinks then get the pages of this one.
    """

    def __init__(
        self,
        corpus: Corpus,
        fetch_settings: FetchSettings,
        sinks: Sequence[Sink],
        *,
        discovery_settings: DiscoverySettings | None = None,
        has_browser: bool = False,
        time: FetchTime | None = None,
        progress: CrawlProgress | None = None,
        is_shared: bool = False,
    ) -> None:
        self.corpus = corpus
        self._is_shared = is_shared
        self.progress = CrawlProgress() if progress is None else progress
        self._fetch_settings = fetch_settings
        self._sinks = sinks
        self._discovery_settings = discovery_settings
        self._has_browser = has_browser
        self._time = SystemTime() if time is None else time
        self._runner: SinkRunner | None = None
        self._discovery: Discovery | None = None
        self._gate: HostGate | None = None
        self._gate_file: GateFile | None = None
        self._statuses: list[SinkStatus] = []

    @property
    def delayed_hosts(self) -> dict[str, int]:
        """Hosts that must be left alone for more than ten seconds, with the instants until when."""
        return {} if self._gate is None else self._gate.delayed_hosts(seconds_min=10.0)

    @property
    def sink_statuses(self) -> list[SinkStatus]:
        """How far each sink is."""
        return self._statuses if self._runner is None else self._runner.statuses()

    @property
    def n_documents(self) -> int:
        """Number of sitemaps and feeds in the corpus; they are no pages to their readers."""
        return 0 if self._discovery is None else self._discovery.n_documents

    @property
    def discovery_counts(self) -> DiscoveryCounts:
        """What was found beside pages."""
        return DiscoveryCounts() if self._discovery is None else self._discovery.counts

    async def run(
        self,
        urls: Sequence[str] = (),
        settings: CrawlSettings | None = None,
        stopping: asyncio.Event | None = None,
    ) -> CrawlSummary:
        """Crawl until the settings or the event end it.

        Parameters
        ----------
        urls
            URLs to add first.
        settings
            Limits of the crawl.
        stopping
            Event that ends the crawl within seconds.
        """
        folder = self.corpus.folder / FOLDER
        folder.mkdir(exist_ok=True)
        discovery = self._discovery = Discovery(self.corpus, self._discovery_settings)
        spool: Spool | None = None
        fetcher: PageFetcher | None = None
        runner = None
        robots = RobotsTeller(self.corpus)
        try:
            # The corpus has the changes; without sinks there is nobody who needs the bodies.
            if self._sinks or not self._is_shared:
                spool = self._open_spool(folder / "spool", discovery)
                runner = self._runner = SinkRunner(spool, self._sinks)
            self._gate = self._open_gate(folder)
            fetcher = self._open_fetcher(self._gate, robots)
            if runner is not None:
                runner.start()
            return await crawl(
                self.corpus,
                fetcher,
                urls,
                settings=settings,
                time=self._time,
                spool=spool,
                finder=discovery,
                held_orders=HeldOrders(folder / "orders"),
                stopping=stopping,
                progress=self.progress,
            )
        finally:
            if fetcher is not None:
                await fetcher.close()
            await robots.close()
            if runner is not None:
                await asyncio.to_thread(runner.stop, _SINK_SECONDS)
                self._statuses = runner.statuses()
                self._runner = None
            if self._gate is not None:
                await self._close_gate(self._gate)
            if spool is not None:
                spool.close()
            discovery.close()

    def _open_spool(self, folder: Path, discovery: Discovery) -> Spool:
        return Spool.open(
            folder,
            keeps_unchanged=any(sink.wants_unchanged for sink in self._sinks),
            only_own=self._is_shared,
            is_skipped=lambda change: (
                discovery.kind_of(change) != FetchKind.PAGE or discovery.is_left_out(change.url)
            ),
        )

    def _open_gate(self, folder: Path) -> HostGate:
        """Return the delays of hosts."""
        self._gate_file = GateFile(folder / "hosts")
        return self._gate_file.open_gate(self._fetch_settings, self._time)

    async def _close_gate(self, gate: HostGate) -> None:
        """Close what `_open_gate` opened."""
        del gate
        if self._gate_file is not None:
            self._gate_file.close()

    def _open_fetcher(self, gate: HostGate, robots: RobotsTeller) -> PageFetcher:
        fetcher = HttpFetcher(
            self._fetch_settings, time=self._time, gate=gate, on_robots=robots.add
        )
        if not self._has_browser:
            return fetcher
        from recrawl.browser import (  # noqa: PLC0415 - needs the extra recrawl[browser]
            BrowserSettings,
            RenderMemory,
            ShellAwareFetcher,
        )

        memory = RenderMemory(self.corpus.folder / FOLDER / "rendered")
        return ShellAwareFetcher(fetcher, BrowserSettings(), memory)
