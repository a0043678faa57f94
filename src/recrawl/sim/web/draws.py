"""Random numbers per entity, so that no other entity can change its history.

A draw is a hash of (seed, stream, entity, counter).  No generator is shared, so neither an added
page nor the choices of a policy change any other draw.
"""

import math

import numpy as np

from recrawl.core.arrays import FloatArray, RowArray
from recrawl.core.kernel import kernel

__all__ = [
    "Stream",
    "exponential_of",
    "gamma_of",
    "key_of",
    "normal_of",
    "normals",
    "uniform_of",
    "uniforms",
]


class Stream:
    """Numbers that separate the draws of different purposes."""

    RATE = 1
    IMPORTANCE = 2
    INTERVALS = 3
    DRIFT = 4
    SITE_WIDE = 5
    TAKES_PART = 6
    FLAPS = 7
    ITEMS = 8
    REQUESTS = 9
    ERRORS = 10
    OUTAGES = 11
    GROUP_SIZE = 12
    GROUP_DELAY = 13
    GROUP_OF_PAGE = 14
    RECALL = 15
    PRECISION = 16
    KIND = 17
    AGE = 18
    HAS_DATE = 19
    SIGNALS = 100  # two for each source: true and false signals


@kernel
def _mix_bits(bits: np.uint64) -> np.uint64:
    # Chris Wellons' lowbias32, as in `recrawl.core.belief.codes`; products of 32-bit numbers
    # cannot overflow.
    mask = np.uint64(0xFFFFFFFF)
    h = bits & mask
    h = ((h ^ (h >> np.uint64(16))) * np.uint64(0x21F0AAAD)) & mask
    h = ((h ^ (h >> np.uint64(15))) * np.uint64(0x735A2D97)) & mask
    return h ^ (h >> np.uint64(15))


@kernel
def key_of(seed: int, stream: int, entity: int) -> np.uint64:
    """Return the key under which an entity draws for one purpose."""
    shift = np.uint64(32)
    s = np.uint64(seed)
    e = np.uint64(entity)
    low = _mix_bits(_mix_bits(s) ^ (s >> shift) ^ np.uint64(0x85EBCA6B))
    low = _mix_bits(low ^ np.uint64(stream))
    high = _mix_bits(low ^ e ^ np.uint64(0xC2B2AE35))
    high = _mix_bits(high ^ (e >> shift) ^ np.uint64(0x27D4EB2F))
    low = _mix_bits(low ^ high) ^ e
    return (high << shift) | (low & np.uint64(0xFFFFFFFF))


@kernel
def uniform_of(key: np.uint64, counter: int) -> float:
    """Return draw number ``counter`` under a key: uniform, above 0 and below 1."""
    mask = np.uint64(0xFFFFFFFF)
    low = key & mask
    first = _mix_bits(low + (np.uint64(counter) & mask) * np.uint64(0x9E3779B9))
    first = _mix_bits(first ^ (key >> np.uint64(32)))
    second = _mix_bits(first + low + np.uint64(1))
    return (
        float(first >> np.uint64(5)) * 67_108_864.0 + float(second >> np.uint64(6)) + 0.5
    ) / 9_007_199_254_740_992.0


@kernel
def exponential_of(key: np.uint64, counter: int) -> float:
    """Return an exponential draw of mean 1."""
    return -math.log(uniform_of(key, counter))


@kernel
def normal_of(key: np.uint64, counter: int) -> float:
    """Return a standard normal draw; takes the counters ``2 counter`` and one more."""
    radius = math.sqrt(-2.0 * math.log(uniform_of(key, 2 * counter)))
    return radius * math.cos(2.0 * math.pi * uniform_of(key, 2 * counter + 1))


@kernel
def gamma_of(key: np.uint64, counter: int, shape: float) -> tuple[float, int]:
    """Return a Gamma(``shape``, 1) draw and the next unused counter."""
    # Marsaglia and Tsang 2000; a shape below 1 is raised by one, then corrected by U^(1/shape).
    if shape == 1.0:
        return exponential_of(key, counter), counter + 1
    boost = 1.0
    a = shape
    if shape < 1.0:
        boost = uniform_of(key, counter) ** (1.0 / shape)
        counter += 1
        a = shape + 1.0
    d = a - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        radius = math.sqrt(-2.0 * math.log(uniform_of(key, counter)))
        x = radius * math.cos(2.0 * math.pi * uniform_of(key, counter + 1))
        u = uniform_of(key, counter + 2)
        counter += 3
        v = 1.0 + c * x
        if v > 0.0:
            v = v * v * v
            if math.log(u) < 0.5 * x * x + d - d * v + d * math.log(v):
                return boost * d * v, counter


@kernel
def _uniforms(seed: int, stream: int, entity: RowArray, out: FloatArray) -> None:
    for row in range(out.size):
        out[row] = uniform_of(key_of(seed, stream, entity[row]), 0)


@kernel
def _normals(seed: int, stream: int, entity: RowArray, out: FloatArray) -> None:
    for row in range(out.size):
        out[row] = normal_of(key_of(seed, stream, entity[row]), 0)


def uniforms(seed: int, stream: int, n_entities: int) -> FloatArray:
    """Return one uniform draw for each of the first entities."""
    out = np.empty(n_entities)
    _uniforms(seed, stream, np.arange(n_entities), out)
    return out


def normals(seed: int, stream: int, n_entities: int) -> FloatArray:
    """Return one standard normal draw for each of the first entities."""
    out = np.empty(n_entities)
    _normals(seed, stream, np.arange(n_entities), out)
    return out
