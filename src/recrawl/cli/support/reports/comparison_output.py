"""Options, tables and report that `backtest` and `simulate` share."""

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from recrawl.cli.support.output import Output

if TYPE_CHECKING:
    from recrawl.backtest import Comparison, Estimate

__all__ = [
    "check_report",
    "comparison_options",
    "progress_shares",
    "show_comparison",
    "write_report",
]

_F = TypeVar("_F", bound=Callable[..., Any])
_DAY = 86_400.0
# More columns do not fit a terminal of 80 characters; the report has all levels.
_LEVELS_SHOWN_MAX = 4


def comparison_options(report: str) -> Callable[[_F], _F]:
    """Return a decorator that passes a command ``policy_names``, ``report`` and ``seed``.

    Parameters
    ----------
    report
        Default path of the report.
    """
    options = (
        click.option(
            "--policy",
            "policy_names",
            multiple=True,
            metavar="MODULE:CLASS",
            help="Also run your own policy, a Python class (see `recrawl bench --help`).  May be "
            "repeated.",
        ),
        click.option(
            "-o",
            "--output",
            "--report",
            "report",
            type=click.Path(path_type=Path, dir_okay=False),
            default=report,
            show_default=True,
            metavar="FILE",
            help="HTML file to write the report to.",
        ),
        click.option(
            "--seed",
            type=click.IntRange(0, 2**31),
            default=0,
            show_default=True,
            metavar="N",
            help="Random seed.",
        ),
    )

    def with_options(function: _F) -> _F:
        # click lists options in the reverse of the order in which they are applied.
        for option in reversed(options):
            function = option(function)
        return function

    return with_options


def check_report(report: Path) -> None:
    """Raise a usage error if the report cannot be written, before the long work begins."""
    folder = report.parent
    if not folder.is_dir():
        raise click.BadParameter(f"there is no folder {folder}.", param_hint="--output")
    if not os.access(report if report.exists() else folder, os.W_OK):
        raise click.BadParameter(f"{report} cannot be written.", param_hint="--output")


def write_report(report: Path, page: str, out: Output) -> None:
    """Write the report file and print its path."""
    try:
        report.write_text(page, encoding="utf-8")
    except OSError as error:
        raise click.FileError(str(report), error.strerror or str(error)) from error
    out.say()
    out.say(f"The full report is in {report}.")
    out.row({"what": "report", "path": str(report)})


def progress_shares(advance: Callable[[float], None]) -> Callable[[str, float], None]:
    """Return a callback that moves a progress bar to the given share of the work."""
    before = 0.0

    def on_progress(_name: str, share: float) -> None:
        nonlocal before
        advance(share - before)
        before = share

    return on_progress


def _interval(estimate: "Estimate") -> dict[str, float]:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}


def show_comparison(comparison: "Comparison", out: Output) -> None:
    """Print the headline, and a table of the fetches that each policy needs for each freshness."""
    import numpy as np  # noqa: PLC0415

    from recrawl.backtest import OURS, headline  # noqa: PLC0415
    from recrawl.units import number_text, share_text  # noqa: PLC0415

    days = comparison.seconds / _DAY
    out.say(headline(comparison), style="bold")
    logged = comparison.logged
    if logged is not None:
        out.row(
            {
                "what": "logged",
                "n_fetches": logged.n_fetches,
                "freshness": logged.freshness,
                "n_fetches_needed": _interval(logged.needed),
                "savings": _interval(logged.savings),
            }
        )
    for level in comparison.levels:
        out.row(
            {
                "what": "level",
                "freshness": level.freshness,
                "fetches_per_day": {n: e.value / days for n, e in level.n_fetches.items()},
                "savings": {n: _interval(e) for n, e in level.savings.items()},
                "savings_against_best": _interval(level.savings_against_best),
            }
        )
    levels = comparison.known_levels
    if not levels:
        return

    def cell(level: Any, name: str) -> str:
        needed = level.n_fetches[name].value / days
        if math.isnan(needed):
            return "–"
        text = number_text(float(f"{needed:.3g}"))
        saved = level.savings.get(name)
        if saved is None or not saved.is_known:
            return text
        percent = f"{abs(100 * saved.value):.0f}"
        sign = "±" if percent == "0" else "−" if saved.value > 0 else "+"
        return f"{text} {sign}{percent}%"

    if len(levels) > _LEVELS_SHOWN_MAX:
        chosen = np.linspace(0, len(levels) - 1, _LEVELS_SHOWN_MAX).round().astype(int)
        levels = [levels[i] for i in chosen]
    names = [OURS, *(curves.name for curves in comparison.curves[1:])]
    out.table(
        ("fetches per day", *(f"{share_text(level.freshness)} fresh" for level in levels)),
        [(name, *(cell(level, name) for level in levels)) for name in names],
    )
    out.say(
        "Each column: fetches per day that a policy needs to keep that share of copies fresh.  "
        "The percentage says how many fewer (−) or more (+) recrawl needs; it is missing where "
        "the log is too short to tell, and – means that the policy does not get there.",
        style="dim",
    )
