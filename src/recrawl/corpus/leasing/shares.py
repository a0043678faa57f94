"""Share the orders that are found among several callers, each with its own key in the log."""

from collections.abc import Sequence
from typing import NamedTuple

from recrawl.corpus.leasing.repeated import RequestParts
from recrawl.node.orders import OrderRows
from recrawl.node.records import RequestKey

__all__ = ["Reserved", "SharedOrders"]


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
        self._found: list[list[OrderRows]] = [[] for _ in counts]
        self.n_left = sum(self._left)
        """Number of orders that are still wanted, and not reserved."""

    def reserve(self, partition: int, n_rows: int) -> "Reserved":
        """Reserve the next orders of a partition for their callers.

        Parameters
        ----------
        partition
            Number of the partition.
        n_rows
            Number of orders, not more than are wanted.
        """
        owners: list[tuple[int, int]] = []
        pieces: list[tuple[int, RequestKey | None]] = []
        n = n_rows
        for owner, n_wanted in enumerate(self._left):
            n_own = min(n_wanted, n)
            if n_own > 0:
                n -= n_own
                self._left[owner] -= n_own
                owners.append((owner, n_own))
                if self._parts is not None:
                    parts = self._parts[owner]
                    pieces.append((n_own, None if parts is None else parts.take(partition)))
        self.n_left -= n_rows - n
        return Reserved(owners, pieces or [(n_rows, None)])

    def add(self, rows: OrderRows, counts: Sequence[int], reserved: "Reserved") -> None:
        """Give orders to the callers that they are reserved for.

        Parameters
        ----------
        rows
            Orders that are valid.
        counts
            Number of valid orders of each piece.
        reserved
            Callers that they were reserved for, who still want what is missing.
        """
        first = 0
        for i, (owner, n_own) in enumerate(reserved.owners):
            n = n_own if self._parts is None else counts[i]
            given = rows[first : first + n]
            first += len(given)
            self._found[owner].append(given)
            self._left[owner] += n_own - len(given)
            self.n_left += n_own - len(given)

    def orders(self) -> list[OrderRows]:
        """Return the orders of each caller."""
        return [OrderRows.join(found) for found in self._found]


class Reserved(NamedTuple):
    """The callers that the next orders of a partition are for."""

    owners: list[tuple[int, int]]
    """Numbers of the callers, and how many orders are for each."""
    pieces: list[tuple[int, RequestKey | None]]
    """How the orders are logged: pieces, each with its key."""
