"""The corpus that a command works on: which it is, how it is opened, and errors in words.

A command takes ``@corpus_option``, which passes it ``folder``, and opens that folder with
`open_to_read` or `open_to_change`.  It need not catch errors of ours: `recrawl.cli` prints each
as what is wrong and what to do, and ends with 1.  `checked_arguments` makes a `ValueError` of the
interface, which means a wrong argument here, one of usage.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recrawl.errors import (
    ConfigError,
    CorpusError,
    FormatError,
    LedgerError,
    LockedError,
    OwnershipLost,
    RecoveryError,
    RecrawlError,
    SnapshotFormatError,
    StorageError,
    TimeLost,
    UnknownFormat,
    WebFileError,
)
from recrawl.units import seconds_text

if TYPE_CHECKING:
    from recrawl.corpus import Corpus

__all__ = [
    "LOCK_SECONDS_MAX",
    "checked_arguments",
    "corpus_option",
    "failure_of",
    "failure_of_system",
    "is_corpus",
    "open_to_change",
    "open_to_read",
    "prepare",
]

LOCK_SECONDS_MAX = 10.0
"""How long to wait for another process that is changing the corpus."""
_LOCK_LOOK_SECONDS = 0.1
_LOCK_SILENT_SECONDS = 1.0

corpus_option = click.option(
    "-C",
    "--corpus",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="RECRAWL_CORPUS",
    default=".",
    metavar="FOLDER",
    help="Folder of the corpus; $RECRAWL_CORPUS, or the one you are in.",
)
"""``-C FOLDER``, which the command gets as ``folder: Path``."""

# The most particular first.
_WHAT_TO_DO: tuple[tuple[type[RecrawlError], str], ...] = (
    (
        LockedError,
        "Another process works with this corpus: let it end, or ask only: stats, explain, "
        "changes, plan, export and doctor work meanwhile.",
    ),
    (FormatError, "Use the version of recrawl that wrote it, or a newer one."),
    (SnapshotFormatError, "Use the version of recrawl that wrote it, or a newer one."),
    (
        UnknownFormat,
        "--format NAME says which it is, --column NAME=FIELD what a column is called there.",
    ),
    (RecoveryError, "See what is left with `recrawl doctor`."),
    (WebFileError, ""),  # says itself what a web may be
    (ConfigError, "`recrawl config explain KEY` says what a setting may be."),
    (TimeLost, "More of the log is kept with a higher snapshots.keep in recrawl.toml."),
    (OwnershipLost, "Another process has taken over: run this again if it should not have."),
    (StorageError, "Look whether the disk is full and the folder yours, then run this again."),
    (LedgerError, "Look whether the log can be reached, then run this again."),
)


def failure_of(error: RecrawlError) -> click.ClickException:
    """Return an error as it is shown: what is wrong, and what to do about it."""
    text = str(error).strip() or type(error).__name__
    hint = next((hint for kind, hint in _WHAT_TO_DO if isinstance(error, kind)), None)
    return click.ClickException(f"{text}\n{hint}" if hint else text)


def failure_of_system(error: OSError) -> click.ClickException:
    """Return what the system refused, as it is shown."""
    where = "input or output failed" if error.filename is None else error.filename
    what = error.strerror or str(error) or type(error).__name__
    return click.ClickException(
        f"{where}: {what}.\nLook whether it is there and yours, and the disk not full, then run "
        "this again."
    )


def is_corpus(folder: Path) -> bool:
    """Return whether there is a corpus in a folder."""
    return (folder / "FORMAT").is_file()


def _check(folder: Path) -> None:
    if is_corpus(folder):
        return
    if folder == Path():
        raise CorpusError(
            "this folder is no corpus.\nMake one with `recrawl init`, or say where it is: "
            "-C FOLDER, or RECRAWL_CORPUS=FOLDER."
        )
    raise CorpusError(f"{folder} is no corpus.\nMake one with `recrawl init {folder}`.")


def prepare(folder: Path, *, n_bytes_input: int | None = 0) -> None:
    """Choose what kernels this command runs on; before anything of `recrawl.corpus` is imported.

    Opening a corpus does it too.

    Parameters
    ----------
    folder
        Of the corpus.
    n_bytes_input
        Of what the command will read; None if that may be much.
    """
    from recrawl.cli.support.kernels import are_made, choose_kernels  # noqa: PLC0415

    if are_made():
        return
    context = click.get_current_context(silent=True)
    command = (context.info_name if context is not None else None) or ""
    with checked_arguments():
        choose_kernels(folder, command=command, n_bytes_input=n_bytes_input)


def open_to_read(folder: Path) -> "Corpus":
    """Open a corpus to ask it, whoever else may be working with it."""
    _check(folder)
    prepare(folder)
    import recrawl  # noqa: PLC0415

    return recrawl.open(folder.resolve(), read_only=True)


def open_to_change(folder: Path, *, n_bytes_input: int | None = 0) -> "Corpus":
    """Open a corpus to change it; close it again (``with``).

    Waits a little for another command that is just working with it.

    Parameters
    ----------
    folder
        Of the corpus.
    n_bytes_input
        Of what the command will read; None if that may be much.
    """
    _check(folder)
    prepare(folder, n_bytes_input=n_bytes_input)
    import recrawl  # noqa: PLC0415

    begun = time.monotonic()
    ends = begun + LOCK_SECONDS_MAX
    is_said = False
    while True:
        try:
            # By one name: locks within a process are by name.
            return recrawl.open(folder.resolve())
        except LockedError:
            now = time.monotonic()
            if now >= ends:
                raise
            if not is_said and now >= begun + _LOCK_SILENT_SECONDS:
                is_said = True
                click.echo(
                    "Another process works with this corpus; waiting for it, "
                    f"{seconds_text(LOCK_SECONDS_MAX)} at most.",
                    err=True,
                )
        time.sleep(_LOCK_LOOK_SECONDS)


@contextmanager
def checked_arguments() -> Iterator[None]:
    """Make a wrong argument, a `ValueError` that is none of ours, one of usage: exit code 2."""
    try:
        yield
    except RecrawlError:
        raise
    except ValueError as error:
        raise click.UsageError(str(error), click.get_current_context(silent=True)) from error
