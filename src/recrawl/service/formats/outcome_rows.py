"""Turn rows of outcomes into what a corpus takes, and refuse those that say nothing."""

import base64
import binascii
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recrawl.corpus import Outcome
from recrawl.service.formats.handles import handle_number
from recrawl.service.formats.row_kinds import OutcomeRow
from recrawl.service.formats.rows import BodyRows

__all__ = ["ReadOutcomes", "are_few", "few_outcomes", "outcome_table"]

_FEW_MAX = 256
_NO_PAGE = "needs a handle or a url"
_NO_TIME = "an outcome without a handle needs fetched_at_ms, so that it counts once"
_NO_STATUS = "needs a status (0 if there was no answer)"
_NO_CONTENT = "a successful status needs one of body, body_base64, text, digest, changed"
_NOT_BASE64 = "body_base64 and sketch_base64 must be base64"
_SEEN = ("changed", "digest", "body", "text")


class ReadOutcomes(NamedTuple):
    """Outcomes for a corpus, and the rows that are refused."""

    outcomes: Any
    """A list of outcomes, or a table."""
    kept: NDArray[np.int64]
    """Number of the row of each outcome."""
    reasons: dict[int, str]
    """Reason why a row is refused, by row."""


def are_few(rows: BodyRows) -> bool:
    """Return whether rows are few and have no content to read, so that they can be merged."""
    decoded = rows.decoded
    return (
        decoded is not None
        and len(decoded) <= _FEW_MAX
        and not any(row.body or row.body_base64 or row.text for row in decoded)
    )


def _why_refused(row: OutcomeRow) -> str | None:
    if row.handle == 0:
        if row.url is None:
            return _NO_PAGE
        if row.fetched_at_ms == 0:
            return _NO_TIME
    if row.disallowed or _is_seen(row):
        return None
    if row.status is None:
        return _NO_STATUS
    return _NO_CONTENT if 200 <= row.status < 300 else None


def _is_seen(row: OutcomeRow) -> bool:
    return (
        row.changed is not None
        or row.digest is not None
        or row.body is not None
        or row.body_base64 is not None
        or row.text is not None
    )


def _status_of(row: OutcomeRow) -> int:
    if row.status is not None:
        return row.status
    return 200 if _is_seen(row) else 0


def _header(value: str | None) -> bytes | None:
    if value is None:
        return None
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        return value.encode("utf-8", "replace")


def _base64(value: str | None) -> bytes | None:
    return None if value is None else base64.b64decode(value, validate=True)


def _body_of(row: OutcomeRow) -> bytes | None:
    if row.body is not None:
        return row.body.encode("utf-8", "replace")
    return _base64(row.body_base64)


def _content_type_of(row: OutcomeRow) -> str | None:
    if row.body is None or row.content_type is None:
        return row.content_type
    # JSON has decoded a body given as text, so its character set is ours.
    return row.content_type.partition(";")[0].strip() + "; charset=utf-8"


def few_outcomes(rows: BodyRows) -> ReadOutcomes:
    """Return a few outcomes as objects, which a corpus merges with those of others."""
    outcomes: list[Outcome] = []
    kept: list[int] = []
    reasons: dict[int, str] = {}
    for number, row in enumerate(rows.decoded or ()):
        why = _why_refused(row)
        if why is None:
            try:
                outcomes.append(_outcome_of(row))
                kept.append(number)
                continue
            except (binascii.Error, ValueError):
                why = _NOT_BASE64
        reasons[number] = why
    return ReadOutcomes(outcomes, np.array(kept, np.int64), reasons)


def _outcome_of(row: OutcomeRow) -> Outcome:
    return Outcome(
        handle=handle_number(row.handle),
        url=row.url,
        status=_status_of(row),
        changed=row.changed,
        digest=None if row.digest is None else row.digest.encode("utf-8", "replace"),
        etag=_header(row.etag),
        last_modified=_header(row.last_modified),
        fetched_at_ms=row.fetched_at_ms,
        retry_after_seconds=row.retry_after_seconds,
        moved_to=row.moved_to,
        disallowed=row.disallowed,
        divergence=float("nan") if row.divergence is None else row.divergence,
        sketch=_base64(row.sketch_base64),
        key=row.key,
    )


def outcome_table(rows: BodyRows) -> ReadOutcomes:
    """Return outcomes as a table, which may have bodies."""
    if rows.decoded is not None:
        return _table_of_decoded(rows.decoded)
    assert rows.table is not None
    return _table_of_columns(rows.table)


def _table_of_decoded(decoded: list[OutcomeRow]) -> ReadOutcomes:
    reasons: dict[int, str] = {}
    kept: list[int] = []
    bodies: list[bytes | None] = []
    sketches: list[bytes | None] = []
    for number, row in enumerate(decoded):
        why = _why_refused(row)
        if why is None:
            try:
                body, sketch = _body_of(row), _base64(row.sketch_base64)
                bodies.append(body)
                sketches.append(sketch)
                kept.append(number)
                continue
            except (binascii.Error, ValueError):
                why = _NOT_BASE64
        reasons[number] = why
    some = decoded if len(kept) == len(decoded) else [decoded[number] for number in kept]
    columns: dict[str, tuple[list[Any], pa.DataType]] = {
        "handle": ([row.handle for row in some], pa.int64()),
        "url": ([row.url for row in some], pa.string()),
        "status": ([_status_of(row) for row in some], pa.int64()),
        "changed": ([row.changed for row in some], pa.bool_()),
        "digest": (
            [None if row.digest is None else row.digest.encode() for row in some],
            pa.binary(),
        ),
        "etag": ([_header(row.etag) for row in some], pa.binary()),
        "last_modified": ([_header(row.last_modified) for row in some], pa.binary()),
        "fetched_at_ms": ([row.fetched_at_ms for row in some], pa.int64()),
        "retry_after_seconds": ([row.retry_after_seconds for row in some], pa.float64()),
        "moved_to": ([row.moved_to for row in some], pa.string()),
        "disallowed": ([row.disallowed for row in some], pa.bool_()),
        "divergence": ([row.divergence for row in some], pa.float64()),
        "sketch": (sketches, pa.binary()),
        "key": ([row.key for row in some], pa.string()),
        "body": (bodies, pa.binary()),
        "content_type": ([_content_type_of(row) for row in some], pa.string()),
        "text": ([row.text for row in some], pa.string()),
    }
    table = pa.table(
        {
            name: pa.array(values, type_)
            for name, (values, type_) in columns.items()
            if name == "handle" or values.count(None) < len(values)
        }
    )
    return ReadOutcomes(table, np.array(kept, np.int64), reasons)


def _table_of_columns(table: pa.Table) -> ReadOutcomes:
    n_rows = table.num_rows

    def flag(name: str) -> NDArray[np.bool_]:
        if name not in table.schema.names:
            return np.zeros(n_rows, np.bool_)
        valid: NDArray[np.bool_] = pc.is_valid(table.column(name)).to_numpy()
        return valid

    def number(name: str, missing: int) -> NDArray[np.int64]:
        if name not in table.schema.names:
            return np.full(n_rows, missing, np.int64)
        filled: NDArray[np.int64] = table.column(name).fill_null(missing).to_numpy()
        return filled

    is_seen = np.logical_or.reduce([flag(name) for name in _SEEN])
    is_disallowed = np.zeros(n_rows, np.bool_)
    if "disallowed" in table.schema.names:
        is_disallowed = table.column("disallowed").fill_null(False).to_numpy()
    status = number("status", -1)
    status = np.where((status < 0) & is_seen, 200, status)
    is_silent = ~is_seen & ~is_disallowed
    is_named = number("handle", 0) > 0
    problems = (
        (_NO_PAGE, ~is_named & ~flag("url")),
        (_NO_TIME, ~is_named & (number("fetched_at_ms", 0) == 0)),
        (_NO_STATUS, is_silent & (status < 0)),
        (_NO_CONTENT, is_silent & (status >= 200) & (status < 300)),
    )
    reasons: dict[int, str] = {}
    is_refused = np.zeros(n_rows, np.bool_)
    for why, rows in problems:
        for row in np.flatnonzero(rows & ~is_refused).tolist():
            reasons[row] = why
        is_refused |= rows
    column = pa.array(np.maximum(status, 0))
    if "status" in table.schema.names:
        table = table.set_column(table.schema.get_field_index("status"), "status", column)
    else:
        table = table.append_column("status", column)
    kept = np.flatnonzero(~is_refused)
    if kept.size != n_rows:
        table = table.take(pa.array(kept))
    return ReadOutcomes(table, kept, reasons)
