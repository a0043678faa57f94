"""A plan as a picture and as a page: freshness against budget, kinds, hosts, targets, method."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from recrawl.units import count_text, number_text, seconds_text, share_text

if TYPE_CHECKING:
    from recrawl.core.arrays import FloatArray
    from recrawl.corpus.plan.corpus_plan import CorpusPlan
    from recrawl.corpus.plan.curve import KindPlan
    from recrawl.corpus.plan.hosts import HostPlan
    from recrawl.corpus.plan.text import Amounts

__all__ = [
    "Table",
    "budget_table",
    "host_table",
    "kind_rows",
    "kind_table",
    "plan_chart",
    "plan_page",
    "slowed_table",
]

KINDS_DRAWN_MAX = 5
"""Of more kinds those that weigh most have a line."""
_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
_GOALS = (0.8, 0.9, 0.95, 0.99)


def plan_chart(found: "CorpusPlan") -> str:
    """Return freshness against budget: of all pages, and of the kinds that weigh most."""
    from recrawl.charts import Axis, Note, Series, line_chart  # noqa: PLC0415
    from recrawl.corpus.plan.text import Amounts  # noqa: PLC0415

    plan, say = found.plan, Amounts.of(found)
    budget = say.hours * plan.budget_per_hour
    series = [Series(name="all pages", x=budget, y=_freshness(found, plan.curve), is_main=True)]
    if len(plan.kinds) > 1:
        kinds = sorted(plan.kinds, key=lambda kind: -kind.importance)[:KINDS_DRAWN_MAX]
        series += [
            Series(name=kind.kind, x=budget, y=_freshness(found, kind.curve)) for kind in kinds
        ]
    notes = []
    goals = {answer.target.share for answer in found.targets if answer.target.of is None}
    notes += [Note(y=goal, text=share_text(goal)) for goal in sorted(goals or {0.95})]
    if found.budget_per_hour is not None and found.freshness is not None:
        now = say.hours * found.budget_per_hour
        words = f"today: {say(found.budget_per_hour)}, {share_text(found.freshness)} fresh"
        notes.append(Note(x=now, y=found.freshness, text=words))
    spent = budget[(budget > 0) & (_freshness(found, plan.curve) > 0.05)]
    # Three decades at most: what lies further left is nobody's budget.
    spent = spent[spent >= spent.max(initial=0.0) / 1_000]
    weighted = ", weighted by importance" if found.is_weighted else ""
    return line_chart(
        series,
        title="What a budget buys",
        x=Axis(
            label=f"{say.unit} per {'hour' if say.per == 'h' else say.per}",
            scale="log",
            low=float(spent.min()) if spent.size else None,
            high=float(spent.max()) if spent.size else None,
        ),
        y=Axis(label=f"fresh copies{weighted}", scale="share", low=0.0, high=1.0),
        notes=notes,
    )


def _freshness(found: "CorpusPlan", curve: object) -> "FloatArray":
    name = "weighted_freshness" if found.is_weighted else "freshness"
    column: FloatArray = getattr(curve, name)
    return column


def budget_rows(found: "CorpusPlan") -> list[tuple[float, float | None, float]]:
    """Return budgets per hour, as multiples of today's, and what they buy, from the least."""
    plan, weighted = found.plan, found.is_weighted
    now = found.budget_per_hour
    rows: list[tuple[float, float | None, float]] = []
    if now is not None:
        rows = [(f * now, f, plan.freshness_at(f * now, weighted=weighted)) for f in _FACTORS]
    for goal in _GOALS:
        budget = plan.budget_for(goal, weighted=weighted)
        # A goal that one of the multiples reaches, too, would stand there twice.
        is_near = any(0.9 < budget / row[0] < 1.1 for row in rows if row[0] > 0)
        if budget < math.inf and not is_near:
            rows.append((budget, budget / now if now else None, goal))
    return sorted(rows, key=lambda row: row[0])


def _today(found: "CorpusPlan") -> int | None:
    """Return which of the budgets is today's."""
    factors = [factor for _, factor, _ in budget_rows(found)]
    return factors.index(1.0) if 1.0 in factors else None


def kind_rows(found: "CorpusPlan") -> list[tuple["KindPlan", float, float, float]]:
    """Return kinds with what is spent on each per hour, what that buys, and what twice buys."""
    import numpy as np  # noqa: PLC0415

    plan = found.plan
    places = np.arange(plan.curve.price.size)
    spent_now = float(np.interp(found.place, places, plan.budget_per_hour))
    twice = float(np.interp(2 * spent_now, plan.budget_per_hour, places))
    rows = []
    for kind in sorted(plan.kinds, key=lambda kind: -kind.importance):
        curve = kind.curve
        spent = curve.cost_per_hour if plan.unit == "cost" else curve.fetches_per_hour
        fresh = _freshness(found, curve)
        rows.append(
            (
                kind,
                float(np.interp(found.place, places, spent)),
                float(np.interp(found.place, places, fresh)),
                float(np.interp(twice, places, fresh)),
            )
        )
    return rows


class Table(NamedTuple):
    """A table in words, as terminals and pages show it."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def _times(factor: float | None) -> str:
    """Return a multiple of today's budget."""
    if factor is None:
        return "–"
    return "< 0.01 ×" if factor < 0.01 else f"{number_text(float(f'{factor:.2g}'))} ×"


def budget_table(found: "CorpusPlan") -> Table:
    """Return what budgets buy."""
    from recrawl.corpus.plan.text import Amounts  # noqa: PLC0415

    say = Amounts.of(found)
    unit, rows = f"{say.unit}/{say.per}", budget_rows(found)
    if found.budget_per_hour is None:
        return Table(
            (unit, "fresh"), [(say.number(budget), share_text(fresh)) for budget, _, fresh in rows]
        )
    cells = [
        (say.number(budget), _times(factor), share_text(fresh)) for budget, factor, fresh in rows
    ]
    return Table((unit, "today's", "fresh"), cells)


def kind_table(found: "CorpusPlan") -> Table:
    """Return what kinds of page get, now and with twice the budget."""
    from recrawl.corpus.plan.text import Amounts  # noqa: PLC0415

    say = Amounts.of(found)
    rows = [
        (kind.kind, f"{kind.n_pages:,}", say.number(spent), share_text(fresh), share_text(twice))
        for kind, spent, fresh, twice in kind_rows(found)
    ]
    return Table(("kind", "pages", f"{say.unit}/{say.per}", "fresh", "with twice"), rows)


def host_table(found: "CorpusPlan", n_max: int) -> Table:
    """Return what the largest hosts get."""
    from recrawl.corpus.plan.text import Amounts  # noqa: PLC0415

    say = Amounts.of(found)
    rows = [
        (
            host.host,
            f"{host.n_pages:,}",
            say.number(host.fetches_per_hour),
            share_text(host.freshness),
        )
        for host in found.hosts.largest[:n_max]
    ]
    return Table(("host", "pages", f"fetches/{say.per}", "fresh"), rows)


def slowed_table(found: "CorpusPlan", n_max: int) -> Table:
    """Return the hosts whose delays cost most, and what they could be without."""
    from recrawl.corpus.plan.text import Amounts  # noqa: PLC0415

    say = Amounts.of(found)
    rows = [_slowed(host, say) for host in found.hosts.slowed[:n_max]]
    columns = ("host", "pages", "delay", f"allowed/{say.per}", f"wanted/{say.per}", "fresh")
    return Table((*columns, "without"), rows)


def _slowed(host: "HostPlan", say: "Amounts") -> tuple[str, ...]:
    closed = host.fetches_per_hour_max == 0
    return (
        host.host,
        f"{host.n_pages:,}",
        "closed" if closed else seconds_text(host.delay_seconds),
        say.number(host.fetches_per_hour_max),
        say.number(host.fetches_per_hour_wanted),
        share_text(host.freshness),
        share_text(host.freshness_without_delay),
    )


def plan_page(found: "CorpusPlan", *, title: str) -> str:
    """Return a plan as one HTML page."""
    from recrawl.charts import (  # noqa: PLC0415
        Card,
        Section,
        bullets,
        cards,
        details,
        figure,
        html_page,
        paragraph,
        table_html,
    )
    from recrawl.corpus.plan.text import (  # noqa: PLC0415
        Amounts,
        delay_words,
        plan_words,
        target_words,
        together_words,
    )

    plan, say = found.plan, Amounts.of(found)
    figures = [Card(value=f"{plan.n_pages:,}", label="pages")]
    if found.budget_per_hour is not None and found.freshness is not None:
        figures += [
            Card(value=say(found.budget_per_hour), label="budget"),
            Card(value=share_text(found.freshness), label="fresh with it"),
        ]
    needed = plan.budget_for(0.95, weighted=found.is_weighted)
    if needed < math.inf:
        figures.append(Card(value=say(needed), label="needed for 95 %"))
    curve = cards(figures) + figure(plan_chart(found), _caption(found))
    curve += table_html(*budget_table(found), main_row=_today(found))
    sections = [Section(heading="", body_html=curve)]
    if found.targets:
        words = [target_words(answer, found) for answer in found.targets]
        words += [together_words(found)] if found.together else []
        sections.append(Section(heading="Targets", body_html=bullets(words)))
    if len(plan.kinds) > 1:
        sections.append(Section(heading="Kinds of page", body_html=table_html(*kind_table(found))))
    hosts = table_html(*host_table(found, 20))
    if found.hosts.slowed:
        slowed = table_html(*slowed_table(found, 20))
        body = paragraph(delay_words(found)) + slowed + details("The largest hosts", hosts)
    else:
        body = paragraph("No delay of a host costs freshness.") + hosts
    sections.append(Section(heading="Hosts", body_html=body))
    method = bullets(_METHOD)
    sections.append(Section(heading="What this rests on", body_html=method))
    looked = "every page" if plan.is_exact else f"{count_text(plan.n_counted, 'page')} of them"
    return html_page(
        title,
        sections,
        lead=plan_words(found),
        footer=f"From what is known of {count_text(plan.n_pages, 'page')}, looking at {looked}.",
    )


_METHOD = (
    "Freshness is the share of copies that equal their page, on average over time, each weighted "
    "by its importance unless said otherwise.",
    "A price says for each page after which time it is fetched again.  That and what is believed "
    "of its change rate give how often it is fetched and how fresh its copy is; nothing is "
    "simulated.",
    "What polls will yet teach is left out: pages of which little is known will do better.",
    "A host sells no more fetches than its delay allows, to its own best pages.",
    "A target is met by fetching its pages at a lower price than others.  A copy counts as late "
    "once it has been stale for longer than the target says.",
)


def _caption(found: "CorpusPlan") -> str:
    words = "Each budget is spent as well as can be, over all pages."
    if len(found.plan.kinds) > 1:
        words += "  The thin lines are kinds of page, each at the budget of all together."
    return words
