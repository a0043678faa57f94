"""Tell a shard which hosts belong to the same registrable domain.

The shard limits what one domain can take of the budget by adding pages
(`recrawl.shard.apply.newcomers`).  It knows hosts by number only.  The first host of a domain keeps
the domain's credit; the store maps the name of the domain to the number of that host.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from recrawl.node.node import Node
from recrawl.node.records import LogEntry, NamesNumbered
from recrawl.shard import DomainsSet, event_of
from recrawl.store import Names
from recrawl.urls.groups import registrable_domain

__all__ = ["domain_entries", "limit_event"]


def domain_entries(node: Node, hosts: Sequence[tuple[str, int]]) -> list[LogEntry]:
    """Return the entries to log for new hosts, given with their numbers.

    A host that is the only one of its domain so far needs an entry only if its name is not that of
    the domain.
    """
    domains = [registrable_domain(host) for host, _ in hosts]
    distinct = list(dict.fromkeys(domains))
    found = node.store.numbers_of(Names.DOMAIN, distinct)
    # A host with the name of its domain keeps the credit without an entry.
    by_host = node.store.numbers_of(Names.GROUP, distinct)
    found = np.where(found >= 0, found, by_host)
    keeper = {name: n for name, n in zip(distinct, found.tolist(), strict=True) if n >= 0}
    named: dict[str, int] = {}
    members: list[tuple[int, int]] = []
    # Hosts named as their domain come first, so that they keep the credit.
    ranked = sorted(zip(hosts, domains, strict=True), key=lambda row: row[0][0] != row[1])
    for (host, number), domain in ranked:
        if domain in keeper:
            if keeper[domain] != number:
                members.append((number, keeper[domain]))
            continue
        keeper[domain] = number
        if host != domain:
            named[domain] = number
    entries: list[LogEntry] = []
    if named:
        n = len(named)
        entries.append(
            NamesNumbered(
                np.full(n, node.shard.epoch, np.int64),
                np.full(n, Names.DOMAIN, np.uint8),
                np.array(list(named.values()), np.uint32),
                pa.array(list(named), pa.string()),
            )
        )
    if members:
        group, domain_group = zip(*members, strict=True)
        entries.append(event_of(DomainsSet, group=group, domain=domain_group, is_unlimited=0))
    return entries


def limit_event(node: Node, group: int, *, is_unlimited: bool) -> DomainsSet:
    """Return the event that limits the new pages of a host, or stops limiting them."""
    groups = node.shard.tables.groups
    domain = int(groups.domain[group]) if group < groups.domain.size else 0
    return event_of(
        DomainsSet,
        group=group,
        domain=domain - 1 if domain else group,
        is_unlimited=is_unlimited,
    )
