"""What last-modified dates buy over knowing of changes only, and why the constant is one half."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lab.change_days import TRACES, trace_days
from lab.claim import Claim, Kind, Scale, Tables
from lab.drawing import COLOURS, OURS, panels
from lab.tables import Cell, Table
from recrawl.papers.change_rate import (
    LastModifiedChangeRate,
    LastModifiedCounts,
    last_modified_moments,
    naive_change_rate,
    regular_change_rate,
    regular_moments,
)

__all__ = ["CLAIM"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Polls, and how finely curves are drawn; nothing is drawn at random."""

    n_polls: int = 50
    n_points: int = 31
    bias_max: float = 0.05
    n_polls_max: int = 2_000
    n_days_min: int = 1_000
    n_changes_min: int = 5
    n_pages_min: int = 30


SETTINGS = {Scale.QUICK: Settings(n_points=7), Scale.FULL: Settings()}


def _polls_for(r: float, settings: Settings) -> int:
    """Return the fewest polls, from the paper's 50 on, at which the bias without dates is small."""
    n = settings.n_polls
    while n < settings.n_polls_max:
        if abs(float(regular_moments(r, n).mean) / r - 1) < settings.bias_max:
            break
        n = int(n * 1.05)
    return n


def _moments_rows(settings: Settings) -> list[dict[str, Cell]]:
    rows: list[dict[str, Cell]] = []
    for figure, r_max in (("16", 20.0), ("17", 6.5)):
        for r in np.geomspace(0.1, r_max, settings.n_points).tolist():
            n = settings.n_polls if figure == "16" else _polls_for(r, settings)
            without, dated = regular_moments(r, n), last_modified_moments(r, n)
            rows.append(
                {
                    "figure": figure,
                    "changes_per_poll": r,
                    "n_polls": n,
                    "without_ratio": float(without.mean) / r,
                    "without_deviation": float(without.deviation) / r,
                    "dated_ratio": float(dated.mean) / r,
                    "dated_deviation": float(dated.deviation) / r,
                }
            )
    return rows


def _recorded_rows(settings: Settings) -> list[dict[str, Cell]]:
    """Return estimates over truth of recorded histories, each polled 50 times over its length."""
    history = trace_days()
    counts = np.bincount(history.page, minlength=history.n_pages)
    is_used = (history.n_days >= settings.n_days_min) & (counts >= settings.n_changes_min)
    number = np.cumsum(is_used) - 1
    used = is_used[history.page]
    page = number[history.page[used]]
    at = history.day[used] + 0.5
    n_pages, n = int(np.count_nonzero(is_used)), settings.n_polls
    interval = history.n_days[is_used] / n
    poll = np.minimum((at / interval[page]).astype(np.int64), n - 1)
    # The last change before each poll: rows are in order of time, so the last one written stays.
    age = np.broadcast_to(interval[:, np.newaxis], (n_pages, n)).copy()
    age[page, poll] = (poll + 1) * interval[page] - at
    dated_counts = LastModifiedCounts.zeros(n_pages)
    estimator = LastModifiedChangeRate(prior_rate=1.0)
    rows_of = np.repeat(np.arange(n_pages), n)
    estimator.observe(dated_counts, rows_of, np.repeat(interval, n), age.reshape(-1))
    n_changed = dated_counts.n_changed
    true_rate = counts[is_used] / history.n_days[is_used]
    estimates = {
        "naive": naive_change_rate(n_changed, interval * n),
        "improved": regular_change_rate(n, n_changed, interval),
        "dated": estimator.change_rate(dated_counts),
    }
    r = counts[is_used] / n
    edges = np.geomspace(0.1, 12.8, 15)
    rows: list[dict[str, Cell]] = []
    for low, high in pairwise(edges):
        inside = (r >= low) & (r < high)
        if np.count_nonzero(inside) < settings.n_pages_min:
            continue
        row: dict[str, Cell] = {
            "changes_per_poll": float(np.exp(np.log(r[inside]).mean())),
            "n_pages": int(np.count_nonzero(inside)),
        }
        for name, estimate in estimates.items():
            row[name] = float((estimate / true_rate)[inside].mean())
        rows.append(row)
    return rows


def measure(scale: Scale) -> dict[str, Table]:
    """Return both estimators' moments, their estimates of recorded histories, and the constant."""
    settings = SETTINGS[scale]
    n = np.unique(np.geomspace(1, 50, 30).astype(np.int64))
    # CGM App. B:  n log((n + a) / (n - 1 + a)) = 1, solved for a.
    constant = 1 / np.expm1(1 / n) - n + 1
    return {
        "moments": Table.of(_moments_rows(settings)),
        "recorded": Table.of(_recorded_rows(settings)),
        "constant": Table.of_columns({"n_polls": n, "constant": constant}),
    }


def _draw_moments(panel: Axes, rows: Table) -> None:
    r = rows.floats("changes_per_poll")
    for name, colour, label in (
        ("without", COLOURS[0], "changes only"),
        ("dated", OURS, "with dates"),
    ):
        panel.plot(r, rows.floats(f"{name}_ratio"), color=colour, label=f"mean, {label}")
        deviation = rows.floats(f"{name}_deviation")
        panel.plot(r, deviation, ":", color=colour, label=f"deviation, {label}")
    panel.set_xscale("log")
    panel.set_ylim(0.0, 1.15)
    panel.set_xlabel("changes per poll, r")
    panel.set_ylabel("estimate / truth")


def draw(tables: Tables) -> dict[str, Figure]:
    """Draw figures 16, 17 and 19, and both estimators on recorded histories."""
    moments, recorded, constant = tables["moments"], tables["recorded"], tables["constant"]
    figure, axes = panels(2, 2, width=9.0)
    _draw_moments(axes[0], moments.where(figure="16"))
    axes[0].set_title("50 polls (fig. 16)")
    _draw_moments(axes[1], moments.where(figure="17"))
    axes[1].set_title("Enough polls for 5 % bias (fig. 17)")
    axes[1].legend(loc="center right")
    panel = axes[2]
    r = recorded.floats("changes_per_poll")
    panel.axhline(1.0, color="#888888", lw=1.0)
    panel.plot(r, recorded.floats("naive"), "o-", color="black", label="naive")
    panel.plot(r, recorded.floats("improved"), "o-", color=COLOURS[0], label="changes only")
    panel.plot(r, recorded.floats("dated"), "o-", color=OURS, label="with dates")
    panel.set_xscale("log")
    panel.set_ylim(0.0, 1.5)
    panel.set_title("Git histories, 50 polls each")
    panel.set_xlabel("changes per poll, r")
    panel.set_ylabel("mean estimate / truth")
    panel.legend(loc="lower left")
    panel = axes[3]
    panel.axhline(0.5, color="#888888", lw=1.0)
    panel.plot(constant.floats("n_polls"), constant.floats("constant"), "o-", color=OURS)
    panel.set_ylim(0.4, 0.7)
    panel.set_title("The unbiased constant (fig. 19)")
    panel.set_xlabel("polls, n")
    panel.set_ylabel("constant a")
    return {"": figure}


CLAIM = Claim(
    id="G-16, 17, 19",
    kind=Kind.FIGURE,
    paper="CGM",
    figures="figs 16, 17, 19",
    title="what dates buy, and the constant one half",
    says=(
        "With 50 polls the estimate from changes only is biased from some 5 changes per poll on, "
        "the one with last-modified dates never.  With so many polls that both are biased by less "
        "than 5 % the latter varies less.  The constant that makes the former unbiased for slow "
        "pages tends to one half."
    ),
    measure=measure,
    draw=draw,
    captions={
        "": (
            "Mean and standard deviation of the estimators over the truth, exact, with 50 polls "
            "and with enough of them; the same three estimators on files of git repositories, each "
            "polled 50 times over its history; and the constant of the improved estimator."
        )
    },
    remark=(
        "The paper simulates figs 16 and 17 for Poisson pages; here they are computed.  On "
        "recorded histories all three estimators come out lower than for Poisson pages, because "
        "changes come in bursts: the time since the last change is then long for the rate."
    ),
    needs=(TRACES,),
)
