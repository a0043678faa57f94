"""Histories are read as days, and stretches of them visited, as a crawler would."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lab.change_days import ChangeDays, cache_hours, ota_days, trace_days

DAY = 86_400


@pytest.fixture
def history() -> ChangeDays:
    """Return three pages: changes on days 0, 3, 4, 9, then 5, then none; the last too short."""
    return ChangeDays(
        kinds=("a", "b"),
        kind=np.array([0, 1, 1]),
        n_days=np.array([10, 10, 4]),
        page=np.array([0, 0, 0, 0, 1]),
        day=np.array([0, 3, 4, 9, 5]),
    )


def test_a_stretch_of_all_days_is_the_history_of_pages_watched_so_long(history: ChangeDays) -> None:
    stretches = history.stretches(10, seed=0)
    assert stretches.n_pages == 2
    np.testing.assert_array_equal(stretches.day, history.day)
    np.testing.assert_array_equal(stretches.n_changes, [4, 1])


@pytest.mark.parametrize("draw", range(8))
def test_a_stretch_has_the_changes_of_its_own_days(history: ChangeDays, draw: int) -> None:
    stretches = history.stretches(4, draw)
    days = [set(history.day[history.page == page].tolist()) for page in range(3)]
    for page in range(3):
        found = stretches.day[stretches.page == page]
        n_days = int(history.n_days[page])
        shifts = [
            {d - start for d in days[page] if start <= d < start + 4} for start in range(n_days - 3)
        ]
        assert set(found.tolist()) in shifts


def test_a_visit_finds_all_changes_since_the_last_as_one(history: ChangeDays) -> None:
    stretches = history.stretches(10, seed=0)
    np.testing.assert_array_equal(stretches.n_found(1), [4, 1])
    np.testing.assert_array_equal(stretches.n_found(5), [2, 1])
    np.testing.assert_array_equal(stretches.n_found(5, until=5), [1, 0])
    # Visits every 4 days end on day 8: the change of day 9 is not seen.
    np.testing.assert_array_equal(stretches.n_found(4), [2, 1])


def test_some_pages_can_be_chosen(history: ChangeDays) -> None:
    chosen = history.stretches(10, seed=0).chosen(np.array([False, True]))
    assert chosen.n_pages == 1
    assert chosen.kind.tolist() == [1]
    assert (chosen.page.tolist(), chosen.day.tolist()) == ([0], [5])


def test_gaps_are_between_changes_of_one_page(history: ChangeDays) -> None:
    page, gap = history.gaps()
    assert (page.tolist(), gap.tolist()) == ([0, 0, 0], [3.0, 1.0, 5.0])


def test_traces_are_read_by_the_day_and_without_raw_html(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = 1_700_000_000
    table = pa.table(
        {
            "kind": pa.array(["docs", "terms-rawhtml", "lists"]).dictionary_encode(),
            "obs_start": [start, start, start],
            "obs_end": [start + 10 * DAY, start + 10 * DAY, start + 3 * DAY],
            # Twice on day 1, and once on the day that was not seen to its end.
            "change_ts": [
                [start + DAY, start + DAY + 60, start + 10 * DAY],
                [start + DAY],
                [start + 5],
            ],
        }
    )
    pq.write_table(table, tmp_path / "change_traces.parquet")
    monkeypatch.setenv("RECRAWL_DATA", str(tmp_path))
    history = trace_days()
    assert [history.kinds[k] for k in history.kind] == ["docs", "lists"]
    assert history.n_days.tolist() == [10, 3]
    assert (history.page.tolist(), history.day.tolist()) == ([0, 1], [1, 0])


def test_a_crawl_log_is_read_by_the_day_and_a_table_of_hours_by_the_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = pa.table(
        {
            "page_id": pa.array([7, 9, 7, 9, 7, 9, 7, 9], pa.int16()),
            "run": pa.array([0, 0, 1, 1, 2, 2, 3, 3], pa.int16()),
            "text_changed": [True, False, True, None, False, True, False, False],
        }
    )
    pq.write_table(log, tmp_path / "ota_crawl_log.parquet")
    hours = "page,n_changes,change_hours\n0,3,4 5 719\n1,0,\n"
    (tmp_path / "nolan_cache500.csv").write_text(hours, encoding="utf-8")
    monkeypatch.setenv("RECRAWL_DATA", str(tmp_path))
    terms = ota_days()
    assert terms.n_days.tolist() == [2, 2]
    assert (terms.page.tolist(), terms.day.tolist()) == ([0, 1], [0, 1])
    cache = cache_hours()
    assert cache.n_pages == 2
    assert (cache.page.tolist(), cache.day.tolist()) == ([0, 0], [4, 5])
