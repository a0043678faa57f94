"""All formats that can be read, in the order in which a file is tried as them."""

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

__all__ = ["FORMATS", "format_named", "guessed_format"]

# The strictest first: what suits a later one may suit an earlier one better.
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
"""By name."""


def format_named(name: str) -> Format:
    """Return a format by its name."""
    if name not in FORMATS:
        raise UnknownFormat(f"format must be one of {', '.join(FORMATS)}, got {name!r}")
    return FORMATS[name]


def guessed_format(head: Head) -> Format:
    """Return the format that the beginning of a file suits."""
    for known in _ORDER:
        if known.suits(head):
            return known
    raise UnknownFormat(_words(head))


def _words(head: Head) -> str:
    name, tried = head.source.name, ", ".join(FORMATS)
    if head.folder is not None:
        return f"{name} is a folder, but neither a git repository nor a set of files that we know"
    if not head.data:
        return f"{name} is empty"
    if head.data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in head.data[:1_000]:
        return f"{name} is not text in UTF-8, nor Parquet; convert it first"
    shown = head.first[:60] + ("…" if len(head.first) > 60 else "")
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in shown)
    return (
        f"{name} begins with {shown!r}, which is none of the formats that we know ({tried}); "
        "say which it is, or what its columns are called"
    )
