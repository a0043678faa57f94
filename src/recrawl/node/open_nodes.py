"""The nodes of the partitions that are open in this process, which need not be all of a corpus."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.errors import PartitionAway
from recrawl.messages.results import RowStatus
from recrawl.node.node import Node
from recrawl.node.routing import Urls, split_by_partition
from recrawl.urls import GroupBy

__all__ = ["NodeBatch", "OpenNodes"]


class NodeBatch(NamedTuple):
    """Valid URLs of one open partition."""

    node: Node
    rows: NDArray[np.int64]
    """Row of each URL in what was given."""
    name: pa.StringArray
    """Names of the pages, see `recrawl.urls.page_names`."""
    given: pa.StringArray
    """URLs as they were given."""


class OpenNodes:
    """The nodes of the open partitions of a corpus, in the order of their partitions.

    Parameters
    ----------
    nodes
        Nodes to begin with.
    n_partitions
        Number of partitions of the whole corpus, open or not.
    generation
        Layout generation of the corpus.
    """

    def __init__(self, nodes: Iterable[Node], n_partitions: int, generation: int = 0) -> None:
        self.n_partitions = n_partitions
        self.generation = generation
        self.by_partition = {node.partition: node for node in nodes}
        """Nodes by partition, for fast look-ups."""
        self.all: tuple[Node, ...] = ()
        """The open nodes; a tuple that never changes, so that several loops see the same nodes."""
        self._update()

    def _update(self) -> None:
        self.all = tuple(node for _, node in sorted(self.by_partition.items()))

    def __iter__(self) -> Iterator[Node]:
        return iter(self.all)

    def __len__(self) -> int:
        """Return the number of open partitions."""
        return len(self.all)

    def __getitem__(self, partition: int) -> Node:
        """Return the node of a partition; raise `PartitionAway` if it is not open here."""
        node = self.by_partition.get(partition)
        if node is None:
            raise PartitionAway(partition)
        return node

    def __contains__(self, partition: int) -> bool:
        """Return whether a partition is open here."""
        return partition in self.by_partition

    def get(self, partition: int) -> Node | None:
        """Return the node of a partition; None if it is not open here."""
        return self.by_partition.get(partition)

    def split(
        self,
        urls: Urls,
        by: GroupBy,
        *,
        key: Any = None,
        n_bytes_beside: NDArray[np.int64] | None = None,
        row_status: NDArray[np.uint8] | None = None,
    ) -> Iterator[NodeBatch]:
        """Yield the valid URLs of open partitions, in batches of one partition each.

        Parameters
        ----------
        urls
            URLs as users give them.
        by
            Grouping of the corpus.
        key, n_bytes_beside
            Arguments of `recrawl.node.routing.split_by_partition`.
        row_status
            `RowStatus` of each row: becomes UNAVAILABLE where the partition is not open here.
            Without it, such a row raises `PartitionAway`.
        """
        for i, rows, name, given in split_by_partition(
            urls, self.n_partitions, by, key=key, n_bytes_beside=n_bytes_beside
        ):
            node = self.by_partition.get(i)
            if node is not None:
                yield NodeBatch(node, rows, name, given)
            elif row_status is not None:
                row_status[rows] = RowStatus.UNAVAILABLE
            else:
                raise PartitionAway(i)

    def put(self, node: Node) -> None:
        """Add the node of a partition, or replace the one before."""
        self.by_partition[node.partition] = node
        self._update()
