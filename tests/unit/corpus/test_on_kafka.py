"""A corpus with its log on Kafka works like any other, and yields to a new owner."""

import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewPartitions,
    NewTopic,
)

import recrawl
from recrawl import Outcome
from recrawl.corpus import Corpus, CorpusConfig, repair_corpus, resize_corpus
from recrawl.corpus.doctor import repair
from recrawl.errors import (
    FolderInUse,
    IdentityError,
    LedgerError,
    LockedError,
    LogDamagedError,
    OwnershipLost,
)
from recrawl.folder_lock import check_folder_is_free
from recrawl.testing.stores import contents_of
from tests.manual_clock import ManualClock
from tests.unit.corpus.test_fork import check_refused, run_in_child

pytestmark = pytest.mark.slow_without_jit
URLS = [f"https://h{i % 5}.example/page/{i}" for i in range(50)]


@pytest.fixture
def config(kafka_bootstrap: str, kafka_topic: str) -> CorpusConfig:
    return CorpusConfig.from_dict(
        {
            "corpus": {"partitions": 2},
            "ledger": {
                "kind": "kafka",
                "bootstrap": kafka_bootstrap,
                "topic": kafka_topic,
                "replication": 1,
            },
            "politeness": {"delay": 0, "in_flight_max": 100, "burst": 100},
        }
    )


@pytest.fixture
def used(tmp_path: Path, config: CorpusConfig, clock: ManualClock) -> Path:
    """Return the folder of a corpus that was used and closed."""
    with recrawl.open(tmp_path / "used", config, clock=clock) as corpus:
        corpus.add(URLS)
    return tmp_path / "used"


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("LOG", "LOCK") and "LOG.old" not in path.name
    }


def delete_topic(config: CorpusConfig) -> AdminClient:
    topic = config.ledger.topic
    assert topic is not None
    admin = AdminClient({"bootstrap.servers": str(config.ledger.bootstrap)})
    admin.delete_topics([topic])[topic].result(300)
    while topic in admin.list_topics(timeout=300).topics:
        time.sleep(0.05)
    return admin


def recreate_topic(config: CorpusConfig, n_partitions: int = 2) -> None:
    admin = delete_topic(config)
    settings = {"retention.ms": "-1", "max.message.bytes": "8388608"}
    new = NewTopic(str(config.ledger.topic), n_partitions, 1, config=settings)
    admin.create_topics([new])[new.topic].result(300)


def test_a_deleted_topic_is_not_created_again(used: Path, config: CorpusConfig) -> None:
    before = files_of(used)
    admin = delete_topic(config)
    for read_only in (False, True):
        with pytest.raises(IdentityError, match=r"does not exist at .*: it was deleted, or"):
            recrawl.open(used, config, read_only=read_only)
    assert files_of(used) == before
    assert config.ledger.topic not in admin.list_topics(timeout=300).topics


def test_a_topic_that_was_deleted_and_created_again_is_refused(
    used: Path, config: CorpusConfig
) -> None:
    recreate_topic(config)
    before = files_of(used)
    for read_only in (False, True):
        with pytest.raises(
            IdentityError, match=r"was deleted and created again: its id was .* now"
        ):
            recrawl.open(used, config, read_only=read_only)
    assert files_of(used) == before
    # Without the note the positions show it.
    (used / "topic.json").unlink()
    with pytest.raises(LogDamagedError, match="the topic has lost records, or it is not the topic"):
        recrawl.open(used, config)


def test_a_topic_with_another_number_of_partitions_is_refused(
    used: Path, config: CorpusConfig
) -> None:
    before = files_of(used)
    admin = AdminClient({"bootstrap.servers": str(config.ledger.bootstrap)})
    more = NewPartitions(str(config.ledger.topic), 3)
    admin.create_partitions([more])[str(config.ledger.topic)].result(300)
    while len(admin.list_topics(timeout=300).topics[str(config.ledger.topic)].partitions) < 3:
        time.sleep(0.05)
    with pytest.raises(LedgerError, match=r"n_partitions must be 3 .* got 2: .*were added to it"):
        recrawl.open(used, config)
    assert files_of(used) == before


def test_a_topic_created_again_while_the_corpus_is_open_stops_it(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock
) -> None:
    corpus = recrawl.open(tmp_path, config, clock=clock)
    try:
        corpus.add(URLS)
        recreate_topic(config)
        more = [f"https://h{i % 5}.example/more/{i}" for i in range(5)]
        with pytest.raises(LedgerError, match=r"created again, or has lost records|position must"):
            corpus.add(more)
    finally:
        corpus.close()


def state_of(corpus: Corpus) -> list[Any]:
    return [
        (
            node.shard.digest(),
            contents_of(node.store, int(node.shard.tables.registers.n_slots[0])),
        )
        for node in corpus.nodes
    ]


def test_a_corpus_on_kafka_has_everything_when_opened_again(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock
) -> None:
    with recrawl.open(tmp_path, config, clock=clock) as corpus:
        assert corpus.add(URLS).n_added == 50
        orders = corpus.lease(20)
        found = [Outcome(handle=order.handle, digest=b"a") for order in orders[:15]]
        assert corpus.report(found).counted.all()
        corpus.snapshot()
        corpus.signal(URLS[:5], source="feed")
        clock.pass_seconds(10)
    with recrawl.open(tmp_path, config, clock=clock) as corpus:
        assert corpus.stats().n_pages == 50
        assert corpus.stats().in_flight == 5
        assert len(corpus.changes()) == 15
        rest = [Outcome(handle=order.handle, digest=b"a") for order in orders[15:]]
        assert corpus.report(rest).counted.all()


def test_series_go_on_after_another_machine_has_taken_over(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock
) -> None:
    def work(corpus: Corpus) -> None:
        for _ in range(3):
            orders = corpus.lease(10)
            corpus.report([Outcome(handle=order.handle, digest=b"a") for order in orders])
            clock.pass_seconds(60)
            for node in corpus.nodes:
                node.tick(corpus.time)

    with recrawl.open(tmp_path / "a", config, clock=clock) as first:
        first.add(URLS)
        work(first)
        before = first.samples()
        assert before.n_partitions.tolist() == [2, 2, 2]
        with recrawl.open(tmp_path / "b", config, clock=clock) as second:
            # Its store is made from the log alone, which has every sample once.
            assert second.samples().n_fetches.tolist() == before.n_fetches.tolist()
            assert second.samples().fresh_pages.tolist() == before.fresh_pages.tolist()
            n_outcomes = second.stats().n_outcomes
            clock.pass_seconds(5)
            with pytest.raises(OwnershipLost):
                first.lease(10)
            work(second)
            after = second.samples()
            assert after.at_ms.size == 6
            n_new = second.stats().n_outcomes - n_outcomes
            assert after.n_fetches.sum() == before.n_fetches.sum() + n_new
            assert n_new > 0
            days = second.samples(step="day")
            assert days.n_fetches.sum() == after.n_fetches.sum()


def test_after_another_machine_takes_over_the_first_leases_nothing_more(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock
) -> None:
    with recrawl.open(tmp_path / "a", config, clock=clock) as first:
        first.add(URLS)
        orders = first.lease(10)
        with recrawl.open(tmp_path / "b", config, clock=clock) as second:
            assert second.stats().n_pages == 50
            assert second.stats().in_flight == 10
            clock.pass_seconds(5)
            with pytest.raises(OwnershipLost):
                first.lease(10)
            with pytest.raises(OwnershipLost):
                first.add(["https://other.example/"])
            # An outcome that its fetchers reported still counts.
            reported = [Outcome(handle=order.handle, digest=b"a") for order in orders[:4]]
            assert first.report(reported).counted.all()
            clock.pass_seconds(5)
            handles = {order.handle for order in second.lease(100)}
            assert handles.isdisjoint(order.handle for order in orders)
            assert second.stats().n_outcomes == 4
            rest = [Outcome(handle=order.handle, digest=b"a") for order in orders[4:]]
            assert second.report(rest).counted.all()
            first.refresh()
            second.refresh()
            assert state_of(first) == state_of(second)


def test_a_snapshot_ahead_of_the_topic_is_refused_and_a_repair_keeps_it_aside(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock
) -> None:
    with recrawl.open(tmp_path, config, clock=clock) as corpus:
        corpus.add(URLS)
        corpus.snapshot()
        expected = [contents["pages"] for _, contents in state_of(corpus)]
    newest = max((tmp_path / "snapshots" / "0").iterdir())
    newest.rename(newest.with_name(f"{99_999:020d}"))
    with pytest.raises(LogDamagedError, match=r"the topic has lost records.*Check ledger\.topic"):
        recrawl.open(tmp_path, config, clock=clock)
    results = list(repair_corpus(tmp_path, clock=clock))
    assert any("continues from what the topic has" in result.what for result in results)
    (aside,) = tmp_path.glob("damaged-*")
    assert (aside / "snapshots" / "0" / f"{99_999:020d}").is_dir()
    assert (aside / "store" / "0").is_dir()
    with recrawl.open(tmp_path, config, clock=clock) as corpus:
        assert corpus.stats().n_pages == 50
        assert [found["pages"] for _, found in state_of(corpus)] == expected


def test_the_topic_of_another_corpus_is_refused(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock
) -> None:
    with recrawl.open(tmp_path / "a", config, clock=clock) as first:
        first.add(URLS)
        ours = first.format.corpus_id
    with recrawl.open(tmp_path / "b", config, clock=clock) as second:
        assert second.format.corpus_id == ours  # a second machine takes over the id of the topic
    text = (tmp_path / "b" / "FORMAT").read_text()
    (tmp_path / "b" / "FORMAT").write_text(text.replace(str(ours), "0" * 32))
    with pytest.raises(IdentityError, match=f"corpus {ours}.*corpus {'0' * 32}"):
        recrawl.open(tmp_path / "b", config, clock=clock)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_raises_and_ends(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock
) -> None:
    with recrawl.open(tmp_path, config, clock=clock) as corpus:
        corpus.add(URLS)
        log, ledger = corpus._log, corpus.nodes[0].ledger

        def in_child() -> None:
            check_refused(lambda: corpus.add(["https://new.example/"]))
            check_refused(lambda: ledger.end)
            check_refused(lambda: ledger.append([]))
            corpus.close()
            log.close()

        run_in_child(in_child)
        assert corpus.add(["https://new.example/"]).n_added == 1


def test_a_consumer_of_the_change_feed_continues_where_it_committed(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock
) -> None:
    with recrawl.open(tmp_path, config, clock=clock) as corpus:
        corpus.add(URLS)
        corpus.report([Outcome(url=url, digest=b"a") for url in URLS[:20]])
        with recrawl.open(tmp_path, config, clock=clock, read_only=True) as reader:
            seen = reader.changes(consumer="nightly", limit=12)
            reader.commit_changes("nightly", seen[-1].cursor)
        clock.pass_seconds(60)
        corpus.report([Outcome(url=url, digest=b"b") for url in URLS[:5]])
    with recrawl.open(tmp_path, config, clock=clock) as corpus:
        assert corpus.consumers()[0].n_behind == 13
        assert len(corpus.changes(consumer="nightly")) == 13


def test_one_process_uses_a_folder_also_without_partitions(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock
) -> None:
    folder = tmp_path / "new"
    with recrawl.open(folder, config, clock=clock, partitions=[]) as first:
        for partitions in ([], [1], None):
            with pytest.raises(FolderInUse, match=r"new is in use by this process, \d+$"):
                recrawl.open(folder, config, clock=clock, partitions=partitions)
        with pytest.raises(LockedError, match="is using"):
            list(repair_corpus(folder, clock=clock))
        for i in range(2):
            first.open_partition(i)
        recrawl.open(folder, read_only=True, clock=clock).close()
    with pytest.raises(FolderInUse), recrawl.open(folder, config, clock=clock):
        resize_corpus(folder, 3)
    recrawl.open(folder, config, clock=clock, partitions=[]).close()


def test_nobody_opens_a_folder_while_a_repair_looks_for_damage(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The repair would move the files that another process has just opened."""
    folder, plan, looks = tmp_path / "new", repair._plan_on_kafka, []

    def look_and_plan(*args: Any) -> Any:
        with pytest.raises(FolderInUse):
            check_folder_is_free(folder)
        looks.append(folder)
        return plan(*args)

    recrawl.open(folder, config, clock=clock, partitions=[]).close()
    monkeypatch.setattr(repair, "_plan_on_kafka", look_and_plan)
    (found,) = repair_corpus(folder, clock=clock)
    assert "nothing to repair" in found.what
    assert looks == [folder]
    recrawl.open(folder, config, clock=clock, partitions=[]).close()
