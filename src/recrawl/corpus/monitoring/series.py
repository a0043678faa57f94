"""Series of a corpus over time: the kept samples of its partitions, added up."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import FloatArray
from recrawl.messages.samples import (
    AUDITS,
    COUNTS,
    HISTOGRAMS,
    RESULTS,
    STATES,
    STEPS,
    Samples,
    SourceSamples,
)
from recrawl.node.node import Node
from recrawl.node.sampling.buckets import first_sampled_ms, read_row
from recrawl.node.sampling.encoding import COUNTED, TOTAL_FIGURES
from recrawl.node.sampling.present import FIGURES
from recrawl.store import Names

__all__ = [
    "ROWS_READ_MAX",
    "merge_series",
    "merge_source_series",
    "read_series",
    "read_source_series",
]

ROWS_READ_MAX = 4_000
"""Largest number of rows of a series: more than are kept of any step."""

# Rows of the totals of a partition, and of pages without a kind.
_ALL = _NO_KIND = 0
_CORPUS_ONLY = ("price", "budget_per_second", "in_flight", "n_signals")


def _check_span(step: str, since_ms: int | None, until_ms: int | None, now_ms: int) -> range:
    """Return the first and the end of a span of time, in milliseconds."""
    if step not in STEPS:
        raise ValueError(f"step must be one of {', '.join(STEPS)}, got {step!r}")
    # The row of the present moment begins before it.
    end = now_ms + 1 if until_ms is None else int(until_ms)
    first = max(end - ROWS_READ_MAX * STEPS[step], 0) if since_ms is None else max(int(since_ms), 0)
    if end - first > ROWS_READ_MAX * STEPS[step]:
        first = end - ROWS_READ_MAX * STEPS[step]
    return range(first, max(end, first))


def _read_rows(
    node: Node, part: str, step: str, span: range, number: int | None
) -> tuple[NDArray[np.int64], FloatArray]:
    """Return the times of the buckets that have a number, and its counts and means."""
    if number is None:  # no need to look into the buckets of a whole day
        return np.empty(0, np.int64), np.empty((0, COUNTED[part].size))
    return read_row(node.store, step, part, span.start, span.stop, number)


def _histograms(node: Node, step: str, span: range, at_ms: NDArray[np.int64]) -> dict[str, Any]:
    times, values = _read_rows(node, "histograms", step, span, 0)
    found = np.zeros((at_ms.size, values.shape[1]))
    # Both are written together, so they have the same times.
    is_known = np.isin(times, at_ms)
    found[np.searchsorted(at_ms, times[is_known])] = values[is_known]
    by_name = found.reshape(at_ms.size, len(HISTOGRAMS), values.shape[1] // len(HISTOGRAMS))
    return {name: by_name[:, i] for i, name in enumerate(HISTOGRAMS)}


def _series_of_node(node: Node, step: str, span: range, part: str, number: int | None) -> Samples:
    at_ms, values = _read_rows(node, part, step, span, number)
    column = dict(zip(TOTAL_FIGURES if part == "total" else FIGURES, values.T, strict=True))
    unknown = np.full(at_ms.size, np.nan)
    more = {name: column.get(name, unknown) for name in _CORPUS_ONLY}
    if part == "total":
        more["price"] = column["price_pages"] / np.maximum(column["price_weight"], 1.0)
    return Samples(
        step=step,
        at_ms=at_ms,
        n_partitions=np.ones(at_ms.size, np.int64),
        **{name: column[name] for name in STATES},
        **{name: column[name] for name in COUNTS if name not in RESULTS},
        results={name: column[name] for name in RESULTS},
        **more,
        histograms=_histograms(node, step, span, at_ms) if part == "total" else {},
        first_ms=first_sampled_ms(node.store),
    )


def read_series(
    nodes: Sequence[Node],
    now_ms: int,
    *,
    step: str,
    since_ms: int | None = None,
    until_ms: int | None = None,
    host: str | None = None,
    kind: str | None = None,
) -> Samples:
    """Return the series of a corpus, or of one of its hosts or kinds.

    Parameters
    ----------
    nodes
        Nodes of the partitions.
    now_ms
        Present time, in milliseconds since 1970.
    step
        Length of a row: one of `recrawl.messages.samples.STEPS`.
    since_ms, until_ms
        SampleRows that begin from ``since_ms`` on and before ``until_ms``.
    host
        Canonical name of a host.
    kind
        Name of a kind; an empty one for pages without a kind.
    """
    if host is not None and kind is not None:
        raise ValueError("give a host or a kind, not both")
    span = _check_span(step, since_ms, until_ms, now_ms)
    parts = []
    for node in nodes:
        part: str = "total"
        number: int | None = _ALL
        if host is not None:
            part, number = "hosts", _number(node, Names.GROUP, host)
        elif kind is not None:
            part, number = "kinds", _number(node, Names.KIND, kind) if kind else _NO_KIND
        parts.append(_series_of_node(node, step, span, part, number))
    return merge_series(parts, step=step)


def _number(node: Node, what: Names, name: str) -> int | None:
    number = int(node.store.numbers_of(what, [name])[0])
    return number if number >= 0 else None


def _add_columns(
    at_ms: NDArray[np.int64], parts: Sequence[Any], column_of: Callable[[Any], NDArray[Any]]
) -> FloatArray:
    columns = [column_of(part) for part in parts]
    total = np.zeros((at_ms.size, *columns[0].shape[1:]))
    for part, column in zip(parts, columns, strict=True):
        total[np.searchsorted(at_ms, part.at_ms)] += column
    return total


def _add_states(
    at_ms: NDArray[np.int64], parts: Sequence[Any], column_of: Callable[[Any], NDArray[Any]]
) -> FloatArray:
    """Return the sum of states at each time, with the last state of parts that have none there.

    A partition logs a sample only in minutes in which it is used, and none while it has no owner.
    """
    columns = [column_of(part) for part in parts]
    total = np.zeros((at_ms.size, *columns[0].shape[1:]))
    for part, column in zip(parts, columns, strict=True):
        last = np.searchsorted(part.at_ms, at_ms, side="right") - 1
        total[last >= 0] += column[last[last >= 0]]
    return total


def _all_times(parts: Sequence[Any]) -> NDArray[np.int64]:
    times = [part.at_ms for part in parts]
    return np.unique(np.concatenate(times)) if times else np.empty(0, np.int64)


def _column_getter(field: str, name: str) -> Callable[[Samples], FloatArray]:
    def column_of(part: Samples) -> FloatArray:
        column: FloatArray = getattr(part, field)[name]
        return column

    return column_of


def _sum_by_name(
    at_ms: NDArray[np.int64], parts: Sequence[Samples], field: str
) -> dict[str, FloatArray]:
    names = getattr(parts[0], field)
    add = _add_states if field == "histograms" else _add_columns
    return {name: add(at_ms, parts, _column_getter(field, name)) for name in names}


def merge_series(parts: Sequence[Samples], *, step: str, n_away: int = 0) -> Samples:
    """Return the series of several partitions, or of several workers, as one.

    Counts are added up, and so are states, of which each partition has its last one; the price is a
    mean that is weighted by pages.

    Parameters
    ----------
    parts
        Series of different partitions, with the same step.
    step
        Step of the series.
    n_away
        Number of partitions that could not be reached.
    """
    at_ms = _all_times(parts)
    if not parts:
        return _no_series(step, n_away)
    sums = {
        name: _add_states(at_ms, parts, attrgetter(name))
        for name in (*STATES, "budget_per_second", "in_flight")
    } | {
        name: _add_columns(at_ms, parts, attrgetter(name))
        for name in ("spent", *AUDITS, "n_signals")
    }
    weight = _add_states(at_ms, parts, lambda part: np.maximum(part.n_pages, 1.0))
    price = _add_states(at_ms, parts, lambda part: part.price * np.maximum(part.n_pages, 1.0))
    n_partitions = _add_columns(at_ms, parts, lambda part: part.n_partitions)
    return Samples(
        step=step,
        at_ms=at_ms,
        n_partitions=n_partitions.astype(np.int64),
        **sums,
        results=_sum_by_name(at_ms, parts, "results"),
        price=price / np.maximum(weight, 1.0),
        histograms=_sum_by_name(at_ms, parts, "histograms"),
        n_partitions_away=n_away,
        first_ms=_first_of(parts),
    )


def _first_of(parts: Sequence[Samples | SourceSamples]) -> int | None:
    """Return the time of the first sample of several partitions."""
    return min((part.first_ms for part in parts if part.first_ms is not None), default=None)


def _no_series(step: str, n_away: int) -> Samples:
    none: FloatArray = np.empty(0)
    names = (*STATES, "spent", *AUDITS, *_CORPUS_ONLY)
    columns: dict[str, Any] = dict.fromkeys(names, none)
    return Samples(
        step=step,
        at_ms=np.empty(0, np.int64),
        n_partitions=np.empty(0, np.int64),
        **columns,
        results=dict.fromkeys(RESULTS, none),
        n_partitions_away=n_away,
    )


def read_source_series(
    nodes: Sequence[Node],
    now_ms: int,
    source: str,
    host: str,
    *,
    step: str,
    since_ms: int | None = None,
    until_ms: int | None = None,
) -> SourceSamples:
    """Return the series of a source of signals on one host.

    Parameters
    ----------
    nodes, now_ms, step, since_ms, until_ms
        Arguments of `read_series`.
    source
        Name of the source.
    host
        Canonical name of the host.
    """
    span = _check_span(step, since_ms, until_ms, now_ms)
    parts = []
    for node in nodes:
        number = _number(node, Names.SOURCE, f"{source}\t{host}")
        at_ms, values = _read_rows(node, "sources", step, span, number)
        n_signals, precision, recall, delay_seconds, n_judged = values.T
        parts.append(
            SourceSamples(
                step=step,
                at_ms=at_ms,
                n_signals=n_signals,
                precision=precision,
                recall=np.where(recall < 0, np.nan, recall),
                delay_seconds=delay_seconds,
                n_judged=n_judged,
                first_ms=first_sampled_ms(node.store),
            )
        )
    return merge_source_series(parts, step=step)


def merge_source_series(parts: Sequence[SourceSamples], *, step: str) -> SourceSamples:
    """Return the series of a source in several partitions as one.

    A host is in one partition; those of a split host are weighted by the signals that were judged,
    and unknown values are left out.

    Parameters
    ----------
    parts
        Series of different partitions, with the same step.
    step
        Step of the series.
    """
    parts = [part for part in parts if part.at_ms.size]
    if len(parts) == 1:
        return parts[0]
    at_ms = _all_times(parts)
    none = np.empty(0)
    if not parts:
        columns: dict[str, Any] = dict.fromkeys(
            ("n_signals", "precision", "recall", "delay_seconds", "n_judged"), none
        )
        return SourceSamples(step=step, at_ms=at_ms, **columns)

    def weight_of(part: SourceSamples) -> FloatArray:
        weight: FloatArray = part.n_judged + 1.0
        return weight

    means: dict[str, Any] = {}
    for name in ("precision", "recall", "delay_seconds"):
        total, weight = np.zeros(at_ms.size), np.zeros(at_ms.size)
        for part in parts:
            column = getattr(part, name)
            is_known = np.isfinite(column)
            row = np.searchsorted(at_ms, part.at_ms[is_known])
            total[row] += (column * weight_of(part))[is_known]
            weight[row] += weight_of(part)[is_known]
        means[name] = np.divide(total, weight, out=np.full(at_ms.size, np.nan), where=weight > 0)
    return SourceSamples(
        step=step,
        at_ms=at_ms,
        n_signals=_add_columns(at_ms, parts, lambda part: part.n_signals),
        n_judged=_add_columns(at_ms, parts, lambda part: part.n_judged),
        first_ms=_first_of(parts),
        **means,
    )
