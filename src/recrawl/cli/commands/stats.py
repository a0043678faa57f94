"""``recrawl stats``: where a corpus stands, in a sentence and in numbers."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recrawl.cli.support.corpora import corpus_option, open_to_read
from recrawl.cli.support.examples import Example, example_command
from recrawl.cli.support.presenting import Output, ago, output_option
from recrawl.units import count_text, number_text, seconds_text, share_text

if TYPE_CHECKING:
    from recrawl.corpus import Stats

__all__ = ["budget_words", "command"]

_UNITS = (("s", 1), ("min", 60), ("h", 3_600), ("day", 86_400), ("week", 604_800))


def budget_words(stats: "Stats") -> str:
    """Return what may be spent, in words.

    In the unit in which it is a whole number, as its owner will have said it.
    """
    what = "fetches" if stats.budget_unit == "fetches" else "cost"
    rate = stats.budget_per_second
    if rate is None or rate == float("inf"):
        return f"as many {what} as are asked for"
    if rate == 0 and not stats.credit:
        return f"no {what}: the budget is 0 or spent"
    if rate == 0:
        return f"{stats.credit or 0:,.0f} {what} left of this run"
    for unit, seconds in _UNITS:
        amount = rate * seconds
        if amount > 0.5 and abs(amount - round(amount)) < 1e-6 * amount:
            one = "fetch" if what == "fetches" and round(amount) == 1 else what
            return f"{amount:,.0f} {one}/{unit}"
    return f"{rate * 3_600:,.3g} {what}/h"


def _rows(stats: "Stats", groups: str) -> list[tuple[str, Any]]:
    audited = stats.audited
    status = ", ".join(f"{n:,} {name}" for name, n in stats.pages_by_status.items() if n)
    rows: list[tuple[str, Any]] = [
        ("pages", f"{stats.n_pages:,}" + (f" ({status})" if status else "")),
        (groups, f"{stats.n_groups:,}"),
        ("fresh by the model", share_text(stats.freshness_modelled)),
        ("… weighted by importance", share_text(stats.weighted_freshness_modelled)),
    ]
    if audited.ratio is not None:
        between = f"{share_text(audited.ratio_low)} to {share_text(audited.ratio_high)}"
        n_audited = count_text(audited.n_audited, "audit")
        shown = f"{share_text(audited.ratio)} ({between}, {n_audited})"
        rows.append(("fresh when audited", shown))
    if stats.oldest_fetch_at_ms is not None:
        rows.append(("oldest copy", ago(stats.oldest_fetch_at_ms, stats.at_ms)))
    rows += [
        ("due now", f"{stats.n_due:,}"),
        ("in flight", f"{stats.in_flight:,}"),
        ("budget", budget_words(stats)),
        (
            "price of a fetch",
            f"{seconds_text(stats.price)} of staleness" if stats.price else "none yet",
        ),
        ("ordered so far", f"{stats.n_ordered:,}"),
        ("polls so far", f"{stats.n_polls:,} ({stats.n_changed:,} found a change)"),
        ("signals so far", f"{stats.n_signals:,}"),
    ]
    if stats.memory_changes is not None:
        changes = number_text(round(stats.memory_changes, 1))
        rows.append(("remembers", f"about {changes} changes of a page"))
    return rows


def _show_sources(folder: Path, out: Output) -> None:
    from recrawl.corpus.inspect.source_table import (  # noqa: PLC0415 (commands start fast)
        source_table,
    )

    with open_to_read(folder) as corpus:
        rows, n_sources = source_table(corpus.nodes)
        group = corpus.config.corpus.group_by
    for row in rows:
        out.row(row.as_dict())
    if not rows:
        out.say("No signals yet; `recrawl signal` takes sitemaps, feeds and lists of URLs.")
        return
    told = sum(row.n_signals for row in rows)
    out.say(
        f"{count_text(told, 'signal')} of {count_text(n_sources, 'source')}, by {group}.",
        style="bold",
    )
    out.table(
        ("source", group, "signals", "true", "judged", "late by"),
        [
            (
                row.source,
                row.group,
                f"{row.n_signals:,}",
                share_text(row.precision) + (" (given)" if row.is_given else ""),
                f"{row.n_judged:,.0f}",
                seconds_text(row.delay_seconds),
            )
            for row in rows
        ],
    )
    if n_sources > len(rows):
        out.say(f"{n_sources - len(rows):,} more have fewer signals.", style="dim")


@example_command(
    "stats",
    examples=(
        Example("recrawl stats"),
        Example("recrawl stats --json"),
        Example("recrawl stats --sources"),
    ),
)
@click.option("--sources", is_flag=True, help="Who signals, how often it is true, and how late.")
@corpus_option
@output_option
def command(sources: bool, folder: Path, out: Output) -> None:
    """Say how many pages there are, how fresh they are, and what is spent on them."""
    if sources:
        _show_sources(folder, out)
        return
    with open_to_read(folder) as corpus:
        stats = corpus.stats()
        group = corpus.config.corpus.group_by
    out.row(stats.as_dict())
    if stats.n_pages == 0:
        out.say("No pages yet; `recrawl add urls.txt` keeps some.")
        return
    hosts = count_text(stats.n_groups, group)
    fresh = share_text(stats.freshness_modelled)
    out.say(
        f"{count_text(stats.n_pages, 'page')} on {hosts}; {fresh} fresh by the model; "
        f"{budget_words(stats)}.",
        style="bold",
    )
    out.facts(_rows(stats, f"{group}s"))
    if stats.is_sampled:
        out.say("Freshness and what is due are from a sample of a million pages.", style="dim")
