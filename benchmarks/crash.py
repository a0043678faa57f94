"""Kill a writer at random moments, and check that the corpus keeps everything it acknowledged.

A child process opens a corpus of several partitions.  Several threads of it add, remove, set,
lease, report, release and signal at random; another one takes snapshots.  Each writes to a pipe
what it is about to do and what the corpus has acknowledged.  The child is killed with SIGKILL at a
random moment, also while it opens the corpus.  The next child opens the same corpus, compares it
with everything that the corpus acknowledged to earlier children, and settles every operation in
doubt: it was done completely or not at all in each partition.

After some kills the end of the log is cut off in a copy of the corpus.  Either that took only what
was never acknowledged, or the corpus must refuse to open.

Children are forked from a process that has loaded and compiled everything and opened nothing.
"""

import json
import os
import pickle
import random
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import recrawl
from benchmarks.acknowledged import Acknowledged
from benchmarks.workload import CONFIG, Worker
from recrawl.corpus import CorpusConfig
from recrawl.errors import RecrawlError
from recrawl.ledger import SnapshotFolder
from recrawl.node.durability.log_opening.open_log import open_log
from recrawl.node.durability.recovery import Partition, recover_node
from recrawl.node.routing import split_by_partition
from recrawl.shard import Claimed, Outcomes, PagesAdded, Shard, Signals, event_of
from recrawl.testing.stores import contents_of
from recrawl.urls import hash_urls, host_index

__all__ = ["measure"]

_N_PARTITIONS = 3
_N_THREADS = 3
_PAGES_PER_CALL = 60
# After so many kills the log of a copy is cut; a child compares with a replay as often.
_CUT_EVERY = 5
_REPLAY_EVERY = 20
_CUT_BYTES_MAX = 20_000


def _corpus_config(ledger: dict[str, Any]) -> CorpusConfig:
    return CorpusConfig.from_dict(
        {
            **CONFIG,
            "corpus": {"partitions": _N_PARTITIONS},
            "ledger": ledger,
            # Snapshots are never deleted, so that the log can be replayed from its beginning.
            "snapshots": {"keep": 100_000},
        }
    )


def _check_replay(folder: Path, config: CorpusConfig) -> None:
    """Compare a recovered corpus with a replay of its log from the beginning."""
    log = open_log(folder, config)
    try:
        for i in range(_N_PARTITIONS):
            snapshots = SnapshotFolder(folder / "snapshots" / str(i))
            kept = Partition(i, log.partition(i), folder / "store" / str(i), snapshots)
            with tempfile.TemporaryDirectory() as scratch:
                empty = SnapshotFolder(Path(scratch) / "n")
                anew = Partition(i, log.partition(i), Path(scratch) / "s", empty)
                live, replayed = recover_node(kept), recover_node(anew)
                same = live.shard.digest() == replayed.shard.digest()
                assert same, f"the shard of partition {i} differs from a replay"
                assert live.position == replayed.position
                n_slots = int(live.shard.tables.registers.n_slots[0])
                same = contents_of(live.store, n_slots) == contents_of(replayed.store, n_slots)
                assert same, f"the store of partition {i} differs from a replay"
                live.store.close()
                replayed.store.close()
    finally:
        log.close()


def _run_operations(
    corpus: recrawl.Corpus, name: str, seed: int, say: Callable[[dict[str, Any]], None]
) -> None:
    """Run random operations in several threads for ever, and snapshots beside them."""

    def work(thread: int) -> None:
        rng = random.Random(f"{seed} {thread}")
        worker = Worker(corpus, f"{name}t{thread}", rng, say, batch_max=_PAGES_PER_CALL)
        try:
            while True:
                worker.step()
        except BaseException:
            say({"failed": traceback.format_exc()})

    for i in range(_N_THREADS):
        threading.Thread(target=work, args=(i,), daemon=True).start()
    rng = random.Random(seed)
    while True:
        # Snapshots run beside the operations, so that kills interrupt snapshots too.
        time.sleep(rng.uniform(0.0, 0.3))
        corpus.snapshot()


def _run_child(
    folder: Path,
    config: CorpusConfig,
    acknowledged: Acknowledged,
    settled: Path,
    seed: int,
    write_fd: int,
    *,
    is_last: bool,
) -> None:
    turn = threading.Lock()

    def say(line: dict[str, Any]) -> None:
        data = memoryview(json.dumps(line).encode() + b"\n")
        with turn:
            while data:
                data = data[os.write(write_fd, data) :]

    try:
        if is_last or seed % _REPLAY_EVERY == _REPLAY_EVERY - 1:
            _check_replay(folder, config)
        with recrawl.open(folder, config) as corpus:
            acknowledged.check(corpus)
            settled.write_bytes(pickle.dumps(acknowledged))
            say({"checked": True})
            if not is_last:
                _run_operations(corpus, f"k{seed}", seed, say)
    except BaseException:
        say({"failed": traceback.format_exc()})
    os._exit(0)


class _Killer:
    """Runs children one after the other, kills them, and keeps the account.

    Parameters
    ----------
    folder
        Folder of the corpus.
    scratch
        Folder for other files.
    config
        Configuration of the corpus.
    rng
        Source of randomness for the moments.
    """

    def __init__(
        self, folder: Path, scratch: Path, config: CorpusConfig, rng: random.Random
    ) -> None:
        self._folder = folder
        self._settled = scratch / "settled"
        self._copy = scratch / "copy"
        self._config = config
        self._rng = rng
        self.acknowledged = Acknowledged(_N_PARTITIONS)
        self.n_checked = 0
        self.n_cut = 0
        self.n_cut_refused = 0

    def run_child(self, i: int, *, is_last: bool = False) -> None:
        """Run a child, kill it after some time, and record its lines."""
        read_fd, write_fd = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read_fd)
            account = (self.acknowledged, self._settled)
            _run_child(self._folder, self._config, *account, i, write_fd, is_last=is_last)
        os.close(write_fd)
        # One child in eight is killed while it opens the corpus, the others after some work.
        is_early = self._rng.random() < 0.125 and not is_last
        seconds = self._rng.uniform(0.02, 0.4) if is_early else 3600.0 if is_last else 300.0
        lines: list[dict[str, Any]] = []
        reader = _LineReader(read_fd)
        for line in reader.until(time.monotonic() + seconds):
            lines.append(line)
            if "failed" in line or "checked" in line:
                break
        if lines and "checked" in lines[-1] and not is_last:
            lines += reader.until(time.monotonic() + self._rng.uniform(0.0, 1.0))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        lines += reader.until(time.monotonic() + 60.0)
        os.close(read_fd)
        self._record(lines)

    def _record(self, lines: list[dict[str, Any]]) -> None:
        for line in lines:
            if "failed" in line:
                raise AssertionError(line["failed"])
            if "checked" in line:
                self.n_checked += 1
                self.acknowledged = pickle.loads(self._settled.read_bytes())
            else:
                self.acknowledged.record(line)
        self.acknowledged.died()

    def cut_log(self) -> None:
        """Cut the end of the log in a copy of the corpus; it must be noticed if it matters."""
        shutil.copytree(self._folder, self._copy)
        newest = max((self._copy / "log").glob("*.log"), default=None)
        if newest is not None and (size := newest.stat().st_size):
            os.truncate(newest, size - self._rng.randint(1, min(size, _CUT_BYTES_MAX)))
            self.n_cut += 1
            pid = os.fork()
            if pid == 0:
                os._exit(_open_cut_copy(self._copy, self._config, self.acknowledged))
            _, status = os.waitpid(pid, 0)
            answer = os.waitstatus_to_exitcode(status)
            assert answer in (0, 1), "records were lost with the end of the log, unnoticed"
            self.n_cut_refused += answer
        shutil.rmtree(self._copy)


def _open_cut_copy(folder: Path, config: CorpusConfig, acknowledged: Acknowledged) -> int:
    """Return 0 if a corpus has everything acknowledged, 1 if it refuses to open, 2 otherwise."""
    try:
        corpus = recrawl.open(folder, config)
    except RecrawlError:
        return 1
    try:
        with corpus:
            acknowledged.check(corpus)
    except BaseException:
        traceback.print_exc()
        return 2
    return 0


class _LineReader:
    """Lines of a pipe, which may be read in several calls."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._rest = b""

    def until(self, deadline: float) -> Iterator[dict[str, Any]]:
        """Yield lines until the deadline, or until the pipe ends."""
        while True:
            *lines, self._rest = self._rest.split(b"\n")
            for k, line in enumerate(lines):
                # The caller may stop after any line; the next call yields the other ones.
                self._rest = b"\n".join([*lines[k + 1 :], self._rest])
                yield json.loads(line)
                break
            if lines:
                continue
            wait = deadline - time.monotonic()
            if wait <= 0 or not select.select([self._fd], [], [], wait)[0]:
                return
            piece = os.read(self._fd, 1 << 20)
            if not piece:
                return
            self._rest += piece


def _warm_up() -> None:
    """Load and compile what a child needs; open nothing, because forks would share it."""
    shard = Shard()
    now_ms = 1_700_000_000_000
    shard.apply(event_of(Claimed, owner=1, epoch=1, at_ms=now_ms))
    page = shard.free_pages(50)
    new = {"group": np.arange(50) % 7, "kind": 0, "importance": 1.0, "cost": 1.0, "at_ms": now_ms}
    shard.apply(event_of(PagesAdded, page=page, **new))
    orders = shard.decide(now_ms, 20)
    shard.apply(orders)
    outcomes = {
        "fetched_at_ms": now_ms,
        "verdict": 1,
        "divergence": np.nan,
        "last_modified_at_ms": 0,
        "status_class": 2,
        "retry_after_seconds": 0.0,
    }
    shard.apply(event_of(Outcomes, page=orders.page, order=orders.order, **outcomes))
    signals = {"source": 0, "at_ms": now_ms, "claimed_at_ms": 0}
    shard.apply(event_of(Signals, page=page, **signals))
    shard.apply(shard.tick(now_ms + 1000))
    shard.overdue(now_ms + 1000)
    list(split_by_partition([f"https://h{i}.example/" for i in range(50)], 1, "host"))
    host_index(pa.array([f"https://h{i}.example/" for i in range(50)], pa.string()))
    hash_urls(pa.array(["https://h1.example/"], pa.string()), 1)


def measure(
    kills: int, ledger: str, *, bootstrap: str | None = None, seed: int = 0
) -> dict[str, object]:
    """Kill a writer many times; return the number of operations that were checked.

    Parameters
    ----------
    kills
        Number of children to kill.
    ledger
        Kind of the log: ``rocksdb`` or ``kafka``.
    bootstrap
        Address of the broker, for ``kafka``.
    seed
        Random seed of the moments and the operations.
    """
    _warm_up()
    topic = f"crash-{os.getpid()}-{seed}"
    ledger_config: dict[str, Any] = {"kind": ledger}
    if ledger == "kafka":
        ledger_config |= {"bootstrap": bootstrap, "topic": topic, "replication": 1}
    config = _corpus_config(ledger_config)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "corpus"
        killer = _Killer(folder, Path(scratch), config, random.Random(seed))
        for i in range(kills):
            killer.run_child(i)
            if ledger == "rocksdb" and i % _CUT_EVERY == _CUT_EVERY - 1:
                killer.cut_log()
            if sys.stderr.isatty():
                n_operations = killer.acknowledged.n_operations
                print(f"\r{i + 1} killed, {n_operations} operations", end="", file=sys.stderr)
        killer.run_child(kills, is_last=True)
        found = (folder / "snapshots").glob("*/*")
        n_snapshots = sum(path.name.isdigit() for path in found)
    acknowledged = killer.acknowledged
    return {
        "ledger": ledger,
        "partitions": _N_PARTITIONS,
        "threads": _N_THREADS,
        "kills": kills,
        "corpus_opened_and_compared": killer.n_checked,
        "operations_acknowledged": acknowledged.n_operations,
        "operations_in_doubt": acknowledged.n_in_doubt,
        "parts_in_doubt_that_were_done": acknowledged.n_done_in_doubt,
        "pages_added": len(acknowledged.pages),
        "orders": len(acknowledged.leased),
        "outcomes_counted": len(acknowledged.counted),
        "signals_heard": sum(acknowledged.n_signals),
        "snapshots": n_snapshots,
        "logs_cut": killer.n_cut,
        "logs_cut_and_refused": killer.n_cut_refused,
        "lost": 0,
        "applied_twice": 0,
        "orders_handed_out_twice": 0,
        "pages_held_by_two": 0,
        "state_equals_replay": True,
    }
