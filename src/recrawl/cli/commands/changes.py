"""``recrawl changes``: print new, changed and gone pages, oldest first, from a cursor on."""

import time
from pathlib import Path

import click

from recrawl.cli.support.corpus_access import corpus_option, open_to_read
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.output import Output, output_option
from recrawl.units import instant_text

__all__ = ["command"]

_CHANGES_PER_READ = 1_000
_FOLLOW_SECONDS = 1.0


@example_command(
    "changes",
    examples=(
        CommandExample("recrawl changes"),
        CommandExample("recrawl changes --limit 2 | tail -n 1"),
        CommandExample("recrawl changes --after $CURSOR --follow", is_run=False),
    ),
)
@click.option("--after", metavar="CURSOR", help="Start after the change with this cursor.")
@click.option("--follow", is_flag=True, help="Wait for further changes, until Ctrl-C.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Stop after N changes.")
@click.option(
    "--what",
    type=click.Choice(["new", "changed", "reverted", "gone", "moved", "returned", "retired"]),
    multiple=True,
    help="Print only changes of this kind.  May be repeated.",
)
@corpus_option
@output_option
def command(
    after: str | None,
    follow: bool,
    limit: int | None,
    what: tuple[str, ...],
    folder: Path,
    out: Output,
) -> None:
    """Print new, changed and gone pages, oldest first.

    Each JSON line (--json) has a cursor.  Keep the last one, and pass it to --after next time to
    print only what happened since.

    A page is new at its first fetch, reverted if it is back to an earlier version, gone if it was
    not found, returned if it is there again, and retired if it was gone so often that recrawl no
    longer fetches it.
    """
    left = limit
    first_cursor = after
    is_any = False
    with open_to_read(folder) as corpus:
        while True:
            try:
                changes = corpus.changes(after, limit=_CHANGES_PER_READ)
            except ValueError as error:
                raise click.UsageError(
                    f"--after: {error}.  Take it from the last line of `recrawl changes --json`."
                ) from error
            for change in changes:
                after = change.cursor
                name = change.what.name.lower()
                if what and name not in what:
                    continue
                out.row(
                    {
                        "cursor": change.cursor,
                        "url": change.url,
                        "what": name,
                        "at_ms": change.at_ms,
                    }
                )
                is_any = True
                out.say(f"{instant_text(change.at_ms):<16}  {name:<8}  {change.url}", wrap=False)
                if left is not None:
                    left -= 1
                    if left == 0:
                        return
            if changes:
                continue
            if not follow:
                if not is_any:
                    out.say(_no_changes_text(first_cursor, what))
                return
            time.sleep(_FOLLOW_SECONDS)
            corpus.refresh()


def _no_changes_text(after: str | None, what: tuple[str, ...]) -> str:
    kinds = f" of this kind ({', '.join(what)})" if what else ""
    since = "" if after is None else f" after {after}"
    return f"No changes{kinds}{since} yet.  They come from `recrawl report`."
