"""Lease pages of all workers: each gets a share of the number wanted, and never more is asked for.

In each round the number that is still missing is split among the workers that may have more: at
first all, then those that have given all that they were asked for.  So there is never a surplus,
which would spend budget for nothing.

A lease with a request key may be repeated at another worker, which does not know who was asked the
first time.  So all are first asked for the orders that they gave under this key, unless the client
says that it has never sent it before.  The first time a worker is asked for new ones it gets the
key itself, and later ones that are derived from it.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple
from zlib import crc32

from recrawl.client import AsyncClient
from recrawl.cluster.api.owners import Owner
from recrawl.cluster.api.split_calls import SplitCalls
from recrawl.corpus import FirstRequestKey, Order, Orders, RequestKey
from recrawl.corpus.leasing.shortfall import merge_shortfalls
from recrawl.errors import LedgerError, RecrawlError, RequestKeyReused, ServiceUnavailable
from recrawl.messages.enums import Why
from recrawl.messages.leases import Shortfall, ShortfallReason

__all__ = ["SharedLeases"]

logger = logging.getLogger(__name__)

# Number of times that a lease asks the same worker.
_ASKED_MAX: Final = 16
_THREADS: Final = 4
_AWAY_SECONDS: Final = 1.0


class _Options(NamedTuple):
    seconds: float | None
    exact: bool
    run: str | None
    with_shortfall: bool


class _Asked(NamedTuple):
    """A worker, and what it was asked for and has given."""

    worker: Owner | None
    n: int
    orders: Orders | Exception


@dataclass(slots=True)
class _Lease:
    """A lease under way."""

    orders: list[Order] = field(default_factory=list)
    shortfalls: dict[Owner | None, Shortfall] = field(default_factory=dict)
    n_given: dict[Owner | None, int] = field(default_factory=dict)
    error: Exception | None = None
    """Error of this process, which counts if nobody has given anything."""
    n_asked: dict[Owner | None, int] = field(default_factory=dict)


class SharedLeases:
    """Leases from all workers.

    Parameters
    ----------
    split_calls
        Calls to the owners of partitions.
    release
        Function that gives orders back, by their handles.
    """

    def __init__(self, split_calls: SplitCalls, release: Callable[[Sequence[int]], object]) -> None:
        self._local = split_calls.local
        self._owners = split_calls.owners
        self._calls = split_calls.calls
        self._own = split_calls.own
        self._release = release
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="recrawl-give-back")
        self._turn = 0

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()

    def lease_each(
        self,
        counts: Sequence[int],
        requests: Sequence[RequestKey | None],
        *,
        seconds: float | None,
        exact: bool,
        run: str | None,
        with_shortfall: bool,
    ) -> list[Orders | Exception]:
        """Lease for several callers, see `Corpus.lease_each`.

        Parameters
        ----------
        counts
            Largest number of orders of each caller.
        requests
            Key of each caller's request.
        seconds, exact, run, with_shortfall
            Arguments of `Corpus.lease`.
        """
        options = _Options(seconds, exact, run, with_shortfall)
        return self._calls.run(self._lease_each(counts, requests, options)).result()

    async def _lease_each(
        self, counts: Sequence[int], requests: Sequence[RequestKey | None], options: _Options
    ) -> list[Orders | Exception]:
        plain = [i for i, request in enumerate(requests) if request is None]
        keyed = [i for i, request in enumerate(requests) if request is not None]
        wanted = [(sum(max(counts[i], 0) for i in plain), None)] if plain else []
        found = await asyncio.gather(
            *(self._lease(n, request, options) for n, request in wanted),
            *(self._lease(max(counts[i], 0), requests[i], options) for i in keyed),
            return_exceptions=True,
        )
        each: dict[int, Orders | Exception] = {}
        if plain:
            each.update(zip(plain, _deal(found[0], [counts[i] for i in plain]), strict=True))
        for i, one in zip(keyed, found[len(wanted) :], strict=True):
            if isinstance(one, BaseException) and not isinstance(one, Exception):
                raise one
            each[i] = one
        return [each[i] for i in range(len(counts))]

    # ------------------------------------------------------------------ one lease

    def _workers(self, request: RequestKey | None) -> list[Owner | None]:
        """Return all workers that own partitions, beginning with another one each time."""
        found: dict[str, Owner | None] = {self._owners.worker: None}
        for partition in range(self._local.nodes.n_partitions):
            owner = self._owners.owner_of(partition)
            if owner is not None:
                found.setdefault(owner.worker, owner)
        if len(found) > 1 and not self._local.nodes.all:
            del found[self._owners.worker]  # a worker that has just started owns nothing
        workers = [found[name] for name in sorted(found)]
        self._turn += 1
        # A repeated request asks in the same order, so that the same workers are asked.
        first = (self._turn if request is None else crc32(request.key)) % len(workers)
        return workers[first:] + workers[:first]

    async def _lease(self, n: int, request: RequestKey | None, options: _Options) -> Orders:
        workers = self._workers(request)
        if request is not None and not isinstance(request, FirstRequestKey):
            held = await self._find_held(workers, request, options)
            if held:
                return Orders(held)
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + self._calls.settings.lease_seconds_max
        lease = _Lease()
        while workers and len(lease.orders) < n and loop.time() < ends_at:
            n_left = n - len(lease.orders)
            each, more = divmod(n_left, len(workers))
            shares = [each + (i < more) for i in range(len(workers))]
            asked = await asyncio.gather(
                *(
                    self._ask(worker, share, request, options, lease)
                    for worker, share in zip(workers, shares, strict=True)
                    if share
                )
            )
            rest = workers[len(asked) :]
            workers = rest + await self._take(asked, lease)
        if lease.error is not None and not lease.orders:
            raise lease.error
        return _orders_of(lease, n)

    async def _take(self, asked: Sequence[_Asked], lease: _Lease) -> list[Owner | None]:
        """Take what workers have given; return those that may have more."""
        more: list[Owner | None] = []
        failed: Exception | None = None
        for worker, n, found in asked:
            if not isinstance(found, Exception):
                n_before = lease.n_given.get(worker, 0)
                lease.n_given[worker] = n_before + len(found)
                known = {order.handle for order in lease.orders}
                lease.orders += [order for order in found if order.handle not in known]
                if found.shortfall is not None:
                    lease.shortfalls[worker] = _without_own(found.shortfall, n_before)
                if len(found) >= n and lease.n_asked[worker] < _ASKED_MAX:
                    more.append(worker)
            elif isinstance(found, RequestKeyReused | ValueError | TypeError):
                failed = failed or found
            else:
                self._note_away(worker, n, found, lease)
        if failed is not None:
            if lease.orders:
                handles = [order.handle for order in lease.orders]
                await asyncio.get_running_loop().run_in_executor(
                    self._threads, self._release, handles
                )
            raise failed
        return more

    def _note_away(self, worker: Owner | None, n: int, error: Exception, lease: _Lease) -> None:
        if isinstance(error, ServiceUnavailable | LedgerError):
            pass  # it is away or late, which is no error of the lease
        elif worker is None:
            lease.error = error
        else:
            logger.warning("a lease from the worker %s has failed: %s", worker.worker, error)
        name = self._owners.worker if worker is None else worker.worker
        reason = ShortfallReason(
            why=Why.UNAVAILABLE,
            n_pages=None,
            seconds=_AWAY_SECONDS,
            text=f"the partitions of the worker {name} cannot be reached now",
        )
        lease.shortfalls[worker] = Shortfall(
            n_requested=n, n_leased=0, reasons=(reason,), is_sampled=False
        )

    async def _ask(
        self,
        worker: Owner | None,
        n: int,
        request: RequestKey | None,
        options: _Options,
        lease: _Lease,
    ) -> _Asked:
        number = lease.n_asked.get(worker, 0)
        lease.n_asked[worker] = number + 1
        key = None if request is None else _key_of(request, number)
        return _Asked(worker, n, await self._call(worker, n, key, options))

    async def _call(
        self,
        worker: Owner | None,
        n: int,
        request: RequestKey | None,
        options: _Options,
        *,
        is_held_only: bool = False,
    ) -> Orders | Exception:
        arguments: dict[str, Any] = options._asdict()
        try:
            if worker is None:
                return await self._own.call(
                    lambda: self._local.lease(
                        0 if is_held_only else n, request=request, **arguments
                    ),
                    self._calls.settings.own_lease_seconds_max,
                    # A client with a key may ask for them again.
                    self._give_back if request is None else _do_nothing,
                )

            def lease(client: AsyncClient) -> Any:
                return client.lease(n, **arguments)

            found: Orders = await self._calls.call(
                worker,
                lease,
                seconds_max=self._calls.settings.lease_seconds_max,
                request=request,
                is_held_only=is_held_only,
            )
        except (RecrawlError, ValueError, TypeError) as error:
            return error
        return found

    def _give_back(self, orders: Orders) -> None:
        """Give back orders of this process that came too late."""
        with suppress(RuntimeError):  # the process ends, and they expire
            self._threads.submit(self._local.release, [one.handle for one in orders])

    async def _find_held(
        self, workers: Sequence[Owner | None], request: RequestKey, options: _Options
    ) -> list[Order]:
        """Return the orders that an earlier attempt got and that are still held."""
        options = options._replace(with_shortfall=False)
        # While a partition moves, its old owner and its new one both know its orders.
        orders: dict[int, Order] = {}
        for number in range(_ASKED_MAX):
            found = await asyncio.gather(
                *(
                    self._call(worker, 1, _key_of(request, number), options, is_held_only=True)
                    for worker in workers
                )
            )
            n_before = len(orders)
            for one in found:
                if isinstance(one, RequestKeyReused):
                    raise one
                if not isinstance(one, Exception):
                    orders |= {order.handle: order for order in one}
            if len(orders) == n_before:
                break
        return [*orders.values()]


def _do_nothing(_: Orders) -> None:
    pass


def _without_own(shortfall: Shortfall, n_before: int) -> Shortfall:
    """Return a shortfall in which orders of the same lease do not count as leased by others."""
    reasons = []
    for one in shortfall.reasons:
        if one.why is Why.IN_FLIGHT and one.n_pages:
            n_pages = max(one.n_pages - n_before, 0)
            text = one.text if n_pages else "all other pages are in this lease already"
            reasons.append(replace(one, n_pages=n_pages, text=text))
        else:
            reasons.append(one)
    return replace(shortfall, reasons=tuple(reasons))


def _key_of(request: RequestKey, number: int) -> RequestKey:
    return request if number == 0 else request._replace(key=request.key + b" again %d" % number)


def _orders_of(lease: _Lease, n: int) -> Orders:
    shortfall = None
    if len(lease.orders) < n:
        shortfall = merge_shortfalls(
            [*lease.shortfalls.values()], n_requested=n, n_leased=len(lease.orders)
        )
    return Orders(lease.orders, shortfall)


def _deal(found: Any, counts: Sequence[int]) -> list[Orders | Exception]:
    """Return the orders of each caller: those who came first get theirs first."""
    if isinstance(found, BaseException):
        if not isinstance(found, Exception):
            raise found
        return [found] * len(counts)
    each: list[Orders | Exception] = []
    first = 0
    for n in counts:
        own = found[first : first + max(n, 0)]
        first += len(own)
        shortfall = None
        if len(own) < n and found.shortfall is not None:
            shortfall = merge_shortfalls([found.shortfall], n_requested=n, n_leased=len(own))
        each.append(Orders(own, shortfall))
    return each
