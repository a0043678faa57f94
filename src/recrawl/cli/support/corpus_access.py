"""Opening the corpus of a command, and the error messages of all commands.

A command takes ``@corpus_option``, which passes it ``folder``, and opens that folder with
`open_to_read` or `open_to_change`.  With ``@corpus_or_service_option`` it may be the address of a
corpus on a server, too; opening that gives a client with the methods of a corpus.

A command need not catch a `RecrawlError`: `recrawl.cli` prints what went wrong and what to do, and
exits with 1.  `value_errors_as_usage` turns a `ValueError` about an argument into a usage error,
which exits with 2.
"""

import importlib.util
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import click

from recrawl.cli.support.output import print_log_messages, print_note
from recrawl.errors import (
    AccessDenied,
    BackupError,
    ChangesLost,
    ConfigError,
    CorpusError,
    FolderInUse,
    FormatError,
    LedgerError,
    LockedError,
    OwnershipLost,
    RecoveryError,
    RecrawlError,
    ServiceUnavailable,
    SnapshotFormatError,
    StorageError,
    TimeLost,
    UnknownFormat,
    WebFileError,
)
from recrawl.folder_lock import address_of_user, check_folder_is_free
from recrawl.units import seconds_text

if TYPE_CHECKING:
    from recrawl.corpus import Corpus

__all__ = [
    "LOCK_SECONDS_MAX",
    "CorpusPlace",
    "check_folder",
    "check_is_corpus",
    "check_server_packages",
    "click_error",
    "click_system_error",
    "corpus_option",
    "corpus_or_service_option",
    "is_corpus",
    "open_to_change",
    "open_to_read",
    "prepare_kernels",
    "value_errors_as_usage",
]

LOCK_SECONDS_MAX = 10.0
"""Maximum time to wait for another process that is using the corpus."""
_LOCK_LOOK_SECONDS = 0.1
_LOCK_SILENT_SECONDS = 1.0

CorpusPlace: TypeAlias = Path | str
"""Folder of a corpus, or its address on a server."""


class _Folder(click.Path):
    """A folder; addresses of servers are refused, or passed on as text."""

    def __init__(self, *, accepts_service: bool) -> None:
        super().__init__(path_type=Path, file_okay=False)
        self._accepts_service = accepts_service

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and value.lower().startswith(("http://", "https://")):
            if self._accepts_service:
                return value
            self.fail(
                f"this command needs the folder of the corpus, got {value}.  Run it on the machine "
                "of the server.",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


corpus_option = click.option(
    "-C",
    "--corpus",
    "folder",
    type=_Folder(accepts_service=False),
    envvar="RECRAWL_CORPUS",
    default=".",
    metavar="FOLDER",
    help="Folder of the corpus.  Default: $RECRAWL_CORPUS, or the current folder.",
)
"""``-C FOLDER``, which the command gets as ``folder: Path``."""

_place_option = click.option(
    "-C",
    "--corpus",
    "folder",
    type=_Folder(accepts_service=True),
    envvar="RECRAWL_CORPUS",
    default=".",
    metavar="FOLDER",
    help="Folder of the corpus, or its address on a server (https://…, with the API key in "
    "$RECRAWL_KEY).  Default: $RECRAWL_CORPUS, or the current folder.",
)


def _keep_allow_http(context: click.Context, _: click.Parameter, value: bool) -> None:
    context.meta["recrawl.allow_http"] = value


_allow_http_option = click.option(
    "--allow-http",
    is_flag=True,
    expose_value=False,
    callback=_keep_allow_http,
    help="With -C http://…: send the API key without encryption, on a network that you trust.",
)


def corpus_or_service_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``-C FOLDER`` or ``-C URL``, which the command gets as ``folder: CorpusPlace``."""
    return _place_option(_allow_http_option(command))


# Subclasses before their base classes: the first match counts.
_WHAT_TO_DO: tuple[tuple[type[RecrawlError], str], ...] = (
    (
        LockedError,
        "Wait until it ends.  If it is `recrawl serve` or `recrawl worker`, give the address that "
        "it printed instead of the folder: -C http://127.0.0.1:8377/v1/corpora/NAME.  Meanwhile "
        "you can use stats, explain, changes, plan, export and doctor.",
    ),
    (FormatError, "Use the version of recrawl that wrote it, or a newer one."),
    (SnapshotFormatError, "Use the version of recrawl that wrote it, or a newer one."),
    (
        UnknownFormat,
        "Give the format with --format NAME, or the name of a column with --column NAME=FIELD.",
    ),
    (RecoveryError, "Run `recrawl doctor` to see what is left."),
    (BackupError, ""),  # its message says what to do
    (WebFileError, ""),  # its message says what a web file may hold
    (ConfigError, ""),  # its message says what the setting accepts
    (
        ChangesLost,
        "Run `recrawl changes --consumer NAME --commit oldest` (or `newest`), with --rewind if it "
        "has to move back.",
    ),
    (TimeLost, "To keep more of the log, set a higher snapshots.keep in recrawl.toml."),
    (OwnershipLost, "Another process has taken over the corpus.  Run this again to take it back."),
    (
        AccessDenied,
        "Set RECRAWL_KEY to an API key with the scope that is needed; `recrawl keys create` on the "
        "machine of the server makes one.",
    ),
    (ServiceUnavailable, "Check that the server runs and the address is right, then run it again."),
    (StorageError, "Check that the disk is not full and the folder is yours, then run this again."),
    (LedgerError, "Check that the log can be reached, then run this again."),
)
_LOCKED_MESSAGE = "another process is using this corpus."
_SETTING = re.compile(r"(?:^|\s)([a-z_]+\.[a-z_]+) (?:must|is not known;)")


def click_error(error: RecrawlError) -> click.ClickException:
    """Return the error message for the user: what went wrong, and what to do about it."""
    text = str(error).strip() or type(error).__name__
    if isinstance(error, LockedError) and not isinstance(error, FolderInUse):
        text = _LOCKED_MESSAGE
    hint = next((hint for kind, hint in _WHAT_TO_DO if isinstance(error, kind)), None)
    if isinstance(error, ConfigError) and (setting := _SETTING.search(text)):
        hint = f"Run `recrawl config explain {setting[1].partition('.')[0]}` for all its settings."
    return click.ClickException(f"{text}\n{hint}" if hint else text)


def click_system_error(error: OSError) -> click.ClickException:
    """Return the error message for an error of the operating system."""
    where = "input or output failed" if error.filename is None else error.filename
    what = error.strerror or str(error) or type(error).__name__
    return click.ClickException(
        f"{where}: {what}.\nCheck that it exists, that it is yours, and that the disk is not full, "
        "then run this again."
    )


def is_corpus(folder: Path) -> bool:
    """Return whether there is a corpus in a folder."""
    from recrawl.corpus import is_corpus_folder  # noqa: PLC0415

    return is_corpus_folder(folder)


def check_is_corpus(folder: Path) -> None:
    """Raise `CorpusError` unless there is a corpus in a folder, for a command that opens none."""
    if not is_corpus(folder):
        raise CorpusError(f"{folder} is not a corpus.\nRun `recrawl init {folder}` to create one.")


def check_folder(folder: Path) -> None:
    """Raise unless this process may use the folder of a corpus on Kafka: one at a time may."""
    try:
        check_folder_is_free(folder)
    except FolderInUse as error:
        raise click.ClickException(
            f"{error}.\nEnd that process first, or give this one a folder of its own."
        ) from error


def check_server_packages(names: Sequence[str]) -> None:
    """Raise unless the packages of the extra ``server`` that a command needs are installed."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise click.ClickException(
            f"this needs packages that are not installed: {', '.join(missing)}.\nRun `pip install "
            '"recrawl[server]"`.'
        )


def _require_corpus(folder: Path) -> None:
    from recrawl.corpus import has_parts_of_corpus  # noqa: PLC0415

    if is_corpus(folder) or has_parts_of_corpus(folder):
        return  # if only its FORMAT file is missing, opening it says so
    if folder == Path():
        raise CorpusError(
            "the current folder is not a corpus.\nRun `recrawl init` to create one, or name its "
            "folder with -C FOLDER or RECRAWL_CORPUS=FOLDER."
        )
    problem = "is not a corpus" if folder.exists() else "does not exist"
    raise CorpusError(f"{folder} {problem}.\nRun `recrawl init {folder}` to create a corpus there.")


def prepare_kernels(
    folder: CorpusPlace,
    *,
    n_bytes_input: int | None = 0,
    compiles_first: bool = False,
    before_compiling: Callable[[], None] = lambda: None,
) -> None:
    """Choose the kernels of this command; call it before anything loads `recrawl.core`.

    Opening a corpus does it too.

    Parameters
    ----------
    folder
        Folder of the corpus.
    n_bytes_input
        Size of the input in bytes; None if it may be large.
    compiles_first
        Whether kernels that are not compiled yet are compiled now, with a progress bar.
    before_compiling
        Function that is called once in any case, when the kernels are chosen and before they are
        compiled: it may load `recrawl.core`, and raise.
    """
    from recrawl.cli.support.kernels import choose_kernels, kernels_exist  # noqa: PLC0415

    if kernels_exist() or isinstance(folder, str):
        before_compiling()
        return
    context = click.get_current_context(silent=True)
    command = (context.info_name if context is not None else None) or ""
    with value_errors_as_usage():
        choose_kernels(
            folder,
            command=command,
            n_bytes_input=n_bytes_input,
            compiles_first=compiles_first,
            before_compiling=before_compiling,
        )


def _is_on_kafka(folder: Path) -> bool:
    from recrawl.corpus import is_log_remote  # noqa: PLC0415

    return is_log_remote(folder)


def open_to_read(folder: CorpusPlace) -> "Corpus":
    """Open a corpus for reading, even while another process is using it."""
    if isinstance(folder, str):
        return _open_service(folder)
    _require_corpus(folder)
    if _is_on_kafka(folder) and (address := address_of_user(folder)):
        print_note(
            f"A worker or server runs in {folder}: ask it with -C {address}, which is faster than "
            "reading the log and the files beside it."
        )
    prepare_kernels(folder)
    print_log_messages()
    import recrawl  # noqa: PLC0415

    return recrawl.open(folder.resolve(), read_only=True)


def _open_service(url: str) -> "Corpus":
    from recrawl.cli.support.service_corpus import open_service  # noqa: PLC0415

    # It has the attributes of a corpus that commands with `corpus_or_service_option` use.
    return cast("Corpus", open_service(url))


def open_to_change(
    folder: CorpusPlace, *, n_bytes_input: int | None = 0, accept_clock: bool = False
) -> "Corpus":
    """Open a corpus for writing; use it with ``with``.

    Waits up to `LOCK_SECONDS_MAX` for another process that is using it.

    Parameters
    ----------
    folder
        Folder of the corpus.
    n_bytes_input
        Size of the input in bytes; None if it may be large.
    accept_clock
        Whether to open a corpus whose last change is longer ago than ``clock.gap_max``.
    """
    if isinstance(folder, str):
        return _open_service(folder)
    _require_corpus(folder)
    if _is_on_kafka(folder) and (address := address_of_user(folder)):
        # It does not end soon, so that waiting for it would be of no use.
        raise click.ClickException(
            f"a worker or server runs in {folder}.\nGive its address instead of the folder: "
            f"-C {address}"
        )
    prepare_kernels(folder, n_bytes_input=n_bytes_input)
    print_log_messages()
    import recrawl  # noqa: PLC0415

    start = time.monotonic()
    ends = start + LOCK_SECONDS_MAX
    is_announced = False
    while True:
        try:
            # Resolved, because locks within a process go by the name of the folder.
            return recrawl.open(folder.resolve(), accept_clock=accept_clock)
        except LockedError:
            now = time.monotonic()
            if not is_announced and now >= start + _LOCK_SILENT_SECONDS:
                is_announced = True
                print_note(
                    "Another process is using this corpus; waiting for up to "
                    f"{seconds_text(LOCK_SECONDS_MAX)} …"
                )
            if now >= ends:
                raise
        time.sleep(_LOCK_LOOK_SECONDS)


@contextmanager
def value_errors_as_usage() -> Iterator[None]:
    """Turn a `ValueError` about an argument into a usage error, which exits with 2."""
    try:
        yield
    except RecrawlError:
        raise
    except ValueError as error:
        raise click.UsageError(str(error), click.get_current_context(silent=True)) from error
