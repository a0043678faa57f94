"""``recrawl plan``: freshness by budget, costs of targets, and effects of delays of hosts."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recrawl.cli.support.corpus_access import (
    CorpusPlace,
    corpus_or_service_option,
    open_to_read,
    value_errors_as_usage,
)
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.instants import rate_option
from recrawl.cli.support.output import CHECK_FAILED, Output, output_option

if TYPE_CHECKING:
    from recrawl.corpus import CorpusPlan, HostPlan, TargetAnswer
    from recrawl.node.config.rates import Money, Rate

__all__ = ["command"]

HOSTS_SHOWN = 10
_REACHED = ("met", "possible")


def _rate_of(text: str) -> "Rate":
    """Return a rate such as 30/h; raise ValueError if it is not per time."""
    from recrawl.node.config.values import Rate  # noqa: PLC0415

    rate = Rate.of(text)
    if rate.per_seconds is None or not 0 < rate.amount < math.inf:
        raise ValueError(f"--budget must be a rate per time, such as 30/h or 1000/d, got {text!r}")
    return rate


def _per_hour(rate: "Rate", cost_per_fetch: "Money | None") -> float:
    """Return the fetches or cost per hour of a rate."""
    amount = rate.amount
    if rate.currency is not None:
        if cost_per_fetch is None or cost_per_fetch.currency != rate.currency:
            raise ValueError(
                f"--budget {rate} needs budget.cost_per_fetch in {rate.currency} in recrawl.toml"
            )
        amount = cost_per_fetch.amount_of(rate)
    return 3_600 * amount / (rate.per_seconds or 1.0)


@example_command(
    "plan",
    examples=(
        CommandExample("recrawl plan"),
        CommandExample("recrawl plan --budget 100/d", "compare with another budget"),
        CommandExample("recrawl plan --target '90 %' --target '80 % of /product/* under 6 h'"),
        CommandExample(
            "recrawl plan --plot plan.html", "a page with a chart; .svg for the chart alone"
        ),
    ),
)
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="TEXT",
    help="Freshness that you want: '95 %', '99 % of example.com', or '95 % of /product/* under "
    "6 h' (outdated for less than 6 h).  Shows whether it can be reached and what it costs; exit "
    "code 3 if it cannot.  May be repeated.",
)
@click.option(
    "--budget",
    metavar="RATE",
    callback=rate_option,
    help="Budget to compare with, such as 30/h.  Default: the budget of the corpus.",
)
@click.option(
    "--unweighted", is_flag=True, help="Count all pages the same, whatever their importance."
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    metavar="FILE",
    help="Write a chart (.svg) or a report with a chart (.html).",
)
@corpus_or_service_option
@output_option
def command(
    folder: CorpusPlace,
    targets: tuple[str, ...],
    budget: str | None,
    unweighted: bool,
    plot: Path | None,
    out: Output,
) -> None:
    """Show how fresh each budget would keep your pages, and what freshness targets would cost.

    The result is an estimate from what recrawl has learned, by kind of page and by host.  Nothing
    is changed.
    """
    if plot is not None and plot.suffix.lower() not in (".svg", ".html"):
        raise click.BadParameter(f"must end with .svg or .html, got {plot}", param_hint="--plot")
    if isinstance(folder, str):
        if plot is not None or unweighted:
            raise click.UsageError(
                "--plot and --unweighted need the folder of the corpus: run this on the machine of "
                "the server."
            )
        _show_plan_of_server(folder, targets, budget, out)
        return
    with open_to_read(folder) as corpus, value_errors_as_usage():
        rate = None if budget is None else _rate_of(budget)
        each = corpus.config.budget.cost_per_fetch
        corpus_plan = corpus.plan_targets(
            targets,
            budget_per_hour=None if rate is None else _per_hour(rate, each),
            is_weighted=not unweighted,
        )
        newcomers = corpus.newcomers()
    if rate is not None:
        # Amounts are shown in the unit of the budget that was asked about.
        corpus_plan = replace(corpus_plan, period_seconds=rate.per_seconds)
    if plot is not None:
        _write_plot(plot, corpus_plan)
    if out.is_json:
        for row in _rows(corpus_plan):
            out.row(row)
    else:
        _show(corpus_plan, out)
        if newcomers:
            # After opening, which chooses the kernels.
            from recrawl.corpus import newcomers_words  # noqa: PLC0415

            out.say(f"{newcomers_words(newcomers)}  The plan counts them like all pages.")
    if plot is not None:
        out.note(f"Written to {plot}.")
    if not corpus_plan.is_answered_yes:
        click.get_current_context().exit(CHECK_FAILED)


def _show_plan_of_server(
    address: str, targets: tuple[str, ...], budget: str | None, out: Output
) -> None:
    """Show the words of a server's plan; its tables need the folder of the corpus."""
    with open_to_read(address) as corpus, value_errors_as_usage():
        rate = None if budget is None else _rate_of(budget)
        per_hour = None
        if rate is not None:
            per_hour = _per_hour(rate, corpus.config.budget.cost_per_fetch)
        found: Any = corpus.plan_targets(targets, budget_per_hour=per_hour)
    members = found.as_dict()
    curve, answers = members.pop("curve"), members.pop("targets")
    words = " ".join(found.words)
    out.row({"part": "plan", "words": words, **members})
    for i in range(len(curve["price"])):
        out.row({"part": "curve", **{name: values[i] for name, values in curve.items()}})
    out.say(words, style="bold")
    for text, answer in zip(targets, answers, strict=True):
        out.row({"part": "target", "target": text, **answer})
        out.say(answer["words"])
    out.say(
        "The tables by budget, kind and host need the folder of a corpus in one process; a cluster "
        "has no such folder.",
        style="dim",
    )
    if any(answer["verdict"] not in _REACHED for answer in answers):
        click.get_current_context().exit(CHECK_FAILED)


def _write_plot(plot: Path, corpus_plan: "CorpusPlan") -> None:
    from recrawl.cli.support.reports.plan_report import plan_page  # noqa: PLC0415
    from recrawl.corpus import plan_chart  # noqa: PLC0415

    is_page = plot.suffix.lower() == ".html"
    text = (
        plan_page(corpus_plan, title="What a budget buys") if is_page else plan_chart(corpus_plan)
    )
    try:
        plot.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.FileError(str(plot), error.strerror or str(error)) from error


def _show(corpus_plan: "CorpusPlan", out: Output) -> None:
    from recrawl.corpus import (  # noqa: PLC0415
        budget_table,
        delay_words,
        doubt_words,
        host_table,
        kind_table,
        plan_words,
        slow_host_table,
        target_words,
        together_words,
    )

    plan = corpus_plan.plan
    out.say(plan_words(corpus_plan), style="bold")
    if plan.n_pages == 0:
        out.say("Add some with `recrawl add urls.txt`.")
        return
    if doubt := doubt_words(corpus_plan):
        out.say(doubt, style="yellow")
    for answer in corpus_plan.targets:
        out.say(target_words(answer, corpus_plan))
    if corpus_plan.together is not None:
        out.say(together_words(corpus_plan))
    out.table(*budget_table(corpus_plan))
    if len(plan.kinds) > 1:
        out.table(*kind_table(corpus_plan))
    if corpus_plan.hosts.n_hosts > 1:
        out.table(*host_table(corpus_plan, HOSTS_SHOWN))
    if corpus_plan.hosts.slowed:
        out.say(delay_words(corpus_plan))
        out.table(*slow_host_table(corpus_plan, HOSTS_SHOWN))
    if corpus_plan.budget_per_hour is None:
        has_tables = len(plan.kinds) > 1 or corpus_plan.hosts.n_hosts > 1
        out.say(
            ("The tables of kinds and hosts are for 95 % fresh.  " if has_tables else "")
            + "Compare with a budget: recrawl plan --budget 30/h",
            style="dim",
        )
    if not plan.is_exact:
        out.say(f"Estimated from {plan.n_counted:,} of {plan.n_pages:,} pages.", style="dim")


def _rows(corpus_plan: "CorpusPlan") -> Iterator[dict[str, Any]]:
    """Yield a plan as rows of output: the plan, its curve, kinds, hosts and targets."""
    from recrawl.corpus import kind_rows, plan_words  # noqa: PLC0415

    plan, curve = corpus_plan.plan, corpus_plan.plan.curve
    at_twice = None
    if corpus_plan.budget_per_hour is not None:
        at_twice = plan.freshness_at(
            2 * corpus_plan.budget_per_hour, weighted=corpus_plan.is_weighted
        )
    yield {
        "part": "plan",
        "words": plan_words(corpus_plan),
        "at_ms": plan.at_ms,
        "n_pages": plan.n_pages,
        "n_counted": plan.n_counted,
        "pages_covered": corpus_plan.coverage.share,
        "n_partitions_away": corpus_plan.coverage.n_away,
        "unit": plan.unit,
        "is_weighted": corpus_plan.is_weighted,
        "budget_per_hour": corpus_plan.budget_per_hour,
        "freshness": corpus_plan.freshness,
        "freshness_with_twice": at_twice,
        "freshness_max": corpus_plan.freshness_max,
        "ceilings_per_hour": corpus_plan.ceilings_per_hour,
        "n_always": corpus_plan.ceilings.n_always,
        "freshness_lost_to_delays": corpus_plan.hosts.freshness_lost,
        "n_hosts_slowed": corpus_plan.hosts.n_slowed,
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
    for kind, spent, fresh, twice in kind_rows(corpus_plan):
        yield {
            "part": "kind",
            "kind": kind.kind,
            "n_pages": kind.n_pages,
            "importance": kind.importance,
            "spent_per_hour": spent,
            "freshness": fresh,
            "freshness_with_twice": twice,
        }
    named = {host.host: host for host in (*corpus_plan.hosts.slowed, *corpus_plan.hosts.largest)}
    for host in named.values():
        yield _host_row(host)
    for answer in corpus_plan.targets:
        yield _target_row(answer, corpus_plan)
    if corpus_plan.together is not None:
        yield {"part": "targets together", **corpus_plan.together._asdict()}


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


def _target_row(answer: "TargetAnswer", corpus_plan: "CorpusPlan") -> dict[str, Any]:
    from recrawl.corpus import target_words  # noqa: PLC0415

    target = answer.target
    return {
        "part": "target",
        "target": str(target),
        "words": target_words(answer, corpus_plan),
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
