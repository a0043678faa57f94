"""A repair continues from the newest state that is left, keeps all files, and may be killed."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recrawl
from recrawl import Corpus, CorpusConfig, Outcome
from recrawl.corpus import Severity, check_corpus, repair_corpus, resize_corpus
from recrawl.corpus.doctor import repair
from recrawl.errors import LockedError, LogDamagedError, RecoveryError
from recrawl.node.durability.log_damage import REPAIR_FILE
from tests.corpus_fixtures import IMPOLITE
from tests.manual_clock import ManualClock
from tests.unit.node.durability.test_log_damage import (
    files_in,
    remove_log,
    remove_write_ahead_log_of_log,
    truncate_write_ahead_log,
    urls,
)
from tests.unit.node.durability.test_recovery import crashed_copy

CONFIG = CorpusConfig.from_dict(
    {"politeness": IMPOLITE, "snapshots": {"every": "52w"}, "corpus": {"partitions": 2}}
)


def fetch_all(corpus: Corpus, digest: bytes) -> None:
    orders = corpus.lease(1000)
    corpus.report([Outcome(handle=order.handle, digest=digest) for order in orders])


def work(corpus: Corpus) -> None:
    """Fetch pages of two partitions, take snapshots, then add, lease and remove pages."""
    corpus.add(urls("a") + urls("b") + urls("c"))
    fetch_all(corpus, b"1")
    corpus.snapshot()
    corpus.add(urls("d") + urls("e"))
    corpus.remove(urls("a", 2))


@pytest.fixture
def killed(tmp_path: Path, clock: ManualClock) -> Path:
    """Return a copy of a corpus as a killed process leaves it."""
    with recrawl.open(tmp_path / "corpus", CONFIG, clock=clock) as corpus:
        work(corpus)
        return crashed_copy(tmp_path / "corpus", tmp_path / "killed")


def tracked(corpus: Corpus) -> set[str]:
    return {
        url for node in corpus.nodes for _, found in node.scan_urls() for url in found.to_pylist()
    }


EXPECTED = set(urls("a")[2:] + urls("b") + urls("c") + urls("d") + urls("e"))


@pytest.mark.parametrize(
    "damage", [remove_log, remove_write_ahead_log_of_log, truncate_write_ahead_log]
)
def test_a_repair_keeps_the_state_of_the_snapshot_and_all_pages(
    killed: Path, clock: ManualClock, damage: Callable[[Path], None]
) -> None:
    damage(killed)
    with pytest.raises(LogDamagedError):
        recrawl.open(killed, CONFIG, clock=clock)
    before = files_in(killed)
    results = list(repair_corpus(killed, clock=clock))
    assert all(result.level != Severity.BAD for result in results)
    (aside,) = killed.glob("damaged-*")
    kept = files_in(aside)
    assert {name: before[name] for name in kept} == kept
    assert {name.split("/")[0] for name in kept} >= {"store", "snapshots"}
    assert not (killed / REPAIR_FILE).exists()
    assert not (killed / "repair-draft").exists()
    with recrawl.open(killed, CONFIG, clock=clock) as corpus:
        assert tracked(corpus) == EXPECTED
        assert corpus.explain(urls("b")[0]) is not None
        assert len(corpus.changes()) == 15
        fetch_all(corpus, b"2")
        assert len(corpus.changes()) > 15
        states = [node.shard.digest() for node in corpus.nodes]
    with recrawl.open(killed, CONFIG, read_only=True, clock=clock) as corpus:
        assert [node.shard.digest() for node in corpus.nodes] == states
    bad = [one for one in check_corpus(killed, is_deep=True, clock=clock) if one.level == "bad"]
    assert not bad


def test_the_state_of_the_snapshot_is_used(killed: Path, clock: ManualClock) -> None:
    """Pages that the snapshot contains keep their history."""
    remove_log(killed)
    list(repair_corpus(killed, clock=clock))
    with recrawl.open(killed, CONFIG, clock=clock) as corpus:
        assert corpus.stats().n_outcomes == 15


def test_pages_come_back_if_snapshots_are_lost_after_the_number_of_partitions_was_changed(
    killed: Path, clock: ManualClock
) -> None:
    """The log begins with its first record, and does not have the pages."""
    recrawl.open(killed, CONFIG, clock=clock).close()
    resize_corpus(killed, 3)
    shutil.rmtree(killed / "snapshots")
    with pytest.raises(RecoveryError, match="no snapshot can be used"):
        recrawl.open(killed, clock=clock)
    bad = [one.check for one in check_corpus(killed, clock=clock) if one.level == Severity.BAD]
    assert {"snapshots 0", "snapshots 1", "snapshots 2"} <= {*bad}
    results = list(repair_corpus(killed, clock=clock))
    assert all(result.level != Severity.BAD for result in results)
    with recrawl.open(killed, clock=clock) as corpus:
        assert tracked(corpus) == EXPECTED


def test_keys_and_own_data_of_pages_come_back_from_the_store(
    tmp_path: Path, clock: ManualClock
) -> None:
    shape = {"partitions": 2, "group_by": "key"}
    config = CorpusConfig.from_dict({"corpus": shape, "snapshots": {"every": "52w"}})
    pages = urls("a") + urls("b")
    with recrawl.open(tmp_path / "corpus", config, clock=clock) as corpus:
        corpus.add(pages[:3], key="old", doc_id="before", metadata={"n": 1})
        corpus.snapshot()
        corpus.add(pages, key="shop", doc_id=pages, metadata={"n": 2})
        corpus.add(pages[:1], key="old", doc_id="after")
        corpus.remove(pages[1:2], key="old")
        damaged = crashed_copy(tmp_path / "corpus", tmp_path / "damaged")
    remove_log(damaged)
    list(repair_corpus(damaged, clock=clock))
    with recrawl.open(damaged, config, clock=clock) as corpus:
        rows = [row for batch in corpus.export_batches() for row in batch.to_pylist()]
    found = {(row["key"], row["url"]): (row["doc_id"], row["metadata"]) for row in rows}
    expected = {("shop", url): (url, '{"n":2}') for url in pages}
    expected |= {("old", pages[0]): ("after", '{"n":1}'), ("old", pages[2]): ("before", '{"n":1}')}
    assert found == expected


def test_without_snapshots_the_pages_of_the_store_are_added_again(
    tmp_path: Path, clock: ManualClock
) -> None:
    with recrawl.open(tmp_path, CONFIG, clock=clock) as corpus:
        corpus.add([*urls("a"), "HTTPS://B.example:443/x?b=1&a=2"])
        fetch_all(corpus, b"1")
        fetch_urls = {order.url: order.fetch_url for order in corpus.lease(10)}
    remove_log(tmp_path)
    results = list(repair_corpus(tmp_path, clock=clock))
    assert any("an empty state" in result.what for result in results)
    with recrawl.open(tmp_path, CONFIG, clock=clock) as corpus:
        assert corpus.stats().n_pages == 6
        assert len(corpus.changes()) == 6
        again = {order.url: order.fetch_url for order in corpus.lease(10)}
        assert all(again[url] == fetch_url for url, fetch_url in fetch_urls.items())


def test_lost_snapshots_of_a_truncated_log_are_repaired_from_the_store(
    tmp_path: Path, clock: ManualClock
) -> None:
    config = CorpusConfig.from_dict({"politeness": IMPOLITE, "snapshots": {"keep": 1}})
    with recrawl.open(tmp_path / "corpus", config, clock=clock) as corpus:
        work(corpus)
        corpus.snapshot()
        assert corpus.nodes[0].ledger.first > 0
    shutil.rmtree(tmp_path / "corpus/snapshots")
    with pytest.raises(RecoveryError, match="no snapshot can be used"):
        recrawl.open(tmp_path / "corpus", config, clock=clock)
    results = list(repair_corpus(tmp_path / "corpus", clock=clock))
    assert any("may be lost" in result.what for result in results)
    with recrawl.open(tmp_path / "corpus", config, clock=clock) as corpus:
        assert tracked(corpus) == EXPECTED


def test_a_log_that_this_user_may_not_read_is_not_put_aside(
    killed: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root may read everything, so the answer of the system is replaced.
    name = "recrawl.corpus.doctor.disk_checks.os.access"
    monkeypatch.setattr(name, lambda path, _: Path(path).suffix != ".log")
    truncate_write_ahead_log(killed)
    before = files_in(killed)
    (result,) = repair_corpus(killed, clock=clock)
    assert result.level == Severity.BAD
    assert "may not read" in result.what
    assert files_in(killed) == before


def test_reports_of_orders_from_before_do_not_count_for_other_pages(
    tmp_path: Path, clock: ManualClock
) -> None:
    with recrawl.open(tmp_path, CONFIG, clock=clock) as corpus:
        corpus.add(urls("a") + urls("b"))
        corpus.snapshot()
        orders = corpus.lease(10)
        assert len(orders) == 10
    remove_log(tmp_path)
    list(repair_corpus(tmp_path, clock=clock))
    with recrawl.open(tmp_path, CONFIG, clock=clock) as corpus:
        new = corpus.lease(10)
        assert len(new) == 10
        assert {order.handle for order in new}.isdisjoint(order.handle for order in orders)
        late = [Outcome(handle=order.handle, digest=b"x") for order in orders]
        assert not corpus.report(late).counted.any()
        assert corpus.report([Outcome(handle=o.handle, digest=b"x") for o in new]).counted.all()


def test_a_partition_that_is_not_damaged_keeps_its_log(killed: Path, clock: ManualClock) -> None:
    """Only one partition's snapshot is ahead of the log."""
    with recrawl.open(killed, CONFIG, clock=clock) as corpus:
        records = corpus.nodes[1].ledger.read(0)
        positions = [node.position for node in corpus.nodes]
    newest = max((killed / "snapshots" / "0").iterdir())
    newest.rename(newest.with_name(f"{positions[0] + 5:020d}"))
    results = list(repair_corpus(killed, clock=clock))
    assert any("partition 0" in result.check for result in results)
    assert not any("partition 1" in result.check for result in results)
    with recrawl.open(killed, CONFIG, clock=clock) as corpus:
        assert corpus.nodes[1].ledger.read(0)[: len(records)] == records
        assert corpus.nodes[0].ledger.first == positions[0] + 5
        assert tracked(corpus) == EXPECTED


def test_a_sound_corpus_stays_unchanged(killed: Path, clock: ManualClock) -> None:
    before = files_in(killed)
    (result,) = repair_corpus(killed, clock=clock)
    assert "nothing to repair" in result.what
    assert files_in(killed) == before


def test_a_corpus_in_use_is_not_repaired(tmp_path: Path, clock: ManualClock) -> None:
    with recrawl.open(tmp_path, CONFIG, clock=clock) as corpus:
        corpus.add(urls("a"))
        with pytest.raises(LockedError, match="is using"):
            list(repair_corpus(tmp_path, clock=clock))
        assert corpus.add(urls("b")).n_added == 5


class Killed(BaseException):
    """Stands for the end of the process."""


def kill_at(call: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise at the given call of a function that writes or moves something."""
    n_calls = 0

    def killing(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*given: Any, **named: Any) -> Any:
            nonlocal n_calls
            n_calls += 1
            if n_calls == call:
                raise Killed
            return function(*given, **named)

        return wrapper

    for name in ("create_folder", "sync_to_disk", "sync_tree", "_write_plan", "_restore_pages"):
        monkeypatch.setattr(repair, name, killing(getattr(repair, name)))
    monkeypatch.setattr(Path, "rename", killing(Path.rename))
    monkeypatch.setattr(Path, "unlink", killing(Path.unlink))


@pytest.mark.parametrize("call", range(1, 60, 3))
def test_a_repair_that_is_killed_is_finished_by_the_next(
    tmp_path: Path, clock: ManualClock, call: int
) -> None:
    config = CorpusConfig.from_dict({"politeness": IMPOLITE, "snapshots": {"every": "52w"}})
    with recrawl.open(tmp_path, config, clock=clock) as corpus:
        corpus.add(urls("a"))
        corpus.snapshot()
        corpus.add(urls("b"))
    remove_log(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        kill_at(call, patch)
        try:
            list(repair_corpus(tmp_path, clock=clock))
        except Killed:
            is_killed = True
        else:
            is_killed = False
    if is_killed and ((tmp_path / REPAIR_FILE).exists() or not list(tmp_path.glob("damaged-*"))):
        with pytest.raises(RecoveryError):
            recrawl.open(tmp_path, config, clock=clock)
    list(repair_corpus(tmp_path, clock=clock))
    with recrawl.open(tmp_path, config, clock=clock) as corpus:
        assert tracked(corpus) == set(urls("a") + urls("b"))
    (aside,) = tmp_path.glob("damaged-*")
    assert {path.name for path in aside.iterdir()} == {"store", "snapshots"}


def test_a_log_that_the_engine_cannot_open_is_replaced(killed: Path, clock: ManualClock) -> None:
    for path in (killed / "log").glob("MANIFEST-*"):
        path.write_bytes(b"damaged")
    results = list(repair_corpus(killed, clock=clock))
    assert all(result.level != Severity.BAD for result in results)
    with recrawl.open(killed, CONFIG, clock=clock) as corpus:
        assert tracked(corpus) == EXPECTED
    (aside,) = killed.glob("damaged-*")
    assert (aside / "log").is_dir()


def test_the_log_of_another_corpus_is_not_repaired(
    killed: Path, tmp_path: Path, clock: ManualClock
) -> None:
    recrawl.open(tmp_path / "other", CONFIG, clock=clock).close()
    remove_log(killed)
    shutil.copytree(tmp_path / "other" / "log", killed / "log")
    with pytest.raises(recrawl.errors.IdentityError):
        list(repair_corpus(killed, clock=clock))
