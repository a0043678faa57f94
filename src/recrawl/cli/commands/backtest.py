"""``recrawl backtest``: what could have been saved, from the log of a crawl that was."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recrawl.cli.support.comparing import (
    check_report,
    comparison_options,
    progress_shares,
    show_comparison,
    write_report,
)
from recrawl.cli.support.examples import Example, example_command
from recrawl.cli.support.kernels import are_made, require_compiled
from recrawl.cli.support.policies import named_policies
from recrawl.cli.support.presenting import ANSWERED_NO, Output, output_option
from recrawl.cli.support.sources import (
    InputFile,
    column_option,
    format_option,
    input_file,
    opened,
    progressing,
    say_refused,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from recrawl.backtest import Backtest
    from recrawl.readers import Source

__all__ = ["command"]


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
@format_option
@column_option
@click.option("--path", "paths", multiple=True, metavar="GLOB", help="Files of a repository.")
@click.option(
    "--pages",
    "n_pages_max",
    type=click.IntRange(20, 200_000),
    default=20_000,
    show_default=True,
    help="Of more pages so many stand for all.",
)
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
    """Replay the log of a crawl under recrawl and under the rules that crawlers use today.

    LOG is a crawl log (JSON lines, CSV, Parquet: url, at, digest or changed), CDX or CDXJ, a git
    repository, or a folder in the format of Kolobov et al.  The answer is how many fetches would
    have done for the same freshness, with an interval, and a report with pictures.  Ends with 3 if
    the log is too thin to judge by.
    """
    check_report(report)
    if not are_made():
        require_compiled("backtest")
    policies = named_policies(policy_names)
    from recrawl import __version__  # noqa: PLC0415
    from recrawl.backtest import backtest_html, backtested, history_of  # noqa: PLC0415

    file = input_file(str(log))
    source = opened(file, format_name=format_name, columns=columns, paths=paths)
    if source.kind == "listed":
        raise click.UsageError(
            f"{log} is a list of pages ({source.format}), not a log of fetches or changes."
        )
    history = history_of(_Shown(source, file, out), n_pages_max=n_pages_max)
    say_refused(source, log.name, out)
    with out.progress("replaying", 1.0, unit="%") as advance:
        backtest = backtested(
            history, policies=policies, seed=seed, progress=progress_shares(advance)
        )
    if backtest.comparison is None:
        _refuse(backtest, out, hint=_hint(backtest, paths))
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


class _Shown:
    """A source of which it is shown how far it was read."""

    def __init__(self, source: "Source", file: InputFile, out: Output) -> None:
        self.kind = source.kind
        self.windows = source.windows
        self._read = (source, file, out)

    def batches(self) -> "Iterator[pa.RecordBatch]":
        return progressing(*self._read)


def _hint(backtest: "Backtest", paths: tuple[str, ...]) -> str | None:
    """Return what to try where it may be not the log that is thin, but how it was read."""
    history = backtest.history
    if history.n_pages == 0 and paths:
        return "No file matches --path; patterns begin at the top, as in 'docs/**/*.md'."
    if history.n_mute > history.page.size:
        return (
            "If one of its fields does, name it: --column digest=FIELD, or --column changed=FIELD."
        )
    return None


def _refuse(backtest: "Backtest", out: Output, *, hint: str | None) -> None:
    texts = backtest.support.texts("refusal")
    out.row({"what": "refused", "reasons": texts})
    out.say("This log is too thin to judge by.", style="bold")
    for text in texts + backtest.support.texts("fact") + backtest.support.texts("caution"):
        out.say(f"- {text}")
    if hint is not None:
        out.note(hint)
    click.get_current_context().exit(ANSWERED_NO)
