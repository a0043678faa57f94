"""Sketches survive the way to bytes and back, and other bytes are no sketch."""

import doctest

import numpy as np
import pytest

from recrawl.core.divergence import (
    Sketches,
    compare_read_sketches,
    compare_sketches,
    pack_sketch,
    read_sketches,
    sketch_bytes,
)


def test_the_doctests_pass() -> None:
    assert doctest.testmod(sketch_bytes).failed == 0


def test_sketches_are_read_as_they_were_packed() -> None:
    rng = np.random.default_rng(0)
    rows = [np.unique(rng.integers(0, 2**32, n, dtype=np.uint32)) for n in (0, 1, 7, 300)]
    values = [pack_sketch(row, n_fragments=row.size + 5, scheme=3) for row in rows]
    read = read_sketches(values)
    assert read.scheme.tolist() == [3] * 4
    expected = Sketches.of(rows, [row.size + 5 for row in rows])
    for found, wanted in zip(read.sketches, expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    few = read_sketches(values, n_hashes_max=2)
    assert np.diff(few.sketches.offsets).tolist() == [0, 1, 2, 2]
    assert few.sketches.hashes[-2:].tolist() == rows[3][:2].tolist()


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\1\0\0\0",
        b"any bytes of a user",
        pack_sketch([1, 2], n_fragments=2)[:-1],
        b"\2" + pack_sketch([1, 2], n_fragments=2)[1:],
        pack_sketch([1, 2], n_fragments=2)[:8] + b"\2\0\0\0\1\0\0\0",
        pack_sketch([], n_fragments=0) + b"\2\0\0\0",
    ],
)
def test_other_bytes_are_no_sketch_and_compare_as_unknown(value: bytes) -> None:
    read = read_sketches([value])
    assert not read.is_known.any()
    sketch = read_sketches([pack_sketch([1, 2], n_fragments=2)])
    assert np.isnan(compare_read_sketches(read, sketch)).all()
    assert np.isnan(compare_read_sketches(sketch, read)).all()


def test_sketches_of_different_schemes_are_not_compared() -> None:
    one, other = (
        read_sketches([pack_sketch([1, 2], n_fragments=2, scheme=scheme)]) for scheme in (1, 2)
    )
    assert compare_read_sketches(one, one).tolist() == [0.0]
    assert np.isnan(compare_read_sketches(one, other)).all()


def test_each_sketch_is_compared_with_several() -> None:
    rng = np.random.default_rng(1)
    rows = [np.sort(rng.choice(60, 20, replace=False)).astype(np.uint32) for _ in range(9)]
    values = [pack_sketch(row, n_fragments=20) for row in rows]
    found = compare_read_sketches(read_sketches(values[:3]), read_sketches(values[3:]))
    pairs = np.repeat([0, 1, 2], 2), np.arange(3, 9)
    expected = compare_sketches(Sketches.of(rows, 20), *pairs).divergence
    np.testing.assert_array_equal(found, expected)
    some = read_sketches(values).take(np.array([4, 2]))
    assert some.sketches.hashes.tolist() == [*rows[4], *rows[2]]


def test_a_sketch_must_be_ascending_and_its_scheme_a_byte() -> None:
    with pytest.raises(ValueError, match="ascending"):
        pack_sketch([2, 1], n_fragments=2)
    with pytest.raises(ValueError, match="at least the size"):
        pack_sketch([1, 2], n_fragments=1)
    with pytest.raises(ValueError, match="scheme must be from 0 to 255, got 256"):
        pack_sketch([1], n_fragments=1, scheme=256)
