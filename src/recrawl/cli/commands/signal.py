"""``recrawl signal``: signals of sitemaps, feeds and pings that pages may have changed."""

import click

from recrawl.cli.support.corpus_access import (
    CorpusPlace,
    corpus_or_service_option,
    open_to_change,
    value_errors_as_usage,
)
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.input_files import (
    LIST_FORMATS,
    batches_with_progress,
    column_option,
    format_option,
    has_keys,
    inputs_argument,
    key_argument,
    key_option,
    open_input,
    show_refused,
    split_inputs,
)
from recrawl.cli.support.output import (
    Output,
    check_none_unavailable,
    count_unavailable,
    output_option,
)
from recrawl.units import count_text

__all__ = ["command"]


@example_command(
    "signal",
    examples=(
        CommandExample("recrawl signal https://example.com/news --source ping"),
        CommandExample("recrawl signal sitemap.xml --source sitemap"),
        CommandExample("cat urls.txt | recrawl signal --source feed"),
    ),
)
@inputs_argument
@click.option(
    "--source",
    required=True,
    metavar="NAME",
    help="Name of the source, such as sitemap.  recrawl learns how reliable it is for each host.",
)
@key_option
@format_option(*LIST_FORMATS)
@column_option
@corpus_or_service_option
@output_option
def command(
    inputs: tuple[str, ...],
    source: str,
    key: str | None,
    format_name: str | None,
    columns: tuple[str, ...],
    folder: CorpusPlace,
    out: Output,
) -> None:
    """Signal that pages may have changed, given as URLs or as files of URLs.

    A file is a sitemap, a feed, a list of URLs, CSV or JSON lines; without arguments recrawl reads
    stdin.  An entry is ignored if its date (lastmod or last_modified_at_ms) was seen before for
    this page, so you can pass the same sitemap again and again.
    """
    pages = split_inputs(inputs)
    n_read = n_heard = n_unknown = n_unavailable = 0
    with open_to_change(folder, n_bytes_input=pages.n_bytes) as corpus, value_errors_as_usage():
        if pages.urls:
            n_read += len(pages.urls)
            heard = corpus.signal(pages.urls, source=source, **key_argument(corpus, key))
            n_heard += heard
            n_unknown += heard.n_unknown
            n_unavailable += count_unavailable(heard.rows)
        for file in pages.files:
            name = file.name
            read = open_input(
                file, format_name=format_name, columns=columns, has_keys=has_keys(corpus)
            )
            if read.kind != "listed":
                raise click.UsageError(f"{name} ({read.format}) is not a list of pages.")
            for batch in batches_with_progress(read, file, out):
                claimed = batch.column("last_modified_at_ms").fill_null(0)
                n_read += batch.num_rows
                heard = corpus.signal(
                    batch.column("url"),
                    source=source,
                    claimed_at_ms=claimed.to_numpy(),
                    **key_argument(corpus, key, batch.column("key")),
                )
                n_heard += heard
                n_unknown += heard.n_unknown
                n_unavailable += count_unavailable(heard.rows)
            show_refused(read, name, out)
    counts = {"n_read": n_read, "n_heard": n_heard, "n_unknown": n_unknown}
    out.row({**counts, "n_unavailable": n_unavailable, "source": source})
    parts = [f"{count_text(n_heard, 'signal')} counted"]
    if n_unknown:
        parts.append(f"{n_unknown:,} ignored because the page is not tracked")
    if n_known := n_read - n_heard - n_unknown - n_unavailable:
        parts.append(f"{n_known:,} ignored because it was signalled before, or is not newer")
    out.say(", ".join(parts) + ".")
    check_none_unavailable(
        n_unavailable,
        f"{count_text(n_unavailable, 'page was', 'pages were')} not signalled",
        "signals with a date that were counted are ignored then",
    )
