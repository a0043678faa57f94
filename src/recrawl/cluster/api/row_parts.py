"""Take parts of the rows of a call, and put their results together again."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.cluster.api.split_calls import SplitResult
from recrawl.corpus import CountedRows, LeasedUrls, Outcome, RowStatus
from recrawl.errors import PartitionAway, ServiceUnavailable
from recrawl.messages.enums import Why
from recrawl.messages.leases import WHYS
from recrawl.node.routing import Urls, as_array

__all__ = [
    "Columns",
    "Rows",
    "check_no_key",
    "check_none_away",
    "count_rows",
    "elsewhere_rows",
    "names_of_outcomes",
    "one_array",
    "only_result",
    "plain_list",
    "status_of_rows",
    "take_outcomes",
    "take_rows",
]

Rows: TypeAlias = NDArray[np.int64]
_AWAY = WHYS.index(Why.UNAVAILABLE)


class Columns:
    """Values of rows, of which parts are taken.

    Parameters
    ----------
    n_rows
        Number of rows.
    **values
        Value for all rows, or one per row; None for none.
    """

    def __init__(self, n_rows: int, **values: Any) -> None:
        self._n_rows = n_rows
        self._values = {name: one for name, one in values.items() if one is not None}

    def take(self, rows: Rows) -> dict[str, Any]:
        """Return the values of some rows."""
        if rows.size == self._n_rows:
            return self._values
        return {name: self._take_one(one, rows) for name, one in self._values.items()}

    def _take_one(self, values: Any, rows: Rows) -> Any:
        if isinstance(values, pa.ChunkedArray | pa.Array):
            return values.take(pa.array(rows))
        if isinstance(values, np.ndarray) and values.ndim == 1:
            return values[rows]
        if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__len__"):
            return values
        return [values[row] for row in rows.tolist()]


def one_array(urls: Urls) -> pa.Array:
    """Return URLs as one Arrow array."""
    array = as_array(urls)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def take_rows(urls: pa.Array, rows: Rows) -> pa.Array:
    """Return the URLs of some rows."""
    return urls if rows.size == len(urls) else urls.take(pa.array(rows))


def take_outcomes(outcomes: "list[Outcome] | pa.Table", rows: Rows) -> Any:
    """Return some of the outcomes."""
    if rows.size == len(outcomes):
        return outcomes
    if isinstance(outcomes, list):
        return [outcomes[row] for row in rows.tolist()]
    return outcomes.take(pa.array(rows))


def names_of_outcomes(outcomes: "list[Outcome] | pa.Table", rows: Rows) -> tuple[pa.Array, Any]:
    """Return the URLs of outcomes, and their keys."""
    if isinstance(outcomes, list):
        some = [outcomes[row] for row in rows.tolist()]
        return as_array([one.url for one in some]), [one.key for one in some]
    columns = []
    for name in ("url", "key"):
        if name not in outcomes.schema.names:
            columns.append(pa.nulls(rows.size, pa.string()))
            continue
        column = outcomes.column(name).take(pa.array(rows)).cast(pa.string())
        columns.append(column.combine_chunks())
    return columns[0], columns[1]


def plain_list(values: Any) -> list[Any]:
    """Return a column as a list."""
    is_arrow = isinstance(values, pa.Array | pa.ChunkedArray)
    return values.to_pylist() if is_arrow else list(values)


def status_of_rows(found: SplitResult[Any], n_rows: int) -> NDArray[np.uint8]:
    """Return the status of each row; that of rows without an owner is UNAVAILABLE."""
    status = np.full(n_rows, RowStatus.UNAVAILABLE, np.uint8)
    for rows, part in found.parts:
        status[rows] = part.rows
    status[status == RowStatus.ELSEWHERE] = RowStatus.UNAVAILABLE
    return status


def elsewhere_rows(found: SplitResult[Any]) -> Rows:
    """Return the rows with pages of split hosts that home partitions say are elsewhere."""
    rows = [np.zeros(0, np.int64)]
    for own, part in found.parts:
        if isinstance(part, LeasedUrls):
            is_elsewhere = (part.why == _AWAY) & (part.seconds == 0)
        else:
            is_elsewhere = part.rows == RowStatus.ELSEWHERE
        rows.append(own[is_elsewhere])
    return np.sort(np.concatenate(rows))


def count_rows(found: SplitResult[Any], n_rows: int) -> CountedRows:
    """Return the number of rows that counted, with the status of each."""
    return CountedRows(
        sum(int(part) for _, part in found.parts), rows=status_of_rows(found, n_rows)
    )


def check_none_away(n_pages: int, away: Sequence[int]) -> None:
    """Raise if some partitions were away when all pages of a pattern were changed.

    Parameters
    ----------
    n_pages
        Number of pages that were changed.
    away
        Numbers of the partitions that were away.
    """
    if away:
        some = ", ".join(map(str, away[:20]))
        raise ServiceUnavailable(
            f"{n_pages:,} pages were changed, but the partitions {some} cannot be reached now; "
            "send the request again"
        )


def check_no_key(key: Any) -> None:
    """Raise if a key is given beside a pattern."""
    if key is not None:
        raise ValueError("key goes with urls; a pattern applies to the pages of all keys")


def only_result(found: SplitResult[Any], partition: Rows) -> Any:
    """Return the result of a call for one partition; raise if it is away."""
    if not found.parts:
        raise PartitionAway(int(partition[0]))
    return found.parts[0][1]
