"""Write the answers to clients: JSON, JSON lines or Arrow, as they accept it."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response

from recrawl.corpus import Order, RowStatus
from recrawl.service.formats.rows import ARROW, JSON, NDJSON
from recrawl.service.problems import Problem

__all__ = [
    "STATUS_NAMES",
    "OrderAnswer",
    "check_version",
    "json_answer",
    "note_rows",
    "order_answers",
    "orders_answer",
    "rows_answer",
    "status_answer",
    "version_of",
]

STATUS_NAMES = [status.name.lower() for status in sorted(RowStatus)]
CURSOR_HEADER = "Recrawl-Cursor"

_ORDER_SCHEMA = pa.schema(
    [
        pa.field("handle", pa.int64(), nullable=False),
        pa.field("url", pa.string(), nullable=False),
        pa.field("fetch_url", pa.string(), nullable=False),
        pa.field("etag", pa.binary()),
        pa.field("last_modified", pa.binary()),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("expires_at_ms", pa.int64(), nullable=False),
        pa.field("doc_id", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("key", pa.string()),
    ]
)
_encode = msgspec.json.Encoder().encode


class OrderAnswer(msgspec.Struct, gc=False):
    """A page to fetch."""

    handle: str
    """Number of the order as text, because it may be above 2**53."""
    url: str
    fetch_url: str
    etag: str | None
    last_modified: str | None
    reason: str
    expires_at_ms: Annotated[
        int,
        msgspec.Meta(
            description="When the order ends, in milliseconds since 1970: begin to fetch before, "
            "and report or extend the order before. After that another fetcher may get the page. "
            "A late report counts all the same, for the time leases.grace of the configuration."
        ),
    ]
    doc_id: str | None
    metadata: dict[str, Any] | None
    key: str | None


def json_answer(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an answer in JSON."""
    return Response(_encode(_plain(value)), status, headers=headers, media_type=JSON)


def _plain(value: Any) -> Any:
    """Return a value without numbers that JSON does not have, and with texts instead of enums."""
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value


def note_rows(request: Request, n: int) -> None:
    """Note how many rows a request had or gets, for the limit of its API key."""
    request.state.n_rows = n


def accepted_format(request: Request) -> str:
    """Return the format that a client accepts: JSON unless it names another."""
    accept = request.headers.get("accept", "")
    if ARROW in accept:
        return ARROW
    return NDJSON if "ndjson" in accept else JSON


def _header_text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")


def order_answers(orders: Iterable[Order]) -> list[OrderAnswer]:
    """Return orders as clients see them."""
    return [
        OrderAnswer(
            str(one.handle),
            one.url,
            one.fetch_url,
            _header_text(one.etag),
            _header_text(one.last_modified),
            one.reason.name.lower(),
            one.expires_at_ms,
            one.doc_id,
            one.metadata,
            one.key,
        )
        for one in orders
    ]


def orders_answer(request: Request, orders: Sequence[Order], shortfall: Any) -> Response:
    """Return the answer to a lease, in the format that the client accepts."""
    note_rows(request, len(orders))
    format = accepted_format(request)
    if format == ARROW:
        return Response(_arrow_bytes(_order_table(orders)), media_type=ARROW)
    rows = order_answers(orders)
    if format == NDJSON:
        return Response(msgspec.json.Encoder().encode_lines(rows), media_type=NDJSON)
    return Response(_encode({"orders": rows, "shortfall": _plain(shortfall)}), media_type=JSON)


def _order_table(orders: Sequence[Order]) -> pa.Table:
    columns = list(zip(*orders, strict=True)) or [[] for _ in _ORDER_SCHEMA]
    columns[5] = [reason.name.lower() for reason in columns[5]]
    columns[8] = [None if one is None else _encode(one).decode() for one in columns[8]]
    arrays = [
        pa.array(column, field.type) for column, field in zip(columns, _ORDER_SCHEMA, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=_ORDER_SCHEMA)


def _arrow_bytes(table: pa.Table | pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def rows_answer(request: Request, name: str, batch: pa.RecordBatch, cursor: str | None) -> Response:
    """Return rows of a table with the cursor of the next ones."""
    note_rows(request, batch.num_rows)
    format = accepted_format(request)
    headers = {} if cursor is None else {CURSOR_HEADER: cursor}
    if format == ARROW:
        return Response(_arrow_bytes(batch), headers=headers, media_type=ARROW)
    rows = [_plain(row) for row in batch.to_pylist()]
    for row in rows:
        if isinstance(row.get("metadata"), str):
            row["metadata"] = msgspec.Raw(row["metadata"].encode() or b"{}")
    if format == NDJSON:
        lines = msgspec.json.Encoder().encode_lines(rows)
        return Response(lines, headers=headers, media_type=NDJSON)
    return Response(_encode({name: rows, "cursor": cursor}), headers=headers, media_type=JSON)


def status_answer(
    request: Request,
    rows: NDArray[np.uint8] | list[int],
    members: Mapping[str, Any] | None = None,
) -> Response:
    """Return the status of each row, with their counts.

    Parameters
    ----------
    request
        Request to answer.
    rows
        `RowStatus` of each row.
    members
        Further members of the answer, as JSON has them.
    """
    note_rows(request, len(rows))
    if accepted_format(request) == ARROW:
        names = pa.array(STATUS_NAMES).take(pa.array(rows, pa.uint8()))
        return Response(_arrow_bytes(pa.table({"status": names})), media_type=ARROW)
    codes = rows if isinstance(rows, list) else rows.tolist()
    counts = {name: n for code, name in enumerate(STATUS_NAMES) if (n := codes.count(code))}
    return Response(
        _encode(
            {
                "status": [STATUS_NAMES[code] for code in codes],
                "counts": counts,
                **(members or {}),
            }
        ),
        media_type=JSON,
    )


def version_of(value: Any) -> str:
    """Return the entity tag of a value."""
    return f'"{blake2b(_encode(_plain(value)), digest_size=12).hexdigest()}"'


def check_version(request: Request, value: Any) -> None:
    """Raise if the client's If-Match names another version than the present one."""
    wanted = request.headers.get("if-match")
    if wanted is None or wanted.strip() == "*":
        return
    present = version_of(value)
    if present not in [one.strip() for one in wanted.split(",")]:
        raise Problem(
            "other-version",
            "the settings are not those of If-Match; read them again",
            headers={"ETag": present},
        )
