"""The figures of a corpus for monitoring: read in a thread of their own, and kept for a while."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from recrawl.corpus import CorpusMetrics
from recrawl.messages.cluster_metrics import ClusterMetrics
from recrawl.service.hosting.lanes import CallLane

__all__ = ["MetricsCache", "ReadMetrics"]

logger = logging.getLogger(__name__)

_KEPT_SECONDS = 2.0
# Reading takes at most this share of the time, also if many programs ask for the figures.
_SHARE_MAX = 0.02
# A request does not wait longer than this for new figures, and gets the last ones.
_WAIT_SECONDS = 1.0


class ReadMetrics(NamedTuple):
    """Figures of a corpus, and when they were read."""

    metrics: CorpusMetrics | None
    """None if no partition is open in this process."""
    read_at: float
    """Instant of `time.monotonic`."""
    cluster: ClusterMetrics | None = None
    """Figures of the cluster; None if the corpus is not in one."""


class MetricsCache:
    """The last figures of one corpus.

    Parameters
    ----------
    corpus
        Object with the methods of `recrawl.Corpus`; one of a cluster also has `cluster_metrics`.
    """

    def __init__(self, corpus: Any) -> None:
        self._corpus = corpus
        self._read_cluster: Callable[[], ClusterMetrics | None] | None = getattr(
            corpus, "cluster_metrics", None
        )
        self._lane = CallLane("metrics", 1, 1)
        self._last: ReadMetrics | None = None
        self._next_at = 0.0
        self._reading: asyncio.Task[None] | None = None

    async def latest(self) -> ReadMetrics | None:
        """Return figures that are a few seconds old at most; None if none could be read yet."""
        if self._reading is None and time.monotonic() >= self._next_at:
            self._reading = asyncio.create_task(self._read())
            self._reading.add_done_callback(self._end_reading)
        if self._reading is not None:
            await asyncio.wait([self._reading], timeout=_WAIT_SECONDS)
        return self._last

    async def _read(self) -> None:
        began = time.monotonic()
        try:
            self._last = await self._lane.run(self._read_figures)
        except Exception:
            # The age of the last figures, which is a metric too, shows that something is wrong.
            logger.exception("the figures of a corpus could not be read")
        took = time.monotonic() - began
        self._next_at = time.monotonic() + max(_KEPT_SECONDS, took / _SHARE_MAX)

    def _read_figures(self) -> ReadMetrics:
        cluster = None if self._read_cluster is None else self._read_cluster()
        return ReadMetrics(self._corpus.metrics(), time.monotonic(), cluster)

    def _end_reading(self, _: "asyncio.Task[None]") -> None:
        self._reading = None

    async def close(self) -> None:
        """Wait for the figures that are read now."""
        if self._reading is not None:
            await asyncio.wait([self._reading])
        await self._lane.close()
