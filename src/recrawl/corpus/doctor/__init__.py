"""Looking for what is wrong with a corpus: broken files, promises that cannot be kept, liars.

A corpus that is broken in any way must not stop the other checks, so each runs by itself, and one
that fails is a finding.  Nothing is changed, and another process may work with the corpus.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from recrawl.corpus.corpus import Corpus
from recrawl.corpus.doctor.corpus_checks import (
    budget_check,
    flapping_check,
    hosts_check,
    limits_check,
    names_check,
    pages_check,
    sources_check,
)
from recrawl.corpus.doctor.disk_checks import (
    config_check,
    deep_check,
    format_check,
    lock_check,
    partition_check,
)
from recrawl.corpus.doctor.findings import Finding, Level, bad, found_by, ok
from recrawl.corpus.doctor.machine_checks import (
    clock_check,
    disk_check,
    kernels_check,
    versions_check,
)
from recrawl.corpus.opening import open_corpus
from recrawl.node.clock import Clock, SystemClock

__all__ = ["Finding", "Level", "checkup", "kernels_check"]


def checkup(
    folder: Path, *, is_deep: bool = False, clock: Clock | None = None
) -> Iterator[Finding]:
    """Yield what is found, one thing after the other, the most basic first.

    Parameters
    ----------
    folder
        Of the corpus.
    is_deep
        Whether to read everything: all records and entries, and the log replayed, to compare.
    clock
        To go by; the machine's unless given.
    """
    clock = clock or SystemClock()
    yield from found_by("versions", versions_check)
    yield from found_by("kernels", kernels_check)
    if folder.is_dir():
        yield from found_by("disk", partial(disk_check, folder))
    yield from found_by("corpus", partial(_corpus_findings, folder, is_deep, clock))


def _corpus_findings(folder: Path, is_deep: bool, clock: Clock) -> Iterator[Finding]:
    shape, findings = format_check(folder)
    yield from findings
    if shape is None:
        return
    config, findings = config_check(folder, shape)
    yield from findings
    yield from found_by("lock", partial(lock_check, folder))
    if config is None:
        return
    is_log_read = True
    for finding in found_by("log", partial(partition_check, folder, config)):
        is_log_read &= not (finding.check.startswith("log") and finding.level == Level.BAD)
        yield finding
    if is_deep and is_log_read:
        yield from found_by("reading everything", partial(deep_check, folder, config))
    try:
        corpus = open_corpus(folder, config, read_only=True, clock=clock)
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        yield bad(
            "opening",
            f"the corpus cannot be opened for reading: {reason}",
            "Put right what is named above.  What can be made anew is, when it is next opened to "
            "be changed.",
        )
        return
    with corpus:
        yield ok("opening", "the corpus can be read")
        yield from _known_findings(corpus, is_deep, clock)


def _known_findings(corpus: Corpus, is_deep: bool, clock: Clock) -> Iterator[Finding]:
    log_ms = max(node.shard.now_ms for node in corpus.nodes)
    yield from found_by("clock", partial(clock_check, clock, log_ms))
    for name, check in (
        ("pages", pages_check),
        ("budget", budget_check),
        ("limits", limits_check),
        ("hosts", hosts_check),
        ("sources", sources_check),
        ("flapping", flapping_check),
    ):
        yield from found_by(name, partial(check, corpus))
    if is_deep:
        yield from found_by("names", partial(names_check, corpus))
