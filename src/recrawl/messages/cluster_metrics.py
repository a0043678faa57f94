"""Figures of a cluster for monitoring, as one worker knows them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

__all__ = ["CALL_RESULTS", "MOVE_RESULTS", "ClusterMetrics", "MoveCount", "TimeCounts"]

CALL_RESULTS: Final = ("done", "wrong_owner", "unavailable", "failed")
"""How a request that a worker forwards to another can end."""
MOVE_RESULTS: Final = ("done", "lost", "failed")
"""How a move of a partition can end; it is lost if another worker claimed the partition."""


class MoveCount(NamedTuple):
    """Moves of one kind that ended in the same way."""

    kind: str
    result: str
    n: int


class TimeCounts(NamedTuple):
    """How many times were at most so long."""

    n_up_to: tuple[tuple[float, int], ...]
    """Upper ends of ranges in seconds, and the number of times at or below each; the last is
    inf."""
    sum_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetrics:
    """Figures of a cluster, as one worker knows them; counts are from its start on."""

    n_partitions: int
    n_owned: int
    """Partitions that this worker owns."""
    n_standbys: int
    """Partitions of which this worker has a copy."""
    standby_lag_seconds: float | None
    """Seconds by which the copy that is furthest behind is behind its log; None without one."""
    n_unowned: int
    """Partitions that no worker owns, as far as this one knows."""
    workers_by_state: Mapping[str, int] = field(default_factory=dict)
    """Workers that this one knows, by what they do."""
    is_frozen: bool = True
    """Whether this worker cannot tell who takes part, so that it claims nothing."""
    reads_log: bool = True
    """Whether this worker can read all logs; False if a newer version wrote to one."""
    budget_unit: Literal["fetches", "cost"] = "fetches"
    budget_per_second: float | None = None
    """Budget of all workers together, inf if unlimited; None if it is not known."""
    quota_per_second: float | None = None
    """What the partitions of this worker may spend, inf if unlimited; None if it is not known."""
    price: float | None = None
    """Common price; None if it is not known."""
    calls_by_result: Mapping[str, int] = field(default_factory=dict)
    """Requests to other workers, by `CALL_RESULTS`."""
    call_seconds: TimeCounts | None = None
    """Times until other workers had answered."""
    moves: tuple[MoveCount, ...] = ()
    """Moves of partitions, by kind and `MOVE_RESULTS`."""
