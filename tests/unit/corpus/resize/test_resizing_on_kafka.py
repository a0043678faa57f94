"""``recrawl resize`` on a corpus whose log is on Kafka."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import recrawl
from recrawl import Outcome
from recrawl.corpus import CorpusConfig, present_config, resize_corpus
from recrawl.errors import ConfigError, CorpusError, PartitionClosed
from tests.manual_clock import ManualClock
from tests.unit.corpus.resize.filled import SETTINGS, URLS, Filled, check, fill
from tests.unit.corpus.resize.resize_program import run_until_killed

pytestmark = pytest.mark.slow_without_jit


@pytest.fixture
def tables(kafka_bootstrap: str, kafka_topic: str, tmp_path: Path) -> dict[str, Any]:
    ledger = {"kind": "kafka", "bootstrap": kafka_bootstrap, "topic": kafka_topic, "replication": 1}
    shared = {"shared": str(tmp_path / "shared")}
    return {"corpus": {"partitions": 2}, "ledger": ledger, "snapshots": shared, **SETTINGS}


@pytest.fixture
def config(tables: dict[str, Any]) -> CorpusConfig:
    return CorpusConfig.from_dict(tables)


@pytest.fixture
def filled(tmp_path: Path, config: CorpusConfig, clock: ManualClock) -> Filled:
    return fill(tmp_path / "corpus", config, clock)


def test_nothing_is_lost_and_other_machines_go_on_with_the_new_topic(
    filled: Filled, config: CorpusConfig, clock: ManualClock, tmp_path: Path
) -> None:
    other, third = tmp_path / "other", tmp_path / "third"
    shutil.copytree(filled.folder, other)
    resized = resize_corpus(filled.folder, 5)
    assert resized.topic == f"{config.ledger.topic}.g1"
    # A machine with files of the old partitions, and one with nothing but the configuration.
    with recrawl.open(other, config, clock=clock) as corpus:
        assert len(corpus.nodes) == 5
        assert corpus.config.ledger.topic == resized.topic
    with recrawl.open(third, config, clock=clock) as corpus:
        shutil.copytree(filled.folder / "consumers", third / "consumers")
        check(filled, corpus)
    assert present_config(filled.folder).corpus.partitions == 5


def test_a_machine_may_be_given_the_new_topic(
    filled: Filled, tables: dict[str, Any], clock: ManualClock, tmp_path: Path
) -> None:
    resized = resize_corpus(filled.folder, 3)
    tables["corpus"]["partitions"], tables["ledger"]["topic"] = 3, resized.topic
    with recrawl.open(tmp_path / "new", CorpusConfig.from_dict(tables), clock=clock) as corpus:
        assert corpus.format.generation == 1
        assert corpus.stats().n_pages == len(filled.pages)
        again = corpus.lease(1)
        assert corpus.report(Outcome(handle=again[0].handle, digest=b"x")).counted.all()


def stop_before(folder: Path, step: str) -> None:
    """Change the number of partitions up to a step."""

    def stop(name: str) -> None:
        if name.startswith(step):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        resize_corpus(folder, 4, on_step=stop)


def test_what_is_written_after_the_end_of_a_log_is_not_acknowledged(
    filled: Filled, config: CorpusConfig, clock: ManualClock, tmp_path: Path
) -> None:
    """A worker that stood still while the partitions were closed writes, and must be told."""
    with recrawl.open(tmp_path / "asleep", config, clock=clock) as asleep:
        (order,) = asleep.lease(1)
        stop_before(filled.folder, "create topic")
        for call in (
            lambda: asleep.report(Outcome(handle=order.handle, digest=b"late")),
            lambda: asleep.add(["https://late.example/"]),
            lambda: asleep.signal(URLS[70:90], source="sitemap"),
            lambda: asleep.lease(3),
            lambda: asleep.release([order.handle]),
        ):
            with pytest.raises(PartitionClosed, match="try again"):
                call()
    with pytest.raises(PartitionClosed):
        recrawl.open(tmp_path / "late", config, clock=clock)
    with pytest.raises(CorpusError, match="is being changed to 4"):
        resize_corpus(filled.folder, 6)
    resize_corpus(filled.folder, 4)
    with recrawl.open(filled.folder, clock=clock) as corpus:
        assert corpus.explain("https://late.example/") is None
        # The fetcher sends its report again.
        assert corpus.report(Outcome(handle=order.handle, digest=b"late")).counted.all()
        assert corpus.add(["https://late.example/"]).n_added == 1


def test_it_can_be_killed_at_every_step(
    filled: Filled, config: CorpusConfig, clock: ManualClock
) -> None:
    steps: list[str] = []
    while not run_until_killed(filled.folder, 3, steps):
        pass
    wanted = {"close 0", "close 1", "create topic", "copied", "publish 2", "switch", "adopt"}
    assert wanted <= {*steps}
    with recrawl.open(filled.folder, config, clock=clock) as corpus:
        check(filled, corpus)


def test_snapshots_must_be_where_all_machines_reach_them(
    filled: Filled, clock: ManualClock, config: CorpusConfig
) -> None:
    path = filled.folder / "last-config.json"
    tables = json.loads(path.read_text())
    del tables["snapshots"]
    path.write_text(json.dumps(tables))
    with pytest.raises(ConfigError, match=r"set snapshots\.shared"):
        resize_corpus(filled.folder, 3)
    with recrawl.open(filled.folder, config, clock=clock) as corpus:
        check(filled, corpus)
