"""``recrawl explain``: why a page is due or not, as text, in numbers and as a timeline."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from recrawl.cli.support.corpus_access import (
    CorpusPlace,
    corpus_or_service_option,
    open_to_read,
    value_errors_as_usage,
)
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.input_files import is_url
from recrawl.cli.support.instants import instant_option
from recrawl.cli.support.output import Output, output_option
from recrawl.errors import TimeLost
from recrawl.units import instant_text

if TYPE_CHECKING:
    from recrawl.client import ServiceDetails
    from recrawl.corpus import Corpus, PageExplanation, PageHistory

__all__ = ["command"]

_RECORDS_READ_MAX = 2_000
"""Number of log records up to which the history of a page is shown without --history."""
_TEXT_WIDTH_MAX = 100


def _unknown_page_error(corpus: "Corpus", url: str) -> click.ClickException:
    near = corpus.similar_urls(url)
    if not is_url(url):
        hint = "A URL begins with http:// or https://."
        near = near[:1]
    else:
        hint = "Add it with `recrawl add`."
    if near:
        *others, last = near
        hint = f"Did you mean {', '.join(others)}{' or ' if others else ''}{last}?"
    return click.ClickException(f"{url} is not in the corpus.\n{hint}")


def _explain_page(
    corpus: "Corpus", url: str, key: str | None, at_ms: int | None, out: Output
) -> "PageExplanation":
    page = corpus.explain(url, key=key)
    if page is None:
        raise _unknown_page_error(corpus, url)
    if at_ms is None:
        return page
    total = corpus.n_log_records(url, key=key)
    try:
        with out.progress("reading the log", total, unit="records") as step:
            then = corpus.explain(url, at_ms=at_ms, on_record=step, key=key)
    except TimeLost as error:
        raise click.ClickException(
            f"{error}.\nTo keep more of the log, set a higher snapshots.keep in recrawl.toml."
        ) from error
    if then is None:
        added = instant_text(page.state.added_at_ms)
        raise click.ClickException(
            f"{url} was not in the corpus at {instant_text(at_ms)}.\nIt was added at {added}."
        )
    return then


def _read_history(
    corpus: "Corpus",
    url: str,
    key: str | None,
    at_ms: int | None,
    out: Output,
    *,
    with_beliefs: bool,
) -> "PageHistory | None":
    total = corpus.n_log_records(url, key=key)
    with out.progress("reading the log", total, unit="records") as step:
        return corpus.history(
            url, until_ms=at_ms, with_beliefs=with_beliefs, on_record=step, key=key
        )


def _is_log_short(corpus: "Corpus", url: str, key: str | None) -> bool:
    return corpus.n_log_records(url, key=key) <= _RECORDS_READ_MAX


def _show_history(history: "PageHistory", out: Output, *, is_asked: bool) -> None:
    from recrawl.corpus import text_key, text_timeline  # noqa: PLC0415

    if out.is_json:
        return
    if not (history.polls or history.signals):
        if is_asked:
            since = instant_text(history.from_ms)
            out.say(
                f"The log has no fetches and no signals of this page.  It begins at {since} (UTC): "
                "`recrawl forget` and `recrawl restore` leave no older records.",
                style="dim",
            )
        return
    name_width = 12
    width = min(out.width - name_width - 4, _TEXT_WIDTH_MAX)
    if width >= 20:
        lines = list(text_timeline(history, width=width))
        for name, line in lines:
            out.say(f"  {name[:name_width]:<{name_width}} {line}", wrap=False)
        key = text_key([line for _, line in lines])
        out.say(f"  {'':<{name_width}} {key} (times in UTC)", style="dim", wrap=False)
    if not history.is_whole:
        since = instant_text(history.from_ms)
        out.say(
            f"The log begins at {since} (UTC); older records were deleted (see snapshots.keep).",
            style="dim",
        )


def _page_html(page: "PageExplanation", history: "PageHistory", words: str) -> str:
    from recrawl.charts import Section, figure, html_page, table_html  # noqa: PLC0415
    from recrawl.corpus import explanation_rows, timeline_svg  # noqa: PLC0415

    first, last = instant_text(history.begins_ms), instant_text(history.until_ms)
    caption = f"Times are UTC; {first} to {last}."
    if not history.is_whole:
        caption += "  Older records of the log were deleted."
    sections = [
        Section(
            heading="What happened", body_html=figure(timeline_svg(history, title=""), caption)
        ),
        Section(heading="In numbers", body_html=table_html(("", ""), explanation_rows(page))),
    ]
    return html_page(page.url, sections, lead=words)


def _write_plot(plot: Path, page: "PageExplanation", history: "PageHistory", words: str) -> None:
    from recrawl.corpus import timeline_svg  # noqa: PLC0415

    is_svg = plot.suffix.lower() == ".svg"
    text = timeline_svg(history) if is_svg else _page_html(page, history, words)
    try:
        plot.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{plot} cannot be written: {error.strerror}") from error


def _plot_path(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    if value is not None and value.suffix.lower() not in (".svg", ".html"):
        raise click.BadParameter(f"must end with .svg or .html, got {value}", ctx, param)
    return value


@example_command(
    "explain",
    examples=(
        CommandExample("recrawl explain https://example.com/news"),
        CommandExample("recrawl explain https://example.com/news --json"),
        CommandExample(
            "recrawl explain https://example.com/news --plot page.html",
            "draw its fetches, signals and estimates",
        ),
        CommandExample(
            "recrawl explain https://example.com/news --at '3 days ago'",
            "as it was then, if the log still goes back so far",
            is_run=False,
        ),
    ),
)
@click.argument("url")
@click.option("--key", metavar="KEY", help='Key of the page, in a corpus with group_by = "key".')
@click.option(
    "--at",
    "at_ms",
    callback=instant_option,
    metavar="TIME",
    help="Explain the page as of a time in the past: 2026-03-01T14:30 (UTC) or '3 days ago'.",
)
@click.option(
    "--history", "is_history", is_flag=True, help="Show its fetches and signals, from the log."
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=_plot_path,
    metavar="FILE",
    help="Draw its fetches and signals into an .svg or .html file.",
)
@corpus_or_service_option
@output_option
def command(
    url: str,
    key: str | None,
    at_ms: int | None,
    is_history: bool,
    plot: Path | None,
    folder: CorpusPlace,
    out: Output,
) -> None:
    """Explain when a page is fetched next, and why: what recrawl knows about it, and its limits.

    The value of a fetch is the staleness that it is expected to save: the time in which the copy
    would be outdated.  recrawl fetches a page when the value reaches the price.  The price follows
    from the budget, and changes while recrawl learns.
    """
    if isinstance(folder, str):
        if at_ms is not None or is_history or plot is not None:
            raise click.UsageError(
                "--at, --history and --plot read the log: run this on the machine of the server, "
                "with the folder of the corpus."
            )
        _explain_on_server(folder, url, key, out)
        return
    with open_to_read(folder) as corpus, value_errors_as_usage():
        page = _explain_page(corpus, url, key, at_ms, out)
        history = None
        if is_history or plot is not None or _is_log_short(corpus, url, key):
            history = _read_history(corpus, url, key, at_ms, out, with_beliefs=plot is not None)
    # Imported after the corpus was opened, which chooses the kernels.
    from recrawl.corpus import explanation_rows, explanation_words  # noqa: PLC0415

    words = explanation_words(page, history)
    if plot is not None and history is not None:
        # Before the text, whose reader may stop early, as in `recrawl explain … | head`.
        _write_plot(plot, page, history, words)
        out.note(f"Written to {plot}.")
    row: dict[str, Any] = {"words": words, **page.as_dict()}
    if history is not None and (is_history or plot is not None):
        row["history"] = history.as_dict()
    out.row(row)
    out.say(page.url if at_ms is None else f"{page.url} at {instant_text(at_ms)}", style="dim")
    out.say(words, style="bold")
    out.say()
    out.facts(explanation_rows(page))
    if history is not None:
        out.say()
        _show_history(history, out, is_asked=is_history)


def _explain_on_server(address: str, url: str, key: str | None, out: Output) -> None:
    from recrawl.corpus import explanation_of_answer, explanation_rows  # noqa: PLC0415

    with open_to_read(address) as corpus, value_errors_as_usage():
        found = corpus.explain(url, key=key)
        if found is None:
            raise _unknown_page_error(corpus, url)
    members = found.as_dict()
    words = " ".join(cast("ServiceDetails", found).words)
    out.row({"words": words, **members})
    out.say(members["url"], style="dim")
    out.say(words, style="bold")
    out.say()
    if not out.is_json:
        out.facts(explanation_rows(explanation_of_answer(members)))
