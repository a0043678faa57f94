"""Kill a writer at random moments, and check that the corpus keeps everything it acknowledged.

A child process opens the corpus, writes to a pipe what it is about to do and what the corpus has
acknowledged, and is killed with SIGKILL at a random moment: while it opens, adds, leases, reports
or takes a snapshot.  The next child opens the same corpus and compares it with everything that the
corpus acknowledged to earlier children.

Children are forked from a process that has loaded and compiled everything and opened nothing.
"""

import json
import os
import random
import select
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import recrawl
from recrawl.corpus import Corpus, CorpusConfig
from recrawl.ledger import SnapshotFolder
from recrawl.node.durability.open_log import open_log
from recrawl.node.durability.recovery import Partition, recover_node
from recrawl.node.routing import split_by_partition
from recrawl.shard import Claimed, Outcomes, PagesAdded, Shard, Signals, event_of
from recrawl.testing.stores import contents_of
from recrawl.urls import hash_urls, host_index

__all__ = ["measure"]

_N_HOSTS = 40
_PAGES_PER_ADD = 200


def _page_url(i: int) -> str:
    return f"https://h{i % _N_HOSTS}.example/page/{i}"


def _corpus_config(ledger: dict[str, Any]) -> CorpusConfig:
    return CorpusConfig.from_dict(
        {
            "ledger": ledger,
            "politeness": {"delay": 0, "in_flight_max": 1000, "burst": 1000},
            # Snapshots are never deleted, so that the log can be replayed from its beginning.
            "snapshots": {"keep": 100_000},
        }
    )


@dataclass
class Acknowledged:
    """What the corpus acknowledged to all children, and what it may have done besides."""

    n_added: int = 0
    """Number of URLs whose addition was acknowledged."""
    in_doubt_added: int = 0
    """Number of URLs that may have been added."""
    n_counted: int = 0
    in_doubt_counted: int = 0
    n_signals: int = 0
    in_doubt_signals: int = 0
    reported: list[int] = field(default_factory=list)
    """Handles whose report was acknowledged."""
    leased: set[int] = field(default_factory=set)
    """Handles of the orders that were leased."""
    n_twice: int = 0
    n_operations: int = 0
    _intent: dict[str, Any] | None = None

    def record_line(self, line: dict[str, Any]) -> None:
        """Record one line that a child wrote."""
        match line["what"]:
            case "will":
                self._intent = line
            case "added":
                self.n_added = line["until"]
            case "leased":
                for handle in line["handles"]:
                    self.n_twice += handle in self.leased
                    self.leased.add(handle)
            case "counted":
                self.n_counted += line["n"]
                self.reported += line["handles"]
            case "signalled":
                self.n_signals += line["n"]
        if line["what"] != "will":
            self._intent = None
            self.n_operations += 1

    def child_died(self) -> None:
        """Record that the operation under way may have been done."""
        intent = self._intent or {}
        self.in_doubt_added = max(self.in_doubt_added, self.n_added, intent.get("add_until", 0))
        self.in_doubt_counted += intent.get("report", 0)
        self.in_doubt_signals += intent.get("signal", 0)
        self._intent = None


def _check_corpus(corpus: Corpus, acknowledged: Acknowledged) -> None:
    """Compare a corpus with what it acknowledged."""
    node = corpus.nodes[0]
    urls = pa.array([_page_url(i) for i in range(acknowledged.in_doubt_added)], pa.string())
    page = node.store.pages_of(urls)
    assert (page[: acknowledged.n_added] >= 0).all(), f"lost pages: {np.flatnonzero(page < 0)[:9]}"
    there = page[page >= 0]
    assert np.unique(there).size == there.size, "two URLs have one page"
    assert node.shard.n_pages == there.size, f"{node.shard.n_pages} pages, {there.size} URLs"
    assert node.store.urls_of(page[: acknowledged.n_added]).equals(urls[: acknowledged.n_added]), (
        "wrong URLs"
    )
    registers = node.shard.tables.registers
    n_outcomes, n_signals = int(registers.n_outcomes[0]), int(registers.n_signals[0])
    most = acknowledged.n_counted + acknowledged.in_doubt_counted
    assert acknowledged.n_counted <= n_outcomes <= most, (acknowledged.n_counted, n_outcomes, most)
    most = acknowledged.n_signals + acknowledged.in_doubt_signals
    assert acknowledged.n_signals <= n_signals <= most, (acknowledged.n_signals, n_signals, most)
    again = [
        recrawl.Outcome(handle=handle, changed=True) for handle in acknowledged.reported[-300:]
    ]
    if again:
        assert not corpus.report(again).counted.any(), "an outcome counted twice"


def _check_replay(folder: Path, config: CorpusConfig) -> None:
    """Compare a recovered corpus with a replay of its log from the beginning."""
    log = open_log(folder, config)
    try:
        kept = Partition(
            0, log.partition(0), folder / "store" / "0", SnapshotFolder(folder / "snapshots" / "0")
        )
        with tempfile.TemporaryDirectory() as scratch:
            anew = Partition(
                0, log.partition(0), Path(scratch) / "s", SnapshotFolder(Path(scratch) / "n")
            )
            live, replayed = recover_node(kept), recover_node(anew)
            assert live.shard.digest() == replayed.shard.digest(), "the shard differs from a replay"
            assert live.position == replayed.position
            n_slots = int(live.shard.tables.registers.n_slots[0])
            same = contents_of(live.store, n_slots) == contents_of(replayed.store, n_slots)
            assert same, "the store differs"
            live.store.close()
            replayed.store.close()
    finally:
        log.close()


def _run_operations(
    corpus: Corpus, acknowledged: Acknowledged, rng: random.Random, say: Callable[..., None]
) -> None:
    """Run random operations for ever; write each to the pipe before and after."""
    n_added = acknowledged.n_added
    held: list[int] = []
    snapshot = threading.Thread(target=corpus.snapshot)
    while True:
        choice = rng.random()
        if rng.random() < 0.08 and not snapshot.is_alive():
            # A snapshot runs beside the operations, so that kills interrupt snapshots too.
            snapshot = threading.Thread(target=corpus.snapshot, daemon=True)
            snapshot.start()
        if choice < 0.25 or n_added == 0:
            until = n_added + _PAGES_PER_ADD
            say("will", add_until=until)
            corpus.add([_page_url(i) for i in range(n_added, until)])
            n_added = until
            say("added", until=until)
        elif choice < 0.55 or not held:
            say("will")
            handles = [order.handle for order in corpus.lease(rng.randrange(1, 120), seconds=3600)]
            held += handles
            say("leased", handles=handles)
        elif choice < 0.85:
            rng.shuffle(held)
            n = rng.randrange(1, len(held) + 1)
            handles, held = held[:n], held[n:]
            say("will", report=n)
            outcomes = [
                recrawl.Outcome(handle=h, digest=rng.randbytes(8), etag=b'"e%d"' % h)
                for h in handles
            ]
            counted = corpus.report(outcomes).counted
            say("counted", n=int(counted.sum()), handles=handles)
        else:
            urls = [_page_url(rng.randrange(n_added)) for _ in range(rng.randrange(1, 50))]
            say("will", signal=len(urls))
            say("signalled", n=corpus.signal(urls, source="sitemap"))


def _run_child(
    folder: Path,
    config: CorpusConfig,
    acknowledged: Acknowledged,
    seed: int,
    write_fd: int,
    *,
    is_last: bool,
) -> None:
    def say(what: str, **facts: Any) -> None:
        os.write(write_fd, json.dumps({"what": what, **facts}).encode() + b"\n")

    try:
        if is_last or seed % 20 == 19:
            _check_replay(folder, config)
        with recrawl.open(folder, config) as corpus:
            _check_corpus(corpus, acknowledged)
            say("checked")
            if not is_last:
                _run_operations(corpus, acknowledged, random.Random(seed), say)
    except BaseException:
        say("failed", why=traceback.format_exc())
    os._exit(0)


def _run_and_kill_child(
    folder: Path,
    config: CorpusConfig,
    acknowledged: Acknowledged,
    rng: random.Random,
    i: int,
    *,
    is_last: bool,
) -> bool:
    """Run one child, kill it and record its lines; return whether it had checked the corpus."""
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_fd)
        _run_child(folder, config, acknowledged, i, write_fd, is_last=is_last)
    os.close(write_fd)
    # One child in eight is killed while it opens the corpus, the others after some work.
    started = time.monotonic()
    deadline = started + (rng.uniform(0.02, 0.4) if rng.random() < 0.125 else 300.0)
    if is_last:
        deadline = started + 3600.0
    lines: list[dict[str, Any]] = []
    has_checked = False
    rest = _LineReader(read_fd)
    for line in rest.until(deadline):
        lines.append(line)
        if line["what"] == "checked" and not is_last:
            has_checked = True
            break
        if line["what"] in ("failed", "checked"):
            break
    if has_checked:
        lines += rest.until(time.monotonic() + rng.uniform(0.0, 1.0))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    lines += rest.until(time.monotonic() + 60.0)
    os.close(read_fd)
    for line in lines:
        if line["what"] == "failed":
            raise AssertionError(line["why"])
        if line["what"] == "checked":
            has_checked = True
        else:
            acknowledged.record_line(line)
    acknowledged.child_died()
    return has_checked


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
    list(split_by_partition([_page_url(i) for i in range(50)], 1, "host"))
    host_index(pa.array([_page_url(i) for i in range(50)], pa.string()))
    hash_urls(pa.array([_page_url(1)], pa.string()), 1)


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
    rng = random.Random(seed)
    acknowledged = Acknowledged()
    n_checked = 0
    topic = f"crash-{os.getpid()}-{seed}"
    ledger_config: dict[str, Any] = {"kind": ledger}
    if ledger == "kafka":
        ledger_config |= {"bootstrap": bootstrap, "topic": topic, "replication": 1}
    config = _corpus_config(ledger_config)
    with tempfile.TemporaryDirectory() as folder:
        for i in range(kills):
            n_checked += _run_and_kill_child(
                Path(folder), config, acknowledged, rng, i, is_last=False
            )
            if sys.stderr.isatty():
                print(
                    f"\r{i + 1} killed, {acknowledged.n_operations} operations",
                    end="",
                    file=sys.stderr,
                )
        assert _run_and_kill_child(Path(folder), config, acknowledged, rng, kills, is_last=True)
        n_snapshots = len(SnapshotFolder(Path(folder) / "snapshots" / "0").list_saved())
    return {
        "ledger": ledger,
        "kills": kills,
        "corpus_opened_and_compared": n_checked + 1,
        "operations_acknowledged": acknowledged.n_operations,
        "pages_added": acknowledged.n_added,
        "orders": len(acknowledged.leased),
        "outcomes_counted": acknowledged.n_counted,
        "signals_heard": acknowledged.n_signals,
        "snapshots": n_snapshots,
        "lost": 0,
        "applied_twice": 0,
        "orders_handed_out_twice": acknowledged.n_twice,
        "state_equals_replay": True,
    }
