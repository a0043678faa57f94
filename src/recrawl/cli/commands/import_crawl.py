"""``recrawl import``: what an old crawl saw, what visitors asked for, or what was exported."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click

from recrawl.cli.support.corpora import checked_arguments, corpus_option, open_to_change
from recrawl.cli.support.examples import Example, example_command
from recrawl.cli.support.presenting import Output, output_option
from recrawl.cli.support.sources import (
    InputFile,
    Inputs,
    begin_of,
    column_option,
    format_option,
    input_file,
    opened,
    progressing,
    refused_row,
    say_refused,
)
from recrawl.errors import RecrawlError
from recrawl.units import count_text, instant_text, share_text

if TYPE_CHECKING:
    from recrawl.corpus import Corpus
    from recrawl.corpus.import_crawl import Learned
    from recrawl.readers import Source

__all__ = ["command"]


@example_command(
    "import",
    examples=(
        Example("recrawl import crawl.jsonl"),
        Example("recrawl import crawl.cdx"),
        Example("recrawl import access.log --base-url https://example.com", "for importance"),
        Example("recrawl import pages.jsonl", "what `recrawl export` wrote"),
    ),
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@format_option
@column_option
@click.option("--base-url", metavar="URL", help="Where the paths of an access log belong.")
@click.option("--with-bots", is_flag=True, help="Of an access log: robots' requests count too.")
@corpus_option
@output_option
def command(
    files: tuple[str, ...],
    format_name: str | None,
    columns: tuple[str, ...],
    base_url: str | None,
    with_bots: bool,
    folder: Path,
    out: Output,
) -> None:
    """Learn from an old crawl, as if it had been done with this corpus.

    Crawl logs (JSON lines, CSV, Parquet), CDX and CDXJ, Nutch crawldb dumps and StormCrawler
    status exports teach how often pages change; their pages are kept.  Access logs say how
    important pages are.  Rows may be in any order, by URL or by time; but what is no later than
    the last fetch known of a page is not counted, so import older files first.
    """
    told = Inputs([], [input_file(name) for name in files])
    with (
        open_to_change(folder, n_bytes_input=told.n_bytes) as corpus,
        checked_arguments(),
        ExitStack() as stack,
    ):
        for given in told.files:
            name = given.name
            file = stack.enter_context(_as_file(given, format_name, corpus.folder))
            if format_name == "export" or (format_name is None and _is_export(file)):
                _import_export(corpus, file, out)
                continue
            source = opened(
                file,
                format_name=format_name,
                columns=columns,
                base_url=base_url,
                with_bots=with_bots,
            )
            match source.kind:
                case "observed":
                    _import_fetches(corpus, source, file, out)
                case "listed" if source.format == "access-log":
                    _import_requests(corpus, source, file, out)
                case "listed":
                    raise RecrawlError(
                        f"{name} is a list of pages ({source.format}).\n"
                        f"Keep them with `recrawl add {name}`."
                    )
                case _:
                    raise RecrawlError(
                        f"{name} tells of changes ({source.format}), not of fetches.\n"
                        f"`recrawl backtest {name}` uses it."
                    )


def _import_fetches(corpus: "Corpus", source: "Source", file: InputFile, out: Output) -> None:
    from recrawl.corpus.import_crawl import History  # noqa: PLC0415

    name = file.name

    with History(corpus) as history:
        for batch in progressing(source, file, out):
            history.take(batch)
        say_refused(source, name, out)
        learned: Learned | None = None
        with out.progress("learning", history.n_rows, unit="fetches") as advance:
            n_before = 0
            for learned in history.learn():
                n = learned.n_fetches + learned.n_void
                advance(n - n_before)
                n_before = n
    assert learned is not None
    out.row({"file": name, "format": source.format} | learned._asdict() | refused_row(source))
    out.say(f"{name} ({source.format}): {_words(learned)}")
    if not learned.n_fetches + learned.n_void:
        raise RecrawlError(
            f"no fetch in {name} could be learned from.\nIf its fields have other names, say "
            "which: --column url=FIELD --column at=FIELD --column digest=FIELD."
        )


def _words(learned: "Learned") -> str:
    if learned.from_ms is None or learned.until_ms is None or learned.n_fetches == 0:
        what = "nothing was learned"
    else:
        first, last = instant_text(learned.from_ms)[:10], instant_text(learned.until_ms)[:10]
        what = (
            f"{count_text(learned.n_pages, 'page')} ({learned.n_added:,} new), "
            f"{count_text(learned.n_fetches, 'fetch', 'fetches')} from {first} to {last}, "
            f"of which {learned.n_changed:,} found a change"
        )
    total = sum((learned.n_fetches, *_left_out(learned).values()))
    left = [f"{share_text(n / total)} {why}" for why, n in _left_out(learned).items() if n]
    return f"{what}; left out: {', '.join(left)}." if left else f"{what}."


def _left_out(learned: "Learned") -> dict[str, int]:
    return {
        "no later than a fetch that is known": learned.n_void,
        "failed": learned.n_failed,
        "without a word on whether the page had changed": learned.n_silent,
        "of what is no URL to keep": learned.n_refused,
    }


def _import_requests(corpus: "Corpus", source: "Source", file: InputFile, out: Output) -> None:
    """Set importance to how often pages were asked for."""
    import numpy as np  # noqa: PLC0415

    from recrawl.corpus.import_crawl import set_importances  # noqa: PLC0415

    name = file.name
    n_rows = n_set = 0
    for batch in progressing(source, file, out):
        importance = batch.column("importance").to_numpy(zero_copy_only=False)
        n_rows += batch.num_rows
        n_set += set_importances(corpus, batch.column("url"), np.nan_to_num(importance))
    say_refused(source, name, out)
    row: dict[str, Any] = {"file": name, "format": source.format}
    out.row(row | {"n_pages": n_rows, "n_set": n_set} | refused_row(source))
    out.say(
        f"{name} ({source.format}): importance set to the number of requests for "
        f"{count_text(n_set, 'page')}; {n_rows - n_set:,} others are not kept.  "
        "Pages that were not asked for keep theirs."
    )


@contextmanager
def _as_file(file: InputFile, format_name: str | None, beside: Path) -> Iterator[InputFile]:
    """Yield what was given; an export that comes through a pipe is put into a file first."""
    from recrawl.cli.support.exported import may_be_export  # noqa: PLC0415

    is_whole = isinstance(file.source, Path)
    if is_whole or not (format_name == "export" or may_be_export(begin_of(file))):
        yield file
        return
    with tempfile.TemporaryDirectory(prefix=".import-", dir=beside) as folder:
        path = Path(folder, "stdin")
        with path.open("wb") as whole:
            shutil.copyfileobj(cast(BinaryIO, file.source), whole)
        yield file._replace(source=path)


def _is_export(file: InputFile) -> bool:
    from recrawl.cli.support.exported import is_export  # noqa: PLC0415

    return isinstance(file.source, Path) and is_export(file.source)


def _import_export(corpus: "Corpus", file: InputFile, out: Output) -> None:
    from recrawl.cli.support.exported import batches_of, restore  # noqa: PLC0415

    assert isinstance(file.source, Path)
    name = file.name
    n_added = n_pages = 0
    with out.progress(f"reading {Path(name).name}", unit="pages") as advance:
        for batch in batches_of(file.source):
            n_added += restore(corpus, batch)
            n_pages += batch.num_rows
            advance(batch.num_rows)
    out.row({"file": name, "format": "export", "n_pages": n_pages, "n_added": n_added})
    out.say(
        f"{name} (export): {count_text(n_pages, 'page')}, {n_added:,} new, with importance, cost, "
        "kind, limits and last fetch.  How often they change is learned anew: import the log of "
        "fetches for that."
    )
