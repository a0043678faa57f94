"""Numbers are kept as text, and read back as they were shown."""

from pathlib import Path

import numpy as np
import pytest

from lab.tables import Table, digest_of, read_tables, write_tables


def table() -> Table:
    return Table.of(
        [
            {"policy": "a, b", "m": 100, "accuracy": 0.123456789, "is_best": True},
            {"policy": "c", "m": 200, "accuracy": float("nan"), "is_best": False},
        ]
    )


def test_a_table_survives_a_round_trip_through_a_file(tmp_path: Path) -> None:
    write_tables(tmp_path, {"accuracy": table()})
    again = read_tables(tmp_path)["accuracy"]
    assert (again.names, again.rows) == (table().names, table().rows)


def test_the_file_of_a_removed_table_is_deleted(tmp_path: Path) -> None:
    write_tables(tmp_path, {"old": table()})
    write_tables(tmp_path, {"new": table()})
    assert list(read_tables(tmp_path)) == ["new"]


def test_numbers_have_seven_digits_and_missing_values_are_empty() -> None:
    assert table().texts("accuracy") == ["0.1234568", ""]
    assert np.isnan(table().floats("accuracy")[1])
    assert table().texts("is_best") == ["yes", "no"]


def test_rows_are_found_by_their_values() -> None:
    assert table().value("accuracy", m=100) == 0.1234568
    assert table().where(is_best=False).texts("policy") == ["c"]
    assert len(table().where(policy="nobody")) == 0
    with pytest.raises(ValueError, match="one row"):
        table().value("accuracy")


def test_columns_make_the_same_table_as_rows() -> None:
    table = Table.of_columns({"x": np.array([1, 2]), "name": ["one", "two"]})
    assert table.rows == (("1", "one"), ("2", "two"))


def test_rows_with_other_columns_are_an_error() -> None:
    with pytest.raises(ValueError, match="columns"):
        Table.of([{"a": 1}, {"b": 1}])
    with pytest.raises(ValueError, match="empty"):
        Table.of([])


def test_the_digest_changes_with_any_number() -> None:
    other = Table(table().names, (table().rows[0], ("c", "201", "", "no")))
    assert digest_of({"t": table()}) == digest_of({"t": table()})
    assert digest_of({"t": table()}) != digest_of({"t": other})
    assert digest_of({"t": table()}) != digest_of({"u": table()})
