"""The ``recrawl`` command line.

Importing numba takes a second.  So that commands start fast, no module here imports
`recrawl.core` at its top, and the module of a command is imported when the command runs.

Where things are:

- `COMMANDS` lists all commands, each with its module and its summary.
- `recrawl.cli.support.examples` makes a command with examples (`example_command`,
  `CommandExample`).
- `recrawl.cli.support.corpus_access` opens the corpus (``@corpus_option``, `open_to_read`,
  `open_to_change`) and turns errors into messages.
- `recrawl.cli.support.output` prints results (``@output_option``, `Output`): JSON lines, or
  text and tables.

Exit codes: 0 success, 1 failure, 2 wrong usage, 3 a check failed or a target is out of reach,
130 interrupted, 141 broken pipe.
"""

import difflib
import importlib
import importlib.util
import sys
from contextlib import suppress
from typing import Any, NamedTuple

import click

from recrawl import __version__
from recrawl.cli.support.corpus_access import click_error, click_system_error
from recrawl.cli.support.output import (
    BROKEN_PIPE,
    FAILED,
    INTERRUPTED,
    discard_output,
    prepare_streams,
    print_note,
    wrap_for_stderr,
)
from recrawl.errors import RecrawlError

__all__ = ["COMMANDS", "CommandEntry", "main"]


class CommandEntry(NamedTuple):
    """The location and the summary of a command."""

    module: str
    attribute: str
    summary: str
    """Purpose of the command, in one line of `recrawl --help`."""


COMMANDS: dict[str, dict[str, CommandEntry]] = {
    "Start": {
        "init": CommandEntry(
            "recrawl.cli.commands.init", "command", "Create a corpus in a folder."
        ),
        "add": CommandEntry("recrawl.cli.commands.add", "command", "Add pages to track."),
        "import": CommandEntry(
            "recrawl.cli.commands.import_crawl", "command", "Import the log of an earlier crawl."
        ),
    },
    "Fetch": {
        "run": CommandEntry(
            "recrawl.cli.commands.run", "command", "Fetch pages and keep them fresh."
        ),
        "lease": CommandEntry(
            "recrawl.cli.commands.lease", "command", "Print the pages to fetch now."
        ),
        "report": CommandEntry(
            "recrawl.cli.commands.report", "command", "Report what your fetches found."
        ),
        "release": CommandEntry(
            "recrawl.cli.commands.release", "command", "Give back pages that you will not fetch."
        ),
        "signal": CommandEntry(
            "recrawl.cli.commands.signal", "command", "Signal that pages may have changed."
        ),
        "changes": CommandEntry(
            "recrawl.cli.commands.changes", "command", "Print new, changed and gone pages."
        ),
    },
    "Inspect": {
        "stats": CommandEntry(
            "recrawl.cli.commands.stats", "command", "Show page counts, freshness and budget."
        ),
        "explain": CommandEntry(
            "recrawl.cli.commands.explain",
            "command",
            "Explain when a page is fetched next, and why.",
        ),
        "content": CommandEntry(
            "recrawl.cli.commands.content",
            "command",
            "Show what recrawl sees of a page, and what changed.",
        ),
        "plan": CommandEntry(
            "recrawl.cli.commands.plan",
            "command",
            "Show how fresh each budget would keep your pages.",
        ),
        "export": CommandEntry(
            "recrawl.cli.commands.export",
            "command",
            "Export all pages and what recrawl knows about them.",
        ),
    },
    "Share": {
        "serve": CommandEntry("recrawl.cli.commands.serve", "command", "Share a corpus over HTTP."),
        "worker": CommandEntry(
            "recrawl.cli.commands.worker", "command", "Share a corpus on Kafka among machines."
        ),
        "cluster": CommandEntry(
            "recrawl.cli.commands.cluster", "command", "Show and move the partitions of workers."
        ),
        "keys": CommandEntry(
            "recrawl.cli.commands.keys", "command", "Create, list, rotate and revoke API keys."
        ),
        "receivers": CommandEntry(
            "recrawl.cli.commands.receivers", "command", "Let sites announce changed pages."
        ),
        "websub": CommandEntry(
            "recrawl.cli.commands.websub", "command", "Subscribe to feeds that push changes."
        ),
        "audit": CommandEntry(
            "recrawl.cli.commands.audit", "command", "Show who changed settings, keys, webhooks."
        ),
        "webhooks": CommandEntry(
            "recrawl.cli.commands.webhooks", "command", "Send changes to other programs."
        ),
    },
    "Compare": {
        "backtest": CommandEntry(
            "recrawl.cli.commands.backtest", "command", "Estimate savings from a past crawl."
        ),
        "shadow": CommandEntry(
            "recrawl.cli.commands.shadow", "command", "Report weekly what recrawl would have done."
        ),
        "holdout": CommandEntry(
            "recrawl.cli.commands.holdout",
            "command",
            "Measure what recrawl changes, against a hold-out.",
        ),
        "simulate": CommandEntry(
            "recrawl.cli.commands.simulate",
            "command",
            "Compare scheduling rules on simulated pages.",
        ),
        "bench": CommandEntry(
            "recrawl.cli.commands.bench", "command", "Rank your own scheduling rule in a benchmark."
        ),
    },
    "Manage": {
        "set": CommandEntry(
            "recrawl.cli.commands.set", "command", "Change settings of pages, hosts, the budget."
        ),
        "remove": CommandEntry("recrawl.cli.commands.remove", "command", "Stop tracking pages."),
        "forget": CommandEntry(
            "recrawl.cli.commands.forget", "command", "Erase pages and all traces of them."
        ),
        "config": CommandEntry(
            "recrawl.cli.commands.config", "command", "Show, check and explain settings."
        ),
        "doctor": CommandEntry(
            "recrawl.cli.commands.doctor", "command", "Check a corpus for problems."
        ),
        "backup": CommandEntry(
            "recrawl.cli.commands.backup", "command", "Back up a corpus, and check backups."
        ),
        "restore": CommandEntry(
            "recrawl.cli.commands.restore", "command", "Restore a corpus from a backup."
        ),
        "resize": CommandEntry(
            "recrawl.cli.commands.resize", "command", "Change the number of partitions."
        ),
        "completion": CommandEntry(
            "recrawl.cli.commands.completion", "command", "Set up command completion in your shell."
        ),
    },
}
"""All commands by heading and name, in the order of the help.  A command whose module is not
installed is not listed."""


_WRITING_COMMANDS = {"add", "import", "report", "signal", "set", "remove", "forget"}


def _is_installed(entry: CommandEntry) -> bool:
    return importlib.util.find_spec(entry.module) is not None


class _Commands(click.Group):
    """The commands of `COMMANDS`, each imported when it runs; errors become messages."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [
            name
            for entries in COMMANDS.values()
            for name, entry in entries.items()
            if _is_installed(entry)
        ]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        for entries in COMMANDS.values():
            entry = entries.get(cmd_name)
            if entry is not None and _is_installed(entry):
                command: click.Command = getattr(
                    importlib.import_module(entry.module), entry.attribute
                )
                return command
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summaries of the commands, without importing their modules."""
        width = max(map(len, self.list_commands(ctx)))
        for heading, entries in COMMANDS.items():
            rows = [
                (name.ljust(width), entry.summary)
                for name, entry in entries.items()
                if _is_installed(entry)
            ]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Accept ``-C FOLDER`` before the command as well as after it, like git."""
        if len(args) > 2 and args[0] in ("-C", "--corpus"):
            args = [args[2], *args[:2], *args[3:]]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command, or raise an error that suggests one with a similar name."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            if not near:
                raise
            message = f"{error.message} Did you mean {near[0]}?"
            raise click.UsageError(message, error.ctx) from error

    def main(self, *args: Any, **settings: Any) -> Any:
        prepare_streams()
        try:
            return super().main(*args, **settings)
        except OSError as error:
            # Output that no command printed, such as help, could not be written.
            discard_output()
            with suppress(OSError):
                click_system_error(error).show()
            sys.exit(FAILED)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            raise _wrap_message(error) from error.__cause__
        except RecrawlError as error:
            raise _wrap_message(click_error(error)) from error
        except BrokenPipeError:
            # The reader of the output has ended, as in `recrawl export | head`.
            discard_output()
            ctx.exit(BROKEN_PIPE)
        except OSError as error:
            discard_output()  # stdout may be the file that failed
            raise _wrap_message(click_system_error(error)) from error
        except KeyboardInterrupt:
            saved = ctx.invoked_subcommand in _WRITING_COMMANDS
            print_note("Stopped." + (" Completed work is saved." if saved else ""))
            ctx.exit(INTERRUPTED)


def _wrap_message(error: click.ClickException) -> click.ClickException:
    """Make an error print its message wrapped between words."""
    text = wrap_for_stderr(error.format_message(), prefix="Error: ")
    error.format_message = lambda: text  # type: ignore[method-assign]
    return error


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Run `recrawl COMMAND --help` for the options of a command, with examples.  Commands "
    "work on the corpus in the current folder; name another with -C FOLDER or the environment "
    "variable RECRAWL_CORPUS.  They print text at a terminal, and JSON lines into a pipe.",
)
@click.version_option(__version__, prog_name="recrawl", message="%(prog)s %(version)s")
def main() -> None:
    """Keep copies of web pages fresh on a fixed budget of fetches.

    recrawl run https://example.com/ fetches a site and keeps it fresh.  Or a program of yours
    fetches what recrawl decides: recrawl lease 10 | python fetch.py | recrawl report.  A corpus is
    a folder with the pages that you track and what recrawl has learned about them.
    """
