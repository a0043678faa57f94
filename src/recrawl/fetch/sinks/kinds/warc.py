"""Web archives: WARC 1.1 files with every answer, and short records for answers without news.

References
----------
ISO 28500:2017 (WARC 1.1)
"""

import base64
import gzip
import hashlib
import io
import json
import os
import re
import uuid
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO, NamedTuple

from recrawl.atomic_files import create_folder, open_new_file, sync_to_disk
from recrawl.errors import SinkError, StorageError
from recrawl.fetch.sinks.contract import DEFAULT_BATCH, BatchSettings, check_sink_name
from recrawl.fetch.sinks.version import PageVersion
from recrawl.kv import KeyValues

__all__ = ["WarcSink", "cut_last_record"]

_ENDING = ".warc.gz"
_OPEN_ENDING = ".warc.gz.open"
_INDEX = ".recrawl-index"
_SAME_PAYLOAD = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
_NOT_MODIFIED = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
_READ_BYTES = 1 << 20
_URL_CHARACTERS_MAX = 8_192

# The body is stored without these, so an archive shows them under another name.
_NOT_OF_BODY = frozenset(("content-encoding", "transfer-encoding", "content-length"))
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class _Archived(NamedTuple):
    """The latest whole answer of a page in the archive."""

    version_id: str
    record_id: str
    digest: str
    date: str


class WarcSink:
    """Writes every answer into WARC 1.1 files, compressed record by record.

    An answer with the same body as the page's last one becomes a ``revisit`` record that names the
    earlier one, and so does "304 Not Modified".  The file that is being written has the ending
    ``.open``.

    Parameters
    ----------
    folder
        Folder for the files, which is created.
    name
        Name of the sink.
    prefix
        Beginning of the names of the files.
    software
        Program that is named in the files.
    file_bytes_max
        Size after which the next record begins a new file.
    batch
        Number of versions per call.
    now
        Function that returns the present time, for the names of the files.

    Raises
    ------
    SinkError
        If the folder cannot be created or read.
    """

    wants_unchanged = True

    def __init__(
        self,
        folder: str | Path,
        *,
        name: str = "warc",
        prefix: str = "recrawl",
        software: str = "recrawl",
        file_bytes_max: int = 1 << 30,
        batch: BatchSettings = DEFAULT_BATCH,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", prefix):
            raise ValueError(f"prefix must be letters, digits, '.', '_' and '-', got {prefix!r}")
        self.name = check_sink_name(name)
        self.batch = batch
        self._folder = Path(folder)
        self._prefix = prefix
        self._software = software
        self._file_bytes_max = file_bytes_max
        self._now = now
        self._file: BinaryIO | None = None
        self._path: Path | None = None
        self._n_files = 0
        try:
            create_folder(self._folder)
            # First the index: its lock protects the open file of another process.
            self._index = KeyValues.open(self._folder / _INDEX)
            self._complete_open_files()
        except (OSError, StorageError) as error:
            raise SinkError(f"cannot write to {self._folder}: {error}") from error

    def write(self, versions: Sequence[PageVersion]) -> None:
        """Append the answers and sync them to disk; see `Sink.write`."""
        archived: dict[bytes, _Archived] = {}
        try:
            for version in versions:
                if version.status:
                    self._write_version(version, archived)
            if self._file is not None:
                _sync(self._file)
            # Afterwards: a revisit must not name a record that a power cut has removed.
            if archived:
                values = [json.dumps(found).encode() for found in archived.values()]
                self._index.write(list(archived), values)
        except (OSError, StorageError) as error:
            self._end_file()
            raise SinkError(f"cannot write to {self._folder}: {error}") from error

    def _write_version(self, version: PageVersion, archived: dict[bytes, _Archived]) -> None:
        url = version.final_url or version.url
        if len(url) > _URL_CHARACTERS_MAX or not url.isprintable():
            return
        key = hashlib.sha256(url.encode("utf-8", "replace")).digest()
        earlier = archived.get(key) or self._last_answer(key)
        if earlier is not None and earlier.version_id == version.id:
            return  # sent again
        body = version.body or b""
        digest = _digest(body)
        is_good = 200 <= version.status < 300
        is_304 = version.status == HTTPStatus.NOT_MODIFIED
        is_same = is_good and earlier is not None and earlier.digest == digest
        head = _http_head(version, len(body))
        date = _date(version.fetched_at_ms)
        record_id = _new_record_id()
        fields = [
            ("WARC-Type", "revisit" if is_304 or is_same else "response"),
            ("WARC-Record-ID", record_id),
            ("WARC-Date", date),
            ("WARC-Target-URI", url),
        ]
        if is_304 or is_same:
            fields.append(("WARC-Profile", _NOT_MODIFIED if is_304 else _SAME_PAYLOAD))
            fields.append(("WARC-Truncated", "length"))
            if earlier is not None:
                fields += [
                    ("WARC-Refers-To", earlier.record_id),
                    ("WARC-Refers-To-Target-URI", url),
                    ("WARC-Refers-To-Date", earlier.date),
                    ("WARC-Payload-Digest", earlier.digest),
                ]
            block = head
        else:
            fields.append(("WARC-Payload-Digest", digest))
            block = head + body
            if is_good:
                archived[key] = _Archived(version.id, record_id, digest, date)
        fields += [
            ("WARC-Block-Digest", _digest(block)),
            ("Content-Type", "application/http; msgtype=response"),
        ]
        self._write_record(fields, block)

    def _last_answer(self, key: bytes) -> _Archived | None:
        stored = self._index.get(key)
        return None if stored is None else _Archived(*json.loads(stored))

    def _write_record(self, fields: Sequence[tuple[str, str]], block: bytes) -> None:
        if self._file is not None and self._file.tell() >= self._file_bytes_max:
            self._end_file()
        if self._file is None:
            self._begin_file()
        assert self._file is not None
        self._file.write(_record(fields, block))

    def _begin_file(self) -> None:
        now = self._now()
        self._n_files += 1
        stem = f"{self._prefix}-{now:%Y%m%d%H%M%S}-{self._n_files:05}-{uuid.uuid4().hex[:8]}"
        self._path = self._folder / f"{stem}{_OPEN_ENDING}"
        self._file = open_new_file(self._path)
        sync_to_disk(self._folder)
        facts = {
            "software": self._software,
            "format": "WARC File Format 1.1",
            "conformsTo": "http://iipc.github.io/warc-specifications/specifications/"
            "warc-format/warc-1.1/",
        }
        block = "".join(f"{name}: {value}\r\n" for name, value in facts.items()).encode()
        fields = [
            ("WARC-Type", "warcinfo"),
            ("WARC-Record-ID", _new_record_id()),
            ("WARC-Date", f"{now:%Y-%m-%dT%H:%M:%SZ}"),
            ("WARC-Filename", f"{stem}{_ENDING}"),
            ("Content-Type", "application/warc-fields"),
        ]
        self._file.write(_record(fields, block))

    def _end_file(self) -> None:
        """Close the file and give it its final name, if that is possible."""
        if self._file is None or self._path is None:
            return
        file, path = self._file, self._path
        self._file = self._path = None
        with suppress(OSError):
            _sync(file)
        with suppress(OSError):
            file.close()
        with suppress(OSError):
            _complete(path)

    def _complete_open_files(self) -> None:
        """Cut off half records of a process that was killed, and give its files final names."""
        for path in self._folder.glob(f"*{_OPEN_ENDING}"):
            with path.open("r+b") as file:
                cut_last_record(file)
                os.fsync(file.fileno())
            _complete(path)

    def close(self) -> None:
        """Close the file and the index."""
        self._end_file()
        self._index.close()


def cut_last_record(file: BinaryIO) -> None:
    """Cut off the end of a file after its last whole member of gzip.

    Parameters
    ----------
    file
        File that is open for reading and writing.
    """
    end = 0
    file.seek(0)
    rest = b""
    while True:
        member = zlib.decompressobj(wbits=31)
        n_read = 0
        try:
            while not member.eof:
                data = rest or file.read(_READ_BYTES)
                rest = b""
                if not data:
                    break
                n_read += len(data)
                while data and not member.eof:
                    member.decompress(data, _READ_BYTES)
                    data = member.unconsumed_tail
        except zlib.error:
            break
        if not member.eof:
            break
        rest = member.unused_data
        end += n_read - len(rest)
    file.truncate(end)
    file.seek(end)


def _complete(path: Path) -> None:
    path.replace(path.with_name(path.name.removesuffix(".open")))
    sync_to_disk(path.parent)


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _digest(data: bytes) -> str:
    # Archives compare SHA-1 in base 32; it is a name here, not a protection.
    found = hashlib.sha1(data, usedforsecurity=False).digest()
    return f"sha1:{base64.b32encode(found).decode()}"


def _new_record_id() -> str:
    return f"<urn:uuid:{uuid.uuid4()}>"


def _date(at_ms: int) -> str:
    found = datetime.fromtimestamp(at_ms / 1000, UTC)
    return found.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at_ms % 1000:03}Z"


def _http_head(version: PageVersion, n_bytes: int) -> bytes:
    """Return the status line and headers of an answer."""
    try:
        reason = HTTPStatus(version.status).phrase
    except ValueError:
        reason = ""
    lines = [f"HTTP/1.1 {version.status} {reason}"]
    names = set()
    for name, value in version.headers:
        if not _HEADER_NAME.fullmatch(name):
            continue
        names.add(name.lower())
        shown = f"X-Crawl-{name}" if name.lower() in _NOT_OF_BODY else name
        lines.append(f"{shown}: {_one_line(value)}")
    if version.content_type is not None and "content-type" not in names:
        lines.append(f"Content-Type: {_one_line(version.content_type)}")
    lines.append(f"Content-Length: {n_bytes}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "replace")


def _one_line(value: str) -> str:
    return re.sub(r"[\x00-\x08\x0a-\x1f\x7f]+", " ", value)


def _record(fields: Sequence[tuple[str, str]], block: bytes) -> bytes:
    """Return a record as one member of gzip."""
    head = "".join(f"{name}: {value}\r\n" for name, value in fields)
    head = f"WARC/1.1\r\n{head}Content-Length: {len(block)}\r\n\r\n"
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=6, mtime=0) as file:
        file.write(head.encode())
        file.write(block)
        file.write(b"\r\n\r\n")
    return packed.getvalue()
