"""Crawl logs of simulated webs, for backtests whose truth is known."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from recrawl.sim import Web

START_MS = 1_600_000_000_000
DAY = 86_400.0


class TableSource:
    """A source of rows that are in memory already."""

    def __init__(self, kind: str, table: pa.Table, windows: pa.Table | None = None) -> None:
        self.kind = kind
        self._table = table
        self._windows = windows

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._table.to_batches(max_chunksize=997)

    def windows(self) -> pa.Table:
        assert self._windows is not None
        return self._windows


def names_of(web: Web) -> pa.Array:
    names = [f"https://site{g}.example/{i}" for i, g in enumerate(web.group.tolist())]
    return pa.array(names, pa.string())


def polled_log(web: Web, gap_seconds: float) -> TableSource:
    """Return the log of a crawler that fetches all pages at regular intervals."""
    names = names_of(web)
    n_polls = int(web.horizon / gap_seconds) + 1
    page = np.repeat(np.arange(web.n_pages), n_polls)
    at = np.tile(np.arange(n_polls) * gap_seconds, web.n_pages)
    at = at + (page % 97) * (gap_seconds / 200)
    seen = np.empty(page.size, np.int64)
    for p in range(web.n_pages):
        own = web.changes.at[web.changes.offsets[p] : web.changes.offsets[p + 1]]
        rows = slice(p * n_polls, (p + 1) * n_polls)
        seen[rows] = np.searchsorted(own, at[rows], side="right")
    order = np.argsort(at, kind="stable")
    digests = [f"{p}:{v}".encode() for p, v in zip(page[order], seen[order], strict=True)]
    table = pa.table(
        {
            "url": names.take(pa.array(page[order])),
            "at_ms": pa.array(START_MS + np.rint(1000 * at[order]).astype(np.int64)),
            "digest": pa.array(digests, pa.binary()),
        }
    )
    return TableSource("observed", table)


def exact_log(web: Web) -> TableSource:
    """Return all changes, as a repository has them."""
    names = names_of(web)
    at_ms = START_MS + np.rint(1000 * web.changes.at).astype(np.int64)
    table = pa.table(
        {
            "url": names.take(pa.array(web.changes.pages())),
            "at_ms": pa.array(at_ms),
            "digest": pa.nulls(at_ms.size, pa.binary()),
        }
    )
    n = web.n_pages
    windows = pa.table(
        {
            "url": names,
            "from_ms": pa.array(np.full(n, START_MS)),
            "until_ms": pa.array(np.full(n, START_MS + round(1000 * web.horizon))),
        }
    )
    return TableSource("changed", table, windows)
