"""Compare the names of fields as people spell them: ``Page URL``, ``page_url`` and ``pageUrl``."""

from collections.abc import Iterable
from functools import lru_cache

__all__ = ["URL_SPELLINGS", "simple_name", "simple_names"]

URL_SPELLINGS = (
    *("url", "uri", "link", "loc", "address", "page", "page_url", "web_address", "href"),
    *("urls", "links"),
)
"""Names of the field with the URL of a page, best first."""


@lru_cache(maxsize=1_024)  # a broken file may have the same name a hundred thousand times
def simple_name(name: str) -> str:
    """Return a name without case, spaces, underscores, hyphens and other marks.

    Examples
    --------
    >>> simple_name(" Page-URL"), simple_name("lastMod")
    ('pageurl', 'lastmod')
    """
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def simple_names(names: Iterable[str]) -> list[str]:
    """Return the simple form of each name."""
    return [simple_name(name) for name in names]
