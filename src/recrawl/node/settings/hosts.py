"""How often a group of pages may be asked: said by its owner, on top of what holds already."""

from dataclasses import dataclass

from recrawl.node.node import Node
from recrawl.shard import GroupsSet, event_of

__all__ = ["HostSettings", "politeness_event"]

_COUNT_MAX = 0xFFFF
# Milliseconds are kept in four bytes.
_DELAY_SECONDS_MAX = 4e6
_IS_CLOSED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSettings:
    """What to set for a host; what is None stays as it is.

    Parameters
    ----------
    delay
        Seconds between two fetches.
    in_flight_max
        Fetches at the same time.
    burst
        Fetches that may follow each other at once, where several may be in flight.
    blocked_until_ms
        Not to be asked before.
    is_closed
        Closed by its rules, or because these could not be read.
    """

    delay: float | None = None
    in_flight_max: int | None = None
    burst: int | None = None
    blocked_until_ms: int | None = None
    is_closed: bool | None = None

    def __post_init__(self) -> None:
        for name in ("in_flight_max", "burst"):
            count = getattr(self, name)
            if count is not None and not 1 <= count <= _COUNT_MAX:
                raise ValueError(f"{name} must be 1 to {_COUNT_MAX}, got {count!r}")
        if self.delay is not None and not 0 <= self.delay < _DELAY_SECONDS_MAX:
            raise ValueError(
                f"delay must be at least 0 and less than {_DELAY_SECONDS_MAX:g} s, "
                f"got {self.delay!r}"
            )


def politeness_event(node: Node, group: int, settings: HostSettings) -> GroupsSet:
    """Return the event that sets what is given for a group, and leaves the rest as it was."""
    groups, defaults = node.shard.tables.groups, node.shard.settings
    delay_ms: float = defaults.group_delay * 1000
    in_flight_max, burst = defaults.group_in_flight_max, defaults.group_burst
    blocked_until_ms, is_closed = 0, False
    if group < groups.delay_ms.size and groups.in_flight_max[group] > 0:
        delay_ms = int(groups.delay_ms[group])
        in_flight_max, burst = int(groups.in_flight_max[group]), int(groups.burst[group])
        blocked_until_ms = int(groups.blocked_until[group])
        is_closed = bool(groups.flags[group] & _IS_CLOSED)
    return event_of(
        GroupsSet,
        group=group,
        delay_ms=round(delay_ms if settings.delay is None else settings.delay * 1000),
        in_flight_max=settings.in_flight_max or in_flight_max,
        burst=settings.burst or burst,
        blocked_until_ms=(
            blocked_until_ms if settings.blocked_until_ms is None else settings.blocked_until_ms
        ),
        is_closed=is_closed if settings.is_closed is None else settings.is_closed,
    )
