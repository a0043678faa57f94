"""The chart of a plan, and its tables of budgets, kinds of page and hosts."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from recrawl.charts import Axis, Note, Series, line_chart
from recrawl.core.arrays import FloatArray
from recrawl.corpus.plan.corpus_plan import CorpusPlan
from recrawl.corpus.plan.curve import KindPlan
from recrawl.corpus.plan.hosts import HostPlan
from recrawl.corpus.plan.text import Amounts
from recrawl.units import number_text, seconds_text, share_text

__all__ = [
    "KINDS_DRAWN_MAX",
    "PlanTable",
    "budget_rows",
    "budget_table",
    "current_budget_row",
    "host_table",
    "kind_rows",
    "kind_table",
    "plan_chart",
    "slow_host_table",
    "useful_budgets",
]

KINDS_DRAWN_MAX = 5
"""Maximum number of kinds with a line in the chart: the most important ones."""
_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
_GOALS = (0.8, 0.9, 0.95, 0.99)


def plan_chart(corpus_plan: CorpusPlan) -> str:
    """Return a chart of freshness against budget, for all pages and the most important kinds."""
    plan, amounts = corpus_plan.plan, Amounts.of(corpus_plan)
    budget = amounts.scale * plan.budget_per_hour
    series = [
        Series(name="all pages", x=budget, y=_freshness(corpus_plan, plan.curve), is_main=True)
    ]
    if len(plan.kinds) > 1:
        kinds = sorted(plan.kinds, key=lambda kind: -kind.importance)[:KINDS_DRAWN_MAX]
        series += [
            Series(name=kind.kind, x=budget, y=_freshness(corpus_plan, kind.curve))
            for kind in kinds
        ]
    notes = []
    goals = {answer.target.share for answer in corpus_plan.targets if answer.target.of is None}
    notes += [Note(y=goal, text=share_text(goal)) for goal in sorted(goals or {0.95})]
    if corpus_plan.budget_per_hour is not None and corpus_plan.freshness is not None:
        now = amounts.scale * corpus_plan.budget_per_hour
        fresh = share_text(corpus_plan.freshness)
        text = f"your budget: {amounts(corpus_plan.budget_per_hour)}, {fresh} fresh"
        notes.append(Note(x=now, y=corpus_plan.freshness, text=text))
    useful = useful_budgets(corpus_plan)
    if useful is not None and corpus_plan.budget_per_hour:
        # The budget of the corpus is drawn even if it is of little use.
        now = corpus_plan.budget_per_hour
        useful = min(useful[0], 0.8 * now), max(useful[1], 1.25 * now)
    weighted = ", weighted by importance" if corpus_plan.is_weighted else ""
    return line_chart(
        series,
        title="What a budget buys",
        x=Axis(
            label=f"{amounts.unit} per {'hour' if amounts.per == 'h' else amounts.per}",
            scale="log",
            low=None if useful is None else amounts.scale * useful[0],
            high=None if useful is None else amounts.scale * useful[1],
        ),
        y=Axis(label=f"fresh copies{weighted}", scale="share", low=0.0, high=1.0),
        notes=notes,
    )


def useful_budgets(corpus_plan: CorpusPlan) -> tuple[float, float] | None:
    """Return the smallest and the largest budget per hour worth to look at; None without pages."""
    budget = corpus_plan.plan.budget_per_hour
    spent = budget[(budget > 0) & (_freshness(corpus_plan, corpus_plan.plan.curve) > 0.05)]
    # Three decades are enough: smaller budgets are of no use.
    spent = spent[spent >= spent.max(initial=0.0) / 1_000]
    return (float(spent.min()), float(spent.max())) if spent.size else None


def _freshness(corpus_plan: CorpusPlan, curve: object) -> FloatArray:
    name = "weighted_freshness" if corpus_plan.is_weighted else "freshness"
    column: FloatArray = getattr(curve, name)
    return column


def budget_rows(corpus_plan: CorpusPlan) -> list[tuple[float, float | None, float]]:
    """Return budgets per hour, as multiples of the corpus's, and their freshness, in order."""
    plan, weighted = corpus_plan.plan, corpus_plan.is_weighted
    now = corpus_plan.budget_per_hour
    rows: list[tuple[float, float | None, float]] = []
    if now is not None:
        rows = [(f * now, f, plan.freshness_at(f * now, weighted=weighted)) for f in _FACTORS]
    for goal in _GOALS:
        budget = plan.budget_for(goal, weighted=weighted)
        # A goal near one of the multiples would be a second row for the same budget.
        is_near = any(0.9 < budget / row[0] < 1.1 for row in rows if row[0] > 0)
        if budget < math.inf and not is_near:
            rows.append((budget, budget / now if now else None, goal))
    return sorted(rows, key=lambda row: row[0])


def kind_rows(corpus_plan: CorpusPlan) -> list[tuple[KindPlan, float, float, float]]:
    """Return kinds with spending per hour, freshness, and freshness with twice the budget."""
    plan = corpus_plan.plan
    places = np.arange(plan.curve.price.size)
    spent_now = float(np.interp(corpus_plan.place, places, plan.budget_per_hour))
    twice = float(np.interp(2 * spent_now, plan.budget_per_hour, places))
    rows = []
    for kind in sorted(plan.kinds, key=lambda kind: -kind.importance):
        curve = kind.curve
        spent = curve.cost_per_hour if plan.unit == "cost" else curve.fetches_per_hour
        fresh = _freshness(corpus_plan, curve)
        rows.append(
            (
                kind,
                float(np.interp(corpus_plan.place, places, spent)),
                float(np.interp(corpus_plan.place, places, fresh)),
                float(np.interp(twice, places, fresh)),
            )
        )
    return rows


def current_budget_row(corpus_plan: CorpusPlan) -> int | None:
    """Return the index of the row with the corpus's own budget."""
    factors = [factor for _, factor, _ in budget_rows(corpus_plan)]
    return factors.index(1.0) if 1.0 in factors else None


class PlanTable(NamedTuple):
    """A table of text, for terminals and HTML pages."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def _times(factor: float | None) -> str:
    """Return a multiple of the corpus's budget as text."""
    if factor is None:
        return "–"
    return "< 0.01 ×" if factor < 0.01 else f"{number_text(float(f'{factor:.2g}'))} ×"


def budget_table(corpus_plan: CorpusPlan) -> PlanTable:
    """Return a table of budgets and the freshness that they buy."""
    amounts = Amounts.of(corpus_plan)
    unit, rows = f"{amounts.unit}/{amounts.per}", budget_rows(corpus_plan)
    if corpus_plan.budget_per_hour is None:
        return PlanTable(
            (unit, "fresh"),
            [(amounts.number(budget), share_text(fresh)) for budget, _, fresh in rows],
        )
    cells = [
        (amounts.number(budget), _times(factor), share_text(fresh))
        for budget, factor, fresh in rows
    ]
    return PlanTable((unit, "your budget", "fresh"), cells)


def kind_table(corpus_plan: CorpusPlan) -> PlanTable:
    """Return a table of kinds of page: their share of the budget, and their freshness."""
    amounts = Amounts.of(corpus_plan)
    rows = [
        (
            kind.kind,
            f"{kind.n_pages:,}",
            amounts.number(spent),
            share_text(fresh),
            share_text(twice),
        )
        for kind, spent, fresh, twice in kind_rows(corpus_plan)
    ]
    return PlanTable(
        ("kind", "pages", f"{amounts.unit}/{amounts.per}", "fresh", "with 2 × budget"), rows
    )


def host_table(corpus_plan: CorpusPlan, n_max: int) -> PlanTable:
    """Return a table of the largest hosts: their share of the budget, and their freshness."""
    amounts = Amounts.of(corpus_plan)
    rows = [
        (
            host.host,
            f"{host.n_pages:,}",
            amounts.fetches(host.fetches_per_hour),
            share_text(host.freshness),
        )
        for host in corpus_plan.hosts.largest[:n_max]
    ]
    return PlanTable(("host", "pages", f"fetches/{amounts.per}", "fresh"), rows)


def slow_host_table(corpus_plan: CorpusPlan, n_max: int) -> PlanTable:
    """Return a table of the hosts whose delays cost most freshness."""
    amounts = Amounts.of(corpus_plan)
    rows = [_slow_host_row(host, amounts) for host in corpus_plan.hosts.slowed[:n_max]]
    columns = ("host", "pages", "delay", f"allowed/{amounts.per}", f"wanted/{amounts.per}", "fresh")
    return PlanTable((*columns, "without delay"), rows)


def _slow_host_row(host: HostPlan, amounts: Amounts) -> tuple[str, ...]:
    closed = host.fetches_per_hour_max == 0
    return (
        host.host,
        f"{host.n_pages:,}",
        "closed" if closed else seconds_text(host.delay_seconds),
        amounts.fetches(host.fetches_per_hour_max),
        amounts.fetches(host.fetches_per_hour_wanted),
        share_text(host.freshness),
        share_text(host.freshness_without_delay),
    )
