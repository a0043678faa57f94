"""Write the rows of a call as the body of a request: JSON for a few, Arrow for many."""

import base64
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recrawl.client.transport import ARROW, JSON
from recrawl.messages.orders import OUTCOME_FIELDS, Outcome

__all__ = [
    "ROWS_PER_REQUEST",
    "RowBody",
    "Urls",
    "body_of",
    "check_known_columns",
    "page_table",
    "split_rows",
    "table_of_outcomes",
    "url_array",
]

Urls: TypeAlias = Iterable[str] | pa.Array | pa.ChunkedArray

ROWS_PER_REQUEST = 10_000
_BYTES_PER_REQUEST = 8 << 20
_JSON_ROWS_MAX = 100
_OUTCOME_TYPES: dict[str, pa.DataType] = {
    "handle": pa.int64(),
    "url": pa.string(),
    "status": pa.int64(),
    "changed": pa.bool_(),
    "digest": pa.binary(),
    "etag": pa.binary(),
    "last_modified": pa.binary(),
    "fetched_at_ms": pa.int64(),
    "retry_after_seconds": pa.float64(),
    "moved_to": pa.string(),
    "disallowed": pa.bool_(),
    "divergence": pa.float64(),
    "sketch": pa.binary(),
    "key": pa.string(),
    "body": pa.binary(),
    "content_type": pa.string(),
    "text": pa.string(),
}
_DEFAULTS: dict[str, Any] = {"retry_after_seconds": 0.0, "disallowed": False, "fetched_at_ms": 0}
_SEEN = ("changed", "digest", "body", "text")


class RowBody(NamedTuple):
    """The body of a request with rows."""

    data: bytes
    content_type: str


def url_array(urls: Urls) -> pa.Array:
    """Return URLs as an Arrow array of strings.

    A single string is refused, because it would be read as a list of letters.
    """
    if isinstance(urls, (str, bytes)):
        raise TypeError(f"urls must be a list or an array of URLs, got a single one: {urls!r}")
    if isinstance(urls, pa.ChunkedArray):
        urls = urls.combine_chunks()
    if isinstance(urls, pa.Array):
        return urls.cast(pa.string())
    return pa.array([_utf8_or_none(url) for url in urls], pa.string())


def _utf8_or_none(text: str | None) -> str | None:
    """Return a text, or None if it has a lone surrogate and so no UTF-8 form."""
    if text is None:
        return None
    try:
        text.encode()
    except UnicodeEncodeError:
        return None
    return text


def page_table(urls: Urls, **columns: Any) -> pa.Table:
    """Return rows about pages as a table.

    Parameters
    ----------
    urls
        URLs of the pages.
    **columns
        Further columns: one value for all rows or one for each; None for no column.
    """
    url = url_array(urls)
    found = {"url": url}
    for name, values in columns.items():
        if values is not None:
            found[name] = _column(name, values, len(url))
    return pa.table(found)


def _column(name: str, values: Any, n_rows: int) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if name in ("metadata", "doc_id", "key"):
        is_one = isinstance(values, str | bytes | Mapping) or not hasattr(values, "__len__")
        rows = [values] * n_rows if is_one else _plain_list(values)
        if name == "metadata":
            rows = [_metadata_text(one) for one in rows]
        array = pa.array([None if one is None else str(one) for one in rows], pa.string())
    else:
        type_ = pa.int64() if name.endswith("_ms") else pa.float64()
        if isinstance(values, pa.Array):
            array = values.cast(type_)
        else:
            numbers = np.asarray(values)
            if numbers.dtype == object:
                raise ValueError(f"{name} must be numbers, got {values!r}")
            if numbers.ndim == 0:
                numbers = np.full(n_rows, numbers)
            array = pa.array(numbers).cast(type_)
    if len(array) != n_rows:
        raise ValueError(f"{name} must have one value for each of {n_rows} URLs, got {len(array)}")
    return array


def _plain_list(values: Any) -> list[Any]:
    return values.to_pylist() if isinstance(values, pa.Array) else list(values)


def _metadata_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return json.dumps(dict(value), ensure_ascii=False)
    return json.dumps(value)  # not an object: the server refuses the row


def table_of_outcomes(
    outcomes: Outcome | Iterable[Outcome] | pa.Table | pa.RecordBatch, now_ms: int
) -> pa.Table:
    """Return outcomes as a table with the columns that the service takes.

    An outcome without an order and a time gets the present time, so that it counts once if the
    request is repeated.

    Parameters
    ----------
    outcomes
        An outcome, several, or a table with the fields of `Outcome` as columns.
    now_ms
        Present time, in milliseconds since 1970.
    """
    if isinstance(outcomes, Outcome):
        outcomes = [outcomes]
    if isinstance(outcomes, pa.RecordBatch):
        outcomes = pa.Table.from_batches([outcomes])
    table = outcomes if isinstance(outcomes, pa.Table) else _table_of(list(outcomes))
    check_known_columns(table.schema.names, OUTCOME_FIELDS)
    table = pa.table(
        {name: table.column(name).cast(_OUTCOME_TYPES[name]) for name in table.schema.names}
    )
    return _check_rows(table, now_ms)


def check_known_columns(names: Sequence[str], known: Sequence[str]) -> None:
    """Raise if a table has a column that is not known."""
    for name in names:
        if name not in known:
            raise ValueError(f"columns must be among {', '.join(known)}, got {name!r}")


def _table_of(outcomes: list[Outcome]) -> pa.Table:
    for one in outcomes:
        if one.observation is not None:
            raise ValueError(
                "an observation cannot be sent to a service; report the body or the text instead"
            )
    columns = {}
    for name, type_ in _OUTCOME_TYPES.items():
        values = [getattr(one, name) for one in outcomes]
        if name == "divergence":
            values = [None if math.isnan(value) else value for value in values]
        default = _DEFAULTS.get(name)
        if name in ("handle", "status") or any(value != default for value in values):
            columns[name] = pa.array(values, type_)
    return pa.table(columns)


def _check_rows(table: pa.Table, now_ms: int) -> pa.Table:
    """Return outcomes with their times; raise if one says nothing."""
    n_rows, names = table.num_rows, table.schema.names

    def values(name: str, missing: Any) -> Any:
        if name not in names:
            return np.full(n_rows, missing)
        return table.column(name).fill_null(missing).to_numpy()

    is_ordered = values("handle", 0) > 0
    status = values("status", 200)
    is_seen = values("disallowed", False).astype(bool)
    for name in _SEEN:
        if name in names:
            is_seen |= pc.is_valid(table.column(name)).to_numpy()
    is_silent = ~is_seen & (status >= 200) & (status < 300)
    if is_silent.any():
        row = int(np.flatnonzero(is_silent)[0])
        raise ValueError(
            f"outcome {row} has status {status[row]}, and so needs a body, text, digest or changed"
        )
    fetched_at = values("fetched_at_ms", 0)
    is_timeless = ~is_ordered & (fetched_at == 0)
    if is_timeless.any():
        column = pa.array(np.where(is_timeless, now_ms, fetched_at).astype(np.int64))
        if "fetched_at_ms" in names:
            table = table.set_column(names.index("fetched_at_ms"), "fetched_at_ms", column)
        else:
            table = table.append_column("fetched_at_ms", column)
    return table


def split_rows(table: pa.Table) -> Iterator[pa.Table]:
    """Yield the rows in parts that fit into one request each."""
    n_rows = table.num_rows
    if n_rows == 0:
        return
    n_parts = max(-(-table.nbytes // _BYTES_PER_REQUEST), -(-n_rows // ROWS_PER_REQUEST), 1)
    n_each = max(-(-n_rows // n_parts), 1)
    for first in range(0, n_rows, n_each):
        yield table.slice(first, n_each)


def body_of(table: pa.Table) -> RowBody:
    """Return rows as the body of a request."""
    if table.num_rows <= _JSON_ROWS_MAX and _fits_json(table):
        rows = [_json_row(row) for row in table.to_pylist()]
        return RowBody(json.dumps(rows, ensure_ascii=False).encode(), JSON)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return RowBody(sink.getvalue().to_pybytes(), ARROW)


def _fits_json(table: pa.Table) -> bool:
    """Return whether JSON can say the same: bytes of a digest must be ASCII, and no row null."""
    names = table.schema.names
    if "body" in names or ("url" in names and "handle" not in names and table["url"].null_count):
        return False
    if "metadata" in names and not all(
        one is None or isinstance(_metadata_object(one), dict)
        for one in table["metadata"].to_pylist()
    ):
        return False  # JSON of another type would be an error of the whole request
    if "digest" in names:
        return all(one is None or one.isascii() for one in table["digest"].to_pylist())
    return True


def _json_row(row: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in row.items():
        if value is None:
            continue
        if name == "sketch":
            found["sketch_base64"] = base64.b64encode(value).decode()
        elif isinstance(value, bytes):
            found[name] = value.decode("latin-1")
        elif name == "metadata":
            found[name] = _metadata_object(value)
        else:
            found[name] = value
    return found


def _metadata_object(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
