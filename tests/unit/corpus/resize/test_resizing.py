"""``recrawl resize`` on a corpus whose log is in its folder."""

import json
import shutil
from pathlib import Path

import pytest

import recrawl
from recrawl import Outcome
from recrawl.corpus import CorpusConfig, Severity, check_corpus, repair_corpus, resize_corpus
from recrawl.corpus.leasing.old_handles import OldHandles
from recrawl.errors import (
    ChangesLost,
    ConfigError,
    CorpusError,
    LockedError,
    RecoveryError,
    StorageError,
)
from recrawl.node.durability.corpus_format import read_format
from recrawl.node.durability.layout_switch import NEXT_LAYOUT
from tests.manual_clock import ManualClock
from tests.unit.corpus.resize.filled import SETTINGS, Filled, check, fill
from tests.unit.corpus.resize.resize_program import run_until_killed

pytestmark = pytest.mark.slow_without_jit


def config_of(partitions: int) -> CorpusConfig:
    return CorpusConfig.from_dict({"corpus": {"partitions": partitions}, **SETTINGS})


@pytest.fixture
def filled(tmp_path: Path, clock: ManualClock) -> Filled:
    return fill(tmp_path / "corpus", config_of(3), clock)


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_nothing_is_lost(filled: Filled, clock: ManualClock, partitions: int) -> None:
    resized = resize_corpus(filled.folder, partitions)
    assert (resized.partitions, resized.partitions_before) == (partitions, 3)
    assert resized.n_pages == len(filled.pages)
    assert resized.n_orders >= len(filled.open_orders)
    with recrawl.open(filled.folder, clock=clock) as corpus:
        assert len(corpus.nodes) == partitions
        check(filled, corpus)
    format = read_format(filled.folder)
    assert format is not None
    assert (format.partitions, format.generation, format.earlier) == (partitions, 1, (3,))


def test_doctor_accepts_a_configuration_with_the_old_number(
    filled: Filled, clock: ManualClock
) -> None:
    resize_corpus(filled.folder, 2)
    before = json.loads((filled.folder / "last-config.json").read_text())
    assert before["corpus"]["partitions"] == 3
    found = [*check_corpus(filled.folder, is_deep=True, clock=clock)]
    found += repair_corpus(filled.folder, clock=clock)
    assert [one for one in found if one.level == Severity.BAD] == []
    assert found[-1].check == "repair"
    with recrawl.open(filled.folder, clock=clock) as corpus:
        check(filled, corpus)


def test_a_second_change_keeps_handles_and_feed(filled: Filled, clock: ManualClock) -> None:
    resize_corpus(filled.folder, 2)
    with recrawl.open(filled.folder, clock=clock) as corpus:
        filled.cursor = corpus.changes(filled.cursor, limit=1)[0].cursor
        unread = [(one.at_ms, one.url) for one in corpus.changes(filled.cursor, limit=10_000)]
    resize_corpus(filled.folder, 5)
    with recrawl.open(filled.folder, clock=clock) as corpus:
        handles = [one.handle for one in filled.open_orders]
        assert corpus.extend(handles, seconds=900) == len(handles)
        found = [(one.at_ms, one.url) for one in corpus.changes(filled.cursor, limit=10_000)]
        assert {*unread} <= {*found}
        # Only changes of the same instant are read again.
        assert {at_ms for at_ms, _ in {*found} - {*unread}} <= {min(unread)[0]}
        # So does a consumer that has not read since before the first change.
        read = corpus.changes(consumer="reader", limit=10_000)
        assert {f"{one.url} {one.at_ms}" for one in read} >= filled.urls_unread
        assert [one.at_ms for one in read] == sorted(one.at_ms for one in read)
        begin = min(one.at_ms for one in read)
        again = {f"{one.url} {one.at_ms}" for one in read if one.at_ms > begin}
        assert again <= filled.urls_unread
        (reader,) = corpus.consumers()
        assert (reader.n_behind, reader.n_missed, reader.problem) == (len(read), 0, None)
        corpus.commit_changes("reader", read[-1].cursor)
        assert corpus.changes(consumer="reader") == []


def test_a_consumer_is_told_of_changes_that_were_removed_between_two_resizes(
    tmp_path: Path, clock: ManualClock
) -> None:
    folder = tmp_path / "corpus"
    urls = [f"https://h{i}.example/" for i in range(20)]
    with recrawl.open(folder, config_of(3), clock=clock) as corpus:
        corpus.add(urls)
        corpus.commit_changes("away", "oldest")
        for url in urls:
            clock.pass_seconds(1)
            corpus.report([Outcome(url=url, digest=b"1")])
        corpus.commit_changes("idle", "newest")
        corpus.commit_changes("half", corpus.changes(limit=10)[-1].cursor)
        half_ms = corpus.changes(limit=10)[-1].at_ms
    resize_corpus(folder, 2)
    with recrawl.open(folder, clock=clock) as corpus:
        for node in corpus.nodes:
            node.store.trim_changes(before_ms=half_ms + 1)
    for partitions in (4, 1):
        with recrawl.open(folder, clock=clock) as corpus:
            with pytest.raises(ChangesLost, match="away has missed"):
                corpus.changes(consumer="away")
            assert [one.url for one in corpus.changes(consumer="half")] == urls[10:]
            assert corpus.changes(consumer="idle") == []
        resize_corpus(folder, partitions)
    with recrawl.open(folder, clock=clock) as corpus:
        with pytest.raises(ChangesLost, match="away has missed"):
            corpus.changes(consumer="away")
        corpus.commit_changes("away", "oldest")
        assert [one.url for one in corpus.changes(consumer="away")] == urls[10:]


def test_the_configuration_may_name_the_old_number_or_the_new_one(
    filled: Filled, clock: ManualClock
) -> None:
    resize_corpus(filled.folder, 4)
    for partitions in (3, 4):
        with recrawl.open(filled.folder, config_of(partitions), clock=clock) as corpus:
            assert len(corpus.nodes) == 4
    with pytest.raises(ConfigError, match=r"corpus\.partitions is 4"):
        recrawl.open(filled.folder, config_of(5), clock=clock)


def test_the_same_number_changes_nothing(filled: Filled, clock: ManualClock) -> None:
    assert resize_corpus(filled.folder, 3).pause_seconds == 0.0
    with recrawl.open(filled.folder, clock=clock) as corpus:
        check(filled, corpus)


def test_a_corpus_in_use_is_refused(filled: Filled, clock: ManualClock) -> None:
    with recrawl.open(filled.folder, clock=clock) as corpus:
        with pytest.raises(LockedError):
            resize_corpus(filled.folder, 5)
        check(filled, corpus)


def test_impossible_numbers_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="partitions must be 1 to 4096, got 0"):
        resize_corpus(tmp_path, 0)
    with pytest.raises(CorpusError, match="is not a corpus"):
        resize_corpus(tmp_path, 2)


def test_it_can_be_killed_at_every_step(filled: Filled, clock: ManualClock) -> None:
    steps: list[str] = []
    while not run_until_killed(filled.folder, 4, steps):
        if steps[-1] in ("copied", "decide"):
            # Before the change is decided, the corpus is as it was.
            with recrawl.open(filled.folder, clock=clock) as corpus:
                assert len(corpus.nodes) == 3
                assert corpus.stats().in_flight == len(filled.open_orders)
        if steps[-1] == "switch":
            with recrawl.open(filled.folder, clock=clock) as corpus:
                assert len(corpus.nodes) == 4
    assert {"copy", "copied", "sync", "decide", "switch"} <= {*steps}
    with recrawl.open(filled.folder, clock=clock) as corpus:
        check(filled, corpus)


def test_old_handles_are_kept_in_a_file(tmp_path: Path) -> None:
    assert len(OldHandles.load(tmp_path)) == 0
    (tmp_path / "old-handles.npy").write_bytes(b"no numbers")
    with pytest.raises(StorageError, match="cannot be read"):
        OldHandles.load(tmp_path)


def test_new_partitions_are_not_opened_without_their_first_snapshots(
    filled: Filled, clock: ManualClock
) -> None:
    """Their logs begin with nothing: the pages came from the old ones."""
    resize_corpus(filled.folder, 4)
    snapshots = filled.folder / "snapshots"
    snapshots.rename(filled.folder / "away")
    shutil.rmtree(filled.folder / "store")
    with pytest.raises(RecoveryError, match="the pages from before the number of partitions"):
        recrawl.open(filled.folder, clock=clock)
    shutil.rmtree(snapshots, ignore_errors=True)
    (filled.folder / "away").rename(snapshots)
    with recrawl.open(filled.folder, clock=clock) as corpus:
        check(filled, corpus)


def test_what_an_interrupted_change_has_copied_is_forgotten_with_a_page(
    filled: Filled, clock: ManualClock
) -> None:
    def stop(step: str) -> None:
        if step == "decide":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        resize_corpus(filled.folder, 4, on_step=stop)
    assert (filled.folder / NEXT_LAYOUT / "store").exists()
    with recrawl.open(filled.folder, clock=clock) as corpus:
        corpus.forget([filled.pages[0]["url"]])
    assert not (filled.folder / NEXT_LAYOUT).exists()
