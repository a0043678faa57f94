"""Partitions spend what they are given, where workers agree on quotas."""

from pathlib import Path

import pytest

import recrawl
from recrawl.cluster.budget.price import Agreement
from recrawl.corpus import Corpus, CorpusConfig
from recrawl.errors import LedgerError
from recrawl.messages.budgets import Budget, Quota
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.slow_without_jit

URLS = [f"https://h{i % 20}.example/page/{i}" for i in range(200)]


@pytest.fixture
def config(kafka_bootstrap: str, kafka_topic: str) -> CorpusConfig:
    return CorpusConfig.from_dict(
        {
            "corpus": {"partitions": 4},
            "ledger": {
                "kind": "kafka",
                "bootstrap": kafka_bootstrap,
                "topic": kafka_topic,
                "replication": 1,
            },
            "politeness": {"delay": 0, "in_flight_max": 100, "burst": 100},
            "budget": {"rate": "40/s"},
        }
    )


class Worker:
    """A process with some partitions, which agrees with others."""

    def __init__(
        self, folder: Path, config: CorpusConfig, clock: ManualClock, partitions: list[int]
    ) -> None:
        self.corpus: Corpus = recrawl.open(folder, config, clock=clock, partitions=[])
        quotas = self.corpus.quotas
        self.agreement = Agreement(4, quotas.configured)
        quotas.follow(lambda: self.agreement.budget, self.agreement.set_budget)
        for partition in partitions:
            self.corpus.open_partition(partition)

    def budgets(self) -> list[float]:
        return [float(node.shard.tables.registers.budget[0]) for node in self.corpus.nodes]


def agree(clock: ManualClock, *workers: Worker) -> None:
    for _ in range(12):
        clock.pass_seconds(1)
        for worker in workers:
            quotas = worker.corpus.quotas
            quotas.set(worker.agreement.quotas(), worker.agreement.budget)
            step = worker.agreement.step(clock.running_ms() / 1000, quotas.in_use(), quotas.demands)
            for key, message in step:
                for other in workers:
                    other.agreement.hear(key, message)


def test_workers_split_one_budget_among_all_partitions(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock
) -> None:
    left = Worker(tmp_path / "left", config, clock, [0, 2])
    right = Worker(tmp_path / "right", config, clock, [1, 3])
    with left.corpus, right.corpus:
        # Nobody spends anything before they have agreed.
        assert left.budgets() + right.budgets() == [0.0] * 4
        left.corpus.add(URLS)
        right.corpus.add(URLS)
        agree(clock, left, right)
        assert sum(left.budgets() + right.budgets()) == pytest.approx(40)
        assert min(left.budgets() + right.budgets()) > 1
        assert len(left.corpus.lease(50)) + len(right.corpus.lease(50)) > 40

        right.corpus.set_budget("80/s")
        agree(clock, left, right)
        assert sum(left.budgets() + right.budgets()) == pytest.approx(80)
        assert sum(len(one.price) for one in left.corpus.quotas.demands().values()) > 0

        # Nothing changes without a new agreement, not even when a partition moves.
        before = {**left.corpus.quotas.in_use(), **right.corpus.quotas.in_use()}
        clock.pass_seconds(600)
        left.corpus.lease(10)
        left.corpus.open_partition(3)
        moved = left.corpus.quotas.in_use()
        assert moved[3].epoch > before[3].epoch
        assert {i: one.per_second for i, one in moved.items()} == {
            i: before[i].per_second for i in (0, 2, 3)
        }
        assert not right.corpus.lease(1) or 3 in right.corpus.nodes
    # A new owner continues with the quota that the log says.
    after = Worker(tmp_path / "after", config, clock, [3])
    with after.corpus:
        assert after.corpus.quotas.in_use()[3].per_second == before[3].per_second


def test_quotas_of_others_are_ignored(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(tmp_path / "left", config, clock, [0, 2])
    budget = Budget(40.0, 1.0, 60.0)
    with worker.corpus as corpus:
        epoch = corpus.quotas.in_use()[0].epoch
        given = {0: Quota(epoch, 3.0), 2: Quota(epoch + 1, 5.0), 3: Quota(1, 7.0)}
        corpus.quotas.set(given, budget)
        assert worker.budgets() == [3.0, 0.0]
        end = corpus.nodes[0].position
        corpus.quotas.set(given, budget)
        assert corpus.nodes[0].position == end

        # A partition that has failed says nothing about what it uses.
        monkeypatch.setattr(corpus.nodes[2], "_failed", LedgerError("away"))
        assert set(corpus.quotas.in_use()) == set(corpus.quotas.demands()) == {0}
