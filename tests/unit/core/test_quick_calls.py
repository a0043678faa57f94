"""Quick calls of kernels give what calls by numba give, whatever the arguments."""

import gc
import weakref
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from recrawl.core import quick_calls
from recrawl.core.kernel import IS_COMPILED, table_kernel
from recrawl.core.quick_calls import quick_call


class Columns(NamedTuple):
    """A table of two columns."""

    a: NDArray[np.int64]
    b: NDArray[np.uint8]


class Numbers(NamedTuple):
    """A table of numbers."""

    factor: float
    offset: int


class Mixed(NamedTuple):
    """A table that contains another one, an array and a number."""

    columns: Columns
    weights: NDArray[np.float64]
    offset: float


@table_kernel
def _weighted(mixed: Mixed, first: int) -> float:
    total = mixed.offset
    for i in range(first, mixed.weights.size):
        total += mixed.weights[i] * float(mixed.columns.a[i])
    return total


@table_kernel
def _total(columns: Columns, numbers: Numbers, scale: float, out: NDArray[np.float64]) -> float:
    total = 0.0
    for i in range(columns.a.size):
        total += numbers.factor * float(columns.a[i]) + float(columns.b[i]) + numbers.offset
    out[0] = scale * total
    return total


def columns(n: int = 3, *, a: Any = np.int64, b: Any = np.uint8) -> Columns:
    return Columns(np.arange(n).astype(a), np.arange(10, 10 + n).astype(b))


def read_only(table: Columns) -> Columns:
    copy = Columns(table.a.copy(), table.b.copy())
    copy.a.flags.writeable = copy.b.flags.writeable = False
    return copy


def unaligned(values: NDArray[np.int64]) -> NDArray[np.int64]:
    text = b"x" + values.tobytes()
    return np.frombuffer(text, np.uint8)[1:].view(np.int64)


def check(call: Any, *arguments: Any) -> None:
    out = np.zeros(1)
    table, numbers, scale = arguments
    expected = sum(
        numbers.factor * float(a) + float(b) + numbers.offset
        for a, b in zip(table.a, table.b, strict=True)
    )
    assert call(table, numbers, scale, out) == pytest.approx(expected)
    assert out[0] == pytest.approx(scale * expected)


def test_any_arguments_give_the_right_result() -> None:
    call = quick_call(_total)
    numbers = Numbers(0.5, 3)
    tables = [
        columns(),
        columns(5),
        columns(a=np.int32),
        columns(b=np.float64),
        read_only(columns()),
        columns(8)._replace(a=np.arange(16)[::2]),
        columns()._replace(a=unaligned(np.arange(3))),
        columns(0),
    ]
    for table in [*tables, *reversed(tables)]:
        for scale in (2.0, 3, np.float64(4.0), True):
            check(call, table, numbers, scale)
            check(call, table, Numbers(1.5, 0), scale)
    shared = tables[0]._replace(b=np.arange(3, dtype=np.uint8))
    check(call, shared, numbers, 1.0)  # the first column is known, the second one is another


@pytest.mark.skipif(not IS_COMPILED, reason="kernels are interpreted")
def test_known_arguments_are_looked_at_once() -> None:
    call: Any = quick_call(_total)
    if call is _total:
        pytest.skip("this version of numba was not tried")
    for n in (3, 4, 5):
        check(call, columns(n), Numbers(0.5, n), 1.0)
        check(call, read_only(columns(n)), Numbers(0.5, n), 1.0)
    check(call, columns(), Numbers(0.5, 1), 1.0)
    n_before = call._n_attempts
    for n in (3, 4, 5):
        check(call, columns(n), Numbers(0.5, n), 1.0)
    assert call._n_attempts == n_before


@pytest.mark.skipif(not IS_COMPILED, reason="kernels are interpreted")
def test_tables_of_tables_and_numbers_are_recognised() -> None:
    call: Any = quick_call(_weighted)
    if call is _weighted:
        pytest.skip("this version of numba was not tried")
    for n in (3, 4, 5):
        assert call(Mixed(columns(n), np.ones(n), 0.5), 1) == sum(range(1, n)) + 0.5
    n_before = call._n_attempts
    for n in (6, 7):
        assert call(Mixed(columns(n), np.ones(n), 0.25), 1) == sum(range(1, n)) + 0.25
    assert call._n_attempts == n_before == 1
    # Other types of a part give the right result as well.
    assert call(Mixed(columns(3, a=np.int32), np.ones(3), 0.5), 1) == 3.5
    assert call(Mixed(columns(3), np.ones(3), 0.5)._replace(offset=2), 1) == 5.0
    assert call(Mixed(columns(3), np.ones(6)[::2], 0.5), 1) == 3.5


@pytest.mark.skipif(not IS_COMPILED, reason="kernels are interpreted")
def test_tables_of_many_partitions_are_looked_at_once() -> None:
    call: Any = quick_call(_total)
    if call is _total:
        pytest.skip("this version of numba was not tried")
    tables = [columns(3) for _ in range(4_000)]
    for table in tables:
        call(table, Numbers(0.5, 1), 1.0, np.zeros(1))
    known = {id(quick_calls._tables[id(table.a)][1]) for table in tables}
    assert len(known) == 1


def test_tables_that_are_gone_are_forgotten() -> None:
    call = quick_call(_total)
    check(call, columns(), Numbers(0.5, 1), 1.0)
    n_before = len(quick_calls._tables)
    for n in range(100):
        check(call, columns(n), Numbers(0.5, 1), 1.0)
    gc.collect()
    assert len(quick_calls._tables) <= n_before


def test_a_table_that_was_replaced_is_not_kept_in_memory() -> None:
    call = quick_call(_total)
    table = columns(1_000)
    check(call, table, Numbers(0.5, 1), 1.0)
    check(call, table, Numbers(0.5, 1), 1.0)
    column = weakref.ref(table.a)
    del table
    gc.collect()
    assert column() is None


def test_a_kernel_keeps_its_name() -> None:
    assert quick_call(_total).__name__ == "_total"
