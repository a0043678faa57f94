"""Which estimator comes closer to what daily visits saw, when visits are weekly."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from lab.change_days import (
    CACHE,
    OTA,
    TRACES,
    ChangeDays,
    Stretches,
    cache_hours,
    ota_days,
    trace_days,
)
from lab.claim import Check, Claim, Kind, Scale, Tables
from lab.drawing import COLOURS, OURS, panels
from lab.tables import Cell, Table
from recrawl.core.arrays import CountArray, FloatArray
from recrawl.papers.change_rate import naive_change_rate, regular_change_rate

__all__ = ["CLAIM"]

GIT, TERMS, GENERAL = "git histories", "terms of service", "general web, hours for days"
_SETS: dict[str, Callable[[], ChangeDays]] = {
    GIT: trace_days,
    TERMS: ota_days,
    GENERAL: cache_hours,
}
_CONTROL = "Poisson pages"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Four months of each page, as in the paper, from a random day on.

    Kept are pages with at least ``n_changes_min`` changes, and less than one in
    ``days_per_change`` days.
    """

    n_days: int = 126
    every: int = 7
    n_changes_min: int = 3
    days_per_change: int = 3
    n_draws: int = 10
    n_control: int = 20_000
    seed: int = 18


SETTINGS = {Scale.QUICK: Settings(n_draws=1, n_control=5_000), Scale.FULL: Settings()}

_N_VISITS = Settings().n_days // Settings().every
# Bins of a tenth, with exact estimates in the middle of one.
_RATIO_EDGES = np.linspace(-0.05, 3.05, 32)
_CHANGES_EDGES = np.array([3, 4, 5, 6, 8, 11, 15, 21, 29, 42])


class _Estimates(NamedTuple):
    """Of the pages kept: changes seen daily, and both estimates over their rate."""

    n_changes: CountArray
    naive: FloatArray
    improved: FloatArray

    @property
    def closer(self) -> FloatArray:
        return (np.abs(self.improved - 1) < np.abs(self.naive - 1)).astype(np.float64)


def _estimates(stretches: Stretches, settings: Settings) -> _Estimates:
    n_changes = stretches.n_changes
    is_kept = (n_changes >= settings.n_changes_min) & (
        n_changes * settings.days_per_change < settings.n_days
    )
    kept = stretches.chosen(is_kept)
    n_found = kept.n_found(settings.every)
    n_visits = settings.n_days // settings.every
    projected = kept.n_changes / settings.n_days
    naive = naive_change_rate(n_found, float(settings.n_days))
    improved = regular_change_rate(n_visits, n_found, float(settings.every))
    return _Estimates(kept.n_changes, naive / projected, improved / projected)


def _control(settings: Settings) -> Stretches:
    """Return pages that change at random, at rates as spread as those of real ones."""
    rng = np.random.default_rng(settings.seed)
    per_day = np.exp(rng.uniform(np.log(0.015), np.log(0.5), settings.n_control))
    changed = rng.random((settings.n_control, settings.n_days)) < -np.expm1(-per_day[:, np.newaxis])
    page, day = np.nonzero(changed)
    return Stretches(
        n_days=settings.n_days, kind=np.zeros(settings.n_control, np.int64), page=page, day=day
    )


def _all_estimates(settings: Settings) -> Iterator[tuple[str, _Estimates]]:
    for name, read in _SETS.items():
        history = read()
        draws = [
            _estimates(history.stretches(settings.n_days, settings.seed + k), settings)
            for k in range(settings.n_draws)
        ]
        yield name, _Estimates(*(np.concatenate(column) for column in zip(*draws, strict=True)))
    yield _CONTROL, _estimates(_control(settings), settings)


def measure(scale: Scale) -> dict[str, Table]:
    """Return who is closer and how biased, the distribution of estimates, and both by rate."""
    settings = SETTINGS[scale]
    n_visits = settings.n_days // settings.every
    sets: list[dict[str, Cell]] = []
    ratios: list[dict[str, Cell]] = []
    by_rate: list[dict[str, Cell]] = []
    for name, found in _all_estimates(settings):
        sets.append(
            {
                "set": name,
                "n_pages": found.naive.size / (1 if name == _CONTROL else settings.n_draws),
                "improved_closer": float(found.closer.mean()),
                "naive_bias": float(found.naive.mean()) - 1,
                "improved_bias": float(found.improved.mean()) - 1,
                "naive_off": float(np.abs(found.naive - 1).mean()),
                "improved_off": float(np.abs(found.improved - 1).mean()),
            }
        )
        last = _RATIO_EDGES[-1] - 1e-9
        shares = [
            np.histogram(np.minimum(ratio, last), _RATIO_EDGES)[0] / ratio.size
            for ratio in (found.naive, found.improved)
        ]
        for k, (naive, improved) in enumerate(zip(*shares, strict=True)):
            middle = 0.5 * float(_RATIO_EDGES[k] + _RATIO_EDGES[k + 1])
            ratios.append(
                {"set": name, "ratio": middle, "naive": float(naive), "improved": float(improved)}
            )
        bin_of = np.digitize(found.n_changes, _CHANGES_EDGES) - 1
        for k in range(_CHANGES_EDGES.size - 1):
            rows = bin_of == k
            if np.count_nonzero(rows) >= 30:
                by_rate.append(
                    {
                        "set": name,
                        "changes_per_poll": float(found.n_changes[rows].mean()) / n_visits,
                        "n": int(np.count_nonzero(rows)),
                        "improved_closer": float(found.closer[rows].mean()),
                    }
                )
    return {"sets": Table.of(sets), "ratios": Table.of(ratios), "by_rate": Table.of(by_rate)}


def judge(tables: Tables) -> tuple[Check, ...]:
    """Ask on each set whether the improved one is closer on most pages, and less biased."""
    sets = tables["sets"]
    checks = []
    for name in _SETS:
        closer = sets.value("improved_closer", set=name)
        naive, improved = sets.value("naive_bias", set=name), sets.value("improved_bias", set=name)
        checks += [
            Check(
                what=f"{name}: pages on which the improved one is closer",
                found=f"{closer:.0%}",
                wanted="> 50 % (paper 83 %)",
                holds=closer > 0.5,
            ),
            Check(
                what=f"{name}: bias, improved and naive",
                found=f"{improved:+.1%}, {naive:+.1%}",
                wanted="less (paper 15 %, 35 %)",
                holds=abs(improved) < abs(naive),
            ),
        ]
    return tuple(checks)


def said(tables: Tables) -> dict[str, str]:
    """Return how seldom most git histories change, and from which rate on estimates differ."""
    sets, rows = tables["sets"], tables["by_rate"].where(set=GIT)
    n, rate = rows.floats("n"), rows.floats("changes_per_poll")
    few = rate * _N_VISITS < 5.5  # changes
    return {
        "closer": f"{100 * sets.value('improved_closer', set=GIT):.0f} %",
        "few": f"{100 * n[few].sum() / n.sum():.0f} %",
        "lively": f"{rate[rows.floats('improved_closer') > 0.5].min():.2f}",
        "improved_bias": f"{100 * sets.value('improved_bias', set=GENERAL):+.0f} %",
        "naive_bias": f"{100 * sets.value('naive_bias', set=GENERAL):+.0f} %",
    }


def _draw_ratios(panel: Axes, ratios: Table, name: str) -> None:
    rows = ratios.where(set=name)
    at = rows.floats("ratio")
    panel.axvline(1.0, color="#888888", lw=1.0)
    panel.step(at, rows.floats("naive"), where="mid", color=COLOURS[0], label="naive")
    panel.step(at, rows.floats("improved"), where="mid", color=OURS, label="improved")
    panel.set_title(name[0].upper() + name[1:])
    panel.set_xlabel("estimated / projected rate")
    panel.set_ylabel("share of pages")
    panel.set_xlim(0.0, 2.5)
    panel.set_ylim(bottom=0.0)
    panel.yaxis.set_major_locator(MaxNLocator(5))
    panel.legend(loc="upper right")


def draw(tables: Tables) -> dict[str, Figure]:
    """Draw the distributions of both estimates, and who is closer by rate."""
    figure, axes = panels(2, 2, width=9.0)
    for panel, name in zip(axes, _SETS, strict=False):
        _draw_ratios(panel, tables["ratios"], name)
    panel = axes[3]
    by_rate = tables["by_rate"]
    for name, colour, style in (
        (GIT, OURS, "o-"),
        (GENERAL, COLOURS[1], "o-"),
        (_CONTROL, "black", "--"),
    ):
        rows = by_rate.where(set=name)
        closer = rows.floats("improved_closer")
        panel.plot(rows.floats("changes_per_poll"), closer, style, color=colour, label=name)
    panel.axhline(0.5, color="#888888", lw=1.0)
    panel.set_xscale("log")
    panel.set_xticks([0.2, 0.5, 1.0, 2.0], labels=["0.2", "0.5", "1", "2"])
    panel.set_xticks([], minor=True)
    panel.set_ylim(0.0, 1.0)
    panel.set_xlabel("changes seen daily, per weekly poll")
    panel.set_ylabel("share of pages, improved closer")
    panel.set_title("Who is closer, by rate")
    panel.legend(loc="lower right")
    return {"": figure}


CLAIM = Claim(
    id="G-18",
    kind=Kind.ORDER,
    paper="CGM",
    figures="fig. 18",
    title="estimates from weekly polls of real histories",
    says=(
        "Of 720 000 pages visited daily for four months those are kept that changed at least 3 "
        "times and less than once in three days.  From weekly visits the improved estimator comes "
        "closer to the rate seen daily on 83 % of them, with a bias of 15 % against 35 %."
    ),
    tolerance=(
        "On each set of histories: the improved estimate is closer on more than half of the pages, "
        "and its mean bias is smaller in size."
    ),
    measure=measure,
    judge=judge,
    draw=draw,
    captions={
        "": (
            "Estimates from weekly visits over the rate seen by daily ones, four months of each "
            "page, for files of git repositories, terms of service on the web, and general web "
            "pages visited hourly (where hours stand for days).  Below right, on how many pages "
            "the improved estimate is closer, by how often they change; dashed, simulated pages "
            "that are Poisson exactly."
        )
    },
    remark=(
        "The bias is smaller on all three sets, and on general web pages both numbers "
        "({improved_bias}, {naive_bias}) are near the paper's in size.  Settled after a first "
        "look: the sets beside git histories, with hours for days on general web pages, and the "
        "Poisson pages."
    ),
    said=said,
    fails_because=(
        "On files of git repositories the improved estimate is closer on {closer} of pages only.  "
        "{few} of those that qualify changed only 3 to 5 times in four months.  Weekly visits then "
        "miss few changes, and where they miss none X/T is the projected rate exactly, while the "
        "improved estimate allows for some and is a little above: pages that are Poisson exactly "
        "show the same.  Where pages change {lively} times per visit or more the improved estimate "
        "is mostly closer, but for some that change like clockwork, once a week.  The measure asks "
        "for the changes that happened, not for the rate behind them."
    ),
    failing=(f"{GIT}: pages on which the improved one is closer",),
    needs=(TRACES, OTA, CACHE),
)
