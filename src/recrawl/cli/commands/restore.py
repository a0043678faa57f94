"""``recrawl restore``: restore a corpus from a backup, or as of a time from shared storage."""

from pathlib import Path

import click

from recrawl.cli.support.corpus_access import prepare_kernels
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.instants import instant_option
from recrawl.cli.support.output import Output, output_option
from recrawl.units import count_text, exact_instant_text

__all__ = ["command"]


@example_command(
    "restore",
    examples=(
        CommandExample("recrawl restore ../backups ../restored"),
        CommandExample(
            "recrawl restore ../backups ../restored --name 000012",
            "an earlier backup; `recrawl backup --check ../backups` lists them",
            is_run=False,
        ),
        CommandExample(
            "recrawl restore . ../restored --at '2 hours ago'",
            "the corpus on Kafka in this folder, as it was then",
            is_run=False,
        ),
    ),
)
@click.argument("source", metavar="SRC", type=click.Path(path_type=Path, file_okay=False))
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--name", metavar="NAME", help="Backup to restore.  Default: the newest.")
@click.option(
    "--at",
    "at_ms",
    callback=instant_option,
    metavar="TIME",
    help="Restore the corpus on Kafka in SRC, from shared storage, as it was at a time: "
    "2026-03-01T14:30 (UTC) or '3 days ago'.",
)
@output_option
def command(source: Path, folder: Path, name: str | None, at_ms: int | None, out: Output) -> None:
    """Restore a corpus from the backups in SRC into FOLDER, which must be empty or not exist.

    All files of the backup are checked before anything is written.  The restored corpus is the
    same corpus as the one that was backed up: do not use both.

    With --at, SRC is the folder of a corpus on Kafka whose recrawl.toml names shared storage.  The
    restored corpus has its log in FOLDER, and never writes to the topic.
    """
    if at_ms is not None:
        if name is not None:
            raise click.UsageError("--name is for backups; give either --name or --at.")
        _restore_at(source, folder, at_ms, out)
        return
    from recrawl.corpus import restore_corpus  # noqa: PLC0415

    restored = restore_corpus(source, folder, name=name)
    out.row(restored._asdict())
    out.say(
        f"Backup {restored.name} restored: {count_text(restored.n_files, 'file')}, "
        f"{restored.n_bytes:,} bytes.  Check it with `recrawl doctor -C {folder}`, and do not use "
        "the corpus that it is a copy of any more."
    )
    if restored.log_in == "kafka":
        out.note("The log of this corpus is a Kafka topic: it continues from there.")


def _restore_at(source: Path, folder: Path, at_ms: int, out: Output) -> None:
    prepare_kernels(source, n_bytes_input=None)
    from recrawl.corpus import restore_corpus_at  # noqa: PLC0415

    restored = restore_corpus_at(source, folder, at_ms)
    n_snapshot_only = restored.n_snapshot_only
    out.row(restored._asdict())
    at, reached = exact_instant_text(at_ms), exact_instant_text(restored.reached_ms)
    if n_snapshot_only == restored.n_partitions:
        when = (
            f"at their last snapshots before {at}, because the topic no longer has the records "
            f"after these; the oldest is of {reached}"
        )
    else:
        when = f"at {at if n_snapshot_only else reached}"
    out.say(
        f"{count_text(restored.n_partitions, 'partition')} restored as they were {when}, with "
        f"{count_text(restored.n_records, 'record')} of the topic.  The log is in {folder}, so "
        "nothing you do there reaches the topic."
    )
    if 0 < n_snapshot_only < restored.n_partitions:
        out.note(
            f"{n_snapshot_only:,} of them are older, because the topic no longer has the records "
            f"after their snapshots; the oldest is of {reached}."
        )
    elif n_snapshot_only == 0 and restored.reached_ms < at_ms:
        out.note(
            f"They are as of the last moment before {at} of which anything is left: the number of "
            "partitions was changed then, and no snapshot of all new ones is from before that time."
        )
