"""Tables of samples as bytes: one row is found in many tables as in each of them alone."""

from collections.abc import Callable

import numpy as np
import pytest

from recrawl.errors import EventError
from recrawl.node.sampling.encoding import (
    COLUMNS,
    SampleRows,
    find_row,
    pack_rows,
    unpack_rows,
)


def make_table(rng: np.random.Generator, part: str, n_rows: int) -> SampleRows:
    number = np.sort(rng.choice(400, n_rows, replace=False)).astype(np.int64)
    values = np.rint(1_000 * rng.random((n_rows, COLUMNS[part])))
    return SampleRows(number, np.rint(1 + 9 * rng.random(n_rows)), values)


@pytest.mark.parametrize("part", ["kinds", "sources"])
def test_a_row_is_found_in_many_tables_as_in_each_alone(
    rng: np.random.Generator, part: str
) -> None:
    """Small tables are read together; large ones are compressed, and read one by one."""
    sizes = [*rng.integers(0, 4, 40).tolist(), 0, 399, 3, 120, 3, 1]
    tables = [pack_rows(make_table(rng, part, n)) for n in sizes]
    known = [unpack_rows(data, part) for data in tables]
    for number in (*known[43].number[:3].tolist(), known[41].number[7], 5, 400):
        index, n_samples, values = find_row(tables, part, int(number))
        has = [i for i, one in enumerate(known) if number in one.number]
        rows = [int(np.flatnonzero(known[i].number == number)[0]) for i in has]
        assert index.tolist() == has
        assert n_samples.tolist() == [
            known[i].n_samples[row] for i, row in zip(has, rows, strict=True)
        ]
        assert values.tolist() == [
            known[i].values[row].tolist() for i, row in zip(has, rows, strict=True)
        ]
    assert find_row([], part, 1)[2].shape == (0, COLUMNS[part])


@pytest.mark.parametrize(
    "damage", [lambda data: data[:5], lambda data: b"\x09" + data[1:], lambda data: data[:-8]]
)
def test_damaged_tables_are_refused(
    rng: np.random.Generator, damage: Callable[[bytes], bytes]
) -> None:
    whole = pack_rows(make_table(rng, "sources", 3))
    with pytest.raises(EventError):
        find_row([whole, damage(whole), whole], "sources", 1)


def test_columns_of_other_versions_are_left_out_or_0(rng: np.random.Generator) -> None:
    table = make_table(rng, "sources", 2)
    number = int(table.number[1])
    fewer = table._replace(values=table.values[:, :3])
    more = table._replace(values=np.column_stack([table.values, table.values]))
    index, _, values = find_row([pack_rows(fewer), pack_rows(more)], "sources", number)
    assert index.tolist() == [0, 1]
    assert values[0].tolist() == [*table.values[1, :3], *([0.0] * (COLUMNS["sources"] - 3))]
    assert values[1].tolist() == table.values[1].tolist()
