"""What fetchers bring back, as columns: judged against what is kept of each page, and logged."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recrawl.node.clock import NodeTime
from recrawl.node.node import Node
from recrawl.node.orders import OUTCOME_FIELDS, Outcome
from recrawl.node.records import Happening, PagesReported
from recrawl.node.routing import none_if_broken, readable
from recrawl.node.verdicts import digest_of, http_date_ms, is_success, verdicts
from recrawl.shard import Applied, Outcomes, Verdict, event_of
from recrawl.store import (
    DIGEST_BYTES,
    ETAG_BYTES_MAX,
    LAST_MODIFIED_BYTES_MAX,
    MOVED_TO_BYTES_MAX,
    SKETCH_BYTES_MAX,
)

__all__ = ["Answers", "answers_of", "report_answers"]

_NOT_SAID = -1


class Answers(NamedTuple):
    """Outcomes as columns; see `recrawl.node.orders.Outcome`."""

    handle: NDArray[np.int64]
    url: pa.StringArray
    status: NDArray[np.int64]
    changed: NDArray[np.int8]
    """-1 where the digest is to tell."""
    digest: pa.FixedSizeBinaryArray
    etag: pa.BinaryArray
    last_modified: pa.BinaryArray
    fetched_at_ms: NDArray[np.int64]
    retry_after_seconds: NDArray[np.float32]
    moved_to: pa.StringArray
    disallowed: NDArray[np.bool_]
    divergence: NDArray[np.float32]
    sketch: pa.BinaryArray

    @property
    def n_bytes(self) -> NDArray[np.int64]:
        """What is kept of each, in bytes."""
        kept = (self.etag, self.last_modified, self.sketch, self.moved_to)
        lengths = [pc.binary_length(column).fill_null(0) for column in kept]
        return sum((c.to_numpy().astype(np.int64) for c in lengths), np.zeros(len(self.etag), int))

    def take(self, rows: NDArray[np.int64]) -> "Answers":
        """Return some of the rows."""
        index = pa.array(rows)
        columns: list[Any] = [
            column[rows] if isinstance(column, np.ndarray) else column.take(index)
            for column in self
        ]
        return Answers(*columns)


_DEFAULTS = {name: getattr(Outcome(), name) for name in OUTCOME_FIELDS}
_TYPES: dict[str, Any] = {
    "handle": np.int64,
    "url": pa.string(),
    "status": np.int64,
    "changed": np.int8,
    "digest": pa.binary(DIGEST_BYTES),
    "etag": pa.binary(),
    "last_modified": pa.binary(),
    "fetched_at_ms": np.int64,
    "retry_after_seconds": np.float32,
    "moved_to": pa.string(),
    "disallowed": np.bool_,
    "divergence": np.float32,
    "sketch": pa.binary(),
}


def _of_values(name: str, values: list[Any]) -> Any:
    kind = _TYPES[name]
    if name == "changed":
        values = [_NOT_SAID if value is None else int(value) for value in values]
    if name == "digest":
        values = [None if value is None else digest_of(value) for value in values]
    if name in ("url", "moved_to"):
        values = [none_if_broken(value) for value in values]
    return pa.array(values, kind) if isinstance(kind, pa.DataType) else np.array(values, kind)


def _of_column(name: str, column: Any, n_rows: int) -> Any:
    """Return a column of a table, or its default where there is none."""
    kind = _TYPES[name]
    if column is None:
        if isinstance(kind, pa.DataType):
            return pa.nulls(n_rows, kind)
        default = _NOT_SAID if name == "changed" else _DEFAULTS[name]
        return np.full(n_rows, default, kind)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = column.chunk(0) if column.num_chunks else pa.array([], column.type)
    if name == "digest" and column.type != kind:
        return _of_values(name, column.to_pylist())
    if kind == pa.string():
        return readable(column)
    if isinstance(kind, pa.DataType):
        return column.cast(kind)
    if name == "changed":
        column = column.cast(pa.int8()).fill_null(_NOT_SAID)
    elif column.null_count:
        # No status is no answer.
        column = column.fill_null(0 if name == "status" else _DEFAULTS[name])
    return column.to_numpy(zero_copy_only=False).astype(kind, copy=False)


def answers_of(outcomes: Iterable[Outcome] | pa.Table | pa.RecordBatch) -> Answers:
    """Return outcomes as columns.

    Raises
    ------
    ValueError
        If one names neither order nor page, brings content without saying whether that changed,
        or a table has columns that outcomes have not.
    """
    if isinstance(outcomes, (pa.Table, pa.RecordBatch)):
        unknown = sorted(set(outcomes.schema.names) - set(OUTCOME_FIELDS))
        if unknown:
            raise ValueError(f"columns must be of {', '.join(OUTCOME_FIELDS)}, got {unknown}")
        present = set(outcomes.schema.names)
        columns = (
            _of_column(name, outcomes.column(name) if name in present else None, outcomes.num_rows)
            for name in OUTCOME_FIELDS
        )
        answers = Answers(*columns)
    else:
        rows = list(outcomes)
        answers = Answers(
            *(_of_values(name, [getattr(row, name) for row in rows]) for name in OUTCOME_FIELDS)
        )
    _check(answers)
    return _within_limits(answers)


def _within_limits(answers: Answers) -> Answers:
    """Return answers without what is too long to be kept: it goes into no log."""
    limits = {
        "etag": ETAG_BYTES_MAX,
        "last_modified": LAST_MODIFIED_BYTES_MAX,
        "sketch": SKETCH_BYTES_MAX,
        "moved_to": MOVED_TO_BYTES_MAX,
    }
    fitting: dict[str, pa.Array] = {}
    for name, n_bytes_max in limits.items():
        column = getattr(answers, name)
        is_long = pc.greater(pc.binary_length(column), n_bytes_max)
        if pc.any(is_long).as_py():
            fitting[name] = pc.if_else(is_long, pa.scalar(None, column.type), column)
    return answers._replace(**fitting)


def _check(answers: Answers) -> None:
    is_nameless = (answers.handle == 0) & answers.url.is_null().to_numpy(zero_copy_only=False)
    if is_nameless.any():
        raise ValueError(f"outcome {int(np.argmax(is_nameless))} has neither handle nor url")
    says_nothing = (
        is_success(answers.status)
        & (answers.changed == _NOT_SAID)
        & answers.digest.is_null().to_numpy(zero_copy_only=False)
        & ~answers.disallowed
    )
    if says_nothing.any():
        raise ValueError(
            f"outcome {int(np.argmax(says_nothing))} has status "
            f"{answers.status[np.argmax(says_nothing)]} and neither changed nor digest"
        )


def _rounds(page: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return rows in rounds of distinct pages, so that each is compared with the one before it."""
    left = np.arange(page.size)
    rounds = []
    while left.size:
        _, first = np.unique(page[left], return_index=True)
        first.sort()
        rounds.append(left[first])
        left = np.delete(left, first)
    return rounds


def _by_content(node: Node, page: NDArray[np.int64], answers: Answers) -> NDArray[np.uint8]:
    """Return what each answer's content says of its page, where it says anything."""
    verdict = np.where(answers.changed == 0, Verdict.UNCHANGED, Verdict.CHANGED).astype(np.uint8)
    asked = np.flatnonzero(
        (answers.changed == _NOT_SAID) & is_success(answers.status) & (page >= 0)
    )
    if asked.size:
        recent = node.store.digests_of(page[asked])
        digest = answers.digest.take(pa.array(asked)).to_pylist()
        for row, known, new in zip(asked, recent, digest, strict=True):
            if known and known[0] == new:
                verdict[row] = Verdict.UNCHANGED
            elif new in known:
                verdict[row] = Verdict.REVERTED
    return verdict


def report_answers(
    node: Node, page: NDArray[np.int64], order: NDArray[np.int64], answers: Answers, time: NodeTime
) -> tuple[NDArray[np.bool_], NDArray[np.uint8]]:
    """Judge answers, log and apply them; return which counted and what they meant.

    Parameters
    ----------
    page
        Of each answer, -1 where there is none: such a row does not count.
    order
        That asked for it, 0 for none.
    """
    counted = np.zeros(page.size, np.bool_)
    transition = np.zeros(page.size, np.uint8)
    # Not under the node's lock: while one caller waits for the disk, others judge theirs.
    now_ms = node.tick(time)
    known = np.flatnonzero(page >= 0)
    for among_known in _rounds(page[known]):
        rows = known[among_known]
        part = answers if rows.size == page.size else answers.take(rows)
        verdict = verdicts(part.status, part.disallowed, _by_content(node, page[rows], part))
        happening = _reported(node, page[rows], order[rows], part, verdict, now_ms)
        applied: Applied = node.submit([happening])[0]
        counted[rows], transition[rows] = applied.valid, applied.transition
    return counted, transition


def _reported(
    node: Node,
    page: NDArray[np.int64],
    order: NDArray[np.int64],
    answers: Answers,
    verdict: NDArray[np.uint8],
    now_ms: int,
) -> Happening:
    modified_ms: Any = 0
    if node.shard.settings.last_modified == "trust":
        modified_ms = [http_date_ms(text) for text in answers.last_modified.to_pylist()]
    retry_after = np.nan_to_num(answers.retry_after_seconds, nan=0.0, posinf=0.0, neginf=0.0)
    outcomes = event_of(
        Outcomes,
        page=page,
        order=order,
        fetched_at_ms=np.where(answers.fetched_at_ms > 0, answers.fetched_at_ms, now_ms),
        verdict=verdict,
        divergence=answers.divergence,
        last_modified_at_ms=modified_ms,
        status_class=np.clip(answers.status // 100, 0, 9),
        retry_after_seconds=retry_after,
    )
    kept = (answers.digest, answers.etag, answers.last_modified, answers.sketch, answers.moved_to)
    if all(column.null_count == len(column) for column in kept):
        return outcomes
    no_profile = pa.nulls(page.size, pa.binary())
    return PagesReported(
        outcomes,
        answers.digest,
        answers.etag,
        answers.last_modified,
        answers.sketch,
        no_profile,
        answers.moved_to,
    )
