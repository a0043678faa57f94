"""Recorded histories of real pages as webs: read from files that do not come with the package.

Their folder is named by the environment variable ``RECRAWL_DATA``.  Where a history is one of
fetches, a change is known to lie between two of them, and its instant is drawn there.

Hosts are divided in two halves for ever, by a hash of their names: one is open, for developing
policies, the other is held out, for judging them.
"""

import csv
import hashlib
import importlib
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from recrawl.core.arrays import CountArray, FlagArray, FloatArray, RowArray
from recrawl.core.divergence import Sketches, compare_sketches
from recrawl.sim import Web, recorded_web, renumber_versions

__all__ = [
    "data_folder",
    "hourly_web",
    "is_held_out",
    "terms_web",
    "texts_web",
    "traces_web",
]

HOUR = 3_600.0
DAY = 86_400.0
_N_HOURS = 719
# The traces: two years from the start of 2023 on, and at most so many pages of each repository.
_TRACES_FROM = 1_672_531_200
_TRACES_UNTIL = _TRACES_FROM + 2 * 365 * 86_400
_PAGES_PER_SOURCE = 60
# The texts: so much of each page, up to when it was last looked at.
_TEXT_SECONDS = 365 * 86_400


def data_folder() -> Path | None:
    """Return the folder of recorded data, if one is named."""
    named = os.environ.get("RECRAWL_DATA")
    return Path(named) if named else None


def _columns(path: Path, *names: str) -> Any:
    # Loaded where it is needed: most people have no such file.
    return importlib.import_module("pyarrow.parquet").read_table(path, columns=list(names))


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _number_names(names: list[str]) -> RowArray:
    return np.unique(names, return_inverse=True)[1].astype(np.int64)


def is_held_out(host: str) -> bool:
    """Return whether a host of a recorded web is held out.

    Parameters
    ----------
    host
        Name of a service (`terms`) or repository (`traces`, `texts`); number of a page where each
        is a host of its own (`hourly`).

    Examples
    --------
    >>> [is_held_out(host) for host in ("GitHub", "Wikipedia")]
    [False, True]
    """
    return hashlib.sha256(f"RefreshBench 2: {host}".encode()).digest()[0] % 2 == 1


def _in_half(hosts: list[str], half: int | None) -> FlagArray:
    """Return which pages are in a half, by their hosts: 0 is open, 1 held out, None means all."""
    if half is None:
        return np.ones(len(hosts), np.bool_)
    return np.array([is_held_out(host) == bool(half) for host in hosts], np.bool_)


def _drawn_between(start: FloatArray, end: FloatArray) -> FloatArray:
    return start + (end - start) * np.random.default_rng(0).random(start.size)


def terms_web(half: int | None, folder: Path) -> Web:
    """Return Open Terms Archive's pages that were visited all the time, by their text alone."""
    table = _columns(folder / "ota_crawl_log.parquet", "page_id", "ts", "text_changed")
    version = _columns(folder / "ota_crawl_log.parquet", "text_version")["text_version"]
    page = table["page_id"].to_numpy().astype(np.int64)
    at = table["ts"].to_numpy().astype(np.float64)
    listed = _rows(folder / "ota_crawl_log_pages.csv")
    start_at, end_at = float(at.min()), float(at.max())
    first_at, last_at = np.full(len(listed), np.inf), np.full(len(listed), -np.inf)
    np.minimum.at(first_at, page, at)
    np.maximum.at(last_at, page, at)
    kept = (first_at <= start_at + DAY) & (last_at >= end_at - DAY)
    kept &= np.array([row["text_tracked"] == "True" for row in listed])
    order = np.lexsort((at, page))
    follows = np.append(False, page[order][1:] == page[order][:-1])
    changed = table["text_changed"].to_numpy(zero_copy_only=False)[order]
    rows = np.flatnonzero(changed & follows & kept[page[order]])
    changed_at = _drawn_between(at[order[rows - 1]], at[order[rows]])
    service = [row["service_terms"].split("/")[0] for row in listed]
    # Instants are drawn for all pages, so that they do not depend on the half.
    kept &= _in_half(service, half)
    in_half = kept[page[order[rows]]]
    rows, changed_at = rows[in_half], changed_at[in_half]
    place = np.cumsum(kept) - 1
    return recorded_web(
        place[page[order[rows]]],
        changed_at,
        start_at=start_at,
        end_at=end_at,
        n_pages=int(kept.sum()),
        version=version.fill_null(-1).to_numpy()[order[rows]],
        group=_number_names([service[i] for i in np.flatnonzero(kept)]),
    )


def hourly_web(half: int | None, folder: Path) -> Web:
    """Return the pages of Cache500, each a host of its own."""
    listed = _rows(folder / "nolan_cache500.csv")
    hours = [row["change_hours"].split() for row in listed]
    page = np.repeat(np.arange(len(hours)), [len(each) for each in hours])
    seen = np.array([float(hour) for each in hours for hour in each]) * HOUR
    changed_at = _drawn_between(seen - HOUR, seen)
    kept = _in_half([row["page"] for row in listed], half)
    place = np.cumsum(kept) - 1
    n_pages = int(kept.sum())
    return recorded_web(
        place[page[kept[page]]],
        changed_at[kept[page]],
        start_at=0.0,
        end_at=_N_HOURS * HOUR,
        n_pages=n_pages,
        group=np.arange(n_pages),
    )


def traces_web(half: int | None, folder: Path) -> Web:
    """Return files of public repositories, the same number of each, over the same two years."""
    names = ("source", "path", "created", "deleted", "obs_start", "obs_end")
    table = _columns(folder / "change_traces.parquet", *names, "change_ts", "version")
    since = np.maximum(table["created"].to_numpy(), table["obs_start"].to_numpy())
    until = table["deleted"].fill_null(2**62).to_numpy()
    until = np.minimum(until, table["obs_end"].to_numpy())
    rows = np.flatnonzero((since <= _TRACES_FROM) & (until >= _TRACES_UNTIL))
    names_of_sources = table["source"].to_pylist()
    source = _number_names(names_of_sources)[rows]
    # The first of each repository in an order that has nothing to do with what pages do.
    order = np.lexsort((np.random.default_rng(0).random(rows.size), source))
    starts = np.searchsorted(source[order], source[order])
    chosen = np.sort(order[np.arange(rows.size) - starts < _PAGES_PER_SOURCE])
    chosen = chosen[_in_half([names_of_sources[row] for row in rows[chosen]], half)]
    kept = table.take(rows[chosen])
    at, version = kept["change_ts"].combine_chunks(), kept["version"].combine_chunks()
    page = np.repeat(np.arange(chosen.size), np.diff(at.offsets.to_numpy()))
    changed_at = at.flatten().to_numpy().astype(np.float64)
    versions = _known_versions(version, page)
    return recorded_web(
        page,
        changed_at,
        start_at=float(_TRACES_FROM),
        end_at=float(_TRACES_UNTIL),
        n_pages=chosen.size,
        version=versions,
        group=np.unique(source[chosen], return_inverse=True)[1],
    )


def _known_versions(lists: Any, page: RowArray) -> CountArray:
    """Return the version of each change; where none was recorded, each its own."""
    n_rows = page.size
    versions: CountArray = -1 - np.arange(n_rows)
    recorded = np.array([each is not None for each in lists.to_pylist()])
    flat = lists.flatten()
    values = flat.fill_null(-1).to_numpy(zero_copy_only=False)
    of_recorded = np.flatnonzero(recorded[page]) if recorded.size else np.empty(0, np.int64)
    known = values >= 0
    versions[of_recorded[known]] = values[known]
    return versions


class _Versions(NamedTuple):
    """The versions of all pages, by page and time."""

    page: RowArray
    at: FloatArray
    digest: CountArray
    sketches: Sketches


def _text_versions(folder: Path) -> _Versions:
    table = _columns(
        folder / "text_histories.parquet", "page", "time", "digest", "shingles", "sketch"
    )
    lists = table["sketch"].combine_chunks()
    n_fragments = table["shingles"].to_numpy().astype(np.int64)
    sketches = Sketches(
        lists.values.to_numpy().astype(np.uint32),
        lists.offsets.to_numpy().astype(np.int64),
        n_fragments,
    )
    return _Versions(
        table["page"].to_numpy().astype(np.int64),
        table["time"].to_numpy().astype(np.float64),
        table["digest"].to_numpy().astype(np.int64, casting="unsafe"),
        sketches,
    )


def texts_web(half: int | None, folder: Path) -> Web:
    """Return the last year of each page, with the divergence of any two of its versions.

    A version without text is a fetch that failed, and left out.  Pages seen for less are, too.
    """
    versions = _text_versions(folder)
    listed = _rows(folder / "text_histories_pages.csv")
    end_at = np.zeros(len(listed))
    repository = [""] * len(listed)
    for row in listed:
        end_at[int(row["page"])] = float(row["obs_end"])
        repository[int(row["page"])] = row["repo"]
    page = versions.page
    since = versions.at - (end_at[page] - _TEXT_SECONDS)
    has_text = versions.sketches.n_fragments > 0
    kept = np.zeros(len(listed), np.bool_)
    kept[page[has_text & (since < 0)]] = True
    kept &= _in_half(repository, half)
    # From the last version before the year on.
    is_last_before = np.zeros(page.size, np.bool_)
    before = np.flatnonzero(has_text & (since < 0))
    is_last_before[before] = np.append(page[before][1:] != page[before][:-1], True)
    rows = np.flatnonzero(has_text & kept[page] & (is_last_before | (since >= 0)))
    place = np.cumsum(kept) - 1
    rows = rows[_is_new(page[rows], versions.digest[rows])]
    return recorded_web(
        place[page[rows]],
        since[rows],
        start_at=0.0,
        end_at=float(_TEXT_SECONDS),
        n_pages=int(kept.sum()),
        version=versions.digest[rows],
        divergences=_divergences(place[page[rows]], since[rows], rows, versions),
        group=_number_names([repository[i] for i in np.flatnonzero(kept)]),
    )


def _is_new(page: RowArray, digest: CountArray) -> FlagArray:
    """Return which versions differ from the one before of their page."""
    return np.append(True, (page[1:] != page[:-1]) | (digest[1:] != digest[:-1]))


def _divergences(
    page: RowArray, since: FloatArray, rows: RowArray, versions: _Versions
) -> list[FloatArray]:
    """Return the divergences of each page's versions from each other, by their numbers."""
    inside = since >= 0
    number = renumber_versions(page, versions.digest[rows], inside)
    matrices = []
    numbers = np.zeros(rows.size, np.int64)  # 0 is the version before the year
    numbers[inside] = number
    edges = np.searchsorted(page, np.arange(int(page[-1]) + 2))
    for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        shown, where = np.unique(numbers[first:last], return_index=True)
        of_number = rows[first + where]
        matrix = np.zeros((shown.size, shown.size))
        low = np.tril_indices(shown.size, -1)
        found = compare_sketches(versions.sketches, of_number[low[0]], of_number[low[1]])
        matrix[low] = found.divergence
        matrices.append(matrix)
    return matrices
