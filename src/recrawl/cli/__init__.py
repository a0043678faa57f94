"""The ``recrawl`` command: a thin face that starts fast.

Importing numba takes a second, so nothing here imports `recrawl.core` at the top of a module, and
the module of a command is imported when that command is asked for.

How the commands are made:

- `COMMANDS` names each, where it is, and what it is for in one line.
- `recrawl.cli.support.examples` makes a command with its examples (`example_command`, `Example`).
- `recrawl.cli.support.corpora` opens the corpus (``@corpus_option``, `open_to_read`,
  `open_to_change`) and turns errors into messages.
- `recrawl.cli.support.presenting` prints answers (``@output_option``, `Output`): JSON lines, or
  text and tables.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 answered "no", 130 interrupted.
"""

import difflib
import importlib
import importlib.util
import sys
from contextlib import suppress
from typing import Any, NamedTuple

import click

from recrawl import __version__
from recrawl.cli.support.corpora import failure_of, failure_of_system
from recrawl.cli.support.presenting import (
    FAILED,
    INTERRUPTED,
    PIPE_CLOSED,
    drop_output,
    prepare_streams,
)
from recrawl.errors import RecrawlError

__all__ = ["COMMANDS", "Place", "main"]


class Place(NamedTuple):
    """Where a command is."""

    module: str
    attribute: str
    summary: str
    """What it is for, in one line of `recrawl --help`."""


COMMANDS: dict[str, dict[str, Place]] = {
    "Begin": {
        "init": Place(
            "recrawl.cli.commands.init", "command", "Make a corpus and its recrawl.toml."
        ),
        "add": Place(
            "recrawl.cli.commands.add", "command", "Keep pages: a list, CSV, JSON lines, sitemap."
        ),
        "import": Place(
            "recrawl.cli.commands.import_crawl", "command", "Learn from an old crawl or its logs."
        ),
    },
    "Crawl": {
        "lease": Place(
            "recrawl.cli.commands.lease", "command", "Print pages that are to be fetched now."
        ),
        "report": Place("recrawl.cli.commands.report", "command", "Say what fetches found."),
        "signal": Place(
            "recrawl.cli.commands.signal", "command", "Say that pages may have changed."
        ),
        "changes": Place("recrawl.cli.commands.changes", "command", "Print what became of pages."),
    },
    "Ask": {
        "stats": Place(
            "recrawl.cli.commands.stats", "command", "How many pages, how fresh, at what cost."
        ),
        "explain": Place(
            "recrawl.cli.commands.explain", "command", "Why a page is due, or is not."
        ),
        "plan": Place(
            "recrawl.cli.commands.plan", "command", "How fresh each budget would keep the pages."
        ),
        "export": Place(
            "recrawl.cli.commands.export", "command", "Print all pages and what is known."
        ),
    },
    "Try out": {
        "backtest": Place(
            "recrawl.cli.commands.backtest", "command", "What an old crawl would have saved."
        ),
        "simulate": Place("recrawl.cli.commands.simulate", "command", "Policies on a made-up web."),
        "bench": Place(
            "recrawl.cli.commands.bench", "command", "A policy's place on RefreshBench."
        ),
    },
    "Look after": {
        "set": Place(
            "recrawl.cli.commands.set", "command", "Set what holds for pages, hosts, the budget."
        ),
        "remove": Place("recrawl.cli.commands.remove", "command", "Keep pages no longer."),
        "config": Place(
            "recrawl.cli.commands.config", "command", "Show, check and explain settings."
        ),
        "doctor": Place(
            "recrawl.cli.commands.doctor", "command", "Look for what is wrong with a corpus."
        ),
        "completion": Place(
            "recrawl.cli.commands.completion", "command", "Complete commands in a shell."
        ),
    },
}
"""Every command by heading and name, in the order of the help.  One whose module is not there is
not listed."""


def _is_there(place: Place) -> bool:
    return importlib.util.find_spec(place.module) is not None


class _Commands(click.Group):
    """The commands of `COMMANDS`, each imported when asked for; errors become words."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [
            name
            for places in COMMANDS.values()
            for name, place in places.items()
            if _is_there(place)
        ]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        for places in COMMANDS.values():
            place = places.get(cmd_name)
            if place is not None and _is_there(place):
                found: click.Command = getattr(
                    importlib.import_module(place.module), place.attribute
                )
                return found
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what each is for, without importing any."""
        width = max(map(len, self.list_commands(ctx)))
        for heading, places in COMMANDS.items():
            rows = [
                (name.ljust(width), place.summary)
                for name, place in places.items()
                if _is_there(place)
            ]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take ``-C FOLDER`` before the command as after it, where git has it too."""
        if len(args) > 2 and args[0] in ("-C", "--corpus"):
            args = [args[2], *args[:2], *args[3:]]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which may be meant."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            if not near:
                raise
            meant = f"{error.message} Did you mean {near[0]}?"
            raise click.UsageError(meant, error.ctx) from error

    def main(self, *args: Any, **settings: Any) -> Any:
        prepare_streams()
        try:
            return super().main(*args, **settings)
        except OSError as error:
            # What is printed before any command begins, such as help.
            drop_output()
            with suppress(OSError):
                failure_of_system(error).show()
            sys.exit(FAILED)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except RecrawlError as error:
            raise failure_of(error) from error
        except BrokenPipeError:
            # Whoever read the output has seen enough, as in `recrawl export | head`.
            drop_output()
            ctx.exit(PIPE_CLOSED)
        except OSError as error:
            drop_output()  # it may be what could not be written to
            raise failure_of_system(error) from error
        except KeyboardInterrupt:
            click.echo("Stopped; what was acknowledged is kept.", err=True)
            ctx.exit(INTERRUPTED)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="`recrawl COMMAND --help` shows examples.  The corpus is the folder you are in, unless "
    "-C FOLDER or RECRAWL_CORPUS says otherwise.  Output is JSON lines when piped.",
)
@click.version_option(__version__, prog_name="recrawl", message="%(prog)s %(version)s")
def main() -> None:
    """Keep copies of web pages fresh on a fixed budget of fetches."""
