"""How each page fares at each price: how often it is fetched, and how fresh its copy is.

A price determines after how long each page is fetched again.  With the belief about the page, this
gives the share of time its copy is fresh, in closed form.  `recrawl.corpus.plan.curve` adds the
pages up.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import CountArray, FloatArray, RowArray
from recrawl.core.belief.codes import BeliefCodes, decoded
from recrawl.core.kernel import table_kernel
from recrawl.core.price.due_table import due_periods_of, interval_periods_of
from recrawl.core.price.promise import latest_elapsed
from recrawl.core.value.averaged import averaged_value_of
from recrawl.corpus.inspect.decoded_words import log2_of_codes, taught_terms, words_of
from recrawl.corpus.inspect.page_sample import PageSample, sample_of
from recrawl.corpus.plan.priced_arrays import priced_points
from recrawl.shard import Shard
from recrawl.shard.due import Terms
from recrawl.shard.state.rules import Rules
from recrawl.shard.state.tables import Groups, Pages, Tables
from recrawl.shard.state.words import class_of, log2_period_of, log2_weight_of, shape_of

__all__ = [
    "INTERVAL_SECONDS_MIN",
    "Ceilings",
    "LookedAt",
    "PricedPages",
    "allowed_rate",
    "weights_of",
]

INTERVAL_SECONDS_MIN = 1.0
"""Of all intervals, also of a page that is to be fetched always: pages keep whole seconds, and a
second fetch within one does not count."""

# Pages and prices that a range of prices is found with, and the freshness it runs from and to.
_PAGES_FOR_RANGE = 2_000
_PRICES_FOR_RANGE = 96
_FRESHNESS_MIN, _FRESHNESS_MAX = 0.01, 0.995
_LOG2_TARGET_MIN, _LOG2_TARGET_MAX = -26.0, 20.0
_CLOSED = 2
_HOUR = 3_600.0


class PricedPages(NamedTuple):
    """Pages looked at, one row each, and what becomes of them at each price (columns)."""

    n_pages: FloatArray
    """That each stands for."""
    importance: FloatArray
    cost: FloatArray
    kind: CountArray
    fetch_rate: NDArray[np.float64]
    """Per second."""
    freshness: NDArray[np.float64]
    """Share of the time in which the copy is fresh, or stale for no longer than was asked."""


class Ceilings(NamedTuple):
    """What longest intervals and promises ask for, whatever a fetch is worth."""

    fetches_per_hour: float
    cost_per_hour: float
    n_always: int
    """Pages that may not grow older than the shortest interval that there is."""


def weights_of(priced: PricedPages) -> FloatArray:
    """Return how much pages count by importance; where none has any, each the same."""
    weight: FloatArray = priced.n_pages * priced.importance
    return weight if weight.sum() > 0 else priced.n_pages


@table_kernel
def _fresh_share_of(shape: float, age: float) -> float:
    """Return which share of the time up to an age, in mean periods, a copy is fresh."""
    # Mean of S(s) = (1 + s/a)^-a up to t.  U(t) = ∫S - t S(t), so it is U/t + S(t).
    if not age < math.inf:
        return 0.0
    if age <= 0.0:
        return 1.0
    fresh = math.exp(-shape * math.log1p(age / shape))
    return min(averaged_value_of(shape, shape, age) / age + fresh, 1.0)


@table_kernel
def _kept_share_of(shape: float, age: float, late: float) -> float:
    """Return which share of the time up to an age a copy is fresh, or stale for no longer.

    ``late`` is how long it may be stale, in mean periods as the age.
    """
    # Stale for longer than s at age t if the first change came before t - s.  So the share is
    # (s + ∫₀^{T-s} S) / T: all of the first s, then as fresh as a copy younger by s.
    if late <= 0.0:
        return _fresh_share_of(shape, age)
    if age <= late:
        return 1.0
    if not age < math.inf:
        return 0.0
    return min((late + (age - late) * _fresh_share_of(shape, age - late)) / age, 1.0)


@table_kernel
def _point_of(
    word: np.uint64,
    rules: Rules,
    terms: Terms,
    log2_price: float,
    low: float,
    high: float,
    late_seconds: float,
) -> tuple[float, float]:
    """Return how often a page is fetched at a price, per second, and which share it is fresh.

    ``low`` and ``high`` are the seconds between which its limits put the interval.  A copy that
    is stale for no longer than ``late_seconds`` counts as fresh.
    """
    table = terms.table
    shape_code, class_code = shape_of(word), class_of(word)
    shape = float(table.shapes[shape_code])
    log2_period = log2_period_of(word)
    period = math.exp2(log2_period)
    late = late_seconds / period
    log2_target = log2_price - log2_weight_of(word) - log2_period - terms.log2_bonus[shape_code]
    age = due_periods_of(table, shape_code, class_code, log2_target)
    n_levels = rules.precision.size
    if class_code == 0 or class_code > rules.recall.size * n_levels:
        age = max(min(age, high / period), low / period)
        if not age < math.inf:
            return 0.0, 0.0
        return 1.0 / (age * period), _kept_share_of(shape, age, late)
    interval = interval_periods_of(table, shape_code, class_code, log2_target)
    bounded = max(min(interval, high / period), low / period)
    if bounded != interval:
        # Fetched at that interval with signals or without, and all changes count.
        missed = 1.0 - rules.recall[(class_code - 1) // n_levels]
        share = _kept_share_of(shape, bounded / missed, late / missed)
        return 1.0 / (bounded * period), share
    if not interval < math.inf:
        return 0.0, 0.0
    # Signals Theorem 1: fresh for w = V + P(fresh at the fetch) ψ of every ψ.
    fresh = math.exp(-shape * math.log1p(age / shape))
    share = min(math.exp2(log2_target + terms.log2_bonus[shape_code]) / interval + fresh, 1.0)
    if late > 0.0 and age < math.inf:
        # Of its stale time as much is late as with fetches at its longest interval: no less, as
        # signals cut others short.
        stale = 1.0 - _fresh_share_of(shape, age)
        late_share = 1.0 - _kept_share_of(shape, age, late)
        share = 1.0 - (1.0 - share) * (late_share / stale if stale > 0.0 else 0.0)
    return 1.0 / (interval * period), share


@table_kernel
def _points(
    pages: Pages,
    rules: Rules,
    terms: Terms,
    slot: RowArray,
    bounds: FloatArray,
    log2_price: FloatArray,
    late_seconds: float,
    fetch_rate: FloatArray,
    freshness: FloatArray,
) -> None:
    for i in range(slot.size):
        word = pages.word[slot[i]]
        for k in range(log2_price.size):
            fetch_rate[i, k], freshness[i, k] = _point_of(
                word, rules, terms, log2_price[k], bounds[i, 0], bounds[i, 1], late_seconds
            )


def _bounds(tables: Tables, slot: RowArray) -> FloatArray:
    """Return the shortest and the longest interval that limits and promises leave to pages."""
    row = tables.pages.limits[slot]
    limits = tables.limits
    bounds: FloatArray = np.stack([limits.interval_min[row], limits.interval_max[row]], axis=1)
    promised = np.flatnonzero(limits.stale_probability[row] > 0)
    if promised.size:
        of = slot[promised]
        codes = BeliefCodes(tables.pages.belief_shape[of], tables.pages.belief_seconds[of])
        latest = latest_elapsed(
            decoded(codes),
            stale_for=limits.stale_for[row[promised]],
            probability=limits.stale_probability[row[promised]],
        )
        bounds[promised, 1] = np.minimum(bounds[promised, 1], latest)
    return np.maximum(bounds, INTERVAL_SECONDS_MIN)


class _Part:
    """One shard's pages that are looked at."""

    def __init__(self, shard: Shard, sample: PageSample) -> None:
        self._shard = shard
        self.sample = sample
        self._terms = taught_terms(shard)
        self._bounds = _bounds(shard.tables, sample.slot)
        pages = shard.tables.pages
        words = words_of(pages.word[sample.slot])
        log2_cost = log2_of_codes(np.maximum(pages.cost[sample.slot], 1))
        self._cost = np.exp2(log2_cost)
        # With what requests add, and less what cannot go wrong, as the word has it.
        self._importance = np.exp2(words.log2_weight + log2_cost)
        self._importance[pages.importance[sample.slot] == 0] = 0.0
        self.scale = words.log2_weight + words.log2_period

    def ceilings(self) -> Ceilings:
        """Return what longest intervals and promises ask for."""
        # A floor goes before a ceiling.
        rate = self.sample.n_pages / self._bounds.max(axis=1)
        is_always = self._bounds[:, 1] <= INTERVAL_SECONDS_MIN
        return Ceilings(
            _HOUR * float(rate.sum()),
            _HOUR * float(rate @ self._cost),
            round(float(self.sample.n_pages[is_always].sum())),
        )

    def at(
        self, price: FloatArray, rows: RowArray, *, late_seconds: float, is_capped: bool
    ) -> PricedPages:
        """Return what becomes of some of the pages, which stand for all, at each price."""
        n, slot = self.sample.slot.size, self.sample.slot[rows]
        tables, rules = self._shard.tables, self._shard.rules
        fetch_rate, freshness = priced_points(
            tables.pages.word[slot],
            rules,
            self._terms,
            self._bounds[rows],
            np.log2(price),
            late_seconds,
        )
        priced = PricedPages(
            self.sample.n_pages[rows] * n / max(rows.size, 1),
            self._importance[rows],
            self._cost[rows],
            tables.pages.kind[slot].astype(np.int64),
            fetch_rate,
            freshness,
        )
        if is_capped:
            _cap_groups(tables, slot, priced)
        return priced


def allowed_rate(groups: Groups, group: NDArray[np.uint32]) -> FloatArray:
    """Return how many fetches per second the delays of groups allow; none where closed."""
    with np.errstate(divide="ignore"):
        most: FloatArray = 1_000.0 / groups.delay_ms[group]
    most[(groups.flags[group] & _CLOSED) > 0] = 0.0
    return most


def _cap_groups(tables: Tables, slot: RowArray, priced: PricedPages) -> None:
    """Let groups sell no more than their delay allows: to their own best pages.

    From the price down at which a group sells as much as it may, its pages stay as they are at
    that price.
    """
    groups = tables.groups
    group, of_page = np.unique(tables.pages.group[slot], return_inverse=True)
    most = allowed_rate(groups, group)
    n_looked_at = np.bincount(of_page, minlength=group.size)
    # Rates rise as prices fall, so that the last column has the most.
    last = np.bincount(of_page, priced.fetch_rate[:, -1], minlength=group.size)
    full = np.flatnonzero(last * (groups.n_pages[group] / n_looked_at) > most)
    place = np.full(group.size, -1)
    place[full] = np.arange(full.size)
    rows = np.flatnonzero(place[of_page] >= 0)
    of = place[of_page[rows]]
    demand = np.zeros((full.size, priced.fetch_rate.shape[1]))
    np.add.at(demand, of, priced.fetch_rate[rows])
    demand *= (groups.n_pages[group[full]] / n_looked_at[full])[:, None]
    # Prices fall from column to column; from column k on the group asks for more than it may have.
    k = np.argmax(demand[of] > most[full][of, None], axis=1)
    before = _before(demand, of, k)
    share = (most[full][of] - before) / (demand[of, k] - before)
    is_beyond = np.arange(demand.shape[1]) >= k[:, None]
    for column in (priced.fetch_rate, priced.freshness):
        before = _before(column, rows, k)
        end = before + share * (column[rows, k] - before)
        column[rows] = np.where(is_beyond, end[:, None], column[rows])


def _before(column: FloatArray, rows: RowArray, k: RowArray) -> FloatArray:
    """Return what stands before column k, 0 before the first: ceilings alone ask for too much."""
    before: FloatArray = np.where(k > 0, column[rows, np.maximum(k - 1, 0)], 0.0)
    return before


class LookedAt:
    """Pages of a corpus, all or some that stand for all, to ask what becomes of them at prices.

    Parameters
    ----------
    shards
        Of one corpus.
    n_pages_max
        Pages to look at.
    """

    def __init__(self, shards: Sequence[Shard], n_pages_max: int) -> None:
        self.shards = tuple(shards)
        total = max(sum(shard.n_pages for shard in shards), 1)
        quotas = [max(-(-n_pages_max * shard.n_pages // total), 1) for shard in shards]
        self._parts = [
            _Part(shard, sample_of(shard.tables, quota))
            for shard, quota in zip(shards, quotas, strict=True)
        ]

    @property
    def slots(self) -> list[RowArray]:
        """The slots of each shard's pages; all of them one after the other are the rows."""
        return [part.sample.slot for part in self._parts]

    def at(
        self, price: FloatArray, *, late_seconds: float = 0.0, is_capped: bool = True
    ) -> PricedPages:
        """Return what becomes of the pages at falling prices.

        Parameters
        ----------
        price
            What a fetch must be worth.
        late_seconds
            How long a copy may be stale and still count as fresh.
        is_capped
            Whether the delays of groups hold.
        """
        return self._priced(price, None, late_seconds=late_seconds, is_capped=is_capped)

    def ceilings(self) -> Ceilings:
        """Return what longest intervals and promises ask for, delays of groups or not."""
        each = [part.ceilings() for part in self._parts]
        return Ceilings(
            sum(one.fetches_per_hour for one in each),
            sum(one.cost_per_hour for one in each),
            sum(one.n_always for one in each),
        )

    def prices(self, n: int) -> FloatArray:
        """Return falling prices between which freshness goes from almost none to almost all."""
        scales = np.concatenate([part.scale for part in self._parts])
        if scales.size == 0:
            return np.exp2(np.linspace(_LOG2_TARGET_MAX, _LOG2_TARGET_MIN, n))
        low, high = scales.min() + _LOG2_TARGET_MIN, scales.max() + _LOG2_TARGET_MAX
        price = np.exp2(np.linspace(high, low, _PRICES_FOR_RANGE))
        priced = self._priced(price, _PAGES_FOR_RANGE, late_seconds=0.0, is_capped=False)
        weights = priced.n_pages, weights_of(priced)
        both = [each @ priced.freshness / max(each.sum(), 1e-300) for each in weights]
        first = min(int(np.argmax(freshness >= _FRESHNESS_MIN)) for freshness in both)
        last = max(int(np.argmax(freshness >= _FRESHNESS_MAX)) for freshness in both)
        ends = price[max(first - 1, 0)], price[last if last > 0 else -1]
        return np.geomspace(*ends, n)

    def _priced(
        self, price: FloatArray, n_max: int | None, *, late_seconds: float, is_capped: bool
    ) -> PricedPages:
        pieces = []
        for part in self._parts:
            n = part.sample.slot.size
            rows = np.arange(0, n, max(n // n_max, 1)) if n_max else np.arange(n)
            pieces.append(part.at(price, rows, late_seconds=late_seconds, is_capped=is_capped))
        return PricedPages(*(np.concatenate(columns) for columns in zip(*pieces, strict=True)))
