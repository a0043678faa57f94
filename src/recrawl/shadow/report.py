"""The report of a shadow: a few lines of text, and one self-contained HTML page."""

import numpy as np

from recrawl.backtest import Estimate
from recrawl.charts import (
    Axis,
    Card,
    Section,
    Series,
    bullets,
    cards,
    figure,
    html_page,
    line_chart,
    paragraph,
    table_html,
)
from recrawl.shadow.shadowing import LogCounts, ShadowReport, WeekResult
from recrawl.units import count_text, instant_text, number_text, share_text

__all__ = ["shadow_html", "shadow_lines"]

_KNOWN = (
    "Known from the log: which pages were fetched when, and between which two fetches a page "
    "changed.",
    "Estimated: when between two fetches a page changed, how often it did, and what recrawl would "
    "have found at other times.  A page that changes at random is assumed, with a rate that fits "
    "its own fetches and those of all pages.",
    "A page that changed and changed back between two fetches counts as unchanged, and pages that "
    "changed at almost every fetch may change more often than anybody can know from the log.",
)
_METHOD = (
    "The times of changes are drawn several times.  recrawl, with its default settings and without "
    "knowledge of the pages at the start, runs on each of these webs with as many fetches as the "
    "crawler made.",
    "A 95 % interval contains the error from the choice of hosts (of pages, if there are fewer "
    "than 40 hosts) and the error from the unknown times.  It is for one report: of twenty "
    "reports, one interval may miss the truth.  Do not stop at the first report you like.",
    "Politeness, failures, signals such as sitemaps and the duration of fetches are ignored on "
    "both sides.  Pages that were added or dropped during the period are left out.",
)


def _points(gain: Estimate) -> str:
    """Return a difference of shares in percentage points: "+6.8 points (4.1 to 9.5)"."""

    def with_sign(share: float) -> str:
        return f"{100 * share:+.1f}".replace("-", "−")

    if not gain.is_known:
        return "an unknown difference"
    return f"{with_sign(gain.value)} points ({with_sign(gain.low)} to {with_sign(gain.high)})"


def _share(estimate: Estimate) -> str:
    if not estimate.is_known:
        return share_text(estimate.value)
    low, high = max(estimate.low, 0.0), min(estimate.high, 1.0)
    return f"{share_text(estimate.value)} ({share_text(low)} to {share_text(high)})"


def _savings(savings: Estimate) -> str:
    if not savings.is_known:
        return "For the same freshness it needs a number of fetches that this log does not show."
    more = savings.value < 0
    amount, low, high = (share_text(abs(x)) for x in (savings.value, savings.low, savings.high))
    signs = ["fewer" if x >= 0 else "more" for x in (savings.low, savings.high)]
    word = "more" if more else "fewer"
    return (
        f"For the same freshness it would need {amount} {word} fetches ({low} {signs[0]} to "
        f"{high} {signs[1]})."
    )


def _verdict(report: ShadowReport) -> str:
    estimate = report.estimate
    if estimate is None:
        return "This log is too small to conclude from so far."
    if not estimate.gain.is_known:
        return "The difference is not known."
    if not estimate.is_difference_found:
        return "No difference between your crawler and recrawl is shown by this log."
    better = (
        "recrawl would have done better" if estimate.gain.low > 0 else "Your crawler did better"
    )
    return f"{better}: the interval excludes no difference."


def _counts(counts: LogCounts) -> list[str]:
    texts = []
    if counts.n_refused:
        texts.append(f"{count_text(counts.n_refused, 'line')} of the log were not valid rows.")
    if counts.n_future:
        texts.append(f"{count_text(counts.n_future, 'row')} in the future were refused.")
    if counts.n_long_lines:
        texts.append(f"{count_text(counts.n_long_lines, 'line')} were too long, and skipped.")
    if counts.n_rests_lost:
        times = count_text(counts.n_rests_lost, "time")
        texts.append(f"Unread rows were lost by rotation or deletion {times}.")
    return texts


def shadow_lines(report: ShadowReport) -> list[str]:
    """Return the report as a few paragraphs for a terminal."""
    period = f"up to {instant_text(report.until_ms)}"
    title = f"Week {report.name}, {period}." if report.name != "now" else f"Now, {period}."
    estimate = report.estimate
    if estimate is None:
        return [title, _verdict(report), *report.support.texts("refusal")]
    pages = count_text(estimate.n_pages, "page")
    return [
        f"{title}  {number_text(estimate.n_fetches)} fetches of {pages} since "
        f"{instant_text(estimate.start_ms)}.",
        f"Your crawler kept copies {_share(estimate.freshness)} fresh; with the same fetches "
        f"recrawl would have kept them {_share(estimate.freshness_of_ours)} fresh.",
        f"Difference: {_points(estimate.gain)}.  {_savings(estimate.savings)}",
        _verdict(report),
        *_counts(report.counts),
    ]


def shadow_html(report: ShadowReport, *, name: str, version: str = "") -> str:
    """Return the report as one HTML page.

    Parameters
    ----------
    report
        Report of a week.
    name
        Name of the log.
    version
        Version of recrawl.
    """
    lines = shadow_lines(report)
    sections = []
    if report.estimate is not None:
        sections.append(Section(heading="", body_html=_cards(report)))
    if len(report.weeks) > 1:
        body = figure(_weeks_svg(report.weeks), "Bands are 95 % intervals, each for one week.")
        sections.append(Section(heading="Week by week", body_html=body + _weeks_table(report)))
    support = report.support
    about = support.texts("refusal") + support.texts("caution") + support.texts("fact")
    if report.kept_share < 1:
        about.append(
            f"The log has too many pages to keep; about one in {round(1 / report.kept_share)} is "
            "kept, chosen by a hash of the URL."
        )
    sections += [
        Section(heading="About the log", body_html=bullets([*about, *_counts(report.counts)])),
        Section(heading="What is known, and what is estimated", body_html=bullets(_KNOWN)),
        Section(heading="Method and limits", body_html=bullets(_METHOD)),
    ]
    week = "now" if report.name == "now" else f"week {report.name}"
    return html_page(
        f"recrawl beside {name}, {week}",
        sections,
        lead="  ".join(lines),
        footer=f"recrawl {version}, up to {instant_text(report.until_ms)}",
    )


def _cards(report: ShadowReport) -> str:
    estimate = report.estimate
    assert estimate is not None

    def interval(of: Estimate) -> str:
        if not of.is_known:
            return "95 % interval unknown"
        return f"95 % interval: {share_text(of.low)} to {share_text(of.high)}"

    gain = estimate.gain
    return cards(
        [
            Card(
                value=share_text(estimate.freshness.value),
                label="fresh with your crawler",
                note=interval(estimate.freshness),
            ),
            Card(
                value=share_text(estimate.freshness_of_ours.value),
                label="fresh with recrawl and the same fetches",
                note=interval(estimate.freshness_of_ours),
            ),
            Card(
                value=f"{100 * gain.value:+.1f}".replace("-", "−"),
                label="percentage points of difference",
                note=_points(gain),
            ),
            Card(
                value=share_text(estimate.savings.value),
                label="fewer fetches for the same freshness",
                note=interval(estimate.savings),
            ),
        ]
    )


def _weeks_svg(weeks: tuple[WeekResult, ...]) -> str:
    x = np.array([week.end_ms for week in weeks], np.float64)

    def series(name: str, estimates: list[Estimate], *, is_main: bool = False) -> Series:
        return Series(
            name=name,
            x=x,
            y=np.array([e.value for e in estimates]),
            low=np.array([e.low for e in estimates]),
            high=np.array([e.high for e in estimates]),
            is_main=is_main,
        )

    return line_chart(
        [
            series("recrawl", [week.freshness_of_ours for week in weeks], is_main=True),
            series("your crawler", [week.freshness for week in weeks]),
        ],
        title="Freshness with the same fetches",
        x=Axis(label="end of the week", scale="time"),
        y=Axis(label="freshness", scale="share"),
    )


def _weeks_table(report: ShadowReport) -> str:
    rows = [
        [week.week, _share(week.freshness), _share(week.freshness_of_ours), _points(week.gain)]
        for week in reversed(report.weeks)
    ]
    return paragraph("Each row looks back on the weeks before, too.") + table_html(
        ["week", "your crawler", "recrawl", "difference"], rows
    )
