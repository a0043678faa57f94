"""``recrawl plan``: what budgets buy, what targets cost, and what the delays of hosts cost."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recrawl.cli.support.corpora import checked_arguments, corpus_option, open_to_read
from recrawl.cli.support.examples import Example, example_command
from recrawl.cli.support.presenting import ANSWERED_NO, Output, output_option

if TYPE_CHECKING:
    from recrawl.corpus.plan.corpus_plan import CorpusPlan
    from recrawl.corpus.plan.hosts import HostPlan
    from recrawl.corpus.plan.targets import TargetAnswer

__all__ = ["command"]

HOSTS_SHOWN = 10


def _per_hour(text: str) -> float:
    """Return the budget that a text such as 30/h says."""
    from recrawl.node.config.values import Rate  # noqa: PLC0415

    rate = Rate.of(text)
    if rate.per_seconds is None or not 0 < rate.amount < math.inf:
        raise ValueError(f"--budget must be so much per time, such as 30/h or 1000/d, got {text!r}")
    return 3_600 * rate.amount / rate.per_seconds


@example_command(
    "plan",
    examples=(
        Example("recrawl plan"),
        Example("recrawl plan --budget 100/d", "compare with another budget"),
        Example("recrawl plan --target '90 %' --target '80 % of /product/* under 6 h'"),
        Example("recrawl plan --plot plan.html", "a page with a chart; .svg for the chart alone"),
    ),
)
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="TEXT",
    help="Whether it can be met, and what it costs: '95 %', '99 % of example.com', "
    "'95 % of /product/* under 6 h'.  May be given several times; exit code 3 if one cannot.",
)
@click.option(
    "--budget", metavar="RATE", help="To compare with, such as 30/h; the corpus's own otherwise."
)
@click.option("--unweighted", is_flag=True, help="Every copy counts the same.")
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    metavar="FILE",
    help="Write a chart (.svg) or a page (.html).",
)
@corpus_option
@output_option
def command(
    folder: Path,
    targets: tuple[str, ...],
    budget: str | None,
    unweighted: bool,
    plot: Path | None,
    out: Output,
) -> None:
    """Say how fresh each budget would keep the pages, and what targets would cost.

    By kind of page and by host.  Nothing is changed.
    """
    if plot is not None and plot.suffix.lower() not in (".svg", ".html"):
        raise click.BadParameter("must end with .svg or .html", param_hint="--plot")
    with open_to_read(folder) as corpus, checked_arguments():
        from recrawl.corpus.plan.corpus_plan import planned  # noqa: PLC0415
        from recrawl.corpus.plan.targets import Target  # noqa: PLC0415

        found = planned(
            corpus.nodes,
            now_ms=corpus.time.now_ms(),
            targets=[Target.parse(text) for text in targets],
            budget_per_hour=None if budget is None else _per_hour(budget),
            is_weighted=not unweighted,
        )
        n_polls = sum(int(node.shard.tables.registers.n_polls[0]) for node in corpus.nodes)
    if plot is not None:
        _write(plot, found)
    if out.is_json:
        for row in _rows(found):
            out.row(row)
    else:
        _say(found, n_polls, out)
    if plot is not None:
        out.note(f"Written to {plot}.")
    if not found.is_answered_yes:
        click.get_current_context().exit(ANSWERED_NO)


def _write(plot: Path, found: "CorpusPlan") -> None:
    from recrawl.cli.support.plan_report import plan_chart, plan_page  # noqa: PLC0415

    is_page = plot.suffix.lower() == ".html"
    text = plan_page(found, title="What a budget buys") if is_page else plan_chart(found)
    try:
        plot.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.FileError(str(plot), error.strerror or str(error)) from error


def _say(found: "CorpusPlan", n_polls: int, out: Output) -> None:
    from recrawl.cli.support import plan_report as report  # noqa: PLC0415
    from recrawl.corpus.plan.text import (  # noqa: PLC0415
        delay_words,
        doubt_words,
        plan_words,
        target_words,
        together_words,
    )

    plan = found.plan
    out.say(plan_words(found), style="bold")
    if plan.n_pages == 0:
        out.say("`recrawl add urls.txt` keeps some.")
        return
    if doubt := doubt_words(found, n_polls):
        out.say(doubt, style="yellow")
    for answer in found.targets:
        out.say(target_words(answer, found))
    if found.together is not None:
        out.say(together_words(found))
    out.table(*report.budget_table(found))
    if len(plan.kinds) > 1:
        out.table(*report.kind_table(found))
    if found.hosts.n_hosts > 1:
        out.table(*report.host_table(found, HOSTS_SHOWN))
    if found.hosts.slowed:
        out.say(delay_words(found))
        out.table(*report.slowed_table(found, HOSTS_SHOWN))
    if found.budget_per_hour is None:
        out.say(
            "Kinds and hosts are shown as they are at 95 %; --budget 30/h compares with a budget.",
            style="dim",
        )
    if not plan.is_exact:
        out.say(f"From {plan.n_counted:,} of {plan.n_pages:,} pages.", style="dim")


def _rows(found: "CorpusPlan") -> Iterator[dict[str, Any]]:
    """Yield a plan as rows: the plan, its curve, kinds, hosts and targets."""
    from recrawl.cli.support.plan_report import kind_rows  # noqa: PLC0415
    from recrawl.corpus.plan.text import plan_words  # noqa: PLC0415

    plan, curve = found.plan, found.plan.curve
    at_twice = None
    if found.budget_per_hour is not None:
        at_twice = plan.freshness_at(2 * found.budget_per_hour, weighted=found.is_weighted)
    yield {
        "part": "plan",
        "words": plan_words(found),
        "at_ms": plan.at_ms,
        "n_pages": plan.n_pages,
        "n_counted": plan.n_counted,
        "unit": plan.unit,
        "is_weighted": found.is_weighted,
        "budget_per_hour": found.budget_per_hour,
        "freshness": found.freshness,
        "freshness_with_twice": at_twice,
        "freshness_max": found.freshness_max,
        "ceilings_per_hour": found.ceilings_per_hour,
        "n_always": found.ceilings.n_always,
        "freshness_lost_to_delays": found.hosts.freshness_lost,
        "n_hosts_slowed": found.hosts.n_slowed,
    }
    for i in range(curve.price.size):
        yield {
            "part": "curve",
            "price": curve.price[i],
            "fetches_per_hour": curve.fetches_per_hour[i],
            "cost_per_hour": curve.cost_per_hour[i],
            "freshness": curve.freshness[i],
            "weighted_freshness": curve.weighted_freshness[i],
        }
    for kind, spent, fresh, twice in kind_rows(found):
        yield {
            "part": "kind",
            "kind": kind.kind,
            "n_pages": kind.n_pages,
            "importance": kind.importance,
            "spent_per_hour": spent,
            "freshness": fresh,
            "freshness_with_twice": twice,
        }
    named = {host.host: host for host in (*found.hosts.slowed, *found.hosts.largest)}
    for host in named.values():
        yield _host_row(host)
    for answer in found.targets:
        yield _target_row(answer, found)
    if found.together is not None:
        yield {"part": "targets together", **found.together._asdict()}


def _host_row(host: "HostPlan") -> dict[str, Any]:
    return {
        "part": "host",
        "host": host.host,
        "n_pages": host.n_pages,
        "n_counted": host.n_counted,
        "importance": host.importance,
        "delay_seconds": host.delay_seconds,
        "fetches_per_hour": host.fetches_per_hour,
        "fetches_per_hour_wanted": host.fetches_per_hour_wanted,
        "fetches_per_hour_max": host.fetches_per_hour_max,
        "is_slowed": host.is_slowed,
        "weighted_freshness": host.freshness,
        "weighted_freshness_without_delay": host.freshness_without_delay,
    }


def _target_row(answer: "TargetAnswer", found: "CorpusPlan") -> dict[str, Any]:
    from recrawl.corpus.plan.text import target_words  # noqa: PLC0415

    target = answer.target
    return {
        "part": "target",
        "target": str(target),
        "words": target_words(answer, found),
        "verdict": answer.verdict,
        "share": target.share,
        "of": target.of,
        "late_seconds": target.late_seconds,
        "n_pages": answer.n_pages,
        "n_counted": answer.n_counted,
        "share_now": answer.share_now,
        "share_max": answer.share_max,
        "share_max_without_delays": answer.share_max_without_delays,
        "spent_now_per_hour": answer.spent_now_per_hour,
        "needed_per_hour": answer.needed_per_hour,
        "needed_overall_per_hour": answer.needed_overall_per_hour,
        "importance_factor": answer.importance_factor,
        "others_freshness_now": answer.others_freshness_now,
        "others_freshness_then": answer.others_freshness_then,
    }
