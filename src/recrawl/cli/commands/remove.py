"""``recrawl remove``: stop tracking pages."""

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
    Inputs,
    column_option,
    format_option,
    input_pages,
    inputs_argument,
    key_option,
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
    "remove",
    examples=(
        CommandExample("recrawl remove https://example.com/news"),
        CommandExample("recrawl remove urls.txt"),
        CommandExample("recrawl remove --pattern '/tag/*'"),
    ),
)
@inputs_argument
@click.option(
    "--pattern", metavar="PATTERN", help="Remove all pages whose URL matches, such as '/tag/*'."
)
@key_option
@format_option(*LIST_FORMATS)
@column_option
@corpus_or_service_option
@output_option
def command(
    inputs: tuple[str, ...],
    pattern: str | None,
    key: str | None,
    format_name: str | None,
    columns: tuple[str, ...],
    folder: CorpusPlace,
    out: Output,
) -> None:
    """Stop tracking pages, given as URLs, as files of URLs, or by a pattern.

    Without arguments recrawl reads URLs from stdin.
    """
    if pattern is not None and inputs:
        raise click.UsageError("give either pages or --pattern, not both.")
    pages = split_inputs(inputs) if pattern is None else Inputs([], [])
    n_given = n_removed = n_unavailable = 0
    with open_to_change(folder, n_bytes_input=pages.n_bytes) as corpus, value_errors_as_usage():
        if pattern is not None:
            n_given = n_removed = corpus.remove(pattern=pattern, key=key)
        else:
            for urls, keys in input_pages(
                corpus, pages, key, out, format_name=format_name, columns=columns
            ):
                n_given += len(urls)
                removed = corpus.remove(urls, **keys)
                n_removed += removed
                n_unavailable += count_unavailable(removed.rows)
    out.row({"n_removed": n_removed, "n_unavailable": n_unavailable})
    rest = n_given - n_removed - n_unavailable
    text = f"{count_text(n_removed, 'page')} removed"
    if rest:
        text += f"; {count_text(rest, 'URL is', 'URLs are')} not in the corpus"
    out.say(f"{text}.")
    check_none_unavailable(
        n_unavailable,
        f"{count_text(n_unavailable, 'page was', 'pages were')} not removed",
        "pages that were removed are not in the corpus any more",
    )
