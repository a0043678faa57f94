"""The open nodes of a corpus are found by partition, and in the order of their partitions."""

from typing import Any, cast

import numpy as np
import pytest

from recrawl.errors import PartitionAway, RecrawlError
from recrawl.node.node import Node
from recrawl.node.open_nodes import OpenNodes


class OnePartition:
    def __init__(self, partition: int) -> None:
        self.partition = partition


def open_nodes(*partitions: int) -> tuple[OpenNodes, list[Any]]:
    nodes = [OnePartition(i) for i in partitions]
    return OpenNodes(cast("list[Node]", nodes), 8, generation=3), nodes


def test_nodes_come_in_the_order_of_their_partitions() -> None:
    found, nodes = open_nodes(5, 0, 2)
    assert list(found) == list(found.all) == [nodes[1], nodes[2], nodes[0]]
    assert (len(found), found.n_partitions, found.generation) == (3, 8, 3)


def test_a_partition_that_is_not_open_is_away() -> None:
    found, nodes = open_nodes(5, 2)
    assert found[5] is found.get(5) is nodes[0]
    assert 2 in found
    assert 3 not in found
    assert found.get(3) is None
    with pytest.raises(PartitionAway, match="partition 3 is not open in this process") as error:
        found[3]
    assert error.value.partition == 3
    assert isinstance(error.value, RecrawlError)


def test_a_node_replaces_the_one_of_its_partition() -> None:
    found, (first,) = open_nodes(2)
    before = found.all
    second: Any = OnePartition(2)
    found.put(second)
    assert found[2] is second
    assert (before, found.all) == ((first,), (second,))


def test_rows_are_split_by_partition() -> None:
    found, nodes = open_nodes(0, 2, 5)
    is_away = np.zeros(7, np.bool_)
    partition = np.array([5, -1, 2, 7, 5, 0, 9])
    parts = [(node, rows.tolist()) for node, rows in found.split_rows(partition, is_away)]
    assert parts == [(nodes[0], [5]), (nodes[1], [2]), (nodes[2], [0, 4])]
    assert np.flatnonzero(is_away).tolist() == [3]
    assert not [*found.split_rows(np.full(2, -1), np.zeros(2, np.bool_))]


def test_rows_of_several_partitions_are_used_together() -> None:
    found, nodes = open_nodes(0, 2, 5)
    is_away = np.zeros(4, np.bool_)
    groups = found.split_rows_together(np.array([5, 2, 0, 3]), is_away, n_together=2)
    together = [[(node, rows.tolist()) for node, rows in group] for group in groups]
    assert together == [[(nodes[0], [2]), (nodes[1], [1])], [(nodes[2], [0])]]
    assert is_away.tolist() == [False, False, False, True]
    for node in nodes:
        assert found.wait_for_users(node, 0.0)
