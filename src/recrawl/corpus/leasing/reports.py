"""Report the outcomes of fetches to the partitions of their pages."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from copy import copy
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.corpus.leasing.old_handles import OldHandles
from recrawl.corpus.leasing.small_calls import SmallCalls, SmallReport
from recrawl.messages.results import Reported, RowStatus
from recrawl.node.clock import NodeTime
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.content.bodies import BodyReader
from recrawl.node.node import Node, Submission
from recrawl.node.open_nodes import OpenNodes, commit_together, tick_together
from recrawl.node.orders import Outcome, order_of, partition_in, partition_of
from recrawl.node.reporting.few import (
    FEW_OUTCOMES_MAX,
    PlainRows,
    begin_few,
    finish_few,
    is_plain,
    plain_rows_of,
)
from recrawl.node.reporting.many import (
    Answers,
    BegunAnswers,
    answers_of,
    begin_answers,
    finish_answers,
    logged_bytes,
    readable_content,
)
from recrawl.node.routing import batch_ranges, key_column, partitions_of
from recrawl.urls import canonical, page_names

if TYPE_CHECKING:
    from recrawl.content import ContentSettings

__all__ = ["Reported", "Reporting"]

_Begun: TypeAlias = tuple[Node, NDArray[np.int64], Submission | BegunAnswers]

# Bytes of answers after which those that are pending are logged.
_PENDING_BYTES_MAX = 16 << 20


class Reporting:
    """Reports to a corpus.

    Parameters
    ----------
    nodes
        Nodes of the open partitions.
    config
        Configuration of the corpus.
    time
        Time of the corpus.
    bodies
        Reader of bodies.
    generation
        Layout generation of the corpus.
    small_calls
        Queue of small leases and reports.
    old_handles
        Handles from before the number of partitions was changed.
    """

    def __init__(
        self,
        nodes: OpenNodes,
        config: CorpusConfig,
        time: NodeTime,
        bodies: BodyReader,
        generation: int,
        small_calls: SmallCalls,
        old_handles: OldHandles,
    ) -> None:
        self._nodes = nodes
        self._by_partition = nodes.by_partition
        self._config = config
        self._time = time
        self._bodies = bodies
        self._generation = generation
        self._small_calls = small_calls
        self._old_handles = old_handles
        self._in_parts = False

    def for_parts(self, small_calls: SmallCalls) -> "Reporting":
        """Return reports of outcomes by URL whose home partitions have said: elsewhere.

        Parameters
        ----------
        small_calls
            Queue of small reports.
        """
        view = copy(self)
        view._in_parts, view._small_calls = True, small_calls
        return view

    def report(self, outcomes: Iterable[Outcome] | pa.Table | pa.RecordBatch) -> Reported:
        """Log and apply outcomes, see `Corpus.report`."""
        if isinstance(outcomes, (pa.Table, pa.RecordBatch)):
            return self._report(answers_of(outcomes))
        rows = list(outcomes)
        if len(rows) > FEW_OUTCOMES_MAX or any(map(_has_content, rows)):
            # Bodies are read before anything is locked, so that several threads can do it at once.
            return self._report(answers_of(rows))
        reported: Reported = self._small_calls.call(SmallReport(self, rows), n_rows=len(rows))
        return reported

    def begin_all(
        self, calls: Sequence[list[Outcome]]
    ) -> Callable[[], Sequence[Reported | BaseException]]:
        """Begin to report the outcomes of several callers; return the function that finishes it.

        Plain outcomes are then in the next append to the log, whoever makes it.  An outcome that
        is not valid is an error of its own caller only.
        """
        rows = [outcome for call in calls for outcome in call]
        finish = self._begin_few(rows)
        if finish is not None:
            return lambda: _split(finish(), calls)
        return lambda: self._report_all(rows, calls)

    def _report_all(
        self, rows: list[Outcome], calls: Sequence[list[Outcome]]
    ) -> list[Reported | BaseException]:
        if len(calls) == 1:
            return [self._report(answers_of(rows))]
        errors: dict[int, BaseException] = {}
        try:
            answers = answers_of(rows)
        except Exception:
            for i, call in enumerate(calls):
                try:
                    answers_of(call)
                except Exception as error:
                    errors[i] = error
            calls = [[] if i in errors else call for i, call in enumerate(calls)]
            answers = answers_of([outcome for call in calls for outcome in call])
        parts = _split(self._report(answers), calls)
        return [errors.get(i) or part for i, part in enumerate(parts)]

    def _begin_few(self, outcomes: list[Outcome]) -> Callable[[], Reported] | None:
        """Begin to report outcomes the short way; None if they have to go the general one."""
        if not 0 < len(outcomes) <= FEW_OUTCOMES_MAX:
            return None
        by_partition: dict[int, tuple[Node, list[int]]] = {}
        for row, outcome in enumerate(outcomes):
            if not is_plain(outcome):
                return None
            partition = partition_in(outcome.handle, self._generation)
            found = by_partition.get(partition)
            if found is None:
                node = self._by_partition.get(partition)
                if node is None:
                    return None
                found = by_partition[partition] = node, []
            found[1].append(row)
        begun = []
        nodes = [node for node, _ in by_partition.values()]
        tick_together(nodes, self._time)
        row_status = np.zeros(len(outcomes), np.uint8)
        for node, own in by_partition.values():
            some, rows = [outcomes[row] for row in own], np.array(own)
            plain = PlainRows.from_outcomes(some)
            with self._nodes.leave_out_stopped(rows, row_status):
                begun.append((node, rows, some, begin_few(node, plain, self._time)))

        def finish() -> Reported:
            n = len(outcomes)
            if len(nodes) == len(begun) == 1 and not self._nodes.leaves_out_stopped:
                node, _, some, submission = begun[0]
                if submission is not None:
                    return Reported(*finish_few(node, submission), np.zeros(n, np.bool_))
                return self._report(answers_of(some))
            commit_together(nodes)
            counted, transition = np.zeros(n, np.bool_), np.zeros(n, np.uint8)
            is_known, is_unavailable = np.ones(n, np.bool_), np.zeros(n, np.bool_)
            for node, rows, some, submission in begun:
                if submission is not None:
                    with self._nodes.leave_out_stopped(rows, row_status):
                        counted[rows], transition[rows] = finish_few(node, submission)
                else:
                    one = self._report(answers_of(some))
                    is_known[rows], is_unavailable[rows] = one.is_known, one.is_unavailable
                    counted[rows], transition[rows] = one.counted, one.transition
            is_stopped = row_status == RowStatus.UNAVAILABLE
            is_known[is_stopped], is_unavailable[is_stopped] = False, True
            return Reported(
                counted,
                transition,
                np.zeros(n, np.bool_),
                is_known=is_known,
                is_unavailable=is_unavailable,
            )

        return finish

    def _report(self, answers: Answers) -> Reported:
        own_content = self._config.content
        settings = None
        if not own_content.enabled:
            answers = answers.without_content()
        elif answers.has_content:
            settings = self._bodies.settings
        n_rows = answers.handle.size
        n_bytes = np.zeros(n_rows, np.int64)
        for any_node in self._nodes.all[:1]:  # all nodes have the same settings
            n_bytes = logged_bytes(any_node, answers, with_texts=own_content.keep_text)
        counted, transition = np.zeros(n_rows, np.bool_), np.zeros(n_rows, np.uint8)
        wrong_answer, is_known = np.zeros(n_rows, np.uint8), np.zeros(n_rows, np.bool_)
        is_unavailable, is_elsewhere = np.zeros(n_rows, np.bool_), np.zeros(n_rows, np.bool_)
        answers = answers._replace(handle=self._old_handles.translate(answers.handle))
        partition = partition_of(answers.handle, self._generation)
        url = pa.nulls(n_rows, pa.string())
        by_url = np.flatnonzero(answers.handle == 0)
        if by_url.size:
            by = self._config.corpus.group_by
            # In other corpora the column is full of nulls, or an error.
            has_key = by == "key" or answers.key.null_count < n_rows
            keys = key_column(answers.key if has_key else None, n_rows, by)
            url = page_names(keys, canonical(answers.url).url)
            found = by_url[url.is_valid().to_numpy(zero_copy_only=False)[by_url]]
            name = url.take(pa.array(found))
            partition[found] = self._nodes.find_partitions(name, by, in_parts=self._in_parts)
            if not self._in_parts:
                home = partitions_of(name, self._nodes.n_partitions, by)
                is_elsewhere[found] = partition[found] != home
        pending = _Pending()
        row_status = np.zeros(n_rows, np.uint8)

        def finish() -> None:
            for node, rows, begun in pending.commit():
                with self._nodes.leave_out_stopped(rows, row_status):
                    if isinstance(begun, Submission):
                        counted[rows], transition[rows] = finish_few(node, begun)
                    else:
                        found = finish_answers(node, begun)
                        counted[rows], transition[rows], wrong_answer[rows] = found

        few = _FewOfMany(answers)
        with ExitStack() as finishing:
            finishing.callback(finish)  # also after an error, because what is begun is logged
            for together in self._nodes.split_rows_together(partition, is_unavailable):
                tick_together([node for node, _ in together], self._time)
                for node, rows in _batches(together, n_bytes):
                    if pending.is_full_before(node):
                        finish()
                    with self._nodes.leave_out_stopped(rows, row_status):
                        plain = few.rows(rows)
                        begun: Submission | BegunAnswers | None = None
                        if plain is not None:
                            begun = begin_few(node, plain, self._time)
                        if begun is not None:
                            is_known[rows] = True
                        else:
                            part = answers if rows.size == n_rows else answers.take(rows)
                            begun, page = self._begin_many(node, part, url, rows, settings)
                            is_known[rows] = page >= 0
                        pending.add(node, rows, int(n_bytes[rows].sum()), begun)
                    if not node.can_send:
                        finish()
                finish()
        is_stopped = row_status == RowStatus.UNAVAILABLE
        is_known[is_stopped], is_unavailable[is_stopped] = False, True
        return Reported(
            counted,
            transition,
            answers.has_dropped,
            wrong_answer=wrong_answer,
            is_known=is_known,
            is_unavailable=is_unavailable,
            is_elsewhere=is_elsewhere & is_unavailable & ~is_stopped,
        )

    def _begin_many(
        self,
        node: Node,
        answers: Answers,
        url: pa.StringArray,
        rows: NDArray[np.int64],
        settings: "ContentSettings | None",
    ) -> tuple[BegunAnswers, NDArray[np.int64]]:
        """Begin to report outcomes of a node the general way; return their pages, too.

        Parameters
        ----------
        node
            Node of the pages.
        answers
            Outcomes.
        url
            Names of the pages of all outcomes of the report, where they have no handle.
        rows
            Rows of these outcomes in the report.
        settings
            Rules by which bodies are judged; None if no outcome has one.
        """
        order = order_of(answers.handle)
        page = node.pages_of_orders(order)
        named = np.flatnonzero(answers.handle == 0)
        if named.size:
            page[named] = node.store.pages_of(url.take(pa.array(rows[named])))
        if settings is not None:
            # Before anything is locked: reading a body takes milliseconds.
            content = readable_content(node, page, answers)
            answers = answers._replace(content=self._bodies.read(content))
        return begin_answers(node, page, order, answers, self._time, settings), page


class _Pending:
    """Outcomes that are begun and not yet logged, with their nodes and rows."""

    def __init__(self) -> None:
        self._begun: list[_Begun] = []
        self._n_bytes = 0

    def add(
        self,
        node: Node,
        rows: NDArray[np.int64],
        n_bytes: int,
        begun: Submission | BegunAnswers,
    ) -> None:
        """Add outcomes of a node and their size."""
        self._begun.append((node, rows, begun))
        self._n_bytes += n_bytes

    def is_full_before(self, node: Node) -> bool:
        """Return whether they must be logged before outcomes of a node are judged."""
        # Those of a node follow each other, and their verdicts depend on those before them.
        is_same = bool(self._begun) and self._begun[-1][0] is node
        return is_same or self._n_bytes >= _PENDING_BYTES_MAX

    def commit(self) -> list[_Begun]:
        """Log all of them together, and return them; nothing is pending afterwards."""
        begun, self._begun, self._n_bytes = self._begun, [], 0
        commit_together([node for node, _, _ in begun])
        return begun


class _FewOfMany:
    """Outcomes of a large report of which a node has only a few.

    Parameters
    ----------
    answers
        All outcomes of the report.
    """

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._is_plain: NDArray[np.bool_] | None = None
        self._rows: PlainRows | None = None

    def rows(self, rows: NDArray[np.int64]) -> PlainRows | None:
        """Return outcomes of a node as rows; None for many, and for those that are not plain.

        Parameters
        ----------
        rows
            Rows of the outcomes of the node.
        """
        if rows.size > FEW_OUTCOMES_MAX:
            return None
        if self._is_plain is None:
            self._is_plain = plain_rows_of(self._answers)
        if not self._is_plain[rows].all():
            return None
        if self._rows is None:
            self._rows = PlainRows.from_answers(self._answers)
        return self._rows.take(rows.tolist())


def _batches(
    together: Iterable[tuple[Node, NDArray[np.int64]]], n_bytes: NDArray[np.int64]
) -> Iterator[tuple[Node, NDArray[np.int64]]]:
    """Yield the rows of each node in batches that fit a record of its log."""
    for node, own in together:
        for first, end in batch_ranges(n_bytes[own]):
            yield node, own[first:end]


def _has_content(outcome: object) -> bool:
    return isinstance(outcome, Outcome) and (
        outcome.body is not None or outcome.text is not None or outcome.observation is not None
    )


def _split(found: Reported, calls: Sequence[list[Outcome]]) -> list[Reported | BaseException]:
    """Return the rows of each call."""
    if len(calls) == 1:
        return [found]
    ends = accumulate(len(call) for call in calls)
    return [found.part(end - len(call), end) for end, call in zip(ends, calls, strict=True)]
