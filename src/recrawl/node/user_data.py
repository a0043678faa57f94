"""Check the data that users give with pages: a doc_id and metadata, or say why not.

A row with invalid data is refused; the other rows of its batch are not affected.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recrawl.node.node import Node
from recrawl.node.records import LogEntry, UserDataSet
from recrawl.node.routing import KEY_RULE, batch_ranges, utf8_strings
from recrawl.store import DOC_ID_BYTES_MAX, METADATA_BYTES_MAX
from recrawl.urls import UrlProblem, canonical, have_control_characters

__all__ = [
    "METADATA_DEPTH_MAX",
    "UserColumns",
    "metadata_text",
    "refused_rows",
    "set_user_data",
    "user_columns",
    "without_refused",
]

METADATA_DEPTH_MAX = 32
"""Limit of objects and lists inside each other in metadata."""

_WRONG_DOC_ID = f"the doc_id is not text of at most {DOC_ID_BYTES_MAX} bytes"
_WRONG_METADATA = (
    f"the metadata is not a JSON object of at most {METADATA_BYTES_MAX:,} bytes "
    f"and {METADATA_DEPTH_MAX} levels"
)

_WRONG_URL = {
    UrlProblem.NOT_TEXT: "not text",
    UrlProblem.NOT_A_URL: "not a URL",
    UrlProblem.SCHEME: "neither http nor https",
    UrlProblem.TOO_LONG: "too long",
    UrlProblem.CREDENTIALS: "with a user or a password",
}


class UserColumns(NamedTuple):
    """The user's own data, one row per URL; null where nothing is given."""

    doc_id: pa.StringArray
    metadata: pa.StringArray
    """JSON objects as compact text; an empty text stands for an empty object."""
    problems: Mapping[int, str]
    """Reason why a row is refused, by row."""

    @property
    def n_bytes(self) -> NDArray[np.int64]:
        """Size of each row in bytes."""
        n_bytes = np.zeros(len(self.doc_id), np.int64)
        for column in (self.doc_id, self.metadata):
            n_bytes += pc.binary_length(column).fill_null(0).to_numpy()
        return n_bytes

    @property
    def is_given(self) -> NDArray[np.bool_]:
        """Which rows have a doc_id or metadata."""
        is_given: NDArray[np.bool_] = pc.or_(
            self.doc_id.is_valid(), self.metadata.is_valid()
        ).to_numpy(zero_copy_only=False)
        return is_given

    def take(self, rows: NDArray[np.int64]) -> "UserColumns":
        """Return the given rows, without their problems."""
        index = pa.array(rows)
        return UserColumns(self.doc_id.take(index), self.metadata.take(index), {})

    def merge(self, new: "UserColumns | None") -> "UserColumns":
        """Return these rows with the values of ``new`` where it has any."""
        if new is None:
            return self
        doc_id = pc.coalesce(new.doc_id, self.doc_id)
        return UserColumns(doc_id, pc.coalesce(new.metadata, self.metadata), {})


def _depth_fits(value: object, levels: int = METADATA_DEPTH_MAX) -> bool:
    if not isinstance(value, (dict, list, tuple)):
        return True
    if levels == 0:
        return False
    inner: Iterable[object] = value.values() if isinstance(value, dict) else value
    return all(_depth_fits(one, levels - 1) for one in inner)


def metadata_text(value: object) -> str | None:
    """Return metadata as compact JSON with sorted keys; None if it is not valid.

    Parameters
    ----------
    value
        Mapping with texts as keys, or a JSON object as text or bytes.

    Examples
    --------
    >>> metadata_text({"team": "docs", "index": 7})
    '{"index":7,"team":"docs"}'
    >>> metadata_text('["not an object"]') is None
    True
    """
    try:
        if isinstance(value, (str, bytes)):
            # Much longer text may be valid once its white space is removed; text beyond that is
            # refused before it is parsed.
            if len(value) > 8 * METADATA_BYTES_MAX:
                return None
            value = json.loads(value)
        elif isinstance(value, Mapping) and not isinstance(value, dict):
            value = dict(value)
        if not isinstance(value, dict) or not _depth_fits(value):
            return None
        if not all(isinstance(name, str) for name in value):
            return None
        if not value:
            return ""
        text = json.dumps(
            value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True
        )
        return text if len(text.encode("utf-8")) <= METADATA_BYTES_MAX else None
    except (ValueError, TypeError, RecursionError):
        return None


def _doc_id_text(value: object) -> str | None:
    if not isinstance(value, str) or len(value) > DOC_ID_BYTES_MAX:
        return None
    try:
        return value if len(value.encode("utf-8")) <= DOC_ID_BYTES_MAX else None
    except UnicodeEncodeError:
        return None


def _rows_of(name: str, values: Any, n_rows: int) -> list[Any]:
    """Return one value per row; a single text or mapping applies to all rows."""
    if values is None:
        return [None] * n_rows
    if isinstance(values, (str, bytes, Mapping)):
        return [values] * n_rows
    is_arrow = isinstance(values, (pa.Array, pa.ChunkedArray))
    rows = _text_rows(values) if is_arrow else list(values)
    if len(rows) != n_rows:
        raise ValueError(f"{name} must be one value or {n_rows}, got {len(rows)}")
    return rows


def _text_rows(values: pa.Array | pa.ChunkedArray) -> list[Any]:
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
        texts = [text for chunk in chunks for text in utf8_strings(chunk).to_pylist()]
        is_valid = values.is_valid().to_pylist()
        # Bytes that are not UTF-8 are wrong; they must not pass for a missing value.
        return [
            b"\xff" if ok and text is None else text
            for text, ok in zip(texts, is_valid, strict=True)
        ]
    rows: list[Any] = values.to_pylist()
    return rows


def user_columns(n_rows: int, *, doc_id: Any = None, metadata: Any = None) -> UserColumns | None:
    """Return the user's data of each row as columns, checked; None if nothing is given.

    Parameters
    ----------
    n_rows
        Number of URLs.
    doc_id
        A text for each URL, or one for all; None for no text.
    metadata
        A mapping or a JSON object as text for each URL, or one for all; None for no metadata.

    Raises
    ------
    ValueError
        If there are more or fewer values than rows.
    """
    if doc_id is None and metadata is None:
        return None
    problems: dict[int, str] = {}
    doc_ids = _rows_of("doc_id", doc_id, n_rows)
    objects = _rows_of("metadata", metadata, n_rows)
    texts: list[str | None] = [None] * n_rows
    for row, value in enumerate(objects):
        if value is not None:
            texts[row] = metadata_text(value)
            if texts[row] is None:
                problems[row] = _WRONG_METADATA
    for row, value in enumerate(doc_ids):
        if value is not None:
            doc_ids[row] = _doc_id_text(value)
            if doc_ids[row] is None:
                problems[row] = _WRONG_DOC_ID
    return UserColumns(pa.array(doc_ids, pa.string()), pa.array(texts, pa.string()), problems)


def without_refused(
    urls: pa.Array | pa.ChunkedArray, own: UserColumns | None
) -> pa.Array | pa.ChunkedArray:
    """Return URLs, null where the user's data is refused, so that nothing is done for the row."""
    if own is None or not own.problems:
        return urls
    is_refused = np.zeros(len(urls), np.bool_)
    is_refused[list(own.problems)] = True
    return pc.if_else(pa.array(is_refused), pa.scalar(None, urls.type), urls)


def refused_rows(
    urls: pa.Array | pa.ChunkedArray, own: UserColumns | None, key: pa.StringArray | None = None
) -> dict[int, str]:
    """Return the rows that cannot be added, and the reason of each.

    Parameters
    ----------
    urls
        URLs as the user gives them.
    own
        The user's own data of each row, if any.
    key
        Key of each row, null where it is not valid; None if the corpus has no keys.
    """
    found: dict[int, str] = {} if own is None else dict(own.problems)
    if key is not None:
        for row in np.flatnonzero(key.is_null()).tolist():
            found[row] = f"no key, or not {KEY_RULE}"
    first = 0
    for chunk in urls.chunks if isinstance(urls, pa.ChunkedArray) else [urls]:
        texts = utf8_strings(chunk)
        problem = canonical(texts).problem
        has_control = have_control_characters(texts).to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(has_control).tolist():
            found[first + row] = "with a control character"
        for row in problem.nonzero()[0].tolist():
            found[first + row] = _WRONG_URL[UrlProblem(int(problem[row]))]
        first += len(chunk)
    return dict(sorted(found.items()))


def set_user_data(node: Node, page: NDArray[np.int64], columns: UserColumns) -> int:
    """Set the user's data of pages where it differs; return how many pages changed.

    Rows are applied in their order, so that the last value of a page counts.

    Parameters
    ----------
    node
        Node of the pages.
    page
        Page of each row; rows with a negative number are ignored.
    columns
        Data of each row; a null leaves what is set.
    """
    given = np.flatnonzero(columns.is_given & (page >= 0))
    if given.size == 0:
        return 0
    page, columns = page[given], columns.take(given)
    wanted: dict[int, list[str | None]] = {}
    rows = zip(columns.doc_id.to_pylist(), columns.metadata.to_pylist(), strict=True)
    for number, (doc_id, metadata) in zip(page.tolist(), rows, strict=True):
        values = wanted.setdefault(number, [None, None])
        values[0] = values[0] if doc_id is None else doc_id
        values[1] = values[1] if metadata is None else metadata
    pages = np.fromiter(wanted, np.int64, len(wanted))
    with node.lock:
        stored = zip(*node.store.user_data_of(pages), strict=True)
        changed = [
            i
            for i, (new, old) in enumerate(zip(wanted.values(), stored, strict=True))
            if any(a is not None and a != (b or "") for a, b in zip(new, old, strict=True))
        ]
        new_values = list(wanted.values())
        doc_ids, texts = ([new_values[i][k] for i in changed] for k in (0, 1))
        new = UserColumns(pa.array(doc_ids, pa.string()), pa.array(texts, pa.string()), {})
        entries: list[LogEntry] = [
            UserDataSet(
                pages[changed[first:end]],
                new.doc_id.slice(first, end - first),
                new.metadata.slice(first, end - first),
            )
            for first, end in batch_ranges(new.n_bytes)
        ]
        return sum(int(np.count_nonzero(applied.valid)) for applied in node.submit(entries))
