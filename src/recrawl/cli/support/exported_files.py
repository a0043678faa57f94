"""Files of ``recrawl export``: their text, and reading them back with settings and last fetch."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recrawl.cli.support.input_files import has_keys
from recrawl.errors import RecrawlError
from recrawl.safe_text import unprotect_cell

if TYPE_CHECKING:
    import pyarrow as pa

    from recrawl.corpus import Corpus

__all__ = [
    "UNSAFE_CELL",
    "change_texts",
    "export_batches",
    "is_export",
    "may_be_export",
    "restore_pages",
]

UNSAFE_CELL = "^'*[=+\\-@\\\\]|[^ -~]"
"""Regular expression of texts that a spreadsheet may compute, that have characters other than those
of ASCII, or that were protected."""

_ROWS_PER_BATCH = 16_384
_LINE_BYTES_MAX = 1 << 20
# Enough for a row with URLs and metadata of the maximum length.
_BEGIN_BYTES = 1 << 18
_PARQUET = b"PAR1"
_MARKS = ("first_seen_at_ms", "change_rate_per_day")
_STATUS = {"gone": 404, "retired": 404, "moved": 301}


def is_export(path: Path) -> bool:
    """Return whether ``recrawl export`` wrote a file, judging by its first bytes."""
    try:
        with path.open("rb") as file:
            begin = file.read(_BEGIN_BYTES)
    except OSError:
        return False
    if begin.startswith(_PARQUET):
        return all(mark in _parquet(path).schema_arrow.names for mark in _MARKS)
    return _has_marks(begin)


def may_be_export(begin: bytes) -> bool:
    """Return whether a stream with these first bytes may be an export."""
    return begin.startswith(_PARQUET) or _has_marks(begin)


def _has_marks(begin: bytes) -> bool:
    first = begin.partition(b"\n")[0]
    return all(f'"{mark}"'.encode() in first for mark in _MARKS)


def _parquet(path: Path) -> Any:
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow.parquet import ParquetFile  # noqa: PLC0415

    try:
        return ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise RecrawlError(f"{path} is broken Parquet: {error}\nExport it again.") from error


def export_batches(path: Path) -> "Iterator[pa.RecordBatch]":
    """Yield the rows of an export, with all columns of the current schema."""
    import pyarrow as pa  # noqa: PLC0415

    with path.open("rb") as file:
        begin = file.read(4)
    try:
        if begin == _PARQUET:
            for batch in _parquet(path).iter_batches(_ROWS_PER_BATCH):
                yield _with_export_columns(pa.Table.from_batches([batch]))
        elif begin.startswith(b"{"):
            yield from _json_batches(path)
        else:
            from pyarrow import csv  # noqa: PLC0415

            types = {field.name: field.type for field in _schema()}
            parse = csv.ParseOptions(newlines_in_values=True)
            # Only empty cells are null: a kind may be called NA.
            convert = csv.ConvertOptions(
                column_types=types, strings_can_be_null=True, null_values=[""]
            )
            for batch in csv.open_csv(path, convert_options=convert, parse_options=parse):
                plain = change_texts(batch, UNSAFE_CELL, unprotect_cell)
                yield _with_export_columns(pa.Table.from_batches([plain]))
    except pa.ArrowException as error:
        raise RecrawlError(f"{path} is not a file of `recrawl export`: {error}") from error


def change_texts(
    batch: "pa.RecordBatch", pattern: str, change: Callable[[str], str]
) -> "pa.RecordBatch":
    """Return a batch in which texts that match a regular expression are changed."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    for i, field in enumerate(batch.schema):
        column = batch.column(i)
        if pa.types.is_string(field.type):
            is_match = pc.match_substring_regex(column, pattern).fill_null(False)
            if is_match.true_count:
                changed = pa.array(
                    [change(text) for text in column.filter(is_match).to_pylist()], pa.string()
                )
                batch = batch.set_column(i, field, pc.replace_with_mask(column, is_match, changed))
    return batch


def _json_batches(path: Path) -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa  # noqa: PLC0415

    rows: list[dict[str, Any]] = []
    number = 0
    with path.open("rb") as file:
        while line := file.readline(_LINE_BYTES_MAX):
            number += 1
            try:
                row = json.loads(line)
            except ValueError as error:
                raise RecrawlError(f"{path}, line {number}: not JSON: {error}") from error
            row = row if isinstance(row, dict) else {}
            if isinstance(row.get("metadata"), dict):
                row["metadata"] = json.dumps(row["metadata"], ensure_ascii=False)
            rows.append(row)
            if len(rows) == _ROWS_PER_BATCH:
                yield _with_export_columns(pa.Table.from_pylist(rows, _schema()))
                rows = []
    if rows:
        yield _with_export_columns(pa.Table.from_pylist(rows, _schema()))


def _schema() -> "pa.Schema":
    from recrawl.corpus import EXPORT_SCHEMA  # noqa: PLC0415

    return EXPORT_SCHEMA


def _with_export_columns(table: "pa.Table") -> "pa.RecordBatch":
    """Return rows with all columns of an export, without those that have no URL."""
    import pyarrow as pa  # noqa: PLC0415

    columns = [
        table.column(field.name).cast(field.type).combine_chunks()
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in _schema()
    ]
    batch = pa.record_batch(columns, names=_schema().names)
    return batch.filter(batch.column("url").is_valid())


def restore_pages(corpus: "Corpus", batch: "pa.RecordBatch", key: str | None = None) -> int:
    """Add the pages of a batch with their settings; return the number of new pages.

    Parameters
    ----------
    corpus
        Corpus that gets the pages.
    batch
        Rows of an export.
    key
        Key of pages without one, in a corpus grouped by key.
    """
    keys = batch.column("key")
    if not has_keys(corpus):
        if keys.null_count < len(keys):
            raise RecrawlError(
                "the export is of a corpus whose pages have keys, and this corpus has none.\n"
                'Create one with group_by = "key" in the section [corpus] of recrawl.toml.'
            )
    elif key is not None:
        place = batch.schema.get_field_index("key")
        batch = batch.set_column(place, "key", keys.fill_null(key))
    importance = batch.column("importance").fill_null(1.0).to_numpy()
    cost = batch.column("cost").fill_null(1.0).to_numpy()
    added = corpus.add(
        _fetch_urls(batch),
        importance=importance,
        cost=cost,
        doc_id=batch.column("doc_id"),
        metadata=batch.column("metadata"),
        **_keys(corpus, batch),
    )
    if added.n_known:  # `add` does not change pages that are tracked already
        corpus.set_each(
            batch.column("url"), importance=importance, cost=cost, **_keys(corpus, batch)
        )
    _restore_settings(corpus, batch)
    _restore_fetches(corpus, batch)
    _restore_disallowed(corpus, batch)
    return int(added.n_added)


def _keys(corpus: "Corpus", batch: "pa.RecordBatch") -> "dict[str, pa.Array]":
    return {"key": batch.column("key")} if has_keys(corpus) else {}


def _fetch_urls(batch: "pa.RecordBatch") -> "pa.Array":
    import pyarrow.compute as pc  # noqa: PLC0415

    return pc.coalesce(batch.column("fetch_url"), batch.column("url"))


_SETTINGS = {
    "kind": "kind",
    "min_age_seconds": "min_age",
    "max_age_seconds": "max_age",
    "stale_for_seconds": "stale_for",
    "stale_probability": "stale_probability",
}


def _restore_settings(corpus: "Corpus", batch: "pa.RecordBatch") -> None:
    """Set kinds and limits, for all pages with the same values at once."""
    import pyarrow as pa  # noqa: PLC0415

    rows_by_values: dict[tuple[Any, ...], list[int]] = {}
    columns = [batch.column(name).to_pylist() for name in _SETTINGS]
    for row, values_of_page in enumerate(zip(*columns, strict=True)):
        if any(value is not None for value in values_of_page):
            rows_by_values.setdefault(values_of_page, []).append(row)
    for values, rows in rows_by_values.items():
        named = zip(_SETTINGS.values(), values, strict=True)
        settings = {name: value for name, value in named if value is not None}
        some = batch.take(pa.array(rows))
        corpus.set(some.column("url"), **_keys(corpus, some), **settings)


def _restore_fetches(corpus: "Corpus", batch: "pa.RecordBatch") -> None:
    """Report the last fetch of each page, so that recrawl does not fetch it again at once."""
    import numpy as np  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415

    batch = batch.filter(batch.column("fetched_at_ms").is_valid())
    if batch.num_rows == 0:
        return
    status = [_STATUS.get(name, 200) for name in batch.column("status").to_pylist()]
    digest = [_bytes_of(text) for text in batch.column("digest").to_pylist()]

    def header(name: str) -> pa.Array:
        texts = batch.column(name).to_pylist()
        return pa.array(
            [None if t is None else t.encode("latin-1", "replace") for t in texts], pa.binary()
        )

    corpus.report(
        pa.table(
            {
                "url": batch.column("url"),
                **_keys(corpus, batch),
                "status": pa.array(np.array(status, np.int64)),
                "changed": pa.array([True] * batch.num_rows),
                "digest": pa.array(digest, pa.binary()),
                "etag": header("etag"),
                "last_modified": header("last_modified"),
                "moved_to": batch.column("moved_to"),
                "fetched_at_ms": batch.column("fetched_at_ms"),
            }
        )
    )


def _restore_disallowed(corpus: "Corpus", batch: "pa.RecordBatch") -> None:
    """Report the pages that robots.txt disallows, as if it had been read just now."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    batch = batch.filter(pc.equal(batch.column("status"), "disallowed"))
    if batch.num_rows:
        flags = pa.array([True] * batch.num_rows)
        columns = {"url": batch.column("url"), "disallowed": flags, **_keys(corpus, batch)}
        corpus.report(pa.table(columns))


def _bytes_of(text: str | None) -> bytes | None:
    try:
        return None if text is None else bytes.fromhex(text)
    except ValueError:
        return None
