"""The rolling sweep at work: wheel, market and cursor, and the room that they need."""

import math

import numpy as np
from numpy.typing import NDArray

from recrawl.shard.due import Terms
from recrawl.shard.picker.forecast import N_PRICES_NEAR, Count, Demand
from recrawl.shard.picker.queue.market import (
    M_FREE,
    M_FREE_ROW,
    M_SIZE,
    M_TOUCHED,
    Market,
    roomier_entries,
    roomier_rows,
)
from recrawl.shard.picker.queue.turns import forget_orders
from recrawl.shard.picker.queue.waiting import CEILING_FLOOR, keep_best_of_all, revalue, take_best
from recrawl.shard.picker.rough import first_positions
from recrawl.shard.picker.sweep import LATENESS, Found, Moment, find_due, place_pages, value_pages
from recrawl.shard.picker.wheel import (
    W_DRAINED,
    W_FREE,
    W_SIZE,
    W_TOUCHED,
    Wheel,
    empty_wheel,
    roomier_wheel,
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
# The wheel's buckets are a second wide, or this share of a long sweep.
_BUCKETS_PER_SWEEP = 512.0
# The first sweep is hurried: so many pages a decision.
_FIRST_SWEEP_PAGES = 4_000_000
# Pages counted for the demand curve in one sweep: as many per second, and at most.
_COUNTED_PER_SECOND = 500.0
_N_COUNTED_MIN = 4_096
_N_COUNTED_MAX = 131_072
# Below this is no price.
_LOG2_NO_PRICE = -900.0
# Pages placed at once.
_BATCH = 1 << 16
# Wheel entries looked at, at least, to fill orders that nothing due can fill.
_LOOKS_AHEAD = 256
# Worth and due time of a page agree to this, in octaves.
_AGREEMENT = 1e-4
# A page worth this little less than the price, in octaves, is not called spare: once some were
# ordered a few seconds early, all that follow are.
_NEARLY = 0.03


def _room_for(n: int) -> Found:
    return Found(np.empty(n, np.int64), np.zeros(n), np.empty(n), np.empty(n))


class RollingSweep:
    """Wheel, cursor and counts beside a market that its owner holds too."""

    def __init__(self, terms: Terms, market: Market, pool_max: int) -> None:
        self.market = market
        self._terms = terms
        self._pool_max = max(pool_max, 1_024)
        self._wheel: Wheel | None = None
        self._found = _room_for(_BATCH)
        self._n_found = 0
        self._count: Count | None = None
        self._cursor = 0
        self._to_visit = 0.0
        self._swept_at: float | None = None
        self._n_passes = 0
        self._n_touched_before = 0
        self._log2_floor = -math.inf
        self.sweep_seconds = SWEEP_SECONDS_MIN

    @property
    def n_passes(self) -> int:
        """Sweeps completed."""
        return self._n_passes

    @property
    def n_touched(self) -> int:
        """Entries that came into wheel or market or left it, ever."""
        in_wheel = 0 if self._wheel is None else int(self._wheel.gauge[W_TOUCHED])
        return self._n_touched_before + in_wheel + int(self.market.gauge[M_TOUCHED])

    @property
    def cursor(self) -> int:
        """The slot that is looked at next."""
        return self._cursor

    def moment(self, tables: Tables, now_ms: int, log2_price: float) -> Moment:
        """Return the moment as kernels take it."""
        return Moment(
            int(now_ms),
            now_ms / 1000.0 - EPOCH_SECONDS,
            float(log2_price),
            float(self._log2_floor),
            float(self.sweep_seconds),
            int(self._cursor),
            int(tables.registers.n_slots[0]),
        )

    def set_pace(self, now: float, sweep_seconds: float) -> None:
        """Set the time of a sweep; a much longer or shorter one gets a wheel to match."""
        self.sweep_seconds = sweep_seconds
        width = max(1.0, sweep_seconds / _BUCKETS_PER_SWEEP)
        if self._wheel is None:
            self._wheel = empty_wheel(width, now)
        elif not 0.5 <= width / self._wheel.width <= 2.0:
            # Its pages are found again by a hurried sweep.
            self._n_touched_before += int(self._wheel.gauge[W_TOUCHED])
            self._wheel = empty_wheel(width, now, self._wheel.slot.size)
            self.hurry()

    def hurry(self) -> None:
        """Begin a sweep that is over after a few decisions."""
        self._cursor = 0
        self._count = None
        self._n_passes = 0

    # ---- finding and placing

    def _place(self, tables: Tables, moment: Moment, *, even_early: bool = False) -> None:
        """Put what was found into market or wheel."""
        n, self._n_found = self._n_found, 0
        if n == 0:
            return
        assert self._wheel is not None
        value_pages(
            tables.pages, tables.limits, self._terms, moment.log2_price, moment.now, self._found, n
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
        """Let whatever ran out of room grow, or throw out the less valuable half."""
        assert self._wheel is not None
        if self._wheel.gauge[W_FREE] < 0:
            self._wheel = roomier_wheel(self._wheel)
        market = self.market
        if market.gauge[M_FREE] < 0:
            if market.slot.size >= self._pool_max:
                n_kept = int(market.gauge[M_SIZE]) // 2
                floor = keep_best_of_all(market, tables.groups, n_kept, moment.now_ms)
                self._log2_floor = min(floor, CEILING_FLOOR)
            else:
                self.market = roomier_entries(market)
        if self.market.gauge[M_FREE_ROW] < 0:
            self.market = roomier_rows(self.market)

    def consider(self, tables: Tables, moment: Moment, slots: NDArray[np.int64]) -> None:
        """Look at pages to which something happened, now or together with others."""
        if self._wheel is None:
            return
        for first in range(0, slots.size, _BATCH):
            part = slots[first : first + _BATCH]
            if self._n_found + part.size > _BATCH:
                self._place(tables, moment)
            self._found.slot[self._n_found : self._n_found + part.size] = part
            self._n_found += part.size

    def advance(self, tables: Tables, moment: Moment) -> Demand | None:
        """Sweep as far as it is time to, and look at what has come up in the wheel.

        Returns what all pages would spend whenever a pass over them has come to an end.
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
            self._count = Count(self._terms, price, N_PRICES_NEAR, stride)
        self._count.add(tables, end)

    def _drain(self, tables: Tables, moment: Moment) -> None:
        """Look at what has come up in the wheel, and place whatever was found."""
        assert self._wheel is not None
        while True:
            room = self._found.slot[self._n_found :]
            n = take_due(self._wheel, moment.now, room)
            self._n_found += n
            is_full = n == room.size
            self._place(tables, moment)
            if not is_full:
                break

    def put_in_order(self, tables: Tables, moment: Moment) -> None:
        """Value all that waits anew."""
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
        """Order the best of what waits; if it ``pulls_ahead``, then the best of what is soon due.

        What waits and is worth less than the price is let go if ``only_due``.
        """
        assert self._wheel is not None
        n = self._take(tables, moment, only_due, slot, reason, 0)
        bucket = int(self._wheel.gauge[W_DRAINED]) + 1
        last = bucket + self._wheel.head.size - 1
        pulls_ahead = pulls_ahead and not only_due
        while pulls_ahead and n < slot.size and bucket < last and self._wheel.gauge[W_SIZE] > 0:
            n_looks = max(2 * (slot.size - n), _LOOKS_AHEAD)
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
        """Order the best of what waits, beside ``n_done`` orders; return how many there are.

        Pages worth less than the price are let go if ``only_due``, and are spare otherwise.
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
            taken = Found(slot[n_done : n_done + n], *_room_for(n)[1:])
            value_pages(
                tables.pages, tables.limits, self._terms, moment.log2_price, moment.now, taken, n
            )
            short = moment.log2_price - taken.log2_worth
            why = np.where(short <= _NEARLY, int(Reason.VALUE), int(Reason.SPARE))
            why[taken.log2_worth >= CEILING_FLOOR] = int(Reason.CEILING)
            is_good = short <= _AGREEMENT if only_due else short < math.inf
            if not is_good.all():
                # Their groups seem to have been ordered from, and may have a turn less this time.
                why, kept = why[is_good], taken.slot[is_good]
                forget_orders(self.market, taken.slot[~is_good])
                slot[n_done : n_done + kept.size] = kept
            reason[n_done : n_done + why.size] = why
            n_done += why.size
        return n_done

    def pages_in_wheel(self) -> NDArray[np.int64]:
        """Return the pages of the wheel, in no order."""
        if self._wheel is None:
            return np.empty(0, np.int64)
        out = np.empty(int(self._wheel.gauge[W_SIZE]), np.int64)
        wheel_pages(self._wheel, out)
        return out
