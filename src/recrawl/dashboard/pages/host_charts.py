"""The charts of a host, of kinds of pages and of a source of signals over time."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from recrawl.charts import Axis, Series, line_chart
from recrawl.dashboard.pages.overview_charts import rows_per_hour, time_axis
from recrawl.messages.samples import Samples, SourceSamples

__all__ = ["host_charts", "kind_charts", "source_charts"]

# Seconds from which on a chart of durations has a unit, and its name.
_UNITS: Final = (
    (172_800.0, 86_400.0, "days"),
    (7_200.0, 3_600.0, "hours"),
    (120.0, 60.0, "minutes"),
)
_WIDTH, _HEIGHT = 620, 240
_POINTS_MIN: Final = 2


def _chart(
    series: Samples | SourceSamples, now_ms: int, title: str, lines: list[Series], y: Axis
) -> str:
    time = time_axis(series, now_ms)
    return line_chart(lines, title=title, x=time, y=y, width=_WIDTH, height=_HEIGHT)


def host_charts(series: Samples, now_ms: int, *, is_freshness_known: bool = True) -> list[str]:
    """Return charts of a host as SVG; none without at least two samples.

    Parameters
    ----------
    series
        Figures of the host over time.
    now_ms
        Present time, at which the charts end, in milliseconds since 1970.
    is_freshness_known
        Whether to show the freshness.
    """
    if series.at_ms.size < _POINTS_MIN:
        return []
    at = series.at_ms.astype(np.float64)
    per_hour = rows_per_hour(series, now_ms)
    bad = series.results["failed"] + series.results["wrong_answer"] + series.results["disallowed"]
    charts = []
    if is_freshness_known:
        charts.append(
            _chart(
                series,
                now_ms,
                "Fresh copies",
                [Series(name="model", x=at, y=series.freshness, is_main=True)],
                Axis(label="share of the copies", scale="share"),
            )
        )
    return [
        *charts,
        _chart(
            series,
            now_ms,
            "Fetches over time",
            [
                Series(name="all", x=at, y=per_hour * series.n_fetches, is_main=True),
                Series(name="changed", x=at, y=per_hour * series.results["changed"]),
                Series(name="failed or wrong answer", x=at, y=per_hour * bad),
            ],
            Axis(label="fetches per hour", low=0.0),
        ),
    ]


def kind_charts(series: Mapping[str, Samples], now_ms: int) -> list[str]:
    """Return charts that compare kinds as SVG; none without at least two samples.

    Parameters
    ----------
    series
        Figures of each kind over time, by its name; all with the same step.
    now_ms
        Present time, in milliseconds since 1970.
    """
    known = {name: one for name, one in series.items() if one.at_ms.size >= _POINTS_MIN}
    if not known:
        return []
    longest = max(known.values(), key=lambda one: int(one.at_ms[-1] - one.at_ms[0]))
    at = {name: one.at_ms.astype(np.float64) for name, one in known.items()}
    fresh = [Series(name=name, x=at[name], y=one.freshness) for name, one in known.items()]
    fetches = [
        Series(name=name, x=at[name], y=rows_per_hour(one, now_ms) * one.n_fetches)
        for name, one in known.items()
    ]
    return [
        _chart(
            longest, now_ms, "Fresh copies", fresh, Axis(label="share of the copies", scale="share")
        ),
        _chart(
            longest, now_ms, "Fetches over time", fetches, Axis(label="fetches per hour", low=0.0)
        ),
    ]


def source_charts(series: SourceSamples, now_ms: int) -> list[str]:
    """Return charts of a source on one host as SVG; none without at least two samples.

    Parameters
    ----------
    series
        Learned figures of the source over time.
    now_ms
        Present time, at which the charts end, in milliseconds since 1970.
    """
    if series.at_ms.size < _POINTS_MIN:
        return []
    at = series.at_ms.astype(np.float64)
    per_hour = rows_per_hour(series, now_ms)
    longest = float(np.max(series.delay_seconds, initial=0.0))
    unit, name = next(
        ((unit, name) for least, unit, name in _UNITS if longest >= least), (1.0, "seconds")
    )
    return [
        _chart(
            series,
            now_ms,
            "Reliability",
            [
                Series(name="correct", x=at, y=series.precision, is_main=True),
                Series(name="complete", x=at, y=series.recall),
            ],
            Axis(label="share", scale="share"),
        ),
        _chart(
            series,
            now_ms,
            "Delay",
            [Series(name="delay", x=at, y=series.delay_seconds / unit, is_main=True)],
            Axis(label=f"{name} from a change to its signal", low=0.0),
        ),
        _chart(
            series,
            now_ms,
            "Signals",
            [Series(name="signals", x=at, y=per_hour * series.n_signals, is_main=True)],
            Axis(label="signals per hour", low=0.0),
        ),
    ]
