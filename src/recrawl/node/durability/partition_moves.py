"""One move of a partition at a time, while moves of other partitions go on.

A move waits for calls under way, brokers and storage.  A claim after a worker has died must not
wait behind a partition that is being given to another worker at the same moment.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from recrawl.errors import RecrawlError
from recrawl.one_process import ProcessLock

__all__ = ["PartitionMoves"]


class PartitionMoves:
    """The partitions of one process that are being opened, closed or made a standby."""

    def __init__(self) -> None:
        self._ended = threading.Condition()
        # A child must not wait for the threads of its parent.
        self._lock = ProcessLock(self._ended)
        self._movers: dict[int, int] = {}  # thread by partition
        self.is_closed = False
        """Whether no move may begin any more."""

    @contextmanager
    def move(self, partition: int) -> Iterator[None]:
        """Hold a partition; wait while another thread moves it.

        Parameters
        ----------
        partition
            Number of the partition.

        Raises
        ------
        RecrawlError
            If the corpus is closed.
        """
        own = threading.get_ident()
        with self._lock:
            # A signal handler may interrupt a move of its own thread, and must not wait for it.
            self._ended.wait_for(lambda: self._movers.get(partition, own) == own)
            if self.is_closed:
                raise RecrawlError("the corpus is closed")
            is_outermost = partition not in self._movers
            self._movers[partition] = own
        try:
            yield
        finally:
            if is_outermost:
                with self._lock:
                    del self._movers[partition]
                    self._ended.notify_all()

    def close(self) -> bool:
        """Let no move begin any more, and wait for those under way; return False if it was done."""
        own = threading.get_ident()
        with self._lock:
            if self.is_closed:
                return False
            self.is_closed = True
            self._ended.wait_for(lambda: all(mover == own for mover in self._movers.values()))
            return True
