"""Histories with exact times of changes, and a real set of them."""

import numpy as np
import pytest

from recrawl.readers import open_source
from tests.reference.data_folder import data_file
from tests.unit.readers.samples import CHANGE_TABLE, CHANGE_TIMES, lines, opened, parquet, rows_of


def test_changes_come_in_order_beside_the_windows_of_all_pages() -> None:
    source = opened(CHANGE_TIMES)
    rows = rows_of(source)
    assert [(row["url"], row["at_ms"], row["digest"]) for row in rows] == [
        ("https://example.com/", 1_706_000_000_000, b"a"),
        ("https://example.com/", 1_706_745_600_000, b"b"),
    ]
    assert source.windows().to_pylist() == [
        {
            "url": "https://example.com/",
            "from_ms": 1_704_067_200_000,
            "until_ms": 1_710_000_000_000,
        },
        {
            "url": "https://example.com/b",
            "from_ms": 1_704_067_200_000,
            "until_ms": 1_710_000_000_000,
        },
    ]


def test_source_and_path_name_a_page_and_times_are_sorted() -> None:
    source = opened(parquet(CHANGE_TABLE))
    rows = rows_of(source)
    assert [(row["url"], row["at_ms"], row["digest"]) for row in rows] == [
        ("a/x", 1_705_000_000_000, b"2"),
        ("a/x", 1_706_000_000_000, b"1"),
    ]
    assert source.windows()["url"].to_pylist() == ["a/x", "a/y"]


def test_invalid_rows_are_refused() -> None:
    good = {
        "url": "a",
        "observed_from": 1.70e9,
        "observed_until": 1.71e9,
        "change_times": [1.705e9],
    }
    bad = [
        good | {"url": None},
        good | {"url": ["a"]},
        good | {"observed_from": None},
        good | {"observed_until": "never"},
        good | {"observed_until": 1.69e9},
        good | {"change_times": ["never"]},
        good | {"change_times": [None]},
        good | {"change_times": None},
        {"observed_from": 1.70e9},
    ]
    source = opened(lines(good, *bad))
    assert len(rows_of(source)) == 1
    assert source.windows().num_rows == 1
    assert source.refused.n_refused == 9
    assert sorted(row.line for row in source.refused.examples) == list(range(2, 11))


def test_changes_outside_the_window_are_ignored_with_a_note() -> None:
    row = {"url": "a", "observed_from": 1.70e9, "observed_until": 1.71e9, "digests": ["x"]}
    source = opened(lines(row | {"change_times": [1.69e9, 1.705e9]}))
    assert [row["digest"] for row in rows_of(source)] == [None]
    assert source.refused.notes == ("changes outside their page's window were ignored",)


def test_a_single_time_is_a_list_of_one() -> None:
    row = {"url": "a", "observed_from": 1.70e9, "observed_until": 1.71e9, "change_times": 1.705e9}
    assert len(rows_of(opened(lines(row)))) == 1


@pytest.mark.data
def test_real_histories_are_read_completely() -> None:
    source = open_source(data_file("change_traces.parquet"))
    n_changes = 0
    for batch in source.batches():
        n_changes += batch.num_rows
        at_ms = batch["at_ms"].to_numpy()
        same_page = np.array(batch["url"][1:].to_numpy(zero_copy_only=False)) == np.array(
            batch["url"][:-1].to_numpy(zero_copy_only=False)
        )
        assert (np.diff(at_ms)[same_page] >= 0).all()
    windows = source.windows()
    assert (windows.num_rows, n_changes) == (257_417, 2_442_013)
    assert len(windows["url"].unique()) == 257_417
    assert source.refused.n_refused == 0
