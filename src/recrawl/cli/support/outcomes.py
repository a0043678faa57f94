"""Outcomes as lines of JSON, which fetchers write and `recrawl report` reads."""

import base64
import binascii
import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from recrawl.corpus import Outcome

__all__ = [
    "BODY_BYTES_MAX",
    "LINE_BYTES_MAX",
    "BadOutcome",
    "header_text",
    "lines_of",
    "outcome_of",
]

LINE_BYTES_MAX = 16 << 20
"""Maximum length of a line; a longer one counts as a bad line."""

BODY_BYTES_MAX = 64 << 20
"""Maximum size of a file that is read as a body; of a larger one only a digest is compared."""

_BLOCK_BYTES = 1 << 20
# Sanity limit for retry_after_seconds and divergence.
_NUMBER_MAX = 1e12
_TOO_LONG = b"\x00"  # stands for a line that was too long; not JSON, so it counts as bad


class BadOutcome(Exception):  # noqa: N818 - data, counted and not raised further
    """A line that is not an outcome."""


def lines_of(file: BinaryIO) -> Iterator[list[bytes]]:
    """Yield the lines of a stream in lists, as soon as they arrive.

    A list has all lines that are in the pipe, so that outcomes of a slow fetcher are soon known.
    """
    read = getattr(file, "read1", file.read)
    rest = b""
    is_skipping = False
    while block := read(_BLOCK_BYTES):
        *lines, rest = (rest + block).split(b"\n")
        if is_skipping and lines:
            lines[0], is_skipping = _TOO_LONG, False
        if len(rest) > LINE_BYTES_MAX or is_skipping:
            rest, is_skipping = b"", True
        whole = [line for line in lines if line.strip()]
        if whole:
            yield whole
    if is_skipping:
        yield [_TOO_LONG]
    elif rest.strip():
        yield [rest]


def header_text(value: bytes | None) -> str | None:
    """Return a header as text, from which `_header` makes the same bytes again."""
    return None if value is None else value.decode("latin-1")


def _header(name: str, value: Any) -> bytes:
    if not isinstance(value, str):
        raise BadOutcome(f"{name} must be text, got {value!r:.60}")
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        return value.encode("utf-8", "replace")


def _whole(name: str, value: Any) -> int:
    # Shells and curl write numbers as text; curl writes "000" for no answer.
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:20])
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise BadOutcome(f"{name} must be a whole number, 0 or more, got {value!r:.60}")
    return value


def _number(name: str, value: Any) -> float:
    if isinstance(value, str):
        with suppress(ValueError):
            value = float(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= _NUMBER_MAX:
        raise BadOutcome(f"{name} must be a number from 0 to {_NUMBER_MAX:g}, got {value!r:.60}")
    return float(value)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadOutcome(f"{name} must be true or false, got {value!r:.60}")
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise BadOutcome(f"{name} must be text, got {value!r:.60}")
    if not _is_writable(value):
        raise BadOutcome(f"{name} must be valid text, got {value!r:.60}")
    return value


def _is_writable(text: str) -> bool:
    # JSON allows half of a surrogate pair, such as \ud800, which UTF-8 cannot encode.
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


_READ = {
    "handle": _whole,
    "url": _text,
    "status": _whole,
    "changed": _flag,
    "etag": _header,
    "last_modified": _header,
    "fetched_at_ms": _whole,
    "retry_after_seconds": _number,
    "moved_to": _text,
    "disallowed": _flag,
    "divergence": _number,
    "key": _text,
    "content_type": _text,
}


# Simple forms of names that fetchers use for our fields.
_OTHER_NAMES = {
    "uri": "url",
    "statuscode": "status",
    "httpstatus": "status",
    "httpstatuscode": "status",
    "haschanged": "changed",
    "ischanged": "changed",
    "hash": "digest",
    "contenthash": "digest",
    "checksum": "digest",
    "mimetype": "content_type",
}
_FIELD_NAMES = (*_READ, "digest", "body", "body_path", "body_base64", "text")
_OUR_NAMES = _OTHER_NAMES | {name.replace("_", ""): name for name in _FIELD_NAMES}


def _with_our_names(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with our names of fields that are spelled otherwise: ``URL``, ``statusCode``."""
    if row.keys() <= _KNOWN_NAMES:
        return row
    from recrawl.readers.spellings import simple_name  # noqa: PLC0415

    renamed = dict(row)
    for name, value in row.items():
        ours = _OUR_NAMES.get(simple_name(name))
        if ours is None or value is None or row.get(ours) is not None:
            continue
        if simple_name(name) in _OTHER_NAMES and not isinstance(value, str | int):
            continue  # something else that happens to have the name
        if ours in renamed and renamed[ours] is not None:
            raise BadOutcome(f"several fields may be {ours}; name it {ours}")
        renamed[ours] = value
    return renamed


_KNOWN_NAMES = frozenset(
    (*_FIELD_NAMES, "fetch_url", "reason", "expires_at_ms", "doc_id", "metadata")
)


def outcome_of(line: bytes) -> "Outcome":
    """Return the outcome in a line of JSON.

    Raises
    ------
    BadOutcome
        If the line is not an outcome.
    """
    from recrawl.corpus import Outcome  # noqa: PLC0415

    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        shown = "a line of more than 16 MiB" if line == _TOO_LONG else repr(_start_of(line))
        raise BadOutcome(f"not JSON: {shown}") from None
    if not isinstance(row, dict):
        raise BadOutcome('not a JSON object such as {"handle": 4096, "status": 200, …}')
    row = _with_our_names(row)
    fields: dict[str, Any] = {
        name: read(name, row[name]) for name, read in _READ.items() if row.get(name) is not None
    }
    fields |= _content_of(row)
    if not fields.get("handle") and "url" not in fields:
        raise BadOutcome("needs a handle or a url")
    is_seen = not fields.keys().isdisjoint(("changed", "digest", "body", "text"))
    if "status" not in fields and not is_seen and not fields.get("disallowed"):
        raise BadOutcome("needs a status (0 if there was no answer)")
    status = fields.setdefault("status", 200)
    if status > 999:
        raise BadOutcome(f"status must be an HTTP status, got {status}")
    if 200 <= status < 300 and not is_seen and not fields.get("disallowed"):
        raise BadOutcome(
            f"status {status} needs one of body, body_path, body_base64, text, digest, changed"
        )
    return Outcome(**fields)


def _start_of(line: bytes) -> str:
    text = line.strip().decode("utf-8", "replace")
    return text if len(text) <= 40 else text[:40] + "…"


def _content_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an outcome that say what the content of its answer is."""
    fields: dict[str, Any] = {}
    if row.get("digest") is not None:
        fields["digest"] = _text("digest", row["digest"]).encode("utf-8")
    if row.get("text") is not None:
        fields["text"] = _content_text("text", row["text"])
    elif row.get("body") is not None:
        fields["body"] = _content_text("body", row["body"]).encode("utf-8", "replace")
        fields |= _content_type_of_text(row.get("content_type"))
    elif row.get("body_base64") is not None:
        try:
            fields["body"] = base64.b64decode(_content_text("body_base64", row["body_base64"]))
        except (binascii.Error, ValueError):
            raise BadOutcome("body_base64 must be the body in base64") from None
    elif row.get("body_path") is not None:
        fields |= _content_of_file(Path(_text("body_path", row["body_path"])))
    return fields


def _content_text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise BadOutcome(f"{name} must be text, got {value!r:.60}")
    return value


def _content_type_of_text(content_type: Any) -> dict[str, str]:
    """Return the type of a body given as text: JSON has decoded it, so its charset is ours."""
    if not isinstance(content_type, str):
        return {}
    return {"content_type": content_type.partition(";")[0].strip() + "; charset=utf-8"}


def _content_of_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            if path.stat().st_size > BODY_BYTES_MAX:
                return {"digest": hashlib.file_digest(file, "sha256").digest()}
            return {"body": file.read(BODY_BYTES_MAX)}
    except (OSError, ValueError) as error:
        raise BadOutcome(f"{path} cannot be read: {error}") from None
