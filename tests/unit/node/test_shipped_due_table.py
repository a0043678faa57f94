"""The table of due times that comes with the package is the one that would be built."""

import io
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from recrawl.core.price.due_table import LOG2_NEVER, DueCodes, DueTable, build_due_table
from recrawl.core.price.teaching_rows import TeachingRows, rows_of
from recrawl.node import shipped_due_table as kept
from recrawl.node.shipped_due_table import kept_due_table, packed, unpacked
from recrawl.shard.state.rules import PATIENCES, patience

CODES = DueCodes()
STEP = 1 / 512


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Return the folder of a cache that nobody has used."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kept_due_table.cache_clear()
    yield tmp_path / "cache"
    kept_due_table.cache_clear()


def again() -> DueTable:
    kept_due_table.cache_clear()
    return kept_due_table()


def assert_same(found: DueTable, expected: DueTable) -> None:
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
        assert type(a) is type(b)


def shipped() -> DueTable:
    return unpacked(resources.files("recrawl.node").joinpath(kept.FILE).read_bytes())


@pytest.mark.slow_without_jit
def test_it_is_what_the_mathematics_say() -> None:
    """Else somebody changed them: run ``scripts/due_table.py``."""
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
def test_so_are_the_rows_for_what_polls_teach() -> None:
    """As the other; they are not rounded."""
    bare = build_due_table(CODES, [0])
    kept_due_table()
    for each in (0.0, 4.0):
        known = rows_of(bare, each)
        fresh = rows_of(bare._replace(log2_target_min=bare.log2_target_min + 1e-13), each)
        np.testing.assert_allclose(known.due, fresh.due, rtol=0, atol=1e-5)
        np.testing.assert_allclose(known.limit, fresh.limit)


def test_there_are_rows_for_every_patience() -> None:
    assert {patience(n, 10) for n in range(1_000)} == set(PATIENCES)
    data = resources.files("recrawl.node").joinpath(kept.FILE).read_bytes()
    with np.load(io.BytesIO(data)) as parts:
        assert tuple(parts["patience"].tolist()) == PATIENCES


def test_what_is_packed_comes_back_to_half_a_step() -> None:
    due = np.full((2, 3, 4), LOG2_NEVER, np.float32)
    due[:, 0] = [-3.1, 0.0, 2.7, 11.123]
    due[1, 2, :2] = [-12.5, 5.0]
    interval = np.where(due < LOG2_NEVER, due - np.float32(0.777), due)
    limit = np.array([[1.0, np.inf, 3.0], [4.0, 5.0, 6.0]])
    table = DueTable(due, interval, limit, np.array([0.5, 2.0]), -3.5, 0.25)
    rows = TeachingRows(due[:, 0].copy(), limit[:, 0].copy())

    found = unpacked(packed(table, {1.0: rows}))
    np.testing.assert_allclose(found.due, due, rtol=0, atol=STEP / 2)
    np.testing.assert_allclose(found.interval, interval, rtol=0, atol=STEP / 2)
    np.testing.assert_array_equal(found.due == LOG2_NEVER, due == LOG2_NEVER)
    assert_same(found._replace(due=due, interval=interval), table)


def test_a_table_with_gaps_is_not_packed() -> None:
    due = np.array([[[1.0, LOG2_NEVER, 2.0]]], np.float32)
    table = DueTable(due, due, np.ones((1, 1)), np.ones(1), 0.0, 1.0)
    with pytest.raises(ValueError, match="due at a price"):
        packed(table, {})


def test_it_is_unpacked_once_and_mapped_after_that(cache: Path) -> None:
    assert_same(again(), shipped())
    (file,) = (cache / "recrawl").iterdir()
    written_at = file.stat().st_mtime_ns
    assert_same(again(), shipped())
    assert file.stat().st_mtime_ns == written_at


def test_a_broken_file_is_not_used(cache: Path) -> None:
    again()
    (file,) = (cache / "recrawl").iterdir()
    other = cache / "other.npy"
    np.save(other, np.zeros((2, 3)))
    for data in (b"", b"nothing of use", file.read_bytes()[:-100], other.read_bytes()):
        file.write_bytes(data)
        assert_same(again(), shipped())


def test_where_nothing_can_be_written_it_is_unpacked(cache: Path) -> None:
    cache.write_text("in the way")
    assert_same(again(), shipped())
    assert cache.read_text() == "in the way"
