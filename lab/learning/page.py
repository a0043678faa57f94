"""The page about what learning buys, every number of which stands in a file of the lab."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lab.learning.levels import LEVELS, WEBS
from lab.learning.plan import RESULTS
from lab.learning.summary import STANDARD_ERRORS
from lab.running import FIGURES
from lab.tables import Table, markdown_table, read_tables

__all__ = ["PAGE", "learning_markdown"]

PAGE = FIGURES.parent / "learning.md"

Row = Mapping[str, str]


def _rows(table: Table, **wanted: str) -> list[Row]:
    chosen = table.where(**wanted)
    return [dict(zip(chosen.names, row, strict=True)) for row in chosen.rows]


def _lines(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(markdown_table(heads, rows))


def _place(row: Row) -> str:
    return f"{WEBS[row['web']].title}, {row['fetches_per_hour']}/h"


def _share(row: Row, window: str) -> str:
    if not row[f"{window}_ratio"]:
        return f"{float(row[f'{window}_freshness']):.4f}"
    error = float(row[f"{window}_ratio_error"])
    return f"{float(row[f'{window}_ratio']):.4f} ± {error:.4f}"


def _gain(row: Row, window: str) -> str:
    mean, low, high = (float(row[f"{window}_{name}"]) for name in ("points", "low", "high"))
    text = f"{mean:+.2f} ({low:+.2f} to {high:+.2f})"
    return f"**{text}**" if low > 0 or high < 0 else text


def _span(row: Row, window: str) -> str:
    return f"{row[f'{window}_from_h']}–{row[f'{window}_until_h']} h"


def _reached(summary: Table) -> str:
    rows = [row for row in _rows(summary) if row["level"] != "oracle" and row["late_ratio"]]
    return _lines(
        ("web, fetches", "at once", "level", "first 2000 h", "last quarter", "that is"),
        (
            (
                _place(row),
                row["fetches_per_pick"],
                LEVELS[row["level"]].title,
                _share(row, "first"),
                _share(row, "late"),
                _span(row, "late"),
            )
            for row in rows
        ),
    )


def _bought(steps: Table, part: str) -> str:
    return _lines(
        ("what", "web, fetches", "first 2000 h", "last quarter"),
        (
            (row["step"], _place(row), _gain(row, "first"), _gain(row, "late"))
            for row in _rows(steps, part=part)
        ),
    )


def _checked(checks: Table) -> str:
    return _lines(("what", "found", "wanted", "holds"), checks.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finding:
    """A sentence with a gain in each pair of braces, and the sign that each must have.

    Gains are (part, step, web, fetches per hour, window); the sign is ``+`` or ``-`` where the
    interval must not hold 0, ``0`` where it must.
    """

    says: str
    gains: tuple[tuple[str, str, str, int, str, str], ...]


def _sign(row: Row, window: str) -> str:
    if float(row[f"{window}_low"]) > 0:
        return "+"
    return "-" if float(row[f"{window}_high"]) < 0 else "0"


def _sentence(steps: Table, finding: _Finding) -> str:
    said = []
    for part, step, web, per_hour, window, wanted in finding.gains:
        wants = {"part": part, "step": step, "web": web, "fetches_per_hour": str(per_hour)}
        (row,) = _rows(steps, **wants)
        if _sign(row, window) != wanted:
            raise ValueError(f"{step} on {web} is no longer {wanted!r}: {_gain(row, window)}")
        said.append(_gain(row, window).strip("*"))
    return "* " + finding.says.format(*said)


_AVERAGED = "averaged instead of plug-in"
_TEACHING = "paying for what polls teach"
_REMEMBERING = "learning how long to remember"
_FADING = "sources forget after 200 signals, not 4000"

_FINDINGS: tuple[_Finding, ...] = (
    _Finding(
        says="The averaged value and the pooled prior need each other. With the broad prior the "
        "averaged value buys nothing at 2 fetches an hour ({}), and pooling the prior of a plug-in "
        "value costs ({}, last quarter); with a pooled prior the averaged value buys {}.",
        gains=(
            ("rates", f"{_AVERAGED}, fixed prior", "plain", 2, "late", "0"),
            ("rates", "pooled prior, plug-in", "plain", 2, "late", "-"),
            ("rates", f"{_AVERAGED}, pooled prior", "plain", 2, "late", "+"),
        ),
    ),
    _Finding(
        says="Paying for what polls teach is an investment: at 2 fetches an hour {} in the first "
        "2000 h and {} in the last quarter, when the curve still rises.",
        gains=(
            ("rates", _TEACHING, "plain", 2, "first", "0"),
            ("rates", _TEACHING, "plain", 2, "late", "+"),
        ),
    ),
    _Finding(
        says="Heeding signals of unknown quality buys {} at 3 fetches an hour, of which learning "
        "how far to trust each source is {}; being told it adds {}.",
        gains=(
            ("signals", "heeding signals", "signalled", 3, "late", "+"),
            ("signals", "learning their precision", "signalled", 3, "late", "+"),
            ("signals", "being told their precision", "signalled", 3, "late", "0"),
        ),
    ),
    _Finding(
        says="With signals no gain of the averaged value over the plug-in ({}) or of paying for "
        "what polls teach ({}) is seen at 3 fetches an hour.",
        gains=(
            ("signals", f"{_AVERAGED}, pooled prior", "signalled", 3, "late", "0"),
            ("signals", _TEACHING, "signalled", 3, "late", "0"),
        ),
    ),
    _Finding(
        says="Learning how long to remember costs nothing that is seen where rates are steady "
        "({}) or drift slowly ({}). Where changes come in bursts it buys {} at 20 fetches an hour, "
        "and nothing that is seen at 5, with which most pages are not seen twice in a burst ({}). "
        "A half-life of 14 days costs {} where rates are steady and {} where they drift.",
        gains=(
            ("forgetting", _REMEMBERING, "plain", 5, "late", "0"),
            ("forgetting", _REMEMBERING, "drifting", 5, "late", "0"),
            ("forgetting", _REMEMBERING, "bursty", 20, "late", "+"),
            ("forgetting", _REMEMBERING, "bursty", 5, "late", "0"),
            ("forgetting", "half-life of 14 days", "plain", 5, "late", "-"),
            ("forgetting", "half-life of 14 days", "drifting", 5, "late", "-"),
        ),
    ),
    _Finding(
        says="Audits are there to measure. A tenth of fetches costs {} with signals that stay "
        "what they are, and no gain is seen where half of the sources fall silent ({}) or begin "
        "to lie ({}). Shipped is none.",
        gains=(
            ("audits", "auditing with 10 % of fetches", "signalled", 3, "late", "-"),
            ("audits", "auditing with 10 % of fetches", "silenced", 3, "late", "0"),
            ("audits", "auditing with 10 % of fetches", "lying", 3, "late", "-"),
        ),
    ),
    _Finding(
        says="What is known of a source counts for 200 signals at most in these runs (today 1000, "
        "and a shift is noticed earlier: see "
        "{{doc}}`../explanation/signals`). Against 4000 that buys "
        "{} in the first 2000 h and {} in the last quarter where sources begin to lie, and {} in "
        "the last quarter where they stay what they are.",
        gains=(
            ("audits", _FADING, "lying", 3, "first", "+"),
            ("audits", _FADING, "lying", 3, "late", "+"),
            ("audits", _FADING, "signalled", 3, "late", "0"),
        ),
    ),
)


def _findings(steps: Table) -> str:
    """Return what to read from the tables; an error if they no longer say so."""
    return "\n".join(_sentence(steps, finding) for finding in _FINDINGS)


def learning_markdown() -> str:
    """Return the page, from the numbers that are kept."""
    tables = read_tables(RESULTS)
    runs, summary, steps = tables["runs"], tables["summary"], tables["steps"]
    n_webs = summary.texts("webs")[0]
    knows = "; ".join(
        f"{kind.title}: {kind.oracle_knows}" for kind in WEBS.values() if kind.oracle_knows
    )
    return f"""# What learning buys

<!-- Made by `python -m lab learning --full`; edit lab/learning/page.py instead. -->

The shipped shard is put before webs of which it knows nothing but importance, and compared with
an oracle and with itself, one part of its learning left out at a time.

    python -m lab learning --full

makes this page from {len(runs)} runs, {n_webs} webs each (`lab/results/learning/runs.csv`);
`--quick` takes seconds and shows only that it works.

Webs without signals have 500 pages with Poisson changes at log-normal rates (median .01 an hour,
sigma 1.8) and Zipf importance; webs with signals have 300 pages on 15 hosts, 70 % of which signal,
with recall .2 to .98 and precision .1 to .95. What the oracle knows, by web:
{knows}.
All levels see the same changes and signals. Freshness is weighted by importance; the *last quarter*
of a run counts as its steady state. Fetches are asked for one at a time, or several at once, an
hour apart at most, which the column *at once* says.

Levels are settings of the shard. Three have no setting: a *fixed prior* is an owner who never asks
for `Shard.learn_priors`, *signals ignored* one who tells of none, and *precision told* one who sets
every source's true precision. The prior that is fixed is the shipped one, broad and for pages that
change far more seldom than those of these webs.

## How near to an oracle

Freshness as a share of the oracle's, mean and standard error over webs.

{_reached(summary)}

![Freshness as a share of the oracle's over time, one line per level](figures/learning-curves.svg)

### Against earlier measurements

The first rows are what the shard reached when it was built; it must be within
{STANDARD_ERRORS:g} standard errors of that. The others are what a prototype that had the averaged
value alone, and began with the true prior, reached in steady state: no less than that, within
{STANDARD_ERRORS:g} standard errors.

{_checked(tables["checks"])}

## What each part buys

Points of freshness (hundredths), paired by web, with an interval of 95 %; bold where it does not
hold 0. The sentences speak of the last quarter unless they say otherwise. Of {2 * len(steps)} such
intervals about {round(0.1 * len(steps))} miss the truth by chance.

{_findings(steps)}

### Rates

{_bought(steps, "rates")}

### Signals

{_bought(steps, "signals")}

![Points of freshness with intervals, for rates and for signals](figures/learning-gains.svg)

### Forgetting

Evidence about a page counts half after the half-life, 730 days as shipped, or after so many changes
as the shard has learned to remember, 200 at most ({{doc}}`../explanation/belief`). On drifting webs
the logarithm of each rate wanders with a standard deviation of .7 and a correlation time of 90
days; on bursty ones of 1.5 and 3 days.

{_bought(steps, "forgetting")}

### Audits

A share of fetches goes to pages chosen by hash, which measures what is claimed; shipped is none.
Where sources turn, those of every second host do after a quarter of the time: they fall silent, or
tell ten lies for every signal before.

{_bought(steps, "audits")}

![Points of freshness with intervals, for forgetting and audits](figures/learning-upkeep.svg)
"""
