"""Which ways to learn are run on which webs for how long, and the runs themselves."""

import csv
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lab.claim import Scale
from lab.learning.levels import LEVELS, WEBS
from lab.tables import Cell, Table, read_tables
from recrawl.sim import Account, Sum, simulate

__all__ = ["EDGES", "PLANS", "RESULTS", "Plan", "Series", "measure"]

RESULTS = Path(__file__).parents[1] / "results" / "learning"
"""Where the numbers of the full run are kept."""

HOUR = 3_600.0
# Hours between which freshness is kept; finer at first, when most is learned.
EDGES = (
    *(0, 100, 200, 300, 400, 600, 800, 1_000, 1_500, 2_000),
    *(3_000, 4_000, 5_000, 6_000, 7_000, 8_000),
)
_PART_HOURS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Levels that are run on the same webs at the same budget.

    ``fetches_per_pick`` are asked for at once, every ``fetches_per_pick / fetches_per_hour``
    hours: an hour at most.  One at a time takes several times as long, and says the same.
    """

    web: str
    fetches_per_hour: int
    fetches_per_pick: int
    hours: int
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is run; the webs have the seeds 0 to ``n_webs`` - 1."""

    n_webs: int
    series: tuple[Series, ...]


_LADDER = (
    *("oracle", "plug-in", "plug-in, pooled", "averaged", "averaged, pooled"),
    "shipped",
)
_SIGNALS = (
    *("oracle", "signals ignored", "signals half believed", "plug-in, pooled"),
    *("averaged, pooled", "shipped", "signals told"),
)
_LADDER_SHORT = ("oracle", "plug-in", "averaged", "averaged, pooled", "shipped")
_SIGNALS_SHORT = ("oracle", "signals ignored", "shipped", "signals told")
_FORGETTING = ("never forgets", "half-life 60 d", "half-life 14 d", "memory fixed")
_AUDITS = ("audits 2 %", "audits 10 %")
_PRIORS = ("averaged, Cost's prior", "averaged, told prior", "bonus")


def _series(web: str, per_hour: int, per_pick: int, hours: int, levels: Sequence[str]) -> Series:
    return Series(
        web=web,
        fetches_per_hour=per_hour,
        fetches_per_pick=per_pick,
        hours=hours,
        levels=tuple(levels),
    )


_REFERENCE = ("oracle", "shipped")

PLANS = {
    Scale.QUICK: Plan(
        n_webs=2,
        series=(
            _series("plain", 2, 2, 2_000, _REFERENCE),
            _series("plain", 5, 5, 400, (*_LADDER, *_PRIORS)),
            _series("drifting", 5, 5, 400, ("oracle", "never forgets", "shipped")),
            _series("signalled", 3, 3, 400, (*_SIGNALS, "audits 10 %")),
            _series("silenced", 3, 3, 400, ("shipped", "audits 10 %")),
            _series("bursty", 5, 5, 400, ("memory fixed", "shipped")),
            _series("lying", 3, 3, 400, ("shipped", "sources last")),
        ),
    ),
    Scale.FULL: Plan(
        n_webs=8,
        series=(
            _series("plain", 2, 1, 2_000, _REFERENCE),
            _series("plain", 5, 1, 2_000, _REFERENCE),
            _series("signalled", 3, 1, 2_000, _REFERENCE),
            _series("plain", 2, 2, 8_000, _LADDER),
            _series("plain", 5, 5, 4_000, (*_LADDER, *_PRIORS, *_FORGETTING, *_AUDITS)),
            _series("plain", 20, 5, 2_000, _LADDER_SHORT),
            _series("signalled", 3, 3, 4_000, (*_SIGNALS, *_AUDITS, "sources last")),
            _series("signalled", 10, 5, 2_000, _SIGNALS_SHORT),
            _series("drifting", 5, 5, 4_000, ("oracle", *_FORGETTING, "shipped", "audits 10 %")),
            _series("bursty", 5, 5, 4_000, (*_FORGETTING, "shipped")),
            _series("bursty", 20, 10, 2_000, (*_FORGETTING, "shipped")),
            _series("silenced", 3, 3, 4_000, ("shipped", "audits 10 %")),
            _series("lying", 3, 3, 4_000, ("shipped", "audits 10 %", "sources last")),
        ),
    ),
}
"""The plan of each scale."""


def _shares(account: Account, hours: int) -> dict[str, float]:
    """Return the fresh share between each two edges, nan beyond the end."""
    shares = {}
    for first, last in itertools.pairwise(EDGES):
        part = account.sums[first // _PART_HOURS : last // _PART_HOURS]
        fresh, total = part[:, Sum.WEIGHTED_FRESH].sum(), part[:, Sum.WEIGHTED].sum()
        shares[f"until_{last}_h"] = round(float(fresh / total), 5) if last <= hours else np.nan
    return shares


def _row(series: Series, level: str, seed: int) -> dict[str, Cell]:
    web = WEBS[series.web].make(seed, series.hours * HOUR)
    account = simulate(
        web,
        LEVELS[level].make(web),
        series.fetches_per_hour / HOUR,
        n_per_pick=series.fetches_per_pick,
        n_parts=series.hours // _PART_HOURS,
    )
    return {
        "web": series.web,
        "fetches_per_hour": series.fetches_per_hour,
        "fetches_per_pick": series.fetches_per_pick,
        "hours": series.hours,
        "level": level,
        "seed": seed,
        "fetches": account.n_fetches,
        **_shares(account, series.hours),
    }


_KEYS = ("web", "fetches_per_hour", "fetches_per_pick", "hours", "level", "seed")


def _key(row: dict[str, str]) -> tuple[str, ...]:
    return tuple(row[name] for name in _KEYS)


def _wanted(plan: Plan) -> Iterator[tuple[Series, str, int]]:
    for series in plan.series:
        for level in series.levels:
            for seed in range(plan.n_webs):
                yield series, level, seed


def measure(plan: Plan, folder: Path, *, resume: bool = False) -> Iterator[tuple[str, int, int]]:
    """Run a plan into ``runs.csv`` of a folder, a row a run, each written as it ends.

    Yields what is about to be run, and how many of how many runs are done.

    Parameters
    ----------
    plan
        Of `PLANS`.
    folder
        For the file.
    resume
        Whether the rows that are there stay; otherwise it begins anew.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "runs.csv"
    kept: dict[tuple[str, ...], dict[str, str]] = {}
    if resume and path.is_file():
        table = read_tables(folder)["runs"]
        rows = [dict(zip(table.names, row, strict=True)) for row in table.rows]
        kept = {_key(row): row for row in rows}
    wanted = list(_wanted(plan))
    found: list[dict[str, str]] = []
    for done, (series, level, seed) in enumerate(wanted):
        key = (
            *(series.web, str(series.fetches_per_hour), str(series.fetches_per_pick)),
            *(str(series.hours), level, str(seed)),
        )
        yield f"{series.web}, {series.fetches_per_hour}/h: {level}, web {seed}", done, len(wanted)
        if key not in kept:
            row = Table.of([_row(series, level, seed)])
            kept[key] = dict(zip(row.names, row.rows[0], strict=True))
            _write(path, list(kept.values()))
        found.append(kept[key])
    # In the order of the plan, without what is left of another one.
    _write(path, found)


def _write(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
