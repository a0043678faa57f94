"""Scripts that the pages of a site share, so that each is requested once."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from recrawl.signals.headers import read_caching_headers

__all__ = ["CachedScript", "ScriptCache"]

_SECONDS_MAX: Final = 86_400.0
# Rendering many pages of a site takes minutes; within them, a script without dates is one script.
_DEFAULT_SECONDS: Final = 600.0
_SHARE_OF_CACHE_MAX: Final = 0.25
# The browser reads these bytes as they are, and a cookie belongs to one page.
_DROPPED: Final = frozenset(
    {"content-encoding", "content-length", "set-cookie", "transfer-encoding", "connection"}
)


@dataclass(frozen=True, slots=True)
class CachedScript:
    """A script as its site sent it."""

    headers: dict[str, str]
    body: bytes
    expires_at_ms: int


class ScriptCache:
    """Remembers scripts for as long as their sites allow.

    Parameters
    ----------
    bytes_max
        Size of all scripts; the one that was used longest ago goes first.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._scripts: OrderedDict[str, CachedScript] = OrderedDict()
        self._n_bytes = 0

    def __len__(self) -> int:
        return len(self._scripts)

    @property
    def n_bytes(self) -> int:
        """Size of all scripts that are remembered."""
        return self._n_bytes

    def find(self, url: str, *, now_ms: int) -> CachedScript | None:
        """Return a script that is still valid; None if there is none.

        Parameters
        ----------
        url
            URL of the script.
        now_ms
            Current instant.
        """
        found = self._scripts.get(url)
        if found is None:
            return None
        if found.expires_at_ms <= now_ms:
            self._drop(url)
            return None
        self._scripts.move_to_end(url)
        return found

    def put(self, url: str, headers: Mapping[str, str], body: bytes, *, now_ms: int) -> None:
        """Remember a script, if its site allows it.

        Parameters
        ----------
        url
            URL of the script.
        headers
            Headers of the answer, with lower-case names.
        body
            Script, unpacked.
        now_ms
            Instant of the answer.
        """
        control = headers.get("cache-control", "").lower()
        if any(word in control for word in ("no-store", "no-cache", "private")):
            return
        if headers.get("vary", "").strip() == "*":
            return
        fresh_seconds = read_caching_headers(headers, now_ms=now_ms).fresh_seconds
        seconds = min(_DEFAULT_SECONDS if fresh_seconds is None else fresh_seconds, _SECONDS_MAX)
        if seconds <= 0 or len(body) > _SHARE_OF_CACHE_MAX * self._bytes_max:
            return
        self._drop(url)
        kept = {name: value for name, value in headers.items() if name not in _DROPPED}
        self._scripts[url] = CachedScript(kept, body, now_ms + int(seconds * 1000))
        self._n_bytes += len(body)
        while self._n_bytes > self._bytes_max:
            self._drop(next(iter(self._scripts)))

    def _drop(self, url: str) -> None:
        found = self._scripts.pop(url, None)
        if found is not None:
            self._n_bytes -= len(found.body)
