"""``recrawl set``: change settings of pages, hosts and the budget."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recrawl.cli.support.corpora import checked_arguments, corpus_option, open_to_change
from recrawl.cli.support.examples import Example, example_command
from recrawl.cli.support.instants import seconds_or_text
from recrawl.cli.support.presenting import Output, output_option
from recrawl.cli.support.sources import Inputs, inputs_argument, named_urls, split_inputs
from recrawl.errors import RecrawlError
from recrawl.units import count_text

if TYPE_CHECKING:
    from recrawl.corpus import Corpus

__all__ = ["command"]


@example_command(
    "set",
    examples=(
        Example("recrawl set --budget 40/h"),
        Example("recrawl set --pattern '/product/*' --importance 5 --max-age 1d"),
        Example("recrawl set https://example.com/ --kind home"),
        Example("recrawl set --host example.com --delay 5s --in-flight-max 2"),
    ),
)
@inputs_argument
@click.option("--pattern", metavar="PATTERN", help="All pages whose URL matches, instead.")
@click.option(
    "--importance", type=click.FloatRange(0), metavar="X", help="Relative to other pages."
)
@click.option(
    "--cost", type=click.FloatRange(0), metavar="X", help="Of a fetch, relative to others."
)
@click.option("--kind", metavar="NAME", help="Pages of a kind are learned from together.")
@click.option("--min-age", metavar="TIME", help="Not fetched again sooner: 10m, 6h, 2d.")
@click.option("--max-age", metavar="TIME", help="Fetched again at the latest after so long.")
@click.option("--stale-for", metavar="TIME", help="A promise: stale for longer than this …")
@click.option(
    "--stale-probability", type=float, metavar="P", help="… with this probability at most."
)
@click.option("--budget", metavar="RATE", help="30/h, 5/s, 100/run, unlimited.")
@click.option("--host", metavar="HOST", help="Set how often this host may be asked.")
@click.option("--delay", metavar="TIME", help="Of the host: between two fetches.")
@click.option(
    "--in-flight-max", type=click.IntRange(1), metavar="N", help="Of the host: fetches at once."
)
@click.option(
    "--burst", type=click.IntRange(1), metavar="N", help="Of the host: fetches in a row at once."
)
@click.option("--closed/--open", "is_closed", default=None, help="Of the host: may it be asked.")
@corpus_option
@output_option
def command(
    inputs: tuple[str, ...],
    folder: Path,
    out: Output,
    **options: Any,
) -> None:
    """Set what holds for pages, for a host, or the budget.

    Pages are named by URL, by files, or by --pattern.  That holds for pages kept now; for those
    added later too, write a [[pattern]] into recrawl.toml.
    """
    told = {name: value for name, value in options.items() if value is not None}
    for name in _DURATIONS & told.keys():
        told[name] = seconds_or_text(told[name])
    budget, host = told.pop("budget", None), told.pop("host", None)
    pattern = told.pop("pattern", None)
    for_host = {name: told.pop(name) for name in _FOR_HOST if name in told}
    _check_told(bool(inputs or pattern), told, host, for_host, budget)
    pages = split_inputs(inputs) if told and pattern is None else Inputs([], [])
    with open_to_change(folder, n_bytes_input=pages.n_bytes) as corpus, checked_arguments():
        if budget is not None:
            _set_budget(corpus, folder, budget, out)
        if host is not None:
            _set_host(corpus, host, for_host, out)
        if told:
            if pattern is not None:
                n_set = corpus.set(pattern=pattern, **told)
            else:
                found = named_urls(pages, None, (), out)
                n_set = sum(corpus.set(urls, **told) for urls in found)
            out.row({"n_set": n_set, **told})
            out.say(f"Set for {count_text(n_set, 'page')}.")


_HOSTS_NAMED_MAX = 3
_DURATIONS = {"min_age", "max_age", "stale_for", "delay"}
_FOR_HOST = ("delay", "in_flight_max", "burst", "is_closed")


def _check_told(
    has_pages: bool,
    told: dict[str, Any],
    host: str | None,
    for_host: dict[str, Any],
    budget: str | None,
) -> None:
    if has_pages and not told:
        raise click.UsageError("say what to set for these pages: --importance, --max-age, …")
    if told and not has_pages:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in told)
        raise click.UsageError(f"say for which pages {names} is to hold: URLs, or --pattern.")
    if (host is None) != (not for_host):
        raise click.UsageError("--host goes with --delay, --in-flight-max, --burst or --closed.")
    if not (told or host or budget):
        raise click.UsageError("say what to set, such as --budget 30/h.")


def _set_host(corpus: "Corpus", host: str, settings: dict[str, Any], out: Output) -> None:
    from recrawl.node.config.corpus_config import duration  # noqa: PLC0415

    if host in corpus.config.hosts and settings.keys() != {"is_closed"}:
        raise RecrawlError(
            f'recrawl.toml has a section [hosts."{host}"], which would undo this.\nChange it there.'
        )
    told = dict(settings)
    if "delay" in told:
        told["delay"] = duration(told["delay"])
    corpus.set_host(host, **told)
    from recrawl.corpus.inspect.hosts import known_hosts, pages_of_host  # noqa: PLC0415

    n_pages = pages_of_host(corpus.nodes, host.lower())
    out.row({"host": host, "n_pages": n_pages, **told})
    if n_pages:
        out.say(f"Set for {host}, {count_text(n_pages, 'page')}.")
    else:
        # Names are looked through only where none is right.
        found = known_hosts(corpus.nodes, host)
        alike = sorted(found, key=lambda name: -found[name])[:_HOSTS_NAMED_MAX]
        meant = f"  Did you mean {' or '.join(alike)}?" if alike else ""
        out.note(f"Set for {host}, of which no page is kept yet.{meant}")


def _set_budget(corpus: "Corpus", folder: Path, rate: str, out: Output) -> None:
    """Set the budget, and in recrawl.toml too where that would undo it."""
    from recrawl.cli.support.toml_lines import replaced  # noqa: PLC0415
    from recrawl.node.config.corpus_config import CorpusConfig, Rate  # noqa: PLC0415

    wanted = Rate.of(rate)
    toml = folder / "recrawl.toml"
    where = None
    if toml.exists() and corpus.config.budget.rate is not None:
        # As bytes, so that the ends of lines stay what they are.
        text = replaced(toml.read_bytes().decode("utf-8"), "budget", "rate", f'"{rate}"')
        if text is None or CorpusConfig.from_toml(text).budget.rate != wanted:
            raise RecrawlError(
                f"{toml} says what the budget is, which would undo this.\nChange it there."
            )
        _write_whole(toml.resolve(), text)
        where = str(toml)
    corpus.set_budget(rate)
    out.row({"budget": str(wanted), "config": where})
    out.say(f"The budget is {rate}{f', in {where} too' if where else ''}.")


def _write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all; whoever may read it still may."""
    draft = path.with_name(f".{path.name}.part")
    try:
        draft.write_bytes(text.encode("utf-8"))
        shutil.copymode(path, draft)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
