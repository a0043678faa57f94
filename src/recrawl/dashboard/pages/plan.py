"""The plan: what budgets buy, for all pages, by kind and host, and what promises cost."""

import math
from collections.abc import Hashable, Sequence
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from markupsafe import Markup

from recrawl.corpus import (
    Amounts,
    CorpusPlan,
    PlanTable,
    Target,
    budget_table,
    ceiling_words,
    current_budget_row,
    delay_words,
    doubt_words,
    host_table,
    kind_table,
    plan_chart,
    plan_words,
    slow_host_table,
    target_words,
    together_words,
    useful_budgets,
)
from recrawl.dashboard.frame.opened_page import OpenedPage, open_page
from recrawl.dashboard.frame.page_errors import PageError
from recrawl.dashboard.frame.rendering import chart_html, render
from recrawl.service.calls import CorpusName
from recrawl.units import share_text

__all__ = ["budget_at", "router", "slider_place"]

router = APIRouter()

PLACES: Final = 200
"""Last place of the slider; its first is 0."""
TARGETS_MAX: Final = 10
"""Largest number of targets on the page."""
_TARGET_MAX: Final = 300
_HOSTS_SHOWN: Final = 15
# Kind that `recrawl run` gives the sitemaps and feeds that it reads.
_DOCUMENT_KIND: Final = "sitemap or feed"


class TargetLine(NamedTuple):
    """A target, and whether the budget meets it."""

    words: str
    tone: str


class PlanView(NamedTuple):
    """What the page shows of a plan."""

    words: str
    doubt: str
    chart: Markup | None
    place: int
    budget: str
    """Budget at the place of the slider."""
    freshness: float | None
    goals: list[tuple[str, str]]
    """Shares of fresh copies, and the budget that each needs."""
    targets: list[TargetLine]
    together: str
    budgets: PlanTable
    budget_row: int | None
    kinds: PlanTable | None
    hosts: PlanTable
    slowed: PlanTable | None
    delays: str
    ceilings: str
    reads_documents: bool
    """Whether sitemaps and feeds are among the pages with limits."""
    ceilings_share: str | None
    """Share of the budget that max_age and staleness limits need; None without a budget."""
    ceiling_problem: str
    n_counted: int
    is_exact: bool
    at_ms: int


def budget_at(place: int, ends: tuple[float, float]) -> float:
    """Return the budget per hour at a place of the slider, which is logarithmic.

    Parameters
    ----------
    place
        Place from 0 to `PLACES`.
    ends
        Budgets at the two ends.

    Examples
    --------
    >>> round(budget_at(100, (1.0, 100.0)), 6)
    10.0
    """
    low, high = ends
    return float(low * (high / low) ** (place / PLACES))


def slider_place(budget_per_hour: float, ends: tuple[float, float]) -> int:
    """Return the place of the slider that is nearest to a budget per hour.

    Parameters
    ----------
    budget_per_hour
        Budget.
    ends
        Budgets at the two ends.

    Examples
    --------
    >>> slider_place(10.0, (1.0, 100.0)), slider_place(1e9, (1.0, 100.0))
    (100, 200)
    """
    low, high = ends
    if budget_per_hour <= low or high <= low:
        return 0
    share = math.log(budget_per_hour / low) / math.log(high / low)
    return min(round(share * PLACES), PLACES)


def _slider_ends(found: CorpusPlan, own: float | None) -> tuple[float, float]:
    low, high = useful_budgets(found) or (1.0, 1_000.0)
    if own is not None and own > 0:
        low, high = min(low, own), max(high, own)
    return low, max(high, 1.001 * low)


def read_plan(corpus: Any, place: int | None, targets: Sequence[str]) -> PlanView:
    """Return the plan of a corpus for a budget.

    Parameters
    ----------
    corpus
        Corpus to plan for.
    place
        Place of the slider; None for the budget of the corpus.
    targets
        Targets such as ``95 % of /product/* under 6 h``.
    """
    # Targets take most of the time, and the ends of the slider do not depend on them.
    found: CorpusPlan = corpus.plan_targets(targets if place is None else [])
    own = found.budget_per_hour
    ends = _slider_ends(found, own)
    own_place = None if own is None else slider_place(own, ends)
    if place is not None and place != own_place:
        found = corpus.plan_targets(targets, budget_per_hour=budget_at(place, ends))
    elif place is not None and targets:
        found = corpus.plan_targets(targets)
    return _view_of(found, ends)


def _view_of(found: CorpusPlan, ends: tuple[float, float]) -> PlanView:
    plan, say, budget = found.plan, Amounts.of(found), found.budget_per_hour
    shown = budget_at(PLACES // 2, ends) if budget is None else budget
    goals = [
        (share_text(goal), say(needed))
        for goal in (0.8, 0.9, 0.95, 0.99)
        if (needed := plan.budget_for(goal, weighted=found.is_weighted)) < math.inf
    ]
    tones = {"met": "good", "possible": "good", "too dear": "warn", "out of reach": "bad"}
    targets = [
        TargetLine(target_words(one, found), tones.get(one.verdict, "")) for one in found.targets
    ]
    ceilings = found.ceilings_per_hour
    return PlanView(
        words=plan_words(found),
        doubt=doubt_words(found),
        chart=chart_html(plan_chart(found)) if plan.n_pages else None,
        place=slider_place(shown, ends),
        budget=say(shown),
        freshness=found.freshness,
        goals=goals,
        targets=targets,
        together=together_words(found),
        budgets=budget_table(found),
        budget_row=current_budget_row(found),
        kinds=kind_table(found) if len(plan.kinds) > 1 else None,
        hosts=host_table(found, _HOSTS_SHOWN),
        slowed=slow_host_table(found, _HOSTS_SHOWN) if found.hosts.slowed else None,
        delays=delay_words(found),
        ceilings=say(ceilings) if ceilings > 0 else "",
        reads_documents=any(kind.kind == _DOCUMENT_KIND for kind in plan.kinds),
        ceilings_share=share_text(ceilings / budget) if budget else None,
        ceiling_problem=ceiling_words(found),
        n_counted=plan.n_counted,
        is_exact=plan.is_exact,
        at_ms=plan.at_ms,
    )


_Place = Annotated[int | None, Query(ge=0, le=PLACES)]
_Targets = Annotated[str, Query(max_length=TARGETS_MAX * _TARGET_MAX)]


@router.get("/ui/{corpus}/plan")
async def show_plan(
    request: Request, corpus: CorpusName, at: _Place = None, targets: _Targets = ""
) -> Response:
    """Show what budgets buy."""
    page = open_page(request, corpus)
    return render(request, "plan.html", **await _context(page, at, targets))


@router.get("/ui/{corpus}/plan/answer")
async def show_plan_answer(
    request: Request, corpus: CorpusName, at: _Place = None, targets: _Targets = ""
) -> Response:
    """Show the part of the plan that depends on the budget, while somebody moves the slider."""
    page = open_page(request, corpus)
    return render(request, "plan_answer.html", **await _context(page, at, targets))


async def _context(page: OpenedPage, place: int | None, text: str) -> dict[str, Any]:
    lines = [line.strip() for line in text.splitlines()]
    targets = tuple(line for line in lines if line)
    context: dict[str, Any] = {"targets_text": text, "places": PLACES, "wrong_target": ""}
    try:
        if len(targets) > TARGETS_MAX:
            raise ValueError(f"there are at most {TARGETS_MAX} targets here")
        for target in targets:
            Target.parse(target)
    except ValueError as error:
        context["wrong_target"], targets = str(error), ()
    try:
        context["plan"] = await _read_view(page, place, targets)
    except ValueError as error:
        raise PageError(422, "A value is not valid", str(error)) from error
    return context


async def _read_view(page: OpenedPage, place: int | None, targets: tuple[str, ...]) -> PlanView:
    """Return a plan that may be a few minutes old, but is of the present budget."""

    def make_view(place: int | None, targets: tuple[str, ...], version: Hashable) -> PlanView:
        """Make the plan; one of another version is not shown."""
        del version
        return read_plan(page.corpus, place, targets)

    sample = await page.read_current(page.corpus.sample)
    version = (page.hosted.settings_lock.n_changes, sample.budget_per_second, sample.budget_unit)
    return await page.read_slow(None, make_view, place, targets, version)
