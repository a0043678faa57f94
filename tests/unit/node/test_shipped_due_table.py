"""The shipped table of due times equals a newly built one, and is cached unpacked."""

import io
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from recrawl.core.price.due_table import LOG2_NEVER, DueCodes, DueTable, build_due_table
from recrawl.core.price.learning_rows import LearningRows, learning_rows_for
from recrawl.node import shipped_due_table as module
from recrawl.node.shipped_due_table import pack_due_table, shipped_due_table, unpack_due_table
from recrawl.shard.state.rules import LEARNING_HORIZONS, learning_horizon

CODES = DueCodes()
STEP = 1 / 512


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Return the folder of an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shipped_due_table.cache_clear()
    yield tmp_path / "cache"
    shipped_due_table.cache_clear()


def load_again() -> DueTable:
    shipped_due_table.cache_clear()
    return shipped_due_table()


def assert_same(found: DueTable, expected: DueTable) -> None:
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
        assert type(a) is type(b)


def shipped() -> DueTable:
    return unpack_due_table(resources.files("recrawl.node").joinpath(module.FILE).read_bytes())


@pytest.mark.slow_without_jit
def test_the_shipped_table_equals_a_newly_built_one() -> None:
    """If this fails after a change of the mathematics, run ``scripts/due_table.py``."""
    classes = [0, 41, 500, CODES.n_classes - 1, CODES.n_classes, CODES.n_codes - 1]
    built, table = build_due_table(CODES, classes), shipped()
    for column in ("due", "interval"):
        expected, found = (getattr(t, column)[:, classes] for t in (built, table))
        np.testing.assert_array_equal(found >= LOG2_NEVER, expected >= LOG2_NEVER)
        np.testing.assert_allclose(found, expected, rtol=0, atol=STEP / 2 + 1e-5)
    np.testing.assert_allclose(table.limit[:, classes], built.limit[:, classes], rtol=1e-6)
    # A power of two may differ in its last bit between processors.
    np.testing.assert_allclose(table.shapes, CODES.shapes(), rtol=1e-15)
    assert table.due.shape == (CODES.n_shapes, CODES.n_codes, CODES.n_targets)
    assert table.log2_target_min == CODES.log2_target_min
    assert table.log2_target_step == CODES.log2_target_step


@pytest.mark.slow_without_jit
def test_the_shipped_learning_rows_are_exact_too() -> None:
    """If this fails after a change of the mathematics, run ``scripts/due_table.py``."""
    bare = build_due_table(CODES, [0])
    shipped_due_table()
    for each in (0.0, 4.0):
        known = learning_rows_for(bare, each)
        fresh = learning_rows_for(bare._replace(log2_target_min=bare.log2_target_min + 1e-13), each)
        np.testing.assert_allclose(known.due, fresh.due, rtol=0, atol=1e-5)
        np.testing.assert_allclose(known.limit, fresh.limit)


def test_there_are_rows_for_every_learning_horizon() -> None:
    assert {learning_horizon(n, 10) for n in range(1_000)} == set(LEARNING_HORIZONS)
    data = resources.files("recrawl.node").joinpath(module.FILE).read_bytes()
    with np.load(io.BytesIO(data)) as parts:
        assert tuple(parts["patience"].tolist()) == LEARNING_HORIZONS


def test_packing_changes_ages_by_at_most_half_a_step() -> None:
    due = np.full((2, 3, 4), LOG2_NEVER, np.float32)
    due[:, 0] = [-3.1, 0.0, 2.7, 11.123]
    due[1, 2, :2] = [-12.5, 5.0]
    interval = np.where(due < LOG2_NEVER, due - np.float32(0.777), due)
    limit = np.array([[1.0, np.inf, 3.0], [4.0, 5.0, 6.0]])
    table = DueTable(due, interval, limit, np.array([0.5, 2.0]), -3.5, 0.25)
    rows = LearningRows(due[:, 0].copy(), limit[:, 0].copy())

    found = unpack_due_table(pack_due_table(table, {1.0: rows}))
    np.testing.assert_allclose(found.due, due, rtol=0, atol=STEP / 2)
    np.testing.assert_allclose(found.interval, interval, rtol=0, atol=STEP / 2)
    np.testing.assert_array_equal(found.due == LOG2_NEVER, due == LOG2_NEVER)
    assert_same(found._replace(due=due, interval=interval), table)


def test_a_table_with_gaps_is_refused() -> None:
    due = np.array([[[1.0, LOG2_NEVER, 2.0]]], np.float32)
    table = DueTable(due, due, np.ones((1, 1)), np.ones(1), 0.0, 1.0)
    with pytest.raises(ValueError, match="due at every lower one"):
        pack_due_table(table, {})


def test_the_table_is_unpacked_once_and_then_mapped_from_the_cache(cache: Path) -> None:
    assert_same(load_again(), shipped())
    (file,) = (cache / "recrawl").iterdir()
    written_at = file.stat().st_mtime_ns
    assert_same(load_again(), shipped())
    assert file.stat().st_mtime_ns == written_at


def test_a_corrupt_cache_file_is_not_used(cache: Path) -> None:
    load_again()
    (file,) = (cache / "recrawl").iterdir()
    other = cache / "other.npy"
    np.save(other, np.zeros((2, 3)))
    for data in (b"", b"nothing of use", file.read_bytes()[:-100], other.read_bytes()):
        file.write_bytes(data)
        assert_same(load_again(), shipped())


def test_without_a_writable_cache_the_table_is_unpacked(cache: Path) -> None:
    cache.write_text("a file, not a folder")
    assert_same(load_again(), shipped())
    assert cache.read_text() == "a file, not a folder"
