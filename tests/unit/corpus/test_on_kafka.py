"""A corpus with its log on Kafka works like any other, and yields to a new owner."""

from pathlib import Path
from typing import Any

import pytest

import recrawl
from recrawl import Outcome
from recrawl.corpus import Corpus, CorpusConfig, repair_corpus
from recrawl.errors import IdentityError, LogDamagedError, OwnershipLost
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
