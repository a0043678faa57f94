"""Access logs: what people asked for, and how often."""

import pytest

from recrawl.errors import ReadError
from recrawl.readers.formats import access_log
from tests.unit.readers.samples import ACCESS_LOG, opened, read, rows_of

BASE = "https://example.com/"


def counts(data: bytes, **options: object) -> dict[str, float]:
    return {row["url"]: row["importance"] for row in read(data, **options)}


def test_successful_requests_are_counted() -> None:
    assert counts(ACCESS_LOG, base_url=BASE) == {"https://example.com/a": 2.0}


def test_requests_of_robots_are_ignored_unless_requested() -> None:
    source = opened(ACCESS_LOG, base_url=BASE)
    rows_of(source)
    assert source.refused.notes == ("1 requests of robots were not counted",)
    with_bots = counts(ACCESS_LOG, base_url=BASE, with_bots=True)
    assert with_bots == {"https://example.com/a": 2.0, "https://example.com/b?x=1": 1.0}


def test_the_virtual_host_is_the_base_where_it_is_written() -> None:
    line = b'www.example.com:443 1.2.3.4 - - [10/Oct/2023:13:55:36 +0000] "GET / HTTP/1.1" 200 1\n'
    assert counts(line) == {"https://www.example.com/": 1.0}
    assert counts(line, base_url="http://b.example") == {"http://b.example/": 1.0}


def test_a_path_without_a_base_is_refused_and_a_whole_url_is_not() -> None:
    proxied = ACCESS_LOG.replace(b"GET /b", b"GET http://b.example/b")
    source = opened(proxied, with_bots=True)
    assert [row["url"] for row in rows_of(source)] == ["http://b.example/b?x=1"]
    assert source.refused.by_reason == {"only a path; give the base URL of the site": 2}


def test_lines_of_another_kind_are_refused() -> None:
    source = opened(ACCESS_LOG + b"\nhello\n\x16\x03\x01\n", base_url=BASE)
    rows_of(source)
    assert [row.line for row in source.refused.examples] == [7, 8]
    escaped = rb'1.2.3.4 - - [10/Oct/2023:13:55:36 -0700] "GET /a HTTP/1.1" 200 1 "-" "a \"bot\""'
    assert counts(escaped + b"\n", base_url=BASE) == {}


def test_the_base_must_be_a_url() -> None:
    with pytest.raises(ReadError, match="base URL must begin with http"):
        read(ACCESS_LOG, base_url="example.com")


def test_paths_are_counted_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_log, "ACCESS_LOG_PATHS_MAX", 2)
    line = b'1.2.3.4 - - [10/Oct/2023:13:55:36 +0000] "GET /%d HTTP/1.1" 200 1\n'
    source = opened(b"".join(line % (n % 3) for n in range(9)), base_url=BASE)
    assert [row["importance"] for row in rows_of(source)] == [3.0, 3.0]
    assert source.refused.notes == ("only the first 2 paths were counted",)
