"""Find hosts by name: how many pages one has, and which hosts have a similar name."""

from collections.abc import Sequence

from recrawl.node.node import Node
from recrawl.store import Names

__all__ = ["pages_of_host", "similar_hosts"]

# The largest corpora have millions of hosts; searching all would take too long for a hint.
_NAMES_MAX = 100_000


def pages_of_host(nodes: Sequence[Node], host: str) -> int:
    """Return the number of tracked pages of a group, which is a host or a domain."""
    n_pages = 0
    for node in nodes:
        with node.lock:
            number = int(node.store.numbers_of(Names.GROUP, [host])[0])
            if number >= 0:
                n_pages += int(node.shard.tables.groups.n_pages[number])
    return n_pages


def similar_hosts(nodes: Sequence[Node], host: str) -> dict[str, int]:
    """Return the hosts with this name at any port, and the number of pages of each.

    Only the first hundred thousand hosts of each partition are searched.
    """
    bare = host.lower().rpartition(":")[0] or host.lower()
    found = {}
    for node in nodes:
        with node.lock:
            n_pages = node.shard.tables.groups.n_pages
            n_named = min(node.store.n_names(Names.GROUP), _NAMES_MAX, n_pages.size)
            names = node.store.names_of(Names.GROUP, range(n_named))
        for number, name in enumerate(names):
            if name is not None and n_pages[number] and bare in (name, name.rpartition(":")[0]):
                found[name] = int(n_pages[number])
    return found
