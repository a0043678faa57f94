"""Groups of pages: their hosts, their registrable domains, or keys that the client gives.

A group is the set of pages that one politeness rule covers.  By default that is a host, as for
robots.txt; the registrable domain (``example.co.uk`` for ``www.shop.example.co.uk``) covers a whole
site.  Public suffixes come from the list in the package ``publicsuffixlist``, never from the
network.

All functions take canonical URLs, and return null (or -1) for a null URL.
"""

import secrets
from functools import cache, lru_cache
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from publicsuffixlist import PublicSuffixList

from recrawl.core.arrays import FlagArray
from recrawl.core.kernel import table_kernel
from recrawl.urls._arrow_text import ByteArray, SpanArray, Text, strings_at, text_of
from recrawl.urls._canonical_check import host_start
from recrawl.urls.hashes import HashArray, sip_hash, sip_key
from recrawl.urls.key_names import split_page_names

__all__ = [
    "GroupBy",
    "group_index",
    "group_keys",
    "host_index",
    "hosts",
    "registrable_domain",
    "registrable_domains",
]

GroupBy: TypeAlias = Literal["host", "domain", "key"]
IndexArray: TypeAlias = NDArray[np.int32]

DOMAINS_CACHED_MAX = 1 << 17
"""Number of hosts whose domain is cached: about 30 MB."""

# Hash key of the table of hosts in a batch.  Results do not depend on it.  It is random in each
# process, so that nobody can choose hosts that all collide.
_KEY = sip_key(secrets.randbits(128))


def hosts(urls: pa.StringArray) -> pa.StringArray:
    """Return the host of each URL, with its port if that is not the scheme's default.

    Examples
    --------
    >>> import pyarrow as pa
    >>> hosts(pa.array(["https://shop.example/a", "http://shop.example:8080/b"])).to_pylist()
    ['shop.example', 'shop.example:8080']
    """
    text = text_of(urls)
    start, end, valid = _host_spans(urls)
    return strings_at(text.data, start, end, valid)


def host_index(urls: pa.StringArray) -> tuple[pa.StringArray, IndexArray]:
    """Return the distinct hosts of a batch in order of appearance, and the index of each row's.

    Examples
    --------
    >>> import pyarrow as pa
    >>> distinct, index = host_index(pa.array(["https://b/1", "https://a/", "https://b/2"]))
    >>> distinct.to_pylist(), index.tolist()
    (['b', 'a'], [0, 1, 0])
    """
    text = text_of(urls)
    start, end, valid = _host_spans(urls)
    n_rows = start.size
    index = np.empty(n_rows, np.int32)
    distinct = Text(
        np.empty(int(np.sum(end - start, dtype=np.int64)), np.uint8), np.zeros(n_rows + 1, np.int32)
    )
    table = np.zeros(1 << max(2 * n_rows - 1, 1).bit_length(), np.uint64)
    with np.errstate(over="ignore"):  # hashes wrap around
        n_distinct = _number_spans(text.data, start, end, valid, *_KEY, table, distinct, index)
    n_bytes = distinct.offset[n_distinct]
    offset = pa.py_buffer(distinct.offset[: n_distinct + 1].copy())
    data = pa.py_buffer(distinct.data[:n_bytes].copy())
    return pa.Array.from_buffers(pa.string(), n_distinct, [None, offset, data]), index


def registrable_domains(urls: pa.StringArray) -> pa.StringArray:
    """Return the registrable domain of each URL: the public suffix and the label before it.

    An IP address, a public suffix and a name without a dot are their own domains.  Ports and a
    final dot are removed.

    Examples
    --------
    >>> import pyarrow as pa
    >>> urls = ["https://www.shop.example.co.uk/", "https://user.github.io/", "http://[::1]:8080/"]
    >>> registrable_domains(pa.array(urls)).to_pylist()
    ['example.co.uk', 'user.github.io', '[::1]']
    """
    return group_keys(urls, "domain")


def group_keys(urls: pa.StringArray, by: GroupBy) -> pa.StringArray:
    """Return the group of each page: its host, its registrable domain or its key.

    ``urls`` are canonical URLs, or names of pages (`recrawl.urls.page_names`) if ``by`` is "key".
    """
    if by == "host":
        return hosts(urls)
    distinct, index = group_index(urls, by)
    return distinct.take(pa.array(index, mask=index < 0))


def group_index(urls: pa.StringArray, by: GroupBy) -> tuple[pa.StringArray, IndexArray]:
    """Return the distinct groups of a batch in order of appearance, and the index of each row's.

    ``urls`` are canonical URLs, or names of pages (`recrawl.urls.page_names`) if ``by`` is "key".
    """
    if by == "key":
        return _key_index(urls)
    if by not in ("host", "domain"):
        raise ValueError(f"by must be 'host', 'domain' or 'key', got {by!r}")
    distinct, index = host_index(urls)
    if by == "host":
        return distinct, index
    domains = pa.array([registrable_domain(host) for host in distinct.to_pylist()], pa.string())
    encoded = domains.dictionary_encode()
    domain_of_host = encoded.indices.to_numpy(zero_copy_only=False)
    is_known = index >= 0
    index[is_known] = domain_of_host[index[is_known]]
    return encoded.dictionary, index


def _key_index(names: pa.StringArray) -> tuple[pa.StringArray, IndexArray]:
    key, _ = split_page_names(names)
    encoded = (pa.nulls(len(names), pa.string()) if key is None else key).dictionary_encode()
    index = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return encoded.dictionary, index.astype(np.int32)


@lru_cache(DOMAINS_CACHED_MAX)
def registrable_domain(host: str) -> str:
    """Return the registrable domain of a canonical host; see `registrable_domains`."""
    if host.startswith("["):
        return host[: host.index("]") + 1]
    name = host.partition(":")[0]
    name = name.rstrip(".") or name
    # In a canonical host, a last label that begins with a digit means an IPv4 address, or a
    # top-level domain that does not exist.
    if name.rpartition(".")[2][:1].isdigit():
        return name
    return _suffixes().privatesuffix(name) or name


@cache
def _suffixes() -> PublicSuffixList:
    """Return the bundled list, which is read at the first call."""
    return PublicSuffixList()


def _host_spans(urls: pa.StringArray) -> tuple[SpanArray, SpanArray, FlagArray]:
    """Return the beginning and end of each row's host, and which rows have one."""
    text = text_of(urls)
    valid = np.ones(len(urls), np.bool_)
    if urls.null_count:
        valid = urls.is_valid().to_numpy(zero_copy_only=False)
    start = np.zeros(len(urls), np.int32)
    end = np.zeros(len(urls), np.int32)
    _find_hosts(text.data, text.offset, valid, start, end)
    return start, end, valid


@table_kernel
def _find_hosts(
    data: ByteArray, offset: SpanArray, valid: FlagArray, start: SpanArray, end: SpanArray
) -> None:
    for i in range(start.size):
        stop = int(offset[i + 1])
        first = host_start(data, int(offset[i]), stop) if valid[i] else -1
        if first >= 0:
            place = np.uint64(first)
            while place < np.uint64(stop) and data[place] != 47:  # /
                place += np.uint64(1)
            start[i] = first
            end[i] = np.int32(place)
        valid[i] = end[i] > start[i]


@table_kernel
def _are_same(
    data: ByteArray, start: int, end: int, other: ByteArray, other_start: int, other_end: int
) -> bool:
    if end - start != other_end - other_start:
        return False
    for k in range(np.uint64(end - start)):
        if data[np.uint64(start) + k] != other[np.uint64(other_start) + k]:
            return False
    return True


@table_kernel
def _number_spans(
    data: ByteArray,
    start: SpanArray,
    end: SpanArray,
    valid: FlagArray,
    low: np.uint64,
    high: np.uint64,
    table: HashArray,
    distinct: Text,
    index: IndexArray,
) -> int:
    """Assign numbers to distinct spans of bytes, write each row's, and return their count.

    ``table`` is an open-addressed hash table: each entry has the upper half of the hash and, in
    its lower half, the number plus one.  Bytes are always compared, too.  The bytes of
    ``distinct`` are contiguous, so that comparing them is cache-friendly.
    """
    mask = np.uint64(table.size - 1)
    lower_half = np.uint64(0xFFFFFFFF)
    n_distinct = 0
    last = -1  # the previous row: batches are often sorted by host
    for i in range(start.size):
        if not valid[i]:
            index[i] = -1
            continue
        if last >= 0 and _are_same(data, start[i], end[i], data, start[last], end[last]):
            index[i] = index[last]
            continue
        last = i
        hashed = sip_hash(data, start[i], end[i], low, high)
        place = hashed & mask
        number = -1
        while number < 0:
            entry = table[place]
            if entry == 0:
                number = n_distinct
                n_distinct += 1
                table[place] = (hashed & ~lower_half) | np.uint64(n_distinct)
                first = distinct.offset[number]
                for k in range(end[i] - start[i]):
                    distinct.data[first + k] = data[start[i] + k]
                distinct.offset[n_distinct] = first + end[i] - start[i]
            elif (entry ^ hashed) & ~lower_half == 0:
                there = int(np.int64(entry & lower_half)) - 1
                first, stop = distinct.offset[there], distinct.offset[there + 1]
                if _are_same(data, start[i], end[i], distinct.data, first, stop):
                    number = there
            place = (place + np.uint64(1)) & mask
        index[i] = number
    return n_distinct
