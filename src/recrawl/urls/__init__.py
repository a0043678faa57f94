"""URLs as keys of pages: canonical form, hashes, groups and patterns."""

from recrawl.urls.canonical import (
    CANON_VERSION,
    URL_BYTES_MAX,
    URL_INPUT_BYTES_MAX,
    CanonicalUrls,
    UrlProblem,
    canonical,
)
from recrawl.urls.fetch_urls import are_sendable, have_control_characters
from recrawl.urls.groups import (
    GroupBy,
    group_index,
    group_keys,
    host_index,
    hosts,
    registrable_domains,
)
from recrawl.urls.hashes import hash_urls
from recrawl.urls.key_names import KEY_BYTES_MAX, is_key, page_names, split_page_names
from recrawl.urls.patterns import PATTERNS_MAX, Pattern, PatternSet

__all__ = [
    "CANON_VERSION",
    "KEY_BYTES_MAX",
    "PATTERNS_MAX",
    "URL_BYTES_MAX",
    "URL_INPUT_BYTES_MAX",
    "CanonicalUrls",
    "GroupBy",
    "Pattern",
    "PatternSet",
    "UrlProblem",
    "are_sendable",
    "canonical",
    "group_index",
    "group_keys",
    "hash_urls",
    "have_control_characters",
    "host_index",
    "hosts",
    "is_key",
    "page_names",
    "registrable_domains",
    "split_page_names",
]
