"""Keep the bodies of pages until every sink has written them.

A body is appended, and synced to disk, before its outcome is reported.  The change feed of the
corpus decides afterwards which answers are new versions: `Spool.settle` takes its changes and gives
each a number.  So after a crash at any moment nothing is missing: the spool continues in the feed
where it stopped, and finds the bodies that belong to the changes.
"""

import bisect
import json
import secrets
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import pyarrow as pa

from recrawl.errors import LockedError, SpoolFull, StorageError
from recrawl.fetch.sinks.segments import Segments
from recrawl.fetch.sinks.version import FetchedPage, PageVersion
from recrawl.shard import Transition
from recrawl.store import PassageChanges

__all__ = ["SPOOL_BYTES_MAX", "ChangeSource", "FeedChange", "Spool"]

SPOOL_BYTES_MAX = 1 << 30
"""Size on disk from which on a spool takes no more bodies, unless set otherwise."""

_FORMAT = 1
_FILE_BYTES_MAX = 64 << 20
_FILE_BYTES_MIN = 1 << 16
_FILES_MIN = 8
_VERSIONS_PER_RECORD_MAX = 1_000
_HEAD_BYTES = struct.Struct(">I")
_SIZE = struct.Struct(">Q")

# Kinds of records.
_FIRST = 0
_BODY = 1
_SETTLED = 2


class FeedChange(Protocol):
    """A change of the feed: what a spool needs of `recrawl.corpus.PageChange`."""

    @property
    def cursor(self) -> str:
        """Cursor to continue after this change."""
        ...

    @property
    def url(self) -> str:
        """URL of the page."""
        ...

    @property
    def key(self) -> str | None:
        """Key of the page, in a corpus grouped by key."""
        ...

    @property
    def what(self) -> Transition:
        """Meaning of the change."""
        ...

    @property
    def at_ms(self) -> int:
        """Instant of the report, in milliseconds since 1970."""
        ...

    @property
    def doc_id(self) -> str | None:
        """Name that the user gave the page."""
        ...

    @property
    def metadata(self) -> dict[str, Any] | None:
        """Data that the user gave with the page."""
        ...

    @property
    def passages(self) -> PassageChanges | None:
        """Passages that the version keeps, adds and lacks."""
        ...


class ChangeSource(Protocol):
    """The part of a corpus that a spool needs: its change feed."""

    def changes(self, after: str | None = None, *, limit: int = 1_000) -> Sequence[FeedChange]:
        """Return the changes after a cursor, oldest first."""
        ...


class _Settled(NamedTuple):
    """A record of settled versions: its first number and their count, and the first byte needed."""

    first: int
    n: int
    position: int
    needed_from: int


class _Pending(NamedTuple):
    """A body whose outcome may not be reported yet."""

    position: int
    fetched_at_ms: int


class Spool:
    """Bodies and versions of pages in a folder, until every sink has them.  Open one with `open`.

    Several threads may call it at once.
    """

    def __init__(
        self,
        folder: Path,
        *,
        bytes_max: int,
        keeps_unchanged: bool,
        cursor: str | None,
        is_skipped: Callable[[FeedChange], bool] | None = None,
        only_own: bool = False,
    ) -> None:
        self._folder = folder
        self._only_own = only_own
        self._is_skipped = is_skipped
        self._bytes_max = bytes_max
        self._keeps_unchanged = keeps_unchanged
        self._id = secrets.token_hex(8)
        self._cursor = cursor
        self._next_number = 1
        # Versions before this number are on disk, so sinks may have them.
        self._readable_to = 1
        self._settled: list[_Settled] = []
        self._pending: dict[tuple[str | None, str], list[_Pending]] = {}
        self._page_of_pending: dict[int, tuple[str | None, str]] = {}
        self._has_new = threading.Condition()
        file_bytes_max = min(_FILE_BYTES_MAX, max(bytes_max // _FILES_MIN, _FILE_BYTES_MIN))
        self._segments = Segments(folder, file_bytes_max, self._first_record)
        self._lock_file = _lock_folder(folder)

    @classmethod
    def open(
        cls,
        folder: str | Path,
        *,
        bytes_max: int = SPOOL_BYTES_MAX,
        keeps_unchanged: bool = False,
        cursor: str | None = None,
        is_skipped: Callable[[FeedChange], bool] | None = None,
        only_own: bool = False,
    ) -> Self:
        """Open the spool in a folder, or create one.

        Parameters
        ----------
        folder
            Folder of the spool, used by one process at a time.
        bytes_max
            Size on disk from which on `append` refuses more bodies.
        keeps_unchanged
            Whether fetches that found nothing new become versions too, for archives.
        cursor
            Place in the change feed where a new spool begins; None for the oldest change.
        is_skipped
            Function that says which changes become no versions, such as those of sitemaps; None
            skips none.
        only_own
            Whether only changes of pages that `append` stored become versions, because other
            processes fetch the rest.

        Raises
        ------
        LockedError
            If another process uses the folder.
        StorageError
            If the files are damaged.
        """
        if bytes_max <= 0:
            raise ValueError(f"bytes_max must be positive, got {bytes_max}")
        spool = cls(
            Path(folder),
            bytes_max=bytes_max,
            keeps_unchanged=keeps_unchanged,
            cursor=cursor,
            is_skipped=is_skipped,
            only_own=only_own,
        )
        try:
            spool._recover()
        except BaseException:
            spool.close()
            raise
        return spool

    @property
    def id(self) -> str:
        """Random name of this spool, 16 hexadecimal digits; part of the id of each version."""
        return self._id

    @property
    def folder(self) -> Path:
        """Folder of the spool."""
        return self._folder

    @property
    def cursor(self) -> str | None:
        """Place in the change feed up to which changes are settled; None for its beginning."""
        return self._cursor

    @property
    def n_bytes(self) -> int:
        """Size on disk."""
        return self._segments.n_bytes

    @property
    def bytes_max(self) -> int:
        """Size on disk from which on `append` refuses more bodies."""
        return self._bytes_max

    @property
    def keeps_unchanged(self) -> bool:
        """Whether fetches that found nothing new become versions too."""
        return self._keeps_unchanged

    @property
    def only_own(self) -> bool:
        """Whether only changes of pages that `append` stored become versions."""
        return self._only_own

    @property
    def is_full(self) -> bool:
        """Whether there is no room for more bodies until a sink has written what waits for it."""
        return self.n_bytes >= self._bytes_max

    @property
    def first_number(self) -> int:
        """Number of the oldest version that the spool still has, or of the next if it has none."""
        with self._has_new:
            return self._settled[0].first if self._settled else self._readable_to

    @property
    def next_number(self) -> int:
        """Number of the next version."""
        return self._readable_to

    @property
    def pending(self) -> tuple[int, ...]:
        """Positions of the bodies that are not settled yet."""
        with self._has_new:
            return tuple(sorted(self._page_of_pending))

    def append(self, pages: Sequence[FetchedPage]) -> list[int]:
        """Store answers durably, before their outcomes are reported; return their positions.

        Parameters
        ----------
        pages
            Answers to fetches.

        Raises
        ------
        SpoolFull
            If there is no room; nothing was stored.
        StorageError
            If the disk is full or fails; do not report the outcomes.  After a failed sync the spool
            must be opened again.
        """
        if self.is_full:
            raise SpoolFull(
                f"the spool in {self._folder} holds {self.n_bytes:,} bytes, and its limit is "
                f"{self._bytes_max:,}. It has room again when every sink has written what waits "
                "for it"
            )
        packed = [(page, _pack_page(page)) for page in pages]
        positions = []
        try:
            with self._has_new:
                for page, data in packed:
                    position = self._segments.append(_BODY, data)
                    positions.append(position)
                    self._note_pending(position, (page.key, page.url), page.fetched_at_ms)
            self._segments.sync()
        except StorageError:
            # Nobody will report these; they must not keep their files.
            with self._has_new:
                for position in positions:
                    self._forget_pending(position)
            raise
        return positions

    def settle(self, changes: Iterable[FeedChange], done: Iterable[int] = ()) -> int:
        """Turn changes of the feed into versions that sinks can read; return how many.

        Parameters
        ----------
        changes
            Changes after `cursor`, all of them or the first ones, in the order of the feed.
        done
            Positions of bodies whose outcomes are reported.  Those that belong to none of the
            changes are not needed any more.  Give only bodies whose changes are in ``changes`` or
            were in an earlier call.
        """
        changes = list(changes)
        done = list(done)
        with self._has_new:
            n_before = self._next_number
            for first in range(0, len(changes), _VERSIONS_PER_RECORD_MAX):
                self._settle_some(changes[first : first + _VERSIONS_PER_RECORD_MAX])
            if done:
                self._settle_done(done)
            n_after = self._next_number
        if changes or done:
            self._segments.sync()
        with self._has_new:
            self._readable_to = max(self._readable_to, n_after)
            self._has_new.notify_all()
        return n_after - n_before

    def settle_feed(self, corpus: ChangeSource, done: Iterable[int] = ()) -> int:
        """Settle all changes of a corpus after `cursor`; return the number of new versions.

        Call it after each report, with the positions of the bodies that were reported.  Call it
        after opening, before anything is fetched, with all `pending` positions: bodies whose
        outcomes were not reported are then dropped, and their pages are fetched again.

        Parameters
        ----------
        corpus
            Corpus whose change feed is read.
        done
            Positions of bodies whose outcomes are reported.
        """
        n_versions = 0
        while changes := corpus.changes(after=self._cursor, limit=_VERSIONS_PER_RECORD_MAX):
            n_versions += self.settle(changes)
        return n_versions + self.settle((), done)

    def _settle_some(self, changes: Sequence[FeedChange]) -> None:
        rows = []
        for change in changes:
            if self._is_skipped is not None and self._is_skipped(change):
                continue
            if self._only_own and (change.key, change.url) not in self._pending:
                continue
            position = self._take_pending((change.key, change.url), change.at_ms)
            row: dict[str, Any] = {
                "body": position,
                "url": change.url,
                "key": change.key,
                "what": int(change.what),
                "at_ms": change.at_ms,
                "doc_id": change.doc_id,
                "metadata": change.metadata,
            }
            if change.passages is not None:
                row["passages"] = change.passages
            rows.append(row)
        self._write_settled(rows, changes[-1].cursor, [])

    def _settle_done(self, done: Sequence[int]) -> None:
        left = [position for position in done if position in self._page_of_pending]
        for i in range(0, len(left), _VERSIONS_PER_RECORD_MAX):
            some = left[i : i + _VERSIONS_PER_RECORD_MAX]
            rows: list[dict[str, Any]] = []
            for position in some:
                key, url = self._forget_pending(position)
                if self._keeps_unchanged:
                    rows.append({"body": position, "url": url, "key": key, "what": 0})
            self._write_settled(rows, self._cursor, some)

    def _write_settled(
        self, rows: Sequence[dict[str, Any]], cursor: str | None, done: Sequence[int]
    ) -> None:
        """Append one record, which takes effect as a whole or not at all."""
        first = self._next_number
        data = json.dumps({"first": first, "rows": rows, "cursor": cursor, "done": done}).encode()
        position = self._segments.append(_SETTLED, _compress(data))
        self._note_settled(position, first, rows, cursor)

    def _note_settled(
        self, position: int, first: int, rows: Sequence[dict[str, Any]], cursor: str | None
    ) -> None:
        self._cursor = cursor
        if rows:
            bodies = [row["body"] for row in rows if row["body"] is not None]
            needed_from = min([position, *bodies])
            self._settled.append(_Settled(first, len(rows), position, needed_from))
        self._next_number = first + len(rows)

    def read(
        self, number: int, *, limit: int = 100, bytes_max: int = 16 << 20
    ) -> list[PageVersion]:
        """Return versions from a number on, in order; none if there are no more.

        Parameters
        ----------
        number
            Number of the first version; if the spool no longer has it, the oldest is the first.
        limit
            Largest number of versions.
        bytes_max
            Size of the bodies after which no further version is added.
        """
        versions: list[PageVersion] = []
        n_bytes = 0
        for version in self._versions_from(number):
            versions.append(version)
            n_bytes += len(version.body or b"")
            if len(versions) >= limit or n_bytes >= bytes_max:
                break
        return versions

    def _versions_from(self, number: int) -> Iterator[PageVersion]:
        while True:
            with self._has_new:
                i = bisect.bisect_right(self._settled, number, key=lambda one: one.first)
                if i and number < self._settled[i - 1].first + self._settled[i - 1].n:
                    i -= 1
                if i == len(self._settled) or self._settled[i].first >= self._readable_to:
                    return
                record = self._settled[i]
            data = self._segments.read(record.position)
            if data is None:
                raise StorageError(
                    f"the spool in {self._folder} is damaged at position {record.position}. Move "
                    "the folder away to go on without the versions in it"
                )
            rows = json.loads(_decompress(data))["rows"]
            for one in range(max(number, record.first), record.first + record.n):
                yield self._version(one, rows[one - record.first])
            number = record.first + record.n

    def _version(self, number: int, row: dict[str, Any]) -> PageVersion:
        page = None
        if row["body"] is not None:
            data = self._segments.read(row["body"])
            page = None if data is None else _unpack_page(data)
        passages = row.get("passages")
        facts: dict[str, Any] = {}
        if page is not None:
            facts = {
                "status": page.status,
                "content_type": page.content_type,
                "headers": page.headers,
                "final_url": page.final_url,
                "body": page.body if page.body or page.status == 200 else None,
            }
        return PageVersion(
            number=number,
            spool_id=self._id,
            url=row["url"],
            key=row["key"],
            transition=Transition(row["what"]),
            fetched_at_ms=row.get("at_ms", 0) if page is None else page.fetched_at_ms,
            doc_id=row.get("doc_id"),
            metadata=row.get("metadata"),
            passages=None if passages is None else PassageChanges(*map(_as_tuple, passages)),
            **facts,
        )

    def forget_before(self, number: int) -> None:
        """Delete files that hold only versions before a number, which every sink has written."""
        with self._has_new:
            while self._settled and self._settled[0].first + self._settled[0].n <= number:
                del self._settled[0]
            needed = min((one.needed_from for one in self._settled), default=self._segments.end)
            pending = min(self._page_of_pending, default=self._segments.end)
            self._segments.delete_before(min(needed, pending))

    def wait_for_version(self, number: int, seconds: float) -> bool:
        """Wait until a version with this number exists; return whether it does.

        Parameters
        ----------
        number
            Number of the version.
        seconds
            Longest time to wait.
        """
        with self._has_new:
            return self._has_new.wait_for(lambda: self._readable_to > number, seconds)

    def close(self) -> None:
        """Close the files; everything that `append` and `settle` returned from is on disk."""
        self._segments.close()
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _first_record(self) -> tuple[int, bytes]:
        """Return what a file begins with, so that earlier files can be deleted."""
        state = {
            "format": _FORMAT,
            "id": self._id,
            "next_number": self._next_number,
            "cursor": self._cursor,
        }
        return _FIRST, json.dumps(state).encode()

    def _recover(self) -> None:
        for record in self._segments.recover(frozenset((_FIRST, _BODY, _SETTLED))):
            if record.kind == _FIRST:
                state = json.loads(record.data)
                if state["format"] != _FORMAT:
                    raise StorageError(f"the spool in {self._folder} has an unknown format")
                self._id, self._next_number = state["id"], state["next_number"]
                self._cursor = state["cursor"]
            elif record.kind == _BODY:
                head = _head_of(record.data)
                self._note_pending(
                    record.position, (head["key"], head["url"]), head["fetched_at_ms"]
                )
            elif record.kind == _SETTLED:
                found = json.loads(_decompress(record.data))
                bodies = [row["body"] for row in found["rows"] if row["body"] is not None]
                for position in (*bodies, *found["done"]):
                    if position in self._page_of_pending:
                        self._forget_pending(position)
                self._note_settled(record.position, found["first"], found["rows"], found["cursor"])
        self._readable_to = self._next_number

    def _note_pending(
        self, position: int, page: tuple[str | None, str], fetched_at_ms: int
    ) -> None:
        self._pending.setdefault(page, []).append(_Pending(position, fetched_at_ms))
        self._page_of_pending[position] = page

    def _forget_pending(self, position: int) -> tuple[str | None, str]:
        page = self._page_of_pending.pop(position)
        left = [one for one in self._pending[page] if one.position != position]
        if left:
            self._pending[page] = left
        else:
            del self._pending[page]
        return page

    def _take_pending(self, page: tuple[str | None, str], at_ms: int) -> int | None:
        """Return the body of a change: the page's latest that was fetched before the report."""
        found = self._pending.get(page)
        if not found:
            return None
        before = [one for one in found if one.fetched_at_ms <= at_ms]
        position = (before or found)[-1].position
        self._forget_pending(position)
        return position


def _as_tuple(values: list[Any] | None) -> Any:
    return None if values is None else tuple(values)


def _pack_page(page: FetchedPage) -> bytes:
    head = {
        "url": page.url,
        "key": page.key,
        "fetched_at_ms": page.fetched_at_ms,
        "status": page.status,
        "content_type": page.content_type,
        "headers": page.headers,
        "final_url": page.final_url,
    }
    data = json.dumps(head).encode()
    return _HEAD_BYTES.pack(len(data)) + data + _compress(page.body)


def _head_of(data: bytes) -> dict[str, Any]:
    (n_head,) = _HEAD_BYTES.unpack_from(data)
    head: dict[str, Any] = json.loads(data[_HEAD_BYTES.size : _HEAD_BYTES.size + n_head])
    return head


def _unpack_page(data: bytes) -> FetchedPage:
    (n_head,) = _HEAD_BYTES.unpack_from(data)
    head = _head_of(data)
    head["headers"] = tuple((name, value) for name, value in head["headers"])
    return FetchedPage(**head, body=_decompress(data[_HEAD_BYTES.size + n_head :]))


def _compress(data: bytes) -> bytes:
    """Return the size of data, and data compressed unless it is empty."""
    size = _SIZE.pack(len(data))
    if not data:
        return size
    packed: bytes = pa.Codec("zstd", compression_level=1).compress(data, asbytes=True)
    return size + packed


def _decompress(data: bytes) -> bytes:
    (n_bytes,) = _SIZE.unpack_from(data)
    if n_bytes == 0:
        return b""
    plain: bytes = pa.Codec("zstd").decompress(
        data[_SIZE.size :], decompressed_size=n_bytes, asbytes=True
    )
    return plain


def _lock_folder(folder: Path) -> Any:
    """Lock a folder for this process; the lock ends when the returned file is closed."""
    with suppress(ImportError):
        import fcntl  # noqa: PLC0415 - Windows does not have it

        file = (folder / "lock").open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise LockedError(f"the spool in {folder} is in use by another process") from None
        return file
    return None
