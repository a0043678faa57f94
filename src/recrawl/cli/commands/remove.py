"""``recrawl remove``: stop tracking pages."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recrawl.cli.support.corpora import checked_arguments, corpus_option, open_to_change
from recrawl.cli.support.examples import Example, example_command
from recrawl.cli.support.presenting import Output, output_option
from recrawl.cli.support.sources import (
    Inputs,
    column_option,
    format_option,
    inputs_argument,
    named_urls,
    split_inputs,
)
from recrawl.units import count_text

if TYPE_CHECKING:
    import pyarrow as pa

    from recrawl.corpus import Corpus

__all__ = ["command"]


@example_command(
    "remove",
    examples=(
        Example("recrawl remove https://example.com/news"),
        Example("recrawl remove urls.txt"),
        Example("recrawl remove --pattern '/tag/*'"),
    ),
)
@inputs_argument
@click.option("--pattern", metavar="PATTERN", help="All pages whose URL matches, instead.")
@format_option
@column_option
@corpus_option
@output_option
def command(
    inputs: tuple[str, ...],
    pattern: str | None,
    format_name: str | None,
    columns: tuple[str, ...],
    folder: Path,
    out: Output,
) -> None:
    """Keep pages no longer."""
    if pattern is not None and inputs:
        raise click.UsageError("give either pages or --pattern.")
    told = split_inputs(inputs) if pattern is None else Inputs([], [])
    with open_to_change(folder, n_bytes_input=told.n_bytes) as corpus, checked_arguments():
        found = (
            named_urls(told, format_name, columns, out)
            if pattern is None
            else _matching(corpus, pattern)
        )
        n_removed = sum(corpus.remove(urls) for urls in found)
    out.row({"n_removed": n_removed})
    out.say(f"{count_text(n_removed, 'page')} removed.")


def _matching(corpus: "Corpus", pattern: str) -> "Iterator[pa.Array]":
    import pyarrow as pa  # noqa: PLC0415

    from recrawl.urls import PatternSet  # noqa: PLC0415

    matcher = PatternSet([pattern])
    for node in corpus.nodes:
        for _, url in node.scan_urls():
            yield url.filter(pa.array(matcher.first_match(url) >= 0))
