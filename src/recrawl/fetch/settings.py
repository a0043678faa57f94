"""Limits and politeness of a fetcher, each with a default."""

import math
from dataclasses import dataclass, fields
from importlib.metadata import version
from typing import Final
from urllib.parse import urlsplit

from recrawl.errors import ConfigError
from recrawl.fetch.addresses import Network, parse_networks
from recrawl.fetch.fetcher import FetchKind
from recrawl.fetch.robots import ROBOTS_BYTES_MAX, product_token

__all__ = ["FetchSettings"]

_REDIRECTS_OF_ROBOTS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """What a fetcher may do, and who it says it is.

    Parameters
    ----------
    contact
        URL or e-mail address of whoever runs the fetcher; every request carries it, so that the
        people behind a site can write to you.
    name
        Name of the fetcher, by which robots.txt files address it: letters, ``_`` and ``-``.
    delay_seconds
        Least seconds from the end of an answer to the next request to the same host.
    delay_seconds_max
        Longest delay that a slow host causes, in seconds.
    slowness_factor
        Delay of a slow host, as a multiple of the seconds that it takes to answer; 0 switches the
        slow-down off.
    backoff_seconds
        Delay after a failure (no answer, 429 or 503 without ``Retry-After``); doubled each time.
    backoff_seconds_max
        Longest delay after failures, in seconds.
    wait_seconds_max
        Longest time that a fetch waits for its host; beyond it, it answers ``host_delay`` at once.
    connections_per_host
        Number of requests to one host at a time.
    connections_max
        Number of requests at a time.
    hosts_max
        Number of hosts whose delays are remembered.
    connect_seconds_max
        Longest time to connect, TLS included, in seconds.
    idle_seconds_max
        Longest time without a byte of the answer, in seconds.
    total_seconds_max
        Longest time from a request to the end of its answer, in seconds.
    body_bytes_max
        Largest unpacked body of a page or feed, in bytes.
    sitemap_bytes_max
        Largest unpacked sitemap, in bytes.
    header_bytes_max
        Longest header and longest status line, in bytes.
    headers_max
        Number of headers of an answer.
    expansion_ratio_max
        Unpacked bytes per packed byte of a body beyond 1 MiB.
    redirects_max
        Number of redirects that are followed.
    audit_share
        Share of conditional requests that are sent without validators, 0 to 1.
    obey_robots
        Whether robots.txt files are fetched and obeyed; switch it off only for your own sites.
    allow_networks
        Networks that may be connected to although they are not public, such as ``10.1.0.0/16``.
    proxy
        URL of an HTTP proxy for all requests; None for none.  The fetcher resolves and checks names
        itself, and asks the proxy for the checked address.
    """

    contact: str
    name: str = "recrawl"
    delay_seconds: float = 1.0
    delay_seconds_max: float = 60.0
    slowness_factor: float = 2.0
    backoff_seconds: float = 10.0
    backoff_seconds_max: float = 3_600.0
    wait_seconds_max: float = 60.0
    connections_per_host: int = 1
    connections_max: int = 250
    hosts_max: int = 200_000
    connect_seconds_max: float = 15.0
    idle_seconds_max: float = 30.0
    total_seconds_max: float = 120.0
    body_bytes_max: int = 16 << 20
    sitemap_bytes_max: int = 64 << 20
    header_bytes_max: int = 16 << 10
    headers_max: int = 256
    expansion_ratio_max: int = 200
    redirects_max: int = 10
    audit_share: float = 0.02
    obey_robots: bool = True
    allow_networks: tuple[str, ...] = ()
    proxy: str | None = None

    def __post_init__(self) -> None:
        if not _is_product(self.name):
            raise ConfigError(f"name must have only letters, _ and -, got {self.name!r}")
        is_text = self.contact.isascii() and self.contact.isprintable()
        if not self.contact or not is_text or any(c in self.contact for c in " ()"):
            raise ConfigError(f"contact must be a URL or an e-mail address, got {self.contact!r}")
        for one in fields(self):
            value = getattr(self, one.name)
            if one.type in (int, float):
                least = 1 if one.type is int else 0
                if not (math.isfinite(value) and value >= least):
                    raise ConfigError(f"{one.name} must be at least {least}, got {value}")
        if self.audit_share > 1:
            raise ConfigError(f"audit_share must be between 0 and 1, got {self.audit_share}")
        try:
            parse_networks(self.allow_networks)
        except ValueError as error:
            raise ConfigError(f"allow_networks: {error}") from None
        if self.proxy is not None and urlsplit(self.proxy).scheme != "http":
            raise ConfigError(f"proxy must be an http URL, got {self.proxy!r}")

    @property
    def networks(self) -> tuple[Network, ...]:
        """Networks that may be connected to although they are not public."""
        return parse_networks(self.allow_networks)

    @property
    def user_agent(self) -> str:
        """Value of the header ``User-Agent``."""
        mark = "" if "@" in self.contact and "://" not in self.contact else "+"
        return f"{self.name}/{version('recrawl')} ({mark}{self.contact})"

    def bytes_max(self, kind: FetchKind) -> int:
        """Return the size of the largest unpacked body of a kind."""
        if kind == FetchKind.ROBOTS:
            # One byte more shows that the file was cut.
            return ROBOTS_BYTES_MAX + 1
        return self.sitemap_bytes_max if kind == FetchKind.SITEMAP else self.body_bytes_max

    def n_redirects_max(self, kind: FetchKind) -> int:
        """Return the number of redirects that are followed for a kind."""
        return _REDIRECTS_OF_ROBOTS if kind == FetchKind.ROBOTS else self.redirects_max


def _is_product(name: str) -> bool:
    try:
        return product_token(name) == name
    except ValueError:
        return False
