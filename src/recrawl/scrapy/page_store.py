"""What the add-on remembers of each page: its request, the requests it led to, open work.

A SQLite file in the folder of the corpus.  Writes survive the end of the process, not of the
machine; what is lost then is fetched again.
"""

import json
import sqlite3
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

from recrawl.errors import CorpusError

__all__ = [
    "FOLLOW_UPS_MAX",
    "FOLLOW_UP_CHARACTERS_MAX",
    "PAGE_STORE_FILE",
    "FinishedPage",
    "KnownPage",
    "PageStore",
]

PAGE_STORE_FILE: Final = "scrapy.sqlite3"
FOLLOW_UPS_MAX: Final = 20_000
"""Number of requests that a page may lead to; a page with more is always fetched."""
FOLLOW_UP_CHARACTERS_MAX: Final = 4 << 20
"""Characters of the JSON of all requests that a page leads to; beyond it, it is always fetched."""

_VERSION: Final = 1
_BUSY_SECONDS: Final = 30.0
_BATCH: Final = 500
_SCHEMA: Final = """
create table if not exists pages (
    url text primary key,
    request text,
    follow_ups blob,
    fetched_at_ms integer not null default 0,
    is_always_fetched integer not null default 0,
    open_transition integer
) without rowid;
create index if not exists open_pages on pages (url) where open_transition is not null;
"""
# Many rows are given as one JSON text: SQLite gives up the interpreter's lock for each statement
# that it runs, and another thread may keep it for milliseconds.
_MARK_OPEN: Final = """
insert into pages (url, request, open_transition)
select json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]')
from json_each(?) where true
on conflict (url) do update set request = excluded.request,
    open_transition = coalesce(open_transition, excluded.open_transition)
"""
_MARK_REPORTED: Final = """
update pages
set fetched_at_ms = json_extract(row, '$[1]'), open_transition = json_extract(row, '$[2]')
from (select value as row from json_each(?)) where url = json_extract(row, '$[0]')
"""
_MARK_FINISHED: Final = """
on conflict (url) do update set request = excluded.request, follow_ups = excluded.follow_ups,
    open_transition = null, is_always_fetched = excluded.is_always_fetched
"""
_MARK_FINISHED_WITHOUT: Final = f"""
insert into pages (url, request, follow_ups, is_always_fetched)
select json_extract(value, '$[0]'), json_extract(value, '$[1]'),
    case json_extract(value, '$[2]') when 0 then x'' end, json_extract(value, '$[2]')
from json_each(?) where true {_MARK_FINISHED}
"""


class KnownPage(NamedTuple):
    """What is remembered of a page."""

    request: str | None
    """Request that led to it, as JSON; None if it cannot be stored."""
    follow_ups: list[str] | None
    """Requests that its last fetch yielded, as JSON; None if its callback never ran to the end."""
    fetched_at_ms: int
    """Time of the last fetch; 0 if there was none."""
    is_always_fetched: bool
    """Whether it leads to requests that cannot be stored, so that it must be fetched each time."""
    open_transition: int | None
    """Transition of a fetch whose items may not have been processed; None if there is none."""


class FinishedPage(NamedTuple):
    """A page whose items have all been processed."""

    url: str
    request: str | None
    follow_ups: list[str] | None
    """None if one of them cannot be stored."""


class PageStore:
    """The file.  Each thread needs an object of its own.

    Parameters
    ----------
    folder
        Folder of the corpus.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / PAGE_STORE_FILE
        try:
            self._file = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
            self._file.execute("pragma journal_mode = wal")
            self._file.execute("pragma synchronous = off")
            version = self._file.execute("pragma user_version").fetchone()[0]
            if version > _VERSION:
                raise CorpusError(f"{path} was written by a newer version of recrawl")
            self._file.executescript(_SCHEMA)
            self._file.execute(f"pragma user_version = {_VERSION}")
        except sqlite3.DatabaseError as error:
            raise CorpusError(
                f"{path} cannot be read ({error}).  Delete it to go on: pages are then fetched "
                "until the requests they lead to are known again."
            ) from None

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def find(self, urls: Sequence[str]) -> dict[str, KnownPage]:
        """Return what is remembered of pages, given by canonical URL."""
        found = {}
        for first in range(0, len(urls), _BATCH):
            part = urls[first : first + _BATCH]
            marks = ",".join("?" * len(part))
            rows = self._file.execute(f"select * from pages where url in ({marks})", part)
            for url, request, follow_ups, fetched_at_ms, is_always, transition in rows:
                found[url] = KnownPage(
                    request, _unpack(follow_ups), fetched_at_ms, bool(is_always), transition
                )
        return found

    def open_pages(self) -> list[tuple[str, str | None]]:
        """Return the pages whose items may not have been processed, with their requests."""
        rows = self._file.execute(
            "select url, request from pages where open_transition is not null order by url"
        )
        return list(rows)

    def add_requests(self, requests: Iterable[tuple[str, str]]) -> None:
        """Remember the requests of pages, given by canonical URL and JSON."""
        with self._file:
            self._file.execute("begin")
            self._file.executemany(
                "insert into pages (url, request) values (?, ?) "
                "on conflict (url) do update set request = excluded.request "
                "where request is not excluded.request",
                requests,
            )

    def mark_open(self, pages: Sequence[tuple[str, str | None, int]]) -> None:
        """Note that pages were fetched and their items must still be processed.

        Parameters
        ----------
        pages
            URL, request as JSON, and transition of each page; a page that is open already keeps
            its transition.
        """
        self._file.execute(_MARK_OPEN, (json.dumps(pages),))

    def mark_reported(self, pages: Sequence[tuple[str, int, int]]) -> None:
        """Note the time of the last fetch of open pages, and their transition, by URL."""
        last = {one[0]: one for one in pages}  # a page may be fetched twice at a time
        self._file.execute(_MARK_REPORTED, (json.dumps(list(last.values())),))

    def mark_finished(self, pages: Sequence[FinishedPage]) -> None:
        """Note that all items of pages have been processed, and the requests they led to."""
        with self._file:
            self._file.execute("begin")
            # JSON has no bytes.
            without = [
                (one.url, one.request, one.follow_ups is None)
                for one in pages
                if not one.follow_ups
            ]
            self._file.execute(_MARK_FINISHED_WITHOUT, (json.dumps(without),))
            self._file.executemany(
                "insert into pages (url, request, follow_ups, is_always_fetched) "
                f"values (?, ?, ?, 0) {_MARK_FINISHED}",
                ((one.url, one.request, _pack(one.follow_ups)) for one in pages if one.follow_ups),
            )


def _pack(follow_ups: list[str]) -> bytes:
    return zlib.compress(json.dumps(follow_ups, separators=(",", ":")).encode(), 1)


def _unpack(data: bytes | None) -> list[str] | None:
    if data is None:
        return None
    if not data:
        return []
    texts = json.loads(zlib.decompress(data))
    return [str(text) for text in texts]
