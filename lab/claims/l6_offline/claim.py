"""Whether policies that know fragments beat policies that know changes, all told the truth."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lab.claim import Check, Claim, Figures, Kind, Scale, Tables
from lab.drawing import panels
from lab.policies.longevity.corpora import (
    RECORDED,
    SIMULATED,
    Corpus,
    real_snapshots,
    simulated_snapshots,
)
from lab.policies.longevity.curves import (
    compared_rows,
    curve_rows,
    offline_curves,
    uniform_curve,
)
from lab.policies.longevity.report import draw_lines, is_ahead
from lab.tables import Table
from lab.text_histories import TEXT_HISTORIES

__all__ = ["CLAIM"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Of a run."""

    corpus: Corpus
    costs: tuple[float, ...] = (0.03, 0.05, 0.1)
    n_thresholds: int = 30
    n_draws: int = 1000


SETTINGS = {
    Scale.QUICK: Settings(
        corpus=Corpus(n_windows_max=2, n_simulated=800), n_thresholds=16, n_draws=300
    ),
    Scale.FULL: Settings(corpus=Corpus(n_windows_max=2, n_simulated=1200)),
}
POLICIES = ("FS-D", "FS-S", "HS-D", "HS-S", "uniform")
AHEAD = (("FS-S", "HS-S"), ("FS-D", "HS-D"), ("FS-D", "FS-S"), ("FS-S", "uniform"))


def measure(scale: Scale) -> Tables:
    """Run all policies over their thresholds on both corpora."""
    settings = SETTINGS[scale]
    costs = np.array(settings.costs)
    points, compared = [], []
    for name, snapshots in (
        (RECORDED, real_snapshots(settings.corpus)),
        (SIMULATED, simulated_snapshots(0, settings.corpus)),
    ):
        curves = offline_curves(snapshots, POLICIES[:-1], n_thresholds=settings.n_thresholds)
        curves["uniform"] = uniform_curve(snapshots, n_shares=21)
        points += curve_rows(name, curves)
        compared += compared_rows(name, curves, AHEAD, costs, n_draws=settings.n_draws)
        holistic = [("HS-D", "FS-D")]
        compared += compared_rows(
            name, curves, holistic, costs, n_draws=settings.n_draws, of_pages=True
        )
    return {"curves": Table.of(points), "compared": Table.of(compared)}


def judge(tables: Tables) -> tuple[Check, ...]:
    """Compare policies at equal cost."""
    return tuple(_checks(tables["compared"]))


def _checks(table: Table) -> Iterator[Check]:
    for corpus in (RECORDED, SIMULATED):
        for policy, rival in AHEAD:
            what = f"{policy} is less stale than {rival}, {corpus}"
            yield is_ahead(
                table, what, corpus=corpus, metric="fragments", policy=policy, rival=rival
            )
        what = f"HS-D has fewer stale pages than FS-D, {corpus}"
        yield is_ahead(table, what, corpus=corpus, metric="pages", policy="HS-D", rival="FS-D")


def draw(tables: Tables) -> Figures:
    """Draw staleness against cost on both corpora."""
    figure, axes = panels(2, height=3.6)
    for panel, corpus, cost_max in zip(axes, (RECORDED, SIMULATED), (0.5, 0.6), strict=True):
        draw_lines(panel, tables["curves"], corpus, POLICIES, main="FS-D", cost_max=cost_max)
        panel.set_title(corpus)
    axes[0].legend(loc="upper right")
    return {"": figure}


CLAIM = Claim(
    id="L-6",
    kind=Kind.ORDER,
    paper="Longevity",
    figures="fig. 6",
    title="offline, policies for fragments beat policies for pages",
    says=(
        "30 snapshots of 10 000 pages, two days apart.  Told how each page changes, the policies "
        "for fragments (FS-S: mean divergence curves; FS-D: the curve since the last fetch) have "
        "less fragment staleness at equal refresh cost than those for whole pages (HS-S, HS-D); "
        "dynamic beats static by far, static beats uniform.  On stale pages it is the other way."
    ),
    tolerance=(
        "At refresh costs of .03, .05 and .1 the upper end of the 95 % interval of the difference "
        "(repositories resampled; simulated pages: pages) is below 0, for each pair and corpus.  "
        "(Dynamic policies fetch what has changed: beyond .15 they have no use for more.)"
    ),
    measure=measure,
    judge=judge,
    draw=draw,
    captions={
        "": (
            "Fragment staleness against refresh cost; 1 is every page at every snapshot.  Left: "
            "30 snapshots, two days apart, of recorded pages, two windows of a page at most; "
            "right: pages of the paper's model, two thirds of the changing ones churn and one "
            "third scrolls.  Between snapshots the paper interpolates; here every version is "
            "known, so that staleness does not fall below what happens between two snapshots."
        )
    },
    remark=(
        "The costs were settled after a first look at where the lines of the dynamic policies "
        "end; so was the spread of the simulated pages' change rates, of which the paper has none."
    ),
    needs=(TEXT_HISTORIES,),
)
