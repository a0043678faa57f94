"""``recrawl release``: give back leased pages that will not be fetched."""

import json
import sys
from typing import Any

import click

from recrawl.cli.support.corpus_access import (
    CorpusPlace,
    corpus_or_service_option,
    open_to_change,
    value_errors_as_usage,
)
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.output import (
    Output,
    check_none_unavailable,
    count_unavailable,
    output_option,
)
from recrawl.units import count_text

__all__ = ["command"]

_HANDLE_MAX = (1 << 63) - 1


@example_command(
    "release",
    examples=(
        CommandExample("recrawl lease 3 --json | recrawl release", "give all of them back"),
        CommandExample("recrawl release 4096 8192", "by the handles that lease printed"),
    ),
)
@click.argument("handles", nargs=-1, type=click.IntRange(0, _HANDLE_MAX), metavar="[HANDLE...]")
@corpus_or_service_option
@output_option
def command(handles: tuple[int, ...], folder: CorpusPlace, out: Output) -> None:
    """Give back pages that you have leased and will not fetch, so that others can get them.

    Give the handles that `recrawl lease` printed, or its lines (--json) on stdin.  Leases end by
    themselves, too.  A handle that is not held any more is ignored.
    """
    given = list(handles) or [_handle_of(line) for line in sys.stdin.buffer if line.strip()]
    with open_to_change(folder) as corpus, value_errors_as_usage():
        n_released = n_unavailable = 0
        if given:
            released = corpus.release(given)
            n_released, n_unavailable = int(released), count_unavailable(released.rows)
    counts = {"n_given": len(given), "n_released": n_released, "n_unavailable": n_unavailable}
    out.row(counts)
    said = f"{count_text(n_released, 'page')} given back"
    if n_ignored := len(given) - n_released - n_unavailable:
        said += f", {n_ignored:,} ignored because they were not held any more"
    out.say(f"{said}.")
    check_none_unavailable(
        n_unavailable,
        f"{count_text(n_unavailable, 'page was', 'pages were')} not given back",
        "leases end by themselves, too",
    )


def _handle_of(line: bytes) -> int:
    """Return the handle in a line: a number, or an object as `recrawl lease --json` prints it."""
    try:
        found: Any = json.loads(line)
    except ValueError:
        found = None
    handle = found.get("handle") if isinstance(found, dict) else found
    if not isinstance(handle, int) or isinstance(handle, bool) or not 0 <= handle <= _HANDLE_MAX:
        raise click.UsageError(
            f"a line of stdin has no handle: {line[:60].decode('utf-8', 'replace').strip()!r}"
        )
    return handle
