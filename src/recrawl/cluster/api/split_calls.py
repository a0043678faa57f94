"""Split a call by the owners of its rows, make all parts at the same time, and collect them.

The part of this process runs while the others are under way, and has a deadline like them.  A part
that reaches a worker which does not own its partitions is sent once more, to the owner that this
worker names; then its rows are unavailable.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from recrawl.cluster.api.own_calls import OwnCalls
from recrawl.cluster.api.owners import Owner, Owners
from recrawl.cluster.api.worker_calls import OwnerClient, WorkerCalls
from recrawl.corpus import Corpus
from recrawl.errors import (
    LedgerError,
    PageElsewhere,
    RecrawlError,
    RequestKeyReused,
    ServiceUnavailable,
    WrongOwner,
)

__all__ = ["Part", "SplitCalls", "SplitResult"]

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_ATTEMPTS_MAX: Final = 2
_SLACK_SECONDS: Final = 30.0


class Part(NamedTuple):
    """The rows of a call that one worker owns."""

    owner: Owner | None
    """None for this process."""
    rows: NDArray[np.int64]
    epochs: dict[int, int]
    """Epoch of each partition, as far as this worker knows."""


class SplitResult(NamedTuple, Generic[_T]):
    """The results of the parts of a call."""

    parts: list[tuple[NDArray[np.int64], _T]]
    """Rows and result of each part that was done."""
    away: NDArray[np.int64]
    """Rows whose owner could not be reached."""


class SplitCalls:
    """Calls of one worker whose rows belong to several.

    Parameters
    ----------
    local
        Corpus with the partitions that are open in this process.
    owners
        Owners of partitions, as this worker knows them.
    calls
        Requests to other workers.
    """

    def __init__(self, local: Corpus, owners: Owners, calls: WorkerCalls) -> None:
        self.local = local
        self.owners = owners
        self.calls = calls
        self.own = OwnCalls(local)

    def close(self) -> None:
        """Wait for the calls to partitions of this process."""
        self.own.close()

    def split(
        self,
        partition: NDArray[np.int64],
        known: Mapping[int, Owner | None] | None = None,
        refused: Part | None = None,
    ) -> tuple[list[Part], NDArray[np.int64]]:
        """Return the parts of rows by their owners, and the rows that have none now.

        Parameters
        ----------
        partition
            Partition of each row; -1 for one that has none, which is answered by this process.
        known
            Owners that are known better than by the table; None for one that is not known.
        refused
            Part that a worker has refused, because it does not own the partitions in ``known``; if
            the table has nobody else, these have no owner now.
        """
        rows_of: dict[tuple[str, str] | None, list[NDArray[np.int64]]] = {}
        epochs: dict[tuple[str, str] | None, dict[int, int]] = {}
        owner_by: dict[tuple[str, str] | None, Owner | None] = {}
        away: list[NDArray[np.int64]] = []
        for i in np.unique(partition).tolist():
            rows = np.flatnonzero(partition == i)
            owner: Owner | None = None
            if i >= 0 and i not in self.local.nodes:
                owner = (known or {}).get(i) or self.owners.owner_of(i)
                is_refused = i in (known or {}) and _is_same(owner, i, refused)
                if owner is None or owner.worker == self.owners.worker or is_refused:
                    away.append(rows)
                    continue
            name = None if owner is None else (owner.worker, owner.address)
            rows_of.setdefault(name, []).append(rows)
            owner_by[name] = owner
            if owner is not None:
                epochs.setdefault(name, {})[i] = owner.epoch
        parts = [
            Part(owner_by[name], _join(rows), epochs.get(name, {}))
            for name, rows in rows_of.items()
        ]
        return parts, _join(away)

    def run(
        self,
        partition: NDArray[np.int64],
        local_call: Callable[[NDArray[np.int64]], _T],
        remote_call: Callable[[OwnerClient, NDArray[np.int64]], Awaitable[_T]],
        *,
        request: tuple[bytes, bytes] | None = None,
        in_parts: bool = False,
        seconds_max: float | None = None,
    ) -> SplitResult[_T]:
        """Make a call with rows of several owners.

        The result of a part may also be `PageElsewhere`.

        Parameters
        ----------
        partition
            Partition of each row; -1 for one that has none.
        local_call
            Function that makes the call for some rows in this process.
        remote_call
            Function that makes it for some rows with a client of another worker.
        request
            Key and digest of the request, if it may be repeated.
        in_parts
            Whether the pages are of split hosts, and not in their home partitions.
        seconds_max
            Deadline of each part; those of the settings by default.

        Raises
        ------
        RecrawlError, ValueError
            If a part has failed for a reason that another attempt would not change, or this process
            has failed and no other part was done.
        """
        result: SplitResult[_T] = SplitResult([], np.zeros(0, np.int64))
        local_error: RecrawlError | None = None
        parts, away_rows = self.split(partition)
        away = [away_rows]
        settings = self.calls.settings
        deadline = settings.seconds_max if seconds_max is None else seconds_max
        own_deadline = settings.own_seconds_max if seconds_max is None else seconds_max
        for attempt in range(_ATTEMPTS_MAX):
            sent = [
                (part, self._send(part, remote_call, request, deadline, in_parts=in_parts))
                for part in parts
                if part.owner is not None
            ]
            own = [
                (part.rows, self.own.begin(partial(local_call, part.rows)))
                for part in parts
                if part.owner is None
            ]
            for rows, call in own:
                try:
                    result.parts.append((rows, self.own.result_of(call, own_deadline)))
                except PageElsewhere as error:
                    result.parts.append((rows, cast(_T, error)))
                except (ServiceUnavailable, LedgerError):
                    away.append(rows)  # like those of another worker that does not answer
                except RecrawlError as error:
                    if isinstance(error, ValueError):
                        _collect_all(sent, deadline)
                        raise
                    local_error = error
                    away.append(rows)
            is_last = attempt + 1 == _ATTEMPTS_MAX
            parts, lost = self._collect(sent, deadline, partition, result, is_last=is_last)
            away += lost
            if not parts:
                break
        if local_error is not None and not result.parts:
            raise local_error
        return SplitResult(result.parts, np.sort(_join(away)))

    def _send(
        self,
        part: Part,
        remote_call: Callable[[OwnerClient, NDArray[np.int64]], Awaitable[_T]],
        request: tuple[bytes, bytes] | None,
        seconds_max: float,
        *,
        in_parts: bool,
    ) -> "Future[_T]":
        assert part.owner is not None
        return self.calls.run(
            self.calls.call(
                part.owner,
                lambda client: remote_call(client, part.rows),
                epochs=part.epochs,
                request=request,
                in_parts=in_parts,
                seconds_max=seconds_max,
            )
        )

    def _collect(
        self,
        sent: Sequence[tuple[Part, "Future[_T]"]],
        seconds_max: float,
        partition: NDArray[np.int64],
        result: SplitResult[_T],
        *,
        is_last: bool,
    ) -> tuple[list[Part], list[NDArray[np.int64]]]:
        """Wait for the parts that were sent; return those to send again, and the rows lost."""
        again: list[Part] = []
        lost: list[NDArray[np.int64]] = []
        failed: Exception | None = None
        for (part, _), found in zip(sent, _collect_all(sent, seconds_max), strict=True):
            match found:
                case WrongOwner() if not is_last:
                    parts, away = self.split(partition[part.rows], found.owners, part)
                    again += [one._replace(rows=part.rows[one.rows]) for one in parts]
                    lost.append(part.rows[away])
                case PageElsewhere():
                    result.parts.append((part.rows, cast(_T, found)))
                case ValueError() | RequestKeyReused() | TypeError():
                    failed = failed or found
                case Exception():
                    if not isinstance(found, ServiceUnavailable):
                        name = "" if part.owner is None else part.owner.worker
                        logger.warning("a call to the worker %s has failed: %s", name, found)
                    lost.append(part.rows)
                case _:
                    result.parts.append((part.rows, found))
        if failed is not None:
            raise failed
        return again, lost


def _is_same(owner: Owner | None, partition: int, refused: Part | None) -> bool:
    """Return whether a partition still belongs to the worker that has refused it."""
    if owner is None or refused is None or refused.owner is None:
        return False
    is_later = owner.epoch > refused.epochs.get(partition, owner.epoch)
    return owner.worker == refused.owner.worker and not is_later


def _collect_all(sent: Sequence[tuple[Part, "Future[Any]"]], seconds_max: float) -> list[Any]:
    """Return the result or the error of each part."""
    found: list[Any] = []
    for _, answer in sent:
        try:
            # Requests have deadlines themselves; this is for a thread that is stuck.
            found.append(answer.result(seconds_max + _SLACK_SECONDS))
        except Exception as error:
            found.append(error)
    return found


def _join(rows: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    if len(rows) == 1:
        return rows[0]
    return np.sort(np.concatenate([np.zeros(0, np.int64), *rows]))
