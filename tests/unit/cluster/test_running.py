"""A worker refuses settings that workers cannot share, and begins again only after a resize."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from recrawl.cluster import rotate_cluster_keys, running
from recrawl.cluster.members.heartbeats import Heartbeat
from recrawl.corpus import CorpusConfig
from recrawl.errors import ConfigError

WAIT_SECONDS = 300.0
URL = "http://127.0.0.1:8377/"
IDENTITY = Heartbeat(worker="a", instance="", started_at_ms=0)


class Layout:
    """A corpus whose number of partitions was changed; it says so when it may."""

    def __init__(self) -> None:
        self.config = CorpusConfig()
        self.nodes = SimpleNamespace(n_partitions=1)
        self.quotas = self.split_hosts = self.now_ms = None
        self.is_asked, self.may_answer = threading.Event(), threading.Event()

    def has_moved(self) -> bool:
        self.is_asked.set()
        assert self.may_answer.wait(WAIT_SECONDS)
        return True


class Process:
    """What a worker does to its process and to the cluster."""

    def __init__(self, corpus: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
        self.corpus = corpus
        self._monkeypatch = monkeypatch
        self.signalled = threading.Event()
        self.steps: list[str] = []

    def kill(self, pid: int, number: int) -> None:
        assert (pid, number) == (os.getpid(), signal.SIGTERM)
        self.steps.append("signal")
        self.signalled.set()

    def make_worker(self, *_: Any, **__: Any) -> Any:
        def leave() -> bool:
            self.steps.append("leave")
            return True

        def stop() -> None:
            self.steps.append("stop")

        return SimpleNamespace(start=lambda: None, leave=leave, stop=stop)

    def serve(self, serve_corpora: Callable[..., None]) -> Any:
        """Run a worker with another server; return where it begins again."""
        patch = self._monkeypatch.setattr
        patch(running, "_WATCH_SECONDS", 0.001)
        patch(running, "open_corpus", lambda *_, **__: nullcontext(self.corpus))
        patch(running, "serve_corpora", serve_corpora)
        patch(running, "Worker", self.make_worker)
        patch(os, "kill", self.kill)
        for name in ("open_control", "ClusterCorpus", "WorkerCalls", "ForwardedRequests"):
            patch(running, name, lambda *_, **__: None)
        keys: Any = SimpleNamespace(accepted_ids=tuple)
        return running._serve_layout(Path("a"), IDENTITY, keys, "corpus", lambda _: None)


def watches() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "recrawl-layout"]


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    made = Process(Layout(), monkeypatch)
    yield made
    made.corpus.may_answer.set()
    for one in watches():  # before signals reach this process again
        one.join()


def test_a_worker_begins_again_after_the_signal_of_its_watch(process: Process) -> None:
    def serve(*_: Any, on_ready: Any, before_stop: Any, **__: Any) -> None:
        on_ready(URL)
        process.corpus.may_answer.set()
        assert process.signalled.wait(WAIT_SECONDS)
        before_stop()

    assert process.serve(serve) == URL
    assert process.steps == ["signal", "stop"]


def test_a_worker_ends_if_an_operator_stops_it_while_partitions_change(process: Process) -> None:
    def serve(*_: Any, on_ready: Any, before_stop: Any, **__: Any) -> None:
        on_ready(URL)
        assert process.corpus.is_asked.wait(WAIT_SECONDS)
        before_stop()
        process.corpus.may_answer.set()

    assert process.serve(serve) is None
    assert process.steps == ["leave", "stop"]


def test_after_an_error_of_the_server_nothing_ends_the_process(process: Process) -> None:
    def serve(*_: Any, on_ready: Any, **__: Any) -> None:
        on_ready(URL)
        assert process.corpus.is_asked.wait(WAIT_SECONDS)
        threading.Timer(0.1, process.corpus.may_answer.set).start()
        raise OSError("the port is taken")

    with pytest.raises(OSError, match="the port is taken"):
        process.serve(serve)
    assert watches() == []
    assert process.steps == []


def test_an_error_before_the_server_listens_is_raised(process: Process) -> None:
    def serve(*_: Any, **__: Any) -> None:
        raise OSError("the port is taken")

    with pytest.raises(OSError, match="the port is taken"):
        process.serve(serve)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"budget": {"rate": "500/run"}}, r"no budget per run .* Give a rate, such as"),
        (
            {"holdout": {"share": 0.2, "interval": "1d"}},
            r"holds no hosts out, got holdout\.share = 0\.2: .* Delete the section \[holdout\]",
        ),
        ({"ledger": {"kind": "kafka", "bootstrap": "k:9092", "topic": "t"}}, r"snapshots\.shared"),
    ],
)
def test_settings_that_workers_cannot_share_are_refused(
    sections: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        running.check_worker_config(CorpusConfig.from_dict(sections))


def test_a_share_of_0_holds_no_hosts_out() -> None:
    running.check_worker_config(CorpusConfig.from_dict({"holdout": {"share": 0, "interval": "1d"}}))


def test_others_must_be_able_to_reach_a_worker(tmp_path: Path) -> None:
    keys = tmp_path / "cluster.keys"
    rotate_cluster_keys(keys, 1)
    for host in ("0.0.0.0", "::"):
        with pytest.raises(ConfigError, match=r"such as --address http://10\.1\.0\.7:8377/"):
            running.run_worker(tmp_path, worker="a", keys=keys, host=host)
    with pytest.raises(ValueError, match=r"got '10\.1\.0\.7:8377'"):
        running.run_worker(tmp_path, worker="a", keys=keys, host="::", address="10.1.0.7:8377")


def test_what_a_worker_is_started_with_is_checked_and_named(tmp_path: Path) -> None:
    keys = tmp_path / "cluster.keys"

    def check(match: str) -> None:
        with pytest.raises(ConfigError, match=match):
            running.check_worker_start(tmp_path, worker="a", keys=keys)

    check(r"the cluster keys in \S+/cluster\.keys cannot be read: .*\n.*rotate-keys")
    keys.write_text("\nsecret\n")
    check(r"line 2 of \S+/cluster\.keys is not a cluster key\.\nCopy the file .*rotate-keys")
    keys.write_text("\n")
    check(r"\S+/cluster\.keys must have 1 to 16 keys, got 0\.\nCopy the file")
    keys.unlink()
    rotate_cluster_keys(keys, 1)
    toml = tmp_path / "recrawl.toml"
    toml.write_text("")
    check(r'recrawl\.toml has ledger\.kind = "rocksdb", and a worker needs "kafka"')
    toml.write_text('[ledger]\nkind = "kafka"\nbootstrap = "k:9092"\ntopic = "t"\n')
    check(r"set snapshots\.shared")
    toml.write_text(toml.read_text() + '[snapshots]\nshared = "s3://bucket"\n')
    assert running.check_worker_start(tmp_path, worker="a", keys=keys).sign("m", 2)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "é", "a" * 129, "a\n"])
def test_a_worker_begins_with_a_name_of_plain_characters(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"letters, digits, '\.', '-' and '_', got"):
        running.run_worker(tmp_path, worker=name, keys=tmp_path / "none")
    running.check_new_name("web-3.example_1")


def test_a_disk_that_was_full_needs_twice_the_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free: int | None = running.FREE_BYTES_MIN

    def usage(folder: Path) -> Any:
        assert folder == tmp_path
        if free is None:
            raise OSError("the disk is away")
        return SimpleNamespace(free=free)

    monkeypatch.setattr("recrawl.cluster.running.shutil.disk_usage", usage)
    disk = running._DiskSpace(tmp_path)
    assert disk.has_space()
    free = running.FREE_BYTES_MIN - 1
    assert not disk.has_space()
    free = 2 * running.FREE_BYTES_MIN - 1
    assert not disk.has_space()
    free = 2 * running.FREE_BYTES_MIN
    assert disk.has_space()
    free = running.FREE_BYTES_MIN
    assert disk.has_space()
    free = None
    assert not disk.has_space()
