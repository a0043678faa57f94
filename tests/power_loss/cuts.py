"""Cut the power of a traced run at many moments, and check the corpus that is left each time."""

import json
import logging
import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import recrawl
from benchmarks.acknowledged import Acknowledged
from benchmarks.workload import LEASE_SECONDS
from recrawl.corpus.doctor import Severity, check_corpus
from tests.power_loss.disk import Disk, Survival
from tests.power_loss.script import N_PARTITIONS
from tests.power_loss.trace import Call, Op, read_trace, run_traced

__all__ = [
    "Cut",
    "CutResult",
    "choose_cuts",
    "cut_power",
    "cuts_after_renames",
    "moments_of",
    "record_run",
]

CORPUS = "corpus"
_BARRIERS = (Op.SYNC, Op.SYNC_ALL, Op.RENAME)


class Cut(NamedTuple):
    """One power cut."""

    moment: int
    """Number of calls before it."""
    survival: Survival
    seed: int


class CutResult(NamedTuple):
    """What was checked after one power cut."""

    cut: Cut
    n_acknowledged: int
    n_in_doubt: int
    problem: str | None
    """What the check found; None if all is well."""


def record_run(
    shim: Path, folder: Path, seed: int, *mutants: str, strace: Path | None = None
) -> list[Call]:
    """Run the scripted program in an empty folder; return its calls.

    Parameters
    ----------
    shim
        The compiled library.
    folder
        Folder for the corpus (in ``disk``) and the trace.
    seed
        Random seed of the operations.
    *mutants
        Names of mistakes that the program makes.
    strace
        Where given, prefix of the files that strace writes.
    """
    root = folder / "disk"
    root.mkdir()
    arguments = ["-m", "tests.power_loss.script", str(root / CORPUS), str(seed), *mutants]
    variables = {"NUMBA_DISABLE_JIT": "1"}  # the cache of kernels is none of its concerns
    run_traced(shim, root, folder / "trace", arguments, variables=variables, strace=strace)
    return list(read_trace(folder / "trace"))


def moments_of(calls: Sequence[Call]) -> list[int]:
    """Return the moments before and after every sync and rename."""
    barriers = (i for i, call in enumerate(calls) if call.op in _BARRIERS)
    return sorted({moment for i in barriers for moment in (i, i + 1)})


def choose_cuts(calls: Sequence[Call], n_cuts: int, seed: int) -> list[Cut]:
    """Return power cuts before and after syncs and renames: all of them, or random ones.

    If there are fewer such moments than cuts, every moment gets several, each time with other
    changes that survive.
    """
    rng = random.Random(seed)
    moments = moments_of(calls)
    survivals = list(Survival)
    chosen: list[int] = []
    while len(chosen) < n_cuts:
        chosen += rng.sample(moments, min(len(moments), n_cuts - len(chosen)))
    shift = rng.randrange(len(survivals))
    cuts = [
        Cut(moment, survivals[(i + shift) % len(survivals)], rng.getrandbits(32))
        for i, moment in enumerate(chosen)
    ]
    return sorted(cuts, key=lambda cut: cut.moment)


def cuts_after_renames(calls: Sequence[Call], n_cuts: int, seed: int) -> list[Cut]:
    """Return power cuts after the first sync that follows a rename; nothing unsynced survives."""
    moments = set()
    for i, call in enumerate(calls):
        if call.op == Op.RENAME:
            syncs = (k for k in range(i, len(calls)) if calls[k].op == Op.SYNC)
            moments.add(next(syncs, i) + 1)
    chosen = random.Random(seed).sample(sorted(moments), min(n_cuts, len(moments)))
    return [Cut(moment, Survival.NOTHING, 0) for moment in sorted(chosen)]


def cut_power(calls: Sequence[Call], cuts: Sequence[Cut], scratch: Path) -> Iterator[CutResult]:
    """Cut the power at each moment, open the corpus that is left, and compare it.

    Parameters
    ----------
    calls
        Calls of a run that began with an empty folder.
    cuts
        Power cuts, sorted by their moment.
    scratch
        Folder for the disks, which are deleted after each check.
    """
    empty = scratch / "empty"
    empty.mkdir()
    disk = Disk(empty)
    # The root of the run has another inode; the first call in it names that.
    disk.adopt_root(next(call.number[0] for call in calls if call.op == Op.CREATE))
    lines: list[str] = []
    done = 0
    for cut in cuts:
        for call in calls[done : cut.moment]:
            if call.op == Op.NOTE:
                lines.append(call.data.decode())
            else:
                disk.follow(call)
        done = cut.moment
        target = scratch / "cut"
        disk.write_to(target, cut.survival, random.Random(cut.seed))
        account = Acknowledged(N_PARTITIONS)
        try:
            for line in map(json.loads, lines):
                if "will" in line or "done" in line:
                    account.record(line)
            account.died()
            # Reading everything takes as long as all other checks together.
            _check_disk(target / CORPUS, account, is_deep=cut.seed % 4 == 0)
            problem = None
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        yield CutResult(cut, account.n_operations, account.n_in_doubt, problem)
        shutil.rmtree(target)


@contextmanager
def _no_warnings() -> Iterator[None]:
    """Raise if recrawl logs a warning: after a power cut nothing is damaged."""
    messages: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    collector = Collector(logging.WARNING)
    logger = logging.getLogger("recrawl")
    logger.addHandler(collector)
    try:
        yield
    finally:
        logger.removeHandler(collector)
    assert not messages, f"recrawl warned: {messages}"


def _check_disk(folder: Path, account: Acknowledged, *, is_deep: bool) -> None:
    with _no_warnings(), recrawl.open(folder) as corpus:
        account.check(corpus)
        orders = corpus.lease(10_000, seconds=LEASE_SECONDS)
        number = "after the power cut"
        account.record({"will": number, "op": "lease", "n": len(orders)})
        account.record({"done": number, "orders": [(order.handle, order.url) for order in orders]})
    with _no_warnings(), recrawl.open(folder) as corpus:
        account.check(corpus)
    findings = [
        f"{finding.check}: {finding.what}"
        for finding in check_corpus(folder, is_deep=is_deep)
        if finding.level == Severity.BAD
    ]
    assert not findings, f"doctor found {findings}"
