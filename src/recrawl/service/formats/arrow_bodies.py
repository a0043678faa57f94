"""Read Arrow IPC streams from clients, without trusting what they say about themselves."""

import struct
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from recrawl.service.formats.row_kinds import RowKind
from recrawl.service.problems import Problem

__all__ = ["read_arrow"]

_MESSAGES_MAX = 10_000
# Places of fields in the tables of Arrow's Message.fbs.
_HEADER = 2
_DATA_OF_DICTIONARY = 1
_COMPRESSION = 3
_DICTIONARY, _BATCH = "dictionary", "record batch"


def read_arrow(body: bytes, kind: RowKind, n_rows_max: int) -> pa.Table:
    """Return the table of an Arrow IPC stream, with the columns and types of a kind of rows.

    Parameters
    ----------
    body
        Bytes of the stream.
    kind
        Kind of the rows.
    n_rows_max
        Largest number of rows.
    """
    try:
        for type_, metadata in _messages(body):
            if type_ == _DICTIONARY:
                raise Problem("unknown-format", "the columns must not be dictionaries")
            if type_ == _BATCH and _is_compressed(metadata):
                raise Problem(
                    "unknown-format", "the buffers must not be compressed; use Content-Encoding"
                )
        with pa.ipc.open_stream(body) as reader:
            _check_schema(reader.schema, kind)
            batches, n_rows = [], 0
            for batch in reader:
                n_rows += batch.num_rows
                if n_rows > n_rows_max:
                    raise Problem(
                        "too-many-rows",
                        f"a request has at most {n_rows_max:,} rows",
                        rows_max=n_rows_max,
                    )
                batch.validate(full=True)
                batches.append(batch)
            table = pa.Table.from_batches(batches, reader.schema)
        return _cast(table, kind)
    except (pa.ArrowException, struct.error, OSError, ValueError, IndexError) as error:
        if isinstance(error, Problem):
            raise
        raise Problem("invalid-body", f"not a valid Arrow IPC stream: {error}") from None


def _messages(body: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the type and the metadata of each message."""
    reader = pa.ipc.MessageReader.open_stream(body)
    for _ in range(_MESSAGES_MAX):
        try:
            message = reader.read_next_message()
        except StopIteration:
            return
        yield message.type, message.metadata.to_pybytes()
    raise Problem("too-many-rows", f"a stream has at most {_MESSAGES_MAX:,} batches")


def _is_compressed(metadata: bytes) -> bool:
    """Return whether the metadata of a record batch names a compression."""
    (root,) = struct.unpack_from("<I", metadata)
    batch = _table_at(metadata, root, _HEADER)
    return batch is not None and _table_at(metadata, batch, _COMPRESSION) is not None


def _table_at(data: bytes, table: int, field: int) -> int | None:
    """Return where the table in a field of a FlatBuffers table starts; None if it is not set."""
    (to_vtable,) = struct.unpack_from("<i", data, table)
    vtable = table - to_vtable
    if vtable < 0:
        raise ValueError("the metadata of a message is not valid")
    (n_bytes,) = struct.unpack_from("<H", data, vtable)
    place = 4 + 2 * field
    if place + 2 > n_bytes:
        return None
    (offset,) = struct.unpack_from("<H", data, vtable + place)
    if offset == 0:
        return None
    (to_table,) = struct.unpack_from("<I", data, table + offset)
    return int(table + offset + to_table)


def _is_accepted(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether a column may be given in a type: no type in which bytes can be repeated."""
    types = pa.types
    is_text = types.is_string(given) or types.is_large_string(given)
    if types.is_string(wanted):
        is_accepted = is_text
    elif types.is_binary(wanted):
        is_accepted = is_text or types.is_binary(given) or types.is_large_binary(given)
    elif types.is_boolean(wanted):
        is_accepted = types.is_boolean(given)
    else:
        is_accepted = types.is_integer(given) or (
            types.is_floating(wanted) and types.is_floating(given)
        )
    return bool(is_accepted or types.is_null(given))


def _check_schema(schema: pa.Schema, kind: RowKind) -> None:
    if len(set(schema.names)) != len(schema.names):
        raise Problem("invalid-value", "the names of columns must differ")
    for field in schema:
        wanted = kind.columns.get(field.name)
        if wanted is None:
            known = ", ".join(kind.columns)
            raise Problem(
                "invalid-value", f"columns must be among {known}, got {field.name[:60]!r}"
            )
        if not _is_accepted(field.type, wanted.type):
            raise Problem(
                "invalid-value",
                f"column {field.name} must be of the type {wanted.type}, got {field.type}",
            )
    for name, column in kind.columns.items():
        if column.is_needed and name not in schema.names:
            raise Problem("invalid-value", f"the column {name} is missing")


def _cast(table: pa.Table, kind: RowKind) -> pa.Table:
    """Return the table with the types of its kind, after checking the ranges of numbers."""
    columns = {}
    for name in table.schema.names:
        wanted = kind.columns[name]
        try:
            column = table.column(name).cast(wanted.type).combine_chunks()
        except pa.ArrowInvalid as error:
            raise Problem("invalid-value", f"column {name}: {error}") from None
        if pa.types.is_floating(wanted.type):
            # NaN means that there is no value, as null does.
            column = pc.if_else(pc.is_nan(column), pa.scalar(None, wanted.type), column)
        if wanted.low is not None and len(column):
            lowest, highest = pc.min_max(column).as_py().values()
            if lowest is not None and not wanted.low <= lowest <= highest <= (wanted.high or 0):
                raise Problem(
                    "invalid-value",
                    f"{name} must be {wanted.low:g} to {wanted.high:g}, got {lowest} to {highest}",
                )
        columns[name] = column
    return pa.table(columns) if columns else table
