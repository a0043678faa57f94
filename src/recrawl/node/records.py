"""What a node writes to its log: the shard's events, and three kinds of its own that are wider.

A shard knows pages by number.  What a node adds (URLs, names of groups, validators, digests) goes
into the same record as the shard's columns, so that one record is one whole happening: after a
crash there is no page without its URL.

Schema numbers below 100 are the shard's.  Numbers are for ever, as theirs are.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.ledger import Record
from recrawl.shard import Outcomes, PagesAdded
from recrawl.shard.events import (
    SCHEMA_ID,
    Event,
    arrow_schema_of,
    from_arrow,
    from_record,
    to_arrow,
    to_record,
)
from recrawl.shard.wire import packed, unpacked
from recrawl.store import DIGEST_BYTES

__all__ = [
    "NODE_SCHEMAS",
    "Happening",
    "Named",
    "PagesNamed",
    "PagesReported",
    "happening_of",
    "record_of",
]


class PagesNamed(NamedTuple):
    """Pages to keep, with their URLs; numbering them is a decision and carries an epoch."""

    added: PagesAdded
    epoch: NDArray[np.int64]
    url: pa.StringArray
    """Canonical: what the page is known by."""
    fetch_url: pa.StringArray
    """What to ask for, null where that is the same."""


class Named(NamedTuple):
    """Numbers given to groups, kinds and sources, by whoever owned the partition."""

    epoch: NDArray[np.int64]
    what: NDArray[np.uint8]
    number: NDArray[np.uint32]
    key: pa.StringArray


class PagesReported(NamedTuple):
    """What fetches found, and what of it is kept to compare the next ones with."""

    outcomes: Outcomes
    digest: pa.FixedSizeBinaryArray
    """Of the content, null if not known."""
    etag: pa.BinaryArray
    last_modified: pa.BinaryArray
    """As the server wrote it."""
    sketch: pa.BinaryArray
    profile: pa.BinaryArray
    moved_to: pa.StringArray


Happening: TypeAlias = Event | PagesNamed | Named | PagesReported

_NAMES = [("url", pa.string()), ("fetch_url", pa.string())]
_CONTENT = [
    ("digest", pa.binary(DIGEST_BYTES)),
    ("etag", pa.binary()),
    ("last_modified", pa.binary()),
    ("sketch", pa.binary()),
    ("profile", pa.binary()),
    ("moved_to", pa.string()),
]

NODE_SCHEMAS: dict[int, pa.Schema] = {
    101: pa.schema(
        [*arrow_schema_of(PagesAdded), pa.field("epoch", pa.int64(), False)]
        + [pa.field(name, type_) for name, type_ in _NAMES]
    ),
    102: pa.schema(
        [
            pa.field("epoch", pa.int64(), False),
            pa.field("what", pa.uint8(), False),
            pa.field("number", pa.uint32(), False),
            pa.field("key", pa.string(), False),
        ]
    ),
    103: pa.schema(
        [*arrow_schema_of(Outcomes)] + [pa.field(name, type_) for name, type_ in _CONTENT]
    ),
}


def _record(schema_id: int, columns: list[Any]) -> Record:
    batch = pa.RecordBatch.from_arrays(columns, schema=NODE_SCHEMAS[schema_id])
    return Record(schema_id, packed(batch))


def record_of(happening: Happening) -> Record:
    """Return a happening as the log holds it."""
    match happening:
        case PagesNamed(added, epoch, url, fetch_url):
            return _record(101, [*to_arrow(added).columns, pa.array(epoch), url, fetch_url])
        case Named(epoch, what, number, key):
            return _record(102, [pa.array(epoch), pa.array(what), pa.array(number), key])
        case PagesReported():
            outcomes, *content = happening
            return _record(103, [*to_arrow(outcomes).columns, *content])
    return Record(*to_record(happening))


def happening_of(record: Record) -> Happening:
    """Return what a record of the log says happened."""
    schema = NODE_SCHEMAS.get(record.schema)
    if schema is None:
        return from_record(record.schema, record.data)
    batch = unpacked(record.data, schema)
    if record.schema == 101:
        added = from_arrow(batch, SCHEMA_ID[PagesAdded], check=False)
        assert isinstance(added, PagesAdded)
        epoch = batch.column("epoch").to_numpy()
        return PagesNamed(added, epoch, batch.column("url"), batch.column("fetch_url"))
    if record.schema == 102:
        epoch, what, number, key = batch.columns
        return Named(epoch.to_numpy(), what.to_numpy(), number.to_numpy(), key)
    outcomes = from_arrow(batch, SCHEMA_ID[Outcomes], check=False)
    assert isinstance(outcomes, Outcomes)
    return PagesReported(outcomes, *(batch.column(name) for name, _ in _CONTENT))
