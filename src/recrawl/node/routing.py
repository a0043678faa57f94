"""Turn lists and arrays of URLs into batches of canonical URLs of one partition each."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recrawl.urls import (
    KEY_BYTES_MAX,
    GroupBy,
    are_sendable,
    canonical,
    group_keys,
    hash_urls,
    have_control_characters,
    is_key,
    page_names,
)

__all__ = [
    "AMOUNT_MAX",
    "KEY_RULE",
    "PARTS_MAX",
    "UrlBatch",
    "Urls",
    "as_amounts",
    "as_array",
    "as_numbers",
    "batch_ranges",
    "canonical_host",
    "key_column",
    "null_where_same",
    "partition_of_key",
    "partitions_of",
    "partitions_of_host",
    "partitions_of_keys",
    "split_by_partition",
    "split_partitions_of",
    "utf8_or_none",
    "utf8_strings",
]

Urls: TypeAlias = Iterable[str] | pa.Array | pa.ChunkedArray


# Limits of a logged batch: RocksDB holds the interpreter's lock while it writes, and a record has a
# maximum length.
_ROWS_PER_BATCH = 16_384
_BYTES_PER_BATCH = 2 << 20
AMOUNT_MAX = 1e12
"""Limit of importance, cost and requests; larger amounts are meaningless as float32."""
# Key of the hash that assigns groups to partitions; it must never change.
_PARTITION_KEY = 0
# Key of the hash that assigns pages of a split group to partitions; it must never change.
_PART_KEY = 1
PARTS_MAX = 16
"""Largest number of partitions that a group is split over; it must never change."""


class UrlBatch(NamedTuple):
    """A batch of URLs of one partition."""

    partition: int
    rows: NDArray[np.int64]
    """Row of each URL in the input."""
    name: pa.StringArray
    """Names of the pages: canonical URLs, after a key if the corpus is grouped by key."""
    given: pa.StringArray
    """URLs as given by the user."""


def as_array(urls: Urls) -> pa.Array | pa.ChunkedArray:
    """Return URLs as an Arrow array of strings.

    A single string is refused, because it would be read as a list of letters.
    """
    if isinstance(urls, (str, bytes)):
        raise TypeError(f"urls must be a list or an array of URLs, got a single one: {urls!r}")
    if isinstance(urls, (pa.Array, pa.ChunkedArray)):
        return urls
    rows = urls if isinstance(urls, list) else list(urls)
    try:
        return pa.array(rows, pa.string())
    except UnicodeEncodeError:
        return pa.array([utf8_or_none(row) for row in rows], pa.string())


def utf8_or_none(text: str | None) -> str | None:
    """Return a text, or None if it has a lone surrogate and so no UTF-8 form."""
    try:
        return text if text is None or text.encode("utf-8") is not None else None
    except UnicodeEncodeError:
        return None


def utf8_strings(column: pa.Array) -> pa.StringArray:
    """Return a column as strings, null where bytes are not UTF-8, which Arrow does not check."""
    try:
        text = column.cast(pa.string())
        text.validate(full=True)
    except pa.ArrowInvalid:
        texts = [
            None if row is None else _decode_or_none(row)
            for row in column.cast(pa.binary()).to_pylist()
        ]
        return pa.array(texts, pa.string())
    return text


def _decode_or_none(data: bytes) -> str | None:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def as_numbers(values: Any, n_rows: int, dtype: Any = np.float32) -> NDArray[Any]:
    """Return one number per row; None gives NaN, and a single number applies to all rows."""
    column = np.asarray(np.nan if values is None else values, dtype)
    if column.ndim == 0:
        return np.full(n_rows, column, dtype)
    if column.shape != (n_rows,):
        raise ValueError(
            f"there must be one number or {n_rows}, got an array of shape {column.shape}"
        )
    return column


def as_amounts(name: str, values: Any, n_rows: int) -> NDArray[Any]:
    """Return one number per row, checked to be 0 to `AMOUNT_MAX`; None gives NaN."""
    column = as_numbers(values, n_rows)
    is_wrong = ~((column >= 0) & (column <= AMOUNT_MAX))
    if values is not None and is_wrong.any():
        wrong = column[int(np.argmax(is_wrong))]
        raise ValueError(f"{name} must be 0 to {AMOUNT_MAX:g}, got {wrong}")
    return column


def null_where_same(given: pa.StringArray, url: pa.StringArray) -> pa.StringArray:
    """Return the URLs to request, null where the canonical ones are requested.

    The canonical one is requested if it is the same, or if the given one cannot be sent as it is,
    because of a space or letters that are not ASCII.
    """
    is_same = pc.equal(given, url)
    if pc.all(is_same).as_py():
        return pa.nulls(len(url), pa.string())
    is_same = pc.or_(is_same, pc.invert(are_sendable(given)))
    return pc.if_else(is_same, pa.scalar(None, pa.string()), given)


def batch_ranges(n_bytes: NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Yield the first row and the end of batches that fit into one log record each.

    Parameters
    ----------
    n_bytes
        Size of each row in bytes.
    """
    total = np.cumsum(n_bytes, dtype=np.int64)
    first = 0
    while first < total.size:
        before = total[first - 1] if first else 0
        end = int(np.searchsorted(total, before + _BYTES_PER_BATCH, side="right"))
        end = min(max(end, first + 1), first + _ROWS_PER_BATCH, total.size)
        yield first, end
        first = end


def _url_batches(
    urls: pa.Array | pa.ChunkedArray, n_bytes_beside: NDArray[np.int64] | None
) -> Iterator[tuple[int, pa.StringArray]]:
    """Yield the first row of each batch and its URLs, within the limits of a batch."""
    first_row = 0
    for chunk in urls.chunks if isinstance(urls, pa.ChunkedArray) else [urls]:
        n_bytes = pc.binary_length(chunk).fill_null(0).to_numpy(zero_copy_only=False)
        if n_bytes_beside is not None:
            n_bytes = n_bytes + n_bytes_beside[first_row : first_row + len(chunk)]
        for first, end in batch_ranges(n_bytes):
            yield first_row + first, utf8_strings(chunk.slice(first, end - first))
        first_row += len(chunk)


def partitions_of(urls: pa.StringArray, n_partitions: int, by: GroupBy) -> NDArray[np.int64]:
    """Return the partition of each page by its name; all pages of a group share one."""
    if n_partitions == 1:
        return np.zeros(len(urls), np.int64)
    return partitions_of_keys(group_keys(urls, by), n_partitions)


def partitions_of_keys(keys: pa.StringArray, n_partitions: int) -> NDArray[np.int64]:
    """Return the partition of each group by its name."""
    hashed = hash_urls(keys, _PARTITION_KEY) % np.uint64(n_partitions)
    partition: NDArray[np.int64] = hashed.astype(np.int64)
    return partition


def canonical_host(host: str, by: GroupBy) -> str:
    """Return the name of a host's group: its canonical host or domain, or the key itself.

    Raises
    ------
    ValueError
        If the text is not a host, or not a key.
    """
    if by == "key":
        if not is_key(host):
            raise ValueError(f"host must be the key of a group here, {KEY_RULE}, got {host!r}")
        return host
    url = canonical([f"http://{host}/"]).url
    if url.null_count or url[0].as_py().count("/") != 3:
        raise ValueError(f"host must be a host name such as 'example.com', got {host!r}")
    key: str = group_keys(url, by)[0].as_py()
    return key


KEY_RULE = f"text without control characters of at most {KEY_BYTES_MAX} bytes"
"""What a key must be, for messages."""


def key_column(key: Any, n_rows: int, by: GroupBy) -> pa.StringArray | None:
    """Return the key of each row, null where it is not valid; None if the corpus has no keys.

    Parameters
    ----------
    key
        Key of all rows, or a list with the key of each row.
    n_rows
        Number of rows.
    by
        Grouping of the corpus.

    Raises
    ------
    ValueError
        If the corpus is grouped by key and there is none, or the other way round.
    """
    if by != "key":
        if key is not None:
            raise ValueError(
                f'key is for a corpus with corpus.group_by = "key"; this one has "{by}"'
            )
        return None
    if key is None:
        raise ValueError('this corpus has corpus.group_by = "key": give the key of the pages')
    if isinstance(key, str):
        if not is_key(key):
            raise ValueError(f"key must be {KEY_RULE}, got {key!r}")
        return pa.array([key] * n_rows, pa.string())
    is_arrow = isinstance(key, (pa.Array, pa.ChunkedArray))
    rows = key.to_pylist() if is_arrow else list(key)
    if len(rows) != n_rows:
        raise ValueError(f"key must be one text or {n_rows}, got {len(rows)}")
    return pa.array([row if is_key(row) else None for row in rows], pa.string())


def partition_of_key(key: str, n_partitions: int) -> int:
    """Return the partition of a group."""
    hashed = hash_urls(pa.array([key], pa.string()), _PARTITION_KEY)
    return int(hashed[0] % np.uint64(n_partitions))


def partitions_of_host(key: str, n_partitions: int) -> list[int]:
    """Return the partitions that have pages of a group once it is split, its home first."""
    home = partition_of_key(key, n_partitions)
    return [(home + i) % n_partitions for i in range(min(n_partitions, PARTS_MAX))]


def split_partitions_of(names: pa.StringArray, home: int, n_partitions: int) -> NDArray[np.int64]:
    """Return the partition of each new page of a split group, by the hash of its name."""
    n_parts = min(n_partitions, PARTS_MAX)
    hashed = (hash_urls(names, _PART_KEY) % np.uint64(n_parts)).astype(np.int64)
    part: NDArray[np.int64] = (home + hashed) % n_partitions
    return part


def split_by_partition(
    urls: Urls,
    n_partitions: int,
    by: GroupBy,
    *,
    key: Any = None,
    n_bytes_beside: NDArray[np.int64] | None = None,
) -> Iterator[UrlBatch]:
    """Yield the valid URLs as names of pages, in batches of one partition each.

    URLs with control characters are left out like those that are not valid.

    Parameters
    ----------
    urls
        URLs as users give them.
    n_partitions
        Number of partitions of the corpus.
    by
        Grouping of the corpus; all pages of a group are in one partition.
    key
        Key of each page's group: one text for all, or one for each URL; a URL with an invalid one
        is left out.  Only for a corpus grouped by key, which needs it.
    n_bytes_beside
        Size of what is logged with each URL, in bytes; a batch has a limit of bytes.

    Raises
    ------
    ValueError
        If a key is missing, is not valid for all URLs, or the corpus has no keys.
    """
    urls = as_array(urls)
    keys = key_column(key, len(urls), by)
    if keys is not None and isinstance(urls, pa.ChunkedArray):
        urls = pa.concat_arrays(urls.chunks) if urls.num_chunks else pa.array([], urls.type)
    if keys is not None:
        n_bytes = pc.binary_length(keys).fill_null(0).to_numpy(zero_copy_only=False)
        n_bytes_beside = n_bytes if n_bytes_beside is None else n_bytes_beside + n_bytes
    for first, batch in _url_batches(urls, n_bytes_beside):
        given, url = batch, canonical(batch).url
        if url is not given:  # canonical URLs have no control characters
            url = pc.if_else(have_control_characters(given), pa.scalar(None, pa.string()), url)
        if keys is not None:
            url = page_names(keys.slice(first, len(url)), url)
        valid = np.flatnonzero(url.is_valid().to_numpy(zero_copy_only=False))
        if valid.size == 0:
            continue
        if valid.size != len(url):
            index = pa.array(valid)
            url, given = url.take(index), given.take(index)
        if n_partitions == 1:
            yield UrlBatch(0, valid + first, url, given)
            continue
        partition = partitions_of(url, n_partitions, by)
        for i in np.unique(partition):
            rows = np.flatnonzero(partition == i)
            index = pa.array(rows)
            yield UrlBatch(int(i), valid[rows] + first, url.take(index), given.take(index))
