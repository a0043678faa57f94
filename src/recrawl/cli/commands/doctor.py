"""``recrawl doctor``: check a corpus for problems."""

from dataclasses import asdict
from itertools import chain
from pathlib import Path

import click

from recrawl.cli.support.corpus_access import corpus_option, open_to_change, prepare_kernels
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.output import CHECK_FAILED, Output, hide_log_messages, output_option
from recrawl.errors import RecrawlError
from recrawl.kernel_mode import kernel_folder
from recrawl.units import count_text, instant_text, seconds_text

__all__ = ["command"]

_MARKS = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "bad": ("✗", "bold red")}


def _show(out: Output, check: str, level: str, what: str, todo: str) -> None:
    mark, style = _MARKS[level]
    rows = [((mark, style), (check, "" if level == "ok" else style), (what, ""))]
    if todo:
        rows.append((("", ""), ("", ""), (f"→ {todo}", "dim")))
    out.grid(rows, widths=(1, 14, None))


def _compile(out: Output) -> None:
    from recrawl.cli.support.kernels import compile_and_show  # noqa: PLC0415
    from recrawl.corpus import is_compiled  # noqa: PLC0415

    if kernel_folder() is None:
        raise RecrawlError(
            "compiled code cannot be kept: no folder for it can be written to.\n"
            "Set NUMBA_CACHE_DIR to a folder that can be written to."
        )
    if is_compiled():
        out.say("All commands are compiled already.")
    else:
        compile_and_show(out)
        out.say("All commands are compiled.")
    out.row({"is_compiled": True})


def _accept_clock(out: Output, folder: Path) -> None:
    with open_to_change(folder, accept_clock=True) as corpus:
        at_ms = corpus.now_ms()
    out.say(f"The time of the corpus is now {instant_text(at_ms)} UTC.")
    out.row({"at_ms": at_ms})


def _reset_clock(out: Output, folder: Path) -> None:
    with open_to_change(folder) as corpus:
        seconds = corpus.reset_clock()
        at_ms = corpus.now_ms()
    if seconds:
        out.say(
            f"The time of the corpus went back by {seconds_text(seconds)}, to "
            f"{instant_text(at_ms)} UTC."
        )
    else:
        out.say("The corpus is not ahead of the system clock; nothing was changed.")
    out.row({"at_ms": at_ms, "moved_back_seconds": seconds})


@example_command(
    "doctor",
    examples=(
        CommandExample("recrawl doctor"),
        CommandExample("recrawl doctor --deep", "read and compare all data"),
        CommandExample("recrawl doctor --scrub", "find blocks that the disk has damaged"),
        CommandExample(
            "recrawl doctor --repair",
            "continue after the log has lost records; keeps the damaged files",
        ),
        CommandExample(
            "recrawl doctor --compile",
            "once after an upgrade, so that no command has to compile",
            needs_corpus=False,
            is_run=False,
        ),
    ),
)
@click.option("--deep", is_flag=True, help="Read all data: every record, entry and checksum.")
@click.option(
    "--repair",
    "is_repair",
    is_flag=True,
    help="Continue a corpus whose log has lost records, from the newest state that is left.  Moves "
    "the damaged files into a folder inside the corpus, and deletes nothing.",
)
@click.option(
    "--backup",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DEST",
    help="With --repair: rebuild a store that is damaged, from these backups if the corpus itself "
    "does not suffice.  No change is lost.",
)
@click.option(
    "--scrub",
    is_flag=True,
    help="Read all files and compare their checksums, also those of snapshots.  A store that turns "
    "out damaged is rebuilt by the next command that changes the corpus.",
)
@click.option(
    "--compile",
    "is_compile",
    is_flag=True,
    help="Compile all commands now, and check nothing.  Takes about a minute, or longer if the "
    "machine is busy, once per version.",
)
@click.option(
    "--accept-clock",
    "is_accepting_clock",
    is_flag=True,
    help="Confirm that the system clock is right, although the last change of the corpus is longer "
    "ago than clock.gap_max.",
)
@click.option(
    "--reset-clock",
    "is_resetting_clock",
    is_flag=True,
    help="Move a corpus whose time is in the future back to the time of the system clock.",
)
@corpus_option
@output_option
def command(
    deep: bool,
    is_repair: bool,
    backup: Path | None,
    scrub: bool,
    is_compile: bool,
    is_accepting_clock: bool,
    is_resetting_clock: bool,
    folder: Path,
    out: Output,
) -> None:
    """Check a corpus for problems, and print what to do about them.

    Changes nothing without --repair, --accept-clock and --reset-clock, and can run while another
    process is using the corpus.  Exit code 3 if anything is broken.
    """
    if backup is not None and not is_repair:
        raise click.UsageError("--backup needs --repair.")
    if is_compile:
        _compile(out)
        return
    if is_accepting_clock:
        _accept_clock(out, folder)
        return
    if is_resetting_clock:
        _reset_clock(out, folder)
        return
    prepare_kernels(folder)
    from recrawl.corpus import (  # noqa: PLC0415
        Severity,
        check_corpus,
        repair_corpus,
        repair_from_backup,
    )

    # Warnings logged while reading are among the results, so they are not printed twice.
    hide_log_messages()
    n_by_level = dict.fromkeys(_MARKS, 0)
    if backup is not None:
        findings = repair_from_backup(folder, backup)
    elif is_repair:
        findings = repair_corpus(folder)
    else:
        findings = check_corpus(folder, is_deep=deep, is_scrub=scrub)
    if is_repair:
        # What a repair does not concern, or could not repair, is still broken.
        still_bad = (one for one in check_corpus(folder) if one.level == Severity.BAD)
        findings = chain(findings, still_bad)
    for finding in findings:
        level = finding.level.value
        n_by_level[level] += 1
        out.row(asdict(finding))
        _show(out, finding.check, level, finding.what, finding.todo)
    out.say()
    if n_by_level["bad"]:
        out.say(
            f"{count_text(n_by_level['bad'], 'check')} failed.  Follow the arrows (→).",
            style="bold",
        )
        click.get_current_context().exit(CHECK_FAILED)
    if is_repair:
        return
    n_warnings = n_by_level["warn"]
    more = f"; {count_text(n_warnings, 'warning')}" if n_warnings else ""
    out.say(f"Nothing is broken{more}.", style="bold")
