"""``recrawl import``: import fetch logs of earlier crawls, access logs, and exports."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click

from recrawl.cli.support.corpus_access import corpus_option, open_to_change, value_errors_as_usage
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.input_files import (
    CRAWL_FORMATS,
    InputFile,
    Inputs,
    batches_with_progress,
    column_option,
    first_bytes,
    format_option,
    has_keys,
    input_file,
    key_argument,
    key_option,
    metadata_fields,
    metadata_option,
    open_input,
    refused_counts,
    show_ignored,
    show_refused,
)
from recrawl.cli.support.output import Output, output_option
from recrawl.errors import RecrawlError
from recrawl.units import count_text, instant_text, share_text

if TYPE_CHECKING:
    import pyarrow as pa

    from recrawl.corpus import Corpus, ImportCounts
    from recrawl.readers import Source

__all__ = ["command"]

_FIELDS_SHOWN_MAX = 20


@example_command(
    "import",
    examples=(
        CommandExample("recrawl import crawl.jsonl"),
        CommandExample("recrawl import crawl.cdx"),
        CommandExample(
            "recrawl import access.log --base-url https://example.com",
            "set the importance of pages to their requests",
        ),
        CommandExample("recrawl import pages.jsonl", "a file of `recrawl export`"),
    ),
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@format_option(*CRAWL_FORMATS, "access-log", "export")
@column_option
@metadata_option
@key_option
@click.option(
    "--base-url", metavar="URL", help="Site that the access log is from: https://example.com."
)
@click.option("--with-bots", is_flag=True, help="Count requests of robots in access logs, too.")
@corpus_option
@output_option
def command(
    files: tuple[str, ...],
    format_name: str | None,
    columns: tuple[str, ...],
    metadata: str | None,
    key: str | None,
    base_url: str | None,
    with_bots: bool,
    folder: Path,
    out: Output,
) -> None:
    """Import the fetch log of an earlier crawl, as if recrawl had made these fetches.

    recrawl adds the pages and learns how often they change from crawl logs (JSON lines, CSV or
    Parquet with url, at, and digest or changed), indexes of web archives (CDX, CDXJ), Nutch crawldb
    dumps and StormCrawler status exports.  Rows may be in any order, but import older files first:
    a fetch is skipped if recrawl knows the same or a later fetch of the page.

    From an access log of a web server, recrawl learns no fetches: it sets the importance of the
    requested pages to their numbers of requests, which replace the importance that they had.

    From a file of `recrawl export`, recrawl restores pages, their settings and their last fetch.
    """
    inputs = Inputs([], [input_file(name) for name in files])
    with (
        open_to_change(folder, n_bytes_input=inputs.n_bytes) as corpus,
        value_errors_as_usage(),
        ExitStack() as stack,
    ):
        for given in inputs.files:
            name = given.name
            file = stack.enter_context(_as_regular_file(given, format_name, corpus.folder))
            if format_name == "export" or (format_name is None and _is_export(file)):
                _import_export(corpus, file, key, out)
                continue
            source = open_input(
                file,
                format_name=format_name,
                columns=columns,
                metadata=metadata_fields(metadata),
                has_keys=has_keys(corpus),
                base_url=base_url,
                with_bots=with_bots,
            )
            match source.kind:
                case "observed":
                    _import_fetches(corpus, source, file, key, out)
                case "listed" if source.format == "access-log":
                    _import_requests(corpus, source, file, key, out)
                case "listed":
                    fields = ", ".join(source.field_names[:_FIELDS_SHOWN_MAX])
                    shown = f"  Its fields are {fields}." if fields else ""
                    raise RecrawlError(
                        f"{name} is a list of pages ({source.format}): it has no times of "
                        f"fetches.{shown}\nRun `recrawl add {name}` to add them.  If it is a log, "
                        "name its columns: --column at=FIELD --column digest=FIELD."
                    )
                case _:
                    raise RecrawlError(
                        f"{name} is a history of changes ({source.format}), not a log of fetches.\n"
                        f"`recrawl backtest {name}` can use it."
                    )


def _import_fetches(
    corpus: "Corpus", source: "Source", file: InputFile, key: str | None, out: Output
) -> None:
    name = file.name
    with corpus.import_crawl() as crawl:
        for batch in batches_with_progress(source, file, out):
            crawl.add_batch(_with_key(corpus, batch, key))
        show_refused(source, name, out)
        show_ignored(source, name, out)
        learned: ImportCounts | None = None
        with out.progress("learning", crawl.n_rows, unit="fetches") as advance:
            n_before = 0
            for learned in crawl.learn():
                n = learned.n_fetches + learned.n_void
                advance(n - n_before)
                n_before = n
    assert learned is not None
    out.row({"file": name, "format": source.format} | learned._asdict() | refused_counts(source))
    out.say(f"{name} ({source.format}): {_summary_text(learned)}")
    if not learned.n_fetches + learned.n_void:
        raise RecrawlError(
            f"recrawl could not learn from any fetch in {name}.\nIf its columns have other names, "
            "give them: --column url=FIELD --column at=FIELD --column digest=FIELD."
        )


def _summary_text(learned: "ImportCounts") -> str:
    if learned.from_ms is None or learned.until_ms is None or learned.n_fetches == 0:
        what = "nothing new"
    else:
        first, last = instant_text(learned.from_ms)[:10], instant_text(learned.until_ms)[:10]
        what = (
            f"{count_text(learned.n_pages, 'page')} ({learned.n_added:,} new), "
            f"{count_text(learned.n_fetches, 'fetch', 'fetches')} from {first} to {last}, "
            f"of which {learned.n_changed:,} found a change"
        )
    total = sum((learned.n_fetches, *_skipped_counts(learned).values()))
    left = [f"{share_text(n / total)} {why}" for why, n in _skipped_counts(learned).items() if n]
    return f"{what}; skipped: {', '.join(left)}." if left else f"{what}."


def _skipped_counts(learned: "ImportCounts") -> dict[str, int]:
    return {
        "imported before, or older than the last known fetch of the page": learned.n_void,
        "failed fetches": learned.n_failed,
        "without digest or changed": learned.n_silent,
        "without a valid URL": learned.n_refused,
    }


def _with_key(corpus: "Corpus", batch: "pa.RecordBatch", key: str | None) -> "pa.RecordBatch":
    """Return fetches with the key of ``--key`` where the file has none."""
    if key is None:
        return batch
    if not has_keys(corpus):
        raise click.UsageError('--key is for a corpus with group_by = "key"; this one has no keys.')
    place = batch.schema.get_field_index("key")
    return batch.set_column(place, batch.schema.field(place), batch.column(place).fill_null(key))


def _import_requests(
    corpus: "Corpus", source: "Source", file: InputFile, key: str | None, out: Output
) -> None:
    """Set the importance of pages to their numbers of requests."""
    import numpy as np  # noqa: PLC0415

    name = file.name
    n_rows = n_set = 0
    for batch in batches_with_progress(source, file, out):
        importance = batch.column("importance").to_numpy(zero_copy_only=False)
        n_rows += batch.num_rows
        n_set += corpus.set_each(
            batch.column("url"),
            importance=np.nan_to_num(importance),
            **key_argument(corpus, key, batch.column("key")),
        )
    show_refused(source, name, out)
    row: dict[str, Any] = {"file": name, "format": source.format}
    out.row(row | {"n_pages": n_rows, "n_set": n_set} | refused_counts(source))
    out.say(
        f"{name} ({source.format}): set the importance of {count_text(n_set, 'page')} to the "
        f"number of requests.  {n_rows - n_set:,} others in the log are not in the corpus; other "
        "pages of the corpus keep their importance."
    )
    if not n_rows and source.refused.n_refused:
        out.note("Name the site that the log is from, such as --base-url https://example.com.")


@contextmanager
def _as_regular_file(file: InputFile, format_name: str | None, beside: Path) -> Iterator[InputFile]:
    """Yield the input; an export that comes through a pipe is copied into a file first."""
    from recrawl.cli.support.exported_files import may_be_export  # noqa: PLC0415

    is_whole = isinstance(file.source, Path)
    if is_whole or not (format_name == "export" or may_be_export(first_bytes(file))):
        yield file
        return
    with tempfile.TemporaryDirectory(prefix=".import-", dir=beside) as folder:
        path = Path(folder, "stdin")
        with path.open("wb") as whole:
            shutil.copyfileobj(cast(BinaryIO, file.source), whole)
        yield file._replace(source=path)


def _is_export(file: InputFile) -> bool:
    from recrawl.cli.support.exported_files import is_export  # noqa: PLC0415

    return isinstance(file.source, Path) and is_export(file.source)


def _import_export(corpus: "Corpus", file: InputFile, key: str | None, out: Output) -> None:
    from recrawl.cli.support.exported_files import export_batches, restore_pages  # noqa: PLC0415

    assert isinstance(file.source, Path)
    name = file.name
    n_added = n_pages = 0
    with out.progress(f"reading {Path(name).name}", unit="pages") as advance:
        for batch in export_batches(file.source):
            n_added += restore_pages(corpus, batch, key)
            n_pages += batch.num_rows
            advance(batch.num_rows)
    out.row({"file": name, "format": "export", "n_pages": n_pages, "n_added": n_added})
    out.say(
        f"{name} (export): {count_text(n_pages, 'page')}, {n_added:,} new, with importance, cost, "
        "kind, limits and last fetch.  Change rates are not imported: recrawl learns them anew, or "
        "from the fetch log, if you import that."
    )
