"""Read access logs of web servers; the number of requests of a page is its importance.

The reader keeps a count for each path in memory.  Requests of robots, recognised by their user
agent (`_ROBOTS`), do not count: importance measures what people want.
"""

import re
from collections.abc import Iterator

import pyarrow as pa

from recrawl.errors import ReadError
from recrawl.readers.head import Head
from recrawl.readers.lines import line_blocks
from recrawl.readers.reading import Format, Reading
from recrawl.readers.schemas import BATCH_ROWS_MAX, LISTED
from recrawl.readers.tabular.columns import Rows
from recrawl.readers.tabular.fields import LISTED_FIELDS, batches_of

__all__ = ["ACCESS_LOG", "ACCESS_LOG_PATHS_MAX"]

ACCESS_LOG_PATHS_MAX = 2_000_000
"""Most paths that are counted; further paths are ignored."""

# host ident user [day/month/year:time zone] "GET /path HTTP/1.1" status bytes "referrer" "agent",
# with the virtual host before it where a server writes one.
_LINE = re.compile(
    r"(?:(?P<host>[\w.-]{1,255})(?::\d{1,5})? (?=\S{1,255} \S{1,255} \S{1,255} \[))?"
    r"\S{1,255} \S{1,255} .{1,255}?\[[^\]]{1,50}\] "
    r'"(?P<method>[A-Z]{1,20}) (?P<path>[^" ]{1,65535})(?: [^"]{0,20})?" '
    r"(?P<status>\d{3}) (?:\d+|-)"
    r'(?: "(?:[^"\\]|\\.)*" "(?P<agent>(?:[^"\\]|\\.)*)")?'
)
_ROBOTS = re.compile(
    r"bot|crawl|spider|slurp|archiver|scrap|fetcher|preview|monitor|curl/|wget|python-|java/|go-http",
    re.IGNORECASE,
)
_SUCCESS = frozenset("23")


def _suits(head: Head) -> bool:
    return _LINE.match(head.first) is not None


def _read(reading: Reading) -> Iterator[pa.RecordBatch]:
    refused = reading.refused
    base = _base_without_slash(reading.options.base_url)
    counts: dict[str, int] = {}
    n_robots = 0
    for block in line_blocks(reading.source, refused):
        for line, text in enumerate(block.texts(refused), block.first_line):
            if not text or text.isspace():
                continue
            refused.n_rows += 1
            found = _LINE.match(text)
            if found is None:
                refused.refuse(line, "not a line of an access log", text)
                continue
            if found["method"] != "GET" or found["status"][0] not in _SUCCESS:
                continue
            if not reading.options.with_bots and _ROBOTS.search(found["agent"] or ""):
                n_robots += 1
                continue
            url = _url_of(found["path"], found["host"], base)
            if url is None:
                refused.refuse(line, "only a path; give the base URL of the site", found["path"])
            elif url in counts:
                counts[url] += 1
            elif len(counts) < ACCESS_LOG_PATHS_MAX:
                counts[url] = 1
            else:
                refused.note(f"only the first {ACCESS_LOG_PATHS_MAX:,} paths were counted")
    if n_robots:
        refused.note(f"{n_robots:,} requests of robots were not counted")
    urls = list(counts)
    for begin in range(0, len(urls), BATCH_ROWS_MAX):
        some = urls[begin : begin + BATCH_ROWS_MAX]
        rows = Rows(
            lines=range(begin, begin + len(some)),
            columns={"url": some, "importance": [counts[url] for url in some]},
        )
        yield from batches_of(rows, LISTED_FIELDS, LISTED, refused)


def _base_without_slash(base: str | None) -> str | None:
    if base is None:
        return None
    if not base.startswith(("http://", "https://")):
        raise ReadError(f"the base URL must begin with http:// or https://, got {base!r}")
    return base.rstrip("/")


def _url_of(path: str, host: str | None, base: str | None) -> str | None:
    if path.startswith(("http://", "https://")):
        return path
    if not path.startswith("/"):
        path = "/" + path
    if base is not None:
        return base + path
    return None if host is None else f"https://{host}{path}"


ACCESS_LOG = Format(
    name="access-log",
    kind="listed",
    about="an access log in Common or Combined format; pages are worth their requests",
    suits=_suits,
    read=_read,
)
