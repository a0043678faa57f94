"""Read the figures of a cluster that one worker knows, for monitoring."""

from math import isnan
from typing import Literal

from recrawl.cluster.api.worker_calls import CallCounts
from recrawl.cluster.worker import Worker
from recrawl.corpus import Corpus
from recrawl.messages.cluster_metrics import ClusterMetrics
from recrawl.shard.state.status import BudgetUnit

__all__ = ["read_cluster_metrics"]


def read_cluster_metrics(corpus: Corpus, counts: CallCounts, worker: Worker) -> ClusterMetrics:
    """Return the figures of a cluster, as a worker knows them.

    Parameters
    ----------
    corpus
        Corpus with the partitions that are open in this process.
    counts
        Counts of requests to other workers.
    worker
        The worker.
    """
    members = worker.presence.members
    owned = set(corpus.owned_partitions())
    told = {i for one in (*members.present, *members.leaving) for i in one.owned}
    lags = corpus.standby_lags()
    budget, quota, price = _budget_and_price(corpus, worker)
    return ClusterMetrics(
        n_partitions=corpus.nodes.n_partitions,
        n_owned=len(owned),
        n_standbys=len(lags),
        standby_lag_seconds=max(lags.values(), default=None),
        n_unowned=sum(i not in owned | told for i in range(corpus.nodes.n_partitions)),
        workers_by_state={"present": len(members.present), "leaving": len(members.leaving)},
        is_frozen=members.is_frozen,
        reads_log=worker.reads_log,
        budget_unit=_unit_of(worker),
        budget_per_second=budget,
        quota_per_second=quota,
        price=price,
        calls_by_result=counts.n_by_result,
        call_seconds=counts.times,
        moves=worker.count_moves(),
    )


def _budget_and_price(
    corpus: Corpus, worker: Worker
) -> tuple[float | None, float | None, float | None]:
    """Return the budget of the cluster, the quota of a worker, and the common price."""
    if worker.quotas is None:
        return None, None, None
    agreement = worker.quotas.agreement
    quota = sum(one.per_second for one in corpus.quotas.in_use().values())
    record = agreement.record
    price = None if record is None or isnan(record.price) else record.price
    return agreement.budget.per_second, quota, price


def _unit_of(worker: Worker) -> Literal["fetches", "cost"]:
    is_cost = worker.quotas is not None and worker.quotas.agreement.budget.unit == BudgetUnit.COST
    return "cost" if is_cost else "fetches"
