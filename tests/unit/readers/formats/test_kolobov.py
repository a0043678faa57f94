"""The data set of Kolobov et al.: days and flags to fetches."""

from pathlib import Path

import pytest

from recrawl.errors import ReadError
from recrawl.readers import open_source
from recrawl.readers.formats import kolobov
from tests.unit.readers.samples import KOLOBOV_FILES, kolobov_folder, rows_of

DAY_MS = 86_400_000
START_MS = 1_483_228_800_000


def test_days_are_added_up_and_pages_named(tmp_path: Path) -> None:
    source = open_source(kolobov_folder(tmp_path))
    rows = rows_of(source)
    days = [(row["at_ms"] - START_MS) / DAY_MS for row in rows]
    assert days == pytest.approx([5.51431, 6.61828, 8.09139, 0.5, 1.5], abs=1e-4)
    assert [row["changed"] for row in rows] == [None, False, True, None, True]
    assert [row["url"][-1] for row in rows] == ["5", "5", "5", "7", "7"]
    assert [row["importance"] for row in rows] == [0.25, 0.25, 0.25, 8.0, 8.0]
    assert source.refused.notes == (
        "days are counted from 2017-01-01, because the data set has no dates",
    )


def test_the_start_of_the_history_may_be_given(tmp_path: Path) -> None:
    source = open_source(kolobov_folder(tmp_path), start_ms=1_000_000_000_000)
    assert rows_of(source)[3]["at_ms"] == 1_000_000_000_000 + DAY_MS // 2


def test_pages_without_urls_are_named_by_number(tmp_path: Path) -> None:
    folder = kolobov_folder(tmp_path)
    (folder / "url_urlid_hostid.txt").unlink()
    (folder / "urlid_imp.txt").write_bytes(b"5\tmuch\n\njunk\n7\t-1\n")
    source = open_source(folder)
    rows = rows_of(source)
    assert {row["url"] for row in rows} == {"5", "7"}
    assert {row["importance"] for row in rows} == {None}
    assert "1 lines of urlid_imp.txt could not be read" in source.refused.notes


@pytest.mark.parametrize(
    "line",
    [
        b"x\t1\t[]",
        b"1\tx\t[]",
        b"1\t1",
        b"1\t1\t[[1]]",
        b"1\t1\t[[1, 2]]",
        b"1\t1\t[[-1, 0]]",
        b"1\t-1\t[[1, 0]]",
        b"1\tnan\t[]",
        b"1\t1\t{}",
        b"1\t1\t[[1e9, 0]]",
        b"-1\t1\t[]",
        b"99999999999999999999\t1\t[]",
        b"1\t1\t" + b"[" * 5_000,
    ],
)
def test_an_invalid_line_is_refused(line: bytes, tmp_path: Path) -> None:
    folder = kolobov_folder(tmp_path)
    history = folder / kolobov.HISTORY
    history.write_bytes(line + b"\n\n" + KOLOBOV_FILES[kolobov.HISTORY])
    source = open_source(folder)
    assert len(rows_of(source)) == 5
    assert [row.line for row in source.refused.examples] == [1]


def test_a_folder_without_a_history_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match=r"has no urlid_offset_history\.txt"):
        rows_of(open_source(tmp_path, format="kolobov"))


def test_pages_are_kept_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kolobov, "KOLOBOV_PAGES_MAX", 1)
    source = open_source(kolobov_folder(tmp_path))
    rows_of(source)
    assert any("only the first 1 pages" in note for note in source.refused.notes)
