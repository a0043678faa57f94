"""Copies of the table of due times share memory, and a write to one changes no other."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from recrawl.core.price.due_table import DueTable
from recrawl.core.price.learning_rows import writable_copy, write_learning_rows
from recrawl.node.durability.copied_table import copy_due_table
from recrawl.node.shipped_due_table import shipped_due_table

N_COPIES = 20


@pytest.fixture
def mapped_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[DueTable]:
    """Return the shipped table, mapped from a cache that the first call has written."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for _ in range(2):
        shipped_due_table.cache_clear()
        table = shipped_due_table()
    yield table
    shipped_due_table.cache_clear()


def own_bytes() -> int:
    """Return the memory of this process that it shares with no file."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(status["RssAnon"].split()[0])


def n_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def assert_same(one: DueTable, other: DueTable) -> None:
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_write_to_a_copy_changes_no_other(mapped_table: DueTable) -> None:
    table = mapped_table
    before, expected = writable_copy(table), writable_copy(table)
    one, other = copy_due_table(table), copy_due_table(table)
    assert_same(one, before)
    write_learning_rows(expected, 4.0)
    write_learning_rows(one, 4.0)
    assert_same(one, expected)
    assert_same(other, before)
    assert_same(table, before)
    assert one.due.flags.writeable
    assert one.due.flags.c_contiguous
    assert one.due.flags.aligned


def test_a_table_that_is_not_mapped_from_a_file_is_copied() -> None:
    table = writable_copy(shipped_due_table())
    copied = copy_due_table(table)
    assert_same(copied, table)
    assert not np.shares_memory(copied.due, table.due)


def test_a_table_whose_file_is_gone_is_copied(tmp_path: Path) -> None:
    table = shipped_due_table()
    np.save(tmp_path / "columns.npy", np.stack([table.due, table.interval]))
    columns = np.load(tmp_path / "columns.npy", mmap_mode="c")
    mapped = table._replace(due=columns[0], interval=columns[1])
    assert_same(copy_due_table(mapped), table)
    (tmp_path / "columns.npy").unlink()
    assert_same(copy_due_table(mapped), table)
    (tmp_path / "columns.npy").write_bytes(b"another file, which is too short")
    assert_same(copy_due_table(mapped), table)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_copies_take_little_memory_and_no_files(mapped_table: DueTable) -> None:
    table = mapped_table
    write_learning_rows(copy_due_table(table), 4.0)
    n_bytes, n_open = own_bytes(), n_files()
    copies = [copy_due_table(table) for _ in range(N_COPIES)]
    for copied in copies:
        write_learning_rows(copied, 4.0)
    assert n_files() == n_open
    assert own_bytes() - n_bytes < 0.1 * N_COPIES * (table.due.nbytes + table.interval.nbytes)
