"""Check the URLs that sites announce."""

from urllib.parse import urlsplit

from recrawl.service.problems import Problem

__all__ = ["URL_CHARACTERS_MAX", "host_of_page"]

URL_CHARACTERS_MAX = 2_048
"""Length of a URL in a notice."""


def host_of_page(url: str) -> str:
    """Return the host of a URL with its port; raise if the URL is not that of a page."""
    if len(url) > URL_CHARACTERS_MAX:
        raise Problem("invalid-value", f"a URL has at most {URL_CHARACTERS_MAX:,} characters")
    try:
        parts = urlsplit(url)
        host = parts.netloc.lower()
    except ValueError as error:
        raise Problem("invalid-value", f"{url[:200]!r} is not a URL") from error
    # As browsers do, recrawl reads a backslash as the end of the host.
    has_other_host = "@" in host or "\\" in host
    if parts.scheme not in ("http", "https") or not host or has_other_host:
        raise Problem("invalid-value", f"{url[:200]!r} is not the URL of a page")
    return host
