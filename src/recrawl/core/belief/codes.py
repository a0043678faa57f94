"""A belief in four bytes: two logarithmic 16-bit codes, rounded with a dither.

Plain rounding would freeze a belief: an hourly poll adds less than half a code step to the
seconds of a page known for months, and would be lost every time.  So a value between two codes
is rounded up with a probability equal to its distance from the lower one.  For the seconds the
"coin" is not a fresh draw for each poll but a slow ramp in time from 0 to 1: over one ramp the
right share of polls is rounded up, and errors add up from ramp to ramp only (three years of
hourly polls leave a deviation of 0.3 % against 0.9 %).  Each ramp starts at an offset of its
own, hashed from page and time; one endless ramp could stay in phase with a page's polls, and be
5 % off.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import ArrayLike, as_floats
from recrawl.core.belief.gamma import GammaBelief, after_change_of
from recrawl.core.kernel import kernel
from recrawl.core.poll_columns import as_poll_columns

__all__ = [
    "BeliefCodes",
    "decode_beliefs",
    "decode_of",
    "dither_of",
    "encode_beliefs",
    "encode_of",
    "observe_stored_polls",
    "observe_stored_polls_of",
]

# shape: 2^-6 … 2^10, 4096 codes an octave; seconds: 1 s … 2^32 s (136 years), 2048 an octave.
_SHAPE_LOG2_MIN = -6.0
_SHAPE_CODES_PER_OCTAVE = 4096.0
_SECONDS_CODES_PER_OCTAVE = 2048.0
_CODE_MAX = 65_535
_LN2 = math.log(2.0)
# Length of a ramp, in code steps' worth of seconds.  Longer ones are off by more within a ramp,
# shorter ones add up more errors; from 5 to 13 it makes little difference.
_RAMP_STEPS = 8.0


class BeliefCodes(NamedTuple):
    """Stored beliefs: 4 bytes a page.

    ``shape`` has a resolution of 0.017 % from 0.016 to 1024, ``seconds`` of 0.034 % from one
    second to 136 years; beyond its range a number is stored as the nearest end.
    """

    shape: NDArray[np.uint16]
    seconds: NDArray[np.uint16]


@kernel
def _mix_bits(bits: np.uint64) -> np.uint64:
    """Return the lowest 32 of ``bits``, hashed so that each result bit depends on all of them."""
    # "lowbias32" of Wellons' hash-prospector.  Products of 32-bit numbers never overflow 64 bits,
    # so that interpreted and compiled code agree.
    mask = np.uint64(0xFFFFFFFF)
    h = bits & mask
    h = ((h ^ (h >> np.uint64(16))) * np.uint64(0x21F0AAAD)) & mask
    h = ((h ^ (h >> np.uint64(15))) * np.uint64(0x735A2D97)) & mask
    return h ^ (h >> np.uint64(15))


@kernel
def dither_of(page: int, at: int) -> float:
    """Return a number in [0, 1) that looks random but depends on ``page`` and ``at`` only."""
    a = np.uint64(page)
    b = np.uint64(at)
    h = _mix_bits(a ^ (a >> np.uint64(32))) ^ b ^ (b >> np.uint64(32))
    return float(_mix_bits(h)) * (1.0 / 4294967296.0)


@kernel
def _clip_code(code: float) -> int:
    """Return the code as an integer, limited to 16 bits."""
    return int(min(max(code, 0.0), float(_CODE_MAX)))


@kernel
def _shape_code_of(shape: float, page: int, at: int) -> int:
    code = (math.log2(shape) - _SHAPE_LOG2_MIN) * _SHAPE_CODES_PER_OCTAVE
    return _clip_code(code + dither_of(page, at))


@kernel
def _seconds_code_of(seconds: float, page: int, at: int) -> int:
    seconds_log2 = math.log2(max(seconds, 1.0))
    # The ramp's period follows the seconds by octaves: code steps are a share of them.
    period = math.ldexp(_RAMP_STEPS * _LN2 / _SECONDS_CODES_PER_OCTAVE, int(seconds_log2))
    ramp = at / period
    ramp += dither_of(page, math.floor(ramp))
    code = seconds_log2 * _SECONDS_CODES_PER_OCTAVE
    return _clip_code(math.floor(code + (ramp - math.floor(ramp))))


@kernel
def encode_of(shape: float, seconds: float, page: int, at: int) -> tuple[int, int]:
    """Return the codes of one belief, as stored for ``page`` at the instant ``at``."""
    return _shape_code_of(shape, page, at), _seconds_code_of(seconds, page, at)


@kernel
def decode_of(shape_code: int, seconds_code: int) -> tuple[float, float]:
    """Return the shape and the seconds that a pair of codes stands for."""
    return (
        math.exp(_LN2 * (shape_code / _SHAPE_CODES_PER_OCTAVE + _SHAPE_LOG2_MIN)),
        math.exp(_LN2 / _SECONDS_CODES_PER_OCTAVE * seconds_code),
    )


@kernel
def _encode(
    shape: NDArray[np.float64],
    seconds: NDArray[np.float64],
    page: NDArray[np.int64],
    at: NDArray[np.int64],
    codes: BeliefCodes,
) -> None:
    for row in range(shape.size):
        codes.shape[row], codes.seconds[row] = encode_of(
            shape[row], seconds[row], page[row], at[row]
        )


def encode_beliefs(belief: GammaBelief, page: ArrayLike, at: ArrayLike) -> BeliefCodes:
    """Return the codes of beliefs, as stored for these pages at these instants.

    Parameters
    ----------
    belief
        Beliefs, one row per page.
    page
        Page numbers.
    at
        Whole seconds since the epoch.
    """
    pages, ats = np.asarray(page, np.int64), np.asarray(at, np.int64)
    shape = np.broadcast_shapes(belief.shape.shape, pages.shape, ats.shape)
    codes = BeliefCodes(np.empty(shape, np.uint16), np.empty(shape, np.uint16))
    _encode(
        np.ravel(np.array(np.broadcast_to(belief.shape, shape))),
        np.ravel(np.array(np.broadcast_to(belief.seconds, shape))),
        np.ravel(np.array(np.broadcast_to(pages, shape))),
        np.ravel(np.array(np.broadcast_to(ats, shape))),
        BeliefCodes(codes.shape.reshape(-1), codes.seconds.reshape(-1)),
    )
    return codes


def decode_beliefs(codes: BeliefCodes) -> GammaBelief:
    """Return the beliefs that codes stand for."""
    shape = np.exp2(codes.shape / _SHAPE_CODES_PER_OCTAVE + _SHAPE_LOG2_MIN)
    return GammaBelief(shape, np.exp2(codes.seconds / _SECONDS_CODES_PER_OCTAVE))


def observe_stored_polls(
    codes: BeliefCodes,
    rows: ArrayLike,
    elapsed: ArrayLike,
    changed: ArrayLike,
    false_chance: ArrayLike,
    at: ArrayLike,
) -> None:
    """Update stored beliefs in place by one poll per entry of ``rows``, which may repeat a page.

    See `recrawl.core.belief.after_polls` for the columns; ``at`` is the instant of each poll in
    whole seconds since the epoch, and a row is also its page's number.
    """
    page, seconds, found = as_poll_columns(rows, elapsed, changed, codes.shape.size)
    chance = np.ascontiguousarray(np.broadcast_to(as_floats(false_chance), page.shape))
    ats = np.ascontiguousarray(np.broadcast_to(np.asarray(at, np.int64), page.shape))
    observe_stored_polls_of(codes, page, seconds, found, chance, ats)


@kernel
def observe_stored_polls_of(
    codes: BeliefCodes,
    rows: NDArray[np.int64],
    elapsed: NDArray[np.float64],
    changed: NDArray[np.bool_],
    false_chance: NDArray[np.float64],
    at: NDArray[np.int64],
) -> None:
    """Update stored beliefs in place, unchecked; the kernel behind `observe_stored_polls`."""
    for i in range(rows.size):
        row = rows[i]
        if changed[i]:
            shape, seconds = decode_of(codes.shape[row], codes.seconds[row])
            shape, seconds = after_change_of(shape, seconds, elapsed[i], false_chance[i])
            codes.shape[row] = _shape_code_of(shape, row, at[i])
            codes.seconds[row] = _seconds_code_of(seconds, row, at[i])
        else:
            # The shape stays as it is: coding it again would only add noise.
            seconds = math.exp(_LN2 / _SECONDS_CODES_PER_OCTAVE * codes.seconds[row])
            codes.seconds[row] = _seconds_code_of(seconds + elapsed[i], row, at[i])
