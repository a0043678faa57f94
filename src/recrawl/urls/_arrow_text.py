"""Convert Arrow strings to bytes and offsets for kernels, and back.

An Arrow string array is a buffer of bytes and the offset of each row in it.  Kernels take both as
numpy arrays without a copy, and return spans: the beginning and end of a piece of each row.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.core.arrays import FlagArray
from recrawl.core.kernel import table_kernel

__all__ = [
    "BATCH_BYTES_MAX",
    "ByteArray",
    "SpanArray",
    "Text",
    "string_array",
    "strings_at",
    "text_of",
]

ByteArray: TypeAlias = NDArray[np.uint8]
SpanArray: TypeAlias = NDArray[np.int32]
"""Offsets in the bytes of a batch."""

BATCH_BYTES_MAX = 2**31 - 1
"""Most bytes of all strings of a batch; the limit of 32-bit offsets."""


class Text(NamedTuple):
    """The rows of a string array: row i is ``data[offset[i]:offset[i + 1]]``."""

    data: ByteArray
    offset: SpanArray


def string_array(urls: Sequence[str | None] | pa.Array | pa.ChunkedArray) -> pa.StringArray:
    """Return strings as one Arrow array, without a copy if possible.

    A string that cannot be encoded in UTF-8, because of a lone surrogate, becomes null.
    """
    if isinstance(urls, str):
        raise TypeError("urls must be a sequence of strings, got one string")
    if not isinstance(urls, pa.Array | pa.ChunkedArray):
        urls = _array_of_sequence(urls)
    if urls.type != pa.string():
        urls = _cast(urls)
    if isinstance(urls, pa.ChunkedArray):
        urls = _one_chunk(urls)
    return urls


def _array_of_sequence(strings: Sequence[str | None]) -> Any:
    try:
        return pa.array(strings, pa.string())
    except UnicodeEncodeError:
        return pa.array([None if _is_not_utf8(text) else text for text in strings], pa.string())


def _is_not_utf8(text: str | None) -> bool:
    try:
        str.encode(text or "")
    except UnicodeEncodeError:
        return True
    return False


def _cast(urls: Any) -> Any:
    type_ = urls.type.value_type if pa.types.is_dictionary(urls.type) else urls.type
    if type_ not in (pa.string(), pa.large_string(), pa.string_view(), pa.null()):
        raise TypeError(f"urls must be strings, got an Arrow array of {type_}")
    try:
        return urls.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise ValueError(f"urls must be strings of a batch within 2 GiB: {error}") from error


def _one_chunk(urls: pa.ChunkedArray) -> pa.StringArray:
    if urls.num_chunks == 1:
        return urls.chunk(0)
    if urls.nbytes > BATCH_BYTES_MAX:
        raise ValueError(f"urls of a batch must be within 2 GiB, got {urls.nbytes} bytes")
    return pa.concat_arrays(urls.chunks) if urls.num_chunks else pa.array([], pa.string())


def text_of(strings: pa.StringArray) -> Text:
    """Return the bytes and offsets of strings, without a copy."""
    if strings.type != pa.string():
        raise TypeError(f"urls must be an Arrow array of strings, got {strings.type}")
    n_rows = len(strings)
    if n_rows == 0:
        return Text(_read_only(np.empty(0, np.uint8)), _read_only(np.zeros(1, np.int32)))
    _, offsets, data = strings.buffers()
    first = strings.offset
    return Text(
        _read_only(np.frombuffer(data or b"", np.uint8)),
        _read_only(np.frombuffer(offsets, np.int32)[first : first + n_rows + 1]),
    )


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view; kernels are compiled for read-only arrays only."""
    array = array.view()
    array.flags.writeable = False
    return array


def strings_at(
    data: ByteArray, start: SpanArray, end: SpanArray, valid: FlagArray
) -> pa.StringArray:
    """Return the strings at spans of bytes; null where not valid.

    Spans must be of whole characters and must not overlap.
    """
    size = (end - start) * valid
    offset = np.zeros(size.size + 1, np.int32)
    np.cumsum(size, out=offset[1:])
    out = np.empty(int(offset[-1]), np.uint8)
    _copy_spans(data, start, offset, out)
    has_nulls = not valid.all()
    return pa.Array.from_buffers(
        pa.string(),
        size.size,
        [
            pa.array(valid).buffers()[1] if has_nulls else None,
            pa.py_buffer(offset),
            pa.py_buffer(out),
        ],
    )


@table_kernel
def _copy_spans(data: ByteArray, start: SpanArray, offset: SpanArray, out: ByteArray) -> None:
    for i in range(start.size):
        first = start[i]
        for k in range(offset[i + 1] - offset[i]):
            out[offset[i] + k] = data[first + k]
