"""``recrawl holdout``: plan an experiment against the old rule, and show what it has found."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recrawl.cli.support.corpus_access import corpus_option, open_to_read, value_errors_as_usage
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.output import Output, output_option
from recrawl.units import count_text, instant_text, number_text, seconds_text, share_text

if TYPE_CHECKING:
    from recrawl.corpus import CorpusConfig, HoldoutArm, HoldoutView

__all__ = ["command"]

# Fetches per page in which the arms may differ without a note.
_FAIR_SHARE = 0.1


@click.group("holdout")
def command() -> None:
    """Measure what recrawl changes, against a share of hosts that keeps the old rule.

    Set the share and the interval in the section [holdout] of recrawl.toml, and the share of
    fetches that measure freshness in the section [audit].
    """


@example_command(
    "plan",
    examples=(
        CommandExample("recrawl holdout plan --share 0.2"),
        CommandExample("recrawl holdout plan --share 0.1 --days 90"),
    ),
)
@click.option(
    "--share",
    type=click.FloatRange(0, 0.5, min_open=True),
    metavar="SHARE",
    help="Share of hosts to hold out.  Default: that of the configuration.",
)
@click.option(
    "--days",
    type=click.FloatRange(0.1, 3650),
    default=28.0,
    show_default=True,
    metavar="N",
    help="Days that the experiment lasts.",
)
@corpus_option
@output_option
def plan(share: float | None, days: float, folder: Path, out: Output) -> None:
    """Show the smallest difference that an experiment would find, before you start it.

    The difference is one of freshness, found with a probability of 80 %.
    """
    with open_to_read(folder) as corpus:
        if share is None and corpus.config.holdout.share == 0:
            raise click.UsageError("give a --share; the configuration holds no hosts out.")
        with value_errors_as_usage():
            view = corpus.holdout(share=share, days=days)
        config = corpus.config
    _print_row(view, out)
    out.say(
        f"{share_text(view.share)} of the hosts held out: "
        f"{count_text(view.held_out.n_hosts, 'host')} with "
        f"{count_text(view.held_out.n_pages, 'page')}, against "
        f"{count_text(view.ours.n_hosts, 'host')} with {count_text(view.ours.n_pages, 'page')}."
    )
    if view.fair_interval_seconds is not None:
        out.say(
            f"With an interval of {seconds_text(view.fair_interval_seconds)} both arms get fetches "
            "in proportion to their pages."
        )
    _note_shortest_ages(config, out)
    if math.isfinite(view.detectable):
        out.say(
            f"{days:g} days with {number_text(round(view.audits_per_day, 1))} audits a day find a "
            f"difference of {100 * view.detectable:.1f} percentage points of freshness, or more, "
            "with a probability of 80 %.",
            style="bold",
        )
        return
    out.say("This finds no difference, however large.", style="bold")
    if config.audit.share == 0:
        out.note("Nothing is audited: set share in the section [audit] of recrawl.toml.")
    elif math.isnan(view.audits_per_day):
        out.note("The budget is not a number of fetches per time, so audits are not known.")
    else:
        out.note("Each arm needs at least 20 hosts of about equal size; raise the share.")


@example_command("status", examples=(CommandExample("recrawl holdout status", exit_code=2),))
@corpus_option
@output_option
def status(folder: Path, out: Output) -> None:
    """Show the audited freshness of both arms, and their difference with its interval.

    You may look as often as you like: the interval contains the true difference at all looks
    together with a probability of 95 %.
    """
    with open_to_read(folder) as corpus:
        view = corpus.holdout()
        config = corpus.config
    if not view.is_running:
        raise click.UsageError("no hosts are held out; see `recrawl holdout plan --help`.")
    _print_row(view, out)
    if view.started_at_ms is not None:
        out.say(f"Since {instant_text(view.started_at_ms)}:")
    out.table(
        ("arm", "hosts", "pages", "audits", "fresh", "fetches/page/day"),
        [_cells("recrawl", view.ours), _cells("held out", view.held_out)],
    )
    _note_shortest_ages(config, out)
    difference = view.difference
    if not difference.is_known:
        out.say(view.conclusion)
        return
    low, high = (
        f"{100 * edge:+.1f}".replace("-", "−") for edge in (difference.low, difference.high)
    )
    value = f"{100 * difference.value:+.1f}".replace("-", "−")
    out.say(f"Difference: {value} percentage points ({low} to {high}).", style="bold")
    out.say(view.conclusion)
    ratio = view.held_out.fetches_per_page / view.ours.fetches_per_page
    if math.isfinite(ratio) and abs(ratio - 1) > _FAIR_SHARE:
        out.note(
            f"A held-out page gets {ratio:.2g} times the fetches of another.  Change the interval "
            "for an equal comparison; that begins a new experiment."
        )


def _note_shortest_ages(config: "CorpusConfig", out: Output) -> None:
    """Print a note if patterns keep audits from copies of one arm that are still young."""
    matches = [pattern.match for pattern in config.patterns if pattern.min_age]
    if matches:
        out.note(
            f"min_age of {', '.join(matches)} keeps audits from young copies, except on held-out "
            "hosts, so recrawl seems less fresh than it is.  Delete min_age for the time of the "
            "experiment."
        )


def _cells(name: str, arm: "HoldoutArm") -> tuple[str, ...]:
    return (
        name,
        number_text(arm.n_hosts),
        number_text(arm.n_pages),
        number_text(arm.n_audited),
        share_text(arm.freshness) if arm.n_audited else "–",
        "–" if math.isnan(arm.fetches_per_page) else f"{arm.fetches_per_page:.3g}",
    )


def _print_row(view: "HoldoutView", out: Output) -> None:
    out.row({"what": "holdout", **asdict(view), "is_found": view.difference.is_found})


command.add_command(plan)
command.add_command(status)
