"""States of other crawlers: Nutch's crawldb and StormCrawler's index."""

import json

from recrawl.readers.formats import nutch
from tests.unit.readers.samples import NUTCH, NUTCH_CSV, STORMCRAWLER, lines, opened, read, rows_of

DAY_MS = 86_400_000
JANUARY_MS = 1_704_067_200_000
DECEMBER_MS = JANUARY_MS - 31 * DAY_MS


def test_a_crawldb_gives_the_last_fetch_and_the_one_that_found_a_change() -> None:
    rows = read(NUTCH)
    assert [(row["url"], row["at_ms"], row["changed"], row["status"]) for row in rows] == [
        ("https://example.com/", DECEMBER_MS, True, 200),
        ("https://example.com/", JANUARY_MS, False, 200),
        ("https://example.com/gone", JANUARY_MS + 29 * DAY_MS, None, 404),
    ]
    assert rows[0]["digest"] == rows[1]["digest"] == b"5d41402abc4b2a76b9719d911017c592"
    assert (rows[2]["digest"], rows[2]["importance"]) == (None, 0.0)


def test_a_crawldb_as_csv_gives_the_same_fetches() -> None:
    [row] = read(NUTCH_CSV)
    assert (row["url"], row["at_ms"], row["importance"]) == (
        "https://example.com/",
        JANUARY_MS,
        1.5,
    )


def test_pages_that_were_never_fetched_are_counted() -> None:
    source = opened(
        NUTCH.replace(b"db_gone", b"db_unfetched")
        + b"junk\nhttps://b.example/\tVersion: 7\nStatus: 2 (db_fetched)\nFetch time: soon\n"
        + b"\nhttps://c.example/\tVersion: 7\nStatus: 2 (db_fetched)\n"
        + b"Retry interval: 999999999999\n"
        + b"Fetch time: Wed Jan 31 00:00:00 UTC 2024\n"
    )
    assert len(rows_of(source)) == 2
    assert source.refused.by_reason == {
        "not fetched yet": 1,
        "not a line of a crawldb dump": 1,
        "the fetch time or the interval is missing": 1,
        "the interval reaches back to before 1990": 1,
    }
    assert [row.line for row in source.refused.examples] == [23, 13, 24, 28]


def test_many_pages_come_in_several_batches() -> None:
    n = nutch._FETCHES_AT_A_TIME // 3
    source = opened(NUTCH * (n + 10))
    assert len(list(source.batches())) == 2


def test_a_status_index_gives_the_last_fetch_and_the_one_that_found_a_change() -> None:
    rows = read(STORMCRAWLER)
    assert [(row["url"], row["at_ms"], row["changed"], row["status"]) for row in rows] == [
        ("https://example.com/", JANUARY_MS + DAY_MS, True, 200),
        ("https://example.com/", JANUARY_MS + 4 * DAY_MS, False, 200),
        ("https://example.com/gone", JANUARY_MS + 5 * DAY_MS, None, 410),
    ]
    assert [row["digest"] for row in rows] == [b"AAAA", b"AAAA", None]


def test_documents_without_a_fetch_are_refused_and_counted() -> None:
    at = {"lastProcessedDate": ["2024-01-05T00:00:00Z"]}
    source = opened(
        STORMCRAWLER
        + lines(
            {"url": "a", "status": "DISCOVERED", "metadata": at},
            {"url": "b", "status": "FETCHED", "metadata": {}},
            {"url": "c", "status": "FETCHED", "metadata": None},
            {"_source": "d"},
            {"url": "e", "status": "FETCH_ERROR", "metadata": at},
            {"url": "f", "status": ["odd"], "metadata": at | {"fetch.statusCode": []}},
            {"url": "g", "status": "FETCHED", "metadata": {"lastProcessedDate": [["never"]]}},
        )
    )
    rows = rows_of(source)
    assert [(row["url"], row["status"]) for row in rows[3:]] == [("e", 0), ("f", None)]
    assert source.refused.by_reason == {
        "not fetched yet": 3,
        "not a document of a status index": 1,
        "the time is invalid or outside 1990 to 2100": 1,
    }


def test_a_whole_array_of_documents_is_read() -> None:
    documents = [json.loads(line) for line in STORMCRAWLER.splitlines()]
    assert read(json.dumps(documents).encode(), format="stormcrawler") == read(STORMCRAWLER)
