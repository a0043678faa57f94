"""A corpus on Kafka is restored as of a time before or after its number of partitions changed."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import recrawl
from recrawl.corpus import CorpusConfig, resize_corpus, restore_corpus_at
from recrawl.errors import BackupError
from recrawl.node.durability.corpus_format import read_format
from recrawl.shard import Closed
from recrawl.shard.events import event_of
from tests.manual_clock import ManualClock
from tests.unit.corpus.test_snapshots_in_storage import config_of, no_thread, pages_of, work

__all__ = ["no_thread"]

pytestmark = pytest.mark.slow_without_jit


class Resized:
    """A corpus that got three partitions instead of two, and its pages before and after."""

    def __init__(self, config: CorpusConfig, folder: Path, clock: ManualClock) -> None:
        self.old_config, self.folder, self.clock = config, folder, clock
        self.at_ms: dict[str, int] = {}
        self.pages: dict[str, list[dict[str, Any]]] = {}
        self.asleep = folder.with_name("asleep")
        with recrawl.open(folder, config, clock=clock) as corpus:
            work(corpus, "u", clock)
            for node in corpus.nodes:
                # The attempt of a worker that had lost its claim: it is void.
                node.submit([event_of(Closed, epoch=0, generation=1, n_partitions=3)])
            corpus.add([f"https://h{i}.example/u/later" for i in range(7)])
            self._note("before", corpus)
            work(corpus, "v", clock)
            self._note("end", corpus)
        shutil.copytree(folder, self.asleep)
        resize_corpus(folder, 3)
        with recrawl.open(folder, config, clock=clock) as corpus:
            self.config = corpus.config
            work(corpus, "w", clock)
            self._note("after", corpus)
            work(corpus, "x", clock)
            self._note("later", corpus)

    def _note(self, name: str, corpus: recrawl.Corpus) -> None:
        # A lease writes the time to the log.
        self.clock.pass_seconds(60)
        corpus.lease(1)
        self.at_ms[name], self.pages[name] = self.clock.wall_ms(), pages_of(corpus)
        self.clock.pass_seconds(60)

    def folder_with(self, config: CorpusConfig, name: str) -> Path:
        """Return a folder that has nothing but a configuration."""
        folder = self.folder.with_name(name)
        folder.mkdir()
        (folder / "last-config.json").write_text(json.dumps(config.to_dict()))
        return folder

    def check(self, source: Path, at: str, generation: int) -> None:
        """Check that a folder is restored as it was at a time, and can be worked with."""
        target = source.with_name(f"{source.name}-{at}")
        restore_corpus_at(source, target, self.at_ms[at])
        shape = read_format(target)
        assert shape is not None
        assert (shape.generation, shape.partitions) == (generation, 3 if generation else 2)
        with recrawl.open(target, clock=self.clock) as corpus:
            found = pages_of(corpus)
            for row in (*found, *self.pages[at]):
                row.pop("is_in_flight", None)  # leases have expired meanwhile
            assert found == self.pages[at]
            assert corpus.add([f"https://new.example/{at}"]).n_added == 1
            (order,) = corpus.lease(1)
            assert corpus.report(recrawl.Outcome(handle=order.handle, digest=b"x")).counted.all()


@pytest.fixture
def resized(kafka_bootstrap: str, kafka_topic: str, tmp_path: Path, clock: ManualClock) -> Resized:
    config = config_of(kafka_bootstrap, kafka_topic, str(tmp_path / "shared"), n_partitions=2)
    return Resized(config, tmp_path / "corpus", clock)


def test_a_time_after_the_change_is_restored_from_the_new_topic(resized: Resized) -> None:
    """The configuration of the corpus may still name the old topic."""
    (resized.folder / "last-config.json").write_text(json.dumps(resized.old_config.to_dict()))
    new = resized.folder_with(resized.config, "new")
    for source, at in ((resized.folder, "after"), (resized.folder, "later"), (new, "later")):
        resized.check(source, at, 1)


def test_where_only_the_old_topic_is_known_each_time_is_restored_from_its_own_topic(
    resized: Resized,
) -> None:
    for source in (resized.folder_with(resized.old_config, "old"), resized.asleep):
        resized.check(source, "before", 0)
        resized.check(source, "end", 1)  # the new partitions begin with this moment
        resized.check(source, "later", 1)


def test_the_end_of_the_old_log_is_restored_without_what_closes_it(resized: Resized) -> None:
    """Snapshots of the new partitions that old ones have replaced are not needed."""
    shape = read_format(resized.folder)
    assert shape is not None
    shutil.rmtree(resized.folder.with_name("shared") / str(shape.corpus_id))
    resized.at_ms["end"] = resized.at_ms["later"]
    resized.check(resized.folder_with(resized.old_config, "old"), "end", 0)


def test_a_time_before_the_change_is_refused_where_only_the_new_topic_is_known(
    resized: Resized,
) -> None:
    target = resized.folder.with_name("restored")
    for source in (resized.folder, resized.folder_with(resized.config, "new")):
        with pytest.raises(BackupError, match=r"was changed to 3.*names the old topic"):
            restore_corpus_at(source, target, resized.at_ms["before"])
        assert not target.exists()


def test_a_chain_of_changes_is_followed(resized: Resized) -> None:
    resize_corpus(resized.folder, 2)
    # The new logs have all their records, but their first snapshots are later.
    with pytest.raises(BackupError, match="was changed to 2"):
        restore_corpus_at(resized.folder, resized.folder / "empty", resized.at_ms["before"])
    old = resized.folder_with(resized.old_config, "old")
    resized.check(old, "before", 0)
    resized.check(old, "after", 1)
    target = resized.folder.with_name("restored")
    restore_corpus_at(old, target, resized.clock.wall_ms())
    shape = read_format(target)
    assert shape is not None
    assert (shape.generation, shape.partitions) == (2, 2)
