"""Files of recorded pages become the webs that they tell of."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recrawl.refreshbench import data_folder, is_held_out, track_named
from recrawl.refreshbench.recorded import hourly_web, terms_web, texts_web, traces_web
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
    web = hourly_web(None, tmp_path)
    assert web.changes.counts().tolist() == [2, 0, 1]
    assert np.floor(web.changes.at / HOUR).tolist() == [0, 4, 718]


def test_hosts_are_divided_by_their_names_for_ever() -> None:
    assert [page for page in range(12) if is_held_out(str(page))] == [4, 6, 7, 8]
    assert is_held_out("Wikipedia")
    assert not is_held_out("GitHub")


def test_a_page_changes_at_the_same_instants_in_either_half(tmp_path: Path) -> None:
    rows = "".join(f"{page},1,{page + 1}\n" for page in range(12))
    (tmp_path / "nolan_cache500.csv").write_text(f"page,n_changes,change_hours\n{rows}")
    track = track_named("hourly")
    whole = hourly_web(None, tmp_path).changes.at
    open_half, held_out = (track.web(number, tmp_path).changes.at for number in (0, 1))
    assert held_out.tolist() == whole[[4, 6, 7, 8]].tolist()
    assert open_half.tolist() == np.delete(whole, [4, 6, 7, 8]).tolist()


def test_no_host_is_in_both_halves(tmp_path: Path) -> None:
    hosts = [f"service-{number}" for number in range(20)]
    n = len(hosts)
    write(
        tmp_path,
        "ota_crawl_log.parquet",
        {
            "page_id": pa.array(np.repeat(np.arange(2 * n), 2), pa.int16()),
            "ts": pa.array([0, int(DAY)] * (2 * n), pa.int32()),
            "text_changed": pa.array([False, True] * (2 * n)),
            "text_version": pa.array([1, 2] * (2 * n), pa.int16()),
        },
    )
    listed = "".join(f"{page},{hosts[page // 2]}/Terms,True\n" for page in range(2 * n))
    (tmp_path / "ota_crawl_log_pages.csv").write_text(
        f"page_id,service_terms,text_tracked\n{listed}"
    )
    n_held_out = sum(is_held_out(host) for host in hosts)
    webs = [track_named("terms").web(number, tmp_path) for number in (0, 1)]
    assert [web.n_pages for web in webs] == [2 * (n - n_held_out), 2 * n_held_out]
    assert [np.unique(web.group).size for web in webs] == [n - n_held_out, n_held_out]


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
    web = terms_web(None, tmp_path)
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
    web = traces_web(None, tmp_path)
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
    web = texts_web(None, tmp_path)
    # The second page was not there for a year, and a version without text is a failed fetch.
    assert web.n_pages == 1
    assert web.changes.at.tolist() == [10.0, 30.0, 40.0]
    assert web.version.tolist() == [1, 0, 2]
    assert divergence_of(web.content, web.seed, 0, 0, 1) == pytest.approx(1 - 3 / 5)
    assert divergence_of(web.content, web.seed, 0, 1, 2) == pytest.approx(1.0)
