"""How many refreshes knowing fragments saves against the optimum for pages fresh or stale."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lab.claim import Check, Claim, Figures, Kind, Scale, Tables
from lab.drawing import panels
from lab.policies.longevity_corpora import (
    RECORDED,
    SIMULATED,
    Corpus,
    lively,
    real_snapshots,
    simulated_snapshots,
)
from lab.policies.longevity_curves import (
    CostCurve,
    cost_ratio_rows,
    curve_rows,
    uniform_curve,
)
from lab.policies.longevity_online import Bounds, ChangeRates, CurveFit, WarmUp
from lab.policies.longevity_report import draw_lines
from lab.policies.longevity_runs import online_schedules, shard_schedules
from lab.policies.longevity_snapshots import Snapshots
from lab.tables import Table
from lab.text_histories import TEXT_HISTORIES

__all__ = ["CLAIM"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Of a run; prices are in divergence times snapshots.

    ``rival_costs`` are the refresh costs of CGM at which the policies are compared, by corpus.
    """

    corpus: Corpus
    n_prices: int = 18
    price_min: float = 0.01
    price_max: float = 20.0
    first_period: float = 1.0
    shard_shares: tuple[float, ...] = (0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6)
    n_draws: int = 500


SETTINGS = {
    # Of the recorded pages all that the full scale has, or the verdict might not be the same.
    Scale.QUICK: Settings(
        corpus=Corpus(n_windows_max=2, n_simulated=60),
        n_prices=7,
        shard_shares=(0.1, 0.3),
        n_draws=100,
    ),
    Scale.FULL: Settings(corpus=Corpus(n_windows_max=2, n_simulated=1200)),
}
FIT, BOUNDS, CGM, SHARD, UNIFORM = "curve fit", "bounds", "CGM", "recrawl's shard", "uniform"
POLICIES = (FIT, BOUNDS, CGM, UNIFORM, SHARD)
LIVELY = "lively recorded pages"
RIVAL_COSTS = {
    RECORDED: (0.1, 0.15, 0.2),
    LIVELY: (0.2, 0.3, 0.4),
    SIMULATED: (0.2, 0.3, 0.4),
}


def measure(scale: Scale) -> Tables:
    """Run all policies after the same warm-up, and account for the time after it."""
    settings = SETTINGS[scale]
    recorded = real_snapshots(settings.corpus)
    points, ratios = [], []
    for name, snapshots in (
        (RECORDED, recorded),
        (LIVELY, lively(recorded)),
        (SIMULATED, simulated_snapshots(0, settings.corpus)),
    ):
        curves = _curves(snapshots, settings)
        points += curve_rows(name, curves)
        costs = np.array(RIVAL_COSTS[name])
        for policy in (FIT, BOUNDS, SHARD):
            ratios += cost_ratio_rows(name, curves, policy, CGM, costs, n_draws=settings.n_draws)
    return {"curves": Table.of(points), "ratios": Table.of(ratios)}


def _curves(snapshots: Snapshots, settings: Settings) -> dict[str, CostCurve]:
    prices = np.geomspace(settings.price_min, settings.price_max, settings.n_prices)
    half = snapshots.n_snapshots // 2
    warm_up = WarmUp(first_period=settings.first_period, until=half)
    runs = {
        FIT: online_schedules(
            snapshots, lambda: CurveFit(learning=np.inf), prices, warm_up=warm_up
        ),
        BOUNDS: online_schedules(snapshots, Bounds, prices, warm_up=warm_up),
        CGM: online_schedules(snapshots, ChangeRates, prices, warm_up=warm_up),
        SHARD: shard_schedules(snapshots, np.array(settings.shard_shares)),
    }
    # The last fetch of the warm-up is at the half, and costs whoever is judged nothing.
    curves = {name: schedules.curve(first=half + 1) for name, schedules in runs.items()}
    uniform = uniform_curve(snapshots, n_shares=21, first=half + 1, skips_static=False)
    return {**curves, UNIFORM: uniform}


def judge(tables: Tables) -> tuple[Check, ...]:
    """Compare the refreshes that both need for the same staleness."""
    return tuple(_checks(tables["ratios"]))


def _checks(table: Table) -> Iterator[Check]:
    for corpus in (RECORDED, LIVELY):
        rows = table.where(corpus=corpus, policy=FIT)
        ratio, high = rows.floats("ratio"), rows.floats("high")
        costs = ", ".join(f"{cost:g}" for cost in rows.floats("rival_cost"))
        yield Check(
            what=f"curve fit needs fewer refreshes than CGM for the same staleness, {corpus}",
            found=(
                ", ".join(f"{r:.2f}" for r in ratio)
                + " times as many (upper ends "
                + ", ".join(f"{r:.2f}" for r in high)
                + f") where CGM spends {costs}"
            ),
            wanted="upper ends below 1",
            holds=bool(ratio.size and np.all(high < 1) and np.all(ratio < 1)),
        )


def draw(tables: Tables) -> Figures:
    """Draw staleness against cost on all corpora."""
    figure, axes = panels(3, width=11.4, height=3.8)
    for panel, corpus in zip(axes, (RECORDED, LIVELY, SIMULATED), strict=True):
        draw_lines(
            panel,
            tables["curves"],
            corpus,
            POLICIES,
            main=SHARD,
            cost_max=0.6,
            dashed=(UNIFORM,),
        )
        panel.set_title(corpus)
    axes[2].legend(loc="upper right")
    return {"": figure}


CLAIM = Claim(
    id="L-11/12",
    kind=Kind.ORDER,
    paper="Longevity",
    figures="figs 11, 12",
    title="the staleness of CGM's optimum at fewer refreshes",
    says=(
        "After the same linearly growing warm-up, curve fit against the optimal policy for pages "
        "fresh or stale of Cho and Garcia-Molina with their estimates of change rates (CGM): "
        "little difference at low cost, the same moderate staleness at a cost of .2 instead of "
        ".4; on good pages and on random, more dynamic ones."
    ),
    tolerance=(
        "On recorded pages where CGM spends .1, .15 and .2 (what it can use there ends at .3), "
        "and on lively ones where it spends .2, .3 and .4: curve fit reaches CGM's fragment "
        "staleness with fewer refreshes, the upper end of the 95 % interval of the ratio "
        "(repositories resampled) below 1 at each."
    ),
    measure=measure,
    judge=judge,
    draw=draw,
    captions={
        "": (
            "Fragment staleness in the second half of 30 snapshots against refresh cost, after a "
            "warm-up with fetches at snapshots 1, 3, 6, 10 and 15.  Lively pages, of whose "
            "snapshots at least a tenth differs from the one before, stand for the paper's random "
            "set.  Simulated pages are not judged.  The shard had its budget from the start "
            "instead of these five refreshes, which are not counted."
        )
    },
    remark=(
        "The paper's .2 against .4 is a ratio of .5; here it is .60 to .66 on recorded pages and "
        ".66 to .75 on lively ones.  On simulated pages, most of which churn by a Poisson process "
        "as CGM supposes, the gain is small (.98 at .2, .93 at .3), and what CGM reaches at .4 "
        "curve fit never does.  The paper names no bound on the periods of either policy: one "
        "that takes a page for static never fetches it again, so that lines end before all "
        "changes are followed."
    ),
    fails_because=(
        "On recorded pages it holds where CGM spends .1 and .15, and on lively pages everywhere.  "
        "Where CGM spends .2 on recorded pages, curve fit needs .60 times as much, but 17 % of "
        "the draws of repositories have a staleness that it cannot reach at any cost, so "
        "that the upper end is infinite: pages that did not differ in five warm-up fetches are "
        "never fetched again."
    ),
    needs=(TEXT_HISTORIES,),
)
