"""Rows are kept on disk, sampled by page, in few files."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from recrawl.readers import OBSERVED
from recrawl.shadow.kept_rows import FILES_MAX, KeptRows


def batch(pages: np.ndarray, at_ms: np.ndarray) -> pa.RecordBatch:
    urls = pa.array([f"https://a.example/{page}" for page in pages])
    columns = {"url": urls, "at_ms": pa.array(at_ms)}
    return pa.record_batch(
        [columns.get(f.name, pa.nulls(len(urls), f.type)) for f in OBSERVED], schema=OBSERVED
    )


def rows_of(kept: KeptRows, from_ms: int = 0, until_ms: int = 10**9) -> list[tuple[str, int]]:
    return [
        (row["url"], row["at_ms"])
        for part in kept.batches(from_ms=from_ms, until_ms=until_ms)
        for row in part.to_pylist()
    ]


def test_rows_survive_a_restart_and_stray_files_do_not(tmp_path: Path) -> None:
    kept = KeptRows(tmp_path, n_pages_max=100, n_rows_max=1_000)
    kept.add(batch(np.arange(10), np.arange(10)))
    kept.write()
    state = kept.state()
    kept.add(batch(np.arange(10), np.arange(10, 20)))
    kept.write()  # the process dies before it saves the state
    again = KeptRows(tmp_path, n_pages_max=100, n_rows_max=1_000, state=state)
    assert len(rows_of(again)) == again.n_rows == again.n_pages == 10
    assert len(list(tmp_path.iterdir())) == 1
    assert rows_of(again, 3, 5) == [("https://a.example/3", 3), ("https://a.example/4", 4)]
    assert [again.first_at(at) for at in (0, 4, 9, 10)] == [0, 4, 9, None]


def test_a_sampled_page_has_all_its_rows(tmp_path: Path) -> None:
    kept = KeptRows(tmp_path, n_pages_max=64, n_rows_max=10_000)
    for at in range(20):
        kept.add(batch(np.arange(500), np.full(500, at)))
        kept.write()
    assert 20 <= kept.n_pages <= 64
    counts: dict[str, int] = {}
    for url, _ in rows_of(kept):
        counts[url] = counts.get(url, 0) + 1
    assert len(counts) == kept.n_pages
    assert set(counts.values()) == {20}
    assert 0.02 < kept.kept_share < 0.3


def test_rows_and_files_are_limited(tmp_path: Path) -> None:
    kept = KeptRows(tmp_path, n_pages_max=1_000, n_rows_max=2_000)
    for at in range(100):
        kept.add(batch(np.arange(100), np.full(100, at)))
        kept.write()
        kept.remove_stray_files()
        assert kept.n_rows <= 2_000
        assert len(list(tmp_path.iterdir())) <= FILES_MAX + 1
    assert len(rows_of(kept)) == kept.n_rows


def test_old_files_are_dropped(tmp_path: Path) -> None:
    kept = KeptRows(tmp_path, n_pages_max=100, n_rows_max=1_000)
    for at in (0, 100, 200):
        kept.add(batch(np.arange(10), np.arange(at, at + 10)))
        kept.write()
    kept.drop_before(105)
    kept.remove_stray_files()
    assert min(at for _, at in rows_of(kept)) == 100
    assert kept.n_rows == 20


def test_the_sample_of_a_log_does_not_shrink_with_its_age(tmp_path: Path) -> None:
    kept = KeptRows(tmp_path, n_pages_max=100, n_rows_max=1_000)
    for week in range(60):
        # 50 new pages a week; the last four weeks are needed.
        kept.add(batch(np.arange(50 * week, 50 * week + 50), np.full(50, week)))
        kept.write()
        kept.drop_before(week - 3)
    assert kept.kept_share >= 0.25
    assert kept.n_pages <= 100
    assert len([url for url, at in rows_of(kept) if at >= 57]) >= 20


def test_old_rows_are_not_merged_with_new_ones(tmp_path: Path) -> None:
    kept = KeptRows(tmp_path, n_pages_max=100, n_rows_max=1_000)
    for at in range(2 * FILES_MAX + 2):
        kept.add(batch(np.arange(5), np.full(5, at)))
        kept.write()
        if at == FILES_MAX + 5:
            kept.drop_before(20)  # the first merged file has older and newer rows
    assert min(at for _, at in rows_of(kept)) == 20
    assert kept.n_rows == len(rows_of(kept))
    assert kept.n_pages == 5
