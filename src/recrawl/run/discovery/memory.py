"""What a crawl remembers between two runs: sites, versions of documents, and followed links.

Everything is in one key-value store, in a folder of the corpus.  It survives ``kill -9``.  If it is
lost, documents are read as if for the first time: no signals are sent twice, because the corpus
ignores dates that it has seen.
"""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import numpy as np
import xxhash
from numpy.typing import NDArray

from recrawl.kv import KeyValues, KvOptions
from recrawl.run.discovery.traps import TrapCounts

__all__ = [
    "REMEMBERED_MAX",
    "DiscoveryMemory",
    "DocumentVersion",
    "SiteRecord",
    "hash_entries",
]

REMEMBERED_MAX: Final = 50_000
"""Number of entries of one document that are remembered."""

_SITE: Final = b"s"
_DOCUMENT: Final = b"d"
_TRAPS: Final = b"t"
_LINKED: Final = b"u"
_SITE_DOCUMENTS: Final = b"i"
_HEAD: Final = struct.Struct(">HI")
_FORMAT: Final = 1
_TRAPS_CACHED_MAX: Final = 200
# Each comparison counts nine tenths of the one after it.
_COMPARED_DECAY: Final = 0.9
# Pages of a site that are taken to exist before it is known.
_FOUND_PRIOR: Final = 5.0


def hash_entries(texts: Sequence[str]) -> NDArray[np.uint64]:
    """Return a hash of 64 bits for each text."""
    hashes = [xxhash.xxh3_64_intdigest(text.encode("utf-8", "replace")) for text in texts]
    return np.array(hashes, np.uint64)


class NewsRate(NamedTuple):
    """How much a document has announced, with more weight on its latest versions."""

    n_signals: float = 0.0
    """Dates that moved on their own."""
    n_together: float = 0.0
    """Versions in which nearly all dates moved; if such dates have proved right, their signals."""
    n_pages: float = 0.0
    """New pages."""
    seconds: float = 0.0
    """Time between the versions."""
    n_repeated: float = 0.0
    """Dates that moved on their own, but that another document of the site showed before."""
    n_looked_at: float = 0.0
    """Signalled pages whose own value was looked at."""
    n_worth: float = 0.0
    """Those of them that are worth their price when they have changed."""

    def include_repeated(self) -> "NewsRate":
        """Return the sums as if no other document had shown anything before."""
        return self._replace(n_signals=self.n_signals + self.n_repeated, n_repeated=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentVersion:
    """What is remembered of the latest version of a sitemap or feed.

    Parameters
    ----------
    fetched_at_ms
        Instant of the fetch.
    n_left_out
        Number of its entries that found no room, and are not remembered.
    sample_url
        A page that the document has signalled, from which the quality of its signals is read.
    news
        Sums of what it has announced.
    true_rate
        True news per second that it announces, also those that others showed before; 0 unless
        reading it is known to pay.
    trusted_until_ms
        Instant until which this holds without another fetch.
    spare_rate
        True news per second of the others of its site that say the same, when it was last read as
        a spare; 0 if it is not a spare.
    n_shown, n_compared
        Sums of its news that other documents of the site show, too, and of all that were compared.
    hashes
        Hashes of the URLs of its entries, ascending.
    claimed_at
        Date of each entry in seconds since 1970; 0 if it has none.
    """

    fetched_at_ms: int
    n_left_out: int = 0
    sample_url: str = ""
    news: NewsRate = field(default_factory=NewsRate)
    true_rate: float = 0.0
    trusted_until_ms: int = 0
    spare_rate: float = 0.0
    n_shown: float = 0.0
    n_compared: float = 0.0
    hashes: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    claimed_at: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))

    @property
    def is_spare(self) -> bool:
        """Whether it is read rarely, because others of its site say the same."""
        return self.spare_rate > 0

    def add_compared(self, n_shown: int, n_compared: int) -> Self:
        """Return the version with more news that were compared with other documents."""
        if not n_compared:
            return self
        return replace(
            self,
            n_shown=_COMPARED_DECAY * self.n_shown + n_shown,
            n_compared=_COMPARED_DECAY * self.n_compared + n_compared,
        )

    def to_bytes(self) -> bytes:
        """Return the version as bytes."""
        head = json.dumps(
            {
                "fetched_at_ms": self.fetched_at_ms,
                "n_left_out": self.n_left_out,
                "sample_url": self.sample_url,
                "news": list(self.news),
                "true_rate": self.true_rate,
                "trusted_until_ms": self.trusted_until_ms,
                "spare_rate": self.spare_rate,
                "n_shown": self.n_shown,
                "n_compared": self.n_compared,
            }
        ).encode()
        columns = self.hashes.astype(">u8").tobytes() + self.claimed_at.astype(">u4").tobytes()
        return _HEAD.pack(_FORMAT, len(head)) + head + columns

    @classmethod
    def of_bytes(cls, stored: bytes) -> Self | None:
        """Return the version that `to_bytes` returned; None if the bytes are something else."""
        try:
            number, length = _HEAD.unpack_from(stored)
            if number != _FORMAT:
                return None
            fields = json.loads(stored[_HEAD.size : _HEAD.size + length])
            columns = stored[_HEAD.size + length :]
            n = len(columns) // 12
            return cls(
                fetched_at_ms=int(fields["fetched_at_ms"]),
                n_left_out=int(fields["n_left_out"]),
                sample_url=str(fields["sample_url"]),
                news=NewsRate(*map(float, fields["news"])),
                # Earlier versions did not compare documents.
                true_rate=float(fields.get("true_rate", 0.0)),
                trusted_until_ms=int(fields.get("trusted_until_ms", 0)),
                spare_rate=float(fields.get("spare_rate", 0.0)),
                n_shown=float(fields.get("n_shown", 0.0)),
                n_compared=float(fields.get("n_compared", 0.0)),
                hashes=np.frombuffer(columns, ">u8", n).astype(np.uint64),
                claimed_at=np.frombuffer(columns, ">u4", n, 8 * n).astype(np.uint32),
            )
        except (ValueError, KeyError, TypeError, struct.error):
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRecord:
    """What is remembered of one site.

    Parameters
    ----------
    next_ask_ms
        Instant from which its robots.txt is read again.
    n_failures
        Number of attempts in a row that did not reach it.
    is_reached
        Whether its robots.txt was read at least once.
    n_pages
        Number of its pages that sitemaps and feeds have added.
    n_documents
        Number of its sitemaps and feeds.
    n_sent
        Number of signals sent, by source.
    room, room_at_ms
        Number of pages that the site could bring at an instant, and that instant; 0 if it has
        brought none yet.
    n_found, n_gone
        Sums of its pages that were fetched and exist, and of those that do not, the latest ones
        most; not counted before the first one that does not.
    """

    next_ask_ms: int = 0
    n_failures: int = 0
    is_reached: bool = False
    n_pages: int = 0
    n_documents: int = 0
    n_sent: dict[str, int] = field(default_factory=dict)
    room: float = 0.0
    room_at_ms: int = 0
    n_found: float = 0.0
    n_gone: float = 0.0

    @property
    def found_share(self) -> float:
        """Share of its pages that exist, as far as is known."""
        return (self.n_found + _FOUND_PRIOR) / (self.n_found + self.n_gone + _FOUND_PRIOR)


class DiscoveryMemory:
    """Reads at once, and writes everything together in `commit`.

    Parameters
    ----------
    folder
        Folder of the store; created if it does not exist.
    """

    def __init__(self, folder: Path) -> None:
        # The values are few and read rarely, so small buffers are enough.
        options = KvOptions(write_buffer_bytes=4 << 20, block_cache_bytes=4 << 20)
        self._kv = KeyValues.open(folder, options=options)
        self._waiting: dict[bytes, bytes] = {}
        self._traps: dict[str, TrapCounts] = {}
        self._changed_traps: set[str] = set()
        self.sites: dict[str, SiteRecord] = {}
        """All known sites, by origin."""
        for key, value in self._kv.scan(_SITE, bytes([_SITE[0] + 1])):
            self.sites[key[1:].decode()] = SiteRecord(**json.loads(value))

    def close(self) -> None:
        """Close the store; what was not committed is lost."""
        self._kv.close()

    def commit(self) -> None:
        """Write everything that was set since the last commit, atomically."""
        for origin in self._changed_traps:
            text = json.dumps(self._traps[origin].as_dict())
            self._waiting[_TRAPS + origin.encode()] = text.encode()
        self._changed_traps.clear()
        while len(self._traps) > _TRAPS_CACHED_MAX:
            del self._traps[next(iter(self._traps))]
        if self._waiting:
            self._kv.write(list(self._waiting), list(self._waiting.values()))
            self._waiting = {}

    def set_site(self, origin: str, **changes: Any) -> None:
        """Change fields of a site, which is new if it is not known.

        Parameters
        ----------
        origin
            Scheme, host and port.
        **changes
            Fields of `SiteRecord`.
        """
        site = replace(self.sites.get(origin, SiteRecord()), **changes)
        self.sites[origin] = site
        fields = {name: getattr(site, name) for name in SiteRecord.__slots__}
        self._waiting[_SITE + origin.encode()] = json.dumps(fields).encode()

    def document(self, url: str) -> DocumentVersion | None:
        """Return the latest version of a document; None if it was never read."""
        stored = self._get(_DOCUMENT + url.encode())
        return None if stored is None else DocumentVersion.of_bytes(stored)

    def set_document(self, url: str, version: DocumentVersion) -> None:
        """Remember a version of a document."""
        self._waiting[_DOCUMENT + url.encode()] = version.to_bytes()

    def documents_of(self, origin: str) -> dict[str, str]:
        """Return the kinds of a site's sitemaps and feeds, by URL."""
        stored = self._get(_SITE_DOCUMENTS + origin.encode())
        return {} if stored is None else json.loads(stored)

    def add_site_document(self, origin: str, url: str, kind: str, n_max: int) -> None:
        """Remember that a sitemap or feed belongs to a site, if it has fewer than ``n_max``."""
        known = self.documents_of(origin)
        if url not in known and len(known) < n_max:
            key = _SITE_DOCUMENTS + origin.encode()
            self._waiting[key] = json.dumps(known | {url: kind}).encode()

    def traps(self, origin: str) -> TrapCounts:
        """Return the counts of a site; changes are kept after `note_traps`."""
        found = self._traps.get(origin)
        if found is None:
            stored = self._kv.get(_TRAPS + origin.encode())
            found = TrapCounts() if stored is None else TrapCounts.of_dict(json.loads(stored))
            self._traps[origin] = found
        return found

    def note_traps(self, origin: str) -> None:
        """Keep the changed counts of a site with the next commit."""
        self._changed_traps.add(origin)

    def link_depths(self, urls: Sequence[str]) -> list[int | None]:
        """Return the number of links between each page and the start; None for unknown pages."""
        keys = [_LINKED + int(number).to_bytes(8, "big") for number in hash_entries(urls)]
        stored = self._kv.get_many(keys) if keys else []
        found = [self._waiting.get(key, value) for key, value in zip(keys, stored, strict=True)]
        return [None if value is None else value[0] for value in found]

    def set_link_depth(self, url: str, depth: int) -> None:
        """Remember that a page was added, and its distance from the start."""
        key = _LINKED + int(hash_entries([url])[0]).to_bytes(8, "big")
        self._waiting[key] = bytes([min(depth, 255)])

    def _get(self, key: bytes) -> bytes | None:
        waiting = self._waiting.get(key)
        return self._kv.get(key) if waiting is None else waiting
