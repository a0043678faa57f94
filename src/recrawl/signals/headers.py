"""Read what HTTP headers say about changes: validators, freshness, Retry-After and links.

References
----------
RFC 9110 (Last-Modified, Retry-After), RFC 9111 (Cache-Control, Expires, Age), RFC 8288 (Link)
"""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from recrawl.signals.dates import parse_date

__all__ = [
    "HEADER_CHARACTERS_MAX",
    "RETRY_AFTER_SECONDS_MAX",
    "CachingHeaders",
    "LinkTarget",
    "parse_retry_after",
    "read_caching_headers",
    "read_link_header",
]

HEADER_CHARACTERS_MAX: Final = 8_192
"""Characters of a header that are read."""
RETRY_AFTER_SECONDS_MAX: Final = 7 * 86_400.0
"""Longest delay that a server can ask for; a longer one counts as this."""

_DELAY = re.compile(r"([0-9]+)(?:\.[0-9]*)?")
_DELAY_DIGITS_MAX = 18
# A date after those that `parse_date` accepts.
_FAR_DATE = re.compile(r"\b(?:2[1-9]|[3-9]\d)\d\d\b.{0,20}\bGMT\b")
_FRESH_SECONDS_MAX = 366 * 86_400.0
_LINKS_MAX = 100
# Possessive, so that no text takes more than linear time: commas inside quotes do not separate.
_DIRECTIVE = re.compile(r"""(?:[^,"]++|"[^"]*+"?)++""")
_DIRECTIVE_NAME = re.compile(r"[\w-]+", re.ASCII)
_LINK = re.compile(
    r"""\s*<([^>]*)>((?:\s*;\s*[\w*-]+(?:\s*=\s*(?:"[^"]*"|[^\s",;]*))?)*)\s*(?:,|$)"""
)
_PARAMETER = re.compile(r""";\s*([\w*-]+)\s*(?:=\s*(?:"([^"]*)"|([^\s",;]*)))?""")


class CachingHeaders(NamedTuple):
    """What the headers of an answer say about the page's changes."""

    etag: bytes | None
    """Value for ``If-None-Match``, as received."""
    last_modified: bytes | None
    """Value for ``If-Modified-Since``, as received."""
    modified_at_ms: int
    """Instant of the last change that the server claims; 0 if it claims none, or the instant of the
    answer itself, which says nothing about the page."""
    fresh_seconds: float | None
    """Seconds for which the server promises that the copy is good; None if it does not say."""


def read_caching_headers(headers: Mapping[str, str], *, now_ms: int) -> CachingHeaders:
    """Return what the headers of an answer say about changes.

    Parameters
    ----------
    headers
        Headers of the answer, with lower-case names.
    now_ms
        Instant of the answer, used where it has no ``Date``.

    Examples
    --------
    >>> headers = {"etag": 'W/"5"', "cache-control": "public, max-age=600", "age": "60"}
    >>> found = read_caching_headers(headers, now_ms=1_800_000_000_000)
    >>> found.etag, found.fresh_seconds
    (b'W/"5"', 540.0)
    """
    date = parse_date(headers.get("date", ""))
    date_ms = date.earliest_ms if date is not None else now_ms
    modified = parse_date(headers.get("last-modified", ""))
    modified_ms = modified.earliest_ms if modified is not None else 0
    # A page that was modified when it was sent is generated for each request.
    if modified_ms >= date_ms:
        modified_ms = 0
    return CachingHeaders(
        _validator(headers.get("etag")),
        _validator(headers.get("last-modified")),
        modified_ms,
        _fresh_seconds(headers, date_ms),
    )


def _validator(value: str | None) -> bytes | None:
    if not value or len(value) > HEADER_CHARACTERS_MAX or not value.isprintable():
        return None
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        return None


def _fresh_seconds(headers: Mapping[str, str], date_ms: int) -> float | None:
    directives = _directives(headers.get("cache-control", ""))
    if directives.keys() & {"no-store", "no-cache"}:
        return 0.0
    for name in ("s-maxage", "max-age"):
        if name in directives:
            seconds = _seconds(directives[name])
            return 0.0 if seconds is None else max(seconds - _age_seconds(headers), 0.0)
    if "expires" in headers:
        expires = parse_date(headers["expires"])
        # An invalid date, above all "0", means that the copy is stale already.
        ms = 0 if expires is None else expires.earliest_ms - date_ms
        return min(max(ms / 1000, 0.0), _FRESH_SECONDS_MAX)
    return None


def _directives(text: str) -> dict[str, str]:
    """Return the directives of Cache-Control; of repeated ones the most restrictive number."""
    found: dict[str, str] = {}
    for part in _DIRECTIVE.findall(text[:HEADER_CHARACTERS_MAX]):
        name, _, value = part.partition("=")
        key, value = name.strip().lower(), value.strip()
        if not _DIRECTIVE_NAME.fullmatch(key):
            continue
        if len(value) > 1 and value[0] == value[-1] == '"':
            value = value[1:-1]
        before = _seconds(found[key]) if key in found else None
        if before is None or (_seconds(value) or 0.0) < before:
            found[key] = value
    return found


def _age_seconds(headers: Mapping[str, str]) -> float:
    return _seconds(headers.get("age", "")) or 0.0


def _seconds(text: str) -> float | None:
    text = text.strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        return None
    return min(float(text), _FRESH_SECONDS_MAX)


def parse_retry_after(text: str | None, *, now_ms: int) -> float | None:
    """Return the delay that a server asks for, in seconds; None if the header is missing or wrong.

    Parameters
    ----------
    text
        Value of ``Retry-After``: seconds, or a date.
    now_ms
        Instant of the answer.

    Examples
    --------
    >>> parse_retry_after("120", now_ms=0), parse_retry_after("soon", now_ms=0)
    (120.0, None)
    """
    if not text or len(text) > HEADER_CHARACTERS_MAX:
        return None
    number = _DELAY.fullmatch(text.strip())
    if number is not None:
        digits = number[1].lstrip("0")
        seconds = float(digits or 0) if len(digits) <= _DELAY_DIGITS_MAX else math.inf
    elif _FAR_DATE.search(text):
        seconds = math.inf  # whoever writes this wants to be left alone
    else:
        date = parse_date(text)
        if date is None:
            return None
        seconds = max((date.earliest_ms - now_ms) / 1000, 0.0)
    return min(seconds, RETRY_AFTER_SECONDS_MAX)


class LinkTarget(NamedTuple):
    """One link of the header ``Link``."""

    url: str
    relations: frozenset[str]
    """Values of ``rel``, in lower case."""
    language: str
    """Value of ``hreflang``, empty if it has none."""


def read_link_header(values: Iterable[str]) -> list[LinkTarget]:
    """Return the links of ``Link`` headers, such as canonical, alternate and hub.

    Parameters
    ----------
    values
        Values of all ``Link`` headers of an answer.

    Examples
    --------
    >>> read_link_header(['<https://a.example/x>; rel="canonical"'])[0].relations
    frozenset({'canonical'})
    """
    links: list[LinkTarget] = []
    for value in values:
        position = 0
        text = value[:HEADER_CHARACTERS_MAX]
        while len(links) < _LINKS_MAX and (found := _LINK.match(text, position)):
            parameters = {
                name.lower(): quoted or token
                for name, quoted, token in reversed(_PARAMETER.findall(found[2]))
            }
            relations = frozenset(parameters.get("rel", "").lower().split())
            links.append(LinkTarget(found[1].strip(), relations, parameters.get("hreflang", "")))
            position = found.end()
    return links
