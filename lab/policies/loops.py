"""Cost's and Prior's loop: poll, estimate the period from all polls so far, wait a share of it.

An estimate needs every interval after which a change was found, so the loop is a policy with a
memory of its own and no `IntervalRule`, which sees counts only.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import CountArray, FlagArray, FloatArray, RowArray
from recrawl.core.kernel import kernel
from recrawl.core.price.due import due_elapsed_of
from recrawl.papers.change_rate import PseudoObservations
from recrawl.papers.change_rate.irregular import most_likely_rate
from recrawl.sim import FetchOutcomes, KnownPages
from recrawl.sim.policies.policy import largest, spread_phases

__all__ = [
    "COST_LOOP",
    "COST_PRIOR",
    "Loop",
    "LoopPolicy",
    "Waiting",
    "estimated_period",
    "wait_of",
]

HOUR = 3_600.0
# Relative size of the last step of an estimate; the error left is its third power.
_TOLERANCE = 1e-5
_N_STEPS_MAX = 100
_NONE = -1


class Waiting(NamedTuple):
    """How an estimate becomes a wait, in numbers; see `Loop`."""

    fraction: float
    seconds_min: float
    seconds_max: float
    price: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A loop of estimating and waiting.

    Parameters
    ----------
    fraction
        Next interval over estimated period: 1/3 in Cost, 1 in Prior's tests, 0.8 in its figure 2.
    pseudo
        Two polls assumed of every page.  Without them a page never found changed is given the
        time it was polled for as its period, one always found changed its shortest interval.
    first
        Seconds to the first poll of a page; by default the fraction of the period that the
        pseudo-observations alone make most likely.
    retry_seconds
        Wait after a fetch that failed, of which the papers say nothing.
    seconds_min, seconds_max
        Shortest and longest wait; the papers have none, but a page that is new at every look
        would be looked at without end, and one too fast for its price never again.
    price
        Seconds of staleness that cost as much as a fetch.  If given, the next interval is the
        one that is best at this price for a page of the estimated period (Cost §3.2), which the
        paper does not try, and ``fraction`` decides the first one only.

    References
    ----------
    Prior §4.1, §5 (steps 1 to 5)
    Cost §4.4, §5.1
    """

    fraction: float
    pseudo: PseudoObservations | None = None
    first: float = math.nan
    retry_seconds: float = HOUR
    seconds_min: float = 60.0
    seconds_max: float = math.inf
    price: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.fraction < math.inf:
            raise ValueError(f"fraction must be positive and finite, got {self.fraction!r}")
        if self.pseudo is None and not self.first > 0:
            raise ValueError("a loop must have pseudo-observations or a first interval")

    @property
    def first_seconds(self) -> float:
        """Seconds to the first poll of a page."""
        if self.pseudo is None or self.first > 0:
            return self.first
        return self.fraction / self.pseudo.mode_rate

    @property
    def pseudo_seconds(self) -> tuple[float, float]:
        """After how long the assumed polls found a change, and none; 0 where none are assumed."""
        if self.pseudo is None:
            return 0.0, 0.0
        return self.pseudo.changed_after, self.pseudo.unchanged_after

    @property
    def waiting(self) -> Waiting:
        """How an estimate becomes a wait, for kernels."""
        # Floats throughout, or kernels are compiled again for each mixture of types.
        numbers = (self.fraction, self.seconds_min, self.seconds_max, self.price)
        return Waiting(*(float(number) for number in numbers))


COST_PRIOR = PseudoObservations(changed_after=1 * HOUR, unchanged_after=57 * HOUR)
"""Fitted by Cost to 10,000 pages: changed after 1 h, unchanged after 57 h (§4.4)."""

COST_LOOP = Loop(fraction=1 / 3, pseudo=COST_PRIOR)
"""The loop of Cost §5: a third of the estimate, the first poll after 19.2 h."""


@kernel
def estimated_period(
    changed_after: FloatArray,
    n_changed: int,
    changed_seconds: float,
    unchanged_seconds: float,
    shortest: float,
) -> float:
    """Return the period estimated from polls, with the papers' substitutes at the edges.

    ``changed_after`` holds at least ``n_changed`` intervals, which sum to ``changed_seconds``;
    ``shortest`` is the shortest of all.  `recrawl.papers.change_rate.irregular_change_rate` and
    `substitute_edges` are the same for whole histories.
    """
    if n_changed == 0:
        return unchanged_seconds
    if not unchanged_seconds > 0.0:
        return shortest
    rate, _ = most_likely_rate(
        changed_after, n_changed, changed_seconds, unchanged_seconds, _TOLERANCE, _N_STEPS_MAX
    )
    return 1.0 / rate


@kernel
def wait_of(period: float, waiting: Waiting) -> float:
    """Return how long to wait before a page of this period is polled again."""
    wait = waiting.fraction * period
    if waiting.price > 0.0:
        wait = due_elapsed_of(1.0 / period, waiting.price)
    return min(max(wait, waiting.seconds_min), waiting.seconds_max)


class _Memory(NamedTuple):
    """What the loop remembers of each page: 40 bytes, and 16 for each change found."""

    n_changed: CountArray
    changed_seconds: FloatArray
    unchanged_seconds: FloatArray
    shortest: FloatArray
    last: RowArray  # of its changed polls, in the columns below


class _Changed(NamedTuple):
    """Changed polls of all pages, each with the one before of the same page."""

    elapsed: FloatArray
    before: RowArray


@kernel
def _remember(
    memory: _Memory,
    kept: _Changed,
    n_kept: int,
    page: RowArray,
    elapsed: FloatArray,
    changed: FlagArray,
    pseudo: tuple[float, float],
    waiting: Waiting,
    wait: FloatArray,
) -> int:
    """Add polls to memory and write the wait that each leads to; return the changes kept."""
    most = 0
    for i in range(page.size):
        most = max(most, memory.n_changed[page[i]])
    changed_after = np.empty(most + 2 + page.size)
    for i in range(page.size):
        row = page[i]
        # A poll of no time shows nothing.
        if elapsed[i] > 0.0:
            memory.shortest[row] = min(memory.shortest[row], elapsed[i])
            if changed[i]:
                kept.elapsed[n_kept] = elapsed[i]
                kept.before[n_kept] = memory.last[row]
                memory.last[row] = n_kept
                n_kept += 1
                memory.n_changed[row] += 1
                memory.changed_seconds[row] += elapsed[i]
            else:
                memory.unchanged_seconds[row] += elapsed[i]
        n = 0
        if pseudo[0] > 0.0:
            changed_after[0] = pseudo[0]
            n = 1
        place = memory.last[row]
        while place != _NONE:
            changed_after[n] = kept.elapsed[place]
            n += 1
            place = kept.before[place]
        period = estimated_period(
            changed_after,
            n,
            memory.changed_seconds[row] + pseudo[0],
            memory.unchanged_seconds[row] + pseudo[1],
            memory.shortest[row],
        )
        wait[i] = wait_of(period, waiting)
    return n_kept


class LoopPolicy:
    """Fetches the pages that have been due longest by a loop; a policy for `simulate`.

    Parameters
    ----------
    loop
        How estimates become waits.
    scale
        By which all waits are multiplied, so that rules can be compared at equal fetches spent;
        see `lab.policies.loop_runs.loop_scale_for_budget`.
    """

    def __init__(self, loop: Loop, *, scale: float = 1.0) -> None:
        if not 0 < scale < math.inf:
            raise ValueError(f"scale must be positive and finite, got {scale!r}")
        self._loop = loop
        self._scale = scale

    def start(self, pages: KnownPages, at: float) -> None:
        """Begin with pages due within their first interval, or at once if there are no copies."""
        n_pages = pages.importance.size
        self._due_at = np.full(n_pages, float(at))
        if pages.has_copies:
            phase = spread_phases(n_pages, first=0.5)
            self._due_at += self._scale * self._loop.first_seconds * phase
        self._memory = _Memory(
            np.zeros(n_pages, np.int64),
            np.zeros(n_pages),
            np.zeros(n_pages),
            np.full(n_pages, math.inf),
            np.full(n_pages, _NONE, np.int64),
        )
        self._kept = _Changed(np.empty(1_024), np.empty(1_024, np.int64))
        self._n_kept = 0

    @property
    def due_at(self) -> FloatArray:
        """When each page is due; inf while its fetch is under way."""
        return self._due_at

    def on_signals(
        self, at: FloatArray, page: RowArray, source: CountArray, claimed_at: FloatArray
    ) -> None:
        """Ignore signals, of which the papers have none."""

    def pick(self, at: float, n: int) -> RowArray:
        """Return the pages that have been due longest."""
        pages = largest(-self._due_at, n)
        pages = pages[self._due_at[pages] <= at]
        self._due_at[pages] = math.inf
        return pages

    def learn(self, at: FloatArray, page: RowArray, outcomes: FetchOutcomes) -> None:
        """Estimate anew, and set when the pages are due again."""
        loop = self._loop
        wait = np.full(page.size, loop.retry_seconds)
        wait[~outcomes.error] = loop.first_seconds
        polled = ~outcomes.error & (outcomes.elapsed < math.inf)
        n_polled = int(np.count_nonzero(polled))
        if n_polled:
            self._make_room(n_polled)
            polled_wait = np.empty(n_polled)
            self._n_kept = _remember(
                self._memory,
                self._kept,
                self._n_kept,
                page[polled],
                outcomes.elapsed[polled],
                outcomes.changed[polled],
                loop.pseudo_seconds,
                loop.waiting,
                polled_wait,
            )
            wait[polled] = polled_wait
        self._due_at[page] = at + self._scale * wait

    def _make_room(self, n_more: int) -> None:
        n_wanted = self._n_kept + n_more
        if n_wanted > self._kept.elapsed.size:
            n_room = 2 * n_wanted
            self._kept = _Changed(
                np.resize(self._kept.elapsed, n_room), np.resize(self._kept.before, n_room)
            )
