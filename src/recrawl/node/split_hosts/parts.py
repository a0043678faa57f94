"""What a node does for the hosts of which it has a part: fetch in granted windows only."""

from collections.abc import Sequence

from recrawl.node.node import Node
from recrawl.node.records import LogEntry
from recrawl.node.split_hosts.windows import HostGrants, PartNeeds, Window
from recrawl.shard import GroupsSet, WindowsSet, event_of
from recrawl.shard.due import LEASE_MS_MIN
from recrawl.shard.state.tables import GROUP_CLOSED

__all__ = ["HostParts"]

# Windows that one host may have waiting here; more are never granted ahead.
_WAITING_MAX = 8
# Due pages are counted again after this time.
_COUNT_MS = 5_000


class HostParts:
    """The parts of split hosts in one partition.

    Parameters
    ----------
    node
        Node of the partition.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._waiting: dict[str, list[Window]] = {}
        self._heard: dict[str, tuple[int, int]] = {}
        self._void_until: dict[str, int] = {}
        self._counted: dict[str, tuple[int, int]] = {}

    def hear(self, grants: HostGrants) -> None:
        """Note what the home partition of a host says; obeyed with the next `step`.

        Messages may come late or twice: those before the last one of a host have no effect.
        """
        order = grants.epoch, grants.number
        if order <= self._heard.get(grants.host, (0, 0)):
            return
        self._heard[grants.host] = order
        own = [window for window in grants.windows if window.part == self._node.partition]
        self._void_until[grants.host] = grants.void_until_ms
        self._waiting[grants.host] = own[:_WAITING_MAX]
        with self._node.lock:
            group = self._node.split_hosts().get(grants.host)
            if group is not None and self._node.can_decide:
                self._follow_rules(group, grants)

    def _follow_rules(self, group: int, grants: HostGrants) -> None:
        groups, rules = self._node.shard.tables.groups, grants.rules
        own = groups.delay_ms[group], groups.in_flight_max[group], groups.burst[group]
        if tuple(map(int, own)) == tuple(rules):
            return
        self._node.submit(
            [
                event_of(
                    GroupsSet,
                    group=group,
                    delay_ms=rules.delay_ms,
                    in_flight_max=rules.in_flight_max,
                    burst=rules.burst,
                    blocked_until_ms=int(groups.blocked_until[group]),
                    is_closed=bool(groups.flags[group] & GROUP_CLOSED),
                )
            ]
        )

    def step(self, now_ms: int) -> None:
        """Log the windows whose time has come, and end those that were withdrawn.

        Parameters
        ----------
        now_ms
            Time in milliseconds since 1970.
        """
        node = self._node
        with node.lock:
            if not node.can_decide:
                return
            entries: list[LogEntry] = []
            for host, group in node.split_hosts().items():
                window = self._next_window(host, group, now_ms)
                if window is not None:
                    entries.append(
                        event_of(
                            WindowsSet,
                            epoch=node.shard.epoch,
                            group=group,
                            from_ms=window.from_ms,
                            until_ms=window.until_ms,
                        )
                    )
            node.submit(entries)

    def _next_window(self, host: str, group: int, now_ms: int) -> Window | None:
        """Return the window to log, which is empty to end the present one; None for no change."""
        groups = self._node.shard.tables.groups
        begin, end = int(groups.window_at[group]), int(groups.window_until[group])
        void_until = self._void_until.get(host, 0)
        is_open = end - LEASE_MS_MIN > now_ms
        if is_open and begin < void_until and void_until > now_ms:
            # Leases in flight go on, and end with the window at the latest.
            self._waiting[host] = []
            return Window(self._node.partition, end, end)
        if is_open:
            return None
        usable = [
            window
            for window in self._waiting.get(host, ())
            if window.from_ms >= end and window.until_ms - LEASE_MS_MIN > now_ms
        ]
        self._waiting[host] = usable[1:]
        return usable[0] if usable else None

    def needs(self, now_ms: int) -> Sequence[PartNeeds]:
        """Return what this partition needs of its split hosts.

        Parameters
        ----------
        now_ms
            Time in milliseconds since 1970.
        """
        node = self._node
        found = []
        with node.lock:
            for host, group in node.split_hosts().items() if node.can_decide else ():
                at_ms, n_due = self._counted.get(host, (0, 0))
                if now_ms - at_ms >= _COUNT_MS or now_ms < at_ms:
                    n_due = node.shard.n_due_of(group, now_ms)
                    self._counted[host] = now_ms, n_due
                blocked = int(node.shard.tables.groups.blocked_until[group])
                found.append(PartNeeds(host, node.partition, node.shard.epoch, n_due, blocked))
        return found
