"""Send requests to other workers: each once, with a deadline, all at the same time.

One thread runs all of them.  A worker that has not answered within its deadline counts as stalled:
requests to it fail at once until it answers a small request again, so that it delays those that
are under way when it stops, and no others.
"""

import asyncio
import logging
import threading
import time
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from typing import Any, Final, TypeVar
from urllib.parse import quote

import aiohttp
from yarl import URL

from recrawl.client import AsyncClient
from recrawl.client.answers import read_changes
from recrawl.client.problems import failure_of
from recrawl.client.service_url import ServiceUrl
from recrawl.client.transport import ARROW, JSON, ServiceAnswer, Transport, query_text
from recrawl.cluster.api.credentials import ClusterKeys
from recrawl.cluster.api.owners import Owner
from recrawl.cluster.api.receiving import signed_text
from recrawl.core.price.due_table import DueTable
from recrawl.corpus.doctor.check_results import CheckResult, Severity
from recrawl.corpus.doctor.overview_part import OverviewPart
from recrawl.corpus.plan.partition_bytes import decode_partitions
from recrawl.corpus.plan.planned_partition import PlannedPartition
from recrawl.errors import PageElsewhere, ServiceError, ServiceUnavailable, WrongOwner
from recrawl.messages.cluster_metrics import CALL_RESULTS, TimeCounts
from recrawl.messages.forwarding import (
    AUTHORIZATION_KIND,
    BODY,
    EXPECTED,
    FORWARDED,
    HELD_ONLY,
    IN_PARTS,
    REQUEST,
    epochs_text,
    forwarded_digest,
    read_owner_rows,
    request_text,
)
from recrawl.messages.results import ChangedPart

__all__ = ["CallCounts", "ForwardingSettings", "OwnerClient", "WorkerCalls"]

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_CONNECTIONS_MAX: Final = 256
_CONNECTIONS_PER_WORKER_MAX: Final = 64
# Connections that are not used are closed before the server does so.
_KEEP_ALIVE_SECONDS: Final = 15.0
_ANSWER_BYTES_MAX: Final = 256 << 20
_PROBLEM_BYTES_MAX: Final = 1 << 20
_KNOWN_WORKERS_MAX: Final = 4_096
_PROBE_SECONDS: Final = 0.5
_HOLD_SECONDS_MAX: Final = 8.0
# Factor by which a stalled worker is left alone for longer each time.  After some seconds without a
# broker all workers have missed a few deadlines, and must not be left alone when it is back.
_HOLD_GROWTH: Final = 1.4
_TIMEOUTS_COUNTED_MAX: Final = 20
_WRONG_OWNER: Final = "urn:recrawl:problem:wrong-owner"
_ELSEWHERE: Final = "urn:recrawl:problem:page-elsewhere"
_CLOSE_SECONDS: Final = 5.0
_SECONDS_COUNTED: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, inf),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardingSettings:
    """How long a worker waits for others, and for its own partitions."""

    seconds_max: float = 5.0
    """Deadline of a call about given rows."""
    lease_seconds_max: float = 2.0
    """Deadline of a lease."""
    plan_seconds_max: float = 30.0
    """Deadline of the sampled pages for a plan; to find them, an owner looks at all its pages."""
    own_seconds_max: float = 5.0
    """Deadline of a call about given rows of its own partitions, while others have some."""
    own_lease_seconds_max: float = 2.0
    """Deadline of a lease of its own partitions."""
    own_append_seconds_max: float = 1.5
    """Time for which a call waits for the log of one of its own partitions.  It is shorter than the
    deadlines, so that a call about several partitions is in time for all others."""


def _run_until_stopped(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


class _Health:
    """Whether a worker answers."""

    __slots__ = ("is_stalled", "n_timeouts")

    def __init__(self) -> None:
        self.is_stalled = False
        self.n_timeouts = 0


class CallCounts:
    """How the requests to other workers ended, and how long they took."""

    def __init__(self) -> None:
        self._n_by_result = dict.fromkeys(CALL_RESULTS, 0)
        self._n_in_range = [0] * len(_SECONDS_COUNTED)
        self._sum_seconds = 0.0

    def add(self, error: BaseException | None, seconds: float) -> None:
        """Count a request.

        Parameters
        ----------
        error
            Error with which it ended; None if it was answered.
        seconds
            Time that it took.
        """
        if error is None:
            result = "done"
        elif isinstance(error, WrongOwner):
            result = "wrong_owner"
        else:
            result = "unavailable" if isinstance(error, ServiceUnavailable) else "failed"
        self._n_by_result[result] += 1
        if result == "unavailable":
            return  # it has not answered, and often was not asked
        self._n_in_range[bisect_left(_SECONDS_COUNTED, seconds)] += 1
        self._sum_seconds += seconds

    @property
    def n_by_result(self) -> dict[str, int]:
        """Number of requests, by `recrawl.messages.cluster_metrics.CALL_RESULTS`."""
        return dict(self._n_by_result)

    @property
    def times(self) -> TimeCounts:
        """The times of the requests that were answered."""
        n_up_to = zip(_SECONDS_COUNTED, accumulate(self._n_in_range), strict=True)
        return TimeCounts(tuple(n_up_to), self._sum_seconds)


class _OwnerTransport(Transport):
    """Requests to one worker about one corpus; each is sent once."""

    def __init__(
        self,
        calls: "WorkerCalls",
        owner: Owner,
        epochs: Mapping[int, int],
        request: tuple[bytes, bytes] | None,
        *,
        is_held_only: bool,
        in_parts: bool,
    ) -> None:
        self._url = ServiceUrl(owner.address.rstrip("/"), calls.corpus)
        self._base = self._url.path_of(calls.corpus)
        self._clock_offset_ms = 0
        self._calls = calls
        self._owner = owner
        self._own = {FORWARDED: quote(calls.sender)}
        if epochs:
            self._own[EXPECTED] = epochs_text(epochs)
        if request is not None:
            self._own[REQUEST] = request_text(request)
        if is_held_only:
            self._own[HELD_ONLY] = "1"
        if in_parts:
            self._own[IN_PARTS] = "1"

    async def close(self) -> None:
        """Do nothing: all requests share their connections."""

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        request: str | None = None,
        is_first: bool = False,
        wait_seconds: float = 0.0,
        ends_at: float | None = None,
    ) -> ServiceAnswer:
        """Send a request once, and return the answer; see `Transport.call`."""
        # The key of the original request counts, and nobody waits.
        del request, is_first, wait_seconds, ends_at
        assert self._base is not None
        url = URL(self._base + path, encoded=True)
        query = {
            name: query_text(value) for name, value in (params or {}).items() if value is not None
        }
        if query:
            url = url.with_query(query)
        own = {**self._own, BODY: forwarded_digest(body or b"")}
        headers = {"Accept": accept, **own}
        if body is not None:
            headers["Content-Type"] = content_type
        headers["Authorization"] = self._calls.authorization(self._owner, method, url, own)
        try:
            async with self._calls.session.request(
                method, url, data=body, headers=headers, allow_redirects=False
            ) as answer:
                is_error = answer.status >= 300
                n_bytes_max = _PROBLEM_BYTES_MAX if is_error else _ANSWER_BYTES_MAX
                data = await self._read(answer, n_bytes_max)
                found = answer.headers
        except (aiohttp.ClientError, OSError) as error:
            raise ServiceUnavailable(f"{self.server} cannot be reached: {error}") from error
        if not is_error:
            return ServiceAnswer(found, data)
        if answer.status == 421:
            raise _wrong_owner(self.server, data)
        raise failure_of(answer.status, found, data, self.server).error


def _wrong_owner(server: str, data: bytes) -> Exception:
    try:
        document = ServiceAnswer({}, data).json()
        if document["type"] == _WRONG_OWNER:
            return WrongOwner(str(document["detail"])[:500], read_owner_rows(document["owners"]))
        if document["type"] == _ELSEWHERE:
            return PageElsewhere(str(document["detail"])[:500])
    except (ServiceError, KeyError, TypeError, ValueError):
        pass
    return ServiceError(f"{server} says that it is not the server that was meant")


class OwnerClient(AsyncClient):
    """A client of one worker, whose requests are marked as forwarded.

    Parameters
    ----------
    transport
        Transport that sends them.
    """

    def __init__(self, transport: Transport) -> None:
        self.url = transport.server
        self._transport = transport
        self._row_retry_seconds = 0.0  # the client of the other worker sends rows again

    async def change_matching(
        self, pattern: str, settings: Mapping[str, Any] | None, cursor: str | None
    ) -> ChangedPart:
        """Change some pages of a partition, see `recrawl.Corpus.change_matching`.

        Parameters
        ----------
        pattern, settings, cursor
            Arguments of that method; the cursor says which partition.
        """
        return await self._change_matching(pattern, settings, cursor)

    async def overview_part(self, n_changes: int, *, n_due: float | None) -> OverviewPart:
        """Return the latest changes and the problems of the worker.

        Parameters
        ----------
        n_changes, n_due
            Arguments of `recrawl.corpus.read_overview_part`.
        """
        wanted: dict[str, float] = {"n_changes": n_changes}
        if n_due is not None:
            wanted["n_due"] = n_due
        answer = await self._transport.call("GET", "/overview-part", params=wanted)
        return _read_overview_part(answer.json())

    async def pages_for_plan(
        self,
        n_pages_max: int,
        *,
        table: DueTable,
        n_pages_total: int | None = None,
        patterns: Sequence[str] = (),
    ) -> list[PlannedPartition]:
        """Return what a plan needs to know of the partitions of the worker.

        Parameters
        ----------
        n_pages_max, n_pages_total, patterns
            Arguments of `recrawl.Corpus.pages_for_plan`.
        table
            Table of due times of this process.
        """
        answer = await self._transport.call(
            "GET",
            "/plan/pages",
            params={
                "n_pages_max": n_pages_max,
                "n_pages_total": n_pages_total,
                "of": list(patterns) or None,
            },
            accept=ARROW,
        )
        try:
            return decode_partitions(answer.data, table)
        except ValueError as error:
            raise ServiceError(str(error)) from error


def _read_overview_part(found: Any) -> OverviewPart:
    try:
        problems = [
            CheckResult(
                check=str(one["check"]),
                level=Severity(one["level"]),
                what=str(one["what"]),
                todo=str(one["todo"]),
            )
            for one in found["problems"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise ServiceError(f"the problems of a worker cannot be read: {error}") from error
    return OverviewPart(read_changes(found), problems)


class WorkerCalls:
    """Requests of one worker to the others about one corpus.

    Parameters
    ----------
    corpus
        Name of the corpus on all workers.
    sender
        Name of this worker.
    keys
        Keys that all workers share.
    settings
        Deadlines.
    """

    def __init__(
        self,
        corpus: str,
        sender: str,
        keys: ClusterKeys,
        settings: ForwardingSettings | None = None,
    ) -> None:
        self.corpus = corpus
        self.sender = sender
        self.settings = settings or ForwardingSettings()
        self.counts = CallCounts()
        """How the requests ended so far."""
        self._keys = keys
        self._health: dict[str, _Health] = {}
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False
        self._probes: set[asyncio.Task[None]] = set()

    # ------------------------------------------------------------------ running

    def run(self, work: Coroutine[Any, Any, _T]) -> "Future[_T]":
        """Run a coroutine in the thread of the requests."""
        with self._lock:
            if self._is_closed:
                work.close()
                raise ServiceError("the worker is stopping")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_run_until_stopped,
                    args=(self._loop,),
                    name="recrawl-forward",
                    daemon=True,
                )
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    @property
    def session(self) -> aiohttp.ClientSession:
        """The connections to all workers."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=_CONNECTIONS_MAX,
                    limit_per_host=_CONNECTIONS_PER_WORKER_MAX,
                    keepalive_timeout=_KEEP_ALIVE_SECONDS,
                ),
                headers={"Accept-Encoding": "identity", "User-Agent": "recrawl"},
                timeout=aiohttp.ClientTimeout(total=None),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    def close(self) -> None:
        """End all requests and close the connections.

        If that takes longer than some seconds, it goes on in the thread of the requests.
        """
        with self._lock:
            self._is_closed = True
            loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return

        async def finish() -> None:
            for probe in self._probes:
                probe.cancel()
            if self._session is not None:
                await self._session.close()

        finishing = asyncio.run_coroutine_threadsafe(finish(), loop)
        finishing.add_done_callback(lambda _: loop.call_soon_threadsafe(loop.stop))
        thread.join(_CLOSE_SECONDS)
        if thread.is_alive():
            logger.warning(
                "the connections to other workers are not closed after %g s", _CLOSE_SECONDS
            )
        else:
            finishing.result()

    # ------------------------------------------------------------------ requests

    def authorization(self, owner: Owner, method: str, url: URL, headers: Mapping[str, str]) -> str:
        """Return the signature of a request to a worker, as the value of a header."""
        signed = signed_text(owner.worker, method, url.raw_path_qs, headers, self.sender)
        return f"{AUTHORIZATION_KIND} {self._keys.sign(signed, time.time_ns() // 1_000_000)}"

    async def call(
        self,
        owner: Owner,
        call: Callable[[OwnerClient], Awaitable[_T]],
        *,
        epochs: Mapping[int, int] | None = None,
        seconds_max: float | None = None,
        request: tuple[bytes, bytes] | None = None,
        is_held_only: bool = False,
        in_parts: bool = False,
    ) -> _T:
        """Call a worker, once and within a deadline.

        Parameters
        ----------
        owner
            Worker to call.
        call
            Function that makes the call with a client of that worker.
        epochs
            Epochs of the partitions that the worker is expected to own.
        seconds_max
            Deadline; that of the settings by default.
        request
            Key and digest of the original request.
        is_held_only
            Whether a lease asks only for orders that an earlier attempt got.
        in_parts
            Whether the pages are of split hosts, and not in their home partitions.

        Raises
        ------
        ServiceUnavailable
            If the worker cannot be reached, is stalled, or does not answer in time.
        WrongOwner
            If it does not own the partitions.
        """
        began = time.monotonic()
        error: BaseException | None = None
        try:
            transport = _OwnerTransport(
                self, owner, epochs or {}, request, is_held_only=is_held_only, in_parts=in_parts
            )
            return await self._call(owner, call, transport, seconds_max)
        except BaseException as failure:
            error = failure
            raise
        finally:
            self.counts.add(error, time.monotonic() - began)

    async def _call(
        self,
        owner: Owner,
        call: Callable[[OwnerClient], Awaitable[_T]],
        transport: _OwnerTransport,
        seconds_max: float | None,
    ) -> _T:
        if len(self._health) > _KNOWN_WORKERS_MAX:
            self._health.clear()  # of workers that have ended
        health = self._health.setdefault(owner.address, _Health())
        if health.is_stalled:
            raise ServiceUnavailable(f"the worker {owner.worker} does not answer")
        seconds = self.settings.seconds_max if seconds_max is None else seconds_max
        try:
            async with asyncio.timeout(seconds):
                found = await call(OwnerClient(transport))
        except TimeoutError:
            self._note_timeout(owner, health)
            raise ServiceUnavailable(
                f"the worker {owner.worker} has not answered within {seconds:g} s"
            ) from None
        health.n_timeouts = 0
        return found

    def _note_timeout(self, owner: Owner, health: _Health) -> None:
        if health.is_stalled:
            return
        health.is_stalled = True
        health.n_timeouts += 1
        logger.warning("the worker %s does not answer; its rows are unavailable", owner.worker)
        probe = asyncio.get_running_loop().create_task(self._probe(owner, health))
        self._probes.add(probe)
        probe.add_done_callback(self._probes.discard)

    async def _probe(self, owner: Owner, health: _Health) -> None:
        """Wait until a stalled worker answers a request that needs no corpus."""
        # A worker that answers these and no others must not delay a call every half second.
        n_before = min(health.n_timeouts, _TIMEOUTS_COUNTED_MAX) - 1
        await asyncio.sleep(min(_PROBE_SECONDS * _HOLD_GROWTH**n_before, _HOLD_SECONDS_MAX))
        is_gone = False
        url = URL(f"{owner.address.rstrip('/')}/healthz", encoded=True)
        while True:
            try:
                async with asyncio.timeout(_PROBE_SECONDS * 2):
                    async with self.session.get(url, allow_redirects=False) as answer:
                        await answer.read()
                break
            except TimeoutError:
                pass
            except (aiohttp.ClientError, OSError):
                is_gone = True  # nothing listens there: calls fail at once
                break
            await asyncio.sleep(_PROBE_SECONDS)
        health.is_stalled = False
        what = "is gone; others take its partitions" if is_gone else "answers again"
        logger.warning("the worker %s %s", owner.worker, what)
