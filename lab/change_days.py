"""Recorded histories cut to stretches of days, as a crawler that came by daily would have them."""

import csv
from dataclasses import dataclass

import numpy as np
import pyarrow.parquet as pq

from lab.recorded import data_folder
from recrawl.core.arrays import CountArray, FlagArray, FloatArray, RowArray

__all__ = [
    "CACHE",
    "OTA",
    "TRACES",
    "ChangeDays",
    "Stretches",
    "cache_hours",
    "ota_days",
    "trace_days",
]

TRACES = "change_traces.parquet"
OTA = "ota_crawl_log.parquet"
CACHE = "nolan_cache500.csv"

_DAY = 86_400
# Raw bytes of pages that differ at every visit: no histories of changes.
_NO_HISTORIES = "terms-rawhtml"
_CACHE_HOURS = 719
_OTA_RUNS_A_DAY = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stretches:
    """One stretch of each page, all of the same length; days are counted from its start.

    A change on day d was found by the visit at its end.
    """

    n_days: int
    kind: RowArray
    page: RowArray
    """Of each change, sorted."""
    day: CountArray
    """Of each change; a page has no day twice."""

    @property
    def n_pages(self) -> int:
        """Return the number of pages."""
        return int(self.kind.size)

    @property
    def n_changes(self) -> CountArray:
        """Return the changes of each page."""
        return np.bincount(self.page, minlength=self.n_pages)

    def chosen(self, pages: FlagArray) -> "Stretches":
        """Return some of the pages."""
        number = np.cumsum(pages) - 1
        kept = pages[self.page]
        return Stretches(
            n_days=self.n_days,
            kind=self.kind[pages],
            page=number[self.page[kept]],
            day=self.day[kept],
        )

    def n_found(self, every: int, until: int | None = None) -> CountArray:
        """Return at how many visits every so many days, up to a day, each page had changed."""
        end = (self.n_days if until is None else until) // every
        visit = self.day // every
        seen = visit < end
        page, _ = _distinct(self.page[seen], visit[seen])
        return np.bincount(page, minlength=self.n_pages)


def _distinct(page: RowArray, day: CountArray) -> tuple[RowArray, CountArray]:
    """Return each day of each page once; they must be sorted by page and day."""
    is_new = np.ones(page.size, np.bool_)
    is_new[1:] = (page[1:] != page[:-1]) | (day[1:] != day[:-1])
    return page[is_new], day[is_new]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChangeDays:
    """The days on which each page was found changed, counted from its first."""

    kinds: tuple[str, ...]
    kind: RowArray
    n_days: CountArray
    """For which each page was watched."""
    page: RowArray
    """Of each change, sorted."""
    day: CountArray

    @property
    def n_pages(self) -> int:
        """Return the number of pages."""
        return int(self.kind.size)

    def stretches(self, n_days: int, seed: int) -> Stretches:
        """Return one stretch of each page that was watched so long, beginning on a random day."""
        draws = np.random.default_rng(seed).random(self.n_pages)
        is_long = self.n_days >= n_days
        start = (draws * (self.n_days - n_days + 1)).astype(np.int64)
        day = self.day - start[self.page]
        inside = is_long[self.page] & (day >= 0) & (day < n_days)
        number = np.cumsum(is_long) - 1
        return Stretches(
            n_days=n_days,
            kind=self.kind[is_long],
            page=number[self.page[inside]],
            day=day[inside],
        )

    def gaps(self) -> tuple[RowArray, FloatArray]:
        """Return the page and the days of each interval between two changes."""
        same = self.page[1:] == self.page[:-1]
        return self.page[1:][same], np.diff(self.day)[same].astype(np.float64)


def trace_days() -> ChangeDays:
    """Return the recorded change traces, but for raw HTML."""
    columns = ["kind", "obs_start", "obs_end", "change_ts"]
    table = pq.read_table(data_folder() / TRACES, columns=columns).combine_chunks()
    coded = table["kind"].combine_chunks()
    kinds = tuple(coded.dictionary.to_pylist())
    kind = coded.indices.to_numpy().astype(np.int64)
    start, end = (table[name].to_numpy() for name in ("obs_start", "obs_end"))
    lists = table["change_ts"].combine_chunks()
    page = np.repeat(np.arange(kind.size), np.diff(lists.offsets.to_numpy()))
    day = (lists.values.to_numpy() - start[page]) // _DAY
    n_days = (end - start) // _DAY
    is_kept = kind != kinds.index(_NO_HISTORIES)
    rows = is_kept[page] & (day >= 0) & (day < n_days[page])
    number = np.cumsum(is_kept) - 1
    pages, days = _distinct(number[page[rows]], day[rows])
    return ChangeDays(kinds=kinds, kind=kind[is_kept], n_days=n_days[is_kept], page=pages, day=days)


def ota_days() -> ChangeDays:
    """Return a crawl log of terms of service, by changes of their text.

    From Open Terms Archive contributors (ODC-BY 1.0).
    """
    table = pq.read_table(data_folder() / OTA, columns=["page_id", "run", "text_changed"])
    ids, page = np.unique(table["page_id"].to_numpy(), return_inverse=True)
    run = table["run"].to_numpy().astype(np.int64)
    n_days = np.full(ids.size, (int(run.max()) + 1) // _OTA_RUNS_A_DAY)
    changed = table["text_changed"].fill_null(False).to_numpy()
    day = run // _OTA_RUNS_A_DAY
    changed = changed & (day < n_days[page])
    order = np.lexsort((day[changed], page[changed]))
    pages, days = _distinct(page[changed][order].astype(np.int64), day[changed][order])
    return ChangeDays(
        kinds=("terms, live",),
        kind=np.zeros(ids.size, np.int64),
        n_days=n_days,
        page=pages,
        day=days,
    )


def cache_hours() -> ChangeDays:
    """Return 500 web pages visited hourly, an hour for a day."""
    page: list[int] = []
    hour: list[int] = []
    n_pages = 0
    with (data_folder() / CACHE).open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            hours = [int(text) for text in row["change_hours"].split()]
            page += [n_pages] * len(hours)
            hour += hours
            n_pages += 1
    at = np.array(hour, np.int64)
    inside = (at >= 0) & (at < _CACHE_HOURS)
    pages, days = _distinct(np.array(page, np.int64)[inside], at[inside])
    return ChangeDays(
        kinds=("general web, hourly",),
        kind=np.zeros(n_pages, np.int64),
        n_days=np.full(n_pages, _CACHE_HOURS),
        page=pages,
        day=days,
    )
