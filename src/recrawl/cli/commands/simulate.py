"""``recrawl simulate``: compare recrawl with other policies on a simulated web."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recrawl.cli.support.corpus_access import corpus_option, open_to_read
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.kernels import kernels_exist, require_compiled
from recrawl.cli.support.output import Output, output_option
from recrawl.cli.support.policies import load_policies
from recrawl.cli.support.reports.comparison_output import (
    check_report,
    comparison_options,
    progress_shares,
    show_comparison,
    write_report,
)
from recrawl.errors import CorpusError, WebFileError

if TYPE_CHECKING:
    from recrawl.backtest import DescribedWeb

__all__ = ["command"]

_LEAST_WEB = """A web file can be as short as:
  [[kind]]
  pages = 300
  changes_per_day = 0.2"""


@example_command(
    "simulate",
    examples=(
        CommandExample("recrawl simulate web.toml", needs_corpus=False),
        CommandExample(
            "recrawl simulate --from-corpus --days 30", "a web like the pages of this corpus"
        ),
    ),
    short_help="Compare scheduling rules on simulated pages.",
)
@click.argument(
    "web_file", required=False, type=click.Path(path_type=Path, exists=True, dir_okay=False)
)
@click.option(
    "--from-corpus", is_flag=True, help="Simulate a web that changes like the pages of the corpus."
)
@click.option(
    "--days",
    type=click.FloatRange(0.01, 36_500),
    default=90.0,
    show_default=True,
    metavar="N",
    help="Number of days to simulate, with --from-corpus.",
)
@click.option(
    "--pages",
    "n_pages_max",
    type=click.IntRange(1, 200_000),
    default=5_000,
    show_default=True,
    metavar="N",
    help="Simulate at most N pages, with --from-corpus.",
)
@comparison_options("simulation.html")
@corpus_option
@output_option
def command(
    web_file: Path | None,
    from_corpus: bool,
    days: float,
    n_pages_max: int,
    policy_names: tuple[str, ...],
    report: Path,
    seed: int,
    folder: Path,
    out: Output,
) -> None:
    """Compare recrawl with the rules that crawlers use today, on a simulated web.

    A web is a set of pages that change.  WEB_FILE is a TOML file that describes it; the guide
    "Backtest a crawl" in the documentation lists the keys.  With --from-corpus recrawl makes up
    pages that change as often as those of the corpus.  The result is the number of fetches that
    each rule (policy) needs, and a report like that of `recrawl backtest`.
    """
    if (web_file is None) == (not from_corpus):
        raise click.UsageError("name a WEB_FILE, or give --from-corpus, but not both.")
    check_report(report)
    if not kernels_exist():
        require_compiled("simulate")
    policies = load_policies(policy_names)
    from recrawl import __version__  # noqa: PLC0415
    from recrawl.backtest import compare_policies, simulation_html  # noqa: PLC0415

    if web_file is not None:
        described = _read_web_file(web_file)
        name = web_file.name
    else:
        described = _web_from_corpus(folder, n_pages_max, days, seed)
        name = folder.resolve().name
    web = described.web
    out.status("Simulating …")
    with out.progress("simulating", 1.0, unit="%") as advance:
        comparison = compare_policies(
            web, web.change_rate, policies=policies, seed=seed, progress=progress_shares(advance)
        )
    typed = shlex.join(["recrawl", *sys.argv[1:]])
    page = simulation_html(
        comparison, name=name, about=described.about + ".", command=typed, version=__version__
    )
    out.say(described.about + ".")
    out.say()
    show_comparison(comparison, out)
    write_report(report, page, out)


def _read_web_file(web_file: Path) -> "DescribedWeb":
    from recrawl.backtest import web_of_toml  # noqa: PLC0415

    try:
        return web_of_toml(web_file.read_text(encoding="utf-8", errors="replace"))
    except WebFileError as error:
        raise WebFileError(f"{web_file}: {error}\n{_LEAST_WEB}") from error


def _web_from_corpus(folder: Path, n_pages_max: int, days: float, seed: int) -> "DescribedWeb":
    from recrawl.backtest import web_of_beliefs  # noqa: PLC0415

    with open_to_read(folder) as corpus:
        pages = corpus.believed_pages(n_pages_max)
    if pages.shape.size == 0 or not pages.importance.sum() > 0:
        raise CorpusError("this corpus has no pages to simulate.\nAdd some with `recrawl add`.")
    return web_of_beliefs(
        pages.shape,
        pages.seconds,
        days=days,
        importance=pages.importance,
        group=pages.group,
        seed=seed,
    )
