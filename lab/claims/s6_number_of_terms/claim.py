"""How much of the value a few terms of its sum hold, which the paper shows for one page."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lab.claim import Claim, Kind, Scale, Tables
from lab.drawing import COLOURS, OURS, panels
from lab.tables import Table
from recrawl.core.signal_quality import from_recall
from recrawl.core.value import approximate_noisy_value, noisy_value, renewal_value
from recrawl.papers.price import continuous_optimum
from recrawl.sim import signals_paper_web

__all__ = ["CLAIM"]

_N_TERMS = (1, 2, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Two pages that change once per unit of time, and webs of the paper.

    ``pages`` has recall and false signals per unit of time of each, by name.
    """

    pages: tuple[tuple[str, float, float], ...] = (
        ("trusted signals", 0.5, 0.2),
        ("weak signals", 0.3, 3.0),
    )
    effective_elapsed_max: float = 12.0
    n_points: int = 121
    web_sizes: tuple[int, ...] = (100, 500, 1000)
    n_webs: int = 20
    fetch_budget: float = 100.0


SETTINGS = {Scale.QUICK: Settings(n_webs=2), Scale.FULL: Settings()}


def _value_rows(settings: Settings) -> list[Mapping[str, str | float]]:
    elapsed = np.linspace(0.0, settings.effective_elapsed_max, settings.n_points)
    rows: list[Mapping[str, str | float]] = []
    for name, recall, false_rate in settings.pages:
        rates = from_recall(1.0, recall, false_rate)
        curves = {
            "exact": noisy_value(*rates, elapsed),
            "renewal": renewal_value(*rates, elapsed),
            **{f"terms_{n}": approximate_noisy_value(*rates, elapsed, n) for n in _N_TERMS},
        }
        age = float(rates.signal_age())
        for i, at in enumerate(elapsed.tolist()):
            values = {kind: float(curve[i]) for kind, curve in curves.items()}
            rows.append({"page": name, "signal_age": age, "effective_elapsed": at, **values})
    return rows


def _terms_rows(settings: Settings) -> list[Mapping[str, float]]:
    """Return which share of the pages that are fetched needs more than so many terms."""
    counts = np.unique(np.geomspace(1, 100_000, 41).astype(int))
    rows: list[Mapping[str, float]] = []
    for n_pages in settings.web_sizes:
        terms = []
        for seed in range(settings.n_webs):
            web = signals_paper_web(seed, n_pages, horizon=1.0)
            rates = from_recall(web.change_rate, web.recall[:, 0], web.false_rate[:, 0])
            best = continuous_optimum(rates, settings.fetch_budget, importance=web.importance)
            is_fetched = best.fetch_rate > 0
            ratio = best.effective_elapsed[is_fetched] / rates.signal_age()[is_fetched]
            terms.append(np.floor(ratio) + 1)
        n_terms = np.concatenate(terms)
        quantile = float(np.quantile(n_terms, 0.9))
        rows += [
            {
                "n_pages": n_pages,
                "n_terms": int(n),
                "share_needing_more": float((n_terms > n).mean()),
                "quantile_90": quantile,
            }
            for n in counts
        ]
    return rows


def measure(scale: Scale) -> dict[str, Table]:
    """Return values by elapsed time, and how many terms they have on the paper's webs."""
    settings = SETTINGS[scale]
    return {
        "values": Table.of(_value_rows(settings)),
        "terms": Table.of(_terms_rows(settings)),
    }


def _draw_page(panel: Axes, values: Table, name: str) -> None:
    elapsed = values.floats("effective_elapsed")
    for n, colour in zip(_N_TERMS, COLOURS, strict=False):
        label = f"{n} term{'s' * (n > 1)}"
        panel.plot(elapsed, values.floats(f"terms_{n}"), "--", color=colour, label=label)
    panel.plot(elapsed, values.floats("exact"), color="black", label="exact")
    panel.plot(
        elapsed, values.floats("renewal"), ":", color=OURS, lw=2.6, label="1 term, then a line"
    )
    panel.axhline(1.0, color="#888888", lw=1.0)
    age = values.floats("signal_age")[0]
    panel.set_title(f"{name.capitalize()}: one ages by {age:.2g}")
    panel.set_xlabel("effective elapsed time (mean times between changes)")
    panel.set_ylabel("value of a fetch")
    panel.set_ylim(0.0, 1.08)


def draw(tables: Tables) -> dict[str, Figure]:
    """Draw the two pages side by side, and how many terms pages have."""
    values, terms = tables["values"], tables["terms"]
    figure, axes = panels(3)
    for panel, name in zip(axes, values.distinct("page"), strict=False):
        _draw_page(panel, values.where(page=name), name)
    axes[0].legend(loc="lower right")
    panel = axes[2]
    for n_pages, colour in zip(terms.distinct("n_pages"), COLOURS, strict=False):
        rows = terms.where(n_pages=n_pages)
        share = rows.floats("share_needing_more")
        panel.plot(rows.floats("n_terms"), share, color=colour, label=f"{n_pages} pages")
    panel.set_xscale("log")
    panel.set_ylim(0.0, 1.0)
    panel.set_title("The paper's webs, at the optimum")
    panel.set_xlabel("terms kept")
    panel.set_ylabel("share of pages that have more")
    panel.legend()
    return {"": figure}


CLAIM = Claim(
    id="S-6",
    kind=Kind.FIGURE,
    paper="Signals",
    figures="fig. 6",
    title="value against the number of terms",
    says=(
        "An example of the value of a fetch, and its sum cut off after one, two or three terms; "
        "three are said to be enough, and all to have the same limit."
    ),
    measure=measure,
    draw=draw,
    captions={
        "": (
            "A page that changes once per unit of time.  Left, half of its changes are announced "
            "and .2 signals per unit are false; middle, three in ten are announced and 3 "
            "signals per unit are false, as for the paper's slow pages.  The grey line is the "
            "value at infinity.  Right, the "
            "share of pages whose value has more terms than are kept, at the thresholds of the "
            "continuous optimum of R = 100, among pages that are fetched."
        )
    },
    remark=(
        "The paper does not give its page.  Its figure's red line is said to be the limit of all "
        "curves; cut off after j terms the limit is (1 - (ν/(Δ+ν))^j)/Δ instead of 1/Δ.  "
        "Three terms are enough only where a signal is worth a good part of the threshold: the "
        "number of terms is not bounded.  One exact term and the line that the sum tends to are "
        "right everywhere and cost less."
    ),
)
