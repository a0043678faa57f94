"""The experiment behind Signals' figures 2 to 4: many webs, one budget, every greedy policy."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from lab.drawing import colour_of
from lab.greedy import Rule, Told, even_instants, low_discrepancy, run_greedy, run_schedule
from lab.paired import Difference, paired
from lab.tables import Table
from recrawl.core.signal_quality import from_recall
from recrawl.papers.price import continuous_optimum
from recrawl.sim import SignalSource, Web, make_web, signals_paper_web

__all__ = [
    "LDS",
    "OPTIMUM",
    "OPTIMUM_WITH_SIGNALS",
    "Experiment",
    "accuracies",
    "difference",
    "draw_accuracies",
    "name_of",
    "without_false_signals",
]

OPTIMUM = "optimum, no signals"
OPTIMUM_WITH_SIGNALS = "optimum, with signals"
LDS = "LDS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Settings of Signals §6.2 to §6.4, in its own unit of time.

    Parameters
    ----------
    n_pages, n_webs
        Sizes of webs, and how many of each.
    fetch_rate, horizon, burn_in_share
        Fetches per unit of time, how long, and the share at the start that is not counted.
    """

    n_pages: tuple[int, ...]
    n_webs: tuple[int, ...]
    fetch_rate: float = 100.0
    horizon: float = 1_000.0
    burn_in_share: float = 0.3


def name_of(rule: Rule) -> str:
    """Return the name of a policy in the paper."""
    return {
        Rule.GREEDY: "GREEDY",
        Rule.CIS: "GREEDY-CIS",
        Rule.CIS_PLUS: "GREEDY-CIS+",
        Rule.NCIS: "GREEDY-NCIS",
        Rule.APPROX_1: "approx-1",
        Rule.APPROX_2: "approx-2",
    }[rule]


def without_false_signals(web: Web) -> Web:
    """Return the same pages and changes, of which the same are announced, and nothing else."""
    source = SignalSource(recall=web.recall[:, 0], false_rate=0.0)
    return make_web(
        web.seed,
        web.horizon,
        web.change_rate,
        importance=web.importance,
        sources=[source],
        changes=web.changes,
    )


def accuracies(
    experiment: Experiment,
    rules: Sequence[Rule],
    *,
    is_noisy: bool = True,
    has_lds: bool = False,
    has_optimum_with_signals: bool = True,
) -> Table:
    """Return the accuracy of each policy on each web, and the optima beside it."""
    fetch_at = even_instants(experiment.fetch_rate, experiment.horizon)
    edges = np.array([experiment.burn_in_share, 1.0]) * experiment.horizon
    rows: list[dict[str, str | float | int]] = []
    for m, n_webs in zip(experiment.n_pages, experiment.n_webs, strict=True):
        for seed in range(n_webs):
            web = signals_paper_web(seed, m, horizon=experiment.horizon)
            if not is_noisy:
                web = without_false_signals(web)
            told = Told.truth(web)
            silent = from_recall(told.change_rate, 0.0, 0.0)
            best = continuous_optimum(silent, experiment.fetch_rate, importance=web.importance)
            found = {OPTIMUM: best.weighted_freshness}
            if has_optimum_with_signals:
                signalled = from_recall(told.change_rate, told.recall, told.false_rate)
                found[OPTIMUM_WITH_SIGNALS] = continuous_optimum(
                    signalled, experiment.fetch_rate, importance=web.importance
                ).weighted_freshness
            if has_lds:
                schedule = low_discrepancy(best.fetch_rate, fetch_at.size, seed=seed)
                found[LDS] = float(run_schedule(web, schedule, fetch_at, edges=edges).accuracy[0])
            for rule in rules:
                run = run_greedy(web, rule, fetch_at, edges=edges)
                found[name_of(rule)] = float(run.accuracy[0])
            rows += [
                {"m": m, "web": seed, "policy": policy, "accuracy": accuracy}
                for policy, accuracy in found.items()
            ]
    return Table.of(rows)


def _accuracy(table: Table, m: int, policy: str) -> NDArray[np.float64]:
    return table.where(m=m, policy=policy).floats("accuracy")


def difference(table: Table, m: int, policy: str, other: str = OPTIMUM) -> Difference:
    """Return how much more accurate one policy is than another on the same webs."""
    return paired(_accuracy(table, m, policy), _accuracy(table, m, other))


def draw_accuracies(
    axes: Axes, table: Table, policies: Sequence[str], *, main: str, relative: bool = False
) -> None:
    """Draw accuracy against the number of pages; ``relative``: less that of the optimum."""
    sizes = [int(m) for m in table.distinct("m")]
    rivals = [policy for policy in policies if not policy.startswith("optimum")]
    for policy in policies:
        means, errors = [], []
        for m in sizes:
            accuracy = _accuracy(table, m, policy)
            found = difference(table, m, policy) if relative else paired(accuracy)
            means.append(found.mean)
            errors.append(2 * found.standard_error)
        is_optimum = policy.startswith("optimum")
        axes.errorbar(
            sizes,
            means,
            yerr=None if is_optimum and not relative else errors,
            label=policy,
            color="black" if is_optimum else colour_of(policy, rivals, main),
            linestyle=(":" if policy == OPTIMUM else "--") if is_optimum else "-",
            marker="" if is_optimum else "o",
            capsize=2,
            zorder=3 if policy == main else 2,
        )
    axes.set_xscale("log")
    axes.set_xticks(sizes, [f"{m:,}" for m in sizes], rotation=60 if len(sizes) > 5 else 0)
    axes.minorticks_off()
    axes.set_xlabel("pages (100 fetches per unit of time)")
