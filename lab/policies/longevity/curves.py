"""Staleness against refresh cost: one line per policy, compared at equal cost, with intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lab.policies.longevity.policies import (
    OFFLINE,
    Spent,
    fetched_above,
    fetched_evenly,
    spent_of,
    thresholds_of,
)
from lab.policies.longevity.snapshots import Snapshots
from lab.tables import Table
from lab.text_histories import Floats

__all__ = [
    "CostCurve",
    "compared_rows",
    "cost_ratio_rows",
    "curve_rows",
    "draws_of_clusters",
    "offline_curves",
    "points_of",
    "uniform_curve",
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CostCurve:
    """What a policy achieves at each of its thresholds, by cluster.

    Parameters
    ----------
    threshold
        Whatever sets how much the policy spends.
    spent
        At each threshold.
    """

    threshold: Floats
    spent: Sequence[Spent]

    def lines(self, weight: Floats, *, of_pages: bool = False) -> tuple[Floats, Floats]:
        """Return cost and staleness, by rows of weights of clusters and by threshold.

        Parameters
        ----------
        weight
            How often each cluster counts.  [draw, cluster]
        of_pages
            The share of time that pages are stale, instead of their fragments.
        """

        def sums(name: str) -> Floats:
            column = np.stack([getattr(spent, name) for spent in self.spent], axis=1)
            return np.asarray(weight @ column)

        missed = sums("stale_time" if of_pages else "fragment_staleness")
        return sums("n_fetches") / sums("n_chances"), missed / sums("n_intervals")

    def staleness_at(self, cost: Floats, weight: Floats, *, of_pages: bool = False) -> Floats:
        """Return the staleness at given costs, on straight lines between thresholds.

        A point between two thresholds is reached by applying each to a part of the pages.  What
        a policy has no use for it leaves unspent; where it cannot spend so little it is nan.
        """
        costs, missed = self.lines(weight, of_pages=of_pages)
        out = np.empty((costs.shape[0], cost.size))
        for draw in range(costs.shape[0]):
            order = np.argsort(costs[draw], kind="stable")
            out[draw] = np.interp(cost, costs[draw][order], missed[draw][order], left=np.nan)
        return out

    def cost_at(self, staleness: Floats, weight: Floats) -> Floats:
        """Return the least cost at which the fragment staleness is as small; nan if none is."""
        costs, missed = self.lines(weight)
        out = np.full((costs.shape[0], staleness.size), np.nan)
        for draw in range(costs.shape[0]):
            order = np.argsort(costs[draw], kind="stable")
            x, y = costs[draw][order], missed[draw][order]
            for k, wanted in enumerate(staleness):
                reached = np.flatnonzero(y <= wanted)
                if reached.size == 0:
                    continue
                i = int(reached[0])
                if i == 0:
                    out[draw, k] = x[0]
                else:
                    share = (y[i - 1] - wanted) / (y[i - 1] - y[i])
                    out[draw, k] = x[i - 1] + share * (x[i] - x[i - 1])
        return out


def draws_of_clusters(n_clusters: int, n_draws: int, seed: int = 0) -> Floats:
    """Return how often each cluster is drawn, with replacement; the first row is all of them."""
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(n_clusters, np.full(n_clusters, 1 / n_clusters), n_draws)
    return np.concatenate([np.ones((1, n_clusters)), drawn])


def offline_curves(
    snapshots: Snapshots,
    names: Sequence[str],
    *,
    n_thresholds: int,
    first: int = 0,
    last: int = 0,
) -> dict[str, CostCurve]:
    """Return the lines of offline policies, accounted for over a part of the snapshots."""
    curves = {}
    for name in names:
        value = OFFLINE[name](snapshots)
        threshold = np.append(thresholds_of(value, n_thresholds), np.inf)
        spent = [
            spent_of(snapshots, fetched_above(value, limit), first=first, last=last)
            for limit in threshold
        ]
        curves[name] = CostCurve(threshold=threshold, spent=spent)
    return curves


def uniform_curve(
    snapshots: Snapshots,
    *,
    n_shares: int,
    first: int = 0,
    last: int = 0,
    skips_static: bool = True,
) -> CostCurve:
    """Return the line of fetching all pages equally often, or all that are not static."""
    share = np.linspace(0.0, 1.0, n_shares)
    followed = ~snapshots.is_static if skips_static else np.ones(snapshots.n_windows, np.bool_)
    spent = [
        spent_of(
            snapshots, fetched_evenly(s, snapshots.n_snapshots, followed), first=first, last=last
        )
        for s in share
    ]
    return CostCurve(threshold=share, spent=spent)


def curve_rows(corpus: str, curves: Mapping[str, CostCurve]) -> list[dict[str, str | float]]:
    """Return the points of all lines, for a table."""
    rows: list[dict[str, str | float]] = []
    for name, curve in curves.items():
        weight = np.ones((1, curve.spent[0].n_fetches.size))
        cost, missed = curve.lines(weight)
        stale = curve.lines(weight, of_pages=True)[1]
        for k, threshold in enumerate(curve.threshold):
            rows.append(
                {
                    "corpus": corpus,
                    "policy": name,
                    "threshold": float(threshold),
                    "refresh_cost": float(cost[0, k]),
                    "fragment_staleness": float(missed[0, k]),
                    "stale_pages": float(stale[0, k]),
                }
            )
    return rows


def compared_rows(
    corpus: str,
    curves: Mapping[str, CostCurve],
    pairs: Sequence[tuple[str, str]],
    costs: Floats,
    *,
    n_draws: int,
    of_pages: bool = False,
    has_ratio: bool = False,
) -> list[dict[str, str | float]]:
    """Return by how much the first of each pair is staler than the second, at equal costs.

    Differences are in points of fragment staleness, or of the share of stale pages, with a 95 %
    interval over clusters; with ``has_ratio`` the ratio of the two stands beside, with its own.
    """
    weight = draws_of_clusters(_n_clusters(curves), n_draws)
    lines = {
        name: curve.staleness_at(costs, weight, of_pages=of_pages) for name, curve in curves.items()
    }
    rows: list[dict[str, str | float]] = []
    for one, other in pairs:
        difference = lines[one] - lines[other]
        for k, cost in enumerate(costs):
            rows.append(
                {
                    "corpus": corpus,
                    "metric": "pages" if of_pages else "fragments",
                    "policy": one,
                    "rival": other,
                    "refresh_cost": float(cost),
                    "staleness": float(lines[one][0, k]),
                    "rival_staleness": float(lines[other][0, k]),
                    **_interval(difference[:, k]),
                    **(_ratio(lines[one][:, k], lines[other][:, k]) if has_ratio else {}),
                }
            )
    return rows


def _ratio(one: Floats, other: Floats) -> dict[str, float]:
    found = _interval(one / other, name="ratio")
    return {"ratio": found["ratio"], "ratio_low": found["low"], "ratio_high": found["high"]}


def cost_ratio_rows(
    corpus: str,
    curves: Mapping[str, CostCurve],
    policy: str,
    rival: str,
    rival_costs: Floats,
    *,
    n_draws: int,
) -> list[dict[str, str | float]]:
    """Return which share of the rival's refreshes a policy needs for the rival's staleness.

    With it stands the share of draws in which no number of refreshes is enough.
    """
    weight = draws_of_clusters(_n_clusters(curves), n_draws)
    wanted = curves[rival].staleness_at(rival_costs, weight)
    rows: list[dict[str, str | float]] = []
    for k, cost in enumerate(rival_costs):
        needed = np.array(
            [
                curves[policy].cost_at(wanted[draw, k : k + 1], weight[draw : draw + 1])[0, 0]
                for draw in range(weight.shape[0])
            ]
        )
        # Where the policy never gets there, no number of refreshes is enough.
        needed[np.isnan(needed) & np.isfinite(wanted[:, k])] = np.inf
        rows.append(
            {
                "corpus": corpus,
                "policy": policy,
                "rival": rival,
                "rival_cost": float(cost),
                "rival_staleness": float(wanted[0, k]),
                "cost": float(needed[0]),
                **_interval(needed / cost, name="ratio"),
                "never_reached": float(np.isinf(needed[1:]).mean()),
            }
        )
    return rows


def _n_clusters(curves: Mapping[str, CostCurve]) -> int:
    return next(iter(curves.values())).spent[0].n_fetches.size


def _interval(draws: Floats, *, name: str = "difference") -> dict[str, float]:
    known = draws[1:][~np.isnan(draws[1:])]
    if known.size == 0:
        return {name: float(draws[0]), "low": np.nan, "high": np.nan}
    # Draws as they are, for there is nothing between a number and infinity.
    low = np.quantile(known, 0.025, method="lower")
    high = np.quantile(known, 0.975, method="higher")
    return {name: float(draws[0]), "low": float(low), "high": float(high)}


def points_of(table: Table, corpus: str, policy: str) -> tuple[Floats, Floats]:
    """Return cost and staleness of a line, in order of cost, from its table."""
    line = table.where(corpus=corpus, policy=policy)
    cost, missed = line.floats("refresh_cost"), line.floats("fragment_staleness")
    order = np.argsort(cost, kind="stable")
    return cost[order], missed[order]
