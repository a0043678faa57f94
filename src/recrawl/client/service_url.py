"""The address of a corpus on a server."""

import ipaddress
import re
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

__all__ = ["CORPORA_PATH", "ServiceUrl", "is_service_url", "parse_service_url"]

CORPORA_PATH = "/v1/corpora"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SCHEME = re.compile(r"https?://", re.IGNORECASE)


class ServiceUrl(NamedTuple):
    """A server, and the corpus on it."""

    server: str
    """Scheme, host, port and path before ``/v1``."""
    corpus: str | None
    """Name of the corpus; None for the only one of the server."""

    @property
    def is_secure(self) -> bool:
        """Whether a key may be sent: encrypted, or to a program on the same machine."""
        parts = urlsplit(self.server)
        host = parts.hostname or ""
        if parts.scheme == "https" or host == "localhost" or host.endswith(".localhost"):
            return True
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False

    def path_of(self, corpus: str) -> str:
        """Return the address of a corpus on the server."""
        return f"{self.server}{CORPORA_PATH}/{quote(corpus, safe='')}"


def is_service_url(text: object) -> bool:
    """Return whether a text is the address of a service, and not a folder."""
    return isinstance(text, str) and _SCHEME.match(text) is not None


def parse_service_url(url: str) -> ServiceUrl:
    """Return the parts of an address such as ``https://example.com/v1/corpora/news``.

    Raises
    ------
    ValueError
        If it is not such an address.

    Examples
    --------
    >>> parse_service_url("http://127.0.0.1:8377/v1/corpora/news")
    ServiceUrl(server='http://127.0.0.1:8377', corpus='news')
    >>> parse_service_url("https://recrawl.example/")
    ServiceUrl(server='https://recrawl.example', corpus=None)
    """
    parts = urlsplit(url)
    if not is_service_url(url) or not parts.hostname:
        raise ValueError(f"url must be such as https://example.com/v1/corpora/NAME, got {url!r}")
    if parts.username is not None or parts.password is not None:
        raise ValueError("url must have no user name and password; give the API key as key")
    if parts.query or parts.fragment:
        raise ValueError(f"url must end with the name of the corpus, got {url!r}")
    before, found, name = parts.path.rstrip("/").partition(f"{CORPORA_PATH}/")
    name = unquote(name)
    if found and not _NAME.fullmatch(name):
        raise ValueError(f"url must end with the name of one corpus, got {url!r}")
    server = f"{parts.scheme.lower()}://{parts.netloc}{before.removesuffix(CORPORA_PATH)}"
    return ServiceUrl(server.rstrip("/"), name if found else None)
