"""The entries of a node's log: the events of the shard, and wider kinds of the node.

A shard knows pages by number.  The node adds URLs, names of groups, validators and digests to the
same record as the shard's columns, so that one record is one complete entry: after a crash there is
no page without its URL, and none without the data that its user gave with it.

Schema numbers below 100 belong to the shard.  A schema number never changes its meaning.

Several processes may read a log, and not all of them may have been upgraded.  So the records have a
version, and a process can be told to write only what an older version reads (`WrittenVersion`).  A
new schema number comes with a new version: it is listed in ``SCHEMAS_SINCE``, and ``OLDER_FORMS``
has the way in which older versions wrote the same entry, if there was one.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.errors import EventError
from recrawl.ledger import Record
from recrawl.node.few_reported import FewPagesReported, unpack_few
from recrawl.shard import Outcomes, PagesAdded
from recrawl.shard.events import (
    SCHEMA_ID,
    Event,
    Ordered,
    arrow_schema_of,
    from_arrow,
    from_record,
    to_arrow,
    to_record,
)
from recrawl.shard.wire import pack_batch, unpack_batch
from recrawl.store import ADDED_TEXT_BYTES_MAX, DIGEST_BYTES
from recrawl.store.content.differences import pack_difference, unpack_difference

__all__ = [
    "ADDED_SCHEMAS",
    "BASELINE_FLAG",
    "JUDGED_FLAG",
    "MEMORY_CHANGE_FLAG",
    "NODE_SCHEMAS",
    "OLDER_FORMS",
    "RECORDS_VERSION",
    "REPORTED_SCHEMAS",
    "REQUEST_DIGEST_BYTES_MAX",
    "REQUEST_KEY_BYTES_MAX",
    "SAME_CONTENT_FLAG",
    "SCHEMAS_SINCE",
    "SUCCESSOR_SCHEMAS",
    "TEMPLATE_FLAG",
    "ConsumersPlaced",
    "CorpusIdentified",
    "CurvePriorSet",
    "FirstRequestKey",
    "HandlesMoved",
    "LayoutReplaced",
    "LogEntry",
    "NamesNumbered",
    "PagesAddedWithUrls",
    "PagesReported",
    "RequestKey",
    "StateSampled",
    "TextsJudged",
    "UserDataSet",
    "WrittenVersion",
    "entry_of",
    "keyed_record",
    "record_of",
    "request_of",
    "without_key",
]


REQUEST_KEY_BYTES_MAX = 64
REQUEST_DIGEST_BYTES_MAX = 32


class RequestKey(NamedTuple):
    """A key by which a client recognises its own request, if it has to repeat it."""

    key: bytes
    """Idempotency key of the client, 1 to 64 bytes."""
    digest: bytes
    """Digest of the request, up to 32 bytes: another request with the same key is a mistake."""


class FirstRequestKey(RequestKey):
    """A key that its client has never sent before: no earlier attempt can have had an effect."""

    __slots__ = ()


class CorpusIdentified(NamedTuple):
    """The corpus and the partition whose log this is: the first record of every partition."""

    partition: NDArray[np.int64]
    n_partitions: NDArray[np.int64]
    generation: NDArray[np.int64]
    """Number of times that the division into partitions has changed."""
    corpus_id: pa.StringArray
    """Id of the corpus, 32 hexadecimal digits."""


class HandlesMoved(NamedTuple):
    """Handles of orders before and after the number of partitions was changed.

    Only in the first partition of a log that has ended, before a `LayoutReplaced`.
    """

    old: NDArray[np.int64]
    new: NDArray[np.int64]


class LayoutReplaced(NamedTuple):
    """The topic in which the corpus goes on, in the first partition of a log that has ended.

    One row.  From here on, the new topic is the log of the corpus.
    """

    generation: NDArray[np.int64]
    """Layout generation of the new partitions."""
    n_partitions: NDArray[np.int64]
    position: NDArray[np.int64]
    """Position from which on the log has `HandlesMoved`."""
    topic: pa.StringArray
    corpus_id: pa.StringArray
    """Id of the new partitions."""


class PagesAddedWithUrls(NamedTuple):
    """Pages that were added, with their URLs, and the epoch of the owner that numbered them."""

    added: PagesAdded
    epoch: NDArray[np.int64]
    url: pa.StringArray
    """Canonical URL of the page."""
    fetch_url: pa.StringArray
    """URL to request, null where it equals ``url``."""
    doc_id: pa.StringArray | None = None
    """Name that the user gives the page; null, or no column, where there is none."""
    metadata: pa.StringArray | None = None
    """JSON object of the user as text; null, or no column, where there is none."""
    key: pa.StringArray | None = None
    """Key that identifies the page together with its URL, in a corpus grouped by key."""


class UserDataSet(NamedTuple):
    """Data that a user set for pages; a null leaves a value, an empty text removes it."""

    page: NDArray[np.int64]
    doc_id: pa.StringArray
    metadata: pa.StringArray


class NamesNumbered(NamedTuple):
    """Numbers that the owner of the partition assigned to groups, kinds and sources."""

    epoch: NDArray[np.int64]
    what: NDArray[np.uint8]
    number: NDArray[np.uint32]
    key: pa.StringArray


class PagesReported(NamedTuple):
    """Outcomes of fetches, with the values that the store keeps for the next fetches."""

    outcomes: Outcomes
    digest: pa.FixedSizeBinaryArray
    """Digest of the content, null if not known."""
    etag: pa.BinaryArray
    last_modified: pa.BinaryArray
    """Header as the server sent it."""
    sketch: pa.BinaryArray
    profile: pa.BinaryArray
    moved_to: pa.StringArray
    texts: "TextsJudged | None" = None
    """What the texts of the outcomes showed; None if none of them has a text."""


class CurvePriorSet(NamedTuple):
    """What the pages of the partition have in common in how their content is replaced.

    One row.  The owner of the partition learns it from a sample of pages, and fits the divergence
    curves of single pages with it.
    """

    epoch: NDArray[np.int64]
    ratio_median: NDArray[np.float64]
    """Median of divergence rate / change rate."""
    log_ratio_sd: NDArray[np.float64]
    """Standard deviation of the logarithm of that ratio."""
    ceiling_median: NDArray[np.float64]
    """Median divergence after a long time, 0 to 1."""
    logit_ceiling_sd: NDArray[np.float64]
    """Standard deviation of log(ceiling / (1 - ceiling))."""
    mean_divergence: NDArray[np.float64]
    """Mean over pages of the divergence that a changed poll finds."""
    n_polls: NDArray[np.int64]
    """Number of polls that the shard had counted."""


class ConsumersPlaced(NamedTuple):
    """Places of consumers in the change feed of the partition, or their removal."""

    epoch: NDArray[np.int64]
    name: pa.StringArray
    """Name of the consumer."""
    place: pa.BinaryArray
    """Its place, as `recrawl.corpus.feed.logged_consumers` encodes it; null to remove it."""


class StateSampled(NamedTuple):
    """The state of the partition at one moment, for series over time; one row.

    The owner of the partition logs it, at most once a minute.
    """

    epoch: NDArray[np.int64]
    at_ms: NDArray[np.int64]
    """Time of the sample, in milliseconds since 1970."""
    tables: pa.BinaryArray
    """Its figures, as `recrawl.node.sampling.encoding` encodes them."""


class TextsJudged(NamedTuple):
    """What the texts of outcomes showed, and what to remember of them."""

    memory: pa.BinaryArray
    """New memory of the page, or how it has changed; null where it has not."""
    host_update: pa.BinaryArray
    """Update of the memory of the page's group, null where there is none."""
    passages: pa.BinaryArray
    """Passages kept, added and removed, for the change feed; null where nothing has changed."""
    wrong_answer: NDArray[np.uint8]
    """Kind of wrong answer, 0 where the answer was the page."""
    flags: NDArray[np.uint8]
    """`JUDGED_FLAG` and others; 0 where an outcome has no text."""


JUDGED_FLAG = 1
"""The outcome has a text, which was judged."""
BASELINE_FLAG = 2
"""The text could not be compared with the one before, so no change was reported."""
TEMPLATE_FLAG = 4
"""A part changed that most pages of the host share."""
SAME_CONTENT_FLAG = 8
"""Digest and sketch are those of the fetch before, so the record has neither."""
MEMORY_CHANGE_FLAG = 16
"""The memory is written as its difference from the one before."""

LogEntry: TypeAlias = (
    Event
    | CorpusIdentified
    | PagesAddedWithUrls
    | UserDataSet
    | NamesNumbered
    | PagesReported
    | FewPagesReported
    | CurvePriorSet
    | ConsumersPlaced
    | StateSampled
    | HandlesMoved
    | LayoutReplaced
)

_NAMES = [("url", pa.string()), ("fetch_url", pa.string())]
_USER_DATA = [("doc_id", pa.string()), ("metadata", pa.string())]
_KEY = [("key", pa.string())]
_CONTENT = [
    ("digest", pa.binary(DIGEST_BYTES)),
    ("etag", pa.binary()),
    ("last_modified", pa.binary()),
    ("sketch", pa.binary()),
    ("profile", pa.binary()),
    ("moved_to", pa.string()),
]
_TEXTS = [
    ("memory", pa.binary()),
    ("host_update", pa.binary()),
    ("passages", pa.binary()),
    ("wrong_answer", pa.uint8()),
    ("flags", pa.uint8()),
]

# Schema numbers on disk.
_PAGES_ADDED_WITH_URLS = 101
_NAMES_NUMBERED = 102
_PAGES_REPORTED = 103
_CORPUS_IDENTIFIED = 110
_KEYED = 111
_PAGES_ADDED_WITH_USER_DATA = 120
_USER_DATA_SET = 121
_CURVE_PRIOR_SET = 135
_PAGES_REPORTED_WITH_TEXTS = 130
_PAGES_REPORTED_BRIEFLY = 136
_FEW_PAGES_REPORTED = 137
_HANDLES_MOVED = 160
_LAYOUT_REPLACED = 161
_CONSUMERS_PLACED = 170
_STATE_SAMPLED = 171
_STORED_ONLY: Final[dict[type, int]] = {
    CurvePriorSet: _CURVE_PRIOR_SET,
    ConsumersPlaced: _CONSUMERS_PLACED,
    StateSampled: _STATE_SAMPLED,
}

REPORTED_SCHEMAS = frozenset(
    {
        _PAGES_REPORTED,
        _PAGES_REPORTED_WITH_TEXTS,
        _PAGES_REPORTED_BRIEFLY,
        _FEW_PAGES_REPORTED,
    }
)
"""Schema numbers of `PagesReported`."""
SUCCESSOR_SCHEMAS = frozenset({_HANDLES_MOVED, _LAYOUT_REPLACED})
"""Schema numbers of `HandlesMoved` and `LayoutReplaced`."""
ADDED_SCHEMAS = frozenset({_PAGES_ADDED_WITH_URLS, _PAGES_ADDED_WITH_USER_DATA})
"""Schema numbers of `PagesAddedWithUrls`."""

_REPORTED_WITH_TEXTS = pa.schema(
    [*arrow_schema_of(Outcomes)] + [pa.field(name, type_) for name, type_ in [*_CONTENT, *_TEXTS]]
)

NODE_SCHEMAS: dict[int, pa.Schema] = {
    _PAGES_ADDED_WITH_URLS: pa.schema(
        [*arrow_schema_of(PagesAdded), pa.field("epoch", pa.int64(), False)]
        + [pa.field(name, type_) for name, type_ in _NAMES]
    ),
    _PAGES_ADDED_WITH_USER_DATA: pa.schema(
        [*arrow_schema_of(PagesAdded), pa.field("epoch", pa.int64(), False)]
        + [pa.field(name, type_) for name, type_ in [*_NAMES, *_USER_DATA, *_KEY]]
    ),
    _USER_DATA_SET: pa.schema(
        [pa.field("page", pa.int64(), False)]
        + [pa.field(name, type_) for name, type_ in _USER_DATA]
    ),
    _NAMES_NUMBERED: pa.schema(
        [
            pa.field("epoch", pa.int64(), False),
            pa.field("what", pa.uint8(), False),
            pa.field("number", pa.uint32(), False),
            pa.field("key", pa.string(), False),
        ]
    ),
    _PAGES_REPORTED: pa.schema(
        [*arrow_schema_of(Outcomes)] + [pa.field(name, type_) for name, type_ in _CONTENT]
    ),
    _CURVE_PRIOR_SET: pa.schema(
        [pa.field("epoch", pa.int64(), False)]
        + [pa.field(name, pa.float64(), False) for name in CurvePriorSet._fields[1:-1]]
        + [pa.field("n_polls", pa.int64(), False)]
    ),
    _PAGES_REPORTED_WITH_TEXTS: _REPORTED_WITH_TEXTS,
    _PAGES_REPORTED_BRIEFLY: _REPORTED_WITH_TEXTS,
    _KEYED: pa.schema(
        [
            pa.field("key", pa.binary(), False),
            pa.field("digest", pa.binary(), False),
            pa.field("schema", pa.uint16(), False),
            pa.field("data", pa.binary(), False),
        ]
    ),
    _HANDLES_MOVED: pa.schema(
        [pa.field("old", pa.int64(), False), pa.field("new", pa.int64(), False)]
    ),
    _LAYOUT_REPLACED: pa.schema(
        [
            pa.field("generation", pa.int64(), False),
            pa.field("n_partitions", pa.int64(), False),
            pa.field("position", pa.int64(), False),
            pa.field("topic", pa.string(), False),
            pa.field("corpus_id", pa.string(), False),
        ]
    ),
    _CONSUMERS_PLACED: pa.schema(
        [
            pa.field("epoch", pa.int64(), False),
            pa.field("name", pa.string(), False),
            pa.field("place", pa.binary()),
        ]
    ),
    _STATE_SAMPLED: pa.schema(
        [
            pa.field("epoch", pa.int64(), False),
            pa.field("at_ms", pa.int64(), False),
            pa.field("tables", pa.binary(), False),
        ]
    ),
    _CORPUS_IDENTIFIED: pa.schema(
        [
            pa.field("partition", pa.int64(), False),
            pa.field("n_partitions", pa.int64(), False),
            pa.field("generation", pa.int64(), False),
            pa.field("corpus_id", pa.string(), False),
        ]
    ),
}


def _record(schema_id: int, columns: list[Any]) -> Record:
    batch = pa.RecordBatch.from_arrays(columns, schema=NODE_SCHEMAS[schema_id])
    return Record(schema_id, pack_batch(batch))


# Three lists of hashes and a length for each text, beside the texts themselves.
_PASSAGES_BYTES_MAX = ADDED_TEXT_BYTES_MAX + (1 << 21)


def _shorten(passages: pa.BinaryArray, memory: pa.BinaryArray) -> pa.BinaryArray:
    """Return passages as differences from the memories of their pages, which have most hashes."""
    rows = zip(passages.to_pylist(), memory.to_pylist(), strict=True)
    return pa.array(
        [None if one is None else pack_difference(one, page or b"") for one, page in rows],
        pa.binary(),
    )


def _lengthen(passages: pa.BinaryArray, memory: pa.BinaryArray) -> pa.BinaryArray:
    """Return the passages that `_shorten` has written as differences."""
    found: list[bytes | None] = []
    for data, page in zip(passages.to_pylist(), memory.to_pylist(), strict=True):
        one = data
        if data is not None:
            one = unpack_difference(data, page or b"", n_bytes_max=_PASSAGES_BYTES_MAX)
            if one is None:
                raise EventError("the passages of a change cannot be read from their record")
        found.append(one)
    return pa.array(found, pa.binary())


def _in_arrow(entry: tuple[Any, ...]) -> list[pa.Array]:
    """Return the columns of an entry as Arrow arrays."""
    return [column if isinstance(column, pa.Array) else pa.array(column) for column in entry]


RECORDS_VERSION: Final = 1
"""Newest version of records that this release reads and writes."""
SCHEMAS_SINCE: Final[dict[int, int]] = {}
"""Version of records that a schema number came with; those that are not listed came with 1."""
OLDER_FORMS: Final[dict[int, Callable[[LogEntry], Record]]] = {}
"""Functions that write an entry as the version before its schema number did."""


class WrittenVersion:
    """The version of the records that a process appends, the same for all partitions.

    Parameters
    ----------
    number
        The version; the newest one by default.
    """

    __slots__ = ("number",)

    def __init__(self, number: int = RECORDS_VERSION) -> None:
        self.number = number


def record_of(entry: LogEntry, version: int = RECORDS_VERSION) -> Record:
    """Return the record of a log entry.

    Parameters
    ----------
    entry
        The entry.
    version
        Newest version of records that every reader of the log knows.

    Raises
    ------
    EventError
        If that version has no such entry.
    """
    record = _newest_record_of(entry)
    while SCHEMAS_SINCE.get(record.schema, 1) > version:
        write = OLDER_FORMS.get(record.schema)
        if write is None:
            raise EventError(
                f"{type(entry).__name__} needs version {SCHEMAS_SINCE[record.schema]} of the log's "
                f"records, and a worker reads only version {version}; upgrade all workers first"
            )
        record = write(entry)
    return record


def _newest_record_of(entry: LogEntry) -> Record:
    if isinstance(entry, FewPagesReported):  # before the others, like orders: there are most
        return Record(_FEW_PAGES_REPORTED, entry.data)
    if isinstance(entry, Ordered):
        return Record(*to_record(entry))
    match entry:
        case CorpusIdentified():
            return _record(_CORPUS_IDENTIFIED, _in_arrow(entry))
        case PagesAddedWithUrls():
            added, epoch, url, fetch_url, *own = entry
            columns = [*to_arrow(added).columns, pa.array(epoch), url, fetch_url]
            if all(column is None or column.null_count == len(column) for column in own):
                return _record(_PAGES_ADDED_WITH_URLS, columns)
            no_rows = pa.nulls(len(url), pa.string())
            columns += [no_rows if column is None else column for column in own]
            return _record(_PAGES_ADDED_WITH_USER_DATA, columns)
        case UserDataSet(page, doc_id, metadata):
            return _record(_USER_DATA_SET, [pa.array(page), doc_id, metadata])
        case NamesNumbered(epoch, what, number, key):
            columns = [pa.array(epoch), pa.array(what), pa.array(number), key]
            return _record(_NAMES_NUMBERED, columns)
        case HandlesMoved() | LayoutReplaced():
            is_last = isinstance(entry, LayoutReplaced)
            return _record(_LAYOUT_REPLACED if is_last else _HANDLES_MOVED, _in_arrow(entry))
        case CurvePriorSet() | ConsumersPlaced() | StateSampled():
            return _record(_STORED_ONLY[type(entry)], _in_arrow(entry))
        case PagesReported():
            outcomes, *content, texts = entry
            columns = [*to_arrow(outcomes).columns, *content]
            if texts is None:
                return _record(_PAGES_REPORTED, columns)
            memory, host_update, passages, wrong_answer, flags = texts
            columns += [memory, host_update, _shorten(passages, memory)]
            columns += [pa.array(wrong_answer), pa.array(flags)]
            return _record(_PAGES_REPORTED_BRIEFLY, columns)
    return Record(*to_record(entry))


def keyed_record(record: Record, request: RequestKey) -> Record:
    """Return a record that wraps another one, with the key of the request that it completes."""
    key, digest = request
    if not 1 <= len(key) <= REQUEST_KEY_BYTES_MAX:
        raise ValueError(f"key must have 1 to {REQUEST_KEY_BYTES_MAX} bytes, got {len(key)}")
    if len(digest) > REQUEST_DIGEST_BYTES_MAX:
        raise ValueError(
            f"digest must have at most {REQUEST_DIGEST_BYTES_MAX} bytes, got {len(digest)}"
        )
    columns = [
        pa.array([value], field.type)
        for value, field in zip((key, digest, *record), NODE_SCHEMAS[_KEYED], strict=True)
    ]
    return _record(_KEYED, columns)


def request_of(record: Record) -> RequestKey | None:
    """Return the key of the request that a record completes; None if it has none."""
    if record.schema != _KEYED:
        return None
    key, digest, _, _ = unpack_batch(record.data, NODE_SCHEMAS[_KEYED]).columns
    return RequestKey(key[0].as_py(), digest[0].as_py())


def without_key(record: Record) -> Record:
    """Return the record that a record with a key wraps; any other record itself."""
    if record.schema != _KEYED:
        return record
    _, _, schema, data = unpack_batch(record.data, NODE_SCHEMAS[_KEYED]).columns
    return Record(schema[0].as_py(), data[0].as_py())


def _in_columns(few: FewPagesReported) -> PagesReported:
    """Return an entry with columns in place of rows."""
    try:
        columns = [
            pa.array([content[i] for content in few.contents], pa.binary()).cast(type_)
            for i, (_, type_) in enumerate(_CONTENT)
        ]
    except pa.ArrowException as error:
        raise EventError(f"a value in a record of outcomes cannot be read: {error}") from error
    return PagesReported(few.outcomes, *columns)


def entry_of(record: Record) -> LogEntry:
    """Return the log entry in a record, also in one that wraps it with a key."""
    record = without_key(record)
    if record.schema == _FEW_PAGES_REPORTED:
        return _in_columns(unpack_few(record.data))
    schema = NODE_SCHEMAS.get(record.schema)
    if schema is None:
        return from_record(record.schema, record.data)
    batch = unpack_batch(record.data, schema)
    if record.schema in (_PAGES_ADDED_WITH_URLS, _PAGES_ADDED_WITH_USER_DATA):
        added = from_arrow(batch, SCHEMA_ID[PagesAdded], check=False)
        assert isinstance(added, PagesAdded)
        own = [*_NAMES, *_USER_DATA, *_KEY]
        texts = [batch.column(name) for name, _ in own if name in schema.names]
        entry = PagesAddedWithUrls(added, batch.column("epoch").to_numpy(), *texts)
        # All pages of a corpus have keys, or none has.
        has_keys = entry.key is not None and entry.key.null_count < len(entry.key)
        return entry if has_keys else entry._replace(key=None)
    if record.schema == _USER_DATA_SET:
        page, doc_id, metadata = batch.columns
        return UserDataSet(page.to_numpy(), doc_id, metadata)
    if record.schema == _CORPUS_IDENTIFIED:
        *numbers, corpus_id = batch.columns
        partition, n_partitions, generation = (column.to_numpy() for column in numbers)
        return CorpusIdentified(partition, n_partitions, generation, corpus_id)
    if record.schema in (_HANDLES_MOVED, _CURVE_PRIOR_SET):
        numbers_only = HandlesMoved if record.schema == _HANDLES_MOVED else CurvePriorSet
        return numbers_only(*(column.to_numpy() for column in batch.columns))
    if record.schema == _LAYOUT_REPLACED:
        *numbers, topic, corpus_id = batch.columns
        generation, n_partitions, position = (column.to_numpy() for column in numbers)
        return LayoutReplaced(generation, n_partitions, position, topic, corpus_id)
    if record.schema == _NAMES_NUMBERED:
        epoch, what, number, key = batch.columns
        return NamesNumbered(epoch.to_numpy(), what.to_numpy(), number.to_numpy(), key)
    if record.schema == _STATE_SAMPLED:
        epoch, at_ms, tables = batch.columns
        return StateSampled(epoch.to_numpy(), at_ms.to_numpy(), tables)
    if record.schema == _CONSUMERS_PLACED:
        epoch, name, place = batch.columns
        return ConsumersPlaced(epoch.to_numpy(), name, place)
    outcomes = from_arrow(batch, SCHEMA_ID[Outcomes], check=False)
    assert isinstance(outcomes, Outcomes)
    reported = PagesReported(outcomes, *(batch.column(name) for name, _ in _CONTENT))
    if record.schema == _PAGES_REPORTED:
        return reported
    memory, host_update, passages, wrong_answer, flags = (batch.column(name) for name, _ in _TEXTS)
    if record.schema == _PAGES_REPORTED_BRIEFLY:
        passages = _lengthen(passages, memory)
    return reported._replace(
        texts=TextsJudged(memory, host_update, passages, wrong_answer.to_numpy(), flags.to_numpy())
    )
