"""Find hosts: by name, by similar names, and those whose new pages are limited."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from recrawl.messages.views import HostTable, HostView
from recrawl.node.node import Node
from recrawl.shard import PageStatus
from recrawl.shard.state.tables import GROUP_CLOSED, GROUP_SPLIT, GROUP_UNLIMITED
from recrawl.shard.state.words import EPOCH_SECONDS
from recrawl.store import Names
from recrawl.units import count_text

__all__ = [
    "HOSTS_SHOWN_MAX",
    "HostTable",
    "HostView",
    "add_host_views",
    "find_largest",
    "host_view",
    "largest_groups",
    "largest_hosts",
    "newcomers_by_host",
    "newcomers_words",
    "pages_of_host",
    "similar_hosts",
]

HOSTS_SHOWN_MAX = 200
"""Largest number of rows in a `HostTable`; hosts with fewer pages are only counted."""
# The largest corpora have millions of hosts; searching all would take too long for a hint.
_NAMES_MAX = 100_000
_HOSTS_SHOWN_MAX = 1_000
_HOSTS_NAMED_MAX = 3


def pages_of_host(nodes: Sequence[Node], host: str) -> int:
    """Return the number of tracked pages of a group, which is a host or a domain."""
    n_pages = 0
    for node in nodes:
        number = int(node.store.numbers_of(Names.GROUP, [host])[0])
        groups = node.shard.tables.groups
        # The store may know a new host before the shard does.
        if 0 <= number < groups.n_pages.size:
            n_pages += int(groups.n_pages[number])
    return n_pages


def host_view(node: Node, host: str) -> HostView:
    """Return how a host of a partition is fetched from.

    Parameters
    ----------
    node
        Node of the host's partition.
    host
        Canonical name of the host, domain or key.
    """
    number = int(node.store.numbers_of(Names.GROUP, [host])[0])
    with node.lock:
        return _view_of(node, number, host)


def _view_of(node: Node, number: int, host: str) -> HostView:
    """Return how the host with a number is fetched from; the defaults if the shard has none."""
    groups, defaults = node.shard.tables.groups, node.shard.settings
    view = HostView(
        host,
        0,
        defaults.group_delay,
        defaults.group_in_flight_max,
        defaults.group_burst,
        None,
        False,
        False,
    )
    if not 0 <= number < groups.n_pages.size:
        return view
    flags = int(groups.flags[number])
    view = view._replace(
        n_pages=int(groups.n_pages[number]),
        is_closed=bool(flags & GROUP_CLOSED),
        is_unlimited=bool(flags & GROUP_UNLIMITED),
        is_split=bool(flags & GROUP_SPLIT),
    )
    if groups.in_flight_max[number] == 0:
        return view
    return view._replace(
        delay_seconds=int(groups.delay_ms[number]) / 1000,
        in_flight_max=int(groups.in_flight_max[number]),
        burst=int(groups.burst[number]),
        blocked_until_ms=int(groups.blocked_until[number]) or None,
        in_flight=int(groups.in_flight[number]),
        n_errors=int(groups.n_errors[number]),
    )


def largest_hosts(nodes: Sequence[Node]) -> HostTable:
    """Return the hosts with the most pages, and the number of all hosts with pages.

    A host that is split over partitions has one row, with the pages of all of them.
    """
    found: dict[str, HostView] = {}
    n_hosts = 0
    groups = [largest_groups(node, HOSTS_SHOWN_MAX) for node in nodes]
    for node, most in zip(nodes, find_largest(nodes, groups, HOSTS_SHOWN_MAX), strict=True):
        n_hosts += int(np.count_nonzero(node.shard.tables.groups.n_pages))
        names = node.store.names_of(Names.GROUP, most.tolist())
        for number, name in zip(most.tolist(), names, strict=True):
            view = _view_of(node, number, name or str(number))
            known = found.get(view.host)
            if known is not None:
                n_hosts -= 1
                view = add_host_views(known, view)
            found[view.host] = view
    rows = sorted(found.values(), key=lambda row: (-row.n_pages, row.host))
    return HostTable(rows[:HOSTS_SHOWN_MAX], n_hosts)


def find_largest(
    nodes: Sequence[Node], groups: Sequence[NDArray[np.int64]], n_max: int
) -> list[NDArray[np.int64]]:
    """Return the groups of each partition that can be among the largest of all partitions.

    These are the largest ones, and those that are split over partitions.  All others need no name
    and no Python object, of which thousands would keep the interpreter from other threads for long.

    Parameters
    ----------
    nodes
        Nodes of the partitions.
    groups
        Numbers of the largest groups of each partition.
    n_max
        Number of groups that are wanted.
    """
    tables = [node.shard.tables.groups for node in nodes]
    pairs = list(zip(tables, groups, strict=True))
    none = np.zeros(0, np.int64)
    size = np.concatenate([none, *(table.n_pages[some] for table, some in pairs)])
    flags = np.concatenate([none, *(table.flags[some] for table, some in pairs)])
    is_wanted = (flags & GROUP_SPLIT) > 0
    # Rows of split groups take no place of others: their pages are added up later.
    order = np.argsort(np.where(is_wanted, 0, -size), kind="stable")
    is_wanted[order[:n_max]] = True
    found, first = [], 0
    for some in groups:
        found.append(some[is_wanted[first : first + some.size]])
        first += some.size
    return found


def largest_groups(node: Node, n_max: int) -> NDArray[np.int64]:
    """Return the numbers of the groups of a partition with the most pages, most first."""
    n_pages = node.shard.tables.groups.n_pages
    used = np.flatnonzero(n_pages)
    if used.size > n_max:
        used = used[n_pages[used] >= np.partition(n_pages[used], -n_max)[-n_max]]
    return used[np.argsort(-n_pages[used].astype(np.int64), kind="stable")][:n_max]


def add_host_views(first: HostView, second: HostView) -> HostView:
    """Return how a host is fetched from whose pages are in two partitions or workers."""
    return first._replace(
        n_pages=first.n_pages + second.n_pages,
        in_flight=first.in_flight + second.in_flight,
        n_errors=max(first.n_errors, second.n_errors),
        blocked_until_ms=max(first.blocked_until_ms or 0, second.blocked_until_ms or 0) or None,
        is_closed=first.is_closed or second.is_closed,
    )


def newcomers_by_host(nodes: Sequence[Node], now_ms: int) -> dict[str, int]:
    """Return the hosts with newcomers, most first, and the number of newcomers of each.

    At most a thousand hosts of each partition.
    """
    now = now_ms // 1000 - EPOCH_SECONDS
    found: dict[str, int] = {}
    for node in nodes:
        with node.lock:
            tables, settings = node.shard.tables, node.shard.settings
            is_limited = settings.new_pages_share < 1 or settings.new_domain_share < 1
            if not is_limited or tables.registers.newcomers_until[0] <= now:
                continue
            n_slots = int(tables.registers.n_slots[0])
            slots = np.flatnonzero(tables.pages.newcomer_until[:n_slots] > now)
            slots = slots[tables.pages.status[slots] != PageStatus.FREE]
            n_of_group = np.bincount(tables.pages.group[slots])
            groups = np.argsort(-n_of_group, kind="stable")[:_HOSTS_SHOWN_MAX]
            groups = groups[n_of_group[groups] > 0]
        names = node.store.names_of(Names.GROUP, groups.tolist())
        for group, name in zip(groups.tolist(), names, strict=True):
            host = name or str(group)
            found[host] = found.get(host, 0) + int(n_of_group[group])
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def newcomers_words(newcomers: Mapping[str, int]) -> str:
    """Return a sentence about newcomers, given as their number by host, most first."""
    n_pages = sum(newcomers.values())
    named = [f"{host} ({n:,})" for host, n in list(newcomers.items())[:_HOSTS_NAMED_MAX]]
    n_more = len(newcomers) - len(named)
    hosts = ", ".join(named) + (f" and {count_text(n_more, 'more host')}" if n_more else "")
    are = "is a newcomer with" if n_pages == 1 else "are newcomers with"
    return (
        f"{count_text(n_pages, 'page')} {are} a limited share of the budget, because many were "
        f"added at once: {hosts}.  `recrawl set --host HOST --unlimited` lifts the limit."
    )


def similar_hosts(nodes: Sequence[Node], host: str) -> dict[str, int]:
    """Return the hosts with this name at any port, and the number of pages of each.

    Only the first hundred thousand hosts of each partition are searched.
    """
    bare = host.lower().rpartition(":")[0] or host.lower()
    found: dict[str, int] = {}
    for node in nodes:
        # Without the node's lock: names take long to read, and a number keeps its name.
        n_pages = node.shard.tables.groups.n_pages
        numbers = np.flatnonzero(n_pages[:_NAMES_MAX]).tolist()
        for number, name in zip(numbers, node.store.names_of(Names.GROUP, numbers), strict=True):
            if name is not None and bare in (name, name.rpartition(":")[0]):
                found[name] = found.get(name, 0) + int(n_pages[number])
    return found
