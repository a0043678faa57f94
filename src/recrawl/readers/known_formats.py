"""All formats that can be read, and how the format of a file is guessed."""

from recrawl.errors import UnknownFormat
from recrawl.readers.formats.access_log import ACCESS_LOG
from recrawl.readers.formats.cdx import CDX
from recrawl.readers.formats.cdxj import CDXJ
from recrawl.readers.formats.change_times import CHANGE_TIMES
from recrawl.readers.formats.crawl_log import CRAWL_LOG
from recrawl.readers.formats.git_history import GIT
from recrawl.readers.formats.kolobov import KOLOBOV
from recrawl.readers.formats.lists import URL_LIST, URL_TABLE
from recrawl.readers.formats.nutch import NUTCH
from recrawl.readers.formats.sitemap import SITEMAP
from recrawl.readers.formats.stormcrawler import STORMCRAWLER
from recrawl.readers.head import Head
from recrawl.readers.reading import Format

__all__ = ["FORMATS", "format_by_name", "guess_format"]

# The most specific formats first, because their files may also look like a later format.
_ORDER = (
    GIT,
    KOLOBOV,
    SITEMAP,
    CDXJ,
    CDX,
    NUTCH,
    STORMCRAWLER,
    ACCESS_LOG,
    CHANGE_TIMES,
    CRAWL_LOG,
    URL_TABLE,
    URL_LIST,
)

FORMATS: dict[str, Format] = {known.name: known for known in _ORDER}
"""Formats by name."""

_FIELDS_SHOWN_MAX = 20
_NAME_CHARACTERS_MAX = 40


def format_by_name(name: str) -> Format:
    """Return a format by its name."""
    if name not in FORMATS:
        raise UnknownFormat(f"format must be one of {', '.join(FORMATS)}, got {name!r}")
    return FORMATS[name]


def guess_format(head: Head) -> Format:
    """Return the first format that matches the beginning of a file."""
    for known in _ORDER:
        if known.suits(head):
            return known
    raise UnknownFormat(_no_format_text(head))


def _no_format_text(head: Head) -> str:
    name, tried = head.source.name, ", ".join(FORMATS)
    if head.folder is not None:
        return f"{name} is a folder, but neither a git repository nor a known data set"
    if not head.data:
        return f"{name} is empty"
    if head.columns:
        return f"{name} has no field that is known to have URLs.  {_fields_text(head)}"
    if head.data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in head.data[:1_000]:
        return f"{name} is not text in UTF-8, nor Parquet; convert it first"
    shown = head.first[:60] + ("…" if len(head.first) > 60 else "")
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in shown)
    return (
        f"{name} begins with {shown!r}, which matches no known format ({tried}); "
        "name the format or the columns"
    )


def _fields_text(head: Head) -> str:
    """Return the fields of a table, and the option that says which one has the URLs."""
    names = [name[:_NAME_CHARACTERS_MAX] for name in head.field_names[:_FIELDS_SHOWN_MAX]]
    more = ", …" if len(head.field_names) > _FIELDS_SHOWN_MAX else ""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in ", ".join(names))
    guess = head.url_field or "NAME"
    option = guess if guess.isidentifier() else f'"{guess[:_NAME_CHARACTERS_MAX]}"'
    return (
        f"Its fields are {shown}{more}; name the format or the columns, on the command line with "
        f"--column url={option}"
    )
