"""A writer killed at random moments, again and again: what it was told is acknowledged is there.

A child process opens the corpus, says over a pipe what it is about to do and what has been
acknowledged, and is ended with SIGKILL at a random moment: while it opens, adds, orders, reports,
or takes a snapshot.  The next child opens the same corpus and compares it with everything that any
child before it was told.

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
from recrawl.node.durability.recovery import Partition, recovered
from recrawl.node.routing import routed
from recrawl.shard import Claimed, Outcomes, PagesAdded, Shard, Signals, event_of
from recrawl.testing.stores import contents_of
from recrawl.urls import hash_urls, host_index

__all__ = ["measure"]

_N_HOSTS = 40
_PAGES_PER_ADD = 200


def _url(i: int) -> str:
    return f"https://h{i % _N_HOSTS}.example/page/{i}"


def _config(ledger: dict[str, Any]) -> CorpusConfig:
    return CorpusConfig.from_dict(
        {
            "ledger": ledger,
            "politeness": {"delay": 0, "in_flight_max": 1000, "burst": 1000},
            # Many snapshots, so that many are cut off; all kept, so that the log is, too.
            "snapshots": {"keep": 100_000},
        }
    )


@dataclass
class Told:
    """What all children together were told, or may have done without being told."""

    n_added: int = 0
    """URLs 0 to here have been acknowledged."""
    in_doubt_added: int = 0
    """URLs up to here may be there."""
    n_counted: int = 0
    in_doubt_counted: int = 0
    n_heard: int = 0
    in_doubt_heard: int = 0
    reported: list[int] = field(default_factory=list)
    """Handles whose report was acknowledged."""
    leased: set[int] = field(default_factory=set)
    """Handles that were handed out."""
    n_twice: int = 0
    n_operations: int = 0
    _intent: dict[str, Any] | None = None

    def hear(self, line: dict[str, Any]) -> None:
        """Take note of one line of a child."""
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
            case "heard":
                self.n_heard += line["n"]
        if line["what"] != "will":
            self._intent = None
            self.n_operations += 1

    def child_died(self) -> None:
        """Count what the child was doing as possibly done."""
        intent = self._intent or {}
        self.in_doubt_added = max(self.in_doubt_added, self.n_added, intent.get("add_until", 0))
        self.in_doubt_counted += intent.get("report", 0)
        self.in_doubt_heard += intent.get("signal", 0)
        self._intent = None


def _check(corpus: Corpus, told: Told) -> None:
    """Compare a corpus with what was acknowledged."""
    node = corpus.nodes[0]
    urls = pa.array([_url(i) for i in range(told.in_doubt_added)], pa.string())
    page = node.store.pages_of(urls)
    assert (page[: told.n_added] >= 0).all(), f"lost pages: {np.flatnonzero(page < 0)[:9]}"
    there = page[page >= 0]
    assert np.unique(there).size == there.size, "two URLs have one page"
    assert node.shard.n_pages == there.size, f"{node.shard.n_pages} pages, {there.size} URLs"
    assert node.store.urls_of(page[: told.n_added]).equals(urls[: told.n_added]), "wrong URLs"
    registers = node.shard.tables.registers
    n_outcomes, n_signals = int(registers.n_outcomes[0]), int(registers.n_signals[0])
    most = told.n_counted + told.in_doubt_counted
    assert told.n_counted <= n_outcomes <= most, (told.n_counted, n_outcomes, most)
    most = told.n_heard + told.in_doubt_heard
    assert told.n_heard <= n_signals <= most, (told.n_heard, n_signals, most)
    again = [recrawl.Outcome(handle=handle, changed=True) for handle in told.reported[-300:]]
    if again:
        assert not corpus.report(again).counted.any(), "an outcome counted twice"


def _check_replay(folder: Path, config: CorpusConfig) -> None:
    """Compare what recovery makes of a corpus with a replay of its log from the beginning."""
    log = open_log(folder, config)
    try:
        kept = Partition(
            0, log.partition(0), folder / "store" / "0", SnapshotFolder(folder / "snapshots" / "0")
        )
        with tempfile.TemporaryDirectory() as scratch:
            anew = Partition(
                0, log.partition(0), Path(scratch) / "s", SnapshotFolder(Path(scratch) / "n")
            )
            live, replayed = recovered(kept), recovered(anew)
            assert live.shard.digest() == replayed.shard.digest(), "the shard differs from a replay"
            assert live.position == replayed.position
            n_slots = int(live.shard.tables.registers.n_slots[0])
            same = contents_of(live.store, n_slots) == contents_of(replayed.store, n_slots)
            assert same, "the store differs"
            live.store.close()
            replayed.store.close()
    finally:
        log.close()


def _operate(corpus: Corpus, told: Told, rng: random.Random, say: Callable[..., None]) -> None:
    """Go on for ever with random operations, saying each before and after."""
    n_added = told.n_added
    held: list[int] = []
    snapshot = threading.Thread(target=corpus.snapshot)
    while True:
        choice = rng.random()
        if rng.random() < 0.08 and not snapshot.is_alive():
            # Taken while the operations go on, and cut off with them.
            snapshot = threading.Thread(target=corpus.snapshot, daemon=True)
            snapshot.start()
        if choice < 0.25 or n_added == 0:
            until = n_added + _PAGES_PER_ADD
            say("will", add_until=until)
            corpus.add([_url(i) for i in range(n_added, until)])
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
            urls = [_url(rng.randrange(n_added)) for _ in range(rng.randrange(1, 50))]
            say("will", signal=len(urls))
            say("heard", n=corpus.signal(urls, source="sitemap"))


def _child(
    folder: Path, config: CorpusConfig, told: Told, seed: int, write_fd: int, *, is_last: bool
) -> None:
    def say(what: str, **facts: Any) -> None:
        os.write(write_fd, json.dumps({"what": what, **facts}).encode() + b"\n")

    try:
        if is_last or seed % 20 == 19:
            _check_replay(folder, config)
        with recrawl.open(folder, config) as corpus:
            _check(corpus, told)
            say("checked")
            if not is_last:
                _operate(corpus, told, random.Random(seed), say)
    except BaseException:
        say("failed", why=traceback.format_exc())
    os._exit(0)


def _round(
    folder: Path, config: CorpusConfig, told: Told, rng: random.Random, i: int, *, is_last: bool
) -> bool:
    """Let one child run, kill it, and take note; return whether it had checked the corpus."""
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_fd)
        _child(folder, config, told, i, write_fd, is_last=is_last)
    os.close(write_fd)
    # One in eight is killed while it opens, the others after some work.
    started = time.monotonic()
    deadline = started + (rng.uniform(0.02, 0.4) if rng.random() < 0.125 else 300.0)
    if is_last:
        deadline = started + 3600.0
    heard: list[dict[str, Any]] = []
    has_checked = False
    rest = _Reader(read_fd)
    for line in rest.until(deadline):
        heard.append(line)
        if line["what"] == "checked" and not is_last:
            has_checked = True
            break
        if line["what"] in ("failed", "checked"):
            break
    if has_checked:
        heard += rest.until(time.monotonic() + rng.uniform(0.0, 1.0))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    heard += rest.until(time.monotonic() + 60.0)
    os.close(read_fd)
    for line in heard:
        if line["what"] == "failed":
            raise AssertionError(line["why"])
        if line["what"] == "checked":
            has_checked = True
        else:
            told.hear(line)
    told.child_died()
    return has_checked


class _Reader:
    """Lines of a pipe, read in several goes."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._rest = b""

    def until(self, deadline: float) -> Iterator[dict[str, Any]]:
        """Yield lines until a moment, or until the pipe ends."""
        while True:
            *lines, self._rest = self._rest.split(b"\n")
            for k, line in enumerate(lines):
                # What is not taken now is for the next go.
                self._rest, kept = b"\n".join([*lines[k + 1 :], self._rest]), line
                yield json.loads(kept)
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
    """Load and compile what a child needs, without opening anything that a fork would share."""
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
    heard = {"source": 0, "at_ms": now_ms, "claimed_at_ms": 0}
    shard.apply(event_of(Signals, page=page, **heard))
    shard.apply(shard.tick(now_ms + 1000))
    shard.overdue(now_ms + 1000)
    list(routed([_url(i) for i in range(50)], 1, "host"))
    host_index(pa.array([_url(i) for i in range(50)], pa.string()))
    hash_urls(pa.array([_url(1)], pa.string()), 1)


def measure(
    kills: int, ledger: str, *, bootstrap: str | None = None, seed: int = 0
) -> dict[str, object]:
    """Kill a writer so many times, and say what was compared.

    Parameters
    ----------
    kills
        Children killed.
    ledger
        ``rocksdb`` or ``kafka``.
    bootstrap
        Of the broker, for ``kafka``.
    seed
        Of the moments and the operations.
    """
    _warm_up()
    rng = random.Random(seed)
    told = Told()
    n_checked = 0
    topic = f"crash-{os.getpid()}-{seed}"
    where: dict[str, Any] = {"kind": ledger}
    if ledger == "kafka":
        where |= {"bootstrap": bootstrap, "topic": topic, "replication": 1}
    config = _config(where)
    with tempfile.TemporaryDirectory() as folder:
        for i in range(kills):
            n_checked += _round(Path(folder), config, told, rng, i, is_last=False)
            if sys.stderr.isatty():
                print(f"\r{i + 1} killed, {told.n_operations} operations", end="", file=sys.stderr)
        assert _round(Path(folder), config, told, rng, kills, is_last=True)
        n_snapshots = len(SnapshotFolder(Path(folder) / "snapshots" / "0").saved())
    return {
        "ledger": ledger,
        "kills": kills,
        "corpus_opened_and_compared": n_checked + 1,
        "operations_acknowledged": told.n_operations,
        "pages_added": told.n_added,
        "orders": len(told.leased),
        "outcomes_counted": told.n_counted,
        "signals_heard": told.n_heard,
        "snapshots": n_snapshots,
        "lost": 0,
        "applied_twice": 0,
        "orders_handed_out_twice": told.n_twice,
        "state_equals_replay": True,
    }
