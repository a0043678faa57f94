"""Mistakes that killing a writer must show: ``python -m tests.unit.benchmarks.crash_mutants NAME``.

The mistake is made in this process, whose forks are the writers; it ends with an `AssertionError`.
"""

import sys
from collections.abc import Callable
from typing import Any

from benchmarks import crash
from recrawl.kv import KeyValues
from recrawl.node.durability import recovery
from recrawl.node.node import BegunOrders, Node
from recrawl.shard import events

__all__ = ["MUTANTS"]


def _acknowledge_before_writing() -> None:
    """Keep each write to the log in memory until the next one."""
    write = KeyValues.write
    waiting: dict[int, tuple[Any, Any]] = {}

    def write_later(self: KeyValues, keys: Any, values: Any, **options: Any) -> None:
        if self.folder.name != "log" or not keys:
            write(self, keys, values, **options)
            return
        before, waiting[id(self)] = waiting.get(id(self)), (keys, values)
        if before is not None:
            write(self, *before)

    KeyValues.write = write_later  # type: ignore[method-assign]


def _hand_out_orders_without_logging_them() -> None:
    def begin_orders(
        self: Node, n: int, now_ms: int, *, split: Any, lease_seconds: float | None = None, **_: Any
    ) -> BegunOrders:
        proposal = self.shard.decide(now_ms, n, lease_seconds=lease_seconds)
        counts: list[Any] = []
        if proposal.order.size:
            counts = [n_rows for n_rows, _ in split(proposal.order.size)]
            assert self.shard.apply(proposal).is_all_valid
        return BegunOrders(proposal, counts, None)

    def finish_orders(self: Node, begun: BegunOrders) -> tuple[events.Ordered, list[Any]]:
        del self
        return begun.proposal, [*begun.submissions]

    Node.begin_orders = begin_orders  # type: ignore[method-assign]
    Node.finish_orders = finish_orders  # type: ignore[method-assign]


def _replay_one_record_twice() -> None:
    class ForgetfulNode(Node):
        def __init__(self, *, position: int, **parts: Any) -> None:
            super().__init__(position=max(position - 1, 0), **parts)

    vars(recovery)["Node"] = ForgetfulNode


MUTANTS: dict[str, Callable[[], None]] = {
    "acknowledged before it is written": _acknowledge_before_writing,
    "orders are not logged": _hand_out_orders_without_logging_them,
    "a record is replayed twice": _replay_one_record_twice,
}


if __name__ == "__main__":
    MUTANTS[sys.argv[1]]()
    # A few kills show the mistake; on a busy machine, where writers get less done, some more.
    crash.measure(30, "rocksdb", seed=3)
