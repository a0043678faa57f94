"""Keep samples as series: minutes for a day, hours for a month, days for ten years.

A bucket is a span of time with the sum of what its samples say: how much each count has grown since
the sample before, and the sum of each figure of a moment, from which its mean follows; where a
figure of a source was unknown, the sum has the mean of the others.  A sample is
added to its minute, its hour and its day at once, so an hour is exactly the sum of its minutes, and
buckets of several partitions can be added up.

A group, kind or source is counted from the first sample that has it.  If that is the first sample
in which it could be, it is counted from its beginning.
"""

from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import FloatArray
from recrawl.messages.samples import HOSTS_SAMPLED_MAX, KINDS_SAMPLED_MAX, SOURCES_SAMPLED_MAX
from recrawl.node.sampling.encoding import (
    COLUMNS,
    COUNTED,
    PARTS,
    TOTAL_FIGURES,
    SampleRows,
    find_row,
    pack_rows,
    pack_sample,
    unpack_rows,
    unpack_sample,
)

__all__ = [
    "RESOLUTIONS",
    "ROWS_KEPT_MAX",
    "Resolution",
    "SampleReader",
    "SampleWrites",
    "add_sample",
    "first_sampled_ms",
    "last_sampled_ms",
    "read_row",
]


class Resolution(NamedTuple):
    """How long a bucket is, and how many are kept."""

    number: int
    ms: int
    n_kept: int


RESOLUTIONS: Final = {
    "minute": Resolution(0, 60_000, 24 * 60),
    "hour": Resolution(1, 3_600_000, 31 * 24),
    "day": Resolution(2, 86_400_000, 3_653),
}
"""Resolutions of the series, by the names of their steps."""
ROWS_KEPT_MAX: Final = 2 * HOSTS_SAMPLED_MAX
"""Largest number of hosts, kinds or sources in a bucket, whose largest ones change over time."""

_LAST = b"\xff"
_FIRST = b"\xfe"
# Old buckets removed with one sample, of each resolution and table.
_REMOVED_AT_ONCE = 64
_LARGEST: Final = {
    "hosts": HOSTS_SAMPLED_MAX,
    "kinds": KINDS_SAMPLED_MAX,
    "sources": SOURCES_SAMPLED_MAX,
}


class SampleReader(Protocol):
    """Where samples are kept: a `recrawl.store.Store`."""

    def sample_value(self, key: bytes) -> bytes | None:
        """Return the value of a key; None if it has none."""
        ...

    def sample_values(
        self, first: bytes, end: bytes, limit: int | None = None
    ) -> list[tuple[bytes, bytes]]:
        """Return keys from ``first`` on and before ``end``, and their values."""
        ...


class SampleWrites(Protocol):
    """What the next write puts or, for None, removes: a `recrawl.store.StoreBatch`."""

    samples: dict[bytes, bytes | None]


def _key(resolution: Resolution, part: str, index: int) -> bytes:
    return bytes([resolution.number, PARTS.index(part)]) + max(index, 0).to_bytes(6, "big")


def _value(store: SampleReader, batch: SampleWrites | None, key: bytes) -> bytes | None:
    if batch is not None and key in batch.samples:
        return batch.samples[key]
    return store.sample_value(key)


def _last(
    store: SampleReader, batch: SampleWrites | None
) -> tuple[int, dict[str, SampleRows]] | None:
    """Return the time of the last sample, and the latest counts of everything that was sampled."""
    value = _value(store, batch, _LAST)
    return None if not value else (int.from_bytes(value[:8], "big"), unpack_sample(value[8:]))


def last_sampled_ms(store: SampleReader) -> int | None:
    """Return the time of the last sample, in milliseconds since 1970; None if there is none."""
    value = store.sample_value(_LAST)
    return None if not value else int.from_bytes(value[:8], "big")


def first_sampled_ms(store: SampleReader) -> int | None:
    """Return the time of the first sample, from which on counts are known.

    None if there is none, or if it was made by a version that did not remember it.
    """
    value = store.sample_value(_FIRST)
    return int.from_bytes(value, "big") if value else None


def _places(known: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place of each wanted number among the known ones, which ascend; -1 for none."""
    place = np.searchsorted(known, wanted)
    place = np.minimum(place, max(known.size - 1, 0))
    if not known.size:
        return np.full(wanted.size, -1, np.int64)
    return np.where(known[place] == wanted, place, -1)


def _had_all(part: str, last: dict[str, SampleRows]) -> bool:
    """Return whether the last sample had every row that existed, so that others are new."""
    if part == "kinds":
        return last["kinds"].number.size < KINDS_SAMPLED_MAX
    name = "n_hosts" if part == "hosts" else "n_sources"
    n_rows = last["total"].values[0, TOTAL_FIGURES.index(name)]
    return bool(n_rows <= _LARGEST[part] and last[part].number.size < ROWS_KEPT_MAX)


def _grown_since(part: str, rows: SampleRows, last: dict[str, SampleRows] | None) -> SampleRows:
    """Return rows with counts since the last sample."""
    counted = COUNTED[part]
    values = rows.values.copy()
    if last is None:
        values[:, counted] = 0.0
        return rows._replace(values=values)
    place = _places(last[part].number, rows.number)
    is_known = place >= 0
    before = last[part].values[place[is_known]][:, counted]
    grown = values[:, counted]
    grown[is_known] -= before
    if part in _LARGEST and not _had_all(part, last):
        grown[~is_known] = 0.0
    values[:, counted] = np.maximum(grown, 0.0)
    return rows._replace(values=values)


def _add(part: str, one: SampleRows | None, other: SampleRows) -> SampleRows:
    """Return the sums of two tables, with at most `ROWS_KEPT_MAX` rows."""
    if one is None:
        return other
    if part == "sources":
        one, other = _fill_unknown(one, other), _fill_unknown(other, one)
    number = np.union1d(one.number, other.number)
    n_samples, values = np.zeros(number.size), np.zeros((number.size, COLUMNS[part]))
    for rows in (one, other):
        place = np.searchsorted(number, rows.number)
        n_samples[place] += rows.n_samples
        values[place] += rows.values
    return _largest_rows(SampleRows(number, n_samples, values), other)


def _fill_unknown(rows: SampleRows, known: SampleRows) -> SampleRows:
    """Return rows with the means of another table in place of unknown figures.

    The recall of a source is unknown, which is -1, until there is evidence of it.
    """
    place = _places(known.number, rows.number)
    means = known.values / np.maximum(known.n_samples, 1.0)[:, np.newaxis]
    is_filled = (rows.values < 0) & ~COUNTED["sources"]
    is_filled[place < 0] = False
    is_filled[place >= 0] &= means[place[place >= 0]] >= 0
    if not is_filled.any():
        return rows
    filled = means[np.maximum(place, 0)] * rows.n_samples[:, np.newaxis]
    return rows._replace(values=np.where(is_filled, filled, rows.values))


def _largest_rows(rows: SampleRows, needed: SampleRows) -> SampleRows:
    """Return at most `ROWS_KEPT_MAX` rows: those needed, and those with the most samples."""
    if rows.number.size <= ROWS_KEPT_MAX:
        return rows
    rank = rows.n_samples + np.where(np.isin(rows.number, needed.number), np.inf, 0.0)
    kept = np.sort(np.argsort(-rank, kind="stable")[:ROWS_KEPT_MAX])
    return SampleRows(rows.number[kept], rows.n_samples[kept], rows.values[kept])


def _latest(last: SampleRows | None, rows: SampleRows) -> SampleRows:
    """Return the latest counts of all rows that were ever sampled, as far as there is room."""
    if last is None:
        return rows
    is_gone = ~np.isin(last.number, rows.number)
    number = np.concatenate([last.number[is_gone], rows.number])
    order = np.argsort(number, kind="stable")
    both = SampleRows(
        number[order],
        # SampleRows of this sample are counted as newer than all others.
        np.concatenate([last.n_samples[is_gone], rows.n_samples])[order],
        np.concatenate([last.values[is_gone], rows.values])[order],
    )
    return _largest_rows(both, rows)


def add_sample(
    store: SampleReader, batch: SampleWrites, at_ms: int, tables: dict[str, SampleRows]
) -> None:
    """Add a sample to its minute, hour and day in the next write, and remove old buckets.

    Parameters
    ----------
    store
        Store of the partition.
    batch
        The next write, which may have samples already.
    at_ms
        Time of the sample, in milliseconds since 1970.
    tables
        Tables of the sample by the names in `PARTS`, with counts from the beginning on.
    """
    found = _last(store, batch)
    last = None if found is None else found[1]
    if found is None:
        batch.samples[_FIRST] = at_ms.to_bytes(8, "big")
    for part in PARTS:
        grown = _grown_since(part, tables[part], last)
        for resolution in RESOLUTIONS.values():
            index = at_ms // resolution.ms
            key = _key(resolution, part, index)
            value = _value(store, batch, key)
            before = None if value is None else unpack_rows(value, part)
            batch.samples[key] = pack_rows(_add(part, before, grown))
            old = store.sample_values(
                _key(resolution, part, 0),
                _key(resolution, part, index - resolution.n_kept + 1),
                _REMOVED_AT_ONCE,
            )
            batch.samples.update((old_key, None) for old_key, _ in old)
    latest = {part: _latest(None if last is None else last[part], tables[part]) for part in PARTS}
    batch.samples[_LAST] = at_ms.to_bytes(8, "big") + pack_sample(latest)


def read_row(
    store: SampleReader, step: str, part: str, since_ms: int, until_ms: int, number: int
) -> tuple[NDArray[np.int64], FloatArray]:
    """Return counts and means of one row of a table, bucket by bucket.

    Parameters
    ----------
    store
        Store of a partition.
    step
        Name of a resolution.
    part
        Name of the table.
    since_ms, until_ms
        Buckets that begin from ``since_ms`` on and before ``until_ms``, in milliseconds since 1970.
    number
        Number of the group, kind or source; 0 for the whole partition.

    Returns
    -------
    tuple
        Times at which the buckets begin that have the row, and its figures in each.
    """
    resolution = RESOLUTIONS[step]
    first, end = -(-since_ms // resolution.ms), -(-until_ms // resolution.ms)
    found = (
        store.sample_values(
            _key(resolution, part, first), _key(resolution, part, min(end, 1 << 40))
        )
        if first < end
        else []
    )
    index, n_samples, values = find_row([value for _, value in found], part, number)
    at_ms = np.array([int.from_bytes(found[i][0][2:], "big") for i in index.tolist()], np.int64)
    means = values / np.maximum(n_samples, 1.0)[:, np.newaxis]
    return at_ms * resolution.ms, np.where(COUNTED[part], values, means)
