"""The rolling sweep: finds due pages, and keeps the wheel and the market large enough for them."""

import math

import numpy as np
from numpy.typing import NDArray

from recrawl.shard.due import Terms, first_positions
from recrawl.shard.picker.forecast import N_PRICES_NEAR, DemandCounter, SampledDemand
from recrawl.shard.picker.queue.market import (
    M_FREE,
    M_FREE_ROW,
    M_SIZE,
    M_TOUCHED,
    Market,
    grow_entries,
    grow_rows,
)
from recrawl.shard.picker.queue.turns import unmark_ordered
from recrawl.shard.picker.queue.waiting import CEILING_FLOOR, keep_best_of_all, revalue, take_best
from recrawl.shard.picker.sweep import LATENESS, Found, Moment, find_due, place_pages, value_pages
from recrawl.shard.picker.wheel import (
    W_DRAINED,
    W_FREE,
    W_SIZE,
    W_TOUCHED,
    Wheel,
    empty_wheel,
    grow_wheel,
    take_ahead,
    take_due,
    wheel_pages,
)
from recrawl.shard.state.status import Reason
from recrawl.shard.state.tables import Tables
from recrawl.shard.state.words import EPOCH_SECONDS

__all__ = ["SWEEP_SECONDS_MAX", "SWEEP_SECONDS_MIN", "SWEEP_SHARE", "RollingSweep"]

SWEEP_SECONDS_MIN = 10.0
SWEEP_SECONDS_MAX = 3_600.0
# A sweep takes this share of the mean time between fetches of a page.
SWEEP_SHARE = 0.003
# Number of buckets per sweep; buckets of shorter sweeps are a second wide.
_BUCKETS_PER_SWEEP = 512.0
# Number of pages that the first sweep visits in each decision, to finish early.
_FIRST_SWEEP_PAGES = 4_000_000
# Number of pages counted for the demand curve: per second of a sweep, and its limits.
_COUNTED_PER_SECOND = 500.0
_N_COUNTED_MIN = 4_096
_N_COUNTED_MAX = 131_072
# log2 of a price below this stands for no price.
_LOG2_NO_PRICE = -900.0
# Number of pages placed at once.
_BATCH = 1 << 16
# Minimum number of wheel entries to examine at once if there are fewer due pages than orders.
_N_LOOKS_MIN = 256
# A page counts as due up to this many octaves below the price: worth and due time agree so far.
_DUE_TOLERANCE = 1e-4
# A page up to this many octaves below the price is ordered for its value, not as spare: once some
# pages were ordered a few seconds early, all later ones are, too.
_VALUE_TOLERANCE = 0.03


def _empty_found(n: int) -> Found:
    return Found(np.empty(n, np.int64), np.zeros(n), np.empty(n), np.empty(n))


class RollingSweep:
    """State of the sweep: wheel, cursor and demand counts, and the market of waiting pages."""

    def __init__(self, terms: Terms, market: Market, pool_max: int) -> None:
        self.market = market
        self._terms = terms
        self._pool_max = max(pool_max, 1_024)
        self._wheel: Wheel | None = None
        self._found = _empty_found(_BATCH)
        self._n_found = 0
        self._count: DemandCounter | None = None
        self._cursor = 0
        self._to_visit = 0.0
        self._swept_at: float | None = None
        self._n_passes = 0
        self._n_touched_before = 0
        self._log2_floor = -math.inf
        self.sweep_seconds = SWEEP_SECONDS_MIN

    @property
    def n_passes(self) -> int:
        """Number of sweeps completed."""
        return self._n_passes

    @property
    def n_touched(self) -> int:
        """Number of entries ever added to or removed from wheel or market."""
        in_wheel = 0 if self._wheel is None else int(self._wheel.gauge[W_TOUCHED])
        return self._n_touched_before + in_wheel + int(self.market.gauge[M_TOUCHED])

    @property
    def cursor(self) -> int:
        """Slot that the sweep visits next."""
        return self._cursor

    def moment(
        self, tables: Tables, now_ms: int, log2_price: float, newcomers_after: float = math.inf
    ) -> Moment:
        """Return the parameters of the present moment for kernels."""
        return Moment(
            int(now_ms),
            now_ms / 1000.0 - EPOCH_SECONDS,
            float(log2_price),
            float(self._log2_floor),
            float(self.sweep_seconds),
            int(self._cursor),
            int(tables.registers.n_slots[0]),
            float(newcomers_after),
        )

    def set_sweep_seconds(self, now: float, sweep_seconds: float) -> None:
        """Set the length of a sweep; a much longer or shorter one gets a new wheel."""
        self.sweep_seconds = sweep_seconds
        width = max(1.0, sweep_seconds / _BUCKETS_PER_SWEEP)
        if self._wheel is None:
            self._wheel = empty_wheel(width, now)
        elif not 0.5 <= width / self._wheel.width <= 2.0:
            # The pages of the old wheel are dropped; a new fast sweep finds them again.
            self._n_touched_before += int(self._wheel.gauge[W_TOUCHED])
            self._wheel = empty_wheel(width, now, self._wheel.slot.size)
            self.restart()

    def restart(self) -> None:
        """Begin a fast sweep, which takes only a few decisions."""
        self._cursor = 0
        self._count = None
        self._n_passes = 0

    # ---- finding and placing

    def _place(self, tables: Tables, moment: Moment, *, even_early: bool = False) -> None:
        """Put the pages found into market or wheel; with ``even_early``, also those not due yet."""
        n, self._n_found = self._n_found, 0
        if n == 0:
            return
        assert self._wheel is not None
        value_pages(
            tables.pages,
            tables.limits,
            self._terms,
            moment.log2_price,
            moment.now,
            moment.newcomers_after,
            self._found,
            n,
        )
        first = 0
        while first < n:
            first = place_pages(
                tables.pages.group,
                tables.groups,
                self.market,
                self._wheel,
                moment._replace(log2_floor=self._log2_floor, cursor=self._cursor),
                self._found,
                first,
                n,
                even_early,
            )
            if first < n:
                self._make_room(moment, tables)

    def _make_room(self, moment: Moment, tables: Tables) -> None:
        """Grow the table that is full, or drop the less valuable half of waiting pages."""
        assert self._wheel is not None
        if self._wheel.gauge[W_FREE] < 0:
            self._wheel = grow_wheel(self._wheel)
        market = self.market
        if market.gauge[M_FREE] < 0:
            if market.slot.size >= self._pool_max:
                n_kept = int(market.gauge[M_SIZE]) // 2
                floor = keep_best_of_all(market, tables.groups, n_kept, moment.now_ms)
                self._log2_floor = min(floor, CEILING_FLOOR)
            else:
                self.market = grow_entries(market)
        if self.market.gauge[M_FREE_ROW] < 0:
            self.market = grow_rows(self.market)

    def queue_pages(self, tables: Tables, moment: Moment, slots: NDArray[np.int64]) -> None:
        """Queue pages for the next batch to place: changed by an event, or not affordable now."""
        if self._wheel is None:
            return
        for first in range(0, slots.size, _BATCH):
            part = slots[first : first + _BATCH]
            if self._n_found + part.size > _BATCH:
                self._place(tables, moment)
            self._found.slot[self._n_found : self._n_found + part.size] = part
            self._n_found += part.size

    def advance(self, tables: Tables, moment: Moment) -> SampledDemand | None:
        """Sweep as far as the elapsed time requires, and place the pages of the wheel that are due.

        Returns the demand curve of all pages whenever a pass over them ends.
        """
        if self.market.gauge[M_SIZE] < self._pool_max // 8:
            self._log2_floor = -math.inf
        demand = None
        n_slots = moment.n_slots
        if self._swept_at is None:
            self._swept_at = moment.now
        elapsed = moment.now - self._swept_at
        self._swept_at = moment.now
        self._to_visit += n_slots * elapsed / self.sweep_seconds
        if self._n_passes == 0:
            self._to_visit = max(self._to_visit, float(_FIRST_SWEEP_PAGES))
        self._to_visit = min(self._to_visit, float(n_slots))
        if self._cursor > n_slots:
            self._cursor = 0
        while self._to_visit >= 1.0 and n_slots > 0:
            end = min(self._cursor + int(self._to_visit), n_slots)
            self._to_visit -= end - self._cursor
            self._visit(tables, moment, end)
            if self._cursor >= n_slots:
                assert self._count is not None
                demand, self._count = self._count.demand(), None
                self._cursor = 0
                self._n_passes += 1
                if self._n_passes == 1:
                    self._to_visit = 0.0
        self._drain(tables, moment)
        return demand

    def _visit(self, tables: Tables, moment: Moment, end: int) -> None:
        positions = first_positions(self._terms, moment.log2_price)
        limit = moment.now + (1.0 + LATENESS) * moment.sweep_seconds + 1.0
        while self._cursor < end:
            self._cursor, n = find_due(
                tables.pages.word,
                self.market.waits,
                self._terms.table.due,
                positions,
                self._cursor,
                end,
                limit,
                self._found.slot[self._n_found :],
            )
            self._n_found += n
            if self._cursor < end:
                self._place(tables, moment)
        if self._count is None:
            n_counted = _COUNTED_PER_SECOND * self.sweep_seconds
            n_counted = min(max(n_counted, _N_COUNTED_MIN), _N_COUNTED_MAX)
            stride = max(1, round(moment.n_slots / n_counted))
            price = math.exp2(moment.log2_price) if moment.log2_price > _LOG2_NO_PRICE else 1.0
            self._count = DemandCounter(self._terms, price, N_PRICES_NEAR, stride)
        self._count.add(tables, end, moment.newcomers_after)

    def _drain(self, tables: Tables, moment: Moment) -> None:
        """Take the due pages out of the wheel, and place all pages found."""
        assert self._wheel is not None
        while True:
            room = self._found.slot[self._n_found :]
            n = take_due(self._wheel, moment.now, room)
            self._n_found += n
            is_full = n == room.size
            self._place(tables, moment)
            if not is_full:
                break

    def revalue_all(self, tables: Tables, moment: Moment) -> None:
        """Compute the worth of all waiting pages anew."""
        revalue(self.market, tables.pages, tables.limits, self._terms, moment.now)
        n = int(self.market.gauge[M_SIZE])
        keep_best_of_all(self.market, tables.groups, n, moment.now_ms)

    # ---- orders

    def order(
        self,
        tables: Tables,
        moment: Moment,
        slot: NDArray[np.int64],
        reason: NDArray[np.uint8],
        *,
        only_due: bool,
        pulls_ahead: bool,
    ) -> int:
        """Order the best waiting pages; with ``pulls_ahead``, then the best pages due soon.

        With ``only_due``, waiting pages worth less than the price are dropped.
        """
        assert self._wheel is not None
        n = self._take(tables, moment, only_due, slot, reason, 0)
        bucket = int(self._wheel.gauge[W_DRAINED]) + 1
        last = bucket + self._wheel.head.size - 1
        pulls_ahead = pulls_ahead and not only_due
        while pulls_ahead and n < slot.size and bucket < last and self._wheel.gauge[W_SIZE] > 0:
            n_looks = max(2 * (slot.size - n), _N_LOOKS_MIN)
            bucket, self._n_found = take_ahead(self._wheel, bucket, n_looks, self._found.slot)
            self._place(tables, moment, even_early=True)
            n_before, n = n, self._take(tables, moment, only_due, slot, reason, n)
            if n == n_before:
                break
        return n

    def _take(
        self,
        tables: Tables,
        moment: Moment,
        only_due: bool,
        slot: NDArray[np.int64],
        reason: NDArray[np.uint8],
        n_done: int,
    ) -> int:
        """Order the best waiting pages after ``n_done`` orders; return the new number of orders.

        Pages worth less than the price are dropped with ``only_due``, and are spare otherwise.
        """
        while n_done < slot.size:
            n = take_best(
                self.market,
                tables.groups,
                tables.pages.word,
                tables.pages.group,
                moment.now_ms,
                moment.sweep_seconds,
                slot[n_done:],
            )
            if n == 0:
                break
            taken = Found(slot[n_done : n_done + n], *_empty_found(n)[1:])
            value_pages(
                tables.pages,
                tables.limits,
                self._terms,
                moment.log2_price,
                moment.now,
                moment.newcomers_after,
                taken,
                n,
            )
            shortfall = moment.log2_price - taken.log2_worth
            why = np.where(shortfall <= _VALUE_TOLERANCE, int(Reason.VALUE), int(Reason.SPARE))
            why[taken.log2_worth >= CEILING_FLOOR] = int(Reason.CEILING)
            is_good = shortfall <= _DUE_TOLERANCE if only_due else shortfall < math.inf
            if not is_good.all():
                # The groups of dropped pages have used a turn, and may get one order less now.
                why, kept = why[is_good], taken.slot[is_good]
                unmark_ordered(self.market, taken.slot[~is_good])
                slot[n_done : n_done + kept.size] = kept
            reason[n_done : n_done + why.size] = why
            n_done += why.size
        return n_done

    def pages_in_wheel(self) -> NDArray[np.int64]:
        """Return the pages in the wheel, in no particular order."""
        if self._wheel is None:
            return np.empty(0, np.int64)
        out = np.empty(int(self._wheel.gauge[W_SIZE]), np.int64)
        wheel_pages(self._wheel, out)
        return out
