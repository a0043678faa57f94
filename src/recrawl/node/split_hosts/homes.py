"""What a node does for the split hosts whose home is its partition: it grants windows."""

from collections.abc import Sequence

from recrawl.node.node import Node
from recrawl.node.records import LogEntry
from recrawl.node.routing import partition_of_key, partitions_of_host
from recrawl.node.split_hosts.windows import (
    HostGrants,
    HostRules,
    PartNeeds,
    TurnOrder,
    Window,
    next_window,
    window_ms,
)
from recrawl.shard import GroupsBlocked, GroupsSplit, WindowsGranted, WindowsSet, event_of
from recrawl.shard.state.status import LeaseStage
from recrawl.shard.state.tables import GROUP_CLOSED

__all__ = ["HomeHosts", "split_entries"]

# A part that has not been heard of for this long gets no windows: nobody may own it.
_SILENT_MS_MAX = 30_000
# A host that is split has due pages.
_N_DUE_FIRST = 1_000
# Instant before which all windows are void, while a host is closed.
_NEVER_MS = 1 << 62


def split_entries(node: Node, groups: Sequence[int], now_ms: int) -> list[LogEntry]:
    """Return the entries that split groups; the first window is that of their home partition.

    It lasts until all leases from before have ended, because their fetches are not bound by any
    window.

    Parameters
    ----------
    node
        Node of the home partition.
    groups
        Numbers of the groups.
    now_ms
        Time in milliseconds since 1970.
    """
    leases, epoch = node.shard.tables.leases, node.shard.epoch
    entries: list[LogEntry] = [event_of(GroupsSplit, epoch=epoch, group=[*groups])]
    for group in groups:
        rules = _rules_of(node, group)
        held = (leases.stage == LeaseStage.IN_FLIGHT) & (leases.group == group)
        last = int(leases.expires_at[held].max(initial=0))
        until_ms = max(now_ms + window_ms(rules, _N_DUE_FIRST), last)
        columns = {"epoch": epoch, "group": group, "from_ms": now_ms, "until_ms": until_ms}
        entries.append(event_of(WindowsGranted, part=node.partition, **columns))
        entries.append(event_of(WindowsSet, **columns))
    return entries


def _rules_of(node: Node, group: int) -> HostRules:
    groups = node.shard.tables.groups
    return HostRules(
        int(groups.delay_ms[group]), int(groups.in_flight_max[group]), int(groups.burst[group])
    )


class HomeHosts:
    """The split hosts whose home is one partition.

    Parameters
    ----------
    node
        Node of the partition.
    n_partitions
        Number of partitions of the corpus.
    ahead_ms
        How long before its begin a window is granted: 0 if all parts are in this process.
    margin_ms
        Time by which the clocks of parts may differ; windows are that much further apart.
    """

    def __init__(
        self, node: Node, n_partitions: int, *, ahead_ms: int = 0, margin_ms: int = 0
    ) -> None:
        self._node = node
        self._n_partitions = n_partitions
        self._ahead_ms = ahead_ms
        self._margin_ms = margin_ms
        self._turns: dict[str, TurnOrder] = {}
        self._needs: dict[str, dict[int, tuple[int, PartNeeds]]] = {}
        self._granted: dict[str, list[Window]] = {}
        self._blocked: dict[tuple[str, int], int] = {}
        self._number = 0

    def hear(self, needs: PartNeeds, now_ms: int) -> None:
        """Note what a part needs; messages may come late, twice or not at all.

        Parameters
        ----------
        needs
            Message of the part.
        now_ms
            Time in milliseconds since 1970.
        """
        own = self._needs.setdefault(needs.host, {})
        if needs.part in own and own[needs.part][1].epoch > needs.epoch:
            return
        own[needs.part] = now_ms, needs

    def step(self, now_ms: int) -> list[HostGrants]:
        """Log rests that parts have found, and new windows; return what to tell the parts.

        Parameters
        ----------
        now_ms
            Time in milliseconds since 1970.
        """
        node = self._node
        messages = []
        with node.lock:
            if not node.can_decide:
                return []
            for host, group in node.split_hosts().items():
                if partition_of_key(host, self._n_partitions) == node.partition:
                    self._step_host(host, group, now_ms)
                    messages.append(self._message(host, group, now_ms))
        return messages

    def _step_host(self, host: str, group: int, now_ms: int) -> None:
        node = self._node
        groups, epoch = node.shard.tables.groups, node.shard.epoch
        until_ms = self._new_rest(host, now_ms)
        if until_ms > groups.blocked_until[group]:
            node.submit([event_of(GroupsBlocked, epoch=epoch, group=group, until_ms=until_ms)])
            groups = node.shard.tables.groups
        blocked_until_ms = int(groups.blocked_until[group])
        granted = self._granted.setdefault(host, [])
        # Windows that the rest of the host withdraws, and those of the past.
        granted[:] = [w for w in granted if w.until_ms > now_ms and w.from_ms >= blocked_until_ms]
        if groups.flags[group] & GROUP_CLOSED:
            granted.clear()
            return
        rules = _rules_of(node, group)
        begin = next_window(
            rules,
            granted_until_ms=int(groups.granted_until[group]) + self._margin_ms,
            blocked_until_ms=blocked_until_ms,
            now_ms=now_ms,
            ahead_ms=self._ahead_ms,
        )
        n_due = self._n_due(host, now_ms)
        if begin is None or not n_due:
            return
        part = self._turns.setdefault(host, TurnOrder()).next_part(n_due)
        window = Window(part, begin, begin + window_ms(rules, n_due[part]))
        (applied,) = node.submit(
            [
                event_of(
                    WindowsGranted,
                    epoch=epoch,
                    group=group,
                    part=part,
                    from_ms=window.from_ms,
                    until_ms=window.until_ms,
                )
            ]
        )
        # Another node may have claimed the partition meanwhile: then the grant is void.
        if applied.is_all_valid and node.can_decide:
            granted.append(window)

    def _new_rest(self, host: str, now_ms: int) -> int:
        """Return until when parts have newly found that a host must rest; 0 for nothing new."""
        until_ms = 0
        for part, (_, needs) in self._needs.get(host, {}).items():
            if needs.blocked_until_ms > max(self._blocked.get((host, part), 0), now_ms):
                until_ms = max(until_ms, needs.blocked_until_ms)
            # Only once: users may end the rest before its time.
            self._blocked[host, part] = needs.blocked_until_ms
        return until_ms

    def _n_due(self, host: str, now_ms: int) -> dict[int, int]:
        """Return the number of due pages of each part that has been heard of lately."""
        parts = partitions_of_host(host, self._n_partitions)
        return {
            part: needs.n_due
            for part, (at_ms, needs) in self._needs.get(host, {}).items()
            if part in parts and now_ms - at_ms <= _SILENT_MS_MAX
        }

    def _message(self, host: str, group: int, now_ms: int) -> HostGrants:
        groups = self._node.shard.tables.groups
        is_closed = bool(groups.flags[group] & GROUP_CLOSED)
        void_until_ms = _NEVER_MS if is_closed else int(groups.blocked_until[group])
        self._number = max(self._number + 1, now_ms)
        return HostGrants(
            host,
            self._node.partition,
            self._node.shard.epoch,
            self._number,
            _rules_of(self._node, group),
            void_until_ms if void_until_ms > now_ms else 0,
            tuple(self._granted.get(host, ())),
        )
