"""Compare the outcomes of fetches with the stored pages, and log the verdicts."""

import hashlib
from collections.abc import Iterable
from email.utils import parsedate_to_datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recrawl.messages.orders import OUTCOME_FIELDS
from recrawl.node.clock import NodeTime
from recrawl.node.content.bodies import (
    Body,
    body_digests,
    check_observation,
    is_given,
    n_bytes_logged,
)
from recrawl.node.content.judging import JudgedTexts, judge_texts, text_digests
from recrawl.node.longevity.learning import CurveLearning, ReportedPolls
from recrawl.node.longevity.stored_profiles import PROFILE_BYTES
from recrawl.node.node import Node, Submission
from recrawl.node.orders import (
    GONE_STATUSES,
    MOVED_STATUSES,
    NOT_MODIFIED,
    Outcome,
    is_success,
)
from recrawl.node.records import SAME_CONTENT_FLAG, LogEntry, PagesReported, TextsJudged
from recrawl.node.repeated_outcomes import (
    CountedInTurn,
    Fetches,
    can_settle,
    fetch_seconds,
    judge_in_turn,
    turns_of,
    verdict_by_digest,
)
from recrawl.node.routing import utf8_or_none, utf8_strings
from recrawl.shard import Applied, Outcomes, Verdict, event_of
from recrawl.store import (
    DIGEST_BYTES,
    ETAG_BYTES_MAX,
    LAST_MODIFIED_BYTES_MAX,
    MOVED_TO_BYTES_MAX,
    SKETCH_BYTES_MAX,
)
from recrawl.store.fetch_records import DigestMatch, digest_rows

if TYPE_CHECKING:
    from recrawl.content import ContentSettings

__all__ = [
    "UNKNOWN",
    "Answers",
    "BegunAnswers",
    "answers_of",
    "begin_answers",
    "finish_answers",
    "http_date_ms",
    "logged_bytes",
    "readable_content",
    "report_answers",
    "retry_after_seconds",
    "status_classes",
    "stored_digest",
    "verdicts",
]


def stored_digest(digest: bytes | str) -> bytes:
    """Return a digest of the stored length; a digest of another length is hashed."""
    if isinstance(digest, str):
        raise TypeError(f"digest must be bytes, such as {digest[:20]!r}.encode(), got text")
    if len(digest) == DIGEST_BYTES:
        return digest
    return hashlib.blake2b(digest, digest_size=DIGEST_BYTES).digest()


def verdicts(
    status: NDArray[np.int64], disallowed: NDArray[np.bool_], content: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """Return the verdicts of responses.

    Parameters
    ----------
    status
        HTTP status, 0 for no response.
    disallowed
        Whether the site's rules forbade the request.
    content
        Verdict by content, used for responses that have content.
    """
    verdict = np.full(status.size, Verdict.TRANSIENT_ERROR, np.uint8)
    verdict[is_success(status)] = content[is_success(status)]
    verdict[status == NOT_MODIFIED] = Verdict.UNCHANGED
    verdict[np.isin(status, MOVED_STATUSES)] = Verdict.MOVED
    verdict[np.isin(status, GONE_STATUSES)] = Verdict.GONE
    verdict[disallowed] = Verdict.DISALLOWED
    return verdict


def http_date_ms(text: bytes | None) -> int:
    """Return the instant of an HTTP date, 0 if the text is not a date."""
    if not text:
        return 0
    try:
        return max(int(parsedate_to_datetime(text.decode("ascii")).timestamp() * 1000), 0)
    except (ValueError, OverflowError, OSError):
        return 0


UNKNOWN = -1
"""Stands for an outcome that does not say whether its page has changed."""


class Answers(NamedTuple):
    """Outcomes as columns; see `recrawl.node.orders.Outcome`."""

    handle: NDArray[np.int64]
    url: pa.StringArray
    status: NDArray[np.int64]
    changed: NDArray[np.int8]
    """1 or 0 as reported; -1 to compare digests."""
    digest: pa.FixedSizeBinaryArray
    etag: pa.BinaryArray
    last_modified: pa.BinaryArray
    fetched_at_ms: NDArray[np.int64]
    retry_after_seconds: NDArray[np.float32]
    moved_to: pa.StringArray
    disallowed: NDArray[np.bool_]
    divergence: NDArray[np.float32]
    sketch: pa.BinaryArray
    key: pa.StringArray
    has_dropped: NDArray[np.bool_]
    """Whether a value was dropped because it was too long or had control characters."""
    content: NDArray[np.object_]
    """A `Body`, an `Observation`, or None."""

    @property
    def has_content(self) -> bool:
        """Whether any outcome has a body, a text or an observation."""
        return bool(is_given(self.content).any())

    def n_bytes(self, *, with_texts: bool = False) -> NDArray[np.int64]:
        """Return the size of what the log keeps of each outcome, in bytes.

        Parameters
        ----------
        with_texts
            Whether it keeps the texts of passages.
        """
        columns = (self.etag, self.last_modified, self.sketch, self.moved_to)
        lengths = [pc.binary_length(column).fill_null(0) for column in columns]
        sizes = [column.to_numpy().astype(np.int64) for column in lengths]
        return sum(sizes, n_bytes_logged(self.content, with_texts=with_texts))

    def without_content(self) -> "Answers":
        """Return the answers with digests of bodies instead of bodies."""
        if not self.has_content:
            return self
        found = body_digests(self.content)
        digest = [
            given if new is None or given is not None else stored_digest(new)
            for given, new in zip(self.digest.to_pylist(), found, strict=True)
        ]
        return self._replace(
            digest=pa.array(digest, pa.binary(DIGEST_BYTES)),
            content=np.full(self.content.size, None, np.object_),
        )

    def take(self, rows: NDArray[np.int64]) -> "Answers":
        """Return the given rows."""
        index = pa.array(rows)
        columns: list[Any] = [
            column[rows] if isinstance(column, np.ndarray) else column.take(index)
            for column in self
        ]
        return Answers(*columns)

    def slice(self, first: int, end: int) -> "Answers":
        """Return the rows of a range, without copying them."""
        if first == 0 and end == self.handle.size:
            return self
        columns: list[Any] = [
            column[first:end]
            if isinstance(column, np.ndarray)
            else column.slice(first, end - first)
            for column in self
        ]
        return Answers(*columns)


_CONTENT_FIELDS = ("body", "content_type", "text")
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
    "key": pa.string(),
}


# Longer waits that servers ask for are cut; the settings of [errors] are shorter anyway.
_RETRY_SECONDS_MAX = 1e9


def _column_from_values(name: str, values: list[Any]) -> Any:
    kind = _TYPES[name]
    if name == "changed":
        values = [UNKNOWN if value is None else int(value) for value in values]
    if name == "digest":
        values = [None if value is None else stored_digest(value) for value in values]
    if name in ("url", "moved_to", "key"):
        values = [utf8_or_none(value) for value in values]
    if name == "retry_after_seconds":
        # A float of four bytes cannot hold more than 3e38; NaN stays.
        values = [_RETRY_SECONDS_MAX if value > _RETRY_SECONDS_MAX else value for value in values]
    return pa.array(values, kind) if isinstance(kind, pa.DataType) else np.array(values, kind)


def _column_from_table(name: str, column: Any, n_rows: int) -> Any:
    """Return a column of a table with the type of `Answers`; the default if it is missing."""
    kind = _TYPES[name]
    if column is None:
        if isinstance(kind, pa.DataType):
            return pa.nulls(n_rows, kind)
        default = UNKNOWN if name == "changed" else _DEFAULTS[name]
        return np.full(n_rows, default, kind)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = column.chunk(0) if column.num_chunks else pa.array([], column.type)
    if name == "digest" and column.type != kind:
        return _column_from_values(name, column.to_pylist())
    if kind == pa.string():
        return utf8_strings(column)
    if isinstance(kind, pa.DataType):
        return column.cast(kind)
    if name == "changed":
        column = column.cast(pa.int8()).fill_null(UNKNOWN)
    elif column.null_count:
        # A missing status means that there was no response.
        column = column.fill_null(0 if name == "status" else _DEFAULTS[name])
    return column.to_numpy(zero_copy_only=False).astype(kind, copy=False)


def answers_of(outcomes: Iterable[Outcome] | pa.Table | pa.RecordBatch) -> Answers:
    """Return outcomes as columns.

    Raises
    ------
    ValueError
        If an outcome has neither handle nor url, or a successful one says nothing of its content,
        or if a table has unknown columns.
    """
    if isinstance(outcomes, (pa.Table, pa.RecordBatch)):
        unknown = sorted(set(outcomes.schema.names) - set(OUTCOME_FIELDS))
        if unknown:
            raise ValueError(f"columns must be among {', '.join(OUTCOME_FIELDS)}, got {unknown}")
        present = set(outcomes.schema.names)
        n_rows = outcomes.num_rows
        columns = [
            _column_from_table(name, outcomes.column(name) if name in present else None, n_rows)
            for name in _TYPES
        ]
        content = _content_from_table(outcomes)
    else:
        rows = list(outcomes)
        for row in rows:
            if not isinstance(row, Outcome):
                raise TypeError(
                    "outcomes must be recrawl.Outcome objects or an Arrow table, got "
                    f"{type(row).__name__}"
                )
        n_rows = len(rows)
        columns = [
            _column_from_values(name, [getattr(row, name) for row in rows]) for name in _TYPES
        ]
        content = _content_from_rows(rows)
    columns += [np.zeros(n_rows, np.bool_), content]
    answers = Answers(*columns)
    _check(answers)
    return _drop_unusable(_drop_values_of_failures(answers))


def _content_from_rows(rows: list[Outcome]) -> NDArray[np.object_]:
    content = np.full(len(rows), None, np.object_)
    for i, row in enumerate(rows):
        if row.observation is not None:
            check_observation(row.observation)
            content[i] = row.observation
        elif row.body is not None or row.text is not None:
            content[i] = _body_of(row.body, row.content_type, row.text, row.url)
    return content


def _content_from_table(table: pa.Table | pa.RecordBatch) -> NDArray[np.object_]:
    content = np.full(table.num_rows, None, np.object_)
    present = set(table.schema.names)
    if not present & {"body", "text"}:
        return content
    columns = [
        table.column(name).to_pylist() if name in present else [None] * table.num_rows
        for name in (*_CONTENT_FIELDS, "url")
    ]
    for i, (body, content_type, text, url) in enumerate(zip(*columns, strict=True)):
        if body is not None or text is not None:
            data = body.encode("utf-8", "replace") if isinstance(body, str) else body
            content[i] = _body_of(data, content_type, text, url)
    return content


def _body_of(body: Any, content_type: Any, text: Any, url: str | None) -> Body:
    if body is not None and not isinstance(body, bytes | bytearray | memoryview):
        raise TypeError(f"body must be bytes, got {type(body).__name__}; give text as text")
    for name, value in (("content_type", content_type), ("text", text)):
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{name} must be text, got {type(value).__name__}")
    return Body(None if body is None else bytes(body), content_type, text, url)


def _drop_values_of_failures(answers: Answers) -> Answers:
    """Return answers where those without a page have no values that describe one.

    Validators of an answer whose body was cut off would make the server say that a page has not
    changed which nobody has.
    """
    has_page = is_success(answers.status) | (answers.status == NOT_MODIFIED)
    if has_page.all():
        return answers
    is_kept = pa.array(has_page)
    kept = {}
    for name in ("digest", "etag", "last_modified", "sketch"):
        column = getattr(answers, name)
        kept[name] = pc.if_else(is_kept, column, pa.scalar(None, column.type))
    return answers._replace(**kept)


def _drop_unusable(answers: Answers) -> Answers:
    """Return answers without values that are too long for the store or unsafe to send back.

    Fetchers send etag and last_modified in a header, where a line break would begin another one.
    """
    limits = {
        "etag": ETAG_BYTES_MAX,
        "last_modified": LAST_MODIFIED_BYTES_MAX,
        "sketch": SKETCH_BYTES_MAX,
        "moved_to": MOVED_TO_BYTES_MAX,
    }
    fitting: dict[str, pa.Array] = {}
    has_dropped = answers.has_dropped
    for name, n_bytes_max in limits.items():
        column = getattr(answers, name)
        if column.null_count == len(column):
            continue
        is_wrong = pc.greater(pc.binary_length(column), n_bytes_max)
        if name != "sketch":
            is_wrong = pc.or_(is_wrong, _has_controls(column))
        is_wrong = is_wrong.fill_null(False)
        if is_wrong.true_count:
            fitting[name] = pc.if_else(is_wrong, pa.scalar(None, column.type), column)
            has_dropped = has_dropped | is_wrong.to_numpy(zero_copy_only=False)
    return answers._replace(has_dropped=has_dropped, **fitting)


def _has_controls(column: pa.Array) -> pa.BooleanArray:
    """Return which texts or byte strings have a control character of ASCII."""
    return pc.match_substring_regex(column, r"[\x00-\x1f\x7f]")


def _check(answers: Answers) -> None:
    is_nameless = (answers.handle == 0) & answers.url.is_null().to_numpy(zero_copy_only=False)
    if is_nameless.any():
        raise ValueError(
            f"outcome {int(np.argmax(is_nameless))} has neither handle nor url; give one of them"
        )
    says_nothing = (
        is_success(answers.status)
        & (answers.changed == UNKNOWN)
        & answers.digest.is_null().to_numpy(zero_copy_only=False)
        & ~answers.disallowed
    )
    if says_nothing.any():
        says_nothing &= ~is_given(answers.content)
    if says_nothing.any():
        raise ValueError(
            f"outcome {int(np.argmax(says_nothing))} has status "
            f"{answers.status[np.argmax(says_nothing)]} and none of body, text, digest "
            "and changed; give one of them"
        )


def _content_verdicts(
    node: Node, page: NDArray[np.int64], answers: Answers, judged: JudgedTexts | None
) -> NDArray[np.uint8]:
    """Return the verdict of each answer by its content: changed, unchanged or reverted."""
    verdict = np.where(answers.changed == 0, Verdict.UNCHANGED, Verdict.CHANGED).astype(np.uint8)
    is_undecided = (answers.changed == UNKNOWN) & is_success(answers.status) & (page >= 0)
    if judged is not None:
        verdict = np.where(is_undecided & judged.is_judged, judged.verdict, verdict)
        is_undecided &= ~judged.is_judged
    undecided = np.flatnonzero(is_undecided)
    if undecided.size:
        verdict[undecided] = _verdicts_by_digest(
            node, page[undecided], answers.digest.take(pa.array(undecided))
        )
    return verdict


# Verdict for each `DigestMatch`.  A page without digests was never seen with any: it is new.
_VERDICT_BY_MATCH = np.zeros(len(DigestMatch), np.uint8)
_VERDICT_BY_MATCH[DigestMatch.NONE_STORED] = Verdict.CHANGED
_VERDICT_BY_MATCH[DigestMatch.NEWEST] = Verdict.UNCHANGED
_VERDICT_BY_MATCH[DigestMatch.OLDER] = Verdict.REVERTED
_VERDICT_BY_MATCH[DigestMatch.OTHER] = Verdict.CHANGED


def _verdicts_by_digest(
    node: Node, page: NDArray[np.int64], digest: pa.FixedSizeBinaryArray
) -> NDArray[np.uint8]:
    """Return what digests say about their pages, as `verdict_by_digest` does for one."""
    match = node.store.match_digests(page, digest_rows(digest))
    is_null = digest.is_null().to_numpy(zero_copy_only=False)
    match[is_null & (match != DigestMatch.NONE_STORED)] = DigestMatch.OTHER
    verdict: NDArray[np.uint8] = _VERDICT_BY_MATCH[match]
    # Only pages whose text was read before can be unchanged although no digest is the same.
    if node.store.content_counts is not None:
        others = np.flatnonzero(match == DigestMatch.OTHER)
        known = node.store.digests_of(page[others])
        given = digest.take(pa.array(others)).to_pylist()
        verdict[others] = [
            verdict_by_digest(new, recent, text)
            for new, recent, text in zip(
                given, known, text_digests(node, page[others]), strict=True
            )
        ]
    return verdict


def logged_bytes(node: Node, answers: Answers, *, with_texts: bool = False) -> NDArray[np.int64]:
    """Return the largest number of bytes that the values of each answer take in the log.

    Parameters
    ----------
    node
        Node of the pages.
    answers
        Outcomes of fetches.
    with_texts
        Whether the log keeps the texts of new passages.
    """
    n_bytes = answers.n_bytes(with_texts=with_texts)
    if node.shard.settings.objective == "fragments":
        return n_bytes + PROFILE_BYTES
    has_content: NDArray[np.bool_] = answers.sketch.is_valid().to_numpy(zero_copy_only=False)
    has_content = has_content | ~np.isnan(answers.divergence)
    has_content |= is_given(answers.content)
    return n_bytes + np.where(has_content, PROFILE_BYTES, 0)


def readable_content(node: Node, page: NDArray[np.int64], answers: Answers) -> NDArray[np.object_]:
    """Return the contents that are worth reading, each with the URL of its page.

    Bodies of errors and of pages that are not tracked are left out.  The URL is the same whether an
    outcome has a handle or a URL, because it may decide how a body is read.
    """
    is_read = is_given(answers.content) & is_success(answers.status)
    is_read &= ~answers.disallowed & (page >= 0)
    content = np.full(answers.content.size, None, np.object_)
    rows = np.flatnonzero(is_read)
    urls = node.store.urls_of(page[rows]).to_pylist()
    for i, url in zip(rows.tolist(), urls, strict=True):
        one = answers.content[i]
        content[i] = one._replace(url=url) if isinstance(one, Body) else one
    return content


def _judge_content(
    node: Node,
    page: NDArray[np.int64],
    order: NDArray[np.int64],
    answers: Answers,
    settings: "ContentSettings",
    *,
    has_repeated: bool,
) -> tuple[Answers, JudgedTexts]:
    """Judge the observations of answers; return the answers with what follows from that."""
    content = answers.content
    in_turn = None
    if has_repeated:
        in_turn = CountedInTurn(node, page, order, answers.fetched_at_ms)
    judged = judge_texts(node, page, content, settings, answers.changed != UNKNOWN, in_turn)
    if not judged.is_judged.any():
        return answers, judged
    # Validators of another page would make the server say that it has not changed; where the next
    # answer decides whether a number counts, it must come whole.
    is_dropped = pa.array((judged.wrong_answer > 0) | judged.is_in_doubt)
    is_judged = pa.array(judged.is_judged)
    return answers._replace(
        digest=pc.if_else(is_judged, pa.array(judged.digest, answers.digest.type), answers.digest),
        sketch=pc.coalesce(answers.sketch, pa.array(judged.sketch, pa.binary())),
        divergence=np.where(np.isnan(answers.divergence), judged.divergence, answers.divergence),
        etag=pc.if_else(is_dropped, pa.scalar(None, pa.binary()), answers.etag),
        last_modified=pc.if_else(is_dropped, pa.scalar(None, pa.binary()), answers.last_modified),
        retry_after_seconds=np.fmax(answers.retry_after_seconds, judged.retry_seconds),
    ), judged


def report_answers(
    node: Node,
    page: NDArray[np.int64],
    order: NDArray[np.int64],
    answers: Answers,
    time: NodeTime,
    settings: "ContentSettings | None" = None,
) -> tuple[NDArray[np.bool_], NDArray[np.uint8], NDArray[np.uint8]]:
    """Log and apply answers with their verdicts; see `begin_answers` and `finish_answers`."""
    return finish_answers(node, begin_answers(node, page, order, answers, time, settings))


class BegunAnswers(NamedTuple):
    """Answers of one node that are judged, and in the next append to its log."""

    n_rows: int
    rows: NDArray[np.int64]
    """Answers of pages that are tracked."""
    n_entries: int
    submission: Submission | None
    wrong_answer: NDArray[np.uint8]
    """Kind of wrong answer of each answer."""


def begin_answers(
    node: Node,
    page: NDArray[np.int64],
    order: NDArray[np.int64],
    answers: Answers,
    time: NodeTime,
    settings: "ContentSettings | None" = None,
) -> BegunAnswers:
    """Judge answers, and put them into the next append to the log; `finish_answers` must follow.

    Begin no others of the same node before that, because their verdicts depend on these.

    Parameters
    ----------
    node
        Node of the pages.
    page
        Page of each answer, -1 if it is not tracked: such an answer does not count.
    order
        Order of each answer, 0 for none.
    answers
        Outcomes of fetches.
    time
        Time of the node.
    settings
        Rules by which observations are judged; None if no answer has one.
    """
    wrong_answer = np.zeros(page.size, np.uint8)
    # Without the node's lock: while one caller waits for the disk, others compute verdicts.
    now_ms = node.tick(time)
    known = np.flatnonzero(page >= 0)
    if known.size == 0:
        return BegunAnswers(page.size, known, 0, None, wrong_answer)
    order = _find_orders(node, page, order, answers.fetched_at_ms)
    turn = turns_of(page[known])
    # One entry for the first outcome of each page, one for the second, and so on.
    rows = known[np.argsort(turn, kind="stable")]
    is_all = rows.size == page.size and not turn.any()
    part = answers if is_all else answers.take(rows)
    # No fetch is in the future, whatever the clock of a fetcher says.
    at_ms = np.where(part.fetched_at_ms > 0, np.minimum(part.fetched_at_ms, now_ms), now_ms)
    part = part._replace(fetched_at_ms=at_ms)
    judged = None
    if settings is not None and part.has_content:
        part, judged = _judge_content(
            node, page[rows], order[rows], part, settings, has_repeated=bool(turn.any())
        )
    content = _content_verdicts(node, page[rows], part, judged)
    if turn.any():
        is_judged = np.zeros(rows.size, np.bool_) if judged is None else judged.is_judged
        _judge_repeated(node, page[rows], order[rows], part, content, is_judged)
    verdict = verdicts(part.status, part.disallowed, content)
    ends = np.cumsum(np.bincount(turn)).tolist()
    entries: list[LogEntry] = []
    curves: list[LogEntry] = []
    learning = _curve_learning(node, part)
    for first, end in pairwise([0, *ends]):
        some, places = rows[first:end], slice(first, end)
        answered, found = part.slice(first, end), verdict[first:end]
        texts = None if judged is None else _texts_of(judged, places)
        profile = None
        if learning is not None:
            polls = _polls_of(node, page[some], order[some], answered, found)
            learned = learning.learn(polls)
            answered, profile = answered._replace(divergence=learned.divergence), learned.profile
            curves += [] if learned.curves is None else [learned.curves]
        if first == 0:
            # Later outcomes of a page follow another one, not what is stored.
            answered, texts = _leave_out_same_content(node, page[some], answered, texts)
        entries.append(
            _report_entry(node, page[some], order[some], answered, found, profile, texts)
        )
    if judged is not None:
        wrong_answer[rows] = judged.wrong_answer
    submission = node.begin([*entries, *curves], at_ms=now_ms)
    return BegunAnswers(page.size, rows, len(entries), submission, wrong_answer)


def finish_answers(
    node: Node, begun: BegunAnswers
) -> tuple[NDArray[np.bool_], NDArray[np.uint8], NDArray[np.uint8]]:
    """Wait until answers are logged and applied, or do it.

    Returns which counted, their transitions, and which kinds of wrong answers they were.
    """
    counted = np.zeros(begun.n_rows, np.bool_)
    transition = np.zeros(begun.n_rows, np.uint8)
    if begun.submission is not None:
        applied: list[Applied] = node.finish(begun.submission)[: begun.n_entries]
        counted[begun.rows] = np.concatenate([one.valid for one in applied])
        transition[begun.rows] = np.concatenate([one.transition for one in applied])
    return counted, transition, begun.wrong_answer


def _curve_learning(node: Node, answers: Answers) -> CurveLearning | None:
    """Return what learns from the content of answers; None if there is nothing to learn."""
    is_silent = (
        answers.sketch.null_count == len(answers.sketch) and np.isnan(answers.divergence).all()
    )
    if is_silent and node.shard.settings.objective != "fragments":
        return None
    return CurveLearning(node.shard, node.store)


def _polls_of(
    node: Node,
    page: NDArray[np.int64],
    order: NDArray[np.int64],
    answers: Answers,
    verdict: NDArray[np.uint8],
) -> ReportedPolls:
    fetched = fetch_seconds(node, order, answers.fetched_at_ms)
    return ReportedPolls(
        page,
        fetched,
        verdict,
        answers.divergence,
        answers.sketch,
        can_settle(node, page, order),
    )


def _find_orders(
    node: Node,
    page: NDArray[np.int64],
    order: NDArray[np.int64],
    fetched_at_ms: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the orders of answers; one given by URL answers the order in flight of its page.

    Only if the page was fetched after it was ordered, and no answer before it has the same order.
    """
    rows = np.flatnonzero((order <= 0) & (page >= 0))
    if rows.size == 0:
        return order
    found = node.open_orders_of(page[rows])
    leases = node.shard.tables.leases
    ordered_at = leases.ordered_at[found & (leases.page.size - 1)]
    is_later = (fetched_at_ms[rows] <= 0) | (fetched_at_ms[rows] >= ordered_at)
    with_found = order.copy()
    with_found[rows] = np.where(is_later, found, 0)
    is_first = np.zeros(order.size, np.bool_)
    is_first[np.unique(with_found, return_index=True)[1]] = True
    return np.where(is_first | (order > 0), with_found, order)


def _judge_repeated(
    node: Node,
    page: NDArray[np.int64],
    order: NDArray[np.int64],
    answers: Answers,
    content: NDArray[np.uint8],
    is_judged: NDArray[np.bool_],
) -> None:
    """Compare the answers of pages that occur several times with each other."""
    _, place, count = np.unique(page, return_inverse=True, return_counts=True)
    rows = np.flatnonzero(count[place] > 1)
    some = answers.take(rows)
    verdict = verdicts(some.status, some.disallowed, content[rows])
    fetches = Fetches(
        page=page[rows],
        order=order[rows],
        fetched_at_ms=some.fetched_at_ms,
        is_poll=verdict < Verdict.DISALLOWED,
        compares_digest=(some.changed == UNKNOWN) & is_success(some.status) & ~is_judged[rows],
        digest=some.digest.to_pylist(),
        is_text=is_judged[rows],
    )
    in_turn = content[rows]
    pages = np.unique(fetches.page)
    of_text = dict(zip(pages.tolist(), text_digests(node, pages), strict=True))
    judge_in_turn(node, fetches, in_turn, of_text)
    content[rows] = in_turn


def _texts_of(judged: JudgedTexts, rows: slice) -> TextsJudged | None:
    """Return the columns of judgements for the log; None if the rows have none."""
    if not judged.is_judged[rows].any():
        return None
    return TextsJudged(
        pa.array(judged.memory[rows], pa.binary()),
        pa.array(judged.host_update[rows], pa.binary()),
        pa.array(judged.passages[rows], pa.binary()),
        judged.wrong_answer[rows],
        judged.flags[rows],
    )


def _leave_out_same_content(
    node: Node, page: NDArray[np.int64], answers: Answers, texts: TextsJudged | None
) -> tuple[Answers, TextsJudged | None]:
    """Return answers without the digests and sketches that are stored already, and flags for them.

    A page that does not change would otherwise write the same sketch to the log at each fetch.
    """
    has_sketch: NDArray[np.bool_] = answers.sketch.is_valid().to_numpy(zero_copy_only=False)
    if not has_sketch.any():
        return answers, texts
    known = node.store.records_of(page)
    digest, sketch = answers.digest.to_pylist(), answers.sketch.to_pylist()
    is_same = np.zeros(page.size, np.bool_)
    for i in np.flatnonzero(has_sketch).tolist():
        is_same[i] = sketch[i] == known.sketch[i] and digest[i] in known.digests[i][:1]
    if not is_same.any():
        return answers, texts
    if texts is None:
        nothing = pa.nulls(page.size, pa.binary())
        no_flags = np.zeros(page.size, np.uint8)
        texts = TextsJudged(nothing, nothing, nothing, no_flags, no_flags)
    flags = np.where(is_same, texts.flags | SAME_CONTENT_FLAG, texts.flags).astype(np.uint8)
    # New arrays: those with a mask would still hold the bytes below it.
    for i in np.flatnonzero(is_same).tolist():
        digest[i] = sketch[i] = None
    return answers._replace(
        digest=pa.array(digest, answers.digest.type), sketch=pa.array(sketch, answers.sketch.type)
    ), texts._replace(flags=flags)


def status_classes(answers: Answers) -> NDArray[np.int64]:
    """Return the first digits of the HTTP statuses, 0 for none."""
    return np.clip(answers.status // 100, 0, 9)


def retry_after_seconds(answers: Answers) -> NDArray[np.float32]:
    """Return the seconds that sites ask to wait, 0 where they ask for nothing possible."""
    return np.nan_to_num(answers.retry_after_seconds, nan=0.0, posinf=0.0, neginf=0.0)


def _report_entry(
    node: Node,
    page: NDArray[np.int64],
    order: NDArray[np.int64],
    answers: Answers,
    verdict: NDArray[np.uint8],
    profile: pa.BinaryArray | None,
    texts: TextsJudged | None,
) -> LogEntry:
    modified_ms: Any = 0
    if node.shard.settings.last_modified == "trust":
        modified_ms = [http_date_ms(text) for text in answers.last_modified.to_pylist()]
    outcomes = event_of(
        Outcomes,
        page=page,
        order=order,
        fetched_at_ms=answers.fetched_at_ms,
        verdict=verdict,
        divergence=answers.divergence,
        last_modified_at_ms=modified_ms,
        status_class=status_classes(answers),
        retry_after_seconds=retry_after_seconds(answers),
    )
    columns = (
        answers.digest,
        answers.etag,
        answers.last_modified,
        answers.sketch,
        pa.nulls(page.size, pa.binary()) if profile is None else profile,
        answers.moved_to,
    )
    if texts is None and all(column.null_count == len(column) for column in columns):
        return outcomes
    return PagesReported(outcomes, *columns, texts)
