"""Fetchers and users of a simulated cluster, who take note of everything that was acknowledged."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from recrawl.corpus.view import RowStatus
from recrawl.errors import RecrawlError
from recrawl.node.orders import Outcome, order_in, partition_in
from tests.simulation.cluster.workers import SimulatedWorker
from tests.simulation.cluster.world import Killed, World

__all__ = ["Clients", "HandedOut"]

N_HOSTS: Final = 10
N_PAGES: Final = 60
URLS: Final = [f"https://h{i % N_HOSTS}.example/{i}" for i in range(N_PAGES)]
_FETCH_MS: Final = (50, 4_000)
_FORGOTTEN: Final = 0.05
_RETRY_MS: Final = (200, 2_000)
_RETRIES_MAX: Final = 40
# Mean milliseconds between two calls of a kind.
_ADD_MS: Final = 1_500
_LEASE_MS: Final = 250
_SIGNAL_MS: Final = 2_500


class HandedOut(NamedTuple):
    """An order that a fetcher got."""

    worker: SimulatedWorker
    partition: int
    order: int
    url: str
    at_ms: int
    expires_ms: int
    """True time at which the lease ends by the clock of the worker."""


class Clients:
    """All clients of a cluster.

    Parameters
    ----------
    world
        Time and chance.
    workers
        Function that returns the workers that can be called now.
    """

    def __init__(self, world: World, workers: Callable[[], Sequence[SimulatedWorker]]) -> None:
        self._world = world
        self._workers = workers
        self.added: set[str] = set()
        """URLs whose addition was acknowledged."""
        self.handed_out: list[HandedOut] = []
        self.counted: list[tuple[int, int]] = []
        """Partition and order of each outcome that was acknowledged as counted."""
        self.ended_ms: dict[tuple[int, int], int] = {}
        """When the fetch of an order ended, by partition and order."""
        self.n_signals = 0
        self.n_unavailable = 0
        self.n_errors = 0
        for ms, act in ((_ADD_MS, self._add), (_LEASE_MS, self._lease), (_SIGNAL_MS, self._signal)):
            self._repeat(ms, act)

    def _repeat(self, ms: float, act: Callable[[SimulatedWorker], None]) -> None:
        def again() -> None:
            self._call(act)
            self._world.after(ms * self._world.rng.uniform(0.2, 2.0), again, kind="client")

        self._world.after(ms * self._world.rng.random(), again, kind="client")

    def _call(self, act: Callable[[SimulatedWorker], None]) -> None:
        """Call any worker; it answers whatever happens meanwhile, or ends before."""
        workers = self._workers()
        if workers:
            worker = self._world.rng.choice(workers)
            self._world.after(0, lambda: self._try(act, worker), worker, "call")

    def _try(self, act: Callable[[SimulatedWorker], None], worker: SimulatedWorker) -> None:
        try:
            act(worker)
        except RecrawlError:
            self.n_errors += 1

    def _add(self, worker: SimulatedWorker) -> None:
        urls = self._world.rng.sample(URLS, self._world.rng.randint(1, 6))
        for url, status in zip(urls, worker.corpus.add(urls).rows.tolist(), strict=True):
            if status in (RowStatus.DONE, RowStatus.DUPLICATE):
                self.added.add(url)
            self.n_unavailable += status == RowStatus.UNAVAILABLE

    def _signal(self, worker: SimulatedWorker) -> None:
        urls = self._world.rng.sample(URLS, 3)
        self.n_signals += int(worker.corpus.signal(urls, source="sitemap"))

    def _lease(self, worker: SimulatedWorker) -> None:
        orders = worker.corpus.lease(self._world.rng.randint(1, 4), with_shortfall=False)
        now_ms = self._world.now_ms
        for order in orders:
            handle = order.handle
            partition, number = partition_in(handle), order_in(handle)
            left_ms = order.expires_at_ms - worker.clock.wall_ms()
            assert order.url is not None
            self.handed_out.append(
                HandedOut(worker, partition, number, order.url, now_ms, now_ms + left_ms)
            )
            if left_ms <= _FETCH_MS[1] or self._world.happens(_FORGOTTEN):
                continue  # too late to fetch it, or the fetcher has ended
            self._world.after(self._world.rng.randint(*_FETCH_MS), partial(self._end_fetch, handle))

    def _end_fetch(self, handle: int) -> None:
        self.ended_ms[partition_in(handle), order_in(handle)] = self._world.now_ms
        digest = self._world.rng.randbytes(1)
        self._report(Outcome(handle=handle, digest=digest), _RETRIES_MAX)

    def _report(self, outcome: Outcome, n_retries: int) -> None:
        if n_retries == 0:
            return

        def again(ms: float) -> None:
            self._world.after(ms, lambda: self._report(outcome, n_retries - 1), kind="client")

        def act(worker: SimulatedWorker) -> None:
            try:
                (status,) = worker.corpus.report(outcome).rows.tolist()
            except (RecrawlError, Killed):
                again(self._world.rng.randint(*_RETRY_MS))
                raise
            if status == RowStatus.UNAVAILABLE:
                self.n_unavailable += 1
                again(self._world.rng.randrange(_RETRY_MS[0]))
            elif status == RowStatus.DONE:
                self.counted.append((partition_in(outcome.handle), order_in(outcome.handle)))
                if self._world.happens(0.03):  # the answer was lost, and the fetcher repeats it
                    again(self._world.rng.randint(*_RETRY_MS))

        self._call(act)
