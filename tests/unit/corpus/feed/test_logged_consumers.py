"""Places of consumers in the logs of partitions: durable, never back, moved with the pages."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pytest

import recrawl
from recrawl.corpus import Corpus, CorpusConfig, Outcome, resize_corpus
from recrawl.corpus.feed import consumers
from recrawl.errors import ChangesLost, OwnershipLost
from recrawl.node.records import ConsumersPlaced
from tests.manual_clock import ManualClock

Open: TypeAlias = Callable[..., Corpus]
URLS = [f"https://h{i % 7}.example/{i}" for i in range(20)]


@pytest.fixture
def open_logged(open_corpus: Open) -> Open:
    def open_one(partitions: int = 3) -> Corpus:
        corpus = open_corpus(corpus={"partitions": partitions})
        corpus.keep_places_in_log()
        return corpus

    return open_one


def report(corpus: Corpus, digest: bytes, urls: list[str] = URLS) -> None:
    assert corpus.report([Outcome(url=url, digest=digest) for url in urls]).counted.all()


def read(corpus: Corpus, name: str = "nightly", limit: int = 1_000) -> list[str]:
    changes = corpus.changes(consumer=name, limit=limit)
    if changes:
        assert corpus.commit_changes(name, changes[-1].cursor) == changes[-1].cursor
    return [change.url for change in changes]


def test_a_consumer_reads_each_change_once_and_needs_no_file(
    open_logged: Open, clock: ManualClock
) -> None:
    corpus = open_logged()
    corpus.add(URLS)
    assert read(corpus) == []
    report(corpus, b"1")
    assert sorted(read(corpus, limit=7) + read(corpus, limit=9) + read(corpus)) == sorted(URLS)
    clock.pass_seconds(60)
    report(corpus, b"2", URLS[:3])
    assert not (corpus.folder / "consumers").exists()
    corpus.close()
    corpus = open_logged()
    (one,) = corpus.consumers()
    assert (one.name, one.n_behind, one.n_missed, one.problem) == ("nightly", 3, 0, None)
    assert sorted(read(corpus)) == sorted(URLS[:3])
    assert read(corpus) == []
    assert corpus.remove_consumer("nightly")
    assert not corpus.remove_consumer("nightly")
    assert corpus.consumers() == []
    assert len(read(corpus)) == 23


def test_a_place_goes_back_only_if_that_is_wanted(open_logged: Open) -> None:
    corpus = open_logged()
    corpus.add(URLS)
    start = corpus.commit_changes("a", "oldest")
    report(corpus, b"1")
    end = corpus.changes()[-1].cursor.split("_")
    begin = start.split("_")
    # Two readers, each of which is ahead in another partition.
    first, second = "_".join([end[0], *begin[1:]]), "_".join([begin[0], *end[1:]])
    assert corpus.commit_changes("a", first) == first
    assert corpus.commit_changes("a", second) == "_".join(end)
    n_records = [node.position for node in corpus.nodes]
    assert corpus.commit_changes("a", first) == "_".join(end)
    assert [node.position for node in corpus.nodes] == n_records
    assert corpus.commit_changes("a", first, rewind=True) == first
    assert corpus.commit_changes("a", "oldest", rewind=True) == start
    assert corpus.consumers()[0].n_behind == 20
    corpus.commit_changes("a", "newest")
    assert (corpus.changes(consumer="a"), corpus.consumers()[0].n_behind) == ([], 0)
    with pytest.raises(ValueError, match="after the end"):
        corpus.commit_changes("a", "_".join(["999999.0"] * 3))
    with pytest.raises(ValueError, match="name of a consumer"):
        corpus.commit_changes("A b", "oldest")


def test_the_place_that_an_earlier_owner_commits_is_void(open_logged: Open) -> None:
    corpus = open_logged(1)
    corpus.commit_changes("a", "oldest")
    (node,) = corpus.nodes
    before = node.store.consumer_place("a")
    late = ConsumersPlaced(
        np.array([node.shard.epoch - 1], np.int64), pa.array(["a"]), pa.array([None], pa.binary())
    )
    (applied,) = node.submit([late])
    assert not applied.valid.any()
    assert node.store.consumer_place("a") == before
    node._owned_epoch -= 1  # another node has claimed it
    with pytest.raises(OwnershipLost):
        corpus.commit_changes("a", "newest")
    with pytest.raises(OwnershipLost):
        corpus.remove_consumer("a")
    assert node.store.consumer_place("a") == before
    node._owned_epoch += 1


def test_a_consumer_is_told_what_it_has_missed(
    open_logged: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = open_logged(2)
    corpus.add(URLS)
    corpus.commit_changes("late", "oldest")
    report(corpus, b"1")
    for node in corpus.nodes:
        node.store.trim_changes(before_ms=1 << 60)
    with pytest.raises(ChangesLost, match="late has missed 20 changes"):
        corpus.changes(consumer="late")
    assert corpus.consumers()[0].n_missed == 20
    corpus.commit_changes("late", "oldest")
    assert corpus.changes(consumer="late") == []
    monkeypatch.setattr(consumers, "CONSUMERS_MAX", 2)
    corpus.commit_changes("other", "oldest")
    with pytest.raises(ValueError, match="at most 2 consumers"):
        corpus.commit_changes("third", "oldest")
    batch = corpus.nodes[0].store.batch()
    batch.set_consumers(["other"], [b"{}"])
    corpus.nodes[0].store.write(batch, corpus.nodes[0].position)
    problem = corpus.consumers()[1].problem
    assert problem is not None
    assert "other cannot be read" in problem


def test_places_move_with_the_changes_to_other_partitions(
    tmp_path: Path, clock: ManualClock
) -> None:
    config = CorpusConfig.from_dict({"corpus": {"partitions": 3}})
    folder = tmp_path / "corpus"
    with recrawl.open(folder, config, clock=clock) as corpus:
        corpus.keep_places_in_log()
        corpus.add(URLS)
        corpus.commit_changes("new", "oldest")
        for i, url in enumerate(URLS):
            clock.pass_seconds(1)
            report(corpus, b"1", [url])
            if i == 11:
                half = corpus.commit_changes("half", "newest")
        corpus.commit_changes("all", "newest")
        assert len(half.split("_")) == 3
    for n_partitions in (5, 2):  # more than once, too
        resize_corpus(folder, n_partitions)
        with recrawl.open(folder, clock=clock) as corpus:
            corpus.keep_places_in_log()
            found = {one.name: (one.n_behind, one.problem) for one in corpus.consumers()}
            assert found == {"all": (0, None), "half": (8, None), "new": (20, None)}
            assert [one.url for one in corpus.changes(consumer="half")] == URLS[12:]
    with recrawl.open(folder, clock=clock) as corpus:
        corpus.keep_places_in_log()
        for node in corpus.nodes:
            node.store.trim_changes(before_ms=1 << 60)
    resize_corpus(folder, 3)
    with recrawl.open(folder, clock=clock) as corpus:
        corpus.keep_places_in_log()
        assert corpus.changes(consumer="all") == []
        for name in ("half", "new"):
            with pytest.raises(ChangesLost, match="missed"):
                corpus.changes(consumer=name)
            corpus.commit_changes(name, "oldest")
            assert corpus.changes(consumer=name) == []
