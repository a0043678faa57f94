"""Measure leases in the first minute after a large corpus is opened, and during snapshots.

A process adds the pages and closes the corpus.  Another one opens it, leases and reports a hundred
pages at a time for a minute, then goes on while snapshots are taken, and for some time after them.
The slowest leases are printed with what they spent their time on.
"""

import gc
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

import recrawl
from benchmarks.scale import synthetic_urls
from recrawl.corpus import Corpus, CorpusConfig
from recrawl.node.node import Node
from recrawl.shard import Outcomes, Verdict, event_of

__all__ = ["Case", "measure"]

Case: TypeAlias = Literal["new", "fetched", "grown"]

_PAGES_PER_CALL = 1 << 17
_ORDERS_PER_CALL = 100
_DAY_MS = 86_400_000
# Pages of the case "fetched" were fetched within this time, and a tenth never; many are due.
_DAYS_SINCE_FETCH = 60
# Share of pages that were there before the others were added, in the case "grown".
_SHARE_BEFORE = 0.1
# Fetches per second at least, so that a small corpus is not called seldom.
_RATE_MIN = 1_000
_N_SLOWEST = 5
# Seconds of calls after each snapshot.
_SECONDS_AFTER = 10.0


def _config(case: Case, n_pages: int) -> CorpusConfig:
    # Each page can be fetched once in about three hours, or as often as the caller asks.
    rate = max(n_pages // 10_000, _RATE_MIN)
    return CorpusConfig.from_dict({} if case == "new" else {"budget": {"rate": f"{rate}/s"}})


def _add_pages(corpus: Corpus, first: int, end: int, n_hosts: int) -> None:
    for begin in range(first, end, _PAGES_PER_CALL):
        corpus.add(synthetic_urls(begin, min(_PAGES_PER_CALL, end - begin), n_hosts))


def _report_fetches(corpus: Corpus, share: float, n_fetches: int = 2) -> None:
    """Report fetches of most pages, all over the last weeks, of which a third found a change."""
    rng = np.random.default_rng(2)
    for node in corpus.nodes:
        n_slots = int(node.shard.tables.registers.n_slots[0])
        for first in range(0, n_slots, _PAGES_PER_CALL):
            page = np.arange(first, min(first + _PAGES_PER_CALL, n_slots))
            page = page[rng.random(page.size) < share]
            age_ms = rng.integers(0, _DAYS_SINCE_FETCH * _DAY_MS, (n_fetches, page.size))
            for at_ms in node.shard.now_ms - np.sort(age_ms, axis=0)[::-1]:
                is_changed = rng.random(page.size) < 1 / 3
                verdict = np.where(is_changed, int(Verdict.CHANGED), int(Verdict.UNCHANGED))
                outcomes = event_of(
                    Outcomes,
                    page=page,
                    order=0,
                    fetched_at_ms=at_ms,
                    verdict=verdict,
                    divergence=np.nan,
                    last_modified_at_ms=0,
                    status_class=2,
                    retry_after_seconds=0.0,
                )
                node.submit([outcomes])


def _make_corpus(folder: Path, case: Case, n_pages: int, n_hosts: int) -> None:
    with recrawl.open(folder, _config(case, n_pages)) as corpus:
        n_before = round(_SHARE_BEFORE * n_pages) if case == "grown" else n_pages
        _add_pages(corpus, 0, n_before, n_hosts)
        if case == "fetched":
            _report_fetches(corpus, 0.9)
        elif case == "grown":
            # Once there were as many polls as pages, pages beyond normal growth are newcomers; the
            # first fetch of a page is not a poll.
            _report_fetches(corpus, 1.0, n_fetches=3)
            _add_pages(corpus, n_before, n_pages, n_hosts)
            until = corpus.nodes[0].shard.tables.pages.newcomer_until
            assert np.count_nonzero(until) > n_pages // 4, "the pages added are not newcomers"


class _Parts:
    """Seconds that the measuring thread spends in some parts of a call."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self.seconds: dict[str, float] = {}

    def add(self, name: str, seconds: float) -> None:
        if threading.get_ident() == self._thread:
            self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            started = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                self.add(name, time.perf_counter() - started)

        return timed

    def watch_garbage(self, phase: str, _: object) -> None:
        if phase == "start":
            self._started = time.perf_counter()
        else:
            self.add("garbage collection", time.perf_counter() - self._started)


class _TimedLock:
    """A lock that records how long the measuring thread waits for it."""

    def __init__(self, lock: Any, parts: _Parts) -> None:
        self._lock = lock
        self._parts = parts

    def __enter__(self) -> bool:
        started = time.perf_counter()
        held = bool(self._lock.__enter__())
        self._parts.add("waiting for the lock", time.perf_counter() - started)
        return held

    def __exit__(self, *error: object) -> None:
        self._lock.__exit__(*error)


def _watch(node: Node, parts: _Parts) -> None:
    """Time the parts of a node; the time of an inner part is in that of the outer one, too."""
    node.lock = _TimedLock(node.lock, parts)  # type: ignore[assignment]
    watched: list[tuple[str, Any, str]] = [
        ("tick", node, "tick"),
        ("deciding", node.shard, "decide"),
        ("appending to the log", node.ledger, "append"),
        ("applying", node.shard, "apply"),
        ("writing to the store", node.store, "write"),
    ]
    for name, owner, attribute in watched:
        setattr(owner, attribute, parts.wrap(name, getattr(owner, attribute)))


class _Calls:
    """Leases and reports, and the time that each took."""

    def __init__(self, corpus: Corpus, seconds_per_call: float) -> None:
        self._corpus = corpus
        self._parts = _Parts()
        self._seconds_per_call = seconds_per_call
        self._opened = time.perf_counter()
        self._phase = ""
        self.rows: list[dict[str, Any]] = []
        for node in corpus.nodes:
            _watch(node, self._parts)
        gc.callbacks.append(self._parts.watch_garbage)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self._phase = name
        yield

    def run_until(self, is_over: Callable[[], bool]) -> None:
        """Lease and report until something is over, not faster than the budget allows."""
        while not is_over():
            started = time.perf_counter()
            self._call()
            rest = self._seconds_per_call - (time.perf_counter() - started)
            if rest > 0:
                time.sleep(rest)

    def run_seconds(self, seconds: float) -> None:
        end = time.perf_counter() + seconds
        self.run_until(lambda: time.perf_counter() >= end)

    def _call(self) -> None:
        parts = self._parts
        parts.seconds = {}
        at, cpu, wall = time.perf_counter(), time.thread_time(), time.perf_counter()
        orders = self._corpus.lease(_ORDERS_PER_CALL)
        wall, cpu = time.perf_counter() - wall, time.thread_time() - cpu
        lease_parts, parts.seconds = parts.seconds, {}
        outcomes = [recrawl.Outcome(handle=order.handle, digest=b"1") for order in orders]
        moment = time.perf_counter()
        self._corpus.report(outcomes)
        self.rows.append(
            {
                "phase": self._phase,
                "after": at - self._opened,
                "orders": len(orders),
                "wall": wall,
                "cpu": cpu,
                "report": time.perf_counter() - moment,
                "parts": lease_parts,
            }
        )


def _milliseconds(seconds: float) -> float:
    return round(1e3 * seconds, 2)


def _describe(row: dict[str, Any]) -> dict[str, Any]:
    parts = sorted(row["parts"].items(), key=lambda part: -part[1])
    return {
        "phase": row["phase"],
        "seconds_after_opening": round(row["after"], 2),
        "orders": row["orders"],
        "wall": _milliseconds(row["wall"]),
        "cpu": _milliseconds(row["cpu"]),
        "parts": {name: _milliseconds(seconds) for name, seconds in parts if seconds > 5e-4},
    }


def _summarise(rows: list[dict[str, Any]], seconds: float) -> dict[str, Any]:
    """Return the slowest calls of each phase in milliseconds, and the steady median."""
    opened = [row for row in rows if row["phase"] == "opened"]
    steady = [row for row in opened if row["after"] > seconds / 2] or opened
    medians = {what: float(np.median([row[what] for row in steady])) for what in ("wall", "cpu")}
    found: dict[str, Any] = {
        "steady_median_wall": round(1e3 * medians["wall"], 2),
        "steady_median_cpu": round(1e3 * medians["cpu"], 2),
    }
    for phase in dict.fromkeys(row["phase"] for row in rows):
        own = [row for row in rows if row["phase"] == phase]
        found[phase] = {
            "calls": len(own),
            "orders": sum(row["orders"] for row in own),
            "median_wall": _milliseconds(float(np.median([row["wall"] for row in own]))),
            "slowest_wall": _milliseconds(max(row["wall"] for row in own)),
            "slowest_cpu": _milliseconds(max(row["cpu"] for row in own)),
            "slowest_report_wall": _milliseconds(max(row["report"] for row in own)),
        }
    for what in ("wall", "cpu"):
        slowest = max(row[what] for row in rows)
        found[f"slowest_{what}"] = _milliseconds(slowest)
        found[f"slowest_over_median_{what}"] = round(slowest / medians[what], 1)
    slowest_rows = sorted(rows, key=lambda row: -float(row["wall"]))[:_N_SLOWEST]
    found["slowest_calls"] = [_describe(row) for row in slowest_rows]
    by_cpu = sorted(rows, key=lambda row: -float(row["cpu"]))[:_N_SLOWEST]
    found["slowest_calls_by_cpu"] = [_describe(row) for row in by_cpu]
    found["first_calls"] = [_describe(row) for row in rows[:_N_SLOWEST]]
    return found


def _use_corpus(folder: Path, seconds: float, n_snapshots: int) -> dict[str, Any]:
    moment = time.perf_counter()
    corpus = recrawl.open(folder)
    found = {"open_seconds": round(time.perf_counter() - moment, 2)}
    rate = float(corpus.nodes[0].shard.tables.registers.budget[0])
    with corpus:
        calls = _Calls(corpus, 1.02 * _ORDERS_PER_CALL / rate)
        with calls.phase("opened"):
            calls.run_seconds(seconds)
        snapshot_seconds = []
        for _ in range(n_snapshots):
            snapshot = threading.Thread(target=corpus.snapshot)
            with calls.phase("during snapshots"):
                moment = time.perf_counter()
                snapshot.start()
                calls.run_until(lambda: not snapshot.is_alive())  # noqa: B023 (called at once)
                snapshot_seconds.append(round(time.perf_counter() - moment, 2))
            with calls.phase("after snapshots"):
                calls.run_seconds(_SECONDS_AFTER)
    return {**found, "snapshot_seconds": snapshot_seconds, **_summarise(calls.rows, seconds)}


def measure(
    n_pages: int,
    n_hosts: int,
    *,
    case: Case = "new",
    seconds: float = 60.0,
    n_snapshots: int = 3,
    folder: str | None = None,
) -> dict[str, object]:
    """Make a corpus, open it again, and time leases; return milliseconds by phase.

    Parameters
    ----------
    n_pages, n_hosts
        Number of pages and of hosts of the corpus.
    case
        ``"new"``: no page was fetched, and the budget is unlimited.  ``"fetched"``: most pages
        were, and many are due.  ``"grown"``: most pages are newcomers in an older corpus.
    seconds
        Time from the opening to the first snapshot.
    n_snapshots
        Number of snapshots; the third is the first that removes an older one.
    folder
        Folder of the corpus; made if missing, and not deleted.  A temporary one by default.
    """
    if case not in get_args(Case):
        raise ValueError(f"case must be one of {get_args(Case)}, got {case!r}")
    where = Path(folder or tempfile.mkdtemp(prefix="recrawl-first-minute-"))
    module = [sys.executable, "-m", "benchmarks.first_minute"]
    try:
        if not (where / "FORMAT").exists():
            subprocess.run(
                [*module, "make", str(where), case, str(n_pages), str(n_hosts)], check=True
            )
        use = [*module, "use", str(where), str(seconds), str(n_snapshots)]
        used = subprocess.run(use, stdout=subprocess.PIPE, text=True, check=True)
        return {"pages": n_pages, "hosts": n_hosts, "case": case, **json.loads(used.stdout)}
    finally:
        if folder is None:
            shutil.rmtree(where, ignore_errors=True)


if __name__ == "__main__":
    if sys.argv[1] == "make":
        _make_corpus(Path(sys.argv[2]), sys.argv[3], *map(int, sys.argv[4:]))  # type: ignore[arg-type]
    else:
        print(json.dumps(_use_corpus(Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))))
