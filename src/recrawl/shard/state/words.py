"""The word of a page: all data that a decision needs of it, in eight bytes.

A page comes due at an age that depends on a few small codes and on the price.  The codes and the
instant that the age counts from form one 64-bit word, so that a pass over all pages reads only
eight bytes of each:

====== ==== =====================================================================================
bits   size field
====== ==== =====================================================================================
0-30   31   effective last fetch, shard seconds; signals move it back
31     1    held: may not be ordered (in flight, retired, or a free slot)
32-39  8    scale: mean period of the belief, a tenth of an octave a step
40-47  8    weight: importance × ceiling ÷ cost, in the same steps
48-57  10   class of its signals or of its curve, as in `recrawl.core.price.DueCodes`
58-62  5    shape of the belief
63     1    bounded: the page has limits or a back-off in other columns
====== ==== =====================================================================================

Shard seconds count from 1990: 31 bits of them last until 2058, and a signal can age a page by
decades.
"""

import math

import numpy as np

from recrawl.core.kernel import table_kernel

__all__ = [
    "CODES_PER_OCTAVE",
    "EPOCH_SECONDS",
    "HELD",
    "SECONDS_MAX",
    "class_of",
    "is_bounded",
    "is_held",
    "last_of",
    "log2_period_of",
    "log2_weight_of",
    "number_of",
    "scale_code_of",
    "shape_of",
    "weight_code_of",
    "with_bounded",
    "with_codes",
    "with_held",
    "with_last",
]

EPOCH_SECONDS = 631_152_000  # 1990-01-01
SECONDS_MAX = 2**31 - 1
CODES_PER_OCTAVE = 10.0
# 42 seconds to 66 years
_SCALE_LOG2_MIN = 5.4
_WEIGHT_ONE = 128.0
HELD = np.uint64(1 << 31)


@table_kernel
def number_of(code: int) -> int:
    """Return an integer of a column as a signed one: mixed with unsigned, it becomes a float."""
    return int(np.int64(code))


@table_kernel
def last_of(word: np.uint64) -> int:
    """Return the effective last fetch in shard seconds."""
    return int(np.int64(word & np.uint64(0x7FFFFFFF)))


@table_kernel
def is_held(word: np.uint64) -> bool:
    """Return whether the page may not be ordered."""
    return bool(word & np.uint64(0x80000000))


@table_kernel
def is_bounded(word: np.uint64) -> bool:
    """Return whether the page has limits or a back-off in other columns."""
    return bool(word >> np.uint64(63))


@table_kernel
def class_of(word: np.uint64) -> int:
    """Return the code of the page's signals or curve."""
    return int(np.int64((word >> np.uint64(48)) & np.uint64(0x3FF)))


@table_kernel
def shape_of(word: np.uint64) -> int:
    """Return the code of the belief's shape."""
    return int(np.int64((word >> np.uint64(58)) & np.uint64(0x1F)))


@table_kernel
def log2_period_of(word: np.uint64) -> float:
    """Return log2 of the belief's mean period in seconds."""
    scale = np.int64((word >> np.uint64(32)) & np.uint64(0xFF))
    return _SCALE_LOG2_MIN + scale / CODES_PER_OCTAVE


@table_kernel
def log2_weight_of(word: np.uint64) -> float:
    """Return log2 of the page's weight."""
    weight = np.int64((word >> np.uint64(40)) & np.uint64(0xFF))
    return (weight - _WEIGHT_ONE) / CODES_PER_OCTAVE


@table_kernel
def scale_code_of(period: float) -> int:
    """Return the code of a mean period in seconds."""
    code = (math.log2(period) - _SCALE_LOG2_MIN) * CODES_PER_OCTAVE
    return int(min(max(code + 0.5, 0.0), 255.0))


@table_kernel
def weight_code_of(log2_weight: float) -> int:
    """Return the code of a weight given as its log2."""
    return int(min(max(log2_weight * CODES_PER_OCTAVE + _WEIGHT_ONE + 0.5, 0.0), 255.0))


@table_kernel
def with_last(word: np.uint64, last: int) -> np.uint64:
    """Return the word with another effective last fetch."""
    second = np.uint64(min(max(last, 1), SECONDS_MAX))
    return (word & np.uint64(0xFFFFFFFF80000000)) | second


@table_kernel
def with_held(word: np.uint64, held: bool) -> np.uint64:
    """Return the word with the held flag set or cleared."""
    if held:
        return word | np.uint64(0x80000000)
    return word & np.uint64(0xFFFFFFFF7FFFFFFF)


@table_kernel
def with_bounded(word: np.uint64, bounded: bool) -> np.uint64:
    """Return the word with the bounded flag set or cleared."""
    if bounded:
        return word | np.uint64(0x8000000000000000)
    return word & np.uint64(0x7FFFFFFFFFFFFFFF)


@table_kernel
def with_codes(
    word: np.uint64, scale_code: int, weight_code: int, class_code: int, shape_code: int
) -> np.uint64:
    """Return the word with other codes and the same instant and flags."""
    codes = (
        (np.uint64(scale_code) << np.uint64(32))
        | (np.uint64(weight_code) << np.uint64(40))
        | (np.uint64(class_code) << np.uint64(48))
        | (np.uint64(shape_code) << np.uint64(58))
    )
    return (word & np.uint64(0x80000000FFFFFFFF)) | codes
