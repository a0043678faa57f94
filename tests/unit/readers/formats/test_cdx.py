"""CDX in all its forms, fast where lines are alike and careful where they are not."""

import gzip
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.readers import open_source
from tests.reference.data_folder import data_file
from tests.unit.readers.samples import CDX_7, CDX_11, CDX_CSV, CDX_JSON, CDXJ, opened, read, rows_of

DAY_MS = 86_400_000
START_MS = 1_704_067_200_000


def test_the_eleven_fields_are_read() -> None:
    rows = read(CDX_11)
    assert [row["url"] for row in rows] == ["http://example.com/"] * 3 + ["https://example.com/b"]
    assert [(row["at_ms"] - START_MS) / DAY_MS for row in rows] == [0, 1, 2.5, 2]
    assert [row["digest"] for row in rows] == [b"AAAA", b"AAAA", b"BBBB", b"CCCC"]
    # A revisit says no status: the fetch went well.
    assert [row["status"] for row in rows] == [200, 200, None, 404]


@pytest.mark.parametrize("data", [CDX_7, CDX_JSON, CDX_CSV])
def test_the_other_forms_give_the_same_rows(data: bytes) -> None:
    rows = read(data)
    assert [(row["url"], row["at_ms"], row["digest"]) for row in rows] == [
        ("http://example.com/", START_MS, b"AAAA"),
        ("http://example.com/", START_MS + DAY_MS, b"BBBB"),
    ]


def test_a_header_may_order_the_fields_otherwise() -> None:
    rows = read(b" CDX s a k b\n200 https://a.example/ AAAA 20240101000000\n")
    assert rows[0]["url"] == "https://a.example/"
    assert rows[0]["status"] == 200
    tabs = read(b"\tCDX\tb\ta\n20240101000000\thttps://a.example/\n")
    assert (tabs[0]["url"], tabs[0]["digest"]) == ("https://a.example/", None)


def test_nine_fields_and_parts_with_headers_of_their_own() -> None:
    nine = (
        b" CDX N b a m s k r V g\n"
        b"com,a)/ 20240101000000 http://a.example/ text/html 200 AAAA - 0 a.warc.gz\n"
    )
    assert len(read(nine * 3)) == 3
    assert len(read(nine + CDX_11.split(b"\n", 1)[1])) == 5


def test_irregular_lines_are_read_if_possible_and_refused_otherwise() -> None:
    line = b"com,a)/%d 20240101000000 https://a.example/%d text/html 200 AAAA 9\n"
    lines = [line % (n, n) for n in range(1_000)]
    lines[10] = b"\n"
    lines[20] = b"too few\n"
    lines[30] = b"com,a)/30 20240101000000 https://a.example/30 text/html 200 AAAA 9 and more\n"
    lines[40] = b"com,a)/40 20240101000000 https://a.example/40 text/html 200 AAAA\n"
    lines[50] = b"com,a)/50 yesterday https://a.example/50 text/html 200 AAAA 9\n"
    lines[60] = b"com,a)/60 20240101000000  text/html 200 AAAA 9\n"
    lines[70] = b"com,a)/70 20240101000000 https://a.example/70 text/html no AAAA 9\n"
    lines[80] = b"com,a)/80 20240101000000 https://a.example/\xff text/html 200 AAAA 9\n"
    lines[90] = b"\xff\xfe x\n"
    lines[100] = b"com,a)/1 20240101000000 https://a.example/" + b"x" * 66_000 + b" t 200 AAAA 9\n"
    lines[110] = (
        b"com,a)/110 20240101000000 https://a.example/110 text/html 200 " + b"A" * 2_000 + b" 9\n"
    )
    source = opened(b"".join(lines))
    urls = {row["url"] for row in rows_of(source)}
    assert {f"https://a.example/{n}" for n in (0, 30, 40, 999)} <= urls
    assert "https://a.example/\ufffd" in urls
    assert len(urls) == 1_000 - 8
    assert source.refused.n_rows == 999
    assert {row.line for row in source.refused.examples} == {21, 51, 61, 71, 91, 101, 111}
    assert source.refused.n_replaced == 2


def test_a_bare_carriage_return_does_not_end_a_line() -> None:
    with_returns = CDX_7.replace(b"text/html", b"text\rhtml")
    assert len(read(with_returns, format="cdx")) == 2
    assert read(CDX_7.replace(b"\n", b"\r\n")) == read(CDX_7)


@given(st.lists(st.binary(max_size=60) | st.sampled_from(CDX_7.splitlines()), max_size=20))
def test_valid_lines_are_read_among_any_other_lines(odd: list[bytes]) -> None:
    good = CDX_7.splitlines()[0]
    data = b"\n".join([good, *odd, good]) + b"\n"
    rows = read(data, format="cdx")
    assert sum(row["digest"] == b"AAAA" for row in rows) >= 2


def test_one_block_and_many_blocks_give_the_same_rows() -> None:
    line = b"com,a)/%d 202401%02d000000 https://a.example/%d text/html 200 AAAA 9\n"
    data = b"".join(line % (n, n % 28 + 1, n) for n in range(60_000))
    rows = rows_of(open_source(io.BytesIO(gzip.compress(data, 1))))
    assert [row["url"] for row in rows] == [f"https://a.example/{n}" for n in range(60_000)]


def test_json_arrays_may_be_on_one_line_or_lack_columns() -> None:
    assert len(read(CDX_JSON.replace(b"\n", b" "))) == 2
    source = opened(b'[["a", "b"],\n["c", "d"],\n"e"]\n', format="cdx")
    assert rows_of(source) == []
    assert source.refused.by_reason == {"no URL": 1, "not a JSON array": 1}


def test_cdxj_takes_the_url_from_its_object_or_its_key() -> None:
    rows = read(CDXJ)
    assert [(row["url"], row["at_ms"], row["status"], row["digest"]) for row in rows] == [
        ("https://example.com/", START_MS, 200, b"AAAA"),
        ("https://example.com/b", START_MS + DAY_MS, 200, b"sha1:BBBB"),
    ]
    source = opened(CDXJ + b"com,a)/ 20240101 [1]\ncom,a)/\ncom,a)/ never {}\nplain 2024 {}\n")
    assert [row["url"] for row in rows_of(source)][2:] == ["plain"]
    assert [row.line for row in source.refused.examples] == [4, 5, 6]


def test_the_objects_of_an_index_server_are_a_crawl_log() -> None:
    data = (
        b'{"urlkey": "com,a)/", "timestamp": "20240101000000", "url": "https://a.example/", '
        b'"status": "200", "digest": "AAAA"}\n'
    )
    source = opened(data)
    assert source.format == "crawl-log"
    assert rows_of(source)[0]["at_ms"] == START_MS


@pytest.mark.data
def test_real_captures_are_read_completely() -> None:
    source = open_source(data_file("cdx_samples.csv"))
    rows = rows_of(source)
    assert source.format == "cdx"
    assert len(rows) == 4_083
    assert source.refused.n_refused == 0
    assert sum(row["digest"] is not None for row in rows) > 4_000
