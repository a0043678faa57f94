"""Send rows again whose partitions cannot be reached now.

After a worker of a cluster has failed, its partitions have no owner for some seconds.  Rows of
these partitions have a status that says so, while the other rows of the same request are done.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.errors import ServiceUnavailable
from recrawl.messages.results import find_unavailable

__all__ = ["AnsweredRows", "SentRows", "repeat_unavailable"]

_log = logging.getLogger("recrawl.client")

_PAUSE_SECONDS = 0.2
_PAUSE_SECONDS_MAX = 10.0
# Partitions that are away for longer are worth a message.
_AWAY_SECONDS = 2.0


class SentRows(NamedTuple):
    """The rows of one request, and its answer."""

    table: pa.Table
    request: str | None
    """Idempotency key of the request."""
    answer: Any


class AnsweredRows(NamedTuple):
    """The rows of a call that have their status from one answer."""

    rows: NDArray[np.int64]
    """Numbers of the rows in the call."""
    places: NDArray[np.int64]
    """Numbers of the same rows in the answer."""
    n_rows: int
    """Number of all rows in the answer."""
    answer: Any


async def repeat_unavailable(
    status: NDArray[np.uint8],
    seconds_max: float,
    send: Callable[[NDArray[np.int64], float], Awaitable[None]],
) -> None:
    """Send rows again while their partitions cannot be reached, with pauses that double.

    Parameters
    ----------
    status
        `RowStatus` of each row, which ``send`` changes.
    seconds_max
        Longest time; 0 for never.
    send
        Function that sends some rows, given by number, and notes their new status.  The second
        argument is the instant after which it should not try any more.
    """
    loop = asyncio.get_running_loop()
    began_at = loop.time()
    ends_at = began_at + seconds_max
    pause = _PAUSE_SECONDS
    is_announced = False
    while (rows := find_unavailable(status)).size and (left := ends_at - loop.time()) > 0:
        if not is_announced and loop.time() - began_at >= _AWAY_SECONDS:
            is_announced = True
            _log.warning(
                "the partitions of %d rows cannot be reached now; sending the rows again", rows.size
            )
        # Clients that failed together must not all come back at the same time.
        await asyncio.sleep(min(pause * random.uniform(0.5, 1.0), left))
        pause = min(pause * 2, _PAUSE_SECONDS_MAX)
        # What the other rows have brought about must not get lost with the server.
        with suppress(ServiceUnavailable):
            await send(rows, ends_at)
