"""Send what a plan needs to know of partitions to another process, as an Arrow IPC stream.

A stream has one row per partition, whose columns are lists.  The table of due times is not sent:
every process has the same one, and only the few numbers in which partitions differ go with them.
A stream of another format, or for another table, is refused.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.core.price.due_table import DueTable
from recrawl.corpus.plan.planned_partition import (
    PlannedBudget,
    PlannedHosts,
    PlannedPartition,
    PlannedTerms,
)

__all__ = ["decode_partitions", "encode_partitions"]

_FORMAT_KEY: Final = b"recrawl.plan"
_FORMAT: Final = b"1"
_PARTITIONS_MAX: Final = 4_096
_PAGES_MAX: Final = 1 << 20


def _list(of: pa.DataType) -> pa.ListType:
    return pa.list_(pa.field("item", of))


_SCHEMA: Final = pa.schema(
    [
        ("partition", pa.int64()),
        ("n_pages", pa.int64()),
        ("n_polls", pa.int64()),
        ("word", _list(pa.uint64())),
        ("n_represented", _list(pa.float64())),
        ("cost_code", _list(pa.uint16())),
        ("is_important", _list(pa.bool_())),
        ("kind", _list(pa.uint16())),
        ("interval_min", _list(pa.float64())),
        ("interval_max", _list(pa.float64())),
        ("group", _list(pa.uint32())),
        ("host_number", _list(pa.uint32())),
        ("host_pages", _list(pa.uint32())),
        ("host_delay_ms", _list(pa.uint32())),
        ("host_is_closed", _list(pa.bool_())),
        ("host_is_split", _list(pa.bool_())),
        ("host_name", _list(pa.string())),
        ("kind_number", _list(pa.int64())),
        ("kind_name", _list(pa.string())),
        ("pattern", _list(pa.string())),
        ("is_match", _list(pa.bool_())),  # all pages for the first pattern, then for the next
        ("learning_horizon", pa.float64()),
        ("log2_bonus", _list(pa.float64())),
        ("recall", _list(pa.float64())),
        ("precision", _list(pa.float64())),
        ("table_shape", _list(pa.int64())),
        ("budget_per_second", pa.float64()),
        ("budget_unit", pa.int64()),
        ("budget_period_seconds", pa.float64()),
        ("price_mode", pa.int64()),
        ("fixed_price", pa.float64()),
    ],
    metadata={_FORMAT_KEY: _FORMAT},
)


def encode_partitions(parts: Sequence[PlannedPartition]) -> bytes:
    """Return what a plan needs to know of partitions as bytes."""
    rows = [_row(part) for part in parts]
    columns = [_column(field, [row[field.name] for row in rows]) for field in _SCHEMA]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _SCHEMA) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=_SCHEMA))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _column(field: pa.Field, values: Sequence[Any]) -> pa.Array:
    if not pa.types.is_list(field.type):
        return pa.array(values, field.type)
    items = [pa.array(value, field.type.value_type) for value in values]
    ends = np.cumsum([0, *(len(one) for one in items)]).astype(np.int32)
    all_items = pa.concat_arrays(items) if items else pa.array([], field.type.value_type)
    return pa.ListArray.from_arrays(pa.array(ends), all_items, type=field.type)


def _row(part: PlannedPartition) -> dict[str, Any]:
    hosts, terms, budget = part.hosts, part.terms, part.budget
    return {
        "partition": part.partition,
        "n_pages": part.n_pages,
        "n_polls": part.n_polls,
        "word": part.word,
        "n_represented": part.n_represented,
        "cost_code": part.cost_code,
        "is_important": part.is_important,
        "kind": part.kind,
        "interval_min": np.ascontiguousarray(part.bounds[:, 0]),
        "interval_max": np.ascontiguousarray(part.bounds[:, 1]),
        "group": part.group,
        "host_number": hosts.number,
        "host_pages": hosts.n_pages,
        "host_delay_ms": hosts.delay_ms,
        "host_is_closed": hosts.is_closed,
        "host_is_split": hosts.is_split,
        "host_name": list(hosts.name),
        "kind_number": list(part.kinds),
        "kind_name": list(part.kinds.values()),
        "pattern": list(part.matches),
        "is_match": np.concatenate([np.zeros(0, np.bool_), *part.matches.values()]),
        "learning_horizon": terms.learning_horizon,
        "log2_bonus": terms.log2_bonus,
        "recall": terms.recall,
        "precision": terms.precision,
        "table_shape": list(terms.table.due.shape),
        "budget_per_second": budget.per_second,
        "budget_unit": budget.unit,
        "budget_period_seconds": budget.period_seconds,
        "price_mode": budget.price_mode,
        "fixed_price": budget.fixed_price,
    }


def decode_partitions(data: bytes, table: DueTable) -> list[PlannedPartition]:
    """Return what `encode_partitions` was given.

    Parameters
    ----------
    data
        Bytes of the stream.
    table
        Table of due times of this process.

    Raises
    ------
    ValueError
        If the stream is not valid, or of another version of recrawl.
    """
    try:
        with pa.ipc.open_stream(data) as reader:
            if (reader.schema.metadata or {}).get(_FORMAT_KEY) != _FORMAT:
                raise ValueError("the pages for a plan are of another version of recrawl")
            if not reader.schema.equals(_SCHEMA):
                raise ValueError("the pages for a plan have other columns")
            found = reader.read_all()
        found.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"the pages for a plan are not a valid stream: {error}") from error
    if found.num_rows > _PARTITIONS_MAX:
        raise ValueError(f"a plan has at most {_PARTITIONS_MAX} partitions")
    return [_partition(_Row(found, i), table) for i in range(found.num_rows)]


class _Row:
    """One row of a stream."""

    def __init__(self, table: pa.Table, row: int) -> None:
        self._table, self._row = table, row

    def value(self, name: str) -> Any:
        """Return a single value."""
        return self._table.column(name)[self._row].as_py()

    def array(self, name: str, n: int | None = None) -> NDArray[Any]:
        """Return a list of numbers; raise `ValueError` unless it has ``n``."""
        values = self._table.column(name)[self._row].values
        if values is None or values.null_count or (n is not None and len(values) != n):
            raise ValueError(f"the pages for a plan have a wrong number of values in {name}")
        found: NDArray[Any] = values.to_numpy(zero_copy_only=False)
        return found


def _partition(row: _Row, table: DueTable) -> PlannedPartition:
    word = row.array("word")
    n = word.size
    if n > _PAGES_MAX:
        raise ValueError(f"a partition of a plan has at most {_PAGES_MAX} pages, got {n}")
    number = row.array("host_number")
    n_hosts = number.size
    group = row.array("group", n)
    names = row.value("host_name")
    patterns = row.value("pattern")
    if len(names) != n_hosts or int(group.max(initial=0)) >= max(n_hosts, int(n == 0)):
        raise ValueError("the pages for a plan have hosts that are not sent")
    is_match = row.array("is_match", len(patterns) * n).reshape(len(patterns), n)
    return PlannedPartition(
        partition=row.value("partition"),
        n_pages=row.value("n_pages"),
        n_polls=row.value("n_polls"),
        word=word,
        n_represented=row.array("n_represented", n),
        cost_code=row.array("cost_code", n),
        is_important=row.array("is_important", n),
        kind=row.array("kind", n),
        bounds=np.stack([row.array("interval_min", n), row.array("interval_max", n)], axis=1),
        group=group,
        hosts=PlannedHosts(
            number,
            row.array("host_pages", n_hosts),
            row.array("host_delay_ms", n_hosts),
            row.array("host_is_closed", n_hosts),
            row.array("host_is_split", n_hosts),
            tuple(names),
        ),
        kinds=dict(zip(row.value("kind_number"), row.value("kind_name"), strict=True)),
        matches=dict(zip(patterns, is_match, strict=True)),
        terms=_terms(row, table),
        budget=PlannedBudget(
            row.value("budget_per_second"),
            row.value("budget_unit"),
            row.value("budget_period_seconds"),
            row.value("price_mode"),
            row.value("fixed_price"),
        ),
    )


def _terms(row: _Row, table: DueTable) -> PlannedTerms:
    if row.value("table_shape") != list(table.due.shape):
        raise ValueError("the pages for a plan are of a version with another table of due times")
    return PlannedTerms(
        table,
        row.value("learning_horizon"),
        row.array("log2_bonus", table.due.shape[0]),
        row.array("recall"),
        row.array("precision"),
    )
