"""Signals of a simulated web: true ones after changes, false ones at any time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import ArrayLike, CountArray, FloatArray, RowArray
from recrawl.core.kernel import kernel
from recrawl.sim.web.draws import Stream, exponential_of, key_of, uniform_of
from recrawl.sim.web.dynamics import poisson_times
from recrawl.sim.web.times import Times, offsets_of

__all__ = ["SignalSource", "WebSignals", "emit_signals"]


class WebSignals(NamedTuple):
    """Signals of many pages: page i's are the rows ``offsets[i]`` to ``offsets[i + 1]``, in order.

    ``at`` is when a signal arrives and ``claimed_at`` when it says the page changed.
    """

    offsets: CountArray
    at: FloatArray
    claimed_at: FloatArray
    source: CountArray

    @classmethod
    def none(cls, n_pages: int) -> "WebSignals":
        """Return pages without signals."""
        none = np.empty(0)
        return cls(np.zeros(n_pages + 1, np.int64), none, none.copy(), np.empty(0, np.int64))

    def pages(self) -> RowArray:
        """Return the page of each signal."""
        return np.repeat(np.arange(self.offsets.size - 1), np.diff(self.offsets))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SignalSource:
    """The quality of one source on each page; repeat a group's quality for its pages.

    Parameters
    ----------
    recall
        Share of changes that the source announces.
    false_rate
        False signals per second.
    delay_seconds
        Mean delay of a signal, exponentially distributed; 0 is at once.
    """

    recall: ArrayLike
    false_rate: ArrayLike
    delay_seconds: ArrayLike = 0.0

    def __post_init__(self) -> None:
        recall = np.asarray(self.recall)
        if np.any(recall < 0) or np.any(recall > 1):
            raise ValueError("recall must be from 0 to 1")
        if np.any(np.asarray(self.false_rate) < 0):
            raise ValueError("false_rate must not be negative")
        if np.any(np.asarray(self.delay_seconds) < 0):
            raise ValueError("delay_seconds must not be negative")

    @classmethod
    def with_precision(
        cls,
        *,
        change_rate: ArrayLike,
        recall: ArrayLike,
        precision: ArrayLike,
        delay_seconds: ArrayLike = 0.0,
    ) -> "SignalSource":
        """Return the source whose signals are true in a share ``precision`` of cases.

        Examples
        --------
        >>> SignalSource.with_precision(change_rate=0.5, recall=0.8, precision=0.25).false_rate
        array(1.2)
        """
        if np.any(np.asarray(precision) <= 0) or np.any(np.asarray(precision) > 1):
            raise ValueError("precision must be above 0 and at most 1")
        true_rate = np.asarray(recall, np.float64) * np.asarray(change_rate)
        false_rate = np.asarray(true_rate * (1.0 / np.asarray(precision) - 1.0))
        return cls(recall=recall, false_rate=false_rate, delay_seconds=delay_seconds)


@kernel
def _announce(
    seed: int,
    stream: int,
    changes: Times,
    recall: FloatArray,
    delay_seconds: FloatArray,
    out: FloatArray,
) -> None:
    """Write when each change is announced; inf if it is not."""
    for page in range(recall.size):
        key = key_of(seed, stream, page)
        for row in range(changes.offsets[page], changes.offsets[page + 1]):
            nth = row - changes.offsets[page]
            out[row] = np.inf
            if uniform_of(key, 2 * nth) < recall[page]:
                delay = delay_seconds[page]
                if delay > 0.0:
                    delay *= exponential_of(key, 2 * nth + 1)
                out[row] = changes.at[row] + delay


def emit_signals(
    seed: int, changes: Times, sources: Sequence[SignalSource], horizon: float
) -> WebSignals:
    """Return the signals that arrive before the horizon, of all sources.

    Sources are numbered from 0.  A page's signals depend on the seed, the page and the source's
    quality on that page only.

    Examples
    --------
    >>> from recrawl.sim import change_times
    >>> day = 86_400.0
    >>> changes = change_times(0, [1 / day], 100 * day)
    >>> sitemap = SignalSource(recall=1.0, false_rate=0.0, delay_seconds=0.0)
    >>> signals = emit_signals(0, changes, [sitemap], 100 * day)
    >>> bool((signals.at == changes.at).all())
    True
    """
    n_pages = changes.offsets.size - 1
    columns: list[tuple[RowArray, FloatArray, FloatArray, CountArray]] = []
    for number, source in enumerate(sources):
        stream = Stream.SIGNALS + 2 * number
        recall = np.broadcast_to(np.asarray(source.recall, np.float64), n_pages).copy()
        delay = np.broadcast_to(np.asarray(source.delay_seconds, np.float64), n_pages).copy()
        rate = np.broadcast_to(np.asarray(source.false_rate, np.float64), n_pages).copy()
        announced_at = np.empty(changes.at.size)
        _announce(seed, stream, changes, recall, delay, announced_at)
        arrives = announced_at < horizon
        false = poisson_times(seed, stream + 1, rate, horizon)
        at = np.concatenate([announced_at[arrives], false.at])
        columns.append(
            (
                np.concatenate([changes.pages()[arrives], false.pages()]),
                at,
                np.concatenate([changes.at[arrives], false.at]),
                np.full(at.size, number, np.int64),
            )
        )
    if not columns:
        return WebSignals.none(n_pages)
    page, at, claimed_at, source_number = (
        np.concatenate(parts) for parts in zip(*columns, strict=True)
    )
    order = np.lexsort((at, page))
    return WebSignals(offsets_of(page, n_pages), at[order], claimed_at[order], source_number[order])
