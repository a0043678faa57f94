"""Find hosts: by name, by similar names, and those whose new pages are limited."""

from collections.abc import Mapping, Sequence

import numpy as np

from recrawl.messages.views import HostView
from recrawl.node.node import Node
from recrawl.shard import PageStatus
from recrawl.shard.state.tables import GROUP_CLOSED, GROUP_UNLIMITED
from recrawl.shard.state.words import EPOCH_SECONDS
from recrawl.store import Names
from recrawl.units import count_text

__all__ = [
    "HostView",
    "host_view",
    "newcomers_by_host",
    "newcomers_words",
    "pages_of_host",
    "similar_hosts",
]

# The largest corpora have millions of hosts; searching all would take too long for a hint.
_NAMES_MAX = 100_000
_HOSTS_SHOWN_MAX = 1_000
_HOSTS_NAMED_MAX = 3


def pages_of_host(nodes: Sequence[Node], host: str) -> int:
    """Return the number of tracked pages of a group, which is a host or a domain."""
    n_pages = 0
    for node in nodes:
        with node.lock:
            number = int(node.store.numbers_of(Names.GROUP, [host])[0])
            if number >= 0:
                n_pages += int(node.shard.tables.groups.n_pages[number])
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
    with node.lock:
        groups, defaults = node.shard.tables.groups, node.shard.settings
        number = int(node.store.numbers_of(Names.GROUP, [host])[0])
        is_known = 0 <= number < groups.n_pages.size
        n_pages = int(groups.n_pages[number]) if is_known else 0
        flags = int(groups.flags[number]) if is_known else 0
        delay_seconds = defaults.group_delay
        in_flight_max, burst = defaults.group_in_flight_max, defaults.group_burst
        blocked_until_ms = 0
        if is_known and groups.in_flight_max[number] > 0:
            delay_seconds = int(groups.delay_ms[number]) / 1000
            in_flight_max, burst = int(groups.in_flight_max[number]), int(groups.burst[number])
            blocked_until_ms = int(groups.blocked_until[number])
    return HostView(
        host,
        n_pages,
        delay_seconds,
        in_flight_max,
        burst,
        blocked_until_ms or None,
        bool(flags & GROUP_CLOSED),
        bool(flags & GROUP_UNLIMITED),
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
        with node.lock:
            n_pages = node.shard.tables.groups.n_pages
            n_named = min(node.store.n_names(Names.GROUP), _NAMES_MAX, n_pages.size)
            names = node.store.names_of(Names.GROUP, range(n_named))
        for number, name in enumerate(names):
            if name is not None and n_pages[number] and bare in (name, name.rpartition(":")[0]):
                found[name] = found.get(name, 0) + int(n_pages[number])
    return found
