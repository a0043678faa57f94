"""Check a corpus for broken files, limits that cannot be kept, and unreliable sources.

Each check runs by itself, and an exception becomes a result, so that a broken corpus does not stop
the other checks.  Checks change nothing, and another process may use the corpus meanwhile.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from recrawl.corpus.corpus import Corpus
from recrawl.corpus.doctor.backup_repair import repair_from_backup
from recrawl.corpus.doctor.check_results import CheckResult, Severity, bad, ok, run_check
from recrawl.corpus.doctor.corpus_checks import (
    audits_check,
    budget_check,
    consumers_check,
    flapping_check,
    hosts_check,
    limits_check,
    names_check,
    pages_check,
    sources_check,
    wrong_answers_check,
)
from recrawl.corpus.doctor.disk_checks import (
    config_check,
    deep_check,
    format_check,
    lock_check,
    partition_check,
)
from recrawl.corpus.doctor.fetcher_checks import fetchers_check, idle_fetchers
from recrawl.corpus.doctor.machine_checks import (
    clock_check,
    disk_check,
    kernels_check,
    versions_check,
)
from recrawl.corpus.doctor.repair import repair_corpus
from recrawl.corpus.doctor.scrub_checks import scrub_check
from recrawl.corpus.doctor.storage_checks import shared_snapshots_check
from recrawl.corpus.opening import open_corpus
from recrawl.node.clock import Clock, SystemClock
from recrawl.node.durability.corpus_format import read_format

__all__ = [
    "CheckResult",
    "Severity",
    "check_corpus",
    "check_open_corpus",
    "kernels_check",
    "repair_corpus",
    "repair_from_backup",
]


def check_corpus(
    folder: Path, *, is_deep: bool = False, is_scrub: bool = False, clock: Clock | None = None
) -> Iterator[CheckResult]:
    """Check the corpus in a folder, which need not open; yield the results, basic ones first.

    Parameters
    ----------
    folder
        Folder of the corpus.
    is_deep
        Whether to read everything: all records and entries, and to replay the log and compare.
    is_scrub
        Whether to read all files and compare their checksums; this notes the result in the folder,
        and marks a damaged store, so that the next opening rebuilds it.
    clock
        Time source; the system clock by default.
    """
    clock = clock or SystemClock()
    yield from run_check("versions", versions_check)
    yield from run_check("kernels", kernels_check)
    if folder.is_dir():
        yield from run_check("disk", partial(disk_check, folder))
    yield from run_check("corpus", partial(_corpus_results, folder, is_deep, is_scrub, clock))


def check_open_corpus(corpus: Corpus, *, n_due: float = 0) -> list[CheckResult]:
    """Return the problems of a corpus that is in use, as far as they are quickly found.

    Parameters
    ----------
    corpus
        Open corpus; only its open partitions are checked.
    n_due
        Number of pages that are due, as far as the caller knows; somebody should fetch them.
    """
    checks = (
        ("fetchers", partial(idle_fetchers, n_due=n_due)),
        ("limits", limits_check),
        ("hosts", hosts_check),
        ("sources", sources_check),
        ("audits", audits_check),
        ("wrong answers", wrong_answers_check),
        ("consumers", consumers_check),
    )
    with corpus.nodes.use_all():
        found = [one for name, check in checks for one in run_check(name, partial(check, corpus))]
    return [one for one in found if one.level != Severity.OK]


def _corpus_results(
    folder: Path, is_deep: bool, is_scrub: bool, clock: Clock
) -> Iterator[CheckResult]:
    shape, findings = format_check(folder)
    yield from findings
    if shape is None:
        return
    config, findings = config_check(folder, shape)
    yield from findings
    yield from run_check("lock", partial(lock_check, folder))
    if config is None:
        return
    is_log_read = True
    said = []
    for finding in run_check("log", partial(partition_check, folder, config)):
        said.append(finding.what)
        is_log_read &= not (finding.check.startswith("log") and finding.level == Severity.BAD)
        yield finding
    if is_deep and is_log_read:
        yield from run_check("reading everything", partial(deep_check, folder, config))
    format_file = read_format(folder)
    assert format_file is not None
    yield from run_check(
        "scrub", partial(scrub_check, folder, format_file, config.scrub, clock, is_now=is_scrub)
    )
    yield from run_check(
        "shared snapshots", partial(shared_snapshots_check, folder, config, format_file, clock)
    )
    try:
        corpus = open_corpus(folder, config, read_only=True, clock=clock)
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        if any(reason in what for what in said):
            reason = "for the reason above"
        yield bad(
            "opening",
            f"the corpus cannot be opened for reading: {reason}",
            "Correct what is named above.  The next command that changes the corpus rebuilds what "
            "can be rebuilt.",
        )
        return
    with corpus:
        yield ok("opening", "the corpus can be read")
        yield from _open_corpus_results(corpus, is_deep, clock)


def _open_corpus_results(corpus: Corpus, is_deep: bool, clock: Clock) -> Iterator[CheckResult]:
    log_ms = max(node.shard.now_ms for node in corpus.nodes)
    gap_max = corpus.config.clock.gap_max
    yield from run_check("clock", partial(clock_check, clock, log_ms, gap_max))
    for name, check in (
        ("pages", pages_check),
        ("fetchers", fetchers_check),
        ("budget", budget_check),
        ("limits", limits_check),
        ("hosts", hosts_check),
        ("sources", sources_check),
        ("audits", audits_check),
        ("flapping", flapping_check),
        ("wrong answers", wrong_answers_check),
        ("consumers", consumers_check),
    ):
        yield from run_check(name, partial(check, corpus))
    if is_deep:
        yield from run_check("names", partial(names_check, corpus))
