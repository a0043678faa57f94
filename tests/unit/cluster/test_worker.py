"""Workers move partitions among them: without a gap if all live, to the standby if one dies."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import recrawl
from recrawl import Outcome
from recrawl.cluster.control_topic import CONTROL_SUFFIX, ControlTopic
from recrawl.cluster.members.heartbeats import Heartbeat
from recrawl.cluster.view import ClusterView
from recrawl.cluster.worker import Worker
from recrawl.corpus import Corpus, CorpusConfig, RowStatus

pytestmark = pytest.mark.slow_without_jit

N_PARTITIONS = 6
URLS = [f"https://h{i}.example/page" for i in range(60)]


def do_nothing() -> None:
    pass


class Cluster:
    """Workers of one corpus, in this process."""

    def __init__(self, folder: Path, config: CorpusConfig, bootstrap: str, topic: str) -> None:
        self.folder, self.config = folder, config
        self.bootstrap, self.topic = bootstrap, topic + CONTROL_SUFFIX
        self.workers: dict[str, Worker] = {}
        self.corpora: dict[str, Corpus] = {}

    def control(self) -> ControlTopic:
        return ControlTopic.open(self.bootstrap, self.topic, replication=1)

    def join(
        self, name: str, *, folder: str = "", on_replaced: Callable[[], None] = do_nothing
    ) -> None:
        place = folder or name
        corpus = recrawl.open(self.folder / place, self.config, partitions=[])
        identity = Heartbeat(worker=name, instance=place, started_at_ms=int(time.time() * 1000))
        worker = Worker(
            corpus,
            self.control(),
            N_PARTITIONS,
            identity,
            quotas=corpus.quotas,
            on_replaced=on_replaced,
        )
        self.workers[place], self.corpora[place] = worker, corpus
        worker.start()

    def owners(self) -> dict[int, str]:
        return {i: name for name, one in self.corpora.items() for i in one.owned_partitions()}

    def standbys(self) -> dict[int, str]:
        return {i: name for name, one in self.corpora.items() for i in one.standby_lags()}

    def quotas(self) -> list[float]:
        """Return what each partition may spend in a second, by its owner."""
        in_use = [one.quotas.in_use() for one in self.corpora.values()]
        return [quota.per_second for one in in_use for quota in one.values()]

    def is_settled(self) -> bool:
        wanted = next(iter(self.workers.values())).places
        owners, standbys = self.owners(), self.standbys()
        n_open = sum(len(one.open_partitions()) for one in self.corpora.values())
        return (
            all(worker.places == wanted for worker in self.workers.values())
            and n_open == len(owners) == N_PARTITIONS
            and all(owners[i] == place.owner for i, place in enumerate(wanted))
            and all(standbys.get(i) == place.standby for i, place in enumerate(wanted))
        )

    def end(self, name: str, *, says_goodbye: bool) -> None:
        worker, corpus = self.workers.pop(name), self.corpora.pop(name)
        if says_goodbye:
            assert worker.leave()
        worker.stop(says_goodbye=says_goodbye)
        corpus.close()


@pytest.fixture
def cluster(tmp_path: Path, kafka_bootstrap: str, kafka_topic: str) -> Iterator[Cluster]:
    config = CorpusConfig.from_dict(
        {
            "corpus": {"partitions": N_PARTITIONS},
            "ledger": {
                "kind": "kafka",
                "bootstrap": kafka_bootstrap,
                "topic": kafka_topic,
                "replication": 1,
            },
            "politeness": {"delay": 0, "in_flight_max": 100, "burst": 100},
            "budget": {"rate": "400000/h"},
        }
    )
    made = Cluster(tmp_path, config, kafka_bootstrap, kafka_topic)
    try:
        yield made
    finally:
        with ExitStack() as ending:
            for name in list(made.workers):
                ending.callback(made.end, name, says_goodbye=False)


def wait_until(is_so: Callable[[], bool], seconds_max: float = 180.0) -> None:
    give_up_at = time.monotonic() + seconds_max
    while not is_so():
        assert time.monotonic() < give_up_at
        time.sleep(0.05)


def add_all(cluster: Cluster) -> int:
    """Add every URL through the worker that owns it; return how many of them were added."""
    added = [corpus.add(URLS).rows for corpus in cluster.corpora.values()]
    return sum(int((rows == RowStatus.DONE).sum()) for rows in added)


def test_partitions_move_when_workers_join_die_and_leave(cluster: Cluster) -> None:
    cluster.join("a")
    wait_until(lambda: len(cluster.owners()) == N_PARTITIONS)
    assert add_all(cluster) == len(URLS)
    cluster.join("b")
    cluster.join("c")
    wait_until(cluster.is_settled)
    assert len(set(cluster.owners().values())) == 3
    n_pages = sum(corpus.n_pages for corpus in cluster.corpora.values())
    assert n_pages == len(URLS)

    # One dies: its partitions go to the workers that follow them.
    dead = cluster.owners()[0]
    standbys = cluster.standbys()
    lost = [i for i, owner in cluster.owners().items() if owner == dead]
    cluster.end(dead, says_goodbye=False)
    wait_until(lambda: len(cluster.owners()) == N_PARTITIONS)
    assert {i: cluster.owners()[i] for i in lost} == {i: standbys[i] for i in lost}
    wait_until(cluster.is_settled)

    # One leaves: the other has all of them before it ends.
    cluster.end(cluster.owners()[0], says_goodbye=True)
    assert len(cluster.owners()) == N_PARTITIONS
    (corpus,) = cluster.corpora.values()
    assert corpus.n_pages == len(URLS)
    assert add_all(cluster) == 0


def test_operators_see_the_workers_drain_one_and_pin_a_partition(cluster: Cluster) -> None:
    for name in "abc":
        cluster.join(name)
    wait_until(cluster.is_settled)
    with ClusterView(cluster.control(), N_PARTITIONS) as view:
        status = view.observe()
        assert {one.partition: one.owner for one in status.partitions} == cluster.owners()
        assert all(len(one.standbys) == 1 for one in status.partitions)
        assert [one.worker for one in status.workers] == ["a", "b", "c"]
        assert status.problems == []
        view.drain("b")
        view.pin(3, "c")
        with pytest.raises(ValueError, match="must be 0 to 5"):
            view.pin(6, "c")
    wait_until(lambda: "b" not in cluster.owners().values() and cluster.is_settled())
    assert cluster.owners()[3] == "c"
    with ClusterView(cluster.control(), N_PARTITIONS) as view:
        assert set(view.observe().rules.drained) == {"b"}
        view.drain("b", is_drained=False)
        view.pin(3, None)
    wait_until(lambda: "b" in cluster.owners().values() and cluster.is_settled())


def test_no_row_is_lost_while_partitions_move_under_load(cluster: Cluster) -> None:
    cluster.join("a")
    wait_until(lambda: len(cluster.owners()) == N_PARTITIONS)
    assert add_all(cluster) == len(URLS)
    stopping = threading.Event()
    counted: list[int] = []
    problems: list[BaseException] = []

    def fetch() -> None:
        try:
            while not stopping.is_set():
                for name in list(cluster.corpora):
                    corpus = cluster.corpora[name]
                    orders = corpus.lease(5)
                    done = [Outcome(handle=one.handle, digest=bytes(16)) for one in orders]
                    rows = corpus.report(done).rows if done else ()
                    counted.append(sum(int(row) == RowStatus.DONE for row in rows))
                stopping.wait(0.02)
        except BaseException as error:
            problems.append(error)
            raise

    thread = threading.Thread(target=fetch)
    thread.start()
    try:
        cluster.join("b")
        wait_until(cluster.is_settled)
        cluster.join("c")
        wait_until(cluster.is_settled)
    finally:
        stopping.set()
        thread.join()
    assert problems == []
    n_outcomes = sum(corpus.stats().n_outcomes for corpus in cluster.corpora.values())
    assert n_outcomes == sum(counted) > 0


def test_all_workers_spend_one_budget_together(cluster: Cluster) -> None:
    for name in "ab":
        cluster.join(name)
    wait_until(cluster.is_settled)
    per_second = 400_000 / 3600
    wait_until(lambda: sum(cluster.quotas()) > 0.999 * per_second)
    assert sum(cluster.quotas()) <= per_second * (1 + 1e-9)
    cluster.corpora["a"].set_budget("800000/h")
    wait_until(lambda: sum(cluster.quotas()) > 0.999 * 2 * per_second)
    assert sum(cluster.quotas()) <= 2 * per_second * (1 + 1e-9)
    # What a partition spends is in its log: the next owner goes on with it.
    cluster.end("a", says_goodbye=True)
    assert len(cluster.quotas()) == N_PARTITIONS
    assert 0 < sum(cluster.quotas()) <= 2 * per_second * (1 + 1e-9)


def test_a_worker_ends_if_another_with_its_name_was_started(cluster: Cluster) -> None:
    replaced: list[str] = []
    cluster.join("a", on_replaced=lambda: replaced.append("a"))
    wait_until(lambda: len(cluster.owners()) == N_PARTITIONS)
    cluster.join("a", folder="other", on_replaced=lambda: replaced.append("other"))
    wait_until(lambda: replaced == ["a"])
    wait_until(lambda: set(cluster.owners().values()) == {"other"})
    assert not cluster.workers["a"].leave()
    assert replaced == ["a"]
