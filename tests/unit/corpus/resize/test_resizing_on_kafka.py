"""``recrawl resize`` on a corpus whose log is on Kafka."""

import json
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import recrawl
from recrawl import Outcome
from recrawl.corpus import Corpus, CorpusConfig, present_config, resize_corpus
from recrawl.corpus.opening import adopt_successor
from recrawl.corpus.resize import resizing
from recrawl.errors import (
    ConfigError,
    CorpusError,
    FolderInUse,
    PartitionClosed,
    RecoveryError,
)
from recrawl.folder_lock import check_folder_is_free
from recrawl.node.durability.corpus_format import read_format
from recrawl.node.durability.shared_copies import SharedPartitions
from tests.manual_clock import ManualClock
from tests.unit.corpus.resize.filled import (
    SETTINGS,
    URLS,
    Filled,
    check,
    fill,
    hosts_of,
    pages_of,
)
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


def test_a_machine_with_the_new_topic_and_other_storage_is_refused(
    filled: Filled, tables: dict[str, Any], clock: ManualClock, tmp_path: Path
) -> None:
    """It would own partitions without their pages."""
    resized = resize_corpus(filled.folder, 3)
    tables["corpus"]["partitions"], tables["ledger"]["topic"] = 3, resized.topic
    tables["snapshots"] = {"shared": str(tmp_path / "elsewhere")}
    with pytest.raises(RecoveryError, match="does not have the pages"):
        recrawl.open(tmp_path / "new", CorpusConfig.from_dict(tables), clock=clock)


def test_a_new_corpus_may_have_a_topic_that_is_named_like_a_changed_one(
    tables: dict[str, Any], clock: ManualClock, tmp_path: Path
) -> None:
    tables["ledger"]["topic"] += ".g1"
    config = CorpusConfig.from_dict(tables)
    with recrawl.open(tmp_path / "new", config, clock=clock) as corpus:
        assert corpus.add(URLS).n_added == len(URLS)


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
    wanted = {"prepare", "send 2", "close 0", "close 1", "create topic", "copied", "publish 2"}
    wanted |= {"switch", "adopt"}
    assert wanted <= {*steps}
    with recrawl.open(filled.folder, config, clock=clock) as corpus:
        check(filled, corpus)


def test_what_workers_write_while_it_is_prepared_moves_as_well(
    filled: Filled, config: CorpusConfig, clock: ManualClock, tmp_path: Path
) -> None:
    before: dict[str, Any] = {}
    with recrawl.open(tmp_path / "worker", config, clock=clock) as worker:

        def write(step: str) -> None:
            clock.pass_seconds(10)
            match step:
                case "prepare":
                    worker.add([f"https://h{i}.new.example/" for i in range(50)])
                case "send 0":
                    worker.remove(URLS[100:120])
                    worker.add(URLS[40:50], doc_id=["again"] * 10)
                case "send 1":
                    orders = worker.lease(60, seconds=3_000)
                    done = [Outcome(handle=one.handle, digest=b"new") for one in orders[:40]]
                    worker.report(done)
                case "close 0":
                    worker.add(["https://h1.new.example/"], doc_id=["last"])
                    before["pages"], before["hosts"] = pages_of(worker), hosts_of(worker)
                    before["changes"] = changes_of(worker)

        resized = resize_corpus(filled.folder, 3, on_step=write)
    assert resized.n_pages == len(before["pages"])
    with recrawl.open(tmp_path / "other", config, clock=clock) as corpus:
        assert len(corpus.nodes) == 3
        assert pages_of(corpus) == before["pages"]
        assert hosts_of(corpus) == before["hosts"]
        assert changes_of(corpus) == before["changes"]


def changes_of(corpus: Corpus) -> list[tuple[int, str, str]]:
    found = corpus.changes(limit=10_000)
    return sorted((one.at_ms, str(one.url), str(one.what)) for one in found)


def test_nobody_opens_the_folder_before_it_has_the_new_partitions(
    filled: Filled, config: CorpusConfig, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was opened then would be removed under the hands of the other process."""
    adopt = adopt_successor

    def look_and_adopt(*args: Any) -> None:
        with pytest.raises(FolderInUse):
            check_folder_is_free(filled.folder)
        adopt(*args)

    monkeypatch.setattr(resizing, "adopt_successor", look_and_adopt)
    resize_corpus(filled.folder, 3)
    with recrawl.open(filled.folder, config, clock=clock) as corpus:
        check(filled, corpus)


def newest_epochs(config: CorpusConfig, folder: Path) -> set[int]:
    """Return the epochs of the snapshots that workers begin with after a resize."""
    format = read_format(folder)
    assert format is not None
    shared = SharedPartitions(config.snapshots)
    found = [shared.of(format.corpus_id, i) for i in range(format.partitions)]
    return {one.list_complete()[0].epoch for one in found if one is not None}


def test_a_resumed_attempt_does_not_use_snapshots_of_an_earlier_one(
    filled: Filled, config: CorpusConfig, clock: ManualClock, tmp_path: Path
) -> None:
    """Pages that were copied early may be in other slots."""
    stop_before(filled.folder, "publish 2")
    resize_corpus(filled.folder, 4)
    assert newest_epochs(config, filled.folder) == {1}
    with recrawl.open(filled.folder, config, clock=clock) as corpus:
        check(filled, corpus)


def test_two_attempts_at_the_same_time_do_not_mix(
    filled: Filled, config: CorpusConfig, clock: ManualClock, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(filled.folder, other)

    def stop_another(step: str) -> None:
        if step == "send 1":
            stop_before(other, "close 1")

    resize_corpus(filled.folder, 4, on_step=stop_another)
    assert newest_epochs(config, filled.folder) == {1}

    with recrawl.open(filled.folder, config, clock=clock) as corpus:
        check(filled, corpus)


def test_an_attempt_that_is_overtaken_removes_its_snapshots(
    filled: Filled, config: CorpusConfig, clock: ManualClock, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(filled.folder, other)

    def overtake(step: str) -> None:
        if step == "publish 0":
            resize_corpus(other, 4)

    with pytest.raises(CorpusError, match="meanwhile"):
        resize_corpus(filled.folder, 4, on_step=overtake)
    assert newest_epochs(config, other) == {1}
    with recrawl.open(other, config, clock=clock) as corpus:
        check(filled, corpus)


def test_an_attempt_leaves_the_snapshots_of_one_that_finishes_first(
    filled: Filled, config: CorpusConfig, clock: ManualClock, tmp_path: Path
) -> None:
    """It has begun later, and is about to publish its own when that one decides."""
    other = tmp_path / "other"
    shutil.copytree(filled.folder, other)
    is_ready, goes_on = threading.Event(), threading.Event()

    def wait(step: str) -> None:
        if step == "switch":
            is_ready.set()
            assert goes_on.wait(300)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(resize_corpus, filled.folder, 4, on_step=wait)
        assert is_ready.wait(300)

        def let_finish(step: str) -> None:
            if step == "publish 0":
                goes_on.set()
                first.result()

        with pytest.raises(CorpusError, match="meanwhile"):
            resize_corpus(other, 4, on_step=let_finish)
    assert newest_epochs(config, filled.folder) == {0}
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
