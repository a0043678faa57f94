"""Compare the learned quality of signal sources with the truth of simulated sites.

Each host has one source of known precision and recall, and a shard learns both while it spends a
budget.  In a second part sources start to lie: from some instant on they announce no change, and
send as many signals as before.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from recrawl.core.arrays import CountArray, FloatArray, RowArray
from recrawl.shard import ShardSettings, learned_quality
from recrawl.shard.state.trust import precision_of
from recrawl.sim import FetchOutcomes, KnownPages, SignalSource, Web, make_web, simulate
from recrawl.sim.policies.shard_policy import SOURCES_PER_GROUP, ShardPolicy, unlimited_settings

__all__ = ["JudgedSignals", "count_until_halved", "measure", "quality_errors", "quality_web"]

_HOUR = 3_600.0
_DAY = 86_400.0
_PAGES_PER_HOST = 25
# Sources with fewer judged signals must cover the truth with their interval.
_MANY_JUDGED = 250
_ERROR_MAX = 0.05
_JUDGED_MAX = 20
_PRECISIONS = (0.5, 0.7, 0.9)


class _Truth(NamedTuple):
    """A web, and the quality of the source of each host."""

    web: Web
    precision: FloatArray
    recall: FloatArray


def quality_web(
    seed: int, n_hosts: int, *, days: float, precision: FloatArray, recall: FloatArray
) -> Web:
    """Make hosts of 25 pages with log-normal rates, and a source of given quality on each.

    Parameters
    ----------
    seed
        Random seed.
    n_hosts
        Number of hosts.
    days
        Length of the simulation.
    precision, recall
        Quality of the source of each host.
    """
    rng = np.random.default_rng(seed)
    n_pages = n_hosts * _PAGES_PER_HOST
    # A host with few changes has few signals, and is judged by its interval.
    of_host = np.exp(rng.normal(np.log(0.05), 0.8, n_hosts))
    group = np.repeat(np.arange(n_hosts), _PAGES_PER_HOST)
    rate = of_host[group] * np.exp(rng.normal(0.0, 1.0, n_pages)) / _DAY
    source = SignalSource.with_precision(
        change_rate=rate, recall=recall[group], precision=precision[group]
    )
    return make_web(seed, days * _DAY, rate, group=group, sources=[source])


class JudgedSignals(ShardPolicy):
    """A shard as a policy, which counts the signals that fetches have judged, of each host."""

    def start(self, pages: KnownPages, at: float) -> None:
        """Add all pages to a new shard."""
        super().start(pages, at)
        self._waiting = np.zeros(pages.group.size, np.int64)
        self.n_judged = np.zeros(int(pages.group.max()) + 1, np.int64)

    def on_signals(
        self, at: FloatArray, page: RowArray, source: CountArray, claimed_at: FloatArray
    ) -> None:
        """Send signals to the shard."""
        np.add.at(self._waiting, page, 1)
        super().on_signals(at, page, source, claimed_at)

    def learn(self, at: FloatArray, page: RowArray, outcomes: FetchOutcomes) -> None:
        """Report outcomes, and count the signals that they judge."""
        super().learn(at, page, outcomes)
        np.add.at(self.n_judged, self._group[page], self._waiting[page])
        self._waiting[page] = 0

    def precision(self, host: int) -> float:
        """Return the learned precision of a host's source."""
        shard = self.shard
        return float(precision_of(shard.tables.sources, host * SOURCES_PER_GROUP, shard.rules))


def _draw_truth(seed: int, n_hosts: int, days: float) -> _Truth:
    rng = np.random.default_rng([seed, 1])
    precision, recall = rng.uniform(0.1, 0.95, n_hosts), rng.uniform(0.2, 0.95, n_hosts)
    web = quality_web(seed, n_hosts, days=days, precision=precision, recall=recall)
    return _Truth(web, precision, recall)


def quality_errors(
    seed: int,
    n_hosts: int,
    *,
    days: float,
    per_page_day: float,
    settings: ShardSettings | None = None,
) -> dict[str, Any]:
    """Return columns of what a shard learned about each source: truth, estimate and interval."""
    truth = _draw_truth(seed, n_hosts, days)
    policy = JudgedSignals(unlimited_settings(settings))
    budget = per_page_day * truth.web.n_pages / _DAY
    simulate(truth.web, policy, budget, n_per_pick=max(truth.web.n_pages // 50, 1))
    learned = learned_quality(policy.shard.tables, policy.shard.rules)
    of_source = {int(source): row for row, source in enumerate(learned.source)}
    hosts = [host for host in range(n_hosts) if host * SOURCES_PER_GROUP in of_source]
    rows = np.array([of_source[host * SOURCES_PER_GROUP] for host in hosts], np.int64)
    found: dict[str, Any] = {"n_judged": policy.n_judged[hosts]}
    for name, of_host in (("precision", truth.precision), ("recall", truth.recall)):
        belief = getattr(learned, name)
        found[name] = of_host[hosts]
        found[f"learned_{name}"] = belief.mean[rows]
        found[f"{name}_low"], found[f"{name}_high"] = belief.low[rows], belief.high[rows]
    return found


def _summary(found: list[dict[str, Any]], name: str) -> dict[str, Any]:
    columns = {key: np.concatenate([each[key] for each in found]) for key in found[0]}
    error = np.abs(columns[f"learned_{name}"] - columns[name])
    is_many = columns["n_judged"] >= _MANY_JUDGED
    is_few = (columns["n_judged"] >= 1) & ~is_many
    is_covered = (columns[f"{name}_low"] <= columns[name]) & (
        columns[name] <= columns[f"{name}_high"]
    )
    return {
        "sources_with_many": int(is_many.sum()),
        "within_0.05": _share(error[is_many] <= _ERROR_MAX),
        "mean_error": round(float((columns[f"learned_{name}"] - columns[name])[is_many].mean()), 4),
        "root_mean_square_error": round(float(np.sqrt((error[is_many] ** 2).mean())), 4),
        "covered_of_many": _share(is_covered[is_many]),
        "sources_with_few": int(is_few.sum()),
        "covered_of_few": _share(is_covered[is_few]),
    }


def _share(flags: Any) -> float:
    return round(float(np.mean(flags)), 3) if flags.size else math.nan


class _UntilHalved(JudgedSignals):
    """Notes for each host after how many judged lies its precision is half of what it was."""

    def __init__(self, settings: ShardSettings, lies_from: float) -> None:
        super().__init__(settings)
        self._lies_from = lies_from
        self._before: FloatArray | None = None

    def learn(self, at: FloatArray, page: RowArray, outcomes: FetchOutcomes) -> None:
        """Report outcomes one by one while sources lie, and look at the precisions."""
        if at[-1] < self._lies_from:
            super().learn(at, page, outcomes)
            return
        if self._before is None:
            n_hosts = self.n_judged.size
            self._before = np.array([self.precision(host) for host in range(n_hosts)])
            self._judged_before = self.n_judged.copy()
            self.n_until_halved = np.full(n_hosts, np.inf)
        for row in range(page.size):
            rows = slice(row, row + 1)
            one = FetchOutcomes._make(column[rows] for column in outcomes)
            super().learn(at[rows], page[rows], one)
            host = int(self._group[page[row]])
            is_halved = self.precision(host) <= 0.5 * self._before[host]
            if is_halved and math.isinf(self.n_until_halved[host]):
                n = self.n_judged[host] - self._judged_before[host]
                self.n_until_halved[host] = n


def count_until_halved(
    seed: int,
    n_hosts: int,
    precision: float,
    *,
    days: float,
    per_page_day: float,
    settings: ShardSettings | None = None,
) -> FloatArray:
    """Return after how many judged lies the precision of each source was halved; inf for never.

    Half of the time sources are as precise as given, and announce 80 % of all changes.  Then they
    send as many signals, none because of a change.
    """
    honest = quality_web(
        seed,
        n_hosts,
        days=days,
        precision=np.full(n_hosts, precision),
        recall=np.full(n_hosts, 0.8),
    )
    # A signal that arrives somewhere else in the second half has nothing to do with its change.
    half = 0.5 * days * _DAY
    signals = honest.signals
    is_lie = signals.at >= half
    rng = np.random.default_rng([seed, 2])
    at = np.where(is_lie, rng.uniform(half, 2 * half, is_lie.size), signals.at)
    order = np.lexsort((at, signals.pages()))
    web = honest._replace(signals=signals._replace(at=at[order], claimed_at=at[order]))
    policy = _UntilHalved(unlimited_settings(settings), half)
    simulate(web, policy, per_page_day * web.n_pages / _DAY, n_per_pick=max(web.n_pages // 50, 1))
    return np.asarray(policy.n_until_halved, np.float64)


def measure(
    n_webs: int = 6,
    n_hosts: int = 40,
    *,
    days: float = 400.0,
    budgets: Sequence[float] = (0.1, 0.4),
    settings: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Compare learned precision and recall with the truth, and count lies until weights halve.

    Parameters
    ----------
    n_webs
        Number of simulated webs per budget.
    n_hosts
        Number of hosts per web, each with a source of its own.
    days
        Length of a simulation.
    budgets
        Fetches per page and day.
    settings
        Settings of the shard that differ from the defaults.
    """
    chosen = ShardSettings(**(settings or {}))
    result: dict[str, Any] = {"n_webs": n_webs, "n_hosts": n_hosts, "days": days}
    for budget in budgets:
        found = [
            quality_errors(seed, n_hosts, days=days, per_page_day=budget, settings=chosen)
            for seed in range(n_webs)
        ]
        quality = {name: _summary(found, name) for name in ("precision", "recall")}
        lies = {}
        for precision in _PRECISIONS:
            counts = np.concatenate(
                [
                    count_until_halved(
                        seed, n_hosts, precision, days=days, per_page_day=budget, settings=chosen
                    )
                    for seed in range(n_webs)
                ]
            )
            lies[str(precision)] = {
                "sources": counts.size,
                "median": float(np.median(counts)),
                "90th percentile": float(np.quantile(counts, 0.9, method="higher")),
                "within_20": _share(counts <= _JUDGED_MAX),
            }
        result[f"{budget:g} fetches per page and day"] = {
            **quality,
            "judged_lies_until_halved": lies,
        }
    return result
