"""Share the orders that are found among several callers, each with its own key in the log."""

from collections.abc import Sequence

from recrawl.corpus.leasing.repeated import RequestParts
from recrawl.node.orders import OrderRows
from recrawl.node.records import RequestKey

__all__ = ["SharedOrders"]


class SharedOrders:
    """The orders of several callers, while they are found; who came first gets the first ones.

    Parameters
    ----------
    counts
        Largest number of orders of each caller.
    parts
        Keys of each caller's request, None for a caller without; by default nobody has one.
    """

    def __init__(
        self, counts: Sequence[int], parts: Sequence[RequestParts | None] | None = None
    ) -> None:
        self._left = [max(n, 0) for n in counts]
        self._parts = parts
        self._found = [OrderRows.none()] * len(counts)
        self._owners: list[int] = []
        self.n_left = sum(self._left)
        """Number of orders that are still wanted."""

    def split(self, partition: int, n_rows: int) -> list[tuple[int, RequestKey | None]]:
        """Return how the next orders of a partition are logged: pieces, each with its key.

        Parameters
        ----------
        partition
            Number of the partition.
        n_rows
            Number of orders, not more than are wanted.
        """
        if self._parts is None:
            return [(n_rows, None)]
        self._owners.clear()
        pieces: list[tuple[int, RequestKey | None]] = []
        for owner, n in enumerate(self._left):
            n_own = min(n, n_rows)
            if n_own > 0:
                parts = self._parts[owner]
                self._owners.append(owner)
                pieces.append((n_own, None if parts is None else parts.take(partition)))
                n_rows -= n_own
        return pieces

    def add(self, rows: OrderRows, counts: Sequence[int]) -> None:
        """Give the orders of the last pieces to their callers.

        Parameters
        ----------
        rows
            Orders that are valid.
        counts
            Number of valid orders of each piece.
        """
        if self._parts is None:
            first = 0
            for owner, n in enumerate(self._left):
                if n > 0 and first < len(rows):
                    first += self._give(owner, rows[first : first + n])
            return
        first = 0
        for owner, n in zip(self._owners, counts, strict=True):
            first += self._give(owner, rows[first : first + n])

    def _give(self, owner: int, rows: OrderRows) -> int:
        self._found[owner] += rows
        self._left[owner] -= len(rows)
        self.n_left -= len(rows)
        return len(rows)

    def orders(self) -> list[OrderRows]:
        """Return the orders of each caller."""
        return self._found
