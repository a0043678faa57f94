"""From what users give (lists, Arrow arrays) to batches of canonical URLs, one partition each."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recrawl.urls import GroupBy, canonical, group_keys, hash_urls

__all__ = [
    "Batch",
    "Urls",
    "as_array",
    "as_numbers",
    "null_where_same",
    "partition_of_key",
    "partitions_of",
    "routed",
    "row_batches",
]

Urls: TypeAlias = Iterable[str] | pa.Array | pa.ChunkedArray


# What is said of pages is logged in batches of no more than this: RocksDB holds the interpreter's
# lock while it writes, and a record has a greatest length.
_ROWS_PER_BATCH = 16_384
_URL_BYTES_PER_BATCH = 2 << 20
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
        # A lone surrogate cannot be written down at all, let alone be fetched.
        return pa.array([_encodable(row) for row in rows], pa.string())


def _encodable(text: str | None) -> str | None:
    return None if text is None else text.encode("utf-8", "replace").decode("utf-8")


def as_numbers(values: Any, n_rows: int, dtype: Any = np.float32) -> NDArray[Any]:
    """Return one number per row; None is nan, one number is for all rows."""
    column = np.asarray(np.nan if values is None else values, dtype)
    if column.ndim == 0:
        return np.full(n_rows, column, dtype)
    if column.shape != (n_rows,):
        raise ValueError(f"there must be one number or {n_rows}, got {column.shape}")
    return column


def null_where_same(given: pa.StringArray, url: pa.StringArray) -> pa.StringArray:
    """Return the URLs to ask for, null where they are what the page is known by."""
    is_same = pc.equal(given, url)
    if pc.all(is_same).as_py():
        return pa.nulls(len(url), pa.string())
    return pc.if_else(is_same, pa.scalar(None, pa.string()), given)


def row_batches(rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yield row numbers in batches."""
    for first in range(0, rows.size, _ROWS_PER_BATCH):
        yield rows[first : first + _ROWS_PER_BATCH]


def _url_batches(urls: pa.Array | pa.ChunkedArray) -> Iterator[tuple[int, pa.StringArray]]:
    """Yield arrays within the limits, and the row that each begins with."""
    first_row = 0
    for chunk in urls.chunks if isinstance(urls, pa.ChunkedArray) else [urls]:
        n_rows = _ROWS_PER_BATCH
        if len(chunk) and chunk.nbytes / len(chunk) * n_rows > _URL_BYTES_PER_BATCH:
            n_rows = max(int(_URL_BYTES_PER_BATCH / chunk.nbytes * len(chunk)), 1)
        for first in range(0, len(chunk), n_rows):
            part = chunk.slice(first, n_rows)
            yield first_row + first, part if part.type == pa.string() else part.cast(pa.string())
        first_row += len(chunk)


def partitions_of(urls: pa.StringArray, n_partitions: int, by: GroupBy) -> NDArray[np.int64]:
    """Return the partition of each canonical URL: that of its group, which is whole in one."""
    if n_partitions == 1:
        return np.zeros(len(urls), np.int64)
    keys = group_keys(urls, by)
    hashed = hash_urls(keys, _PARTITION_KEY) % np.uint64(n_partitions)
    partition: NDArray[np.int64] = hashed.astype(np.int64)
    return partition


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
