"""The corpora of a server, each with its threads and queues."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from recrawl.corpus import Outcome, Reported
from recrawl.giving_way import LeasesUnderWay, Patience
from recrawl.service.hosting.consumer_watch import ConsumerWatch
from recrawl.service.hosting.feed_watch import FeedWatch
from recrawl.service.hosting.host_turns import HostTurns
from recrawl.service.hosting.lanes import CallLane, MergingLane
from recrawl.service.hosting.lease_queue import LeaseQueue
from recrawl.service.hosting.metrics_cache import MetricsCache
from recrawl.service.hosting.write_guard import WriteGuard
from recrawl.service.limits import ServiceLimits
from recrawl.service.problems import Problem
from recrawl.service.webhooks import DeliverySettings, ThreadedFeed, WebhookDelivery

__all__ = ["HostedCorpora", "HostedCorpus", "SettingsLock"]

_T = TypeVar("_T")

_MERGED_OUTCOMES_MAX = 256
_THREADS = 2
# Calls that wait for other workers must not keep others from running.
_THREADS_OF_WHOLE = 8
# Longest time that a call for a page, and each step of making the page, wait for leases.
_READING_PATIENCE_SECONDS = 0.5
_SHOWING_PATIENCE_SECONDS = 0.1


class SettingsLock(asyncio.Lock):
    """A lock that counts how often it was held.

    Who keeps something that depends on settings keeps this number with it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.n_changes = 0
        """Number of times that somebody may have changed a setting through this process."""

    def release(self) -> None:
        """Release the lock."""
        self.n_changes += 1
        super().release()


class HostedCorpus:
    """One corpus of a server.

    The service uses a corpus only by its public methods, so that it may be anything that has them.

    Parameters
    ----------
    name
        Name of the corpus in paths.
    corpus
        Object with the methods of `recrawl.Corpus`.
    limits
        Limits of the server.
    folder
        Folder of the corpus, which has the delays of hosts; None keeps them in memory alone.
    n_threads
        Number of calls of a kind that run at a time.
    whole
        Corpus with the partitions of all workers, if this one has only those that are open in this
        process; it is woken by what happens here.
    own
        Corpus with the partitions that are open in this process, if this one has those of all
        workers: each worker warns of consumers that are late in its own partitions.
    """

    def __init__(
        self,
        name: str,
        corpus: Any,
        limits: ServiceLimits,
        folder: Path | None = None,
        *,
        n_threads: int = 2,
        whole: "HostedCorpus | None" = None,
        own: Any = None,
    ) -> None:
        self.name = name
        self.corpus = corpus
        self.local: Any = getattr(corpus, "local", corpus)
        """Corpus with the partitions that are open in this process, which may be all."""
        self._leases_here: LeasesUnderWay = self.local.leases_under_way
        self._whole = whole
        self._are_merged = n_threads == _THREADS
        self.guard = WriteGuard(corpus, limits)
        self.leases = LeaseQueue(corpus, limits, self.guard)
        self.feed = FeedWatch(corpus, limits)
        self.metrics = MetricsCache(corpus)
        self.consumers = ConsumerWatch(name, corpus if own is None else own, self.read)
        n_calls_max = limits.calls_max
        self._small_reports: MergingLane[Outcome] = MergingLane(
            "report", corpus.report, _MERGED_OUTCOMES_MAX, n_calls_max
        )
        self._large_reports = CallLane("outcomes", n_threads, n_calls_max)
        self._changing = CallLane("change", n_threads, n_calls_max)
        self._reading = CallLane("read", n_threads, n_calls_max, only_reads=True)
        self._showing = CallLane("show", _THREADS, limits.shown_calls_max, only_reads=True)
        self._drain_seconds = limits.drain_seconds_max
        self._stops_at: float | None = None
        politeness = corpus.config.politeness
        self.turns: HostTurns = (
            HostTurns(
                delay_seconds=politeness.delay,
                n_at_once_max=politeness.in_flight_max,
                folder=folder,
                limits=limits,
            )
            if whole is None
            else whole.turns
        )
        """Turns of fetchers at hosts; use it in `take_turns`."""
        # One thread, so that calls do not change turns at the same time.
        self._turning: CallLane = (
            CallLane("turn", 1, n_calls_max) if whole is None else whole._turning
        )
        self.settings_lock = SettingsLock()
        """Held from reading a version of settings to changing them."""
        self.webhooks: WebhookDelivery | None = None
        """Delivery of changes to other programs; None if it does not run."""
        self.webhooks_folder: Path | None = None
        """Folder of the corpus, which has the files of its webhooks."""

    async def start_webhooks(self, folder: Path, settings: DeliverySettings) -> None:
        """Begin to deliver changes to the webhooks of the corpus.

        Parameters
        ----------
        folder
            Folder of the corpus.
        settings
            Settings of the delivery.
        """
        self.webhooks_folder = folder
        source = f"urn:recrawl:corpus:{self.name}"
        self.webhooks = WebhookDelivery(
            ThreadedFeed(self.corpus, self.read),
            folder,
            settings=replace(settings, source=source),
            is_feed_shared=not self._are_merged,
        )
        await self.webhooks.start()

    def _wake_feed(self) -> None:
        self.feed.wake()
        if self.webhooks is not None:
            self.webhooks.wake()
        if self._whole is not None:
            self._whole._wake_feed()

    def _wake_leases(self) -> None:
        self.leases.wake()
        if self._whole is not None:
            self._whole.leases.wake()

    @property
    def n_changing(self) -> int:
        """Number of calls that change the corpus, which run or wait."""
        return self._changing.n_calls

    @property
    def n_reading(self) -> int:
        """Number of calls that read the corpus, which run or wait."""
        return self._reading.n_calls

    @property
    def n_showing(self) -> int:
        """Number of calls for pages that people look at, which run or wait."""
        return self._showing.n_calls

    def n_calls(self) -> dict[str, int]:
        """Return the number of calls that run or wait, by kind."""
        return {
            "lease": self.leases.n_calls,
            "small_report": self._small_reports.n_calls,
            "large_report": self._large_reports.n_calls,
            "change": self._changing.n_calls,
            "read": self._reading.n_calls,
            "show": self._showing.n_calls,
            "turn": self._turning.n_calls,
        }

    async def read(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        """Run a function that only reads the corpus."""
        return await self._reading.run(function, *args, **kwargs)

    async def show(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        """Run a function that reads the corpus for a page that a person looks at.

        Leases go first: it runs in pieces between them.
        """

        def run() -> _T:
            with self._leases_here.go_first(_READING_PATIENCE_SECONDS):
                return function(*args, **kwargs)

        return await self._showing.run(run)

    async def give_way(self) -> None:
        """Wait until no lease runs here, but not long: what follows is to show a page."""
        patience = Patience(self._leases_here, _SHOWING_PATIENCE_SECONDS)
        while (seconds := patience.pause_seconds()) > 0:
            await asyncio.sleep(seconds)

    async def change(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        """Run a function that changes the corpus."""
        with self.guard.watch():
            found = await self._changing.run(function, *args, **kwargs)
        self._wake_leases()
        return found

    async def report(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        """Run a function that reports many outcomes, or outcomes with bodies."""
        with self.guard.watch():
            found = await self._large_reports.run(function, *args, **kwargs)
        self._wake_leases()
        self._wake_feed()
        return found

    async def report_few(self, outcomes: list[Outcome]) -> Reported:
        """Report a few outcomes without bodies, together with those of other clients."""
        if not self._are_merged:
            return await self.report(self.corpus.report, outcomes)
        with self.guard.watch():
            found: Reported = await self._small_reports.call(outcomes)
        self._wake_leases()
        self._wake_feed()
        return found

    async def take_turns(self, function: Callable[..., _T], *args: Any) -> _T:
        """Run a function that changes turns at hosts."""
        return await self._turning.run(function, *args)

    def stop_waiting(self) -> None:
        """End all requests that wait for changes, because the server stops."""
        self._begin_stop()
        self.feed.close()

    def _begin_stop(self) -> float:
        """Return the instant after which calls that only read are no longer waited for."""
        if self._stops_at is None:
            self._stops_at = time.monotonic() + self._drain_seconds
        return self._stops_at

    async def close(self) -> None:
        """Wait for what runs, then close the corpus."""
        stops_at = self._begin_stop()
        self.feed.close()
        await self.consumers.close()
        if self.webhooks is not None:
            await self.webhooks.stop()
        await self.leases.close()
        await self._small_reports.close()
        for lane in (self._large_reports, self._changing, self.metrics):
            await lane.close()
        for lane in (self._reading, self._showing):
            await lane.close(max(stops_at - time.monotonic(), 0.0))
        if self._whole is None:
            await self._turning.close()
            self.turns.close()
            await asyncio.to_thread(self.corpus.close)


class HostedCorpora:
    """All corpora of a server, by name.

    Parameters
    ----------
    corpora
        Open corpora by the names that paths use.
    limits
        Limits of the server.
    folders
        Folder of each corpus by its name.
    local
        Corpora whose partitions are on several workers, with those that are open in this process.
        Requests that other workers forward are answered from them.
    """

    def __init__(
        self,
        corpora: Mapping[str, Any],
        limits: ServiceLimits,
        folders: Mapping[str, Path] | None = None,
        local: Mapping[str, Any] | None = None,
    ) -> None:
        local = local or {}
        self._hosted = {
            name: HostedCorpus(
                name,
                one,
                limits,
                (folders or {}).get(name),
                n_threads=_THREADS_OF_WHOLE if name in local else _THREADS,
                own=local.get(name),
            )
            for name, one in corpora.items()
        }
        self._limits = limits
        self._local = {
            name: HostedCorpus(name, one, limits, whole=self._hosted[name])
            for name, one in local.items()
        }
        self._parts: dict[str, HostedCorpus] = {}

    @property
    def names(self) -> list[str]:
        """The names of all corpora."""
        return sorted(self._hosted)

    def find(
        self, name: str, *, is_forwarded: bool = False, in_parts: bool = False
    ) -> HostedCorpus:
        """Return a corpus by its name; raise if there is none.

        Parameters
        ----------
        name
            Name of the corpus.
        is_forwarded
            Whether another worker asks, which wants the partitions of this process only.
        in_parts
            Whether it asks for pages of split hosts that are not in their home partitions.
        """
        hosted = (self._local if is_forwarded else self._hosted).get(name)
        if hosted is None:
            raise Problem("unknown-corpus", f"this server has no corpus {name[:100]!r}")
        if not in_parts:
            return hosted
        if name not in self._parts:  # only clusters with split hosts need it
            view = hosted.corpus.for_parts()
            whole = self._hosted[name]
            self._parts[name] = HostedCorpus(name, view, self._limits, whole=whole)
        return self._parts[name]

    async def stop_waiting(self) -> None:
        """Answer all requests that wait, because the server stops."""
        for one in (*self._hosted.values(), *self._local.values(), *self._parts.values()):
            one.stop_waiting()
            await one.leases.close()

    def start(self) -> None:
        """Begin what runs in the background."""
        for one in self._hosted.values():
            one.consumers.start()

    async def close(self) -> None:
        """Close all corpora."""
        for one in (*self._parts.values(), *self._local.values(), *self._hosted.values()):
            await one.close()
