"""Headers of answers, as servers send them."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.signals import parse_retry_after, read_caching_headers, read_link_header
from recrawl.signals.headers import HEADER_CHARACTERS_MAX, RETRY_AFTER_SECONDS_MAX

NOW_MS = 1_794_821_400_000  # Mon, 16 Nov 2026 09:30:00 GMT
LONG = "e" * (HEADER_CHARACTERS_MAX + 1)
HEADERS = st.sampled_from(["etag", "age", "date", "expires", "cache-control"])
NOW = "Mon, 16 Nov 2026 09:30:00 GMT"


def fresh(**headers: str) -> float | None:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return read_caching_headers(named, now_ms=NOW_MS).fresh_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("120", 120.0),
        (" 30 ", 30.0),
        ("Mon, 16 Nov 2026 09:32:00 GMT", 120.0),
        ("Mon, 16 Nov 2026 09:00:00 GMT", 0.0),
        ("99999999999999", RETRY_AFTER_SECONDS_MAX),
        ("-5", None),
        ("1.5", 1.0),
        ("9" * 400, RETRY_AFTER_SECONDS_MAX),
        ("Sun, 06 Nov 2399 08:49:37 GMT", RETRY_AFTER_SECONDS_MAX),
        ("soon", None),
        ("", None),
        (None, None),
        ("9" * 100_000, None),
    ],
)
def test_retry_after(text: str | None, seconds: float | None) -> None:
    assert parse_retry_after(text, now_ms=NOW_MS) == seconds


def test_freshness_follows_the_order_of_the_standard() -> None:
    assert fresh() is None
    assert fresh(cache_control="max-age=600") == 600.0
    assert fresh(cache_control="max-age=600, s-maxage=60") == 60.0
    assert fresh(cache_control="max-age=600", age="90") == 510.0
    assert fresh(cache_control="max-age=60", age="90") == 0.0
    assert fresh(cache_control="no-cache, max-age=600") == 0.0
    assert fresh(cache_control='max-age="600"') == 600.0
    assert fresh(cache_control="max-age=600, max-age=60") == 60.0
    assert fresh(cache_control="max-age=a day") == 0.0
    assert fresh(cache_control="public", expires="Mon, 16 Nov 2026 10:30:00 GMT") == 3600.0
    assert fresh(expires="0") == 0.0
    assert fresh(expires="Mon, 16 Nov 2026 10:30:00 GMT", date=NOW) == 3600.0


def test_validators_are_returned_as_received() -> None:
    headers = {"etag": 'W/"a-b"', "last-modified": "Sun, 15 Nov 2026 09:30:00 GMT"}
    found = read_caching_headers(headers, now_ms=NOW_MS)
    assert found.etag == b'W/"a-b"'
    assert found.last_modified == b"Sun, 15 Nov 2026 09:30:00 GMT"
    assert found.modified_at_ms == NOW_MS - 86_400_000


@pytest.mark.parametrize(
    "value", ["a\r\nX: b", "\x00", "\u20ac", "e" * (HEADER_CHARACTERS_MAX + 1)]
)
def test_a_validator_that_cannot_be_sent_back_is_none(value: str) -> None:
    assert read_caching_headers({"etag": value}, now_ms=NOW_MS).etag is None


def test_a_page_modified_when_it_was_sent_claims_nothing() -> None:
    headers = {"last-modified": NOW, "date": NOW}
    assert read_caching_headers(headers, now_ms=NOW_MS).modified_at_ms == 0


def test_links() -> None:
    values = [
        '<https://a.example/x>; rel="canonical", '
        '<https://a.example/de>; rel=alternate; hreflang="de"',
        '</hub?a=1,2>; rel="hub Self"; title="a, b; c"',
    ]
    canonical, german, hub = read_link_header(values)
    assert canonical == ("https://a.example/x", frozenset({"canonical"}), "")
    assert german == ("https://a.example/de", frozenset({"alternate"}), "de")
    assert hub == ("/hub?a=1,2", frozenset({"hub", "self"}), "")


@pytest.mark.parametrize(
    "value",
    ["<a" * 5000, "<a>" + " ;" * 5000, "<a>;" + 'a="' * 3000, "<a>;a=" + '"",' * 3000, "," * 9000],
)
def test_a_hostile_link_header_takes_no_longer_than_a_good_one(value: str) -> None:
    good = "<https://a.example/x>; rel=canonical, " * 250
    begun = time.process_time()
    read_link_header([good])
    usual = time.process_time() - begun
    begun = time.process_time()
    read_link_header([value])
    assert time.process_time() - begun < 50 * usual + 0.1


@given(
    st.dictionaries(st.sampled_from(["etag", "age", "date", "expires", "cache-control"]), st.text())
)
def test_no_header_raises(headers: dict[str, str]) -> None:
    read_caching_headers(headers, now_ms=NOW_MS)
    read_link_header(headers.values())
    for value in headers.values():
        parse_retry_after(value, now_ms=NOW_MS)


@pytest.mark.parametrize(
    "text",
    ["a=" * 4_096, "a= " * 2_730, '="' * 4_096, "a-" * 4_096, '"' + "a" * 8_000, "a " * 4_096],
)
def test_no_header_takes_long(text: str) -> None:
    """A ratio within one run: reading half of the text takes about half of the time."""
    assert fresh(cache_control=text + ",") is None

    def seconds(length: int) -> float:
        start = time.thread_time()
        for _ in range(20):
            fresh(cache_control=text[:length])
            read_link_header([f"<a>;{text[:length]}"])
        return time.thread_time() - start

    whole, part = (min(seconds(n) for _ in range(3)) for n in (8_192, 512))
    assert whole < 16 * 20 * part
