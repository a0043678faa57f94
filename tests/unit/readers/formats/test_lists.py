"""Lists of pages, with and without what they matter."""

from datetime import date, datetime
from pathlib import Path

from recrawl.readers import open_source
from recrawl.readers.schemas import URL_BYTES_MAX
from tests.unit.readers.samples import lines, opened, parquet, read, rows_of


def test_comments_and_blank_lines_are_skipped() -> None:
    rows = read(b"\n# a list\nhttps://a.example/\n\t\n https://b.example/#top \nc.example\n")
    assert [row["url"] for row in rows] == [
        "https://a.example/",
        "https://b.example/#top",
        "c.example",
    ]
    assert rows[0]["importance"] is None


def test_a_list_may_be_forced_on_what_looks_like_a_table() -> None:
    rows = read(b"https://a.example/x,1\n", format="list")
    assert [row["url"] for row in rows] == ["https://a.example/x,1"]


def test_a_url_too_long_is_refused_with_its_line() -> None:
    longest = b"https://a.example/" + b"x" * (URL_BYTES_MAX - 18)
    source = opened(longest + b"\n" + longest + b"x\n" + "https://é.example/".encode() + b"\n")
    assert len(rows_of(source)) == 2
    assert [row.line for row in source.refused.examples] == [2]
    wide = opened(b"https://a.example/" + "é".encode() * (URL_BYTES_MAX // 2) + b"\n")
    assert rows_of(wide) == []


def test_a_csv_file_names_its_columns_in_any_order_and_separator() -> None:
    for separator in (",", ";", "\t", "|"):
        text = f"Cost{separator}URL{separator}Importance\n1{separator}https://a.example/{separator}2.5\n"
        [row] = read(text.encode())
        assert (row["url"], row["importance"], row["cost"]) == ("https://a.example/", 2.5, 1.0)


def test_a_csv_file_without_names_begins_with_the_url() -> None:
    rows = read(b"https://a.example/,2\nhttps://b.example/\n")
    assert [(row["url"], row["importance"]) for row in rows] == [
        ("https://a.example/", 2.0),
        ("https://b.example/", None),
    ]


def test_rows_with_invalid_cells_are_refused() -> None:
    source = opened(
        lines(
            {"url": "https://a.example/", "importance": -1},
            {"url": "https://b.example/", "importance": "much"},
            {"url": "https://c.example/", "importance": True},
            {"url": ["https://d.example/"]},
            {"importance": 1},
            {"url": "https://e.example/", "cost": 1e400, "importance": None},
            {"url": "https://f.example/", "importance": "2.5", "last_modified": "2024-01-01"},
            {"url": ""},
        )
        + b"nonsense\n[1]\n12\n"
    )
    [row] = rows_of(source)
    assert row == {
        "url": "https://f.example/",
        "importance": 2.5,
        "cost": None,
        "last_modified_at_ms": 1_704_067_200_000,
        "doc_id": None,
        "metadata": None,
        "key": None,
    }
    assert source.refused.by_reason == {
        "the URL is not text of at most 65,535 bytes": 1,
        "no URL": 2,
        "the importance is not a number of 0 or more": 3,
        "the cost is not a number of 0 or more": 1,
        "not a JSON object": 3,
    }
    assert sorted(row.line for row in source.refused.examples) == [1, 2, 3, 4, 5, 6, 8, 9, 10, 11]


def test_a_quoted_cell_may_hold_separators_and_line_ends() -> None:
    source = opened(b'url,cost\n"https://a.example/x,y",1\n"https://b.example/\nz",2\nc,d,e\n')
    assert [row["url"] for row in rows_of(source)] == [
        "https://a.example/x,y",
        "https://b.example/\nz",
    ]
    assert str(source.refused.examples[0]) == "line 5: more than 2 cells: c,d,e"


def test_an_unclosed_quote_does_not_consume_the_file() -> None:
    many = b"".join(b"https://a.example/%d,1\n" % n for n in range(200_000))
    source = opened(b'url,cost\n"https://a.example/,1\n' + many)
    assert len(rows_of(source)) == 200_000
    assert str(source.refused.examples[0]).startswith("line 2: a quote that is not closed")
    at_the_end = opened(b'url,cost\nhttps://a.example/,1\n"https://b.example/,2\n\n')
    assert len(rows_of(at_the_end)) == 1
    assert at_the_end.refused.n_refused == 1


def test_a_quoted_cell_may_go_on_in_the_next_block() -> None:
    row = b'"https://a.example/\nx",1\n'
    source = opened(b"url,cost\n" + row * 100_000)
    assert [row["url"] for row in rows_of(source)] == ["https://a.example/\nx"] * 100_000


def test_quotes_in_every_line_are_read_in_time() -> None:
    source = opened(b"url,cost\n" + b'"\n' * 20_001 + b"https://a.example/,1\n" * 200)
    assert 0 < len(rows_of(source)) <= 10_201
    odd = opened(b"url,cost\n" + b'a,"\nb\n' * 20_000)
    rows_of(odd)


def test_lone_surrogates_are_replaced() -> None:
    [row] = read(b'{"url": "https://a.example/\\ud800"}\n')
    assert row["url"] == "https://a.example/?"


def test_the_last_modification_of_a_table_may_be_a_timestamp() -> None:
    table = {"url": ["https://a.example/"], "lastmod": [datetime(2024, 1, 1)]}
    assert read(parquet(table))[0]["last_modified_at_ms"] == 1_704_067_200_000
    dates = {"url": ["https://a.example/"], "lastmod": [date(2024, 1, 1)]}
    assert read(parquet(dates))[0]["last_modified_at_ms"] == 1_704_067_200_000


def test_names_without_a_scheme_are_a_list_in_a_text_file(tmp_path: Path) -> None:
    path = tmp_path / "hosts.txt"
    path.write_bytes(b"# hosts\nexample.com\nexample.org/a\n")
    source = open_source(path)
    assert source.format == "list"
    assert [row["url"] for row in rows_of(source)] == ["example.com", "example.org/a"]
