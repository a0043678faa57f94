"""Our own crawl log in its three ways of writing, and a real one."""

from pathlib import Path

import pyarrow as pa
import pytest

from recrawl.errors import ReadError
from recrawl.readers import open_source
from tests.reference.data_folder import data_file
from tests.unit.readers.samples import (
    CRAWL_LOG,
    CRAWL_LOG_CSV,
    CRAWL_LOG_TABLE,
    lines,
    opened,
    parquet,
    read,
    rows_of,
)

DAY_MS = 86_400_000
START_MS = 1_704_067_200_000


def test_times_are_read_under_their_usual_names_and_units() -> None:
    rows = read(CRAWL_LOG)
    assert [row["at_ms"] for row in rows] == [START_MS, START_MS + DAY_MS, START_MS + 2 * DAY_MS]
    assert [row["url"] for row in rows] == ["https://example.com/", "https://example.com/", "17"]
    assert [row["changed"] for row in rows] == [None, True, False]
    assert [row["digest"] for row in rows] == [b"AAAA", None, None]
    assert [row["status"] for row in rows] == [200, None, None]
    assert [row["importance"] for row in rows] == [None, 2.5, None]


def test_the_same_as_csv() -> None:
    rows = read(CRAWL_LOG_CSV)
    assert [(row["url"], row["at_ms"] - START_MS, row["changed"]) for row in rows] == [
        ("https://example.com/", 0, None),
        ("https://example.com/a,b", DAY_MS, True),
    ]
    assert [row["status"] for row in rows] == [200, None]


def test_the_same_as_parquet_with_columns_of_other_names() -> None:
    columns = {"url": "page_id", "at": "ts", "changed": "text_changed", "digest": "note"}
    rows = read(parquet(CRAWL_LOG_TABLE), columns=columns)
    assert [(row["url"], row["changed"], row["digest"]) for row in rows] == [
        ("1", False, b"a"),
        ("2", False, None),
        ("2", True, b"c"),
    ]
    by_name = read(
        lines({"where": "a", "when": 1_704_067_200}), columns={"url": "where", "at": "when"}
    )
    assert by_name[0]["at_ms"] == START_MS


@pytest.mark.parametrize(
    "at",
    [
        pa.array([START_MS // 1_000], pa.int64()),
        pa.array([START_MS], pa.uint64()),
        pa.array([START_MS / 1_000], pa.float64()),
        pa.array([START_MS], pa.timestamp("ms")),
        pa.array([START_MS * 1_000_000], pa.timestamp("ns", "Europe/Berlin")),
        pa.array([START_MS // 1_000], pa.timestamp("s", "UTC")),
        pa.array([START_MS // DAY_MS], pa.date32()),
        pa.array([START_MS], pa.date64()),
        pa.array(["2024-01-01"]),
        pa.array(["20240101000000"]).dictionary_encode(),
        pa.array(["2024-01-01T00:00:00Z"], pa.large_string()),
    ],
)
def test_a_parquet_column_of_any_type_may_hold_the_time(at: pa.Array) -> None:
    [row] = read(parquet({"url": ["a"], "at": at}))
    assert row["at_ms"] == START_MS


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (pa.array([0, 1], pa.int8()), [False, True]),
        (pa.array(["no", "Yes"]), [False, True]),
        (pa.array([0.0, 1.0]), [False, True]),
        (pa.array([None, True]), [None, True]),
    ],
)
def test_yes_and_no_are_understood(changed: pa.Array, expected: list[bool | None]) -> None:
    rows = read(parquet({"url": ["a", "a"], "at": [1.7e9, 1.7e9], "changed": changed}))
    assert [row["changed"] for row in rows] == expected


@pytest.mark.parametrize(
    "digest",
    [
        pa.array([b"ab"], pa.binary(2)),
        pa.array([b"ab"], pa.large_binary()),
        pa.array(["ab"]).dictionary_encode(),
        pa.array(["ab"], pa.large_string()),
    ],
)
def test_a_digest_may_be_text_or_bytes(digest: pa.Array) -> None:
    assert read(parquet({"url": ["a"], "at": [1.7e9], "digest": digest}))[0]["digest"] == b"ab"
    number = read(parquet({"url": ["a"], "at": [1.7e9], "digest": [12]}))
    assert number[0]["digest"] == b"12"


def test_a_status_below_a_hundred_means_that_there_was_no_answer() -> None:
    rows = read(
        lines(
            *({"url": "a", "at": 1.7e9, "status": status} for status in (-1, 0, "503", "-", 999.0))
        )
    )
    assert [row["status"] for row in rows] == [0, 0, 503, None, 999]


def test_rows_with_invalid_cells_are_refused() -> None:
    good = {"url": "a", "at": 1.7e9}
    bad = [
        {"at": 1.7e9},
        {"url": "a"},
        good | {"at": "yesterday"},
        good | {"changed": "perhaps"},
        good | {"status": "OK"},
        good | {"status": 70_000},
        good | {"digest": "x" * 2_000},
        good | {"importance": "much"},
    ]
    source = opened(lines(good, *bad))
    assert len(rows_of(source)) == 1
    assert source.refused.n_rows == 9
    assert sum(source.refused.by_reason.values()) == 8
    assert str(source.refused.examples[-1]).startswith("line ")
    assert {row.line for row in source.refused.examples} == set(range(2, 10))


def test_a_refused_parquet_row_has_its_row_number() -> None:
    table = {"url": ["a", None, "b", "x" * 70_000], "at": [1.7e9, 1.7e9, 5.0, 1.7e9]}
    source = opened(parquet(table | {"importance": [1.0, 1.0, 1.0, float("nan")]}))
    assert len(rows_of(source)) == 1
    assert sorted(row.line for row in source.refused.examples) == [2, 3, 4]


def test_a_log_without_a_time_is_an_error_that_lists_the_columns() -> None:
    with pytest.raises(
        ReadError, match="no column 'at'; name the one to use: its columns are url, x"
    ):
        read(parquet({"url": ["a"], "x": [1]}), format="crawl-log")


def test_truncated_parquet_is_an_error_and_damaged_parquet_is_cut_short() -> None:
    data = parquet({"url": ["a"] * 50_000, "at": list(range(1_700_000_000, 1_700_050_000))})
    with pytest.raises(ReadError, match="not a complete Parquet file"):
        rows_of(opened(data[:-20], format="crawl-log"))
    broken = bytearray(data)
    middle = len(data) // 3
    broken[middle : middle + 2_000] = bytes(2_000)
    source = opened(bytes(broken), format="crawl-log")
    rows_of(source)
    assert source.refused.is_cut_short or source.refused.n_refused


@pytest.mark.data
def test_a_real_log_is_read_completely() -> None:
    source = open_source(
        data_file("ota_crawl_log.parquet"),
        columns={"at": "ts", "changed": "text_changed", "url": "page_id"},
    )
    n_rows = n_changed = 0
    urls: set[str] = set()
    for batch in source.batches():
        n_rows += batch.num_rows
        n_changed += batch["changed"].true_count
        urls.update(batch["url"].unique().to_pylist())
    assert (n_rows, len(urls)) == (418_800, 830)
    assert 0.005 < n_changed / n_rows < 0.012
    assert source.refused.n_refused == 0


def test_a_log_without_a_digest_is_read_and_its_fields_are_named(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"url": "https://a.example/", "timestamp": 1700000000, "page_sum": "x"}\n')
    source = open_source(path)
    rows = [row for batch in source.batches() for row in batch.to_pylist()]
    assert len(rows) == 1
    (note,) = source.refused.notes
    assert note.endswith("a changed flag: page_sum, timestamp, url")
    source = open_source(path, columns={"digest": "page_sum"})
    assert [b.column("digest").null_count for b in source.batches()] == [0]
    assert not source.refused.notes
