"""``recrawl forget``: erase pages and all traces of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recrawl.cli.support.corpus_access import (
    corpus_option,
    is_corpus,
    open_to_change,
    value_errors_as_usage,
)
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.input_files import (
    LIST_FORMATS,
    Inputs,
    column_option,
    format_option,
    input_urls,
    inputs_argument,
    split_inputs,
)
from recrawl.cli.support.output import CHECK_FAILED, Output, output_option
from recrawl.units import count_text

if TYPE_CHECKING:
    from recrawl.corpus import Forgotten

__all__ = ["command"]


@example_command(
    "forget",
    examples=(
        CommandExample("recrawl forget https://example.com/news"),
        CommandExample("recrawl forget --pattern '/user/jane/*' --backup ../backups"),
        CommandExample("recrawl forget --status", "whether everything is erased by now"),
    ),
)
@inputs_argument
@click.option(
    "--pattern", metavar="PATTERN", help="Forget all pages whose URL matches, such as '/user/*'."
)
@click.option(
    "--backup",
    "backups",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    multiple=True,
    metavar="DEST",
    help="Folder of backups, which are replaced by one new backup.  Give all that you have; "
    "repeatable.",
)
@click.option("--status", is_flag=True, help="Forget nothing: show what remains of earlier ones.")
@click.option("--finish", is_flag=True, help="Complete earlier forgets that were interrupted.")
@format_option(*LIST_FORMATS)
@column_option
@corpus_option
@output_option
def command(
    inputs: tuple[str, ...],
    pattern: str | None,
    backups: tuple[Path, ...],
    status: bool,
    finish: bool,
    format_name: str | None,
    columns: tuple[str, ...],
    folder: Path,
    out: Output,
) -> None:
    """Erase pages from the store, the change feed, the log, snapshots and backups.

    Give URLs, files of URLs, or a pattern.  This rewrites all files of the corpus, and removes the
    history of other pages too.  Exit code 3 as long as something remains; it says what.
    """
    if sum((bool(inputs), pattern is not None, status, finish)) > 1:
        raise click.UsageError("give only one of pages, --pattern, --status and --finish.")
    if status:
        _show(_states(folder), out)
        return
    pages = split_inputs(inputs) if pattern is None and not finish else Inputs([], [])
    with open_to_change(folder, n_bytes_input=pages.n_bytes) as corpus, value_errors_as_usage():
        if pattern is not None:
            states = corpus.forget(pattern=pattern, backups=backups)
        elif finish:
            states = corpus.forget(backups=backups)
        else:
            urls = [url for part in input_urls(pages, format_name, columns, out) for url in part]
            states = corpus.forget([str(url) for url in urls], backups=backups)
    # Closing the corpus deletes the last files that were replaced.
    numbers = {state.number for state in states}
    if not backups and not finish:
        out.note(
            "Backups were not named (--backup DEST): those that you have still hold the pages."
        )
    _show([state for state in _states(folder) if state.number in numbers], out)


def _states(folder: Path) -> "list[Forgotten]":
    import time  # noqa: PLC0415

    from recrawl.corpus import forget_states  # noqa: PLC0415
    from recrawl.errors import CorpusError  # noqa: PLC0415

    if not is_corpus(folder):
        raise CorpusError(f"{folder} is not a corpus.")
    return forget_states(folder.resolve(), time.time_ns() // 1_000_000)


def _show(states: "Sequence[Forgotten]", out: Output) -> None:
    for state in states:
        remains = [{"kind": one.kind, "where": one.where, "why": one.why} for one in state.remains]
        out.row({**state._asdict(), "remains": remains})
        pages = count_text(state.n_pages, "tracked page")
        if state.is_complete:
            out.say(f"Forget {state.number}: {pages}; erased completely.")
            continue
        out.say(f"Forget {state.number}: {pages}; this may still hold traces:", style="bold")
        for one in state.remains:
            out.say(f"  {one.kind} {one.where}: {one.why}")
    if not states:
        out.say("Nothing was forgotten so far, or all of it is erased.")
    if not all(state.is_complete for state in states):
        click.get_current_context().exit(CHECK_FAILED)
