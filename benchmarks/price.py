"""Compare 12 unequal shards with one price to a single shard, and time a change of the budget.

The shards are those that nodes use, and the quotas come from the agreement that workers use; the
pages and the messages between workers are simulated.
"""

from collections.abc import Mapping
from statistics import median
from typing import Any, Final

import numpy as np

from benchmarks import price_faults
from recrawl.cluster.budget.price import Agreement, split_budget
from recrawl.core.arrays import CountArray, FloatArray, RowArray
from recrawl.messages.budgets import Budget, Demand, QuotaInUse
from recrawl.node.shipped_due_table import shipped_due_table
from recrawl.shard import BudgetSet, event_of
from recrawl.sim import FetchOutcomes, KnownPages, Policy, Web, make_web, simulate
from recrawl.sim.policies.shard_policy import ShardPolicy, unlimited_settings

__all__ = ["EqualShares", "OnePrice", "measure", "unequal_web"]

_DAY: Final = 86_400.0
_N_SHARDS: Final = 12
_N_WORKERS: Final = 3
_N_HOSTS: Final = 20
_BURST_SECONDS: Final = 30 * _DAY
# Workers look at the split every half minute; computing demand so often would take hours here.
_AGREE_SECONDS: Final = 14_400.0


def unequal_web(seed: int, *, n_pages: int, days: float, is_alike: bool = False) -> Web:
    """Make a web of kinds of pages whose number, change rates and importance differ widely.

    Each kind is on 20 hosts, so that a single shard learns as much about it as one of its own.
    If the kinds are alike, only their numbers of pages differ.
    """
    rng = np.random.default_rng(seed)
    size = np.geomspace(1.0, 30.0, _N_SHARDS)
    size = np.maximum(np.rint(n_pages * size / size.sum()), 20).astype(np.int64)
    kind = np.repeat(np.arange(_N_SHARDS), size)
    group = _N_HOSTS * kind + np.arange(kind.size) % _N_HOSTS
    if is_alike:
        rate = 0.3 * np.exp(rng.normal(0.0, 1.8, kind.size))
        importance = np.exp(rng.normal(0.0, 1.0, kind.size))
    else:
        rate = rng.permutation(np.geomspace(0.03, 3.0, _N_SHARDS))[kind]
        rate *= np.exp(rng.normal(0.0, 1.2, kind.size))
        importance = rng.permutation(np.geomspace(0.2, 5.0, _N_SHARDS))[kind]
        importance *= np.exp(rng.normal(0.0, 1.0, kind.size))
    return make_web(seed, days * _DAY, rate / _DAY, importance=importance, group=group, kind=kind)


class EqualShares:
    """A policy of one shard for each kind of page, all with the same budget.

    Parameters
    ----------
    budget
        Fetches per second of all shards together.
    """

    def __init__(self, budget: float) -> None:
        self._budget = budget
        self.quota = np.full(_N_SHARDS, budget / _N_SHARDS)

    def start(self, pages: KnownPages, at: float) -> None:
        """Add the pages of each kind to a shard."""
        self._pages = [np.flatnonzero(pages.kind == i) for i in range(_N_SHARDS)]
        self._shard_of = pages.kind
        self._row = np.zeros(pages.kind.size, np.int64)
        self._credit = np.zeros(_N_SHARDS)
        self.shards = []
        for i, rows in enumerate(self._pages):
            self._row[rows] = np.arange(rows.size)
            policy = ShardPolicy(
                unlimited_settings(), budget=float(self.quota[i]), due_table=shipped_due_table()
            )
            policy.start(
                KnownPages(
                    pages.importance[rows],
                    pages.cost[rows],
                    pages.group[rows] % _N_HOSTS,
                    pages.kind[rows],
                    pages.has_copies,
                ),
                at,
            )
            self.shards.append(policy)

    def pick(self, at: float, n: int) -> RowArray:
        """Let each shard choose as many pages as its quota pays for."""
        self._credit += n * self.quota / self.quota.sum()
        count = np.maximum(np.floor(self._credit), 0).astype(np.int64)
        # What is left over goes to those that are nearest to another fetch.
        for i in np.argsort(count - self._credit)[: max(n - int(count.sum()), 0)]:
            count[i] += 1
        while count.sum() > n:
            count[int(np.argmax(count))] -= 1
        found = []
        for i, shard in enumerate(self.shards):
            picked = shard.pick(at, int(count[i])) if count[i] else np.empty(0, np.int64)
            found.append(self._pages[i][picked])
        self._credit -= count
        return np.concatenate(found)

    def on_signals(
        self, at: FloatArray, page: RowArray, source: CountArray, claimed_at: FloatArray
    ) -> None:
        """Ignore signals; this web has none."""

    def learn(self, at: FloatArray, page: RowArray, outcomes: FetchOutcomes) -> None:
        """Report outcomes to the shards of their pages."""
        shard = self._shard_of[page]
        for i in np.unique(shard).tolist():
            mine = np.flatnonzero(shard == i)
            part = FetchOutcomes._make(column[mine] for column in outcomes)
            self.shards[i].learn(at[mine], self._row[page[mine]], part)


class OnePrice(EqualShares):
    """A policy of one shard for each kind of page, whose owners agree on quotas."""

    def start(self, pages: KnownPages, at: float) -> None:
        """Add the pages, and begin with equal shares."""
        self.quota = np.full(_N_SHARDS, self._budget / _N_SHARDS)
        super().start(pages, at)
        budget = Budget(self._budget, 1.0, _BURST_SECONDS)
        self._agreed_at = -np.inf
        self._agreements = [Agreement(_N_SHARDS, budget) for _ in range(_N_WORKERS)]

    def pick(self, at: float, n: int) -> RowArray:
        """Let the owners of shards agree, and then each shard choose pages."""
        if at - self._agreed_at >= _AGREE_SECONDS:
            self._agreed_at = at
            for _ in range(3):
                self._agree(at)
        return super().pick(at, n)

    def _agree(self, at: float) -> None:
        for k, agreement in enumerate(self._agreements):
            for i, quota in agreement.quotas().items():
                if self.quota[i] != quota.per_second:
                    self._set_quota(i, quota.per_second)
            in_use = {
                i: QuotaInUse(1, float(self.quota[i])) for i in range(k, _N_SHARDS, _N_WORKERS)
            }
            for key, message in agreement.step(at, in_use, lambda k=k: self._demands(k)):  # type: ignore[misc]
                for other in self._agreements:
                    other.hear(key, message)

    def _set_quota(self, i: int, per_second: float) -> None:
        self.quota[i] = per_second
        event = event_of(
            BudgetSet,
            amount=per_second,
            period_seconds=1.0,
            burst_seconds=_BURST_SECONDS,
            unit=0,
            price_mode=0,
            price=0.0,
        )
        self.shards[i].shard.apply(event)

    def _demands(self, k: int) -> Mapping[int, Demand]:
        found = {}
        for i in range(k, _N_SHARDS, _N_WORKERS):
            shard = self.shards[i].shard
            price, spent = shard.demand_curve()
            found[i] = Demand(shard.n_pages, tuple(price.tolist()), tuple(spent.tolist()))
        return found


def _freshness(
    n_webs: int,
    n_pages: int,
    days: float,
    days_per_fetch: float,
    *,
    n_per_pick: int,
    is_alike: bool = False,
) -> list[dict[str, Any]]:
    rows = []
    for seed in range(n_webs):
        web = unequal_web(seed, n_pages=n_pages, days=days, is_alike=is_alike)
        budget = web.n_pages / days_per_fetch / _DAY
        policies: dict[str, Policy] = {
            "single": ShardPolicy(
                unlimited_settings(), budget=budget, due_table=shipped_due_table()
            ),
            "one_price": OnePrice(budget),
            "equal": EqualShares(budget),
        }
        row: dict[str, Any] = {"seed": seed, "n_pages": web.n_pages}
        for name, policy in policies.items():
            account = simulate(
                web, policy, budget, n_per_pick=n_per_pick, burn_in_seconds=days / 4 * _DAY
            )
            row[name] = round(account.freshness, 5)
        row["one_price_over_single"] = round(row["one_price"] / row["single"], 5)
        row["one_price_over_equal"] = round(row["one_price"] / row["equal"], 5)
        rows.append(row)
    return rows


def _doubled_budget(n_runs: int, *, delay_max: float, loss: float) -> dict[str, float]:
    """Return the time until all partitions have a quota of a budget that was doubled."""
    seconds = []
    for seed in range(n_runs):
        world = price_faults.PriceWorld(seed, n_partitions=_N_SHARDS, n_workers=_N_WORKERS)
        world.calm_down(600)
        world.loss, world.delay_max = loss, delay_max
        begun, budget = world.now, 2 * world.budget.per_second
        world.set_budget(budget)
        wanted = split_budget(budget, world.demands).per_second
        while not np.allclose([log.per_second for log in world.logs], wanted, rtol=0.01):
            world.step()
            assert world.now < begun + 600, "the budget does not arrive"
        seconds.append(world.now - begun)
    return {"median": round(median(seconds), 2), "max": round(max(seconds), 2)}


def measure(
    n_webs: int,
    *,
    n_pages: int = 6_000,
    days: float = 60.0,
    days_per_fetch: float = 4.0,
    n_runs: int = 30,
    n_steps: int = 1_000_000,
) -> dict[str, Any]:
    """Measure the freshness of one price, how fast a budget arrives, and faults.

    Parameters
    ----------
    n_webs
        Number of simulated webs.
    n_pages
        Number of pages of each.
    days
        Length of a run; the first quarter is not counted.
    days_per_fetch
        Budget: days in which each page can be fetched once.
    n_runs
        Number of times that a budget is doubled.
    n_steps
        Number of steps of the simulated cluster with faults.
    """
    size = n_webs, n_pages, days, days_per_fetch
    n_per_pick = max(n_pages // 240, 1)
    return {
        "freshness": _freshness(*size, n_per_pick=n_per_pick),
        "freshness_if_alike": _freshness(*size, n_per_pick=n_per_pick, is_alike=True),
        "doubled_seconds": _doubled_budget(n_runs, delay_max=0.5, loss=0.0),
        "doubled_with_losses_seconds": _doubled_budget(n_runs, delay_max=3.0, loss=0.1),
        "faults": price_faults.measure(n_steps),
    }
