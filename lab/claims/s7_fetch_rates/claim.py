"""How often each page is fetched: which pages signals take fetches from, and give them to."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from lab.claim import Claim, Kind, Scale, Tables
from lab.drawing import panels
from lab.greedy import Rule, even_instants, low_discrepancy, run_greedy
from lab.signal_webs import without_false_signals
from lab.tables import Table
from recrawl.core.signal_quality import from_recall
from recrawl.papers.price import continuous_optimum
from recrawl.sim import Web, signals_paper_web

__all__ = ["CLAIM"]

Floats = NDArray[np.float64]
Row = Mapping[str, str | float]

_FETCH_BUDGET = 100.0
_COLOUR_MAP = "viridis"
_BY = {"recall": "recall of signals", "change_rate": "changes per unit of time"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Webs of each figure by their sizes; of each web and policy so many pages are kept."""

    n_webs: int
    horizon: float
    n_shown: int = 50
    sizes_without_signals: tuple[int, ...] = (100, 500)
    sizes_noiseless: tuple[int, ...] = (100, 300)
    sizes_noisy: tuple[int, ...] = (300,)


SETTINGS = {
    Scale.QUICK: Settings(n_webs=1, horizon=40.0),
    Scale.FULL: Settings(n_webs=5, horizon=300.0),
}


def _empirical_rates(web: Web, policy: str, optimal: Floats) -> Floats:
    fetch_at = even_instants(_FETCH_BUDGET, web.horizon)
    if policy == "LDS":
        fetches = np.bincount(low_discrepancy(optimal, fetch_at.size), minlength=web.n_pages)
    else:
        rule = {"GREEDY": Rule.GREEDY, "GREEDY-CIS": Rule.CIS, "GREEDY-NCIS": Rule.NCIS}[policy]
        edges = np.array([0.0, web.horizon])
        fetches = run_greedy(web, rule, fetch_at, edges=edges).page_fetches
    return np.asarray(fetches / web.horizon, np.float64)


def _rows(settings: Settings, figure: str, n_pages: int, policies: tuple[str, ...]) -> list[Row]:
    rows: list[Row] = []
    # The same pages of every policy, spread over the webs.
    n_shown = -(-settings.n_shown // settings.n_webs)
    shown = np.linspace(0, n_pages - 1, min(n_shown, n_pages)).astype(int)
    for seed in range(settings.n_webs):
        web = signals_paper_web(seed, n_pages, horizon=settings.horizon)
        if figure == "12-13":
            web = without_false_signals(web)
        rates = from_recall(web.change_rate, 0.0, 0.0)
        best = continuous_optimum(rates, _FETCH_BUDGET, importance=web.importance)
        for policy in policies:
            found = _empirical_rates(web, policy, best.fetch_rate)
            rows += [
                {
                    "figure": figure,
                    "n_pages": n_pages,
                    "policy": policy,
                    "optimal_rate": round(float(best.fetch_rate[page]), 4),
                    "empirical_rate": round(float(found[page]), 4),
                    "recall": round(float(web.recall[page, 0]), 3),
                    "change_rate": round(float(web.change_rate[page]), 3),
                    "importance": round(float(web.importance[page]), 3),
                }
                for page in shown.tolist()
            ]
    return rows


def measure(scale: Scale) -> dict[str, Table]:
    """Return the rates of a sample of pages under each policy, beside the optimal ones."""
    settings = SETTINGS[scale]
    rows: list[Row] = []
    for n_pages in settings.sizes_without_signals:
        rows += _rows(settings, "7", n_pages, ("GREEDY", "LDS"))
    for n_pages in settings.sizes_noiseless:
        rows += _rows(settings, "12-13", n_pages, ("GREEDY", "GREEDY-CIS"))
    for n_pages in settings.sizes_noisy:
        rows += _rows(settings, "14", n_pages, ("GREEDY", "GREEDY-CIS", "GREEDY-NCIS"))
    return {"rates": Table.of(rows)}


def _draw_rates(rates: Table, colour_by: str) -> Figure:
    sizes, policies = rates.distinct("n_pages"), rates.distinct("policy")
    figure, axes = panels(len(policies), len(sizes), height=3.6)
    shades = None
    for row, n_pages in enumerate(sizes):
        own = rates.where(n_pages=n_pages)
        greatest = 1.04 * max(own.floats("optimal_rate").max(), own.floats("empirical_rate").max())
        for panel, policy in zip(axes[row * len(policies) :], policies, strict=False):
            points = own.where(policy=policy)
            panel.plot([0, greatest], [0, greatest], color="#999999", lw=0.8)
            shades = panel.scatter(
                points.floats("optimal_rate"),
                points.floats("empirical_rate"),
                c=points.floats(colour_by),
                s=14,
                cmap=_COLOUR_MAP,
                norm=Normalize(0.0, 1.0),
            )
            panel.set_title(f"{policy}, {n_pages} pages")
            panel.set(xlabel="optimal rate without signals", ylabel="fetches per unit of time")
    if shades is not None:
        figure.colorbar(shades, ax=axes, label=_BY[colour_by], shrink=0.8)
    return figure


def draw(tables: Tables) -> dict[str, Figure]:
    """Draw each page's rate against the optimal one, coloured by recall or by change rate."""
    rates = tables["rates"]
    return {
        "fig-7": _draw_rates(rates.where(figure="7"), "change_rate"),
        "fig-12": _draw_rates(rates.where(figure="12-13"), "recall"),
        "fig-13": _draw_rates(rates.where(figure="12-13"), "change_rate"),
        "fig-14": _draw_rates(rates.where(figure="14"), "recall"),
    }


CLAIM = Claim(
    id="S-7, S-12..14",
    kind=Kind.FIGURE,
    paper="Signals",
    figures="figs 7, 12-14",
    title="how often pages are fetched",
    says=(
        "Rates of single pages against the optimal ones without signals, R = 100.  LDS keeps to "
        "them, GREEDY does so less.  With true signals only, GREEDY-CIS at m = 100 takes fetches "
        "from pages with many signals and gives them to the others; at m = 300 it raises lively "
        "ones with many signals.  With false signals GREEDY-CIS fetches some pages far too often; "
        "GREEDY-NCIS does not."
    ),
    measure=measure,
    draw=draw,
    captions={
        "fig-7": "No signals: each dot is a page, the diagonal is the optimal rate.",
        "fig-12": "Only true signals, coloured by the share of changes that is announced.",
        "fig-13": "The same pages, coloured by change rate.",
        "fig-14": (
            "With false signals (rates uniform on (.1, .6)), coloured by the share of changes that "
            "is announced."
        ),
    },
    remark=(
        "A sample of pages is drawn, over 300 units of time.  In the paper GREEDY strays from the "
        "optimal rates; here it does so only for pages that are hardly worth following."
    ),
)
