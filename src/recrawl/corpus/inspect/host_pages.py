"""List the pages of one host, all or those whose URLs begin with a prefix.

The store finds pages by their whole URLs, so a prefix is looked for among the pages of the host, in
the order in which they were added.  One call looks at a limited number of pages; its cursor leads
on, also if it found none.
"""

import re
from collections.abc import Sequence
from urllib.parse import quote

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from recrawl.corpus.inspect.page_table import page_cursor, page_rows_of, parse_page_cursor
from recrawl.messages.views import PageRows
from recrawl.node.node import Node
from recrawl.node.open_nodes import OpenNodes
from recrawl.node.routing import partition_of_key, partitions_of_host
from recrawl.store import Names

__all__ = ["LOOKED_AT_MAX", "PAGES_LISTED_MAX", "PREFIX_CHARACTERS_MAX", "list_pages_of_host"]

LOOKED_AT_MAX = 32_768
"""Largest number of pages whose URLs one call compares with the prefix."""
PAGES_LISTED_MAX = 1_000
"""Largest number of pages in one answer."""
PREFIX_CHARACTERS_MAX = 2_000
"""Longest prefix."""
# Slots and URLs that are read at a time.
_SLOTS_PER_READ = 1 << 20
_URLS_PER_READ = 4_096
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
# A user may type characters that URLs have only in percent-encoding.
_SAFE = "%:/?#[]@!$&'()*+,;=-._~"


def url_pattern(prefix: str) -> str | None:
    r"""Return the regular expression of URLs that begin with a prefix; None for all URLs.

    A prefix without a scheme is one of what follows the host, such as ``/news/``.

    Examples
    --------
    >>> url_pattern("/news/")
    '^[a-z]+://[^/?#]*/news/'
    >>> url_pattern("https://a.example/x")
    '^https://a\\.example/x'
    """
    prefix = quote(prefix.strip(), safe=_SAFE)
    if not prefix:
        return None
    if _SCHEME.match(prefix):
        return f"^{re.escape(prefix)}"
    slash = "" if prefix.startswith(("/", "?")) else "/"
    return f"^[a-z]+://[^/?#]*{slash}{re.escape(prefix)}"


def list_pages_of_host(
    nodes: OpenNodes,
    host: str,
    *,
    prefix: str,
    cursor: str | None,
    columns: Sequence[str] | None,
    limit: int,
    now_ms: int,
) -> PageRows:
    """Return some pages of a host, and the cursor to continue with.

    Parameters
    ----------
    nodes
        Nodes of the open partitions.
    host
        Canonical name of the host, domain or key.
    prefix
        Beginning of the URLs, or of what follows the host in them; empty for all pages.
    cursor
        Cursor of the pages before; None to begin.
    columns
        Columns of the answer; all by default.
    limit
        Largest number of pages.
    now_ms
        Current time, in milliseconds since 1970.

    Raises
    ------
    ValueError
        If the limit, the prefix or the cursor is not valid.
    """
    if not 1 <= limit <= PAGES_LISTED_MAX:
        raise ValueError(f"limit must be 1 to {PAGES_LISTED_MAX}, got {limit!r}")
    if len(prefix) > PREFIX_CHARACTERS_MAX:
        raise ValueError(f"prefix must have at most {PREFIX_CHARACTERS_MAX} characters")
    start, slot = partition_of_key(host, nodes.n_partitions), 0
    if cursor is not None:
        start, slot = parse_page_cursor(cursor, nodes.n_partitions, nodes.generation)
    with nodes.use(start) as node:
        pages, slot_after = _find_pages(node, host, url_pattern(prefix), slot, limit)
        batch = page_rows_of(node, pages, columns, now_ms)
        if slot_after is not None:
            return PageRows(batch, page_cursor(start, slot_after, nodes.generation))
        with node.lock:
            is_split = host in node.split_hosts()
    parts = partitions_of_host(host, nodes.n_partitions) if is_split else [start]
    others = parts[parts.index(start) + 1 :] if start in parts else []
    return PageRows(batch, page_cursor(others[0], 0, nodes.generation) if others else None)


def _find_pages(
    node: Node, host: str, pattern: str | None, slot: int, limit: int
) -> tuple[NDArray[np.int64], int | None]:
    """Return pages of a host from a slot on, and the slot to continue at; None after the last.

    Parameters
    ----------
    node
        Node of the partition.
    host
        Canonical name of the host.
    pattern
        Regular expression of their URLs; None for all.
    slot
        First slot to look at.
    limit
        Largest number of pages.
    """
    number = int(node.store.numbers_of(Names.GROUP, [host])[0])
    if number < 0:
        return np.zeros(0, np.int64), None
    found: list[NDArray[np.int64]] = []
    n_left, n_looked_at = limit, 0
    n_slots = int(node.shard.tables.registers.n_slots[0])
    while slot < n_slots and n_left and n_looked_at < LOOKED_AT_MAX:
        page, slot = _next_pages(node, number, slot, n_slots)
        n_looked_at += page.size
        if pattern is not None and page.size:
            is_match = pc.match_substring_regex(node.store.read_urls_of(page), pattern)
            page = page[is_match.fill_null(False).to_numpy(zero_copy_only=False)]
        if page.size > n_left:
            page = page[:n_left]
            slot = int(page[-1] & 0xFFFFFFFF) + 1
        found.append(page)
        n_left -= page.size
    return np.concatenate([np.zeros(0, np.int64), *found]), slot if slot < n_slots else None


def _next_pages(node: Node, group: int, slot: int, n_slots: int) -> tuple[NDArray[np.int64], int]:
    """Return the next pages of a group from a slot on, and the slot after them."""
    pages = node.shard.tables.pages
    end = min(slot + _SLOTS_PER_READ, n_slots)
    slots = slot + np.flatnonzero(pages.group[slot:end] == group)
    if slots.size > _URLS_PER_READ:
        slots = slots[:_URLS_PER_READ]
        end = int(slots[-1]) + 1
    page = slots | pages.generation[slots].astype(np.int64) << 32
    return page[node.shard.has_pages(page)], end
