"""Read JSON, XML and feeds as lines of text, so that order and layout of the file do not count."""

import json
from typing import Any, Final, NamedTuple
from xml.parsers import expat

import numpy as np
import xxhash
from numpy.typing import NDArray

__all__ = ["ELEMENTS_MAX", "JSON_VALUES_MAX", "StructuredText", "read_json", "read_xml"]

JSON_VALUES_MAX: Final = 100_000
"""Values of a JSON text that are read; a text with more is compared as plain text."""
ELEMENTS_MAX: Final = 50_000
"""Elements of an XML text that are read; a text with more is compared as plain text."""
KEY_LENGTH_MAX: Final = 100
"""Signs of a key that stand before a value."""
SIGNS_MAX: Final = 4_000_000
"""Signs of all lines; a file that yields more is compared as plain text."""
PATH_KEYS: Final = 3
"""Keys that stand before a value: its own and those of the objects around it."""

_FEED_ROOTS = {"rss", "feed", "rdf"}
_ENTRIES = {"item", "entry"}
# Fields of a feed that change with every answer, or that are not text.
_SILENT_FIELDS = {
    "lastbuilddate", "pubdate", "updated", "published", "date", "ttl", "generator", "guid", "id",
    "link", "docs", "skiphours", "skipdays", "cloud", "url", "width", "height", "enclosure",
}  # fmt: skip


class StructuredText(NamedTuple):
    """Text of a file with a structure, one passage per line."""

    text: str
    n_main_lines: int
    """Lines from the start that are main text; those that describe a feed are not."""
    is_feed: bool
    paths: NDArray[np.uint32] | None = None
    """Keys of the objects around each line, hashed, as the elements around a passage of a page."""


class _RefusedError(Exception):
    """The text is not well-formed, or beyond the limits."""


def read_json(text: str) -> StructuredText | None:
    """Return one line for each value of a JSON text, in the order of its keys; None if it is not.

    Parameters
    ----------
    text
        JSON text.
    """
    try:
        # Numbers stay as they are written: a long one would take quadratic time to convert.
        value = json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        return None
    lines: list[str] = []
    paths: list[int] = []
    path_of: dict[tuple[str, ...], int] = {}
    waiting: list[tuple[tuple[str, ...], Any]] = [((), value)]
    n_values = 0
    n_signs = 0
    while waiting:
        path, value = waiting.pop()
        n_values += 1
        if n_values > JSON_VALUES_MAX:
            return None
        if isinstance(value, dict):
            # The last is taken first.
            waiting += [
                ((*path[1 - PATH_KEYS :], key[:KEY_LENGTH_MAX]), value[key])
                for key in sorted(value, reverse=True)
            ]
        elif isinstance(value, list):
            waiting += [(path, item) for item in reversed(value)]
        else:
            lines.append(_one_line(f"{' '.join(path)}: {value}"))
            if path not in path_of:
                path_of[path] = _path_hash(path)
            paths.append(path_of[path])
            n_signs += len(lines[-1])
            if n_signs > SIGNS_MAX:
                return None
    text = "\n".join(lines)
    return StructuredText(text, len(lines), False, np.array(paths, dtype=np.uint32))


def _path_hash(path: tuple[str, ...]) -> int:
    """Return a hash (32 bits) of keys; never 0, which stands for no path."""
    return xxhash.xxh3_64_intdigest("\0".join(path).encode("utf-8", "replace")) & 0xFFFFFFFF | 1


def read_xml(body: bytes, charset: str | None = None) -> StructuredText | None:
    """Return the text of an XML file or feed, one line for each element; None if it is not XML.

    The text of a feed is that of its entries, then the title and description of the feed itself.
    Entities that the file defines itself are not expanded: such a file is not read.

    Parameters
    ----------
    body
        XML file.
    charset
        Character set, if it is known from elsewhere.
    """
    if body.count(b"<") > ELEMENTS_MAX * 2:
        return None
    reader = _XmlReader()
    parser = expat.ParserCreate(charset)
    parser.buffer_text = True
    # A default that the file defines for an attribute would be repeated at every element.
    parser.specified_attributes = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.add_text
    parser.EntityDeclHandler = reader.refuse
    try:
        parser.Parse(body, True)
    except (expat.ExpatError, _RefusedError, ValueError, LookupError):
        return None
    return reader.result()


class _XmlReader:
    """Handlers of a parser: collects lines."""

    def __init__(self) -> None:
        self.is_feed = False
        self._n_signs = 0
        self._in_entry = 0
        self._names: list[str] = []
        self._pieces: list[list[str]] = []
        self._main: list[str] = []
        self._other: list[str] = []

    def refuse(self, *_: Any) -> None:
        raise _RefusedError

    def start(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(":")[2].lower()
        if not self._names:
            self.is_feed = local in _FEED_ROOTS
        if len(self._names) >= 500:
            raise _RefusedError
        self._names.append(local)
        self._pieces.append([])
        if local in _ENTRIES:
            self._in_entry += 1
        if not self.is_feed and attributes:
            values = (f"{key} {attributes[key]}" for key in sorted(attributes))
            self._main.append(_one_line(f"{local} {' '.join(values)}"))
            self._count(len(self._main[-1]))

    def add_text(self, text: str) -> None:
        self._pieces[-1].append(text)
        self._count(len(text))

    def _count(self, n_signs: int) -> None:
        self._n_signs += n_signs
        if self._n_signs > SIGNS_MAX:
            raise _RefusedError

    def end(self, _: str) -> None:
        local = self._names.pop()
        text = "".join(self._pieces.pop())
        is_entry = self._in_entry > 0
        if local in _ENTRIES:
            self._in_entry -= 1
        if not text.strip() or (self.is_feed and local in _SILENT_FIELDS):
            return
        lines = self._main if is_entry or not self.is_feed else self._other
        if self.is_feed and "<" in text:
            lines += _text_of_html(text)
        else:
            lines.append(_one_line(text))

    def result(self) -> StructuredText:
        lines = [*self._main, *self._other]
        return StructuredText("\n".join(lines), len(self._main), self.is_feed)


def _one_line(text: str) -> str:
    return text.replace("\n", " ")


def _text_of_html(text: str) -> list[str]:
    """Return the lines of the HTML in an entry of a feed."""
    from recrawl.content.extract.markup import read_markup  # noqa: PLC0415 - few files need it

    page = text.encode("utf-8", "replace")
    return read_markup(page, n_text_max=len(page)).text.decode("utf-8", "replace").split("\n")
