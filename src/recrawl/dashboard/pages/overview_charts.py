"""The charts of the overview: freshness, spending, price and backlog over time."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.charts import Axis, Series, line_chart
from recrawl.corpus.inspect.stats import wilson_interval
from recrawl.messages.samples import STEPS, Samples, SourceSamples

__all__ = ["SPANS", "TimeSpan", "audited_points", "overview_charts", "rows_per_hour", "time_axis"]

_HOUR: Final = 3_600_000
_WIDTH, _HEIGHT = 620, 280
_AUDIT_POINTS: Final = 24
_FloatArray = NDArray[np.float64]


class TimeSpan(NamedTuple):
    """A time that charts show."""

    words: str
    step: str
    """Step of the series, see `recrawl.messages.samples.STEPS`."""
    ms: int
    within: str
    """The time as part of a sentence."""


SPANS: Final = {
    "day": TimeSpan("Day", "minute", 24 * _HOUR, "in the last day"),
    "month": TimeSpan("Month", "hour", 30 * 24 * _HOUR, "in the last 30 days"),
    "years": TimeSpan("Years", "day", 10 * 365 * 24 * _HOUR, "in the last 10 years"),
}
"""Times that charts show, by their names in addresses."""


def audited_points(series: Samples, n_points: int = _AUDIT_POINTS) -> list[_FloatArray]:
    """Return times, shares of fresh copies, and the ends of their 95 % intervals.

    Audits of neighbouring rows are added up, so that there are at most ``n_points`` points.

    Parameters
    ----------
    series
        Figures over time.
    n_points
        Largest number of points.
    """
    if not series.at_ms.size:
        return [np.empty(0)] * 4
    first, last = int(series.at_ms[0]), int(series.at_ms[-1]) + STEPS[series.step]
    place = (series.at_ms - first) * n_points // (last - first)
    n = np.bincount(place, series.n_audited, minlength=n_points)
    n_fresh = np.bincount(place, series.n_audited_fresh, minlength=n_points)
    used = np.flatnonzero(n > 0)
    at = first + (used + 0.5) * (last - first) / n_points
    ends = [wilson_interval(round(n_fresh[i]), round(n[i])) for i in used.tolist()]
    low, high = np.array(ends).reshape(-1, 2).T
    return [at, n_fresh[used] / n[used], low, high]


def rows_per_hour(series: Samples | SourceSamples, now_ms: int) -> _FloatArray:
    """Return the factor that turns the counts of each row into counts per hour.

    A minute has the counts since the sample before, which is earlier than the minute before if the
    corpus is used from time to time.  The last hour or day has the counts so far.  The first one of
    a corpus has the counts from its first sample on, and the minute of that sample none: its rates
    are not known, so they are nan.

    Parameters
    ----------
    series
        Figures over time.
    now_ms
        Present time, in milliseconds since 1970.
    """
    step = STEPS[series.step]
    length = np.full(series.at_ms.size, float(step))
    if series.step != "minute":
        so_far = now_ms - series.at_ms[-1:]
        length[-1:] = np.clip(so_far, STEPS["minute"], step)
    elif series.at_ms.size > 1:
        length[1:] = np.diff(series.at_ms)
        length[0] = length[1]
    if series.first_ms is not None and series.at_ms.size:
        # Part of the first row in which there was no corpus.
        before = series.first_ms - int(series.at_ms[0])
        if 0 <= before < step:
            rest = max(length[0] - before, STEPS["minute"])
            length[0] = np.nan if series.step == "minute" else rest
    return _HOUR / length


def time_axis(series: Samples | SourceSamples, now_ms: int) -> Axis:
    """Return the axis of a chart over time, from the first sample to the present.

    So a corpus that nobody has used for a while shows that.

    Parameters
    ----------
    series
        Figures over time, of at least one row.
    now_ms
        Present time, in milliseconds since 1970.
    """
    ends = max(float(series.at_ms[-1]) + STEPS[series.step], float(now_ms))
    return Axis(scale="time", low=float(series.at_ms[0]), high=ends)


def overview_charts(
    series: Samples, unit: str, now_ms: int, *, is_freshness_known: bool = True
) -> list[str]:
    """Return charts as SVG; none without at least two samples.

    Parameters
    ----------
    series
        Figures of the corpus over time.
    unit
        Unit of the budget: fetches or cost.
    now_ms
        Present time, at which the charts end, in milliseconds since 1970.
    is_freshness_known
        Whether to show the freshness by the model.
    """
    at = series.at_ms.astype(np.float64)
    if at.size < 2:
        return []
    time = time_axis(series, now_ms)
    per_hour = rows_per_hour(series, now_ms)
    when, share, low, high = audited_points(series)
    budget = np.where(np.isfinite(series.budget_per_second), series.budget_per_second, np.nan)
    results = series.results
    failed = results["failed"] + results["wrong_answer"]
    gone = results["gone"] + results["disallowed"]

    def chart(title: str, lines: list[Series], y: Axis) -> str:
        return line_chart(lines, title=title, x=time, y=y, width=_WIDTH, height=_HEIGHT)

    fresh = [Series(name="audits", x=when, y=share, low=low, high=high, style="points")]
    if is_freshness_known:
        # Audits count each page once, so the model beside them does, too.
        fresh[:0] = [
            Series(name="model", x=at, y=series.freshness, is_main=True),
            Series(name="by importance", x=at, y=series.weighted_freshness, style="dashed"),
        ]
    shares = Axis(label="share of the copies; audits with 95 % intervals", scale="share")
    return [
        *([chart("Fresh copies", fresh, shares)] if is_freshness_known or when.size else []),
        chart(
            "Budget",
            [
                Series(name="spent", x=at, y=per_hour * series.spent, style="step", is_main=True),
                Series(name="allowed", x=at, y=3_600 * budget, style="dashed"),
            ],
            Axis(label=f"{unit if unit == 'fetches' else 'cost'} per hour", low=0.0),
        ),
        chart(
            "Fetches over time",
            [
                Series(name="unchanged", x=at, y=per_hour * results["unchanged"]),
                Series(name="changed", x=at, y=per_hour * results["changed"]),
                Series(name="first copy", x=at, y=per_hour * results["first"]),
                Series(name="failed or wrong answer", x=at, y=per_hour * failed),
                Series(name="gone or disallowed", x=at, y=per_hour * gone),
            ],
            Axis(label="fetches per hour", low=0.0),
        ),
        chart(
            "Due pages",
            [Series(name="due", x=at, y=series.n_due, is_main=True)],
            Axis(label="pages that wait to be fetched", low=0.0),
        ),
        chart(
            "Price",
            [Series(name="price", x=at, y=series.price, is_main=True)],
            Axis(label="seconds of staleness that a fetch must save", scale="log"),
        ),
    ]
