"""``recrawl stats``: page counts, freshness and budget of a corpus."""

from typing import TYPE_CHECKING, Any

import click

from recrawl.cli.support.corpus_access import CorpusPlace, corpus_or_service_option, open_to_read
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.output import Output, output_option, relative_time_text
from recrawl.units import count_text, number_text, seconds_text, share_text

if TYPE_CHECKING:
    from recrawl.corpus import SourceRow, Stats

__all__ = ["command"]


def _rows(stats: "Stats", groups: str) -> list[tuple[str, Any]]:
    audited = stats.audited
    status = ", ".join(f"{n:,} {name}" for name, n in stats.pages_by_status.items() if n)
    rows: list[tuple[str, Any]] = [
        ("pages", f"{stats.n_pages:,}" + (f" ({status})" if status else "")),
        (groups, f"{stats.n_groups:,}"),
        *_freshness_rows(stats),
    ]
    if audited.ratio is not None:
        between = f"{share_text(audited.ratio_low)} to {share_text(audited.ratio_high)}"
        n_audited = count_text(audited.n_audited, "audit")
        rows.append(("measured by audits", f"{share_text(audited.ratio)} ({between}, {n_audited})"))
    if stats.oldest_fetch_at_ms is not None:
        oldest = relative_time_text(stats.oldest_fetch_at_ms, stats.at_ms)
        rows.append(("oldest copy", f"fetched {oldest}"))
    rows += [
        ("due now", f"{stats.n_due:,}{_due_words(stats)}"),
        ("leased now", f"{stats.in_flight:,}"),
        ("budget", stats.budget),
        *_left_rows(stats),
        *_window_rows(stats),
        (
            "price of a fetch",
            f"{seconds_text(stats.price)} of staleness that it must save"
            if stats.price
            else "none yet",
        ),
        ("leased so far", f"{stats.n_ordered:,}"),
        ("reported so far", f"{stats.n_outcomes:,}"),
        (
            "fetched again",
            f"{stats.n_polls:,}, of which {stats.n_changed:,} found a change",
        ),
        ("signals so far", f"{stats.n_signals:,}"),
    ]
    if stats.n_texts:
        rows.append(("bodies and texts compared", f"{stats.n_texts:,}"))
        rows.append(("wrong answers", _wrong_answers_text(stats)))
    if stats.n_template_changes:
        rows.append(("changes of templates", f"{stats.n_template_changes:,}"))
    if stats.memory_changes is not None:
        changes = number_text(round(stats.memory_changes, 1))
        rows.append(("history weight", f"about the last {changes} changes of a page"))
    return rows


def _freshness_rows(stats: "Stats") -> list[tuple[str, Any]]:
    if not stats.is_freshness_known:
        from recrawl.messages.samples import FRESHNESS_KNOWN_WORDS  # noqa: PLC0415

        return [("estimated freshness", f"not known yet; known {FRESHNESS_KNOWN_WORDS}")]
    return [
        ("estimated freshness", share_text(stats.freshness_modelled)),
        ("weighted by importance", share_text(stats.weighted_freshness_modelled)),
    ]


def _wrong_answers_text(stats: "Stats") -> str:
    """Return how many answers were not the page, and what they were."""
    if not stats.n_wrong_answers:
        return "none"
    from recrawl.corpus import wrong_answer_words  # noqa: PLC0415

    kinds = [wrong_answer_words(name, n) for name, n in stats.wrong_answers.items()]
    return f"{stats.n_wrong_answers:,}: {', '.join(kinds)}"


def _due_words(stats: "Stats") -> str:
    if stats.budget_per_second is None and not stats.price_is_fixed:
        return " (no budget limits fetching)"
    if stats.n_early:
        return f" (a lease returns {stats.n_early:,} more while budget is left)"
    return ""


def _window_rows(stats: "Stats") -> list[tuple[str, str]]:
    """Return the hours in which pages are leased; nothing if they are leased at all hours."""
    if stats.window is None:
        return []
    wait = stats.window_wait_seconds
    now = "now" if wait is None else f"next in {seconds_text(wait)}"
    return [("leased only between", f"{stats.window}, {now}")]


def _left_rows(stats: "Stats") -> list[tuple[str, str]]:
    """Return what is left to spend; nothing if the budget is unlimited or 0."""
    if stats.credit_text is None or not (stats.budget_per_second or stats.run_budget):
        return []
    what = f"left of the run {stats.run}" if stats.run_budget else "unspent budget"
    return [(what, stats.credit_text)]


def _show_sources(folder: CorpusPlace, out: Output) -> None:
    with open_to_read(folder) as corpus:
        rows, n_sources = corpus.sources()
        group = corpus.config.corpus.group_by
    for row in rows:
        out.row(row.as_dict())
    if not rows:
        out.say("No signals yet.  `recrawl signal` reads sitemaps, feeds and lists of URLs.")
        return
    n_signals = sum(row.n_signals for row in rows)
    out.say(
        f"{count_text(n_signals, 'signal')} from {count_text(n_sources, 'source')}, by {group}.",
        style="bold",
    )
    out.table(
        ("source", group, "signals", "correct", "checked", "delay"),
        [
            (
                row.source,
                row.group,
                f"{row.n_signals:,}",
                share_text(row.precision) + _origin_text(row),
                f"{row.n_judged:,.0f}",
                seconds_text(row.delay_seconds) + ("" if row.n_judged else " (assumed)"),
            )
            for row in rows
        ],
    )
    out.say(
        "correct: share of signals that announced a real change; checked: signals that a fetch "
        "confirmed or refuted; delay: time from a change to its signal.",
        style="dim",
    )
    if n_sources > len(rows):
        out.say(f"{n_sources - len(rows):,} more sources have fewer signals.", style="dim")


def _show_audits(folder: CorpusPlace, out: Output) -> None:
    with open_to_read(folder) as corpus:
        table = corpus.audited_freshness()
    for row in table.rows:
        out.row(row.as_dict())
    if not table.n_judged:
        out.say("No audits yet.  Set audit.share in the configuration, such as 0.01 for 1 %.")
        return
    out.table(
        ("of", "name", "pages", "audits", "fresh", "95 % interval", "modelled", ""),
        [
            (
                row.part,
                row.name,
                f"{row.n_pages:,}",
                f"{row.n_audited:,}",
                share_text(row.audited),
                f"{share_text(row.audited_low)} to {share_text(row.audited_high)}",
                share_text(row.modelled),
                "disagree" if row.disagrees else "",
            )
            for row in table.rows
            if row.audited is not None and row.modelled is not None
        ],
    )
    out.say(
        "fresh: share of randomly chosen copies that were fresh; modelled: what the model expected "
        "of the same copies.  They disagree if they differ by at least 1 % and by more than chance "
        "would explain, for all rows together and however often you look.",
        style="dim",
    )


def _origin_text(row: "SourceRow") -> str:
    if row.is_given:
        return " (set by you)"
    return "" if row.n_judged else " (assumed)"


@example_command(
    "stats",
    examples=(
        CommandExample("recrawl stats"),
        CommandExample("recrawl stats --json"),
        CommandExample("recrawl stats --sources"),
        CommandExample("recrawl stats --audited"),
    ),
)
@click.option(
    "--sources",
    is_flag=True,
    help="Show the sources of signals, how reliable they are, and how long after a change they "
    "signal it.",
)
@click.option(
    "--audited",
    is_flag=True,
    help="Compare the freshness that audits found with what the model expected, by kind and host.",
)
@corpus_or_service_option
@output_option
def command(sources: bool, audited: bool, folder: CorpusPlace, out: Output) -> None:
    """Show the number of pages, how fresh the copies are, and the budget.

    Staleness is the time in which a copy is outdated.  recrawl fetches a page when the fetch is
    expected to save at least as much staleness as the price of a fetch.  It raises or lowers the
    price to stay within the budget.
    """
    if sources:
        _show_sources(folder, out)
        return
    if audited:
        _show_audits(folder, out)
        return
    with open_to_read(folder) as corpus:
        stats = corpus.stats()
        newcomers = corpus.newcomers()
        group = corpus.config.corpus.group_by
        scrub = corpus.last_scrub()
    # After opening, which chooses the kernels.
    from recrawl.corpus import newcomers_words  # noqa: PLC0415

    last_scrub = None if scrub is None else scrub._asdict()
    out.row({**stats.as_dict(), "newcomers": newcomers, "last_scrub": last_scrub})
    if scrub is not None and scrub.damage:
        n = count_text(len(scrub.damage), "damaged part")
        out.note(f"The last reading of all files found {n}.  Run `recrawl doctor`.")
    if stats.n_pages == 0:
        out.say("No pages yet.  Add some with `recrawl add urls.txt`.")
        return
    hosts = count_text(stats.n_groups, group)
    known = stats.is_freshness_known
    fresh = share_text(stats.freshness_modelled) if known else "not known yet"
    out.say(
        f"{count_text(stats.n_pages, 'page')} on {hosts}; estimated freshness: {fresh}; "
        f"budget: {stats.budget}.",
        style="bold",
    )
    rows = _rows(stats, f"{group}s")
    if scrub is not None:
        found = "damage" if scrub.damage else "no damage"
        ago = relative_time_text(scrub.ended_at_ms, stats.at_ms)
        rows.append(("files read completely", f"{ago}: {found}"))
    out.facts(rows)
    if newcomers:
        out.say(newcomers_words(newcomers))
    if stats.is_sampled:
        out.say("Freshness and pages due are estimated from a sample of pages.", style="dim")
