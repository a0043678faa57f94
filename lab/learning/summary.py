"""What runs of learning say together: how near each comes to an oracle, and what each part buys."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from lab.claim import Check
from lab.learning.plan import EDGES
from lab.paired import mean, standard_error, weighted_mean
from lab.tables import Table
from recrawl.core.arrays import FloatArray

__all__ = [
    "REFERENCES",
    "STEPS",
    "Reference",
    "Step",
    "checks",
    "checks_table",
    "freshness",
    "late_hours",
    "ratios",
    "series_of",
    "steps_table",
    "summary_table",
]

FIRST_HOURS = 2_000
"""What counts as the start."""

SERIES_KEYS = ("web", "fetches_per_hour", "fetches_per_pick", "hours")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What ``level`` has and ``against`` has not, on some kinds of webs."""

    part: str
    title: str
    level: str
    against: str
    webs: tuple[str, ...]


def _steps(part: str, webs: tuple[str, ...], *steps: tuple[str, str, str]) -> tuple[Step, ...]:
    return tuple(
        Step(part=part, title=title, level=level, against=against, webs=webs)
        for title, level, against in steps
    )


STEPS = (
    *_steps(
        "rates",
        ("plain",),
        ("averaged instead of plug-in, fixed prior", "averaged", "plug-in"),
        ("averaged instead of plug-in, pooled prior", "averaged, pooled", "plug-in, pooled"),
        ("pooled prior, plug-in", "plug-in, pooled", "plug-in"),
        ("pooled prior, averaged", "averaged, pooled", "averaged"),
        ("paying for what polls teach", "shipped", "averaged, pooled"),
        ("all of it", "shipped", "plug-in"),
        ("knowing every rate", "oracle", "shipped"),
        ("Cost's prior instead of the broad one", "averaged, Cost's prior", "averaged"),
        ("a prior told instead of pooled", "averaged, told prior", "averaged, pooled"),
        ("a bonus for learning", "bonus", "averaged, pooled"),
    ),
    *_steps(
        "signals",
        ("signalled",),
        ("heeding signals", "shipped", "signals ignored"),
        ("learning their precision", "shipped", "signals half believed"),
        ("averaged instead of plug-in, pooled prior", "averaged, pooled", "plug-in, pooled"),
        ("paying for what polls teach", "shipped", "averaged, pooled"),
        ("being told their precision", "signals told", "shipped"),
        ("knowing everything", "oracle", "shipped"),
    ),
    *_steps(
        "forgetting",
        ("plain", "drifting", "bursty"),
        ("forgetting as shipped", "shipped", "never forgets"),
        ("learning how long to remember", "shipped", "memory fixed"),
        ("half-life of 60 days", "half-life 60 d", "never forgets"),
        ("half-life of 14 days", "half-life 14 d", "never forgets"),
    ),
    *_steps("forgetting", ("drifting",), ("knowing every mean rate", "oracle", "shipped")),
    *_steps(
        "audits",
        ("plain", "drifting", "signalled", "silenced", "lying"),
        ("auditing with 2 % of fetches", "audits 2 %", "shipped"),
        ("auditing with 10 % of fetches", "audits 10 %", "shipped"),
        ("sources forget after 200 signals, not 4000", "shipped", "sources last"),
    ),
)
"""What is asked of each part of learning."""


def series_of(runs: Table) -> list[dict[str, str]]:
    """Return the settings under which levels were compared, in order of the table."""
    columns = [runs.texts(name) for name in SERIES_KEYS]
    return [
        dict(zip(SERIES_KEYS, row, strict=True))
        for row in dict.fromkeys(zip(*columns, strict=True))
    ]


def late_hours(hours: int) -> tuple[int, int]:
    """Return the last quarter of a run, which counts as its steady state."""
    return 3 * hours // 4, hours


def freshness(
    runs: Table, series: dict[str, str], level: str, between: tuple[int, int]
) -> FloatArray:
    """Return the weighted fresh share of each web, between two of the hours in the table.

    Every page has a copy from the start, so that the whole is the mean of its parts by length.
    """
    rows = runs.where(**series, level=level)
    first, last = EDGES.index(between[0]), EDGES.index(between[1])
    lengths = np.diff(EDGES)[first:last]
    shares = [rows.floats(f"until_{edge}_h") for edge in EDGES[first + 1 : last + 1]]
    return np.array([weighted_mean(of_web, lengths) for of_web in np.array(shares).T])


def ratios(runs: Table, series: dict[str, str], level: str, between: tuple[int, int]) -> FloatArray:
    """Return each web's freshness as a share of the oracle's; empty without an oracle."""
    if not len(runs.where(**series, level="oracle")):
        return np.empty(0)
    oracle = freshness(runs, series, "oracle", between)
    return freshness(runs, series, level, between) / oracle


def _windows(series: dict[str, str]) -> dict[str, tuple[int, int]]:
    hours = int(series["hours"])
    return {"first": (0, min(FIRST_HOURS, hours)), "late": late_hours(hours)}


def summary_table(runs: Table) -> Table:
    """Return freshness and its share of the oracle's, for each level of each series."""
    rows = []
    for series in series_of(runs):
        for level in runs.where(**series).distinct("level"):
            row: dict[str, str | float | int] = {**series, "level": level}
            row["webs"] = len(runs.where(**series, level=level))
            for name, between in _windows(series).items():
                share = ratios(runs, series, level, between)
                row[f"{name}_from_h"], row[f"{name}_until_h"] = between
                row[f"{name}_freshness"] = mean(freshness(runs, series, level, between))
                row[f"{name}_ratio"] = mean(share)
                row[f"{name}_ratio_error"] = standard_error(share)
            rows.append(row)
    return Table.of(rows)


def steps_table(runs: Table) -> Table:
    """Return what each step buys in points of freshness, with an interval of 95 %.

    Differences are paired by web, and the interval is Student's.
    """
    rows = []
    for step in STEPS:
        for series in series_of(runs):
            of_series = runs.where(**series)
            levels = of_series.distinct("level")
            # What is run only to compare with a reference is compared with nothing else.
            if set(levels) == {"oracle", "shipped"} or series["web"] not in step.webs:
                continue
            if step.level not in levels or step.against not in levels:
                continue
            row: dict[str, str | float | int] = {
                "part": step.part,
                "step": step.title,
                **series,
                "level": step.level,
                "against": step.against,
                "webs": len(of_series.where(level=step.level)),
            }
            for name, between in _windows(series).items():
                gain = 100 * (
                    freshness(runs, series, step.level, between)
                    - freshness(runs, series, step.against, between)
                )
                reach = float(student.ppf(0.975, gain.size - 1)) * standard_error(gain)
                row[f"{name}_points"] = round(mean(gain), 4)
                row[f"{name}_low"] = round(mean(gain) - reach, 4)
                row[f"{name}_high"] = round(mean(gain) + reach, 4)
            rows.append(row)
    return Table.of(rows)


# ---- against what was known before


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A share of the oracle's freshness that an earlier measurement found.

    ``is_floor``: it is of a simpler learner, so that more is welcome.
    """

    web: str
    fetches_per_hour: int
    window: str
    ratio: float
    is_floor: bool


def _reference(web: str, per_hour: int, window: str, ratio: float) -> Reference:
    return Reference(
        web=web,
        fetches_per_hour=per_hour,
        window=window,
        ratio=ratio,
        is_floor=window == "late",
    )


REFERENCES = (
    _reference("plain", 2, "first", 0.9598),
    _reference("plain", 5, "first", 0.9771),
    _reference("plain", 20, "first", 0.9942),
    _reference("signalled", 3, "first", 0.9731),
    _reference("plain", 2, "late", 0.961),
    _reference("plain", 5, "late", 0.986),
    _reference("plain", 20, "late", 0.995),
)
"""The shard's first 2000 h, and what an averaged value alone reached in steady state."""

STANDARD_ERRORS = 4.0
"""How many of them a measurement may be from its reference."""

_WEBS_ENOUGH = 8


def _reference_series(runs: Table, reference: Reference) -> dict[str, str] | None:
    """Return the series for a reference: the start one fetch at a time, the end of the longest."""
    fits = [
        series
        for series in series_of(runs)
        if series["web"] == reference.web
        and int(series["fetches_per_hour"]) == reference.fetches_per_hour
        and int(series["hours"]) >= FIRST_HOURS
        and len(runs.where(**series, level="oracle"))
        and len(runs.where(**series, level="shipped"))
    ]
    if reference.window == "first":
        return min(fits, key=lambda series: int(series["fetches_per_pick"]), default=None)
    fits = [series for series in fits if series["fetches_per_pick"] != "1"]
    return max(fits, key=lambda series: int(series["hours"]), default=None)


def checks(runs: Table, kept: Table | None = None) -> tuple[Check, ...]:
    """Return how the runs compare with `REFERENCES`, those that they can say something of.

    Parameters
    ----------
    runs
        To be judged.
    kept
        A full table, from which the spread of webs is taken where there are few here.
    """
    found = []
    for reference in REFERENCES:
        series = _reference_series(runs, reference)
        if series is None or (reference.is_floor and len(runs.where(**series)) < _WEBS_ENOUGH):
            continue
        between = _windows(series)[reference.window]
        share = ratios(runs, series, "shipped", between)
        error = standard_error(share)
        if share.size < _WEBS_ENOUGH and kept is not None:
            like = _reference_series(kept, reference)
            if like is not None:
                many = ratios(kept, like, "shipped", between)
                error = standard_error(many) * math.sqrt(many.size / share.size)
        distance = (mean(share) - reference.ratio) / error
        what = "at least " if reference.is_floor else ""
        found.append(
            Check(
                what=f"{reference.web}, {reference.fetches_per_hour}/h, "
                f"hours {between[0]} to {between[1]}",
                found=f"{mean(share):.4f} ± {error:.4f} ({distance:+.1f} standard errors)",
                wanted=f"{what}{reference.ratio:g}",
                holds=distance > -STANDARD_ERRORS
                and (reference.is_floor or distance < STANDARD_ERRORS),
            )
        )
    return tuple(found)


def checks_table(found: tuple[Check, ...]) -> Table:
    """Return checks as they are kept."""
    return Table.of(
        {"what": c.what, "found": c.found, "wanted": c.wanted, "holds": c.holds} for c in found
    )
