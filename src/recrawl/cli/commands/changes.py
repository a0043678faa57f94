"""``recrawl changes``: what became of pages, in order, from a cursor on."""

import time
from pathlib import Path

import click

from recrawl.cli.support.corpora import checked_arguments, corpus_option, open_to_read
from recrawl.cli.support.examples import Example, example_command
from recrawl.cli.support.presenting import Output, output_option
from recrawl.units import instant_text

__all__ = ["command"]

_CHANGES_PER_READ = 1_000
_FOLLOW_SECONDS = 1.0


@example_command(
    "changes",
    examples=(
        Example("recrawl changes"),
        Example("recrawl changes --limit 2 | tail -n 1"),
        Example("recrawl changes --after $CURSOR --follow", is_run=False),
    ),
)
@click.option("--after", metavar="CURSOR", help="Begin after the change that has this cursor.")
@click.option("--follow", is_flag=True, help="Go on with what happens from now.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="End after so many.")
@click.option(
    "--what",
    type=click.Choice(["new", "changed", "reverted", "gone", "moved", "returned", "retired"]),
    multiple=True,
    help="Only these.  May be repeated.",
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
    """Print what became of pages, oldest first.

    Each row has a cursor: keep the last, and go on after it another time.
    """
    left = limit
    begun = after
    is_any = False
    with open_to_read(folder) as corpus:
        while True:
            with checked_arguments():
                changes = corpus.changes(after, limit=_CHANGES_PER_READ)
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
                    out.say(_none_words(begun, what))
                return
            time.sleep(_FOLLOW_SECONDS)
            corpus.refresh()


def _none_words(after: str | None, what: tuple[str, ...]) -> str:
    kinds = f" of this kind ({', '.join(what)})" if what else ""
    since = "" if after is None else f" after {after}"
    return f"No changes{kinds}{since} yet; `recrawl report` says what fetches found."
