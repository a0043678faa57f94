"""``recrawl simulate``: recrawl and its rivals on a web that is made up, or believed in."""

import shlex
import sys
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
from recrawl.cli.support.corpora import corpus_option, open_to_read
from recrawl.cli.support.examples import Example, example_command
from recrawl.cli.support.kernels import are_made, require_compiled
from recrawl.cli.support.policies import named_policies
from recrawl.cli.support.presenting import Output, output_option
from recrawl.errors import CorpusError, WebFileError

if TYPE_CHECKING:
    from recrawl.backtest import DescribedWeb

__all__ = ["command"]

_LEAST_WEB = """A web may be as short as:
  [[kind]]
  pages = 300
  changes_per_day = 0.2"""


@example_command(
    "simulate",
    examples=(
        Example("recrawl simulate web.toml", needs_corpus=False),
        Example("recrawl simulate --from-corpus --days 30", "as this corpus believes it is"),
    ),
    short_help="recrawl and the rules in use on a simulated web.",
)
@click.argument(
    "web_file", required=False, type=click.Path(path_type=Path, exists=True, dir_okay=False)
)
@click.option("--from-corpus", is_flag=True, help="A web as this corpus believes its pages to be.")
@click.option(
    "--days",
    type=click.FloatRange(0.01, 36_500),
    default=90.0,
    show_default=True,
    help="To simulate, with --from-corpus.",
)
@click.option(
    "--pages",
    "n_pages_max",
    type=click.IntRange(1, 200_000),
    default=5_000,
    show_default=True,
    help="At most so many of the corpus.",
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
    """Run recrawl and the rules that crawlers use today on a web, side by side.

    WEB_FILE is a TOML that describes the web; with --from-corpus it is made from what a corpus has
    learned of its pages.  The answer and the report are those of `recrawl backtest`.
    """
    if (web_file is None) == (not from_corpus):
        raise click.UsageError("Name a WEB_FILE, or say --from-corpus.")
    check_report(report)
    if not are_made():
        require_compiled("simulate")
    policies = named_policies(policy_names)
    from recrawl import __version__  # noqa: PLC0415
    from recrawl.backtest import compared, simulation_html  # noqa: PLC0415

    if web_file is not None:
        described = _described(web_file)
        name = web_file.name
    else:
        described = _believed(folder, n_pages_max, days, seed)
        name = folder.resolve().name
    web = described.web
    with out.progress("simulating", 1.0, unit="%") as advance:
        comparison = compared(
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


def _described(web_file: Path) -> "DescribedWeb":
    from recrawl.backtest import web_of_toml  # noqa: PLC0415

    try:
        return web_of_toml(web_file.read_text(encoding="utf-8", errors="replace"))
    except WebFileError as error:
        raise WebFileError(f"{web_file}: {error}\n{_LEAST_WEB}") from error


def _believed(folder: Path, n_pages_max: int, days: float, seed: int) -> "DescribedWeb":
    from recrawl.backtest import web_of_beliefs  # noqa: PLC0415
    from recrawl.corpus.inspect.beliefs import believed_pages  # noqa: PLC0415

    with open_to_read(folder) as corpus:
        pages = believed_pages([node.shard for node in corpus.nodes], n_pages_max=n_pages_max)
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
