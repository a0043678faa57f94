"""``recrawl backtest``: estimate from the log of a past crawl what recrawl would have saved."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.input_files import (
    CRAWL_FORMATS,
    InputFile,
    batches_with_progress,
    column_option,
    format_option,
    input_file,
    open_input,
    sampled_pages_option,
    show_refused,
)
from recrawl.cli.support.kernels import kernels_exist, require_compiled
from recrawl.cli.support.output import CHECK_FAILED, Output, output_option
from recrawl.cli.support.policies import load_policies
from recrawl.cli.support.reports.comparison_output import (
    check_report,
    comparison_options,
    progress_shares,
    show_comparison,
    write_report,
)
from recrawl.units import count_text

if TYPE_CHECKING:
    import pyarrow as pa

    from recrawl.backtest import Backtest
    from recrawl.readers import Source

__all__ = ["command"]


@example_command(
    "backtest",
    examples=(
        CommandExample("recrawl backtest crawl-log.jsonl", needs_corpus=False),
        CommandExample(
            "recrawl backtest . --path 'docs/**/*.md'", "a git repository", is_run=False
        ),
        CommandExample(
            "recrawl backtest crawls.parquet --column at=ts --column changed=text_changed",
            "columns with other names",
            is_run=False,
        ),
        CommandExample("recrawl backtest captures.cdx.gz --report saved.html", is_run=False),
    ),
    short_help="Estimate savings from a past crawl.",
)
@click.argument("log", type=click.Path(path_type=Path, exists=True))
@format_option(*CRAWL_FORMATS, "git", "change-times", "kolobov")
@column_option
@click.option(
    "--path",
    "paths",
    multiple=True,
    metavar="GLOB",
    help="Files of a git repository to use, such as 'docs/**/*.md'.  May be repeated.",
)
@sampled_pages_option
@comparison_options("backtest.html")
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
    """Estimate how many fetches recrawl would have saved in a past crawl, for the same freshness.

    LOG is a crawl log (JSON lines, CSV or Parquet with url, at, and digest or changed), a CDX or
    CDXJ file, a git repository (each file counts as a page), or a folder in the format of the data
    set of Kolobov et al. (2019).

    The log is replayed with recrawl and with the rules that crawlers use today.  The result is the
    number of fetches that each needs, with 95 % intervals, and an HTML report with charts.  Exit
    code 3 if the log is too small to conclude from.
    """
    check_report(report)
    if not kernels_exist():
        require_compiled("backtest")
    policies = load_policies(policy_names)
    from recrawl import __version__  # noqa: PLC0415
    from recrawl.backtest import backtest_html, history_of, run_backtest  # noqa: PLC0415

    out.status(f"Reading {log} …")
    file = input_file(str(log))
    source = open_input(file, format_name=format_name, columns=columns, paths=paths)
    if source.kind == "listed":
        raise click.UsageError(
            f"{log} is a list of pages ({source.format}), not a log of fetches or changes."
        )
    history = history_of(_SourceWithProgress(source, file, out), n_pages_max=n_pages_max)
    show_refused(source, log.name, out)
    out.status(f"Replaying {count_text(history.n_pages, 'page')} …")
    with out.progress("replaying", 1.0, unit="%") as advance:
        backtest = run_backtest(
            history, policies=policies, seed=seed, progress=progress_shares(advance)
        )
    if backtest.comparison is None:
        _show_refusal(backtest, out, hint=_hint(backtest, paths))
    typed = shlex.join(["recrawl", *sys.argv[1:]])
    name = log.resolve().name
    page = backtest_html(backtest, name=name, command=typed, version=__version__)
    assert backtest.comparison is not None
    for text in backtest.support.texts("fact"):
        out.say(text)
    for text in backtest.support.texts("caution"):
        out.say(f"Note: {text}", style="yellow")
    out.say()
    show_comparison(backtest.comparison, out)
    write_report(report, page, out)


class _SourceWithProgress:
    """A source that shows a progress bar while it is read."""

    def __init__(self, source: "Source", file: InputFile, out: Output) -> None:
        self.kind = source.kind
        self.windows = source.windows
        self._read = (source, file, out)

    def batches(self) -> "Iterator[pa.RecordBatch]":
        return batches_with_progress(*self._read)


def _hint(backtest: "Backtest", paths: tuple[str, ...]) -> str | None:
    """Return what to try if the log may have been read wrongly; None otherwise."""
    history = backtest.history
    if history.n_pages == 0 and paths:
        return (
            "No file matches --path.  Patterns start at the top folder of the repository, such as "
            "'docs/**/*.md'."
        )
    if history.n_mute > history.page.size:
        return (
            "If a column has the digest of the content, or whether it changed, name it: --column "
            "digest=FIELD or --column changed=FIELD."
        )
    return None


def _show_refusal(backtest: "Backtest", out: Output, *, hint: str | None) -> None:
    texts = backtest.support.texts("refusal")
    out.row({"what": "refused", "reasons": texts})
    out.say("This log is too small to conclude from.", style="bold")
    if hint is not None:
        out.note(hint)
    out.say("Reasons:")
    for text in texts:
        out.say(f"- {text}")
    details = backtest.support.texts("fact") + backtest.support.texts("caution")
    if details:
        out.say("About the log:")
        for text in details:
            out.say(f"- {text}")
    click.get_current_context().exit(CHECK_FAILED)
