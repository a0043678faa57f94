"""Whatever fails while snapshots are copied or fetched, the log is never truncated too far."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import recrawl
from recrawl.corpus import Corpus, CorpusConfig
from recrawl.errors import RecrawlError, SnapshotError
from recrawl.ledger import SnapshotOrigin
from recrawl.ledger.shared_snapshots import SharedSnapshots
from recrawl.ledger.shared_storage import open_storage
from tests.manual_clock import ManualClock
from tests.s3_server import S3Server
from tests.unit.corpus.test_snapshots_in_storage import (
    config_of,
    copies_of,
    first_of,
    no_thread,
    pages_of,
    work,
)

__all__ = ["no_thread"]

pytestmark = pytest.mark.slow_without_jit

N_REQUESTS_MIN = 30


@pytest.fixture
def server() -> Iterator[S3Server]:
    running = S3Server()
    open_storage(running.uri).system.create_dir("bucket")
    yield running
    running.close()


@pytest.fixture
def config(kafka_bootstrap: str, kafka_topic: str, server: S3Server) -> CorpusConfig:
    return config_of(kafka_bootstrap, kafka_topic, server.uri)


def count_intact(corpus: Corpus, server: S3Server) -> int:
    """Return how many snapshots in the storage are intact and continued by the log."""
    assert corpus.format.corpus_id is not None
    origin = SnapshotOrigin(corpus.format.corpus_id, 0)
    shared = SharedSnapshots(*open_storage(server.uri), origin)
    n_intact = 0
    for one in shared.list_complete():
        with suppress(SnapshotError):
            shared.verify(one)
            n_intact += one.position >= first_of(corpus)
    return n_intact


@pytest.mark.parametrize("n_failing", [1, None], ids=["once", "from-then-on"])
def test_storage_may_fail_at_every_request_of_a_copy(
    tmp_path: Path,
    config: CorpusConfig,
    server: S3Server,
    clock: ManualClock,
    n_failing: int | None,
) -> None:
    with recrawl.open(tmp_path / "a", config, clock=clock) as a:
        work(a, "first", clock)
        work(a, "second", clock)
        assert first_of(a) > 0
        # Storage that stays away takes long to give up; the tests of uploads try every request.
        for k in range(0, 1000, 1 if n_failing == 1 else 7):
            before = first_of(a)
            server.requests.clear()
            server.fails_from, server.n_failing = k, n_failing
            work(a, f"x{k}", clock)
            is_over = len(server.requests) <= k
            server.fails_from = None
            # A truncation needs a second copy that is intact, and takes the log no further.
            assert count_intact(a, server) >= 2
            assert before <= first_of(a) <= copies_of(a)[1]
            if is_over:
                break
        assert k > N_REQUESTS_MIN
        expected = pages_of(a)
    with recrawl.open(tmp_path / "b", config, clock=clock) as b:
        assert pages_of(b) == expected


@pytest.mark.parametrize("n_failing", [1, None], ids=["once", "from-then-on"])
def test_storage_may_fail_at_every_request_of_an_opening(
    tmp_path: Path,
    config: CorpusConfig,
    server: S3Server,
    clock: ManualClock,
    n_failing: int | None,
) -> None:
    with recrawl.open(tmp_path / "a", config, clock=clock) as a:
        for name in "xyz":
            work(a, name, clock)
        assert first_of(a) > 0
        expected = pages_of(a)
    n_failed = n_opened = 0
    with recrawl.open(tmp_path / "b", config, clock=clock, partitions=[]) as b:
        for k in range(1000):
            server.requests.clear()
            server.fails_from, server.n_failing = k, n_failing
            try:
                b.open_partition(0)
            except RecrawlError:
                n_failed += 1
                assert not [*(tmp_path / "b" / "snapshots").glob("*/*")]
                assert len(server.requests) > k
                continue
            # Opened, perhaps from an older snapshot: complete in any case.
            n_opened += 1
            assert pages_of(b) == expected
            if len(server.requests) <= k:
                break
            b.close_partition(0, snapshot=False)
            shutil.rmtree(tmp_path / "b" / "snapshots")
            shutil.rmtree(tmp_path / "b" / "store")
    assert n_failed + n_opened > N_REQUESTS_MIN / 2
    assert n_opened == 1 if n_failing is None else n_failed < n_opened


PROGRAM = """
import json, os, sys
import recrawl
from recrawl.corpus import CorpusConfig
from recrawl.ledger.kafka import KafkaLedger
from recrawl.ledger.shared_snapshots import SharedSnapshots

folder, tables, step = sys.argv[1:]

def kill(*_, **__):
    os.kill(os.getpid(), 9)

corpus = recrawl.open(folder, CorpusConfig.from_dict(json.loads(tables)))
for name in "xyz":
    corpus.add([f"https://h{i % 7}.example/{name}/{i}" for i in range(20)])
    if name == "z":
        owner = KafkaLedger if step == "truncate" else SharedSnapshots
        setattr(owner, step, kill)
    corpus.snapshot()
"""


@pytest.mark.parametrize("step", ["_write", "verify", "truncate", "remove_old"])
def test_an_owner_may_be_killed_at_every_step(
    tmp_path: Path, kafka_bootstrap: str, kafka_topic: str, step: str
) -> None:
    config = config_of(kafka_bootstrap, kafka_topic, str(tmp_path / "shared"))
    arguments = [str(tmp_path / "a"), json.dumps(config.to_dict()), step]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], check=False, timeout=300)
    assert done.returncode == -signal.SIGKILL
    with recrawl.open(tmp_path / "b", config) as b:
        copies = copies_of(b)
        assert len(copies) == (2 if step == "_write" else 3)
        # Before the truncation of this round, that of the last one holds.
        assert first_of(b) == copies[1 if step == "remove_old" else -1]
        assert b.n_pages == 60
        b.snapshot()
        b.add(["https://later.example/"])
        b.snapshot()
        assert first_of(b) == copies_of(b)[1]
