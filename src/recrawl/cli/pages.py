"""``recrawl add``, ``remove`` and ``set``: which pages are kept, and what holds for them."""

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recrawl.amounts import count_text
from recrawl.cli.corpora import checked_arguments, corpus_option, open_to_change
from recrawl.cli.examples import Example, example_command
from recrawl.cli.instants import seconds_or_text
from recrawl.cli.presenting import Output, output_option
from recrawl.cli.sources import (
    REASONS_SHOWN_MAX,
    Inputs,
    column_option,
    format_option,
    inputs_argument,
    opened,
    progressing,
    say_refused,
    split_inputs,
)
from recrawl.errors import RecrawlError

if TYPE_CHECKING:
    import pyarrow as pa

    from recrawl.runtime import Corpus

__all__ = ["add", "remove", "set_"]

_PROBLEMS = {
    "NOT_TEXT": "not text",
    "NOT_A_URL": "not a URL",
    "SCHEME": "neither http nor https",
    "TOO_LONG": "too long",
    "CREDENTIALS": "with a user or a password",
}
_AMOUNT_MAX = 1e12


class _Adding:
    """Pages that are being added, and what became of them."""

    def __init__(self, corpus: "Corpus", importance: float | None, cost: float | None) -> None:
        self._corpus = corpus
        self._given = {"importance": importance, "cost": cost}
        self.n_added = self.n_known = 0
        self.problems: Counter[str] = Counter()
        self.examples: list[str] = []

    def add(self, batch: "pa.RecordBatch") -> None:
        """Add the pages of a batch; what the file says of a page goes before what options say."""
        import numpy as np  # noqa: PLC0415
        import pyarrow as pa  # noqa: PLC0415

        amounts = {name: self._amounts(batch, name) for name in self._given}
        is_wrong = np.zeros(batch.num_rows, np.bool_)
        for amount in amounts.values():
            is_wrong |= (amount < 0) | (amount > _AMOUNT_MAX)
        if is_wrong.any():
            self._refuse(batch.column("url").filter(pa.array(is_wrong)), "importance or cost wrong")
        # Pages that say the same things of themselves are added together.
        says = sum(np.isfinite(amount) << i for i, amount in enumerate(amounts.values()))
        for what in np.unique(says):
            rows = np.flatnonzero((says == what) & ~is_wrong)
            url = batch.column("url").take(pa.array(rows))
            told = {
                name: amount[rows]
                for i, (name, amount) in enumerate(amounts.items())
                if int(what) >> i & 1
            }
            added = self._corpus.add(url, **told)
            self.n_added += added.n_added
            self.n_known += added.n_known
            if added.n_refused:
                self._refuse_urls(url)

    def _amounts(self, batch: "pa.RecordBatch", name: str) -> Any:
        import numpy as np  # noqa: PLC0415

        given = self._given[name]
        column = batch.column(name).to_numpy(zero_copy_only=False).astype(np.float64)
        return np.where(np.isnan(column), np.nan if given is None else given, column)

    def _refuse_urls(self, url: "pa.Array") -> None:
        import numpy as np  # noqa: PLC0415
        import pyarrow as pa  # noqa: PLC0415

        from recrawl.urls import UrlProblem, canonical  # noqa: PLC0415

        problem = canonical(url).problem
        for number in np.unique(problem[problem > 0]):
            wrong = url.filter(pa.array(problem == number))
            self._refuse(wrong, _PROBLEMS[UrlProblem(number).name])

    def _refuse(self, url: "pa.Array", reason: str) -> None:
        self.problems[reason] += len(url)
        for text in url[:REASONS_SHOWN_MAX].to_pylist():
            if len(self.examples) < REASONS_SHOWN_MAX:
                self.examples.append(f"{reason}: {str(text)[:80]!r}")


@example_command(
    "add",
    examples=(
        Example("recrawl add urls.txt"),
        Example("recrawl add https://example.com/ https://example.com/news"),
        Example("recrawl add products.csv --column url=link", "a column of another name"),
        Example("recrawl add sitemap.xml --importance 2"),
        Example("cat urls.txt | recrawl add"),
    ),
)
@inputs_argument
@format_option
@column_option
@click.option(
    "--importance", type=click.FloatRange(0), metavar="X", help="Of pages that say none themselves."
)
@click.option(
    "--cost", type=click.FloatRange(0), metavar="X", help="Of pages that say none themselves."
)
@corpus_option
@output_option
def add(
    inputs: tuple[str, ...],
    format_name: str | None,
    columns: tuple[str, ...],
    importance: float | None,
    cost: float | None,
    folder: Path,
    out: Output,
) -> None:
    """Keep pages.

    From lists of URLs, CSV, JSON lines and sitemaps, compressed or not; stdin if nothing is
    named.  Pages that are kept already stay as they are.
    """
    told = split_inputs(inputs)
    with open_to_change(folder, n_bytes_input=told.n_bytes) as corpus, checked_arguments():
        adding = _Adding(corpus, importance, cost)
        n_refused = 0
        if told.urls:
            adding.add(_listed(told.urls))
        for file in told.files:
            name = file.name
            source = opened(file, format_name=format_name, columns=columns)
            if source.kind != "listed":
                raise RecrawlError(
                    f"{name} tells of fetches ({source.format}).\nLearn from it, and keep its "
                    f"pages, with `recrawl import {name}`."
                )
            for batch in progressing(source, file, out):
                adding.add(batch)
            say_refused(source, name, out)
            n_refused += source.refused.n_refused
    n_wrong = sum(adding.problems.values())
    out.row(
        {
            "n_added": adding.n_added,
            "n_known": adding.n_known,
            "n_refused": n_wrong + n_refused,
            "refused_by_reason": dict(adding.problems),
        }
    )
    parts = [f"{count_text(adding.n_added, 'page')} added", f"{adding.n_known:,} known already"]
    parts += [f"{n_wrong + n_refused:,} refused"] if n_wrong + n_refused else []
    out.say(", ".join(parts) + ".")
    for text in adding.examples:
        out.note(f"  {text}")
    if n_wrong > len(adding.examples):
        reasons = ", ".join(f"{n:,} {reason}" for reason, n in adding.problems.most_common())
        out.note(f"  … in all {reasons}")


def _listed(urls: Sequence[str]) -> "pa.RecordBatch":
    import pyarrow as pa  # noqa: PLC0415

    from recrawl.readers import LISTED  # noqa: PLC0415

    nulls = [pa.nulls(len(urls), field.type) for field in list(LISTED)[1:]]
    return pa.record_batch([pa.array(urls, pa.string()), *nulls], schema=LISTED)


def _named(
    told: Inputs, format_name: str | None, columns: tuple[str, ...], out: Output
) -> "Iterator[pa.Array]":
    """Yield the URLs that arguments and files name."""
    if told.urls:
        yield _listed(told.urls).column("url")
    for file in told.files:
        source = opened(file, format_name=format_name, columns=columns)
        for batch in progressing(source, file, out):
            yield batch.column("url")
        say_refused(source, file.name, out)


@example_command(
    "remove",
    examples=(
        Example("recrawl remove https://example.com/news"),
        Example("recrawl remove urls.txt"),
        Example("recrawl remove --pattern '/tag/*'"),
    ),
)
@inputs_argument
@click.option("--pattern", metavar="PATTERN", help="All pages whose URL matches, instead.")
@format_option
@column_option
@corpus_option
@output_option
def remove(
    inputs: tuple[str, ...],
    pattern: str | None,
    format_name: str | None,
    columns: tuple[str, ...],
    folder: Path,
    out: Output,
) -> None:
    """Keep pages no longer."""
    if pattern is not None and inputs:
        raise click.UsageError("give either pages or --pattern.")
    told = split_inputs(inputs) if pattern is None else Inputs([], [])
    with open_to_change(folder, n_bytes_input=told.n_bytes) as corpus, checked_arguments():
        found = (
            _named(told, format_name, columns, out)
            if pattern is None
            else _matching(corpus, pattern)
        )
        n_removed = sum(corpus.remove(urls) for urls in found)
    out.row({"n_removed": n_removed})
    out.say(f"{count_text(n_removed, 'page')} removed.")


def _matching(corpus: "Corpus", pattern: str) -> "Iterator[pa.Array]":
    import pyarrow as pa  # noqa: PLC0415

    from recrawl.urls import PatternSet  # noqa: PLC0415

    matcher = PatternSet([pattern])
    for node in corpus.nodes:
        for _, url in node.scan_urls():
            yield url.filter(pa.array(matcher.first_match(url) >= 0))


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
def set_(
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
                found = _named(pages, None, (), out)
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
    from recrawl.runtime.config import duration  # noqa: PLC0415

    if host in corpus.config.hosts and settings.keys() != {"is_closed"}:
        raise RecrawlError(
            f'recrawl.toml has a section [hosts."{host}"], which would undo this.\nChange it there.'
        )
    told = dict(settings)
    if "delay" in told:
        told["delay"] = duration(told["delay"])
    corpus.set_host(host, **told)
    from recrawl.runtime.hosts import known_hosts, pages_of_host  # noqa: PLC0415

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
    from recrawl.cli.toml_lines import replaced  # noqa: PLC0415
    from recrawl.runtime.config import CorpusConfig, Rate  # noqa: PLC0415

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
