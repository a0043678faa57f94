"""The report of a backtest or a simulation: one self-contained HTML page."""

import math

import numpy as np
import pyarrow as pa

from recrawl.backtest.backtesting import Backtest
from recrawl.backtest.comparison import Comparison, FreshnessLevel, PageExample
from recrawl.backtest.policy_runs import OURS
from recrawl.backtest.savings import Estimate, better_points, fetches_along
from recrawl.charts import (
    Axis,
    Card,
    Lane,
    Note,
    Section,
    Series,
    bullets,
    cards,
    code,
    figure,
    html_page,
    line_chart,
    paragraph,
    table_html,
    timeline,
)
from recrawl.units import count_text, instant_text, number_text, seconds_text, share_text

__all__ = [
    "backtest_html",
    "comparison_sections",
    "curves_svg",
    "headline",
    "savings_text",
    "simulation_html",
]

_DAY = 86_400.0
_NO_BREAK = "\u00a0"


def _per_day(n_fetches: float, comparison: Comparison) -> float:
    return n_fetches / (comparison.seconds / _DAY)


def savings_text(savings: Estimate) -> str:
    """Return savings and their interval in words: "38 % fewer fetches (31 to 44 %)".

    Examples
    --------
    >>> savings_text(Estimate(value=0.381, low=0.312, high=0.443))
    '38 % fewer fetches (31 to 44 %)'
    >>> savings_text(Estimate(value=-0.12, low=-0.2, high=0.03))
    '12 % more fetches (20 % more to 3 % fewer)'
    >>> savings_text(Estimate(value=-0.58, low=-1.039, high=-0.44))
    '58 % more fetches (44 to 104 %)'
    """
    if not savings.is_known:
        return "an unknown number of fetches"

    def amount(share: float) -> str:
        # share_text adds digits near 0 and 100 %; shares here may exceed 100 %.
        return share_text(share) if share < 0.9 else f"{100 * share:.0f} %"

    def side(share: float) -> str:
        return f"{amount(abs(share))} {'fewer' if share >= 0 else 'more'}"

    if (savings.low >= 0) == (savings.high >= 0) == (savings.value >= 0):
        low, high = sorted((abs(savings.low), abs(savings.high)))
        interval = f"{amount(low).removesuffix(' %')} to {amount(high)}"
    else:
        interval = f"{side(savings.low)} to {side(savings.high)}"
    return f"{side(savings.value)} fetches ({interval})"


def headline(comparison: Comparison) -> str:
    """Return the result of a comparison in a sentence or two."""
    texts = []
    own = comparison.logged
    if own is not None and own.savings.is_known:
        texts.append(
            f"The fetches of this log kept pages {share_text(own.freshness)} fresh; recrawl needs "
            f"{savings_text(own.savings)} for the same freshness."
        )
    known = comparison.known_levels
    if len(known) == 1:
        texts.append(
            f"For {share_text(known[0].freshness)} freshness, recrawl needs "
            f"{savings_text(known[0].savings_against_best)} than the best rule in use."
        )
    elif known:
        low, high = known[0], known[-1]
        texts.append(
            f"Compared with the best rule in use, recrawl needs "
            f"{savings_text(low.savings_against_best)} for {share_text(low.freshness)} freshness, "
            f"and {savings_text(high.savings_against_best)} for {share_text(high.freshness)}."
        )
    if not texts:
        texts.append("The policies reached no common freshness, so savings are unknown.")
    return "  ".join(texts)


def curves_svg(comparison: Comparison, *, width: int = 860, height: int = 460) -> str:
    """Return a chart of freshness against fetches per day, with a line for each policy."""
    low, high = (float(b) * _DAY for b in (comparison.budgets[0], comparison.budgets[-1]))
    series = []
    for curves in comparison.curves:
        n_fetches, y = better_points(curves)
        x = n_fetches / (comparison.seconds / _DAY)
        inside = (x >= low / 1.3) & (x <= high * 1.3)
        is_ours = curves.name == OURS
        band = {}
        if is_ours:
            edges = np.quantile(curves.freshness[1:], [0.025, 0.975], axis=0)
            order = np.argsort(curves.n_fetches[0], kind="stable")
            if order.size == x.size:
                band = {"low": edges[0][order][inside], "high": edges[1][order][inside]}
        series.append(
            Series(
                name=curves.name,
                x=x[inside],
                y=y[inside],
                is_main=is_ours,
                style="dashed" if curves.is_tuned else "line",
                **band,
            )
        )
    notes = []
    own = comparison.logged
    if own is not None:
        notes.append(Note(text="as logged", x=_per_day(own.n_fetches, comparison), y=own.freshness))
    return line_chart(
        series,
        title="Freshness against fetches",
        x=Axis(label="fetches per day", scale="log"),
        y=Axis(label="freshness", scale="share"),
        notes=notes,
        width=width,
        height=height,
    )


def relative_fetches_svg(comparison: Comparison, *, width: int = 860, height: int = 380) -> str:
    """Return a chart of each policy's fetches as a multiple of recrawl's, by freshness."""
    reached = comparison.ours.freshness[0]
    low, high = (max(1 - edge, 1e-6) for edge in (reached.min(), reached.max()))
    grid = 1 - np.geomspace(low, high, 60)
    ours = fetches_along(comparison.ours, grid)
    series = [Series(name=OURS, x=grid, y=np.ones(grid.size), is_main=True)]
    series += [
        Series(
            name=curves.name,
            x=grid,
            y=fetches_along(curves, grid) / ours,
            style="dashed" if curves.is_tuned else "line",
        )
        for curves in comparison.curves[1:]
    ]
    return line_chart(
        series,
        title="Fetches for the same freshness, relative to recrawl",
        x=Axis(label="freshness", scale="share"),
        y=Axis(label="multiple of recrawl's fetches", low=0.0),
        width=width,
        height=height,
    )


def _cards(comparison: Comparison) -> str:
    shown = []
    own = comparison.logged
    if own is not None and own.savings.is_known:
        label = f"fetches for the freshness of the log ({share_text(own.freshness)})"
        shown.append(_savings_card(own.savings, label))
    level = comparison.main_level
    if level is not None:
        label = f"fetches for {share_text(level.freshness)} freshness, against the best rule in use"
        shown.append(_savings_card(level.savings_against_best, label))
        fixed = level.savings.get("fixed interval")
        if fixed is not None and fixed.is_known:
            shown.append(_savings_card(fixed, "fetches, against a fixed interval for all pages"))
    changes = count_text(comparison.n_changes, "change")
    shown.append(
        Card(
            value=number_text(comparison.n_pages),
            label="pages replayed",
            note=f"{seconds_text(comparison.seconds)}, {changes}",
        )
    )
    return cards(shown)


def _savings_card(savings: Estimate, label: str) -> Card:
    sign = "−" if savings.value >= 0 else "+"
    low, high = sorted((-savings.high, -savings.low))
    note = f"95 % interval: {_signed_share(low)} to {_signed_share(high)}"
    return Card(value=f"{sign}{share_text(abs(savings.value))}", label=label, note=note)


def _signed_share(share: float) -> str:
    return f"{'−' if share < 0 else '+'}{share_text(abs(share))}"


def _savings_table(comparison: Comparison) -> str:
    levels = comparison.known_levels
    if not levels:
        return paragraph("recrawl and the other policies reached no common freshness.")
    columns = ["fetches per day for a freshness of"]
    columns += [share_text(level.freshness) for level in levels]
    rows = [
        [curves.name, *(_needed_text(level, curves.name, comparison) for level in levels)]
        for curves in comparison.curves
    ]
    needed = table_html(columns, rows, main_row=0)
    saved = [
        [curves.name, *(_savings_cell(level.savings.get(curves.name)) for level in levels)]
        for curves in comparison.curves[1:]
    ]
    saved.append(
        ["the best of these", *(_savings_cell(level.savings_against_best) for level in levels)]
    )
    columns[0] = "fetches that recrawl saves against"
    return needed + table_html(columns, saved, main_row=len(saved) - 1)


def _needed_text(level: FreshnessLevel, name: str, comparison: Comparison) -> str | None:
    needed = level.n_fetches.get(name)
    if needed is None or not math.isfinite(needed.value):
        return None
    return number_text(float(f"{_per_day(needed.value, comparison):.3g}"))


def _savings_cell(savings: Estimate | None) -> str | None:
    if savings is None or not savings.is_known:
        return None
    value, low, high = (100 * x for x in (savings.value, savings.low, savings.high))
    return f"{value:.0f} % ({low:.0f} to {high:.0f})".replace(" ", _NO_BREAK)


def _example_svg(example: PageExample, name: str, start_ms: int, end_ms: int) -> str:
    def lane(title: str, at: np.ndarray, changed: np.ndarray | None) -> Lane:
        what = (
            ["changed"] * at.size
            if changed is None
            else ["changed" if is_changed else "poll" for is_changed in changed]
        )
        return Lane(name=title, at_ms=(start_ms + 1000 * at).astype(np.int64), what=what)

    ours, rival = example.ours, example.rival
    return timeline(
        [
            lane("changes of the page", example.changed_at, None),
            lane(f"recrawl ({ours.at.size})", ours.at, ours.changed),
            lane(f"{example.rival_name} ({rival.at.size})", rival.at, rival.changed),
        ],
        title=name,
        start_ms=start_ms,
        end_ms=end_ms,
    )


def comparison_sections(
    comparison: Comparison, urls: pa.StringArray | None, start_ms: int
) -> list[Section]:
    """Return the report sections that backtests and simulations share."""
    caption = (
        "Each point is a run over the whole period.  Rules run on a clock that is slower or faster "
        "by a factor, which sets the number of their fetches.  Dashed lines use the best of many "
        "settings for each budget, which nobody can know beforehand.  The band is the 95 % "
        "interval of recrawl's line for other pages of the same kind."
    )
    sections = [
        Section(
            heading="",
            body_html=_cards(comparison)
            + figure(curves_svg(comparison), caption)
            + figure(relative_fetches_svg(comparison)),
        ),
        Section(
            heading="Savings",
            body_html=paragraph(
                "The fetches that each policy needs for a freshness, and the share of them that "
                "recrawl saves, with its 95 % interval.  A dash means that no run of the policy "
                "reached that freshness."
            )
            + _savings_table(comparison),
        ),
    ]
    if comparison.examples:
        end_ms = start_ms + round(1000 * comparison.seconds)
        level = comparison.main_level
        at = f" at {share_text(level.freshness)} freshness overall" if level is not None else ""
        body = paragraph(
            f"When some pages changed and when they were fetched{at}, with the same total number "
            "of fetches.  recrawl spends fewer fetches on pages that hardly change, and more on "
            "pages that change at a rate it can keep up with."
        )
        for example in comparison.examples:
            name = urls[example.page].as_py() if urls is not None else f"page {example.page}"
            body += figure(_example_svg(example, name, start_ms, end_ms))
        sections.append(Section(heading="Some pages", body_html=body))
    return sections


_METHOD = (
    "Freshness is the share of time during which a copy equals its page, averaged over pages.  "
    "Pages are weighted by their importance if the log has it.",
    "All policies start with a copy of every page and are measured from then on.  recrawl starts "
    "without knowledge of the pages, so the cost of learning is included.",
    "recrawl is the released scheduler with its default settings, on simulated time.  It gets its "
    "fetches in batches; rules fetch each page exactly when its wait is over.",
    "Between two points of a curve, the log of fetches is interpolated linearly in the log of the "
    "stale share.",
    "Intervals are from a bootstrap with 400 samples: of whole sites if there are 40 or more, "
    "otherwise of single pages.",
)
_LIMITS = (
    "Politeness, failures and the duration of fetches are ignored for all policies.",
    "No policy gets signals such as sitemaps, feeds or pings, which recrawl would use.",
    "Pages that were added or removed during the period are not replayed.",
    "The replay knows only what the log shows: a page that changed and changed back between two "
    "fetches counts as unchanged.",
)


def backtest_html(backtest: Backtest, *, name: str, command: str = "", version: str = "") -> str:
    """Return the report of a backtest as one HTML page.

    Parameters
    ----------
    backtest
        Result of the backtest.
    name
        Name of the log.
    command
        Command line that repeats the backtest.
    version
        Version of recrawl.
    """
    support = backtest.support
    findings = bullets(support.texts("refusal") + support.texts("caution") + support.texts("fact"))
    comparison = backtest.comparison
    if comparison is None:
        sections = [Section(heading="Not enough data", body_html=findings)]
        return html_page(
            f"Backtest of {name}", sections, lead="This log is too small to compare policies on."
        )
    replay = backtest.replay
    urls = backtest.history.urls.take(pa.array(replay.pages))
    sections = comparison_sections(comparison, urls, replay.start_ms)
    cautions = support.texts("caution")
    body = paragraph("Cautions:") + bullets(cautions) if cautions else ""
    sections.append(
        Section(
            heading="About the log",
            body_html=body + bullets(support.texts("fact")),
        )
    )
    sections.append(_method(command))
    span = f"{instant_text(replay.start_ms)} to {instant_text(replay.end_ms)}"
    return html_page(
        f"Backtest of {name}",
        sections,
        lead=headline(comparison),
        footer=f"recrawl {version}, from {span}".replace("recrawl ,", "recrawl,"),
    )


def _method(command: str) -> Section:
    body = bullets(_METHOD) + paragraph("Limits:") + bullets(_LIMITS)
    if command:
        body += paragraph("To repeat this report, run:") + code(command)
    return Section(heading="Method and limits", body_html=body)


def simulation_html(
    comparison: Comparison, *, name: str, about: str, command: str = "", version: str = ""
) -> str:
    """Return the report of a simulation as one HTML page.

    Parameters
    ----------
    comparison
        Result of the simulation.
    name, about
        Name of the web, and a sentence that describes it.
    command
        Command line that repeats the simulation.
    version
        Version of recrawl.
    """
    sections = comparison_sections(comparison, None, 0)
    sections.append(Section(heading="The web", body_html=paragraph(about)))
    sections.append(_method(command))
    return html_page(
        f"Simulation of {name}",
        sections,
        lead=headline(comparison),
        footer=f"recrawl {version}",
    )
