"""``recrawl signal``: what sitemaps, feeds and pings say has changed."""

from pathlib import Path

import click

from recrawl.cli.support.corpora import checked_arguments, corpus_option, open_to_change
from recrawl.cli.support.examples import Example, example_command
from recrawl.cli.support.presenting import Output, output_option
from recrawl.cli.support.sources import (
    column_option,
    format_option,
    inputs_argument,
    opened,
    progressing,
    say_refused,
    split_inputs,
)
from recrawl.units import count_text

__all__ = ["command"]


@example_command(
    "signal",
    examples=(
        Example("recrawl signal https://example.com/news --source ping"),
        Example("recrawl signal sitemap.xml --source sitemap"),
        Example("cat urls.txt | recrawl signal --source feed"),
    ),
)
@inputs_argument
@click.option(
    "--source", required=True, metavar="NAME", help="Who says so; its worth is learned by host."
)
@format_option
@column_option
@corpus_option
@output_option
def command(
    inputs: tuple[str, ...],
    source: str,
    format_name: str | None,
    columns: tuple[str, ...],
    folder: Path,
    out: Output,
) -> None:
    """Say that pages may have changed.

    From URLs, lists, CSV, JSON lines and sitemaps; stdin if nothing is named.  The lastmod of a
    sitemap (or last_modified_at_ms) is when the page changed, as the source has it: one told
    before is no news, so the same sitemap may be told again and again.
    """
    told = split_inputs(inputs)
    n_read = n_heard = 0
    with open_to_change(folder, n_bytes_input=told.n_bytes) as corpus, checked_arguments():
        if told.urls:
            n_read += len(told.urls)
            n_heard += corpus.signal(told.urls, source=source)
        for file in told.files:
            name = file.name
            read = opened(file, format_name=format_name, columns=columns)
            if read.kind != "listed":
                raise click.UsageError(f"{name} ({read.format}) is no list of pages.")
            for batch in progressing(read, file, out):
                claimed = batch.column("last_modified_at_ms").fill_null(0)
                n_read += batch.num_rows
                n_heard += corpus.signal(
                    batch.column("url"), source=source, claimed_at_ms=claimed.to_numpy()
                )
            say_refused(read, name, out)
    out.row({"n_read": n_read, "n_heard": n_heard, "source": source})
    rest = n_read - n_heard
    words = f"{count_text(n_heard, 'hint')} heard"
    out.say(words + (f", {rest:,} of no page that is kept, or no news." if rest else "."))
