"""Output of commands: text and tables for people, JSON lines for programs.

``@output_option`` gives a command ``--json/--no-json`` and passes it ``out``, an `Output`.  The
command writes every result in both forms, and `Output` prints the one that is wanted::

    out.say("12 pages added.")          # people
    out.row({"n_added": 12})            # programs
    out.table(("host", "pages"), rows)  # people

Notes and progress go to stderr, so that a pipe carries rows only.  `recrawl.units` formats
amounts.  Everything printed here is escaped by `recrawl.safe_text`, so commands print only here.
"""

import functools
import io
import json
import math
import os
import shutil
import stat
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

import click

from recrawl.safe_text import escape_controls, escape_json
from recrawl.units import seconds_text

if TYPE_CHECKING:
    import logging

    import numpy as np
    from numpy.typing import NDArray
    from rich.console import Console

__all__ = [
    "BROKEN_PIPE",
    "CHECK_FAILED",
    "FAILED",
    "INTERRUPTED",
    "Output",
    "check_none_unavailable",
    "count_unavailable",
    "discard_output",
    "hide_log_messages",
    "json_line",
    "output_option",
    "prepare_streams",
    "print_log_messages",
    "print_log_times",
    "print_note",
    "relative_time_text",
    "wrap_for_stderr",
]

CHECK_FAILED = 3
"""Exit code of a command that worked and found a check that failed, or a target out of reach."""
FAILED = 1
PROGRESS_AFTER_SECONDS = 0.5
INTERRUPTED = 130
BROKEN_PIPE = 141
# What a command has chosen for its log messages, in the `meta` of its click context.
_HAS_TIMES = "recrawl.log_has_times"
_IS_PRINTED = "recrawl.log_is_printed"

_F = TypeVar("_F", bound=Callable[..., Any])


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold: NaN becomes null, bytes text, and enums their names."""
    if isinstance(value, Enum):
        return value.name.lower() if isinstance(value.value, int) else value.value
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if hasattr(value, "tolist"):  # an array or number of numpy, which is slow to import
        return _plain(value.tolist())
    if isinstance(value, Iterable):
        return [_plain(inner) for inner in value]
    return str(value)


def json_line(row: Mapping[str, Any]) -> str:
    """Return a row as one line of JSON, without the newline."""
    # JSON escapes the characters that the encoding of stdout lacks.
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    text = json.dumps(_plain(row), ensure_ascii=not encoding.lower().startswith("utf"))
    return escape_json(text)


def print_note(text: str) -> None:
    """Print text to stderr, escaped and wrapped."""
    click.echo(wrap_for_stderr(text), err=True)


def print_log_times() -> None:
    """Print the time before each message that the library logs, for a command that runs long."""
    click.get_current_context().meta[_HAS_TIMES] = True


def print_log_messages() -> None:
    """Print warnings that the library logs, escaped like all other text, until the command ends."""
    context = click.get_current_context(silent=True)
    if context is None or context.meta.get(_IS_PRINTED):
        return
    context.meta[_IS_PRINTED] = True
    import logging  # noqa: PLC0415

    class _Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            print_note(self.format(record))

    notes = _Notes(logging.WARNING)
    if context.meta.get(_HAS_TIMES):
        form = logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
        form.converter = time.gmtime
        notes.setFormatter(form)
    _handle_log_messages(notes)


def hide_log_messages() -> None:
    """Keep warnings that the library logs from stderr until the command ends."""
    import logging  # noqa: PLC0415

    _handle_log_messages(logging.NullHandler())


def _handle_log_messages(handler: "logging.Handler") -> None:
    import logging  # noqa: PLC0415

    logger = logging.getLogger("recrawl")
    logger.addHandler(handler)
    root = click.get_current_context().find_root()
    root.call_on_close(lambda: logger.removeHandler(handler))


class Output:
    """Writer of a command's results to stdout, and of its notes to stderr.

    Parameters
    ----------
    is_json
        Whether to print JSON lines instead of text; None for text at a terminal only.
    """

    def __init__(self, is_json: bool | None = None) -> None:
        self.is_json = not sys.stdout.isatty() if is_json is None else is_json
        self._console: Console | None = None

    @property
    def width(self) -> int:
        """Width of the terminal in characters."""
        return self._stdout.width

    @property
    def _stdout(self) -> "Console":
        """Console of rich on stdout; it does not escape what it prints."""
        if self._console is None:
            from rich.console import Console  # noqa: PLC0415

            self._console = Console(highlight=False, soft_wrap=False)
        return self._console

    def row(self, row: Mapping[str, Any]) -> None:
        """Print a row as a line of JSON, unless text is wanted."""
        if self.is_json:
            click.echo(json_line(row))

    def say(self, text: str = "", *, style: str | None = None, wrap: bool = True) -> None:
        """Print text, wrapped to the terminal, unless JSON is wanted.

        Parameters
        ----------
        text
            Plain text; brackets are not markup.
        style
            Style of rich, such as "bold" or "dim".
        wrap
            Whether to wrap; otherwise the text stays on one line.
        """
        if not self.is_json:
            text = escape_controls(text, keep_newlines=True)
            self._stdout.print(text, style=style, markup=False, soft_wrap=not wrap)

    def table(
        self, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str | None = None
    ) -> None:
        """Print a table, with numbers aligned right, unless JSON is wanted."""
        if self.is_json:
            return
        from rich.box import SIMPLE_HEAD  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        heading = None if title is None else Text(escape_controls(title), style="table.title")
        table = Table(box=SIMPLE_HEAD, title=heading, title_justify="left", pad_edge=False)
        shown = [[_cell_text(cell) for cell in row] for row in rows]
        for i, name in enumerate(columns):
            is_number = all(_is_number(row[i]) for row in shown)
            table.add_column(
                Text(escape_controls(name)),
                justify="right" if is_number else "left",
                overflow="fold" if i == 0 else "ellipsis",
            )
        for row in shown:
            table.add_row(*(Text(cell) for cell in row))
        self._stdout.print(table)

    def facts(self, rows: Iterable[tuple[str, Any]]) -> None:
        """Print names and values, a pair per line, unless JSON is wanted."""
        if self.is_json:
            return
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        grid = Table.grid(padding=(0, 2), pad_edge=True)
        for name, value in rows:
            grid.add_row(Text(escape_controls(name), style="dim"), Text(_cell_text(value)))
        self._stdout.print(grid)

    def grid(
        self, rows: Iterable[Sequence[tuple[str, str]]], *, widths: Sequence[int | None]
    ) -> None:
        """Print cells in columns, unless JSON is wanted.

        Parameters
        ----------
        rows
            Text and style of each cell.
        widths
            Width of each column in characters; None for the rest of the line.
        """
        if self.is_json:
            return
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        grid = Table.grid(padding=(0, 1))
        for width in widths:
            grid.add_column(width=width, ratio=1 if width is None else None)
        for row in rows:
            grid.add_row(*(Text(escape_controls(cell), style) for cell, style in row))
        self._stdout.print(grid)

    def flush_to_disk(self) -> None:
        """Write everything printed so far to where it goes; to the disk if stdout is a file."""
        sys.stdout.flush()
        # A pipe or a terminal cannot be synced, and has no file number in some tests.
        with suppress(io.UnsupportedOperation):
            number = sys.stdout.fileno()
            if stat.S_ISREG(os.fstat(number).st_mode):
                os.fsync(number)

    def note(self, text: str) -> None:
        """Print text to stderr, whether text or JSON is wanted."""
        print_note(text)

    def status(self, text: str) -> None:
        """Print what a long command does now, to stderr if it is a terminal."""
        if sys.stderr.isatty():
            self.note(text)

    @contextmanager
    def live(self) -> Iterator[Callable[[Sequence[Sequence[tuple[str, str]]]], None]]:
        """Show lines on stderr that replace each other; yield the function that shows them.

        Each line is a sequence of texts with their styles.  Nothing is shown if stderr is not a
        terminal.
        """
        if not sys.stderr.isatty():
            yield lambda _: None
            return
        from rich.console import Console, Group  # noqa: PLC0415
        from rich.live import Live  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as view:

            def show(lines: Sequence[Sequence[tuple[str, str]]]) -> None:
                made = []
                for line in lines:
                    text = Text(no_wrap=True, overflow="ellipsis")
                    for part, style in line:
                        text.append(escape_controls(part), style)
                    made.append(text)
                view.update(Group(*made), refresh=True)

            yield show

    @contextmanager
    def progress(
        self, what: str, total: float | None = None, *, unit: str = ""
    ) -> Iterator[Callable[[float], None]]:
        """Show a progress bar on stderr if it is a terminal; yield the function that advances it.

        Work that takes less than half a second shows no bar.

        Parameters
        ----------
        what
            Description of the work, such as "reading urls.txt".
        total
            Amount of all work; None if unknown.
        unit
            Unit of the amounts, in the plural; "%" for a total of 1.
        """
        if not sys.stderr.isatty():
            yield lambda _: None
            return
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import (  # noqa: PLC0415
            BarColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        if unit == "%":
            amount = "{task.percentage:.0f}"
        else:
            amount = "{task.completed:,.0f}" + ("" if total is None else f" of {total:,.0f}")
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn(f"{amount} {unit}".strip()),
            TimeElapsedColumn() if total is None else TimeRemainingColumn(),
        )
        what = escape_controls(what).replace("[", r"\[")  # rich would take it for markup
        bar = Progress(*columns, console=Console(stderr=True), transient=True)
        task = bar.add_task(what, total=total)
        begun = time.monotonic()

        def advance(n: float) -> None:
            bar.advance(task, n)
            if not bar.live.is_started and time.monotonic() - begun > PROGRESS_AFTER_SECONDS:
                bar.start()

        try:
            yield advance
        finally:
            bar.stop()


def _cell_text(cell: Any) -> str:
    if isinstance(cell, str):
        return escape_controls(cell)
    if cell is None:
        return "–"
    if isinstance(cell, float):
        return f"{cell:,.4g}" if abs(cell) < 1e4 else f"{cell:,.0f}"
    return f"{cell:,}" if isinstance(cell, int) else escape_controls(str(cell))


def _is_number(text: str) -> bool:
    return text == "–" or text[:1].isdigit() or text[:1] in "-−.<≈" or not text


def output_option(function: _F) -> _F:
    """Add ``--json/--no-json`` to a command, and pass it ``out``, an `Output`."""

    @click.option(
        "--json/--no-json",
        "is_json",
        default=None,
        help="Print JSON lines, or text.  Default: text at a terminal, JSON lines otherwise.",
    )
    @functools.wraps(function)
    def with_output(*args: Any, is_json: bool | None, **kwargs: Any) -> Any:
        return function(*args, out=Output(is_json), **kwargs)

    return with_output  # type: ignore[return-value]


def prepare_streams() -> None:
    """Make stdin, stdout and stderr usable, even if the program was started with them closed.

    A closed stream is replaced by one that raises EBADF when it is used, so a command that does
    not use it works.  Characters that an encoding lacks are printed as question marks.
    """
    # In this order, because each new file takes the lowest free file number.
    if sys.stdin is None:
        sys.stdin = open(os.open(os.devnull, os.O_WRONLY), encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="replace")


def discard_output() -> None:
    """Discard output that is still buffered, so that flushing it at exit raises no error."""
    with suppress(OSError, ValueError):
        own = sys.stdout.fileno()
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), own)


def relative_time_text(at_ms: int | None, now_ms: int) -> str:
    """Return a time relative to another.

    Examples
    --------
    >>> relative_time_text(0, 7_200_000), relative_time_text(7_200_000, 0)
    ('2 h ago', 'in 2 h')
    """
    if at_ms is None:
        return "never"
    seconds = (now_ms - at_ms) / 1000
    return f"{seconds_text(seconds)} ago" if seconds >= 0 else f"in {seconds_text(-seconds)}"


def wrap_for_stderr(text: str, *, prefix: str = "") -> str:
    """Return text escaped, and wrapped to the width of the terminal if stderr is one.

    Parameters
    ----------
    text
        Text of one or several lines; each keeps its indentation.
    prefix
        Text that the caller prints before the first line.
    """
    text = escape_controls(text, keep_newlines=True)
    if not sys.stderr.isatty():
        return text
    width = max(shutil.get_terminal_size().columns - 1, 20)
    lines = []
    for line in (prefix + text).split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        wrapped = textwrap.fill(
            line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        lines.append(wrapped)
    return "\n".join(lines).removeprefix(prefix)


def count_unavailable(rows: "NDArray[np.uint8]") -> int:
    """Return the number of rows whose partitions could not be reached.

    Parameters
    ----------
    rows
        `RowStatus` of each row.
    """
    from recrawl.messages.results import find_unavailable  # noqa: PLC0415

    return int(find_unavailable(rows).size)


def check_none_unavailable(n_rows: int, problem: str, repeated: str) -> None:
    """Raise an error, which exits with 1, if there are rows that were not done.

    Parameters
    ----------
    n_rows
        Number of rows whose partitions could not be reached.
    problem
        Beginning of the message, such as ``"3 pages were not added"``.
    repeated
        Effect on the other rows if the user runs the command again, as a sentence.
    """
    if n_rows:
        raise click.ClickException(
            f"{problem}, because no running worker has "
            f"{'its partition' if n_rows == 1 else 'their partitions'} now.\n"
            f"`recrawl cluster status` shows the owners.  Run this again later; {repeated}."
        )
