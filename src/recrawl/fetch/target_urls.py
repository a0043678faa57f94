"""URLs as a fetcher sends them.

A URL is parsed once, as browsers do it (WHATWG), and the same parse decides which host is checked
and which is contacted.  So ``http://0x7f.1/`` is 127.0.0.1 here as well as on the network.
"""

from dataclasses import dataclass
from typing import Final

import url as url_py
from yarl import URL

from recrawl.urls import URL_BYTES_MAX

__all__ = ["REFUSED_PORTS", "TargetUrl", "join_url", "parse_target"]

# Ports of other protocols, by the Fetch standard of the WHATWG ("bad port"): what is sent there
# could be read as commands.
# fmt: off
REFUSED_PORTS: Final = frozenset((
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101,
    102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389,
    427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636,
    989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665,
    6666, 6667, 6668, 6669, 6679, 6697, 10080,
))
# fmt: on
"""Ports that a fetcher never connects to."""

_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class TargetUrl:
    """A URL that can be fetched."""

    text: str
    """The URL in ASCII, without user name, password and fragment."""
    scheme: str
    host: str
    """Name or address in lower case, without brackets."""
    port: int
    origin: str
    """Scheme, host and port, for which one robots.txt file holds."""

    def as_yarl(self) -> URL:
        """Return the URL as aiohttp takes it, without another parse of its parts."""
        return URL(self.text, encoded=True)


def parse_target(text: str) -> TargetUrl | None:
    """Return a URL as it is sent; None if it cannot be fetched.

    Parameters
    ----------
    text
        Absolute URL.

    Examples
    --------
    >>> parse_target("HTTP://user:x@0x7f.1:80/a b#c").text
    'http://127.0.0.1/a%20b'
    >>> parse_target("file:///etc/passwd") is None
    True
    """
    if len(text) > URL_BYTES_MAX:
        return None
    try:
        return _make_target(url_py.URL.parse(text))
    except (url_py.URLError, ValueError):
        return None


def join_url(base: TargetUrl, location: str) -> TargetUrl | None:
    """Return the URL that a redirect leads to; None if it cannot be fetched.

    Parameters
    ----------
    base
        URL that answered with the redirect.
    location
        Value of ``Location``.
    """
    if len(location) > URL_BYTES_MAX:
        return None
    try:
        return _make_target(url_py.URL.parse(base.text).join(location))
    except (url_py.URLError, ValueError):
        return None


def _make_target(parsed: "url_py.URL") -> TargetUrl | None:
    scheme = parsed.scheme
    default_port = _PORTS.get(scheme)
    host = parsed.host_str
    if default_port is None or not host:
        return None
    port = parsed.port
    authority = host if port is None else f"{host}:{port}"
    origin = f"{scheme}://{authority}"
    query = parsed.query
    text = f"{origin}{parsed.path}" if query is None else f"{origin}{parsed.path}?{query}"
    if len(text) > URL_BYTES_MAX:
        return None
    return TargetUrl(text, scheme, host.strip("[]"), port or default_port, origin)
