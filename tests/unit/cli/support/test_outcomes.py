"""Outcomes as lines of JSON."""

import hashlib
import io
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.cli.support import outcomes
from recrawl.cli.support.outcomes import BadOutcome, header_text, lines_of, outcome_of


def line(**row: Any) -> bytes:
    return json.dumps(row).encode()


def test_an_order_with_added_fields_is_an_outcome() -> None:
    order = {"handle": 4096, "url": "https://a.example/", "fetch_url": "https://a.example/"}
    order |= {"etag": '"1"', "last_modified": None, "reason": "value", "expires_at_ms": 5}
    outcome = outcome_of(line(**order, status=200, digest="abc", fetched_at_ms=17))
    assert (outcome.handle, outcome.status, outcome.digest) == (4096, 200, b"abc")
    assert (outcome.etag, outcome.last_modified, outcome.fetched_at_ms) == (b'"1"', None, 17)


def test_numbers_may_be_given_as_text() -> None:
    outcome = outcome_of(line(handle="4096", status="000", retry_after_seconds="30"))
    assert (outcome.handle, outcome.status, outcome.retry_after_seconds) == (4096, 0, 30.0)


def test_fields_may_be_spelled_otherwise() -> None:
    row = {"URL": "https://a.example/", "statusCode": 200, "Content-Hash": "abc", "ETag": '"1"'}
    outcome = outcome_of(line(**row, **{"Last-Modified": "x", "fetchedAtMs": 5}))
    assert (outcome.url, outcome.status, outcome.digest) == ("https://a.example/", 200, b"abc")
    assert (outcome.etag, outcome.last_modified, outcome.fetched_at_ms) == (b'"1"', b"x", 5)
    ours = outcome_of(line(handle=1, status=404, statusCode=200, hash=[1], uri={}))
    assert (ours.status, ours.digest, ours.url) == (404, None, None)
    with pytest.raises(BadOutcome, match="several fields may be status; name it status"):
        outcome_of(line(handle=1, statusCode=200, http_status=404))


def test_content_is_given_as_digest_body_or_file(tmp_path: Path) -> None:
    (tmp_path / "body").write_text("text")
    by_text = outcome_of(line(handle=1, body="text"))
    by_file = outcome_of(line(handle=1, body_path=str(tmp_path / "body")))
    by_base64 = outcome_of(line(handle=1, body_base64="dGV4dA=="))
    assert by_text.body == by_file.body == by_base64.body == b"text"
    assert by_text.status == 200
    assert outcome_of(line(handle=1, text="own text")).text == "own text"
    assert outcome_of(line(handle=1, digest="abc", body="text")).digest == b"abc"
    assert outcome_of(line(handle=1, body="")).body == b""
    assert outcome_of(line(handle=1, body="\ud800")).body == b"?"


def test_a_body_given_as_text_is_utf8() -> None:
    text = line(handle=1, body="é", **{"Content-Type": "text/html; charset=latin-1"})
    assert outcome_of(text).content_type == "text/html; charset=utf-8"
    text = line(handle=1, body_base64="6Q==", content_type="text/html; charset=latin-1")
    assert outcome_of(text).content_type == "text/html; charset=latin-1"


def test_a_large_file_is_compared_by_its_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "BODY_BYTES_MAX", 3)
    (tmp_path / "body").write_text("text")
    outcome = outcome_of(line(handle=1, body_path=str(tmp_path / "body")))
    assert (outcome.body, outcome.digest) == (None, hashlib.sha256(b"text").digest())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[1]", "not a JSON object"),
        (line(status=200, digest="a"), "needs a handle or a url"),
        (line(handle=1), "needs a status"),
        (line(handle=1, status=200), "status 200 needs one of body"),
        (line(handle=1, status=1000), "status must be an HTTP status"),
        (line(handle=-1, status=304), "handle must be a whole number"),
        (line(handle=2**70, status=304), "handle must be a whole number"),
        (line(handle=True, status=304), "handle must be a whole number"),
        (line(handle=1, status=200, digest=5), "digest must be text"),
        (line(handle=1, status=200, body=5), "body must be text"),
        (line(handle=1, status=200, body_path="/no/such/file"), "cannot be read"),
        (line(handle=1, status=200, body_path="\0"), "cannot be read"),
        (line(handle=1, status=304, changed="no"), "changed must be true or false"),
        (line(handle=1, status=304, etag=5), "etag must be text"),
        (line(handle=1, status=503, retry_after_seconds="soon"), "retry_after_seconds must be"),
        (b'{"handle": 1, "status": 503, "divergence": Infinity}', "divergence must be"),
    ],
)
def test_a_bad_line_gives_the_reason(text: bytes, reason: str) -> None:
    with pytest.raises(BadOutcome, match=reason):
        outcome_of(text)


NAMES = ["handle", "url", "status", "digest", "body", "changed", "etag", "divergence", "x"]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
ROWS = st.dictionaries(st.sampled_from(NAMES), SCALARS | st.lists(SCALARS, max_size=2))


@given(st.binary() | ROWS.map(lambda row: json.dumps(row).encode()))
def test_any_bytes_are_an_outcome_or_a_bad_line(text: bytes) -> None:
    with suppress(BadOutcome):
        outcome_of(text)


@given(st.binary())
def test_headers_survive_a_round_trip(value: bytes) -> None:
    text = header_text(value)
    outcome = outcome_of(line(handle=1, status=304, etag=text))
    assert outcome.etag == value


def test_a_header_outside_latin_1_becomes_utf_8() -> None:
    assert outcome_of(line(handle=1, status=304, etag="ж")).etag == "ж".encode()


class Dripping(io.BytesIO):
    """A stream that returns a few bytes at a time."""

    def read1(self, size: int | None = -1, /) -> bytes:
        return self.read(3)


def test_lines_are_yielded_as_they_arrive() -> None:
    found = list(lines_of(Dripping(b"ab\ncd\n\nef")))
    assert [one for lines in found for one in lines] == [b"ab", b"cd", b"ef"]
    assert len(found) == 3


@pytest.mark.parametrize("end", [b"", b"\nshort\n"])
def test_a_line_that_is_too_long_is_one_bad_line(
    end: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "LINE_BYTES_MAX", 10)
    found = [one for lines in lines_of(Dripping(b"x" * 100 + end)) for one in lines]
    assert len(found) == (2 if end else 1)
    with pytest.raises(BadOutcome):
        outcome_of(found[0])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("url", "https://a.example/\ud800"),
        ("moved_to", "\ud800"),
        ("digest", "\udfff"),
        ("retry_after_seconds", 10**400),
        ("retry_after_seconds", 1e300),
        ("divergence", float("inf")),
    ],
)
def test_text_that_utf_8_cannot_encode_is_a_bad_line(key: str, value: object) -> None:
    with pytest.raises(BadOutcome, match=f"{key} must be"):
        outcome_of(
            line(**{"url": "https://a.example/", "status": 200, "changed": True, key: value})
        )
