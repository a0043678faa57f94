"""Compiled kernels take tables by pointer, and see the same fields as interpreted ones."""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from recrawl.core.kernel import IS_COMPILED, table_kernel


class Inner(NamedTuple):
    """A table with fields of all kinds."""

    words: NDArray[np.uint64]
    bytes: NDArray[np.uint8]
    factor: float
    is_doubled: bool
    n: int
    grid: NDArray[np.float32]


class Outer(NamedTuple):
    """A table inside another one."""

    before: NDArray[np.float64]
    inner: Inner
    after: NDArray[np.int64]


@table_kernel
def _value_of(inner: Inner, row: int) -> float:
    value = inner.factor * float(inner.words[row]) + float(inner.grid[row, 1]) + inner.n
    return 2.0 * value if inner.is_doubled else value


@table_kernel
def _fill(outer: Outer, inner: Inner) -> float:
    total = 0.0
    for row in range(outer.before.size):
        outer.before[row] = _value_of(outer.inner, row)
        outer.after[-1] += inner.bytes[row] + inner.grid.shape[1]
        total += outer.before[row]
    return total


@table_kernel
def _first_of(outer: Outer) -> float:
    return _value_of(outer.inner, 0)


def tables(n_rows: int = 4, *, is_doubled: bool = False) -> tuple[Outer, Inner]:
    inner = Inner(
        words=np.arange(n_rows, dtype=np.uint64) + np.uint64(2**40),
        bytes=np.arange(n_rows, dtype=np.uint8),
        factor=0.5,
        is_doubled=is_doubled,
        n=-7,
        grid=np.arange(3 * n_rows, dtype=np.float32).reshape(n_rows, 3),
    )
    return Outer(np.zeros(n_rows), inner, np.zeros(2, np.int64)), inner


@pytest.mark.parametrize("is_doubled", [False, True])
def test_kernels_read_and_write_the_fields_of_tables(is_doubled: bool) -> None:
    outer, inner = tables(is_doubled=is_doubled)
    total = _fill(outer, inner)
    expected = (0.5 * inner.words + inner.grid[:, 1] - 7) * (2 if is_doubled else 1)
    np.testing.assert_array_equal(outer.before, expected)
    assert total == expected.sum()
    assert outer.after.tolist() == [0, 4 * 3 + 6]
    assert _first_of(outer) == expected[0]


def test_every_call_reads_the_fields_anew() -> None:
    outer, inner = tables()
    first = _first_of(outer)
    inner.words[0] += np.uint64(2)
    assert _first_of(outer) == first + 1.0
    larger, _ = tables(9)
    _fill(larger, larger.inner)
    assert larger.before.size == 9
    assert _first_of(larger._replace(inner=larger.inner._replace(factor=0.0))) == 1.0 - 7.0


def test_columns_that_are_not_contiguous_are_read_too() -> None:
    outer, inner = tables()
    spread = np.zeros(8, np.uint64)[::2]
    spread[:] = inner.words
    assert _value_of(inner._replace(words=spread), 3) == _value_of(inner, 3)
    assert _first_of(outer._replace(inner=inner._replace(words=spread))) == _first_of(outer)


@pytest.mark.skipif(not IS_COMPILED, reason="kernels are interpreted")
def test_kernels_that_are_only_called_by_kernels_are_compiled_for_them() -> None:
    _first_of(tables()[0])
    if hasattr(_first_of, "for_callers"):  # numba is not disabled
        assert not _first_of.for_callers().signatures
        # Code from the cache needs none that it calls.
        is_cached = bool(_first_of.stats.cache_hits)  # type: ignore[attr-defined]
        assert is_cached or _value_of.for_callers().signatures  # type: ignore[attr-defined]
