"""Files of recorded pages become the webs that they tell of."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recrawl.refreshbench import data_folder, track_named
from recrawl.sim.web.content import divergence_of

HOUR = 3_600.0
DAY = 86_400.0


def write(folder: Path, name: str, columns: dict[str, Any]) -> None:
    pq.write_table(pa.table(columns), folder / name)


def test_the_folder_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RECRAWL_DATA", raising=False)
    assert data_folder() is None
    monkeypatch.setenv("RECRAWL_DATA", "somewhere")
    assert data_folder() == Path("somewhere")


def test_hours_with_a_change_have_one_change_in_them(tmp_path: Path) -> None:
    (tmp_path / "nolan_cache500.csv").write_text(
        "page,n_changes,change_hours\n0,2,1 5\n1,0,\n2,1,719\n"
    )
    web = track_named("hourly").web(0, tmp_path)
    assert web.changes.counts().tolist() == [2, 0, 1]
    assert np.floor(web.changes.at / HOUR).tolist() == [0, 4, 718]


def test_terms_change_between_the_visits_that_say_so(tmp_path: Path) -> None:
    visits = [0, 12, 24, 36]
    write(
        tmp_path,
        "ota_crawl_log.parquet",
        {
            "page_id": pa.array([0] * 4 + [1] * 4 + [2] * 2, pa.int16()),
            "ts": pa.array([int(HOUR * at) for at in [*visits, *visits, 0, 6]], pa.int32()),
            # The first visit of a page has nothing to be compared with.
            "text_changed": pa.array([True, False, True, True] + [False] * 6),
            "text_version": pa.array([3, None, 4, 3] + [None] * 6, pa.int16()),
        },
    )
    (tmp_path / "ota_crawl_log_pages.csv").write_text(
        "page_id,service_terms,text_tracked\n0,A/Terms,True\n1,B/Terms,True\n2,B/Privacy,True\n"
    )
    web = track_named("terms").web(0, tmp_path)
    # The third page was not visited to the end.
    assert web.n_pages == 2
    assert web.changes.counts().tolist() == [2, 0]
    first, second = web.changes.at / HOUR
    assert 12 < first < 24 < second < 36
    assert web.version.tolist() == [1, 2]


def test_traces_are_those_of_files_that_were_there_all_the_time(tmp_path: Path) -> None:
    start = 1_672_531_200
    end = start + 730 * 86_400
    inside = start + 86_400
    write(
        tmp_path,
        "change_traces.parquet",
        {
            "source": ["a", "a", "b", "b"],
            "path": ["1", "2", "3", "4"],
            "created": [start, start, start - 5, start + 5],
            "deleted": pa.array([None, end - 5, None, None], pa.int64()),
            "obs_start": [start] * 4,
            "obs_end": [end] * 4,
            "change_ts": [[start - 9, inside, inside + 60, inside + 90], [], [inside], [inside]],
            "version": pa.array([[1, 2, 3, 1], [], [None], [1]], pa.list_(pa.int32())),
        },
    )
    web = track_named("traces").web(0, tmp_path)
    assert web.changes.counts().tolist() == [3, 1]
    assert web.changes.at.tolist() == [DAY, DAY + 60, DAY + 90, DAY]
    # The last change of the first file goes back to what it was at the start.
    assert web.version.tolist() == [1, 2, 0, 1]
    assert web.group.tolist() == [0, 1]


@pytest.mark.slow_without_jit
def test_texts_differ_as_their_sketches_do(tmp_path: Path) -> None:
    end = 2_000_000_000
    start = end - 365 * 86_400
    sketches = [[1, 2, 3, 4], [1, 2, 3, 5], [], [1, 2, 3, 4], [6, 7, 8, 9], [1, 2]]
    write(
        tmp_path,
        "text_histories.parquet",
        {
            "page": pa.array([0, 0, 0, 0, 0, 1], pa.int32()),
            "time": [start - 50, start + 10, start + 20, start + 30, start + 40, start + 10],
            "digest": pa.array([11, 12, 0, 11, 13, 14], pa.uint64()),
            "shingles": pa.array([len(each) for each in sketches], pa.int32()),
            "sketch": pa.array(sketches, pa.list_(pa.uint32())),
        },
    )
    (tmp_path / "text_histories_pages.csv").write_text(f"page,repo,obs_end\n0,a,{end}\n1,b,{end}\n")
    web = track_named("texts").web(0, tmp_path)
    # The second page was not there for a year, and a version without text is a failed fetch.
    assert web.n_pages == 1
    assert web.changes.at.tolist() == [10.0, 30.0, 40.0]
    assert web.version.tolist() == [1, 0, 2]
    assert divergence_of(web.content, web.seed, 0, 0, 1) == pytest.approx(1 - 3 / 5)
    assert divergence_of(web.content, web.seed, 0, 1, 2) == pytest.approx(1.0)
