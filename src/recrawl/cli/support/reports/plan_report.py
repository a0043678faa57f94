"""HTML page of a plan."""

import math
from typing import TYPE_CHECKING

from recrawl.units import count_text, share_text

if TYPE_CHECKING:
    from recrawl.corpus import CorpusPlan

__all__ = ["plan_page"]


def plan_page(corpus_plan: "CorpusPlan", *, title: str) -> str:
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
    from recrawl.corpus import (  # noqa: PLC0415
        Amounts,
        budget_table,
        current_budget_row,
        delay_words,
        host_table,
        kind_table,
        plan_chart,
        plan_words,
        slow_host_table,
        target_words,
        together_words,
    )

    plan, amounts = corpus_plan.plan, Amounts.of(corpus_plan)
    figures = [Card(value=f"{plan.n_pages:,}", label="pages")]
    if corpus_plan.budget_per_hour is not None and corpus_plan.freshness is not None:
        figures += [
            Card(value=amounts(corpus_plan.budget_per_hour), label="budget"),
            Card(value=share_text(corpus_plan.freshness), label="fresh with this budget"),
        ]
    needed = plan.budget_for(0.95, weighted=corpus_plan.is_weighted)
    if needed < math.inf:
        figures.append(Card(value=amounts(needed), label="needed for 95 %"))
    curve = cards(figures) + figure(plan_chart(corpus_plan), _caption(corpus_plan))
    curve += table_html(*budget_table(corpus_plan), main_row=current_budget_row(corpus_plan))
    sections = [Section(heading="", body_html=curve)]
    if corpus_plan.targets:
        words = [target_words(answer, corpus_plan) for answer in corpus_plan.targets]
        words += [together_words(corpus_plan)] if corpus_plan.together else []
        sections.append(Section(heading="Targets", body_html=bullets(words)))
    if len(plan.kinds) > 1:
        sections.append(
            Section(heading="Kinds of page", body_html=table_html(*kind_table(corpus_plan)))
        )
    hosts = table_html(*host_table(corpus_plan, 20))
    if corpus_plan.hosts.slowed:
        slowed = table_html(*slow_host_table(corpus_plan, 20))
        body = paragraph(delay_words(corpus_plan)) + slowed + details("The largest hosts", hosts)
    else:
        body = paragraph("Delays of hosts cost no freshness.") + hosts
    sections.append(Section(heading="Hosts", body_html=body))
    method = bullets(_METHOD)
    sections.append(Section(heading="Method", body_html=method))
    sample = "" if plan.is_exact else f", from a sample of {count_text(plan.n_counted, 'page')}"
    return html_page(
        title,
        sections,
        lead=plan_words(corpus_plan),
        footer=f"Estimated for {count_text(plan.n_pages, 'page')}{sample}.",
    )


_METHOD = (
    "Freshness is the share of copies that equal their page, on average over time, weighted by "
    "importance unless --unweighted is given.",
    "For each budget recrawl computes the price of a fetch, and from the price and the estimated "
    "change rate how often it fetches each page and how fresh its copy is.  Nothing is simulated.",
    "recrawl will learn more about pages with few fetches, and keep them fresher than estimated "
    "here.",
    "A host gets no more fetches than its delay allows; they go to its most valuable pages.",
    "To meet a target, recrawl fetches its pages at a lower price than others.  A copy counts as "
    "late once it has been outdated for longer than the time in the target.",
)


def _caption(corpus_plan: "CorpusPlan") -> str:
    caption = "Freshness of all pages, if recrawl spends each budget."
    if len(corpus_plan.plan.kinds) > 1:
        caption += "  The thin lines are kinds of page, at the same total budget."
    return caption
