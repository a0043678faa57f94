"""Check for damage at rest: read everything now, or report what the last scrub found."""

from collections.abc import Iterator
from pathlib import Path

from recrawl.corpus.doctor.check_results import CheckResult, bad, ok, warn
from recrawl.kv import damage_mark
from recrawl.node.clock import Clock
from recrawl.node.config.sections import ScrubConfig
from recrawl.node.durability.corpus_format import CorpusFormat
from recrawl.node.durability.scrubber import (
    DamagedPart,
    ScrubReport,
    read_scrub_report,
    scrub_corpus,
)
from recrawl.units import seconds_text

__all__ = ["scrub_check"]

# A scrub that is overdue by this factor is reported.
_OVERDUE = 3.0


def scrub_check(
    folder: Path, shape: CorpusFormat, config: ScrubConfig, clock: Clock, *, is_now: bool
) -> Iterator[CheckResult]:
    """Report the last scrub, or scrub now; and damage that reads have found since.

    Parameters
    ----------
    folder
        Folder of the corpus.
    shape
        Content of its FORMAT file.
    config
        Configuration of scrubs.
    clock
        Time source.
    is_now
        Whether to read everything now.
    """
    report = scrub_corpus(folder, shape, clock) if is_now else read_scrub_report(folder)
    damage = list(report.damage) if report is not None else []
    known = {damaged.part for damaged in damage}
    for part in ("log", *(f"store/{i}" for i in range(shape.partitions))):
        what = damage_mark(folder / part)
        if what is None:
            # A store without its mark has been rebuilt since.
            damage = [one for one in damage if one.part != part or part == "log" or is_now]
        elif part not in known:
            damage.append(DamagedPart(part, what))
    damage = [one for one in damage if (folder / one.part).exists()]
    for one in damage:
        yield bad("scrub", f"{one.part} is damaged: {one.what}", _advice(one.part))
    if not damage:
        yield _result_without_damage(report, config, clock)


def _advice(part: str) -> str:
    if part.startswith("store/"):
        return "Nothing: the next command that changes the corpus rebuilds it if it can."
    if part.startswith("snapshots/"):
        return (
            "Nothing: recrawl uses another snapshot, and replaces this one in time.  Make a backup "
            "(`recrawl backup`), because the disk may be failing."
        )
    return (
        "The log cannot be rebuilt.  While the corpus still opens, export its pages (`recrawl "
        "export`); then restore it from a backup with `recrawl restore`."
    )


def _result_without_damage(
    report: ScrubReport | None, config: ScrubConfig, clock: Clock
) -> CheckResult:
    run = "Run `recrawl doctor --scrub` to read all files now, for example once a week from cron."
    if report is None:
        if config.every == float("inf"):
            return warn("scrub", "never, because scrub.every is never", run)
        return ok("scrub", "not yet: no process has had the corpus open for long enough")
    ago = max(clock.wall_ms() - report.ended_at_ms, 0) / 1000
    what = f"all files were read {seconds_text(ago)} ago, {report.n_bytes:,} bytes, no damage"
    if ago > _OVERDUE * config.every:
        return warn("scrub", what, run)
    return ok("scrub", what)
