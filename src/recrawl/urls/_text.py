"""Arrow strings as kernels see them, bytes and offsets, and back.

An Arrow string array is one run of bytes and, for each row, where its text begins and ends in
it.  Kernels take those two as numpy arrays, without a copy, and answer with spans: where in the
bytes each row's piece stands.
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
    "as_strings",
    "strings_at",
    "text_of",
]

ByteArray: TypeAlias = NDArray[np.uint8]
SpanArray: TypeAlias = NDArray[np.int32]
"""Places in the bytes of a batch."""

BATCH_BYTES_MAX = 2**31 - 1
"""Bytes of all strings of a batch: what 32-bit offsets can name."""


class Text(NamedTuple):
    """The rows of a string array: row i is ``data[offset[i]:offset[i + 1]]``."""

    data: ByteArray
    offset: SpanArray


def as_strings(urls: Sequence[str | None] | pa.Array | pa.ChunkedArray) -> pa.StringArray:
    """Return strings as one Arrow array, without a copy where they are one.

    A string that UTF-8 has no bytes for (a lone surrogate) is null.
    """
    if isinstance(urls, str):
        raise TypeError("urls must be a sequence of strings, got one string")
    if not isinstance(urls, pa.Array | pa.ChunkedArray):
        urls = _of_sequence(urls)
    if urls.type != pa.string():
        urls = _cast(urls)
    if isinstance(urls, pa.ChunkedArray):
        urls = _joined(urls)
    return urls


def _of_sequence(strings: Sequence[str | None]) -> Any:
    try:
        return pa.array(strings, pa.string())
    except UnicodeEncodeError:
        return pa.array([None if _is_broken(text) else text for text in strings], pa.string())


def _is_broken(text: str | None) -> bool:
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


def _joined(urls: pa.ChunkedArray) -> pa.StringArray:
    if urls.num_chunks == 1:
        return urls.chunk(0)
    if urls.nbytes > BATCH_BYTES_MAX:
        raise ValueError(f"urls of a batch must be within 2 GiB, got {urls.nbytes} bytes")
    return pa.concat_arrays(urls.chunks) if urls.num_chunks else pa.array([], pa.string())


def text_of(strings: pa.StringArray) -> Text:
    """Return the bytes and offsets of strings, as they lie in memory."""
    if strings.type != pa.string():
        raise TypeError(f"urls must be an Arrow array of strings, got {strings.type}")
    n_rows = len(strings)
    if n_rows == 0:
        return Text(_frozen(np.empty(0, np.uint8)), _frozen(np.zeros(1, np.int32)))
    _, offsets, data = strings.buffers()
    first = strings.offset
    return Text(
        _frozen(np.frombuffer(data or b"", np.uint8)),
        _frozen(np.frombuffer(offsets, np.int32)[first : first + n_rows + 1]),
    )


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array as one that cannot be written to: kernels are compiled for one kind."""
    array = array.view()
    array.flags.writeable = False
    return array


def strings_at(
    data: ByteArray, start: SpanArray, end: SpanArray, valid: FlagArray
) -> pa.StringArray:
    """Return the strings at spans of bytes, of whole characters and apart; null where not valid."""
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
