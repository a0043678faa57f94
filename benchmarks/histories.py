"""Backtest recrawl on three recorded histories: savings with intervals, and the run time.

The files are not in the repository (`lab.recorded`): ``ota_crawl_log.parquet`` (830 pages, twice a
day for eight months), ``change_traces.parquet`` (257,417 pages of public repositories) and
``nolan_cache500.csv`` (500 pages, hourly for a month).
"""

import csv
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lab.change_days import CACHE, OTA, TRACES
from lab.recorded import data_folder
from recrawl.backtest import Backtest, History, backtest_html, history_of, run_backtest
from recrawl.backtest.policy_runs import run_at_budget
from recrawl.readers import OBSERVED, open_source
from recrawl.sim import Oracle

_HOUR_MS = 3_600_000
_START_MS = 1_000_000_000_000


class HourlyVisits:
    """Pages that were visited every hour; the file lists the hours at which a page had changed."""

    kind = "observed"

    def __init__(self, path: Path, n_hours: int = 720) -> None:
        self._path = path
        self._n_hours = n_hours

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the visits of each page."""
        with self._path.open(newline="") as file:
            for row in csv.DictReader(file):
                changed = np.zeros(self._n_hours, np.bool_)
                changed[[int(hour) - 1 for hour in row["change_hours"].split()]] = True
                columns: dict[str, Any] = {
                    "url": pa.array([f"page-{row['page']}"] * self._n_hours),
                    "at_ms": pa.array(_START_MS + _HOUR_MS * np.arange(1, self._n_hours + 1)),
                    "changed": pa.array(changed),
                }
                arrays = [
                    columns.get(field.name, pa.nulls(self._n_hours, field.type))
                    for field in OBSERVED
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=OBSERVED)

    def windows(self) -> pa.Table:
        """Fail: hourly visits have no windows."""
        raise NotImplementedError


def _histories() -> Iterator[tuple[str, History]]:
    folder = data_folder()
    columns = {"url": "page_id", "at": "ts", "changed": "text_changed"}
    ota = open_source(folder / OTA, columns=columns)
    yield "terms of service, twice a day", history_of(ota)
    yield "500 pages, hourly", history_of(HourlyVisits(folder / CACHE))
    yield "files of repositories", history_of(open_source(folder / TRACES))


def _result_row(name: str, found: Backtest, seconds: float) -> dict[str, Any]:
    comparison = found.comparison
    assert comparison is not None
    own = comparison.logged
    return {
        "history": name,
        "n_pages": comparison.n_pages,
        "n_changes": comparison.n_changes,
        "days": comparison.seconds / 86_400,
        "savings_against_the_log_itself": None if own is None else own.savings,
        "savings_against_best_rule": {
            f"{level.freshness:.1%}": level.savings_against_best for level in comparison.levels
        },
        "savings_against_fixed_interval": {
            f"{level.freshness:.1%}": level.savings["fixed interval"] for level in comparison.levels
        },
        "seconds": round(seconds, 1),
        "freshness_of_a_policy_told_every_rate": _rate_oracle_rows(found),
    }


def _rate_oracle_rows(found: Backtest) -> list[dict[str, float]]:
    """Return the freshness of recrawl, and of a policy that knows the change rate of each page.

    If they hardly differ, better estimates of the rates would not help.
    """
    comparison, web = found.comparison, found.replay.web
    assert comparison is not None
    weight = web.importance / web.importance.sum()
    rows = []
    for i in range(1, len(comparison.budgets) - 1, 2):
        budget = float(comparison.budgets[i])
        oracle = run_at_budget(web, Oracle(web), budget)
        rows.append(
            {
                "fetches": round(budget * web.horizon),
                "recrawl": float(comparison.ours.freshness[0, i]),
                "told": float(weight @ oracle.fresh_seconds / web.horizon),
            }
        )
    return rows


def measure(folder: str | None = None) -> list[dict[str, Any]]:
    """Backtest each history and return its savings; write HTML reports to ``folder`` if given."""
    rows = []
    started = time.perf_counter()
    for name, history in _histories():
        found = run_backtest(history)
        ended = time.perf_counter()
        rows.append(_result_row(name, found, ended - started))
        if folder is not None:
            path = Path(folder) / (name.replace(" ", "-").replace(",", "") + ".html")
            path.write_text(backtest_html(found, name=name), encoding="utf-8")
        started = time.perf_counter()
    return rows
