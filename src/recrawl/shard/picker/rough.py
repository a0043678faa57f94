"""Due times good to a ten-thousandth in a few nanoseconds: what a pass over all pages asks first.

An exact due time takes two powers of two from the C library, several times as long as all the
rest.  A pass over millions of pages can do with less, as long as it looks again at those few
pages that come out as due, or nearly so.
"""

import math

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import FloatArray
from recrawl.core.kernel import table_kernel
from recrawl.core.price.due_table import LOG2_NEVER
from recrawl.shard.due import Terms
from recrawl.shard.state.words import CODES_PER_OCTAVE, log2_period_of, log2_weight_of

__all__ = ["ROUGHNESS", "first_positions", "rough_age_of", "rough_exp2_of"]

# By how much, at most, a rough age is off; a share of the age.
ROUGHNESS = 1e-4

_OCTAVES = np.exp2(np.arange(-64.0, 128.0))
_OCTAVE_ZERO = 64.0
_LOG2_PERIOD_MIN = log2_period_of(np.uint64(0))
_LOG2_WEIGHT_MIN = log2_weight_of(np.uint64(0))
# By scale code.
_PERIODS = np.exp2(_LOG2_PERIOD_MIN + np.arange(256.0) / CODES_PER_OCTAVE)


@table_kernel
def _write_positions(terms: Terms, log2_price: float, positions: FloatArray) -> None:
    table = terms.table
    smallest = _LOG2_PERIOD_MIN + _LOG2_WEIGHT_MIN + table.log2_target_min
    for shape in range(terms.log2_bonus.size):
        target = log2_price - smallest - terms.log2_bonus[shape]
        positions[shape] = target / table.log2_target_step
    positions[positions.size - 1] = 1.0 / (CODES_PER_OCTAVE * table.log2_target_step)


def first_positions(terms: Terms, log2_price: float) -> FloatArray:
    """Return, by shape, where in the due table pages of the smallest codes stand at a price.

    The last number is by how much each code moves a page down.
    """
    positions = np.empty(terms.log2_bonus.size + 1)
    _write_positions(terms, float(log2_price), positions)
    return positions


@table_kernel
def rough_exp2_of(x: float) -> float:
    """Return 2^x to 8e-5, for x between -64 and 128."""
    octave = int(x + _OCTAVE_ZERO)
    # The cubic of least relative error on [0, 1].
    f = x + _OCTAVE_ZERO - octave
    cubic = 0.99992783 + f * (0.6957771 + f * (0.22623319 + f * 0.07790716))
    return float(cubic * _OCTAVES[np.uint64(octave)])


@table_kernel
def rough_age_of(word: np.uint64, due: NDArray[np.float32], positions: FloatArray) -> float:
    """Return the effective age at which a page comes due, in seconds; inf if never.

    Negative for the few pages at the ends of the table, of which only an exact look can tell.

    Parameters
    ----------
    word
        Of the page.
    due
        Of the due table: alone, because passing a tuple of tables takes longer than the look-up.
    positions
        The `first_positions` of the price.
    """
    # Indices are unsigned: a signed one is first asked whether it counts from the end.
    scale = (word >> np.uint64(32)) & np.uint64(0xFF)
    weight = (word >> np.uint64(40)) & np.uint64(0xFF)
    class_code = (word >> np.uint64(48)) & np.uint64(0x3FF)
    shape = (word >> np.uint64(58)) & np.uint64(0x1F)
    per_code = positions[positions.size - 1]
    position = positions[shape] - float(np.int64(scale + weight)) * per_code
    if position < 0.0:
        return -1.0
    i = min(int(position), due.shape[2] - 2)
    low = float(due[shape, class_code, np.uint64(i)])
    high = float(due[shape, class_code, np.uint64(i + 1)])
    if high >= LOG2_NEVER:
        return math.inf if low >= LOG2_NEVER else -1.0
    return rough_exp2_of(low + (high - low) * min(position - i, 1.0)) * float(_PERIODS[scale])
