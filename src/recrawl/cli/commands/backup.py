"""``recrawl backup``: back up a corpus, and check backups."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from recrawl.cli.support.corpus_access import corpus_option, value_errors_as_usage
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.output import CHECK_FAILED, Output, output_option
from recrawl.units import count_text, exact_instant_text

if TYPE_CHECKING:
    from recrawl.corpus import BackupCheck

__all__ = ["command"]


@example_command(
    "backup",
    examples=(
        CommandExample("recrawl backup ../backups"),
        CommandExample("recrawl backup ../backups --keep 30", "keep the last 30 backups"),
        CommandExample(
            "recrawl backup --check ../backups",
            "compare the checksums of all backups",
        ),
    ),
)
@click.argument("dest", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--keep",
    type=click.IntRange(1, 100_000),
    default=7,
    show_default=True,
    metavar="N",
    help="Number of backups to keep in DEST; older ones are removed.",
)
@click.option(
    "--check",
    is_flag=True,
    help="Make no backup: read all backups in DEST and compare their checksums.  Exit code 3 if "
    "one is damaged.",
)
@corpus_option
@output_option
def command(dest: Path, keep: int, check: bool, folder: Path, out: Output) -> None:
    """Copy a corpus into the folder DEST, on another disk if possible, and check the copy.

    Works while another process is using the corpus.  Files that DEST already has are not copied
    again.  `recrawl restore` restores a backup.
    """
    if check:
        _check(dest, out)
        return
    from recrawl.corpus import back_up_corpus  # noqa: PLC0415

    with value_errors_as_usage():
        made = back_up_corpus(folder, dest, keep=keep)
    out.row(made._asdict())
    out.say(
        f"Backup {made.name}: {count_text(made.n_files, 'file')}, {made.n_bytes:,} bytes, of which "
        f"{made.n_bytes_copied:,} were new.  {dest} holds {count_text(made.n_backups, 'backup')}."
    )
    if made.log_in == "kafka":
        out.note(
            "The log of this corpus is a Kafka topic, which is not in the backup: a restored "
            "corpus continues from the topic."
        )


def _check(dest: Path, out: Output) -> None:
    from recrawl.corpus import check_backups  # noqa: PLC0415

    checks = check_backups(dest)
    for one in checks:
        out.row({**one._asdict(), "is_intact": not one.problems})
        _show(out, one)
    n_damaged = sum(bool(one.problems) for one in checks)
    if not checks:
        # A check from cron must not take lost backups for intact ones.
        out.note(f"{dest} holds no backup.")
        click.get_current_context().exit(CHECK_FAILED)
    elif n_damaged:
        out.say(f"{count_text(n_damaged, 'backup is', 'backups are')} damaged.", style="bold")
        click.get_current_context().exit(CHECK_FAILED)
    else:
        out.say("All are intact.", style="bold")


def _show(out: Output, one: "BackupCheck") -> None:
    if out.is_json:
        return
    when = "at an unknown time"
    if one.made_at_ms is not None:
        when = exact_instant_text(one.made_at_ms)
    out.say(f"{one.name}  {when}  {count_text(one.n_files, 'file')}, {one.n_bytes:,} bytes")
    for problem in one.problems:
        out.say(f"  {problem}", style="bold red")
