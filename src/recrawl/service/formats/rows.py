"""Turn the bodies of requests into tables, whatever their format.

JSON, JSON lines and Arrow lead to the same columns, which a corpus takes as they are.
"""

from typing import Any

import msgspec
import pyarrow as pa

from recrawl.service.formats.arrow_bodies import read_arrow
from recrawl.service.formats.row_kinds import RowKind
from recrawl.service.limits import ServiceLimits
from recrawl.service.problems import Problem

__all__ = ["ARROW", "JSON", "NDJSON", "BodyRows", "body_format", "decode_json", "read_rows"]

JSON = "application/json"
NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
_FORMATS = {
    JSON: JSON,
    NDJSON: NDJSON,
    "application/ndjson": NDJSON,
    "application/jsonl": NDJSON,
    ARROW: ARROW,
}
# A row of metadata may have objects inside it.
_OBJECTS_PER_ROW = 20
# Floats below this have exactly one whole number each.
_EXACT_MAX = 1 << 53
_decoders: dict[type[Any], msgspec.json.Decoder[Any]] = {}


def body_format(content_type: str | None, *, only_json: bool = False) -> str:
    """Return the format that a Content-Type stands for: `JSON`, `NDJSON` or `ARROW`."""
    name = (content_type or "").partition(";")[0].strip().lower()
    found = _FORMATS.get(name)
    if found is None or (only_json and found != JSON):
        accepted = JSON if only_json else ", ".join((JSON, NDJSON, ARROW))
        raise Problem(
            "unknown-format",
            f"Content-Type must be one of {accepted}, got {name[:60]!r}",
            headers={"Accept": accepted},
        )
    return found


class BodyRows:
    """The rows of a request: decoded from JSON, or as a table.

    Parameters
    ----------
    kind
        Kind of the rows.
    decoded
        Rows decoded from JSON; None if there is a table.
    table
        Table of the rows; None to make it from the decoded ones.
    """

    def __init__(
        self, kind: RowKind, decoded: list[Any] | None = None, table: pa.Table | None = None
    ) -> None:
        self.kind = kind
        self.decoded = decoded
        self.table = table

    def __len__(self) -> int:
        if self.decoded is not None:
            return len(self.decoded)
        return 0 if self.table is None else int(self.table.num_rows)

    def column(self, name: str) -> pa.Array | None:
        """Return a column; None if no row has a value in it."""
        type_ = self.kind.columns[name].type
        if self.decoded is None:
            if self.table is None or name not in self.table.schema.names:
                return None
            column = self.table.column(name)
            column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            return None if column.null_count == len(column) else column
        values = [getattr(row, name) for row in self.decoded]
        if name == "metadata":
            if not any(value is not None for value in values):
                return None
            encode = msgspec.json.encode
            values = [None if value is None else encode(value).decode() for value in values]
        elif values.count(None) == len(values):
            return None
        return pa.array(values, type_)

    def column_or_nulls(self, name: str) -> pa.Array:
        """Return a column, full of nulls if no row has a value in it."""
        column = self.column(name)
        return pa.nulls(len(self), self.kind.columns[name].type) if column is None else column


def read_rows(body: bytes, format: str, kind: RowKind, limits: ServiceLimits) -> BodyRows:
    """Return the rows of a body.

    Parameters
    ----------
    body
        Bytes of the body, decompressed.
    format
        `JSON` (an array of objects), `NDJSON` or `ARROW`.
    kind
        Kind of the rows.
    limits
        Limits of the server.
    """
    if format == ARROW:
        return BodyRows(kind, table=read_arrow(body, kind, limits.rows_max))
    if body.count(b"{") > limits.rows_max * _OBJECTS_PER_ROW:
        raise _too_many(limits)
    rows_type: Any = list[kind.row]  # type: ignore[name-defined]
    if format == NDJSON:
        rows = _decode(_decoder_of(kind.row).decode_lines, body, rows_type, is_lines=True)
    else:
        rows = _decode(_decoder_of(rows_type).decode, body, rows_type)
    if len(rows) > limits.rows_max:
        raise _too_many(limits)
    return BodyRows(kind, rows)


def decode_json(body: bytes, type_: type[Any]) -> Any:
    """Return the value in a JSON body, checked against a type.

    Parameters
    ----------
    body
        Bytes of the body, decompressed.
    type_
        Class of the value.
    """
    return _decode(_decoder_of(type_).decode, body, type_)


def _too_many(limits: ServiceLimits) -> Problem:
    return Problem(
        "too-many-rows",
        f"a request has at most {limits.rows_max:,} rows",
        rows_max=limits.rows_max,
    )


def _decoder_of(type_: Any) -> "msgspec.json.Decoder[Any]":
    decoder = _decoders.get(type_)
    if decoder is None:
        decoder = _decoders[type_] = msgspec.json.Decoder(type_)
    return decoder


def _decode(decode: Any, body: bytes, type_: Any, *, is_lines: bool = False) -> Any:
    try:
        try:
            return decode(body)
        except msgspec.ValidationError as error:
            if "got `float`" not in str(error):
                raise
            # To JSON Schema, and to languages with floats only, 5.0 is a whole number.
            plain = (
                msgspec.json.Decoder().decode_lines(body) if is_lines else msgspec.json.decode(body)
            )
            return msgspec.convert(_with_whole_numbers(plain), type_)
    except msgspec.ValidationError as error:
        raise Problem("invalid-value", str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem("invalid-body", f"the JSON cannot be read: {error}") from None


def _with_whole_numbers(value: Any) -> Any:
    """Return a value of JSON in which floats that are whole numbers are integers."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < _EXACT_MAX else value
    if isinstance(value, list):
        return [_with_whole_numbers(one) for one in value]
    if isinstance(value, dict):
        return {name: _with_whole_numbers(one) for name, one in value.items()}
    return value
