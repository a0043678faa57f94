"""``recrawl restore``: restore a corpus from a backup."""

from pathlib import Path

import click

from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.output import Output, output_option
from recrawl.units import count_text

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
    ),
)
@click.argument("source", metavar="SRC", type=click.Path(path_type=Path, file_okay=False))
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--name", metavar="NAME", help="Backup to restore.  Default: the newest.")
@output_option
def command(source: Path, folder: Path, name: str | None, out: Output) -> None:
    """Restore a corpus from the backups in SRC into FOLDER, which must be empty or not exist.

    All files of the backup are checked before anything is written.  The restored corpus is the
    same corpus as the one that was backed up: do not use both.
    """
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
