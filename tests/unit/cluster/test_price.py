"""Workers agree on quotas through messages alone."""

import json
from math import inf, isnan

import numpy as np
import pytest

from recrawl.cluster.budget.price import Agreement, split_budget
from recrawl.cluster.budget.quotas import (
    BUDGET_KEY,
    KEEP,
    QUOTAS_KEY,
    BudgetMessage,
    DemandMessage,
    QuotaMessage,
    RecordId,
)
from recrawl.messages.budgets import Budget, Demand, QuotaInUse

CHEAP = Demand(100, (1.0, 2.0, 4.0), (9.0, 6.0, 3.0))
DEAR = Demand(100, (1.0, 2.0, 4.0), (18.0, 12.0, 6.0))


class Cluster:
    """Workers with one partition each, whose messages all arrive."""

    def __init__(self, uses: list[float], budget: float) -> None:
        self.budget = Budget(budget, 1.0, 60.0)
        self.workers = [Agreement(len(uses), self.budget) for _ in uses]
        self.uses = dict(enumerate(uses))
        self.epochs = dict.fromkeys(self.uses, 1)
        self.demands = dict.fromkeys(self.uses, CHEAP)
        self.is_silent: set[int] = set()
        self.is_waiting: set[int] = set()
        """Partitions whose last append has not ended."""
        self.now = 0.0

    def turn(self, n: int = 1) -> None:
        """Let every worker read everything, and say something."""
        for _ in range(n):
            self.now += 0.5
            for i, worker in enumerate(self.workers):
                if i in self.is_silent:
                    continue
                in_use = {}
                if i not in self.is_waiting:
                    for quota in worker.quotas().values():
                        self.uses[i] = quota.per_second
                    in_use = {i: QuotaInUse(self.epochs[i], self.uses[i])}
                for key, message in worker.step(self.now, in_use, lambda: self.demands):
                    for other in self.workers:
                        other.hear(key, message)


def test_a_split_has_one_price() -> None:
    split = split_budget(9.0, [CHEAP, CHEAP._replace(price=(2.0, 4.0, 8.0))])
    # At a price of 4 the first spends 3, and the second, whose pages are worth twice as much, 6.
    assert split.price == pytest.approx(4.0)
    assert split.per_second == pytest.approx([0.98 * 3 + 0.02 * 4.5, 0.98 * 6 + 0.02 * 4.5])


def test_without_curves_a_budget_is_split_by_pages() -> None:
    split = split_budget(12.0, [Demand(99), Demand(199)])
    assert isnan(split.price)
    assert split.per_second.tolist() == [4.0, 8.0]
    mixed = split_budget(12.0, [Demand(99), CHEAP, DEAR])
    assert mixed.per_second.sum() == pytest.approx(12.0)
    assert mixed.per_second[0] == pytest.approx(12.0 * 100 / 302)


def test_workers_agree_on_the_split_of_one_price() -> None:
    cluster = Cluster([0.0, 0.0, 0.0], 16.0)
    cluster.demands[2] = DEAR
    cluster.turn(20)
    assert list(cluster.uses.values()) == pytest.approx([4.0, 4.0, 8.0], rel=0.05)
    assert sum(cluster.uses.values()) == pytest.approx(16.0)
    assert [worker.is_coordinator for worker in cluster.workers] == [True, False, False]


def test_a_doubled_budget_reaches_all_at_once() -> None:
    cluster = Cluster([0.0, 0.0, 0.0], 16.0)
    cluster.turn(20)
    cluster.workers[1].set_budget(cluster.budget._replace(per_second=32.0))
    assert cluster.workers[1].is_budget_pending
    cluster.turn(3)
    assert sum(cluster.uses.values()) == pytest.approx(32.0)
    assert not cluster.workers[1].is_budget_pending


@pytest.mark.parametrize("partition", [0, 1])
@pytest.mark.parametrize("n_turns", [1, 50])
def test_a_partition_that_waits_for_its_log_goes_on_in_its_epoch(
    partition: int, n_turns: int
) -> None:
    """An append that takes long stops a partition; it goes on without another claim."""
    cluster = Cluster([0.0, 0.0, 0.0], 16.0)
    cluster.turn(20)
    cluster.is_waiting = {partition}
    cluster.turn(n_turns)
    cluster.is_waiting = set()
    cluster.workers[2].set_budget(cluster.budget._replace(per_second=32.0))
    cluster.turn(20)
    assert sum(cluster.uses.values()) == pytest.approx(32.0)
    assert [worker.is_coordinator for worker in cluster.workers] == [True, False, False]


def test_after_a_wait_no_number_is_used_again_that_may_still_be_on_its_way() -> None:
    agreement, in_use = Agreement(1, Budget(9.0)), {0: QuotaInUse(3, 0.0)}

    def records(now: float, *, is_read: bool) -> list[QuotaMessage]:
        messages = agreement.step(now, in_use, lambda: {0: CHEAP})
        for key, message in messages if is_read else []:
            agreement.hear(key, message)
        found = [QuotaMessage.from_bytes(message) for key, message in messages if key == QUOTAS_KEY]
        return [one for one in found if one is not None]

    records(0.0, is_read=True)
    (on_its_way,) = records(2.0, is_read=False)
    agreement.step(3.0, {}, dict)
    (after_the_wait,) = records(4.0, is_read=True)
    assert after_the_wait.id > on_its_way.id
    assert after_the_wait.per_second == (KEEP,)
    agreement.hear(QUOTAS_KEY, on_its_way.to_bytes())
    assert agreement.record is not None
    assert agreement.record.id == after_the_wait.id


def test_what_a_silent_partition_may_use_is_given_to_nobody() -> None:
    cluster = Cluster([0.0, 0.0], 10.0)
    cluster.turn(20)
    cluster.is_silent = {1}
    cluster.demands[0] = DEAR
    cluster.turn(200)
    # The record has less for it, but it has not said that it uses less.
    record = cluster.workers[0].record
    assert record is not None
    assert record.per_second[1] < 4.0
    assert record.most[1] == pytest.approx(5.0)
    assert cluster.uses[0] == pytest.approx(5.0)
    cluster.is_silent = set()
    cluster.turn(10)
    assert cluster.uses[0] == pytest.approx(6.67, rel=0.05)
    assert sum(cluster.uses.values()) == pytest.approx(10.0)


def test_nobody_gets_more_before_all_have_said_what_they_use() -> None:
    cluster = Cluster([1.0, 9.0], 10.0)
    cluster.is_silent = {1}
    cluster.turn(50)
    assert cluster.uses == {0: 1.0, 1: 9.0}
    cluster.is_silent = set()
    cluster.turn(10)
    assert list(cluster.uses.values()) == pytest.approx([5.0, 5.0])


def test_partitions_without_a_limit_are_given_one() -> None:
    cluster = Cluster([inf, inf, 0.0], 9.0)
    cluster.turn(20)
    assert list(cluster.uses.values()) == pytest.approx([3.0, 3.0, 3.0])


def test_an_unlimited_budget_is_unlimited_for_all() -> None:
    cluster = Cluster([1.0, 2.0], inf)
    cluster.turn(20)
    assert cluster.uses == {0: inf, 1: inf}


def test_an_owner_obeys_no_record_before_it_has_read_its_own_message() -> None:
    agreement = Agreement(2)
    record = QuotaMessage(
        id=RecordId(3, 1), budget=Budget(9.0), price=1.0, per_second=(4.0, 5.0), most=(4.0, 5.0)
    )
    agreement.hear(QUOTAS_KEY, record.to_bytes())
    (key, hello), *_ = agreement.step(0.0, {1: QuotaInUse(7, 1.0)}, dict)
    assert agreement.quotas() == {}
    agreement.hear(key, hello)
    assert agreement.quotas() == {1: (7, 5.0)}
    # A record of an earlier epoch changes nothing, even if its number is higher.
    stale = QuotaMessage(
        id=RecordId(2, 99), budget=Budget(9.0), price=1.0, per_second=(1.0, 8.0), most=(4.0, 8.0)
    )
    agreement.hear(QUOTAS_KEY, stale.to_bytes())
    assert agreement.quotas() == {1: (7, 5.0)}
    # Nor does this one after a sign that somebody has obeyed a later one.
    later = DemandMessage(
        partition=0, epoch=1, serial=1, per_second=2.0, heard=RecordId(3, 2), demand=CHEAP
    )
    agreement.hear(later.key, later.to_bytes())
    assert agreement.quotas() == {}


def test_messages_survive_their_way_through_bytes() -> None:
    budget = Budget(inf, 0.0, 0.0, 1, 1, 2.5)
    demand = DemandMessage(
        partition=3, epoch=2, serial=9, per_second=0.1, heard=RecordId(1, 4), demand=CHEAP
    )
    quotas = QuotaMessage(
        id=RecordId(1, 2), budget=budget, price=0.25, per_second=(KEEP, inf), most=(inf, 2.0)
    )
    told = BudgetMessage(revision=4, budget=budget)
    assert DemandMessage.from_bytes(demand.to_bytes()) == demand
    assert QuotaMessage.from_bytes(quotas.to_bytes()) == quotas
    assert BudgetMessage.from_bytes(told.to_bytes()) == told


def test_numbers_that_cannot_be_true_are_no_messages() -> None:
    demand = DemandMessage(
        partition=1, epoch=2, serial=9, per_second=0.1, heard=RecordId(1, 4), demand=CHEAP
    )
    for field in ("epoch", "serial", "n_pages"):
        fields = {**json.loads(demand.to_bytes()), field: 10**400}
        assert DemandMessage.from_bytes(json.dumps(fields).encode()) is None
    fields = {**json.loads(demand.to_bytes()), "heard": [10**400, 0]}
    assert DemandMessage.from_bytes(json.dumps(fields).encode()) is None


@pytest.mark.parametrize("key", ["demand/0", "demand/x", "demand/9", QUOTAS_KEY, BUDGET_KEY])
@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"null",
        b"[]",
        b"\xff",
        b'{"format":1}',
        b'{"format":2,"revision":1}',
        b"[" * 5_000,
        b'{"format":1,"id":[1,1],"budget":{},"price":null,"per_second":[-2],"most":[NaN]}',
    ],
)
def test_messages_that_are_none_are_ignored(key: str, message: bytes) -> None:
    agreement = Agreement(2, Budget(5.0))
    agreement.hear(key, message)
    assert agreement.record is None
    assert agreement.budget == Budget(5.0)


def test_of_two_budgets_set_at_once_the_same_one_holds_everywhere() -> None:
    first = BudgetMessage(revision=1, budget=Budget(5.0)).to_bytes()
    second = BudgetMessage(revision=1, budget=Budget(7.0)).to_bytes()
    found = []
    for messages in ((first, second), (second, first)):
        agreement = Agreement(2, Budget(1.0))
        for message in messages:
            agreement.hear(BUDGET_KEY, message)
        found.append(agreement.budget.per_second)
    assert found == [7.0, 7.0]


def test_an_earlier_budget_that_is_said_late_is_not_the_last_one_in_the_topic() -> None:
    cluster = Cluster([0.0, 0.0], 16.0)
    cluster.turn(5)
    cluster.workers[1].set_budget(cluster.budget._replace(per_second=32.0))
    cluster.turn(5)
    # A worker that has not read the new budget yet says the configured one.
    late = BudgetMessage(revision=0, budget=cluster.budget)
    for worker in cluster.workers:
        worker.hear(BUDGET_KEY, late.to_bytes())
    assert [worker.is_budget_pending for worker in cluster.workers] == [True, False]
    cluster.turn(5)
    assert [worker.is_budget_pending for worker in cluster.workers] == [False, False]
    assert {worker.budget.per_second for worker in cluster.workers} == {32.0}


def test_records_are_few_however_long_somebody_is_silent() -> None:
    agreement = Agreement(2)
    for number in range(500):
        quotas = (float(number % 7), 1.0)
        record = QuotaMessage(
            id=RecordId(1, number), budget=Budget(9.0), price=1.0, per_second=quotas, most=quotas
        )
        agreement.hear(QUOTAS_KEY, record.to_bytes())
    assert len(agreement._records) <= 32
    assert np.array_equal(agreement._most_in_use(), [6.0, 1.0])
