"""Kill, stop and move the workers and brokers of a cluster under load, and check what it did.

Three brokers keep three copies of the log; three workers and a fourth one that joins and leaves
share its partitions; fetchers lease and report at any worker.  At random moments a worker is killed
(SIGKILL) or stopped for longer than it takes to notice (SIGSTOP), a broker is killed, or a fetcher
is stopped; each is started again.  An auditor reads the whole log beside it, and applies it to
shards of its own.  In the end:

- every page that a worker acknowledged is tracked,
- every outcome that a worker acknowledged is in the log, and valid,
- every order that a fetcher visited is valid in the log: none has a void epoch,
- no host was visited before its delay had passed, whoever owned its partition,
- no minute has more orders than the budget and its burst allow,
- the orders that the budget would have allowed and nobody got are at most the quotas of the
  partitions that did not answer, for as long as they did not,
- each partition, made from the oldest snapshot in shared storage and the log after it, equals the
  auditor's shard.

For each kind of fault the time is measured during which a partition had no owner that answered,
apart for partitions that had no standby when it happened.  A part of it after the kill of a broker
is the time until the other brokers went on with all partitions, which is measured as well.  After a
fault that takes longer than it should, the events around it are printed.
"""

import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import numpy as np
from pyarrow import fs

from benchmarks.cluster_processes import Brokers, Workers
from benchmarks.cluster_watch import (
    AvailabilityProbe,
    ClusterListener,
    LeaderWatch,
    Timeline,
    first_urls,
)
from recrawl.client import Client
from recrawl.cluster.control_topic import CONTROL_SUFFIX
from recrawl.corpus import CorpusConfig, RowStatus
from recrawl.errors import PositionLost, RecrawlError
from recrawl.ledger import SnapshotFolder, SnapshotOrigin
from recrawl.ledger.kafka import KafkaLog
from recrawl.ledger.shared_snapshots import SharedSnapshots
from recrawl.node.durability.recovery import initial_shard, restore_shard
from recrawl.node.few_reported import FewPagesReported
from recrawl.node.node import apply_entry
from recrawl.node.orders import handle_of
from recrawl.node.records import PagesReported, entry_of
from recrawl.shard import Claimed, Ordered, Outcomes, Shard

__all__ = ["GAP_SECONDS_MAX", "KINDS", "measure"]

N_BROKERS: Final = 3
N_FETCHERS: Final = 2
KINDS: Final = ("worker-kill", "worker-stop", "broker-kill", "fetcher-stop")
_TOPIC: Final = "cluster-benchmark"
_DELAY_SECONDS: Final = 1.0
_WAIT_SECONDS: Final = 0.1
GAP_SECONDS_MAX: Final = 8.0
"""Longest time without an owner that a partition with a standby should have."""
_STOPPED_SECONDS: Final = 7.0
_LEASE_SECONDS: Final = 20.0
_DOWN_SECONDS: Final = (1.0, 6.0)
_SETTLE_SECONDS_MAX: Final = 120.0
# Share of the budget that may stay unused for other reasons, such as fetchers that stand still.
_UNUSED_SHARE_MAX: Final = 0.01
_ADDED_ROWS: Final = 20_000
_PAGES_PER_HOST: Final = 50


class _Auditor:
    """Reads the whole log while it is written, and applies it to shards of its own."""

    def __init__(self, bootstrap: str, n_partitions: int, timeline: Timeline) -> None:
        self._log = KafkaLog.open(bootstrap, _TOPIC, n_partitions=n_partitions, create=False)
        self._timeline = timeline
        self.shards: list[Shard | None] = [None] * n_partitions
        self.positions = [0] * n_partitions
        self.visits_allowed: set[int] = set()
        """Handles of valid orders."""
        self.counted: set[int] = set()
        """Handles of valid outcomes."""
        self.ordered_ms: list[int] = []
        self.n_restored = 0
        """Partitions that were made from a snapshot and compared."""
        self._lost: PositionLost | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(0.2):
            try:
                self.read()
            except PositionLost as error:
                self._lost = error
                return
            except RecrawlError:  # a broker is away
                pass

    def check(self) -> None:
        """Raise an error if the log was truncated before it was read."""
        if self._lost is not None:
            raise self._lost

    def read(self) -> None:
        for i in range(len(self.shards)):
            ledger = self._log.partition(i)
            while found := ledger.read(self.positions[i]):
                for position, record in found:
                    shard = self.shards[i]
                    if shard is None:
                        shard = self.shards[i] = initial_shard(ledger)
                    self._apply(i, shard, entry_of(record))
                    self.positions[i] = position + 1

    def _apply(self, partition: int, shard: Shard, entry: Any) -> None:
        applied = apply_entry(shard, entry)
        match entry:
            case Ordered():
                handles = handle_of(entry.order[applied.valid], partition)
                self.visits_allowed.update(handles.tolist())
                self.ordered_ms += entry.at_ms[applied.valid].tolist()
            case PagesReported(outcomes) | FewPagesReported(outcomes):
                self._note(partition, outcomes, applied.valid)
            case Outcomes():
                self._note(partition, entry, applied.valid)
            case Claimed():
                self._note_claim(partition, entry, shard)

    def _note(self, partition: int, outcomes: Outcomes, valid: Any) -> None:
        order = outcomes.order[valid]
        self.counted.update(handle_of(order[order > 0], partition).tolist())

    def _note_claim(self, partition: int, claim: Claimed, shard: Shard) -> None:
        epoch, owner = int(claim.epoch[0]), int(claim.owner[0])
        holds = "holds" if int(shard.tables.registers.owner[0]) == owner else "is void"
        text = f"the claim of epoch {epoch} by {owner:x} {holds}; read from the log"
        self._timeline.note(text, partition)
        self._timeline.note(f"epoch {epoch} was claimed", partition, at=claim.at_ms[0] / 1_000)

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        self.check()
        self.read()

    def find_problems(self, shared: Path, restored: Path) -> list[str]:
        """Compare each partition with its oldest snapshot and the log after it."""
        problems: list[str] = []
        # A run of less than a minute ends before the first snapshots.
        corpus_id = next((path.name for path in shared.iterdir()), "none")
        for i, shard in enumerate(self.shards):
            ledger = self._log.partition(i)
            origin = SnapshotOrigin(corpus_id, i)
            snapshots = SharedSnapshots(fs.LocalFileSystem(), str(shared), origin)
            usable = [one for one in snapshots.list_complete() if one.position >= ledger.first]
            if not usable:
                if ledger.first > 0:
                    problems.append(f"partition {i} has no snapshot in shared storage")
                continue
            self.n_restored += 1
            saved = snapshots.restore(usable[-1], SnapshotFolder(restored / str(i)))
            other = restore_shard(saved, is_reader=False)
            position = usable[-1].position
            while other is not None and (found := ledger.read(position)):
                for _, record in found:
                    apply_entry(other, entry_of(record))
                position = found[-1][0] + 1
            if other is None or shard is None or other.digest() != shard.digest():
                problems.append(f"partition {i} differs from a replay of its whole log")
        return problems

    def close_log(self) -> None:
        self._log.close()


def _settings(bootstrap: str, n_partitions: int, shared: Path, per_second: float) -> str:
    return f"""
[corpus]
partitions = {n_partitions}
[ledger]
kind = "kafka"
bootstrap = "{bootstrap}"
topic = "{_TOPIC}"
replication = {N_BROKERS}
[snapshots]
shared = "{shared}"
every = "60s"
[budget]
rate = "{per_second:g}/s"
burst = "10s"
[politeness]
delay = "{_DELAY_SECONDS:g}s"
[leases]
length = "{_LEASE_SECONDS:g}s"
"""


@contextmanager
def _running(folder: Path, n_partitions: int, per_second: float) -> Iterator[Any]:
    brokers = Brokers(folder / "brokers", N_BROKERS)
    try:
        (folder / "shared").mkdir()
        settings = _settings(brokers.bootstrap, n_partitions, folder / "shared", per_second)
        workers = Workers(folder, settings)
        try:
            for name in ("w1", "w2", "w3"):
                workers.start(name)
            yield brokers, workers, settings
        finally:
            workers.close()
    finally:
        brokers.close()


def _add_pages(url: str, n_pages: int) -> float:
    hosts = max(n_pages // _PAGES_PER_HOST, 1)
    begun = time.monotonic()
    with Client(url, retry_seconds=60.0) as client:
        for first in range(0, n_pages, _ADDED_ROWS):
            rows = range(first, min(first + _ADDED_ROWS, n_pages))
            urls = [f"https://h{i % hosts}.example/{i // hosts}" for i in rows]
            while urls:
                status = client.add(urls).rows
                urls = [
                    one
                    for one, row in zip(urls, status, strict=True)
                    if row == RowStatus.UNAVAILABLE
                ]
                if urls:
                    time.sleep(0.5)
    return time.monotonic() - begun


def _do_fault(
    kind: str, victim: str, brokers: Brokers, workers: Workers, fetchers: list[Any], down: float
) -> None:
    match kind:
        case "worker-kill":
            workers.end(victim, signal.SIGKILL)
            time.sleep(down)
            workers.start(victim)
        case "worker-stop":
            workers.processes[victim].send_signal(signal.SIGSTOP)
            time.sleep(_STOPPED_SECONDS + down)
            workers.processes[victim].send_signal(signal.SIGCONT)
        case "broker-kill":
            brokers.kill(int(victim))
            time.sleep(down)
            brokers.start_again()
        case "fetcher-stop":
            fetchers[int(victim)].send_signal(signal.SIGSTOP)
            time.sleep(_LEASE_SECONDS + down)
            fetchers[int(victim)].send_signal(signal.SIGCONT)


def _choose_victim(kind: str, workers: Workers, chance: random.Random) -> str:
    match kind:
        case "broker-kill":
            return str(chance.randrange(N_BROKERS))
        case "fetcher-stop":
            return str(chance.randrange(N_FETCHERS))
    return chance.choice(sorted(workers.processes))


def _explain(
    slow: list[int], before: dict[int, str], after: dict[int, str], lines: list[str]
) -> None:
    """Print what happened to partitions that were away for long."""
    for i in slow:
        owners = f"owned by {before.get(i)} before, and by {after.get(i)} after"
        print(f"  partition {i}: {owners}", file=sys.stderr)
    for line in lines if slow else ():
        print(f"  {line}", file=sys.stderr)


def measure(
    *,
    n_faults: int = 30,
    n_pages: int = 10_000_000,
    n_partitions: int = 12,
    seed: int = 0,
    kinds: Sequence[str] = KINDS,
    explain_above: float = GAP_SECONDS_MAX,
) -> dict[str, Any]:
    """Return the time without an owner for each kind of fault, and what was wrong.

    Parameters
    ----------
    n_faults
        Number of faults of each kind.
    n_pages
        Number of pages.
    n_partitions
        Number of partitions.
    seed
        Seed of the moments and of the victims.
    kinds
        Kinds of faults.
    explain_above
        Seconds without an owner above which it prints what happened before and after a fault.
    """
    chance = random.Random(seed)
    per_second = 40.0
    folder = Path(tempfile.mkdtemp(prefix="recrawl-cluster-"))
    gaps: dict[str, list[float]] = defaultdict(list)
    brokers_seconds: list[float] = []
    with _running(folder, n_partitions, per_second) as (brokers, workers, settings):
        toml = folder / "settings.toml"
        toml.write_text(settings)
        config = CorpusConfig.from_toml(toml)
        timeline = Timeline(folder)
        auditor = _Auditor(brokers.bootstrap, n_partitions, timeline)
        control = _TOPIC + CONTROL_SUFFIX
        listener = ClusterListener(brokers.bootstrap, control, n_partitions, timeline)
        leaders = LeaderWatch(brokers.bootstrap, _TOPIC, n_partitions, timeline)
        hosts = [f"https://h{i}.example/0" for i in range(max(n_pages // _PAGES_PER_HOST, 1))]
        probe = AvailabilityProbe(workers, first_urls(config, hosts), listener, timeline)
        probe.begin("w1")
        probe.wait_until_all_there(_SETTLE_SECONDS_MAX)
        seconds_to_add = _add_pages(workers.url("w1"), n_pages)
        urls = [workers.url(name) for name in ("w1", "w2", "w3")]
        fetchers = [
            subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "benchmarks.cluster_fetcher",
                    str(folder / f"fetcher-{i}.jsonl"),
                    *urls,
                ]
            )
            for i in range(N_FETCHERS)
        ]
        while len([*folder.glob("fetcher-*.jsonl")]) < N_FETCHERS:
            time.sleep(_WAIT_SECONDS)
        begun = time.time()
        faults = [kind for kind in kinds for _ in range(n_faults)]
        chance.shuffle(faults)
        try:
            for number, kind in enumerate(faults):
                if number % 10 == 3:
                    workers.start("w4")
                elif number % 10 == 8 and "w4" in workers.processes:
                    workers.end("w4", signal.SIGTERM)
                time.sleep(chance.uniform(1.0, 4.0))
                victim = _choose_victim(kind, workers, chance)
                probe.begin(next(one for one in ("w1", "w2", "w3") if one != victim))
                down = chance.uniform(*_DOWN_SECONDS)
                alone = listener.find_without_standby(victim)
                owners, fault_at = listener.owners(), time.time()
                timeline.note(f"{kind} of {victim}")
                if kind == "broker-kill":
                    leaders.begin(int(victim) + 1)
                _do_fault(kind, victim, brokers, workers, fetchers, down)
                timeline.note(f"{victim} goes on, or was started again")
                probe.wait_until_all_there(_SETTLE_SECONDS_MAX)
                time.sleep(6.0)  # until all have heard each other again
                auditor.check()
                found: dict[str, object] = {"fault": kind, "victim": victim}
                for name, chosen in (
                    (kind, [i for i in range(n_partitions) if i not in alone]),
                    (f"{kind} without standby", sorted(alone)),
                ):
                    if chosen:
                        gaps[name].append(float(probe.longest[chosen].max()))
                        found[name] = round(gaps[name][-1], 2)
                if kind == "broker-kill" and leaders.seconds is not None:
                    brokers_seconds.append(leaders.seconds)
                    found["brokers alone"] = round(leaders.seconds, 2)
                print(json.dumps(found), file=sys.stderr)
                slow = np.flatnonzero(probe.longest > explain_above).tolist()
                _explain(slow, owners, listener.owners(), timeline.lines(fault_at, slow))
            ended = time.time()
        finally:
            for fetcher in fetchers:
                fetcher.send_signal(signal.SIGCONT)
                fetcher.kill()
                fetcher.wait()
            probe.close()
            leaders.close()
            listener.close()
        workers.close()
        auditor.close()
        ordered = np.array(auditor.ordered_ms) / 1_000
        n_ordered = int(((ordered >= begun) & (ordered < ended)).sum())
        unused_share = 1 - n_ordered / (per_second * (ended - begun))
        away_share = probe.away_seconds / (ended - begun)
        problems = _find_problems(folder, auditor, per_second)
        n_tracked = sum(shard.n_pages for shard in auditor.shards if shard is not None)
        if n_tracked != n_pages:
            problems.append(f"{n_tracked} pages are tracked, {n_pages} were acknowledged")
        if unused_share > away_share + _UNUSED_SHARE_MAX:
            problems.append(
                f"{unused_share:.1%} of the budget was not used, although partitions were away for "
                f"{away_share:.1%} of the time"
            )
    megabytes = _snapshot_megabytes(folder / "shared")
    if not problems:
        shutil.rmtree(folder, ignore_errors=True)
    return {
        "n_pages": n_pages,
        "n_partitions": n_partitions,
        "seconds": round(ended - begun),
        "seconds_to_add": round(seconds_to_add),
        "n_orders": len(auditor.visits_allowed),
        "n_outcomes": len(auditor.counted),
        "n_partitions_compared": auditor.n_restored,
        "unused_share": round(unused_share, 4),
        "away_share": round(away_share, 4),
        "snapshot_megabytes_max": round(megabytes, 1),
        "gaps": {kind: _distribution(seconds) for kind, seconds in sorted(gaps.items())},
        "brokers_alone": _distribution(brokers_seconds) if brokers_seconds else None,
        "problems": problems,
        "folder": str(folder) if problems else None,
    }


def _distribution(seconds: Sequence[float]) -> dict[str, Any]:
    return {
        "n": len(seconds),
        "median": round(float(np.median(seconds)), 2),
        "p90": round(float(np.quantile(seconds, 0.9)), 2),
        "max": round(max(seconds), 2),
        "n_above_8": sum(one > GAP_SECONDS_MAX for one in seconds),
    }


def _snapshot_megabytes(shared: Path) -> float:
    """Return the size of the largest snapshot in shared storage."""
    manifests = [json.loads(path.read_text()) for path in shared.glob("*/*/*.json")]
    return max((sum(one["bytes"] for one in m["files"]) for m in manifests), default=0) / 1e6


def _find_problems(folder: Path, auditor: _Auditor, per_second: float) -> list[str]:
    """Return what the cluster did wrong."""
    problems = []
    acknowledged: set[int] = set()
    visits: list[tuple[str, int, int]] = []
    for path in folder.glob("fetcher-*.jsonl"):
        for line in path.read_text().splitlines():
            with suppress(ValueError):  # it was killed while it wrote the last one
                row = json.loads(line)
                acknowledged.update(row.get("acknowledged", ()))
                if "visit" in row:
                    host = urlsplit(row["url"]).hostname or ""
                    visits.append((host, row["at_ms"], row["visit"]))
    lost = acknowledged - auditor.counted
    if lost:
        problems.append(f"{len(lost)} acknowledged outcomes are not in the log: {min(lost)}")
    void = {handle for _, _, handle in visits} - auditor.visits_allowed
    if void:
        problems.append(f"{len(void)} orders were handed out and are void: {min(void)}")
    visits.sort()
    for (host, at_ms, handle), (other, later_ms, later) in pairwise(visits):
        if host == other and later_ms - at_ms < 1_000 * _DELAY_SECONDS - 50:
            problems.append(
                f"{host} was visited after {later_ms - at_ms} ms: orders {handle}, {later}"
            )
    ordered = np.sort(np.array(auditor.ordered_ms))
    if ordered.size:
        in_window = np.searchsorted(ordered, ordered + 60_000) - np.arange(ordered.size)
        allowed = per_second * 60 + per_second * 10 + len(auditor.shards)
        if in_window.max() > allowed:
            problems.append(f"{in_window.max()} orders in a minute, {allowed:.0f} are allowed")
    problems += auditor.find_problems(folder / "shared", folder / "restored")
    auditor.close_log()
    return problems[:50]
