"""Change the politeness settings of a host."""

from dataclasses import dataclass

from recrawl.node.config.corpus_config import duration
from recrawl.node.domains import limit_event
from recrawl.node.node import Node
from recrawl.node.records import LogEntry
from recrawl.shard import GroupsSet, event_of
from recrawl.shard.state.tables import GROUP_CLOSED

__all__ = ["HostSettings", "host_events", "politeness_event"]

_COUNT_MAX = 0xFFFF
# The shard stores milliseconds in four bytes.
_DELAY_SECONDS_MAX = 4e6


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSettings:
    """New settings of a host; None leaves a setting unchanged.

    Parameters
    ----------
    delay
        Time between two fetches: seconds, or text such as ``"5s"``.
    in_flight_max
        Maximum number of concurrent fetches.
    burst
        Number of fetches without a delay between them, if several may be in flight.
    blocked_until_ms
        Instant before which the host must not be fetched.
    is_closed
        Whether the host's rules forbid all fetches, or could not be read.
    is_unlimited
        Whether pages added to the host are never limited as newcomers.
    """

    delay: float | str | None = None
    in_flight_max: int | None = None
    burst: int | None = None
    blocked_until_ms: int | None = None
    is_closed: bool | None = None
    is_unlimited: bool | None = None

    @property
    def has_politeness(self) -> bool:
        """Whether any setting of politeness is given."""
        given = (self.delay, self.in_flight_max, self.burst, self.blocked_until_ms, self.is_closed)
        return any(setting is not None for setting in given)

    def __post_init__(self) -> None:
        for name in ("in_flight_max", "burst"):
            count = getattr(self, name)
            if count is not None and not 1 <= count <= _COUNT_MAX:
                raise ValueError(f"{name} must be 1 to {_COUNT_MAX}, got {count!r}")
        if self.delay is None:
            return
        try:
            delay = duration(self.delay)
        except ValueError as error:
            raise ValueError(f"delay {error}") from None
        if not 0 <= delay < _DELAY_SECONDS_MAX:
            raise ValueError(
                f"delay must be at least 0 and less than {_DELAY_SECONDS_MAX:g} s, "
                f"got {self.delay!r}"
            )
        object.__setattr__(self, "delay", delay)


def host_events(node: Node, group: int, settings: HostSettings) -> list[LogEntry]:
    """Return the events that apply new settings to a group."""
    events: list[LogEntry] = []
    if settings.has_politeness or settings.is_unlimited is None:
        events.append(politeness_event(node, group, settings))
    if settings.is_unlimited is not None:
        events.append(limit_event(node, group, is_unlimited=settings.is_unlimited))
    return events


def politeness_event(node: Node, group: int, settings: HostSettings) -> GroupsSet:
    """Return the event that applies new settings to a group and keeps its other ones."""
    groups, defaults = node.shard.tables.groups, node.shard.settings
    delay_ms: float = defaults.group_delay * 1000
    in_flight_max, burst = defaults.group_in_flight_max, defaults.group_burst
    blocked_until_ms, is_closed = 0, False
    if group < groups.delay_ms.size and groups.in_flight_max[group] > 0:
        delay_ms = int(groups.delay_ms[group])
        in_flight_max, burst = int(groups.in_flight_max[group]), int(groups.burst[group])
        blocked_until_ms = int(groups.blocked_until[group])
        is_closed = bool(groups.flags[group] & GROUP_CLOSED)
    return event_of(
        GroupsSet,
        group=group,
        delay_ms=round(delay_ms if settings.delay is None else float(settings.delay) * 1000),
        in_flight_max=settings.in_flight_max or in_flight_max,
        burst=settings.burst or burst,
        blocked_until_ms=(
            blocked_until_ms if settings.blocked_until_ms is None else settings.blocked_until_ms
        ),
        is_closed=is_closed if settings.is_closed is None else settings.is_closed,
    )
