"""Cost §5.3: while a period is learned, some intervals leave a page stale for very long."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from lab.claim import Check, Claim, Kind, Scale, Tables
from lab.drawing import COLOURS, OURS, panels
from lab.policies.loop_runs import IntervalLog, fixed_log, loop_log
from lab.policies.loops import COST_LOOP, Loop
from lab.tables import Table
from recrawl.core.arrays import FlagArray, FloatArray
from recrawl.papers.change_rate import PseudoObservations
from recrawl.sim import Web, make_web

__all__ = ["CLAIM", "SETTINGS", "Settings", "draw", "judge", "measure"]

HOUR = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Of Cost §5.3, with Cc = Cs = 1; pages polled for 1000 h and for 12 000 h."""

    period_hours: float = 24.0
    fraction: float = 1 / 3
    n_pages_short: int = 1_000
    n_pages_long: int = 120
    seed: int = 108


SETTINGS = {
    Scale.QUICK: Settings(),
    Scale.FULL: Settings(n_pages_short=10_000, n_pages_long=1_000),
}
_STANDARD_ERRORS = 4.0
_HORIZONS = (1_000.0, 12_000.0)
_PLAIN = "changed after 1 h, unchanged after 57 h"
_SWAPPED = "the pair swapped"
_BARE = "no prior, first interval 8 h"
_KNOWN = "known"
_READINGS = {
    _PLAIN: COST_LOOP,
    _SWAPPED: Loop(
        fraction=1 / 3,
        pseudo=PseudoObservations(changed_after=57 * HOUR, unchanged_after=1 * HOUR),
    ),
    _BARE: Loop(fraction=1 / 3, first=8 * HOUR),
}


def _share(log: IntervalLog, flag: FlagArray) -> tuple[float, float]:
    """Return the share of intervals with a trait, and its standard error over pages."""
    starts = log.offsets[:-1]
    n = np.add.reduceat(log.is_fetch.astype(np.float64), starts)
    x = np.add.reduceat((flag & log.is_fetch).astype(np.float64), starts)
    share = x.sum() / n.sum()
    error = np.sqrt(((x - share * n) ** 2).sum()) / n.sum()
    return float(share), float(error)


def _shares(case: str, hours: float, log: IntervalLog, very_hours: float) -> dict[str, float | str]:
    very, very_error = _share(log, log.stale_seconds >= very_hours * HOUR)
    changed, changed_error = _share(log, log.changed)
    return {
        "case": case,
        "hours": hours,
        "very_stale": very,
        "very_stale_error": very_error,
        "changed": changed,
        "changed_error": changed_error,
        "very_stale_of_changed": very / changed,
    }


def _histogram(known: IntervalLog, unknown: IntervalLog) -> Table:
    edges = np.concatenate([np.arange(13.0), [np.inf]])

    def shares(log: IntervalLog) -> FloatArray:
        stale = log.stale_seconds[log.is_fetch] / HOUR
        # A page that did not change in its interval was not stale at all.
        counts = np.histogram(stale[stale > 0], edges)[0]
        return np.asarray(counts / stale.size)

    return Table.of_columns(
        {"from_hours": edges[:-1], "known": shares(known), "unknown": shares(unknown)}
    )


def _over_time(log: IntervalLog, very_hours: float) -> Table:
    edges = np.array([0, 50, 100, 200, 400, 700, 1_000, 1_500, 2_000, 3_000, 4_500, 6_000, 12_000])
    rows = []
    for start, end in itertools.pairwise(edges):
        inside = log.is_fetch & (log.ended_at > start * HOUR) & (log.ended_at <= end * HOUR)
        stale = log.stale_seconds[inside] / HOUR
        rows.append(
            {
                "from_hours": int(start),
                "to_hours": int(end),
                "very_stale": float((stale >= very_hours).mean()),
                "changed": float(log.changed[inside].mean()),
            }
        )
    return Table.of(rows)


def measure(scale: Scale) -> Tables:
    """Return the shares at both horizons, the histogram at 1000 h, and shares over time."""
    settings = SETTINGS[scale]
    very_hours = settings.fraction * settings.period_hours
    rows = []
    webs: dict[float, Web] = {}
    for hours, n_pages in zip(
        _HORIZONS, (settings.n_pages_short, settings.n_pages_long), strict=True
    ):
        rate = np.full(n_pages, 1 / (settings.period_hours * HOUR))
        web = webs[hours] = make_web(settings.seed, hours * HOUR, rate)
        rows.append(_shares(_KNOWN, hours, fixed_log(web, very_hours * HOUR), very_hours))
        rows += [
            _shares(name, hours, loop_log(web, loop), very_hours)
            for name, loop in _READINGS.items()
        ]
    short, long = (webs[hours] for hours in _HORIZONS)
    return {
        "shares": Table.of(rows),
        "histogram": _histogram(fixed_log(short, very_hours * HOUR), loop_log(short, COST_LOOP)),
        "over_time": _over_time(loop_log(long, COST_LOOP), very_hours),
    }


def judge(tables: Tables) -> tuple[Check, ...]:
    """Compare the two horizons, and both with the known period."""
    shares = tables["shares"]
    early, late = (shares.value("very_stale", case=_PLAIN, hours=hours) for hours in _HORIZONS)
    error = math.hypot(
        *(shares.value("very_stale_error", case=_PLAIN, hours=hours) for hours in _HORIZONS)
    )
    never = max(shares.value("very_stale", case=_KNOWN, hours=hours) for hours in _HORIZONS)
    gaps = [
        abs(
            shares.value("changed", case=_PLAIN, hours=hours)
            - shares.value("changed", case=_KNOWN, hours=hours)
        )
        for hours in _HORIZONS
    ]
    known = shares.value("changed", case=_KNOWN, hours=_HORIZONS[0])
    known_error = shares.value("changed_error", case=_KNOWN, hours=_HORIZONS[0])
    return (
        Check(
            what="very stale share of intervals, by 1000 h and by 12 000 h",
            found=f"{early:.1%} → {late:.1%}",
            wanted=f"falls, by {_STANDARD_ERRORS:g} standard errors (paper: 9.1 % → 3.8 %)",
            holds=bool(early - late > _STANDARD_ERRORS * error),
        ),
        Check(
            what="very stale share where the period is known",
            found=f"{never:.2%}",
            wanted="none",
            holds=never == 0.0,
        ),
        Check(
            what="share of intervals with a change, known period",
            found=f"{known:.2%}",
            wanted="1 − e^(−1/3) = 28.35 %, within 4 standard errors",
            holds=bool(abs(known + np.expm1(-1 / 3)) <= 4 * known_error),
        ),
        Check(
            what="that share's distance from the known period's, by 1000 h and by 12 000 h",
            found=f"{gaps[0]:.2%} → {gaps[1]:.2%}",
            wanted="falls",
            holds=gaps[1] < gaps[0],
        ),
    )


def said(tables: Tables) -> dict[str, str]:
    """Return what the pair swapped gives, early and late."""
    rows = tables["shares"].where(case=_SWAPPED)
    very, changed = rows.floats("very_stale_of_changed"), rows.floats("changed")
    return {
        "very": f"{100 * very[0]:.1f} % → {100 * very[1]:.1f} %",
        "changed": f"{100 * changed[0]:.1f} % → {100 * changed[1]:.1f} %",
    }


def draw(tables: Tables) -> dict[str, Figure]:
    """Draw Cost's figure 8, and the share over time."""
    figure, (bars, line) = panels(2, width=9.6)
    histogram = tables["histogram"]
    x = np.arange(len(histogram))
    bars.bar(x - 0.2, 100 * histogram.floats("known"), 0.4, color="#b8c4d0", label="known")
    bars.bar(x + 0.2, 100 * histogram.floats("unknown"), 0.4, color=OURS, label="unknown")
    bars.axvline(7.5, color="#888888", linewidth=0.9, linestyle=":")
    bars.set_xticks(x, [*(str(k) for k in range(12)), "12+"])
    bars.set(xlabel="hours stale when fetched", ylabel="% of all intervals")
    bars.set(title="First 1000 h; very stale right of the line")
    bars.legend(title="period")

    over_time = tables["over_time"]
    middle = np.sqrt(np.maximum(over_time.floats("from_hours"), 19) * over_time.floats("to_hours"))
    line.plot(middle, 100 * over_time.floats("very_stale"), "o-", color=OURS, label="of that time")
    shares = tables["shares"].where(case=_PLAIN)
    line.plot(
        shares.floats("hours"),
        100 * shares.floats("very_stale"),
        "s",
        color=COLOURS[0],
        label="of all until then",
    )
    line.plot(_HORIZONS, [9.1, 3.8], "x", color="#444444", label="of all until then, paper")
    line.set(xscale="log", ylim=(0, None), xlabel="hours since the first fetch")
    line.set(ylabel="very stale, % of intervals", title="Very stale intervals over time")
    line.legend()
    return {"": figure}


CLAIM = Claim(
    id="C-8",
    kind=Kind.ORDER,
    paper="Cost",
    figures="fig. 8, §5.3",
    title="the share of very stale intervals falls as the period is learned",
    says=(
        "Period 24 h, fraction 1/3, Cc = Cs = 1: with the period known no interval leaves the "
        "page stale for 8 h or more; estimated, 9.1 % do by 1000 h and 3.8 % by 12 000 h. 28.3 % "
        "of intervals have a change where the period is known, 27.1 % by 1000 h and 28.2 % by "
        "12 000 h where it is not."
    ),
    tolerance=(
        "The very stale share falls from 1000 h to 12 000 h by more than 4 standard errors and is "
        "nil where the period is known; the share with a change is 28.35 % within 4 standard "
        "errors where the period is known, and nears it with time where not."
    ),
    measure=measure,
    judge=judge,
    draw=draw,
    captions={
        "": (
            "Left Cost's figure 8: hours for which a page had been stale when fetched, intervals "
            "without a change left out. Right the share of very stale intervals over time."
        )
    },
    corrected=(
        "The paper prints 28.3 % as the share of intervals with *no* change; it is the share "
        "with one, 1 − e^(−1/3) = 28.35 %.  Its 9.1 % and 3.8 % of very stale intervals are "
        "not reproduced by the plain reading; only that the share falls is judged."
    ),
    remark=(
        "The plain reading (a change after 1 h, none after 57 h, a third of the estimate) gives "
        "fewer very stale intervals than the paper at both horizons, and its share with a change "
        "comes down to the known one where the paper's comes up. With the pair swapped, and the "
        "very stale counted among the intervals with a change, which are all that figure 8 can "
        "show, all four numbers come near the paper's: {very} very stale and {changed} changed "
        "(`shares.csv` has all readings). The paper prints its 28.3 % as intervals with *no* "
        "change; they are those with one."
    ),
    said=said,
)
