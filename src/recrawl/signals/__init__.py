"""Parsers of hints that pages changed: sitemaps, feeds and HTTP headers.

They use no network and never raise on bad bytes: each returns what it found, and what was wrong.
"""

from recrawl.signals.dates import ClaimedTime, parse_date
from recrawl.signals.headers import (
    CachingHeaders,
    parse_retry_after,
    read_caching_headers,
    read_link_header,
)
from recrawl.signals.hints import DocumentKind, HintLimits, HintReader, PageHints
from recrawl.signals.problems import PROBLEM_TEXTS, ProblemCounts

__all__ = [
    "PROBLEM_TEXTS",
    "CachingHeaders",
    "ClaimedTime",
    "DocumentKind",
    "HintLimits",
    "HintReader",
    "PageHints",
    "ProblemCounts",
    "parse_date",
    "parse_retry_after",
    "read_caching_headers",
    "read_link_header",
]
