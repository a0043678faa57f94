"""``recrawl audit``: list who changed settings, keys and webhooks of a corpus."""

import time
from collections import deque
from pathlib import Path

import click

from recrawl.cli.support.corpus_access import check_is_corpus, corpus_option
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.instants import instant_option
from recrawl.cli.support.output import Output, output_option, relative_time_text

__all__ = ["command"]


@example_command(
    "audit",
    examples=(
        CommandExample("recrawl audit", "the last 100 actions"),
        CommandExample("recrawl audit --since '7 days ago' --limit 1000"),
    ),
)
@click.option(
    "--since",
    "after_ms",
    metavar="TIME",
    callback=instant_option,
    help="List only actions since then: 2026-03-01, '3 days ago'.",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    metavar="N",
    help="List the last N actions.",
)
@corpus_option
@output_option
def command(after_ms: int | None, limit: int, folder: Path, out: Output) -> None:
    """List who changed settings, API keys and webhooks: when, how and from where.

    These are the requests to a server that need the scope admin, logins to its dashboard, and the
    commands `recrawl keys`, `recrawl webhooks`, `recrawl receivers` and `recrawl websub` on this
    machine.
    """
    from recrawl.service import read_audit_log  # noqa: PLC0415

    check_is_corpus(folder)
    found = deque(read_audit_log(folder, after_ms=after_ms or 0), maxlen=limit)
    for entry in found:
        out.row(entry._asdict())
    if not found:
        out.say("No actions yet.")
        return
    now_ms = time.time_ns() // 1_000_000
    out.table(
        ("when", "who", "what", "about", "new values", "status", "from"),
        [
            (
                relative_time_text(entry.at_ms, now_ms),
                entry.who,
                entry.what,
                entry.target,
                entry.values,
                "done" if entry.status is None else str(entry.status),
                entry.client or "command line",
            )
            for entry in found
        ],
    )
