"""What commands answer: words and tables for people, JSON lines for programs.

``@output_option`` gives a command ``--json/--no-json`` and passes it ``out``, an `Output`.  It
says everything twice, and `Output` drops what is not wanted::

    out.say("12 pages added.")          # people
    out.row({"n_added": 12})            # programs
    out.table(("host", "pages"), rows)  # people

Notes and progress go to stderr, so that a pipe carries rows only.  Amounts in words are those of
`recrawl.units`.
"""

import functools
import io
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

import click

from recrawl.units import seconds_text

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "ANSWERED_NO",
    "FAILED",
    "INTERRUPTED",
    "PIPE_CLOSED",
    "Output",
    "ago",
    "drop_output",
    "json_line",
    "output_option",
    "prepare_streams",
]

ANSWERED_NO = 3
"""Exit code: it worked, and the answer is no.  ``click.get_current_context().exit(ANSWERED_NO)``"""
FAILED = 1
PROGRESS_AFTER_SECONDS = 0.5
INTERRUPTED = 130
PIPE_CLOSED = 141

_F = TypeVar("_F", bound=Callable[..., Any])


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: no number that is none, text for bytes, names for enums."""
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
    if hasattr(value, "tolist"):  # numpy's, without importing it
        return _plain(value.tolist())
    if isinstance(value, Iterable):
        return [_plain(inner) for inner in value]
    return str(value)


def json_line(row: Mapping[str, Any]) -> str:
    """Return a row as one line of JSON, without its end."""
    # Where the encoding of stdout has not every letter, JSON has another way to write it.
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return json.dumps(_plain(row), ensure_ascii=not encoding.lower().startswith("utf"))


class Output:
    """Where a command's answer goes.

    Parameters
    ----------
    is_json
        Whether rows are wanted rather than words; None: unless stdout is a terminal.
    """

    def __init__(self, is_json: bool | None = None) -> None:
        self.is_json = not sys.stdout.isatty() if is_json is None else is_json
        self._console: Console | None = None

    @property
    def console(self) -> "Console":
        """Rich's, on stdout; for people only."""
        if self._console is None:
            from rich.console import Console  # noqa: PLC0415

            self._console = Console(highlight=False, soft_wrap=False)
        return self._console

    def row(self, row: Mapping[str, Any]) -> None:
        """Write a row as a line of JSON; nothing for people."""
        if self.is_json:
            click.echo(json_line(row))

    def say(self, text: str = "", *, style: str | None = None, wrap: bool = True) -> None:
        """Write words, wrapped to the terminal; nothing for programs.

        Parameters
        ----------
        text
            As it is: brackets are no markup.
        style
            Rich's, such as "bold" or "dim".
        wrap
            False: as one line, whatever its length.
        """
        if not self.is_json:
            self.console.print(text, style=style, markup=False, soft_wrap=not wrap)

    def table(
        self, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str | None = None
    ) -> None:
        """Write a table, columns of numbers to the right; nothing for programs."""
        if self.is_json:
            return
        from rich.box import SIMPLE_HEAD  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
        shown = [[cell if isinstance(cell, str) else _shown(cell) for cell in row] for row in rows]
        for i, name in enumerate(columns):
            is_number = all(_is_number(row[i]) for row in shown)
            table.add_column(
                name,
                justify="right" if is_number else "left",
                overflow="fold" if i == 0 else "ellipsis",
            )
        for row in shown:
            table.add_row(*(Text(cell) for cell in row))
        self.console.print(table)

    def facts(self, rows: Iterable[tuple[str, Any]]) -> None:
        """Write names and what they are, line by line; nothing for programs."""
        if self.is_json:
            return
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        grid = Table.grid(padding=(0, 2), pad_edge=True)
        for name, value in rows:
            grid.add_row(
                Text(name, style="dim"), Text(value if isinstance(value, str) else _shown(value))
            )
        self.console.print(grid)

    def note(self, text: str) -> None:
        """Write words to stderr, for both."""
        click.echo(text, err=True)

    @contextmanager
    def progress(
        self, what: str, total: float | None = None, *, unit: str = ""
    ) -> Iterator[Callable[[float], None]]:
        """Show on stderr how far long work is, if that is a terminal; yield what to call.

        Nothing is shown of what is done in a moment.

        Parameters
        ----------
        what
            Is being done: "reading urls.txt".
        total
            Of what the callable is told of, bit by bit; None if not known.
        unit
            Of the same, in the plural; "%" for shares, of a total of 1.
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


def _shown(cell: Any) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, float):
        return f"{cell:,.4g}" if abs(cell) < 1e4 else f"{cell:,.0f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def _is_number(text: str) -> bool:
    return text == "–" or text[:1].isdigit() or text[:1] in "-−.<≈" or not text


def output_option(function: _F) -> _F:
    """Give a command ``--json/--no-json``, and ``out``, an `Output`."""

    @click.option(
        "--json/--no-json",
        "is_json",
        default=None,
        help="JSON lines, or words; JSON lines unless on a terminal.",
    )
    @functools.wraps(function)
    def with_output(*args: Any, is_json: bool | None, **kwargs: Any) -> Any:
        return function(*args, out=Output(is_json), **kwargs)

    return with_output  # type: ignore[return-value]


def prepare_streams() -> None:
    """Make streams that can be asked and told anything, whatever the program was started with.

    One that was closed is a file that refuses (EBADF), which is an error like others when it is
    used: for a command that does not use it, it is none.  What an encoding has not is printed as a
    question mark.
    """
    # In the order of their numbers: each takes the lowest that is free, which is its own.
    if sys.stdin is None:
        sys.stdin = open(os.open(os.devnull, os.O_WRONLY), encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="replace")


def drop_output() -> None:
    """Send what is still to be written nowhere, so that the end of the program says nothing."""
    with suppress(OSError, ValueError):
        own = sys.stdout.fileno()
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), own)


def ago(at_ms: int | None, now_ms: int) -> str:
    """Return an instant as seen from another.

    Examples
    --------
    >>> ago(0, 7_200_000), ago(7_200_000, 0), ago(None, 0)
    ('2 h ago', 'in 2 h', 'never')
    """
    if at_ms is None:
        return "never"
    seconds = (now_ms - at_ms) / 1000
    return f"{seconds_text(seconds)} ago" if seconds >= 0 else f"in {seconds_text(-seconds)}"
