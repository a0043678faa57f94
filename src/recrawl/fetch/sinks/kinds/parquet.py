"""Parquet files with a row for each version."""

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from recrawl.atomic_files import create_folder, replace_file
from recrawl.errors import SinkError
from recrawl.fetch.sinks.contract import BatchSettings, check_sink_name
from recrawl.fetch.sinks.kinds.json_lines import check_content
from recrawl.fetch.sinks.version import PageVersion

__all__ = ["ParquetSink"]

_BATCH = BatchSettings(versions_max=5_000, bytes_max=128 << 20, wait_seconds=300.0)
_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("number", pa.int64()),
        ("url", pa.string()),
        ("key", pa.string()),
        ("transition", pa.string()),
        ("fetched_at", pa.timestamp("ms", tz="UTC")),
        ("status", pa.int16()),
        ("content_type", pa.string()),
        ("digest", pa.string()),
        ("title", pa.string()),
        ("doc_id", pa.string()),
        ("metadata", pa.string()),
        ("added_passages", pa.list_(pa.struct([("hash", pa.uint64()), ("text", pa.string())]))),
        ("removed_passages", pa.list_(pa.uint64())),
    ]
)
_CONTENT = {"markdown": pa.large_string(), "text": pa.large_string(), "body": pa.large_binary()}


class ParquetSink:
    """Writes versions into Parquet files, one file per call.

    Versions are collected for ``batch.wait_seconds``, so that files are not too small.  A file is
    named by its first version and replaced as a whole: versions that are sent again after a crash
    overwrite their file, and are not there twice.

    Parameters
    ----------
    folder
        Folder for the files, which is created.
    name
        Name of the sink.
    content
        Columns with the content: ``"markdown"``, ``"text"`` and ``"body"``.
    batch
        Number of versions per file, and how long they are collected.

    Raises
    ------
    SinkError
        If the folder cannot be created.
    """

    wants_unchanged = False

    def __init__(
        self,
        folder: str | Path,
        *,
        name: str = "parquet",
        content: Sequence[str] = ("markdown",),
        batch: BatchSettings = _BATCH,
    ) -> None:
        self.name = check_sink_name(name)
        self.batch = batch
        self._content = check_content(content)
        self._folder = Path(folder)
        self._schema = _SCHEMA
        for form in self._content:
            self._schema = self._schema.append(pa.field(form, _CONTENT[form]))
        try:
            create_folder(self._folder)
        except OSError as error:
            raise SinkError(f"cannot write to {self._folder}: {error}") from error

    def write(self, versions: Sequence[PageVersion]) -> None:
        """Write a file of versions and sync it to disk; see `Sink.write`."""
        if not versions:
            return
        table = pa.Table.from_pylist(
            [_row(version, self._content) for version in versions], self._schema
        )
        first = versions[0]
        path = self._folder / f"versions-{first.spool_id}-{first.number:012}.parquet"
        try:
            with replace_file(path, is_durable=True) as file:
                pq.write_table(table, file, compression="zstd")
        except OSError as error:
            raise SinkError(f"cannot write to {self._folder}: {error}") from error

    def close(self) -> None:
        """Release nothing: no file stays open."""


def _row(version: PageVersion, content: Sequence[str]) -> dict[str, object]:
    row: dict[str, object] = {
        "id": version.id,
        "number": version.number,
        "url": _clean(version.url),
        "key": _clean(version.key),
        "transition": version.transition.name.lower(),
        "fetched_at": version.fetched_at_ms,
        "status": version.status,
        "content_type": _clean(version.content_type),
        "digest": version.digest,
        "title": _clean(version.title),
        "doc_id": _clean(version.doc_id),
        "metadata": None if version.metadata is None else json.dumps(version.metadata),
    }
    if version.passages is not None:
        row["added_passages"] = [
            {"hash": one, "text": _clean(text)} for one, text in version.added_passages
        ]
        row["removed_passages"] = list(version.removed_passages)
    for form in content:
        value = getattr(version, form)
        row[form] = _clean(value) if isinstance(value, str) else value
    return row


def _clean(text: str | None) -> str | None:
    """Return text that is valid in UTF-8."""
    return None if text is None else text.encode("utf-8", "replace").decode()
