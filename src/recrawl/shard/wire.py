"""Record batches as the bytes of one log record: the Arrow message alone, without its schema.

A reader knows the schema of a record by the number stored beside it.  Larger messages have their
buffers compressed (lz4), which Arrow's readers undo by themselves.

Small batches of numbers with the same number of rows have the same head.  Such a head is built and
parsed once, and only compared after that.  Bytes with a known head and the right length are a
valid batch, whatever numbers they hold.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.errors import EventError

__all__ = ["COMPRESSED_BYTES_MIN", "NumberRecords", "pack_batch", "unpack_batch"]

# Messages of at least this size are compressed: smaller ones shrink too little for the time.
COMPRESSED_BYTES_MIN = 8_192
# Numbers are read in place, so they must begin at multiples of their size.
_ALIGNMENT = 8
_END_OF_STREAM_BYTES = 8
# Compressed on this thread: one thread writes a log, and messages are small.
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
# Exceptions that Arrow raises for broken bytes.
_NOT_A_BATCH = (pa.ArrowException, EOFError, OSError, ValueError, TypeError, KeyError, MemoryError)


def pack_batch(batch: pa.RecordBatch) -> bytes:
    """Return a batch as bytes, compressed if it is large."""
    if batch.nbytes < COMPRESSED_BYTES_MIN:
        whole: bytes = batch.serialize().to_pybytes()
        return whole
    sink = pa.BufferOutputStream()
    schema = batch.schema.remove_metadata()
    with pa.ipc.new_stream(sink, schema, options=_COMPRESSED) as writer:
        writer.write_batch(batch.replace_schema_metadata(None))
    stream = sink.getvalue()
    first = _schema_bytes(schema)
    message: bytes = stream.slice(first, stream.size - first - _END_OF_STREAM_BYTES).to_pybytes()
    return message


@cache
def _schema_bytes(schema: pa.Schema) -> int:
    """Return the size of the schema message at the beginning of a stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=_COMPRESSED):
        pass
    return int(sink.getvalue().size) - _END_OF_STREAM_BYTES


def unpack_batch(data: bytes | memoryview, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch in bytes that `pack_batch` made, fully checked; numbers are not copied."""
    try:
        batch = pa.ipc.read_record_batch(_align_buffer(data), schema)
        batch.validate(full=True)
    except _NOT_A_BATCH as error:
        raise EventError(f"the bytes are not a batch of {schema.names}: {error}") from error
    return batch


def _align_buffer(data: bytes | memoryview) -> pa.Buffer:
    buffer = pa.py_buffer(data)
    # A bytes object is aligned; a slice of a larger buffer need not be.
    return buffer if buffer.address % _ALIGNMENT == 0 else pa.py_buffer(bytes(data))


class _Layout(NamedTuple):
    """Layout of a small batch with a given number of rows."""

    head: bytes
    n_rows: int
    offsets: tuple[int, ...]
    """Offset of each column in the record."""
    gaps: tuple[bytes, ...]
    """Padding after each column."""
    n_bytes: int


class NumberRecords:
    """Convert batches of numbers of one schema, without nulls, to bytes and back.

    Parameters
    ----------
    schema
        Schema of the batches.
    dtypes
        Types of its columns, in order.
    """

    def __init__(self, schema: pa.Schema, dtypes: Iterable["np.dtype[Any]"]) -> None:
        self._schema = schema.remove_metadata()
        self._dtypes = tuple(dtypes)
        row_bytes = sum(dtype.itemsize for dtype in self._dtypes)
        # Larger batches are compressed.  This limits the number of cached layouts, too.
        self._n_rows_max = (COMPRESSED_BYTES_MIN - 1) // row_bytes
        self._by_rows: dict[int, _Layout] = {}
        self._by_head: dict[bytes, _Layout] = {}

    def pack(self, columns: Sequence[NDArray[Any]]) -> bytes:
        """Return equally long columns as bytes."""
        n_rows = columns[0].size
        if n_rows > self._n_rows_max:
            return pack_batch(self._batch_of(columns))
        layout = self._by_rows.get(n_rows) or self._add_layout(n_rows)
        pieces: list[Any] = [layout.head]
        for column, dtype, gap in zip(columns, self._dtypes, layout.gaps, strict=True):
            pieces += (np.ascontiguousarray(column, dtype).data, gap)
        record = b"".join(pieces)
        if len(record) != layout.n_bytes:
            sizes = [column.size for column in columns]
            raise ValueError(f"columns must be equally long, got {sizes}")
        return record

    def unpack(self, data: bytes | memoryview) -> list[NDArray[Any]]:
        """Return the columns in bytes that `pack` made, without a copy where possible."""
        layout = self._by_head.get(bytes(data[: _head_bytes(data)]))
        if layout is None:
            batch = unpack_batch(data, self._schema)
            if batch.num_rows <= self._n_rows_max:
                self._add_layout(batch.num_rows)  # for the next one
            return [_numbers_of(column) for column in batch.columns]
        if len(data) < layout.n_bytes:
            raise EventError(f"record must have {layout.n_bytes} bytes, got {len(data)}")
        if not isinstance(data, bytes):
            data = _align_buffer(data)
        return [
            np.frombuffer(data, dtype, layout.n_rows, offset)
            for dtype, offset in zip(self._dtypes, layout.offsets, strict=True)
        ]

    def _batch_of(self, columns: Sequence[NDArray[Any]]) -> pa.RecordBatch:
        arrays = [
            pa.array(np.ascontiguousarray(column, dtype), type_)
            for column, dtype, type_ in zip(columns, self._dtypes, self._schema.types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _add_layout(self, n_rows: int) -> _Layout:
        """Cache and return the layout of a message of ``n_rows`` rows that Arrow wrote."""
        zeros = [np.zeros(n_rows, dtype) for dtype in self._dtypes]
        record = pa.py_buffer(pack_batch(self._batch_of(zeros)))
        batch = pa.ipc.read_record_batch(record, self._schema)
        head = record.to_pybytes()[: _head_bytes(record)]
        buffers = [column.buffers()[1] for column in batch.columns]
        # Arrow gives no address for empty columns; any offset will do.
        offsets = [buffer.address - record.address if n_rows else len(head) for buffer in buffers]
        ends = [*offsets[1:], record.size]
        gaps = [
            bytes(end - offset - zero.nbytes)
            for offset, end, zero in zip(offsets, ends, zeros, strict=True)
        ]
        layout = _Layout(head, n_rows, tuple(offsets), tuple(gaps), record.size)
        self._by_rows[n_rows] = self._by_head[head] = layout
        return layout


def _numbers_of(column: pa.Array) -> NDArray[Any]:
    if column.null_count:
        raise EventError(f"columns must have no nulls, got {column.null_count}")
    numbers: NDArray[Any] = column.to_numpy()
    return numbers if numbers.flags.aligned else numbers.copy()


def _head_bytes(data: Any) -> int:
    """Return the length of a message's head, which precedes its numbers."""
    # Four bytes of marker, four of the length of the metadata, then the metadata.
    return 8 + int.from_bytes(data[4:8], "little")
