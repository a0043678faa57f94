"""Several processes can each have some partitions of one corpus open, and move them."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recrawl
from recrawl import Outcome
from recrawl.client.answers import read_report_answer
from recrawl.corpus import Corpus, CorpusConfig, RowStatus
from recrawl.errors import ConfigError, PartitionAway
from recrawl.messages.enums import Why
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.slow_without_jit

URLS = [f"https://h{i % 20}.example/page/{i}" for i in range(100)]
DIGEST = bytes(16)
DONE, AWAY = RowStatus.DONE, RowStatus.UNAVAILABLE
N_PARTITIONS = 4


@pytest.fixture
def config(kafka_bootstrap: str, kafka_topic: str) -> CorpusConfig:
    return CorpusConfig.from_dict(
        {
            "corpus": {"partitions": N_PARTITIONS},
            "ledger": {
                "kind": "kafka",
                "bootstrap": kafka_bootstrap,
                "topic": kafka_topic,
                "replication": 1,
            },
            "politeness": {"delay": 0, "in_flight_max": 100, "burst": 100},
            "budget": {"rate": "4000/h"},
        }
    )


def pages_of(*corpora: Corpus) -> list[dict[str, Any]]:
    columns = ["url", "is_in_flight", "belief_shape", "fetched_at_ms"]
    rows = [row for one in corpora for batch in one.pages(columns) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: str(row["url"]))


def budget_of(*corpora: Corpus) -> float:
    nodes = [node for corpus in corpora for node in corpus.nodes]
    return sum(float(node.shard.tables.registers.budget[0]) for node in nodes)


def find_host(corpus: Corpus) -> Callable[[str], object]:
    return lambda url: corpus.host(url.split("/")[2])


def check_rows(rows: Any, is_away: Any, others: int = DONE) -> None:
    assert rows.tolist() == np.where(is_away, AWAY, others).tolist()


def test_two_halves_of_a_corpus_do_together_what_the_whole_does(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock
) -> None:
    left = recrawl.open(tmp_path / "left", config, clock=clock, partitions=[2, 0])
    right = recrawl.open(tmp_path / "right", config, clock=clock, partitions=[1, 3])
    with left, right:
        assert [node.partition for node in left.nodes] == [0, 2]
        added = left.add([*URLS, "not a URL"])
        is_away = added.rows[:-1] == AWAY
        assert 0 < is_away.sum() < 100
        assert tuple(added) == (100 - is_away.sum(), 0, 1)
        check_rows(added.rows[:-1], is_away)
        check_rows(right.add(URLS).rows, ~is_away)
        assert left.n_pages + right.n_pages == 100

        check_rows(left.set(URLS, importance=2.0).rows, is_away)
        check_rows(left.set_each(URLS, cost=1.0).rows, is_away)
        signalled = left.signal(URLS, source="feed")
        assert signalled.n_unknown == 0
        check_rows(signalled.rows, is_away)
        check_rows(left.requests(URLS).rows, is_away)

        leased = left.lease_urls(URLS[:50])
        assert [one.why == Why.UNAVAILABLE for one in leased] == is_away[:50].tolist()
        assert [one.order is None for one in leased] == is_away[:50].tolist()
        orders = [*leased.orders, *left.lease(100), *right.lease(100)]
        assert sorted(order.url for order in orders) == sorted(URLS)
        handles = [order.handle for order in orders]
        of_right = np.array([handle % 2 for handle in handles], np.bool_)
        check_rows(left.extend(handles, seconds=900).rows, of_right)
        check_rows(right.release(handles[-2:]).rows, ~of_right[-2:])

        some = [Outcome(handle=handle, digest=DIGEST) for handle in handles[:90]]
        check_rows(left.report(some[:3]).rows, of_right[:3])
        check_rows(left.report(some[3:]).rows, of_right[3:90])
        check_rows(right.report(some).rows, ~of_right[:90])
        by_url = [Outcome(url=url, digest=DIGEST) for url in URLS]
        assert ((left.report(by_url).rows == AWAY) == is_away).all()
        check_rows(left.remove([URLS[0], *URLS[-3:]]).rows, is_away[[0, -3, -2, -1]])

        far = URLS[int(np.argmax(is_away[1:])) + 1]
        for call in (left.explain, left.history, left.n_log_records, find_host(left)):
            with pytest.raises(PartitionAway, match=r"partition [13] is not open in this process"):
                call(far)
        assert right.explain(far) is not None
        changes = [*left.changes(), *right.changes()]
        assert {change.url for change in changes} >= {order.url for order in orders[:90]}
        listed, cursor = left.pages_after()
        n_listed = listed.num_rows
        while cursor is not None:
            listed, cursor = left.pages_after(cursor)
            n_listed += listed.num_rows
        assert n_listed == left.n_pages == left.stats().n_pages
        assert budget_of(left, right) == pytest.approx(4000 / 3600)
        parts = pages_of(left, right)
    with recrawl.open(tmp_path / "whole", config, clock=clock) as whole:
        assert pages_of(whole) == parts


def test_partitions_need_a_log_that_processes_share(tmp_path: Path, config: CorpusConfig) -> None:
    with pytest.raises(ConfigError, match="only if the log is on Kafka"):
        recrawl.open(tmp_path / "a", partitions=[0])
    with pytest.raises(ValueError, match="partition must be 0 to 3, got 4"):
        recrawl.open(tmp_path / "b", config, partitions=[0, 4])
    assert not (tmp_path / "b").exists()


class Crawl(threading.Thread):
    """Adds, leases and reports pages at one corpus; what is away, at the other one."""

    def __init__(self, name: str, corpora: list[Corpus], stop: threading.Event) -> None:
        super().__init__()
        self._name, self._corpora, self._stopping = name, corpora, stop
        self.added: list[str] = []
        self.fetched: dict[int, str | None] = {}
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            step = 0
            while not self._stopping.is_set():
                self._step(step)
                step += 1
        except BaseException as error:
            self.error = error
            raise

    def _step(self, step: int) -> None:
        urls = [f"https://h{i}.example/{self._name}/{step}" for i in range(8)]
        for corpus in self._corpora:
            rows = corpus.add(urls).rows
            self.added += [url for url, row in zip(urls, rows, strict=True) if row == DONE]
            corpus.signal(urls, source=self._name)
        orders = {order.handle: order for order in self._corpora[step % 2].lease(1 + step % 12)}
        for corpus in self._corpora:
            outcomes = [Outcome(handle=handle, digest=DIGEST) for handle in orders]
            rows = corpus.report(outcomes).rows
            for order, row in zip(orders.values(), rows, strict=True):
                if row == DONE:
                    assert order.handle not in self.fetched
                    self.fetched[order.handle] = order.url
            corpus.stats()


def test_moving_a_partition_under_load_loses_no_acknowledged_row(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock
) -> None:
    left = recrawl.open(tmp_path / "left", config, clock=clock, partitions=[0, 1, 2])
    right = recrawl.open(tmp_path / "right", config, clock=clock, partitions=[3])
    with left, right:
        stop = threading.Event()
        crawls = [Crawl(f"crawl-{i}", [left, right][:: 1 - 2 * (i % 2)], stop) for i in range(3)]
        for crawl in crawls:
            crawl.start()
        try:
            source, target = left, right
            for i in (2, 2, 1):
                for _ in range(3):
                    clock.pass_seconds(2)
                    time.sleep(0.1)
                source.close_partition(i)
                with pytest.raises(PartitionAway):
                    source.close_partition(i)
                target.open_partition(i)
                target.open_partition(i)
                source, target = target, source
        finally:
            stop.set()
            for crawl in crawls:
                crawl.join()
        assert [crawl.error for crawl in crawls] == [None] * 3
        assert [node.partition for node in left.nodes] == [0, 2]
        assert [node.partition for node in right.nodes] == [1, 3]
        parts = pages_of(left, right)
        assert budget_of(left, right) == pytest.approx(4000 / 3600)
        tracked = {row["url"] for row in parts}
        added = [url for crawl in crawls for url in crawl.added]
        assert tracked == {*added}
        assert len(added) == len(tracked)
        fetched = {url for crawl in crawls for url in crawl.fetched.values()}
        assert {row["url"] for row in parts if row["fetched_at_ms"]} == fetched
        handles = [handle for crawl in crawls for handle in crawl.fetched]
        assert len(handles) == len({*handles}) > 0
        right.close_partition(3, snapshot=False)
        right.close_partition(1)
        assert right.lease(5) == []
        assert (right.add(URLS).rows == AWAY).all()
        right.open_partition(1)
        right.open_partition(3)
    with recrawl.open(tmp_path / "whole", config, clock=clock) as whole:
        assert pages_of(whole) == parts


def test_a_client_sees_which_outcomes_to_report_again() -> None:
    found = {"status": ["done", "unavailable", "unknown"], "transition": ["new", None, None]}
    reported = read_report_answer(found, 3)
    assert reported.rows.tolist() == [DONE, AWAY, RowStatus.UNKNOWN]
    assert reported.part(1, 2).is_unavailable.all()


def test_a_process_follows_a_clock_that_was_set_before_it_claims(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock
) -> None:
    wrong = ManualClock(clock.wall_ms() + 3_600_000)
    left = recrawl.open(tmp_path / "left", config, clock=clock, partitions=range(N_PARTITIONS))
    right = recrawl.open(tmp_path / "right", config, clock=wrong, partitions=[])
    with left, right:
        right.stand_by(1)
        wrong.wall = clock.wall_ms()
        assert right.now_ms() == clock.wall_ms() + 3_600_000
        right.follow_clock()
        assert right.now_ms() == clock.wall_ms()
        right.open_partition(1)
        assert right.nodes[1].shard.now_ms == clock.wall_ms()
        # It never goes back behind what a log has.
        wrong.wall -= 60_000
        right.follow_clock()
        assert right.now_ms() >= right.nodes[1].shard.now_ms


def test_a_standby_follows_claims_and_steps_down_again(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock
) -> None:
    left = recrawl.open(tmp_path / "left", config, clock=clock, partitions=range(N_PARTITIONS))
    right = recrawl.open(tmp_path / "right", config, clock=clock, partitions=[])
    with left, right:
        left.add(URLS[:50])
        right.stand_by(1)
        right.stand_by(1)
        left.add(URLS[50:])
        orders = left.lease(40)
        left.report([Outcome(handle=order.handle, digest=DIGEST) for order in orders[:20]])
        assert right.n_pages == 0
        assert right.owned_partitions() == {}
        clock.pass_seconds(3)
        assert right.standby_lags() == {1: 3.0}
        assert right.follow_standby(1) == 0
        assert right.standby_lags() == {1: 0.0}

        # Its state is that of the owner, and the claim alone makes it the owner.
        right.open_partition(1)
        assert right.standby_lags() == {}
        assert right.owned_partitions()[1].epoch == 2
        clock.pass_seconds(2)
        left.tick(1)  # reads the claim
        added = left.add(URLS)
        assert 0 < (added.rows == AWAY).sum() < 100
        assert left.lease(10)
        assert sorted(left.owned_partitions()) == [0, 2, 3]
        before = pages_of(right)
        assert before == [row for row in pages_of(left) if row["url"] in {r["url"] for r in before}]

        # The former owner becomes the standby, without reading anything again.
        left.stand_by(1)
        assert 1 not in left.nodes
        right.add(["https://h1.example/later", "https://h3.example/later"])
        left.follow_standby(1)
        left.open_partition(1)
        clock.pass_seconds(2)
        right.tick(1)
        assert right.owned_partitions() == {}
        right.stand_by(1)
        assert right.n_pages == 0
        right.close_standby(1)
        right.close_standby(1)
        assert right.standby_lags() == {}
        with pytest.raises(PartitionAway):
            right.follow_standby(1)
        state = pages_of(left)
    with recrawl.open(tmp_path / "whole", config, clock=clock) as whole:
        assert pages_of(whole) == state


def test_a_standby_takes_over_what_its_dead_owner_had_leased(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock
) -> None:
    left = recrawl.open(tmp_path / "left", config, clock=clock, partitions=[1])
    right = recrawl.open(tmp_path / "right", config, clock=clock, partitions=[])
    with left, right:
        urls = [url for url, row in zip(URLS, left.add(URLS).rows, strict=True) if row == DONE]
        right.stand_by(1)
        orders = left.lease(10)
        right.open_partition(1)  # without another follow: it reads the rest before the claim
        assert len(right.lease(100)) == len(urls) - 10
        assert left.lease(100).shortfall is not None
        reported = right.report([Outcome(handle=one.handle, digest=DIGEST) for one in orders])
        assert (reported.rows == DONE).all()


def test_a_claim_does_not_wait_for_a_move_of_another_partition(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock
) -> None:
    with recrawl.open(tmp_path / "one", config, clock=clock, partitions=[1]) as one:
        one.stand_by(2)
        is_used, is_over, done = threading.Event(), threading.Event(), threading.Event()

        def use() -> None:
            with one.nodes.use(1):
                is_used.set()
                is_over.wait(60)

        def step_down() -> None:
            one.stand_by(1)
            done.set()

        threads = [threading.Thread(target=work) for work in (use, step_down)]
        threads[0].start()
        is_used.wait(60)
        threads[1].start()
        while 1 in one.nodes:  # the step down waits for the call from now on
            time.sleep(0.01)
        one.open_partition(2)
        assert not done.is_set()
        assert one.open_partitions() == [2]
        is_over.set()
        for thread in threads:
            thread.join()
        assert done.is_set()
        assert [*one.standby_lags()] == [1]
