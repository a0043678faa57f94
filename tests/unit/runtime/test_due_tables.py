"""The table of due times is kept, is what would be built, and is built where it is broken."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from recrawl.core.price.due_table import DueTable
from recrawl.runtime import due_tables

SMALL = DueTable(
    np.ones((2, 3, 4), np.float32),
    np.zeros((2, 3, 4), np.float32),
    np.arange(3.0),
    np.arange(2.0),
    -3.5,
    0.25,
)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[int]]:
    """Keep tables in a new folder; return a list that grows with each table built."""
    count: list[int] = []

    def build() -> DueTable:
        count.append(1)
        return SMALL

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(due_tables, "built_due_table", build)
    due_tables.kept_due_table.cache_clear()
    yield count
    due_tables.kept_due_table.cache_clear()


def again() -> DueTable:
    due_tables.kept_due_table.cache_clear()
    return due_tables.kept_due_table()


def assert_small(table: DueTable) -> None:
    for found, expected in zip(table, SMALL, strict=True):
        np.testing.assert_array_equal(found, expected)
        assert type(found) is type(expected)


def test_it_is_built_once_and_read_after_that(built: list[int]) -> None:
    assert_small(again())
    assert_small(again())
    assert len(built) == 1


def test_a_broken_file_is_not_used(built: list[int], tmp_path: Path) -> None:
    again()
    (file,) = (tmp_path / "cache" / "recrawl").iterdir()
    for data in (b"", b"nothing of use", file.read_bytes()[:-100]):
        file.write_bytes(data)
        assert_small(again())
    assert len(built) == 4


def test_where_nothing_can_be_written_it_is_built(built: list[int], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    assert_small(again())
    assert_small(again())
    assert len(built) == 2
