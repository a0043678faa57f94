"""``recrawl backtest``: what could have been saved, from the log of a crawl that was."""

import math
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recrawl.cli.corpora import checked_arguments
from recrawl.cli.examples import Example, example_command
from recrawl.cli.kernels import require_compiled
from recrawl.cli.policies import named_policies
from recrawl.cli.presenting import ANSWERED_NO, Output, output_option
from recrawl.cli.sources import say_refused

if TYPE_CHECKING:
    from recrawl.backtest import Backtest, Comparison, Estimate
    from recrawl.readers import Source

__all__ = [
    "check_report",
    "command",
    "prepare_compiled",
    "progress_shares",
    "show_comparison",
    "write_report",
]

_DAY = 86_400.0
# More do not fit a terminal of 80 columns; the report has all.
_LEVELS_SHOWN_MAX = 4


@example_command(
    "backtest",
    examples=(
        Example("recrawl backtest crawl-log.jsonl", needs_corpus=False),
        Example("recrawl backtest . --path 'docs/**/*.md'", "a git repository", is_run=False),
        Example(
            "recrawl backtest crawls.parquet --column at=ts --column changed=text_changed",
            "columns with other names",
            is_run=False,
        ),
        Example("recrawl backtest captures.cdx.gz --report saved.html", is_run=False),
    ),
    short_help="What could have been saved, from the log of a crawl.",
)
@click.argument("log", type=click.Path(path_type=Path, exists=True))
@click.option("--format", "format_name", metavar="NAME", help="Guessed unless given.")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="OURS=THEIRS",
    help="A column's name in this log: url, at, digest, changed, status, importance.",
)
@click.option("--path", "paths", multiple=True, metavar="GLOB", help="Files of a repository.")
@click.option(
    "--policy",
    "policy_names",
    multiple=True,
    metavar="MODULE:CLASS",
    help="A policy of your own among the rivals.",
)
@click.option(
    "--pages",
    "n_pages_max",
    type=click.IntRange(20, 200_000),
    default=20_000,
    show_default=True,
    help="Of more pages so many stand for all.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    default="backtest.html",
    show_default=True,
    help="Where the report is written.",
)
@click.option("--seed", type=click.IntRange(0, 2**31), default=0, help="Decides all that is drawn.")
@output_option
def command(
    log: Path,
    format_name: str | None,
    columns: tuple[str, ...],
    paths: tuple[str, ...],
    policy_names: tuple[str, ...],
    n_pages_max: int,
    report: Path,
    seed: int,
    out: Output,
) -> None:
    """Replay the log of a crawl under recrawl and under the rules that crawlers use today.

    LOG is a crawl log (JSON lines, CSV, Parquet: url, at, digest or changed), CDX or CDXJ, a git
    repository, or a folder in the format of Kolobov et al.  The answer is how many fetches would
    have done for the same freshness, with an interval, and a report with pictures.  Ends with 3 if
    the log is too thin to judge by.
    """
    check_report(report)
    prepare_compiled("backtest")
    policies = named_policies(policy_names)
    from recrawl import __version__  # noqa: PLC0415
    from recrawl.backtest import backtest_html, backtested, history_of  # noqa: PLC0415
    from recrawl.readers import open_source  # noqa: PLC0415

    source = open_source(log, format=format_name, columns=_renamed(columns), paths=paths)
    if source.kind == "listed":
        raise click.UsageError(
            f"{log} is a list of pages ({source.format}), not a log of fetches or changes."
        )
    with out.progress(f"reading {log.name}", source.n_bytes, unit="bytes") as advance:
        history = history_of(_Metered(source, advance), n_pages_max=n_pages_max)
    say_refused(source, log.name, out)
    with out.progress("replaying", 1.0) as advance:
        backtest = backtested(
            history, policies=policies, seed=seed, progress=progress_shares(advance)
        )
    if backtest.comparison is None:
        _refuse(backtest, out)
    typed = shlex.join(["recrawl", *sys.argv[1:]])
    name = log.resolve().name
    page = backtest_html(backtest, name=name, command=typed, version=__version__)
    assert backtest.comparison is not None
    for text in backtest.support.texts("fact"):
        out.say(text)
    for text in backtest.support.texts("caution"):
        out.say(f"But: {text}", style="yellow")
    out.say()
    show_comparison(backtest.comparison, out)
    write_report(report, page, out)


def check_report(report: Path) -> None:
    """Refuse a report that could not be written, before the work and not after it."""
    folder = report.parent
    if not folder.is_dir() or not os.access(report if report.exists() else folder, os.W_OK):
        raise click.BadParameter(f"{report} cannot be written", param_hint="--report")


def write_report(report: Path, page: str, out: Output) -> None:
    """Write the report and say where it is; what came out was said before."""
    try:
        report.write_text(page, encoding="utf-8")
    except OSError as error:
        raise click.FileError(str(report), error.strerror or str(error)) from error
    out.say()
    out.say(f"The report is in {report}.")
    out.row({"what": "report", "path": str(report)})


def prepare_compiled(command: str) -> None:
    """Have kernels compiled, unless they are made already in this process."""
    if "recrawl.core._kernel" not in sys.modules:
        with checked_arguments():
            require_compiled(command)


def _renamed(columns: tuple[str, ...]) -> Mapping[str, str]:
    found = {}
    for each in columns:
        ours, equals, theirs = each.partition("=")
        if not (ours and equals and theirs):
            raise click.BadParameter(f"must be OURS=THEIRS, got {each!r}", param_hint="--column")
        found[ours] = theirs
    return found


class _Metered:
    """A source that tells how far it was read."""

    def __init__(self, source: "Source", advance: Callable[[float], None]) -> None:
        self._source = source
        self._advance = advance
        self.kind = source.kind

    def batches(self) -> Any:
        before = 0
        for batch in self._source.batches():
            yield batch
            read = self._source.n_bytes_read
            self._advance(read - before)
            before = read

    def windows(self) -> Any:
        return self._source.windows()


def progress_shares(advance: Callable[[float], None]) -> Callable[[str, float], None]:
    """Return what turns shares done into advances of a progress bar."""
    before = 0.0

    def told(_name: str, share: float) -> None:
        nonlocal before
        advance(share - before)
        before = share

    return told


def _refuse(backtest: "Backtest", out: Output) -> None:
    texts = backtest.support.texts("refusal")
    out.row({"what": "refused", "reasons": texts})
    out.say("This log is too thin to judge by.", style="bold")
    for text in texts + backtest.support.texts("fact") + backtest.support.texts("caution"):
        out.say(f"- {text}")
    click.get_current_context().exit(ANSWERED_NO)


def _interval(estimate: "Estimate") -> dict[str, float]:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}


def show_comparison(comparison: "Comparison", out: Output) -> None:
    """Write what came out: a sentence, and what each policy needs for each freshness."""
    import numpy as np  # noqa: PLC0415

    from recrawl.amounts import number_text, share_text  # noqa: PLC0415
    from recrawl.backtest import OURS, headline  # noqa: PLC0415

    days = comparison.seconds / _DAY
    out.say(headline(comparison), style="bold")
    own = comparison.logged
    if own is not None:
        out.row(
            {
                "what": "logged",
                "n_fetches": own.n_fetches,
                "freshness": own.freshness,
                "n_fetches_needed": _interval(own.needed),
                "savings": _interval(own.savings),
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
    levels = [level for level in comparison.levels if level.savings_against_best.is_known]
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
        return f"{text} {'−' if saved.value >= 0 else '+'}{abs(100 * saved.value):.0f}%"

    if len(levels) > _LEVELS_SHOWN_MAX:
        chosen = np.linspace(0, len(levels) - 1, _LEVELS_SHOWN_MAX).round().astype(int)
        levels = [levels[i] for i in chosen]
    names = [OURS, *(curves.name for curves in comparison.curves[1:])]
    out.table(
        ("fetches per day for", *(share_text(level.freshness) for level in levels)),
        [(name, *(cell(level, name) for level in levels)) for name in names],
    )
    out.say("Beside each: how much less recrawl needs for the same freshness.", style="dim")
