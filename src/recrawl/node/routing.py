"""From what users give (lists, Arrow arrays) to batches of canonical URLs, one partition each."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recrawl.urls import GroupBy, canonical, group_keys, hash_urls

__all__ = [
    "AMOUNT_MAX",
    "Batch",
    "Urls",
    "as_amounts",
    "as_array",
    "as_numbers",
    "cuts",
    "known_host",
    "none_if_broken",
    "null_where_same",
    "partition_of_key",
    "partitions_of",
    "readable",
    "routed",
]

Urls: TypeAlias = Iterable[str] | pa.Array | pa.ChunkedArray


# What is said of pages is logged in batches of no more than this: RocksDB holds the interpreter's
# lock while it writes, and a record has a greatest length.
_ROWS_PER_BATCH = 16_384
_BYTES_PER_BATCH = 2 << 20
AMOUNT_MAX = 1e12
"""Of importance, cost and requests: what is beyond has no meaning that a float could keep."""
# Of the hash that says which partition a group belongs to: for ever.
_PARTITION_KEY = 0


class Batch(NamedTuple):
    """Some URLs of one partition."""

    partition: int
    rows: NDArray[np.int64]
    """Where they stood in what was given."""
    url: pa.StringArray
    """Canonical."""
    given: pa.StringArray


def as_array(urls: Urls) -> pa.Array | pa.ChunkedArray:
    """Return URLs as an Arrow array of strings.

    A lone string is refused: it would be taken for a list of letters.
    """
    if isinstance(urls, (str, bytes)):
        raise TypeError(f"urls must be a list or an array of URLs, got one: {urls!r}")
    if isinstance(urls, (pa.Array, pa.ChunkedArray)):
        return urls
    rows = urls if isinstance(urls, list) else list(urls)
    try:
        return pa.array(rows, pa.string())
    except UnicodeEncodeError:
        return pa.array([none_if_broken(row) for row in rows], pa.string())


def none_if_broken(text: str | None) -> str | None:
    """Return a text that can be written down: not one with a lone surrogate."""
    try:
        return text if text is None or text.encode("utf-8") is not None else None
    except UnicodeEncodeError:
        return None


def readable(column: pa.Array) -> pa.StringArray:
    """Return a column as strings, null where bytes are no UTF-8: Arrow does not look at them."""
    try:
        text = column.cast(pa.string())
        text.validate(full=True)
    except pa.ArrowInvalid:
        texts = [
            None if row is None else _decoded(row) for row in column.cast(pa.binary()).to_pylist()
        ]
        return pa.array(texts, pa.string())
    return text


def _decoded(data: bytes) -> str | None:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def as_numbers(values: Any, n_rows: int, dtype: Any = np.float32) -> NDArray[Any]:
    """Return one number per row; None is nan, one number is for all rows."""
    column = np.asarray(np.nan if values is None else values, dtype)
    if column.ndim == 0:
        return np.full(n_rows, column, dtype)
    if column.shape != (n_rows,):
        raise ValueError(f"there must be one number or {n_rows}, got {column.shape}")
    return column


def as_amounts(name: str, values: Any, n_rows: int) -> NDArray[Any]:
    """Return one number per row, not negative; None is nan."""
    column = as_numbers(values, n_rows)
    is_wrong = ~((column >= 0) & (column <= AMOUNT_MAX))
    if values is not None and is_wrong.any():
        wrong = column[int(np.argmax(is_wrong))]
        raise ValueError(f"{name} must be 0 to {AMOUNT_MAX:g}, got {wrong}")
    return column


def null_where_same(given: pa.StringArray, url: pa.StringArray) -> pa.StringArray:
    """Return the URLs to ask for, null where they are what the page is known by."""
    is_same = pc.equal(given, url)
    if pc.all(is_same).as_py():
        return pa.nulls(len(url), pa.string())
    return pc.if_else(is_same, pa.scalar(None, pa.string()), given)


def cuts(n_bytes: NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Yield where batches of rows begin and end, none of them beyond what a record may have.

    Parameters
    ----------
    n_bytes
        Of each row.
    """
    total = np.cumsum(n_bytes, dtype=np.int64)
    first = 0
    while first < total.size:
        before = total[first - 1] if first else 0
        end = int(np.searchsorted(total, before + _BYTES_PER_BATCH, side="right"))
        end = min(max(end, first + 1), first + _ROWS_PER_BATCH, total.size)
        yield first, end
        first = end


def _url_batches(urls: pa.Array | pa.ChunkedArray) -> Iterator[tuple[int, pa.StringArray]]:
    """Yield arrays within the limits, and the row that each begins with."""
    first_row = 0
    for chunk in urls.chunks if isinstance(urls, pa.ChunkedArray) else [urls]:
        n_bytes = pc.binary_length(chunk).fill_null(0).to_numpy(zero_copy_only=False)
        for first, end in cuts(n_bytes):
            yield first_row + first, readable(chunk.slice(first, end - first))
        first_row += len(chunk)


def partitions_of(urls: pa.StringArray, n_partitions: int, by: GroupBy) -> NDArray[np.int64]:
    """Return the partition of each canonical URL: that of its group, which is whole in one."""
    if n_partitions == 1:
        return np.zeros(len(urls), np.int64)
    keys = group_keys(urls, by)
    hashed = hash_urls(keys, _PARTITION_KEY) % np.uint64(n_partitions)
    partition: NDArray[np.int64] = hashed.astype(np.int64)
    return partition


def known_host(host: str, by: GroupBy) -> str:
    """Return a host, or a domain, as groups are known by it.

    Raises
    ------
    ValueError
        If it is none.
    """
    url = canonical([f"http://{host}/"]).url
    if url.null_count or url[0].as_py().count("/") != 3:
        raise ValueError(f"host must be one such as 'example.com', got {host!r}")
    key: str = group_keys(url, by)[0].as_py()
    return key


def partition_of_key(key: str, n_partitions: int) -> int:
    """Return the partition of a group."""
    hashed = hash_urls(pa.array([key], pa.string()), _PARTITION_KEY)
    return int(hashed[0] % np.uint64(n_partitions))


def routed(urls: Urls, n_partitions: int, by: GroupBy) -> Iterator[Batch]:
    """Yield the URLs that can be kept, in batches of one partition each."""
    for first, batch in _url_batches(as_array(urls)):
        given, url = batch, canonical(batch).url
        valid = np.flatnonzero(url.is_valid().to_numpy(zero_copy_only=False))
        if valid.size == 0:
            continue
        if valid.size != len(url):
            index = pa.array(valid)
            url, given = url.take(index), given.take(index)
        if n_partitions == 1:
            yield Batch(0, valid + first, url, given)
            continue
        partition = partitions_of(url, n_partitions, by)
        for i in np.unique(partition):
            rows = np.flatnonzero(partition == i)
            index = pa.array(rows)
            yield Batch(int(i), valid[rows] + first, url.take(index), given.take(index))
