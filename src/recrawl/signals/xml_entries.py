"""Parse the entries of sitemaps, RSS and Atom feeds while their bytes arrive.

expat parses each piece as it comes, so memory does not grow with the file.  A file that declares
entities is not read, because a few lines of them can expand to gigabytes.
"""

from typing import Final, NamedTuple
from xml.parsers import expat

__all__ = [
    "DEPTH_MAX",
    "ENTRY_OF_ROOT",
    "TEXT_CHARACTERS_MAX",
    "TOKEN_BYTES_MAX",
    "Entries",
    "XmlEntries",
]

ENTRY_OF_ROOT: Final = {
    "urlset": "url",
    "sitemapindex": "sitemap",
    "rss": "item",
    "RDF": "item",
    "feed": "entry",
}
"""Element of one entry, by the root element of the document."""

TEXT_CHARACTERS_MAX: Final = 0xFFFF
"""Characters of a text that are kept; a longer URL is not one."""
DEPTH_MAX: Final = 100
"""Depth to which elements may be nested."""
TOKEN_BYTES_MAX: Final = 1 << 20
"""Bytes of a tag or a comment, which expat keeps in memory until it ends."""

_LINKS_MAX = 16
_NO_RANK = 99
_FEEDS = frozenset({"rss", "RDF", "feed"})
# Dates of an entry, the best first: when it was changed, then when it was published.
_DATE_RANKS = {
    "lastmod": 0,
    "updated": 1,
    "modified": 1,
    "date": 2,
    "pubDate": 3,
    "published": 4,
    "issued": 4,
    "publication_date": 5,
}


class Entries(NamedTuple):
    """Entries as columns; empty texts where an entry has no URL or no date."""

    line: list[int]
    """Line of the file where each entry begins."""
    url: list[str]
    date: list[str]


class _Stop(Exception):  # noqa: N818 - not an error, but the end of a parse
    """Ends a parse, with the code of the problem."""


class XmlEntries:
    """Parser of one document, which collects entries until they are taken."""

    def __init__(self) -> None:
        self.root = ""
        """Name of the root element, without its namespace."""
        self.links: list[tuple[str, str]] = []
        """Relation and target of the links of a feed itself, such as its hub."""
        self.ttl_minutes = ""
        """Content of the feed's element ``ttl``."""
        self.n_entries = 0
        self.error = ""
        """What is wrong with the XML, if `parse` returned ``broken_xml``."""
        self._n_bytes = 0
        self._path: list[str] = []
        self._text: list[str] = []
        self._n_text = 0
        self._line = 0
        self._url = ""
        self._date = ""
        self._date_rank = _NO_RANK
        self._entries = Entries([], [], [])
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.EntityDeclHandler = _stop_at_entities
        self._parser = parser

    @property
    def n_waiting(self) -> int:
        """Number of entries that were not taken yet."""
        return len(self._entries.url)

    def parse(self, piece: bytes, *, is_last: bool = False) -> str | None:
        """Parse the next bytes; return the code of the problem if the document ends there.

        Parameters
        ----------
        piece
            Next bytes of the document.
        is_last
            Whether the document ends with them.
        """
        self._n_bytes += len(piece)
        try:
            self._parser.Parse(piece, is_last)
        except _Stop as stop:
            return str(stop)
        except (expat.ExpatError, ValueError, LookupError) as error:
            self.error = str(error)
            return "broken_xml"
        if self._n_bytes - max(self._parser.CurrentByteIndex, 0) > TOKEN_BYTES_MAX:
            return "too_long"
        return None

    def take(self) -> Entries:
        """Return the entries so far, and forget them."""
        entries, self._entries = self._entries, Entries([], [], [])
        return entries

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        name = _local(name)
        if not self._path:
            self.root = name
            if name not in ENTRY_OF_ROOT:
                raise _Stop("not_a_sitemap")
        self._path.append(name)
        if len(self._path) > DEPTH_MAX:
            raise _Stop("too_deep")
        self._text, self._n_text = [], 0
        if name == ENTRY_OF_ROOT[self.root]:
            self._url, self._date, self._date_rank = "", "", _NO_RANK
            self._line = self._parser.CurrentLineNumber
        elif name == "link" and self.root in _FEEDS and "href" in attributes:
            self._follow_link(attributes.get("rel", "alternate"), attributes["href"])

    def _follow_link(self, relation: str, target: str) -> None:
        if self._is_in_entry():
            if relation == "alternate" and not self._url:
                self._url = target
        elif len(self.links) < _LINKS_MAX:
            self.links.append((relation, target[:TEXT_CHARACTERS_MAX]))

    def _is_in_entry(self) -> bool:
        return ENTRY_OF_ROOT[self.root] in self._path[1:-1]

    def _characters(self, text: str) -> None:
        self._n_text += len(text)
        # One piece more than allowed, so that a long URL is refused and not cut.
        if self._n_text <= TEXT_CHARACTERS_MAX + 1 + len(text):
            self._text.append(text)

    def _end(self, name: str) -> None:
        name = _local(name)
        entry = ENTRY_OF_ROOT[self.root]
        if name == entry and self._path.count(entry) == 1:
            self._entries.line.append(self._line)
            self._entries.url.append(self._url)
            self._entries.date.append(self._date)
            self.n_entries += 1
        elif self._text:
            self._set_value(name, "".join(self._text).strip())
        self._path.pop()
        self._text, self._n_text = [], 0

    def _set_value(self, name: str, text: str) -> None:
        if not text:
            return
        is_child = len(self._path) > 1 and self._path[-2] == ENTRY_OF_ROOT[self.root]
        if is_child and name == ("link" if self.root in _FEEDS else "loc"):
            self._url = text
        elif self._is_in_entry() and (is_child or name == "publication_date"):
            rank = _DATE_RANKS.get(name, _NO_RANK)
            if rank < self._date_rank:
                self._date, self._date_rank = text, rank
        elif name == "ttl" and not self._is_in_entry():
            self.ttl_minutes = text[:16]


def _stop_at_entities(*_: object) -> None:
    raise _Stop("entities")


def _local(name: str) -> str:
    return name.rpartition(" ")[2]
