"""Hosts by name: whether one is kept, and which it may have been meant by it."""

from collections.abc import Sequence

from recrawl.node.node import Node
from recrawl.store import Names

__all__ = ["known_hosts", "pages_of_host"]

# Names looked at: the largest corpora have millions, of which no one is worth the wait.
_NAMES_MAX = 100_000


def pages_of_host(nodes: Sequence[Node], host: str) -> int:
    """Return how many pages are kept of a host, named as groups are."""
    n_pages = 0
    for node in nodes:
        with node.lock:
            number = int(node.store.numbers_of(Names.GROUP, [host])[0])
            if number >= 0:
                n_pages += int(node.shard.tables.groups.n_pages[number])
    return n_pages


def known_hosts(nodes: Sequence[Node], host: str) -> dict[str, int]:
    """Return the hosts with pages that have a name, at any port, and how many pages each has.

    Looks at the first hundred thousand hosts of each partition.
    """
    bare = host.lower().rpartition(":")[0] or host.lower()
    found = {}
    for node in nodes:
        with node.lock:
            n_pages = node.shard.tables.groups.n_pages
            n_named = min(node.store.n_named(Names.GROUP), _NAMES_MAX, n_pages.size)
            names = node.store.names_of(Names.GROUP, range(n_named))
        for number, name in enumerate(names):
            if name is not None and n_pages[number] and bare in (name, name.rpartition(":")[0]):
                found[name] = int(n_pages[number])
    return found
