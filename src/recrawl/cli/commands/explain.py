"""``recrawl explain``: why a page is due or is not, in words, in numbers and as a picture."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recrawl.cli.support.corpora import corpus_option, open_to_read
from recrawl.cli.support.examples import Example, example_command
from recrawl.cli.support.instants import instant_option
from recrawl.cli.support.presenting import Output, output_option
from recrawl.errors import TimeLost
from recrawl.units import count_text, instant_text, number_text, seconds_text, share_text

if TYPE_CHECKING:
    from recrawl.corpus import Corpus, PageExplanation
    from recrawl.corpus.past.page_history import PageHistory

__all__ = ["command"]

_RECORDS_READ_MAX = 2_000
"""A log as short as this is read without being asked to, for what happened to the page."""
_TEXT_WIDTH_MAX = 100


def _sources_rows(page: "PageExplanation") -> list[tuple[str, str]]:
    rows = []
    for name, view in zip(page.sources, page.state.sources, strict=True):
        how = "as given" if view.is_given else "learned" if view.is_judged else "assumed"
        since = count_text(view.signals_since_fetch, "signal")
        rows.append(
            (
                f"signals of {name}",
                f"{share_text(view.precision)} true ({how}), {seconds_text(view.delay_seconds)} "
                f"after the change; {since} since the last fetch, "
                f"{number_text(round(view.signals_ever))} ever",
            )
        )
    return rows


def _limits_words(page: "PageExplanation") -> str:
    state = page.state
    parts = []
    if state.interval_seconds_min > 0:
        parts.append(f"not sooner than {seconds_text(state.interval_seconds_min)}")
    if math.isfinite(state.interval_seconds_max):
        parts.append(f"not later than {seconds_text(state.interval_seconds_max)}")
    if state.stale_probability > 0:
        stale = seconds_text(state.stale_seconds)
        parts.append(f"stale for {stale} in {share_text(state.stale_probability)} at most")
    return "; ".join(parts) or "none"


def _host_words(page: "PageExplanation") -> str:
    host = page.group_view
    delay = f"{seconds_text(host.delay_seconds)} between fetches" if host.delay_seconds else ""
    flight = f"{host.in_flight} of {host.in_flight_max} in flight"
    pages = count_text(host.n_pages, "page")
    return ", ".join(part for part in (f"{host.name}: {pages}", delay, flight) if part)


def _belief_words(shape: float, seconds: float) -> str:
    return f"{number_text(shape)} changes in {seconds_text(seconds)}"


def _rows(page: "PageExplanation") -> list[tuple[str, str]]:
    state = page.state
    rows = [
        ("status", f"{state.status.name.lower()}; added {instant_text(state.added_at_ms)}"),
        ("why", state.why.value),
    ]
    if page.fetch_url != page.url:
        rows.append(("fetched as", page.fetch_url))
    if state.fetched_at_ms is not None:
        rows.append(("last fetch", instant_text(state.fetched_at_ms)))
    if state.due_at_ms is not None:
        # A hint may make it due as from before it was fetched; nothing was to be done then.
        known_at_ms = state.added_at_ms if state.fetched_at_ms is None else state.fetched_at_ms
        rows.append(("due", instant_text(max(state.due_at_ms, known_at_ms))))
    if page.estimator == "gamma":
        rows += [
            ("belief", _belief_words(state.belief_shape, state.belief_seconds)),
            ("prior", _belief_words(state.prior_shape, state.prior_seconds)),
        ]
    rows.append(("changes", f"{number_text(state.change_rate_per_second * 86_400)} a day"))
    rows += _sources_rows(page)
    price = f"price {number_text(state.price)}" if page.has_price else "no price"
    weight = "" if abs(state.kind_weight - 1) < 1e-3 else f" × {number_text(state.kind_weight)}"
    rows += [
        ("value", f"{number_text(state.value)} ({price})"),
        ("importance", number_text(round(state.importance, 3)) + weight),
        ("cost", number_text(round(state.cost, 3))),
        ("limits", _limits_words(page)),
        ("kind", page.kind or "other"),
        ("host", _host_words(page)),
    ]
    return rows


def _not_kept(corpus: "Corpus", url: str) -> click.ClickException:
    from recrawl.corpus.similar_urls import near_urls  # noqa: PLC0415

    near = near_urls(corpus, url)
    hint = "Did you mean " + " or ".join(near) + "?" if near else "`recrawl add` keeps pages."
    return click.ClickException(f"{url} is not in the corpus.\n{hint}")


def _explained(corpus: "Corpus", url: str, at_ms: int | None, out: Output) -> "PageExplanation":
    from recrawl.corpus.past.replay import explained_at, place_of  # noqa: PLC0415

    page = corpus.explain(url)
    if page is None:
        raise _not_kept(corpus, url)
    if at_ms is None:
        return page
    place = place_of(corpus, url)
    total = None if place is None else corpus.nodes[place[0]].ledger.end
    try:
        with out.progress("reading the log", total, unit="records") as step:
            then = explained_at(corpus, url, at_ms, on_step=step)
    except TimeLost as error:
        raise click.ClickException(
            f"{error}.\nMore of the log is kept with a higher snapshots.keep in recrawl.toml."
        ) from error
    if then is None:
        added = instant_text(page.state.added_at_ms)
        raise click.ClickException(
            f"{url} was not in the corpus at {instant_text(at_ms)}.\nIt was added at {added}."
        )
    return then


def _history(
    corpus: "Corpus", url: str, at_ms: int | None, out: Output, *, with_beliefs: bool
) -> "PageHistory | None":
    from recrawl.corpus.past.page_history import history_of  # noqa: PLC0415

    total = max(node.ledger.end - node.ledger.first for node in corpus.nodes)
    with out.progress("reading the log", total, unit="records") as step:
        return history_of(corpus, url, until_ms=at_ms, with_beliefs=with_beliefs, on_step=step)


def _is_log_short(corpus: "Corpus", url: str) -> bool:
    from recrawl.corpus.past.replay import place_of  # noqa: PLC0415

    place = place_of(corpus, url)
    if place is None:
        return False
    ledger = corpus.partitions[place[0]].ledger
    return ledger.end - ledger.first <= _RECORDS_READ_MAX


def _show_history(history: "PageHistory", out: Output) -> None:
    from recrawl.corpus.past.page_timeline import text_key, text_timeline  # noqa: PLC0415

    if out.is_json or not (history.polls or history.signals):
        return
    name_width = 12
    width = min(out.console.width - name_width - 4, _TEXT_WIDTH_MAX)
    if width >= 20:
        lines = list(text_timeline(history, width=width))
        for name, line in lines:
            out.say(f"  {name[:name_width]:<{name_width}} {line}", wrap=False)
        key = text_key([line for _, line in lines])
        out.say(f"  {'':<{name_width}} {key}", style="dim", wrap=False)
    if not history.is_whole:
        since = instant_text(history.from_ms)
        out.say(f"The log reaches back to {since}; what was before is not known.", style="dim")


def _page_html(page: "PageExplanation", history: "PageHistory", words: str) -> str:
    from recrawl.charts import Section, figure, html_page, table_html  # noqa: PLC0415
    from recrawl.corpus.past.page_timeline import timeline_svg  # noqa: PLC0415

    first, last = instant_text(history.begins_ms), instant_text(history.until_ms)
    caption = f"Times are UTC; {first} to {last}."
    if not history.is_whole:
        caption += "  The log reaches no further back."
    sections = [
        Section(
            heading="What happened", body_html=figure(timeline_svg(history, title=""), caption)
        ),
        Section(heading="In numbers", body_html=table_html(("", ""), _rows(page))),
    ]
    return html_page(page.url, sections, lead=words)


def _write_plot(plot: Path, page: "PageExplanation", history: "PageHistory", words: str) -> None:
    from recrawl.corpus.past.page_timeline import timeline_svg  # noqa: PLC0415

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
        Example("recrawl explain https://example.com/news"),
        Example("recrawl explain https://example.com/news --json"),
        Example(
            "recrawl explain https://example.com/news --plot page.html",
            "draw what happened to it, and what was believed",
        ),
        Example(
            "recrawl explain https://example.com/news --at '3 days ago'",
            "as it was then, from the log",
            is_run=False,
        ),
    ),
)
@click.argument("url")
@click.option(
    "--at",
    "at_ms",
    callback=instant_option,
    metavar="TIME",
    help='As of then: 2026-03-01T14:30 (UTC), "3 days ago".',
)
@click.option("--history", "is_history", is_flag=True, help="Read the log for what happened to it.")
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=_plot_path,
    metavar="FILE",
    help="Draw a timeline to an .svg or .html file; reads the log.",
)
@corpus_option
@output_option
def command(
    url: str, at_ms: int | None, is_history: bool, plot: Path | None, folder: Path, out: Output
) -> None:
    """Say why a page is due or is not, what is known of it, and what will happen next."""
    with open_to_read(folder) as corpus:
        page = _explained(corpus, url, at_ms, out)
        history = None
        if is_history or plot is not None or _is_log_short(corpus, url):
            history = _history(corpus, url, at_ms, out, with_beliefs=plot is not None)
    # After the corpus was opened, which settles how kernels run.
    from recrawl.corpus.past.explanation_text import explanation_words  # noqa: PLC0415

    words = explanation_words(page, history)
    if plot is not None and history is not None:
        # First: whoever reads the words may stop early, as in `recrawl explain … | head`.
        _write_plot(plot, page, history, words)
        out.note(f"{plot} is written.")
    row: dict[str, Any] = {"words": words, **page.as_dict()}
    if history is not None and (is_history or plot is not None):
        row["history"] = history.as_dict()
    out.row(row)
    out.say(page.url if at_ms is None else f"{page.url} at {instant_text(at_ms)}", style="dim")
    out.say(words, style="bold")
    out.say()
    out.facts(_rows(page))
    if history is not None:
        out.say()
        _show_history(history, out)
