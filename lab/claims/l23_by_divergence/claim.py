"""Whether fetching the copies that diverge most is worse than fetching all alike."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from lab.claim import Check, Claim, Figures, Kind, Scale, Tables
from lab.drawing import panels
from lab.policies.longevity.corpora import (
    LIVELY,
    RECORDED,
    SIMULATED,
    Corpus,
    lively,
    real_snapshots,
    simulated_snapshots,
)
from lab.policies.longevity.curves import (
    compared_rows,
    curve_rows,
    offline_curves,
    uniform_curve,
)
from lab.policies.longevity.policies import fetched_above, static_divergence, thresholds_of
from lab.policies.longevity.report import draw_lines, is_ahead, thousandths
from lab.policies.longevity.snapshots import Snapshots
from lab.tables import Table
from lab.text_histories import TEXT_HISTORIES

__all__ = ["CLAIM"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Of a run."""

    corpus: Corpus
    costs: tuple[float, ...] = (0.02, 0.05, 0.1, 0.2)
    n_thresholds: int = 30
    n_draws: int = 1000


SETTINGS = {
    Scale.QUICK: Settings(
        corpus=Corpus(n_windows_max=2, n_simulated=300), n_thresholds=16, n_draws=300
    ),
    Scale.FULL: Settings(corpus=Corpus(n_windows_max=2, n_simulated=1200)),
}
# So few changes in a window are few.
RARE_CHANGES = 2
POLICIES = ("FS-S", "D, static", "FS-D", "D, dynamic", "uniform")


def measure(scale: Scale) -> Tables:
    """Run both kinds of values, and uniform refreshing."""
    settings = SETTINGS[scale]
    points, compared = [], []
    recorded = real_snapshots(settings.corpus)
    pairs = [(one, other) for one, other in zip(POLICIES[:-1:2], POLICIES[1::2], strict=True)]
    pairs += [("uniform", "D, static"), ("uniform", "D, dynamic")]
    for name, snapshots in (
        (RECORDED, recorded),
        (LIVELY, lively(recorded)),
        (SIMULATED, simulated_snapshots(0, settings.corpus)),
    ):
        curves = offline_curves(snapshots, POLICIES[:-1], n_thresholds=settings.n_thresholds)
        curves["uniform"] = uniform_curve(snapshots, n_shares=41)
        points += curve_rows(name, curves)
        compared += compared_rows(
            name, curves, pairs, np.array(settings.costs), n_draws=settings.n_draws
        )
    return {
        "curves": Table.of(points),
        "compared": Table.of(compared),
        "rare": Table.of(_rare_rows(recorded, settings)),
    }


def _rare_rows(snapshots: Snapshots, settings: Settings) -> Iterator[dict[str, float]]:
    """Yield what is spent on pages that changed once or twice, of those that changed at all.

    A threshold on the mean divergence spends some share on them; uniform refreshing as large a
    share as theirs of the pages.
    """
    n_changes = np.rint(snapshots.change_share * (snapshots.n_snapshots - 1))
    is_rare = (n_changes > 0) & (n_changes <= RARE_CHANGES)
    value = static_divergence(snapshots)
    fetches = np.array(
        [
            fetched_above(value, limit)[:, 1:].mean(axis=1)
            for limit in (*thresholds_of(value, settings.n_thresholds), np.inf)
        ]
    )
    cost, on_rare = fetches.mean(axis=1), (fetches * is_rare).mean(axis=1)
    order = np.argsort(cost, kind="stable")
    for at in settings.costs:
        yield {
            "refresh_cost": at,
            "of_pages": float(is_rare.sum() / (n_changes > 0).sum()),
            "of_fetches_by_d": float(np.interp(at, cost[order], on_rare[order]) / at),
        }


def judge(tables: Tables) -> tuple[Check, ...]:
    """Compare policies at equal cost."""
    return tuple(_checks(tables["compared"]))


def _checks(table: Table) -> Iterator[Check]:
    for corpus in (RECORDED, LIVELY, SIMULATED):
        what = f"by U less stale than by D, {corpus}"
        yield is_ahead(table, what, is_sure=False, corpus=corpus, policy="FS-S", rival="D, static")
        what = f"uniform less stale than by D, {corpus}"
        yield is_ahead(
            table, what, is_sure=False, corpus=corpus, policy="uniform", rival="D, static"
        )


def draw(tables: Tables) -> Figures:
    """Draw staleness against cost on all corpora."""
    figure, axes = panels(3, width=11.0)
    for panel, corpus in zip(axes, (RECORDED, LIVELY, SIMULATED), strict=True):
        draw_lines(panel, tables["curves"], corpus, POLICIES, main="FS-S", cost_max=0.4)
        panel.set_title(corpus)
    axes[1].legend(loc="upper right")
    return {"": figure}


def said(tables: Tables) -> Mapping[str, str]:
    """Return the numbers in the texts."""
    rows = tables["compared"].where(corpus=RECORDED, policy="uniform", rival="D, static")
    by_cost = dict(zip(rows.floats("refresh_cost"), rows.floats("difference"), strict=True))
    rare = tables["rare"]
    by_d = rare.floats("of_fetches_by_d")
    return {
        "staler": thousandths([-by_cost[0.02], -by_cost[0.05]]),
        "less_stale": thousandths([by_cost[0.1], by_cost[0.2]]),
        "rare": f"{100 * rare.floats('of_pages')[0]:.0f} %",
        "by_d": f"{100 * by_d.min():.1g} to {100 * by_d.max():.0f} %",
    }


CLAIM = Claim(
    id="L-2.3",
    kind=Kind.ORDER,
    paper="Longevity",
    figures="§2.3",
    title="scheduling by divergence is worse than uniform",
    says=(
        "Fetching by U(t) = D(t) instead of t D(t) - ∫D gives significantly more staleness at "
        "equal refresh cost; it is even worse than uniform refreshing."
    ),
    tolerance=(
        "With the mean divergence curve of each page as D, at refresh costs of .02, .05, .1 and "
        ".2: by D staler than by U, and staler than uniform refreshing of the pages that change, "
        "at each cost and in each corpus.  Intervals are shown, not judged."
    ),
    measure=measure,
    judge=judge,
    draw=draw,
    captions={
        "": (
            "Fetching by U (FS-S, FS-D) and by D, with mean curves (static) and the curve since "
            "the last fetch (dynamic).  The paper has no figure of it and does not say which "
            "curve it used.  Lively: at least a tenth of the snapshots differs from the one "
            "before."
        )
    },
    fails_because=(
        "By D is staler than by U everywhere, and staler than uniform on simulated pages and on "
        "lively recorded ones.  On all recorded pages it is staler than uniform at costs of .02 "
        "and .05 only (by {staler} thousandths, with intervals that reach beyond 0), and less "
        "stale at .1 and .2 (by {less_stale} thousandths).  Of the recorded pages that change at "
        "all, {rare} do so at one or two of 30 snapshots; uniform refreshing spends as large a "
        "share on them, a threshold on D {by_d}."
    ),
    failing=(f"uniform less stale than by D, {RECORDED}",),
    said=said,
    needs=(TEXT_HISTORIES,),
)
