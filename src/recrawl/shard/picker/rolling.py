"""The rolling sweep: finds due pages, and keeps the wheel and the market large enough for them."""

import math
from typing import NamedTuple

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
from recrawl.shard.picker.queue.waiting import (
    CEILING_FLOOR,
    keep_best_of_all,
    revalue_rows,
    sample_keys,
    take_best,
    trim_rows,
)
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
# Number of pages that a decision visits at most if the sweep is behind, as the first one is: this
# many, or this share of all pages, or those of this share of a sweep's time.
_VISITED_MAX = 1 << 21
_VISITED_SHARE_MAX = 1 / 64
_SWEEP_SHARE_MAX = 1 / 8
# Number of pages that a decision takes from the sweep, and from the wheel, at most: this many, or a
# multiple of its orders.
_PLACED_MAX = 1 << 14
_PLACED_PER_ORDER = 4
# A market that is full to this share drops the less valuable half of its pages, at most this many
# pages visited in each decision; the floor is the median of this many waiting pages.
_FULL_SHARE = 0.75
_TRIMMED_PER_PLACED = 4
_N_SAMPLED = 1 << 14
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


class _Trimming(NamedTuple):
    """A pass over the market that drops its less valuable pages, in steps."""

    row: int
    """Row to continue with."""
    log2_floor: float
    equal_share: float
    """Share of the pages exactly at the floor that stay."""


class RollingSweep:
    """State of the sweep: wheel, cursor and demand counts, and the market of waiting pages."""

    def __init__(self, terms: Terms, market: Market, pool_max: int) -> None:
        self.market = market
        self._terms = terms
        self._pool_max = max(pool_max, 1_024)
        self._wheel: Wheel | None = None
        self._found = _empty_found(_BATCH)
        self._n_found = 0
        self._n_entered = 0
        self._count: DemandCounter | None = None
        self._cursor = 0
        self._to_visit = 0.0
        self._swept_at: float | None = None
        self._n_passes = 0
        self._n_touched_before = 0
        self._log2_floor = -math.inf
        self._trimming: _Trimming | None = None
        self._revalued_to = 0
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
                self._trimming = None
            else:
                self.market = grow_entries(market, self._pool_max)
        if self.market.gauge[M_FREE_ROW] < 0:
            self.market = grow_rows(self.market)

    def queue_few(self, slots: NDArray[np.int64]) -> bool:
        """Queue pages as `queue_pages` does, if there is room; return whether there was."""
        end = self._n_found + slots.size
        if end > _BATCH or self._wheel is None:
            return self._wheel is None
        self._found.slot[self._n_found : end] = slots
        self._n_found = end
        return True

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

    def advance(self, tables: Tables, moment: Moment, n_orders: int = 0) -> SampledDemand | None:
        """Sweep as far as the elapsed time requires, and place the pages of the wheel that are due.

        What a decision can do in bounded time may not be enough, as in the first sweep or after a
        pause: the next decisions do the rest.  Until then they choose among the pages found so far.
        Returns the demand curve of all pages whenever a pass over them ends.

        Parameters
        ----------
        tables
            State of the shard.
        moment
            Present moment.
        n_orders
            Number of orders of the decision, which needs at least as many pages.
        """
        if self.market.gauge[M_SIZE] < self._pool_max // 8:
            self._log2_floor = -math.inf
            self._trimming = None
        demand = None
        n_slots = moment.n_slots
        n_placed_max = max(_PLACED_MAX, _PLACED_PER_ORDER * n_orders)
        n_left = self._n_to_visit(moment)
        n_found_max = self._n_entered + n_placed_max
        while n_left >= 1 and self._n_entered < n_found_max:
            end = min(self._cursor + n_left, n_slots)
            first = self._cursor
            self._visit(tables, moment, end, n_found_max)
            n_left -= self._cursor - first
            self._to_visit -= self._cursor - first
            if self._cursor >= n_slots:
                assert self._count is not None
                demand, self._count = self._count.demand(), None
                self._cursor = 0
                self._n_passes += 1
                if self._n_passes == 1:
                    self._to_visit = 0.0
                    break
        self._drain(tables, moment, n_placed_max)
        self._trim(tables, moment, _TRIMMED_PER_PLACED * n_placed_max)
        return demand

    def _n_to_visit(self, moment: Moment) -> int:
        """Return the number of pages that a decision visits, as far as the sweep is behind."""
        n_slots = float(moment.n_slots)
        if self._swept_at is None:
            self._swept_at = moment.now
        share = (moment.now - self._swept_at) / self.sweep_seconds
        self._swept_at = moment.now
        self._to_visit += n_slots * share
        n_max = max(
            float(_VISITED_MAX),
            _VISITED_SHARE_MAX * n_slots,
            min(share, _SWEEP_SHARE_MAX) * n_slots,
        )
        if self._n_passes == 0:
            self._to_visit = max(self._to_visit, n_max)
        self._to_visit = min(self._to_visit, n_slots)
        if self._cursor > n_slots:
            self._cursor = 0
        return int(min(self._to_visit, n_max))

    def _visit(self, tables: Tables, moment: Moment, end: int, n_found_max: int) -> None:
        """Sweep up to a slot, or until so many pages have been found since the sweep began."""
        positions = first_positions(self._terms, moment.log2_price)
        limit = moment.now + (1.0 + LATENESS) * moment.sweep_seconds + 1.0
        while self._cursor < end and self._n_entered < n_found_max:
            room = min(self._found.slot.size - self._n_found, n_found_max - self._n_entered)
            self._cursor, n = find_due(
                tables.pages.word,
                self.market.waits,
                self._terms.table.due,
                positions,
                self._cursor,
                end,
                limit,
                self._found.slot[self._n_found : self._n_found + room],
            )
            self._n_found += n
            self._n_entered += n
            if self._n_found == self._found.slot.size:
                self._place(tables, moment)
        if self._count is None:
            n_counted = _COUNTED_PER_SECOND * self.sweep_seconds
            n_counted = min(max(n_counted, _N_COUNTED_MIN), _N_COUNTED_MAX)
            stride = max(1, round(moment.n_slots / n_counted))
            price = math.exp2(moment.log2_price) if moment.log2_price > _LOG2_NO_PRICE else 1.0
            self._count = DemandCounter(self._terms, price, N_PRICES_NEAR, stride)
        self._count.add(tables, self._cursor, moment.newcomers_after)

    def _drain(self, tables: Tables, moment: Moment, n_max: int) -> None:
        """Take pages that are due out of the wheel, at most ``n_max``, and place all pages found.

        The others stay in the wheel for the next decision.
        """
        assert self._wheel is not None
        while True:
            room = self._found.slot[self._n_found : self._n_found + n_max]
            n = take_due(self._wheel, moment.now, room)
            n_max -= n
            self._n_found += n
            is_full = n == room.size
            self._place(tables, moment)
            if not is_full or n_max <= 0:
                break

    def _trim(self, tables: Tables, moment: Moment, n_max: int) -> None:
        """Go on dropping the less valuable half of the pages of a market that is nearly full."""
        market = self.market
        if self._trimming is None:
            if market.gauge[M_SIZE] < _FULL_SHARE * self._pool_max:
                return
            keys = np.empty(_N_SAMPLED, np.float32)
            keys = keys[: sample_keys(market, keys)]
            if keys.size == 0:
                return
            floor = min(float(np.sort(keys)[keys.size // 2]), CEILING_FLOOR)
            n_above, n_equal = int((keys > floor).sum()), int((keys == floor).sum())
            equal_share = (keys.size / 2 - n_above) / max(n_equal, 1)
            equal_share = min(max(equal_share, 0.0), 1.0)
            self._trimming = _Trimming(0, floor, equal_share)
            # If some pages exactly at the floor are dropped, no more of them may come in.
            above = float(np.nextafter(np.float32(floor), np.float32(math.inf)))
            self._log2_floor = floor if equal_share == 1.0 else above
        row, floor, equal_share = self._trimming
        row = trim_rows(market, tables.groups, moment.now_ms, floor, equal_share, row, n_max)
        is_done = row >= market.group.size
        self._trimming = None if is_done else _Trimming(row, floor, equal_share)

    def revalue(self, tables: Tables, moment: Moment, n_max: int) -> int:
        """Compute the worth of waiting pages anew, at most ``n_max``, of the next groups.

        A group is revalued as a whole.  Returns what is left of ``n_max`` for a group that needs
        more; 0 if all groups have been visited.
        """
        start, size = self._revalued_to, int(self.market.group.size)
        row, n_done = self._revalue_rows(tables, moment, start, size, n_max)
        is_stopped = row < size
        if not is_stopped:
            row, n = self._revalue_rows(tables, moment, 0, start, n_max - n_done)
            n_done += n
            is_stopped = row < start
        self._revalued_to = row
        return n_max - n_done if is_stopped else 0

    def _revalue_rows(
        self, tables: Tables, moment: Moment, first: int, end: int, n_max: int
    ) -> tuple[int, int]:
        row, n = revalue_rows(
            self.market,
            tables.pages,
            tables.limits,
            tables.groups,
            self._terms,
            moment.now,
            moment.now_ms,
            first,
            end,
            n_max,
        )
        return int(row), int(n)

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
