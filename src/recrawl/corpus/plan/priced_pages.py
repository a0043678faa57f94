"""How often each page is fetched at each price, and how fresh its copy is.

A price determines after how long each page is fetched again.  With the belief about the page, this
gives the share of time its copy is fresh, in closed form.  `recrawl.corpus.plan.curve` adds the
pages up.

All of it is plain numpy, because `recrawl plan` finishes before a compiler could be loaded.  The
tests compare the arrays with kernels that compute one page at a time.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import CountArray, FloatArray, RowArray
from recrawl.core.price.due_table import LOG2_NEVER, DueTable
from recrawl.core.price.learning_rows import writable_copy, write_learning_rows
from recrawl.corpus.inspect.decoded_words import Words, due_periods, log2_of_codes, words_of
from recrawl.corpus.plan.merged_hosts import MergedHosts
from recrawl.corpus.plan.planned_partition import (
    INTERVAL_SECONDS_MIN,
    PlannedPartition,
    page_quotas,
    read_shard,
)
from recrawl.giving_way import give_way
from recrawl.shard import Shard
from recrawl.shard.due import Terms

__all__ = [
    "Ceilings",
    "PricedPages",
    "SampledPages",
    "SignalLevels",
    "priced_points",
    "weights_of",
]

# Numbers of pages and prices for finding the range of prices, and the freshness at its ends.
_PAGES_FOR_RANGE = 2_000
_PRICES_FOR_RANGE = 96
_FRESHNESS_MIN, _FRESHNESS_MAX = 0.01, 0.995
_LOG2_TARGET_MIN, _LOG2_TARGET_MAX = -26.0, 20.0
_HOUR = 3_600.0
# Points computed together, so that their intermediate arrays stay in the processor's cache.
_POINTS_AT_ONCE = 1 << 15


class SignalLevels(Protocol):
    """Levels of recall and precision, each pair of which is a class of signals."""

    @property
    def recall(self) -> FloatArray:
        """Levels of recall."""
        ...

    @property
    def precision(self) -> FloatArray:
        """Levels of precision."""
        ...


class PricedPages(NamedTuple):
    """Sampled pages (rows), and their fetch rate and freshness at each price (columns)."""

    n_pages: FloatArray
    """Number of pages that each represents."""
    importance: FloatArray
    cost: FloatArray
    kind: CountArray
    fetch_rate: NDArray[np.float64]
    """Fetches per second."""
    freshness: NDArray[np.float64]
    """Share of the time in which the copy is fresh, or not stale for longer than allowed."""


class Ceilings(NamedTuple):
    """Fetches that max_age and staleness limits need at any price."""

    fetches_per_hour: float
    cost_per_hour: float
    n_always: int
    """Number of pages that may not grow older than `INTERVAL_SECONDS_MIN`."""


def weights_of(priced: PricedPages) -> FloatArray:
    """Return the weights of pages by importance; equal ones if no page has any."""
    weight: FloatArray = priced.n_pages * priced.importance
    return weight if weight.sum() > 0 else priced.n_pages


class _PricedPart:
    """The sampled pages of one partition, and what turns their words into fetch rates."""

    def __init__(self, part: PlannedPartition, terms: Terms) -> None:
        self.part = part
        self._terms = terms
        words = words_of(part.word)
        log2_cost = log2_of_codes(np.maximum(part.cost_code, 1))
        self._cost = np.exp2(log2_cost)
        # The word has the importance with requests added and without unchangeable content.
        self._importance = np.exp2(words.log2_weight + log2_cost)
        self._importance[~part.is_important] = 0.0
        self.scale = words.log2_weight + words.log2_period

    def ceilings(self) -> Ceilings:
        """Return the fetches that max_age and staleness limits need."""
        # min_age takes precedence over max_age.
        n_pages, bounds = self.part.n_represented, self.part.bounds
        rate = n_pages / bounds.max(axis=1)
        is_always = bounds[:, 1] <= INTERVAL_SECONDS_MIN
        return Ceilings(
            _HOUR * float(rate.sum()),
            _HOUR * float(rate @ self._cost),
            round(float(n_pages[is_always].sum())),
        )

    def at(self, price: FloatArray, rows: RowArray, *, late_seconds: float) -> PricedPages:
        """Return fetch rates and freshness of some rows, which represent all, at each price."""
        part = self.part
        fetch_rate, freshness = priced_points(
            part.word[rows],
            part.terms,
            self._terms,
            part.bounds[rows],
            np.log2(price),
            late_seconds,
        )
        return PricedPages(
            part.n_represented[rows] * part.word.size / max(rows.size, 1),
            self._importance[rows],
            self._cost[rows],
            part.kind[rows].astype(np.int64),
            fetch_rate,
            freshness,
        )


def _terms_of(parts: Sequence[PlannedPartition]) -> list[Terms]:
    """Return the terms of partitions, each at its learning horizon; tables are shared."""
    by_horizon: dict[float, DueTable] = {}
    found = []
    for part in parts:
        table, horizon = part.terms.table, part.terms.learning_horizon
        if horizon is not None:
            if horizon not in by_horizon:
                by_horizon[horizon] = writable_copy(table)
                write_learning_rows(by_horizon[horizon], horizon)
            table = by_horizon[horizon]
        found.append(Terms(table, part.terms.log2_bonus))
    return found


def _cap_hosts(hosts: MergedHosts, priced: PricedPages) -> None:
    """Limit the fetches of hosts to what their delays allow; their best pages get them.

    Below the price at which a host reaches its limit, its pages stay as they are at that price.
    """
    # Rates rise as prices fall, so the last column has the highest.
    full = np.flatnonzero(hosts.total(priced.fetch_rate[:, -1]) > hosts.allowed_rate)
    rows, of, demand = hosts.totals(priced.fetch_rate, full)
    most = hosts.allowed_rate[full][of]
    # Prices fall from column to column; from column k on the host exceeds its limit.
    k = np.argmax(demand[of] > most[:, None], axis=1)
    before = _before(demand, of, k)
    share = (most - before) / (demand[of, k] - before)
    is_beyond = np.arange(demand.shape[1]) >= k[:, None]
    for column in (priced.fetch_rate, priced.freshness):
        before = _before(column, rows, k)
        end = before + share * (column[rows, k] - before)
        column[rows] = np.where(is_beyond, end[:, None], column[rows])


def _before(column: FloatArray, rows: RowArray, k: RowArray) -> FloatArray:
    """Return the value before column k; 0 before the first, where limits alone exceed the delay."""
    before: FloatArray = np.where(k > 0, column[rows, np.maximum(k - 1, 0)], 0.0)
    return before


class SampledPages:
    """All pages of a corpus or a sample, to compute fetch rates and freshness at prices.

    Parameters
    ----------
    parts
        Partitions of one corpus with their sampled pages, which in sequence are the rows.
    """

    def __init__(self, parts: Sequence[PlannedPartition]) -> None:
        self.parts = tuple(parts)
        self.hosts = MergedHosts(self.parts)
        """The hosts of the pages."""
        self._parts = [
            _PricedPart(part, terms)
            for part, terms in zip(self.parts, _terms_of(self.parts), strict=True)
        ]

    @classmethod
    def of_shards(cls, shards: Sequence[Shard], n_pages_max: int) -> Self:
        """Return a sample of the pages of shards that nobody changes meanwhile."""
        quotas = page_quotas([shard.n_pages for shard in shards], n_pages_max)
        pairs = zip(shards, quotas, strict=True)
        return cls([read_shard(shard, n, partition=i) for i, (shard, n) in enumerate(pairs)])

    def at(
        self, price: FloatArray, *, late_seconds: float = 0.0, is_capped: bool = True
    ) -> PricedPages:
        """Return fetch rates and freshness of the pages at falling prices.

        Parameters
        ----------
        price
            Prices that the value of a fetch must reach.
        late_seconds
            Time that a copy may be stale and still count as fresh.
        is_capped
            Whether the delays of hosts limit the fetch rates.
        """
        return self._price_sample(price, None, late_seconds=late_seconds, is_capped=is_capped)

    def ceilings(self) -> Ceilings:
        """Return the fetches that max_age and staleness limits need, regardless of delays."""
        each = [part.ceilings() for part in self._parts]
        return Ceilings(
            sum(one.fetches_per_hour for one in each),
            sum(one.cost_per_hour for one in each),
            sum(one.n_always for one in each),
        )

    def prices(self, n: int) -> FloatArray:
        """Return falling prices over which freshness goes from almost 0 to almost 1."""
        scales = np.concatenate([part.scale for part in self._parts])
        if scales.size == 0:
            return np.exp2(np.linspace(_LOG2_TARGET_MAX, _LOG2_TARGET_MIN, n))
        low, high = scales.min() + _LOG2_TARGET_MIN, scales.max() + _LOG2_TARGET_MAX
        price = np.exp2(np.linspace(high, low, _PRICES_FOR_RANGE))
        priced = self._price_sample(price, _PAGES_FOR_RANGE, late_seconds=0.0, is_capped=False)
        weights = priced.n_pages, weights_of(priced)
        both = [each @ priced.freshness / max(each.sum(), 1e-300) for each in weights]
        first = min(int(np.argmax(freshness >= _FRESHNESS_MIN)) for freshness in both)
        last = max(int(np.argmax(freshness >= _FRESHNESS_MAX)) for freshness in both)
        ends = price[max(first - 1, 0)], price[last if last > 0 else -1]
        return np.geomspace(*ends, n)

    def _price_sample(
        self, price: FloatArray, n_max: int | None, *, late_seconds: float, is_capped: bool
    ) -> PricedPages:
        pieces = []
        for part in self._parts:
            n = part.part.word.size
            rows = np.arange(0, n, max(n // n_max, 1)) if n_max else np.arange(n)
            pieces.append(part.at(price, rows, late_seconds=late_seconds))
        priced = PricedPages(*(np.concatenate(columns) for columns in zip(*pieces, strict=True)))
        if is_capped and n_max is None:
            _cap_hosts(self.hosts, priced)
        return priced


# ---------------------------------------------------------------- rates and freshness of pages


def priced_points(
    word: NDArray[np.uint64],
    levels: SignalLevels,
    terms: Terms,
    bounds: FloatArray,
    log2_price: FloatArray,
    late_seconds: float,
) -> tuple[FloatArray, FloatArray]:
    """Return the fetch rates and the freshness of pages (rows) at prices (columns).

    Parameters
    ----------
    word
        Words of the pages.
    levels, terms
        Levels of signals and terms of their shard.
    bounds
        Shortest and longest interval of each page in seconds, in two columns.
    log2_price
        log2 of each price.
    late_seconds
        Time that a copy may be stale and still count as fresh.
    """
    shape = (word.size, log2_price.size)
    fetch_rate, freshness = np.empty(shape), np.empty(shape)
    code = words_of(word).class_code
    has_signals = (code > 0) & (code <= levels.recall.size * levels.precision.size)
    n_rows = max(_POINTS_AT_ONCE // max(log2_price.size, 1), 1)
    for with_signals in (False, True):
        own = np.flatnonzero(has_signals == with_signals)
        for first in range(0, own.size, n_rows):
            give_way()
            rows = own[first : first + n_rows]
            arguments = words_of(word[rows]), terms, bounds[rows], log2_price, late_seconds
            found = (
                _signal_points(levels, *arguments) if with_signals else _plain_points(*arguments)
            )
            fetch_rate[rows], freshness[rows] = found
    return fetch_rate, freshness


def _targets(words: Words, terms: Terms, log2_price: FloatArray) -> FloatArray:
    """Return log2 of price over weight and period, and what a poll teaches."""
    own = words.log2_weight + words.log2_period + terms.log2_bonus[words.shape_code]
    targets: FloatArray = log2_price - own[:, None]
    return targets


def _ages(words: Words, table: DueTable, log2_target: FloatArray) -> FloatArray:
    shape_code, class_code = words.shape_code[:, None], words.class_code[:, None]
    codes = np.broadcast_to(shape_code, log2_target.shape)
    classes = np.broadcast_to(class_code, log2_target.shape)
    ages = due_periods(table, codes.ravel(), classes.ravel(), log2_target.ravel())
    return ages.reshape(log2_target.shape)


def _clip_to_bounds(age: FloatArray, bounds: FloatArray, period: FloatArray) -> FloatArray:
    low, high = bounds[:, :1] / period, bounds[:, 1:] / period
    inside: FloatArray = np.maximum(np.minimum(age, high), low)
    return inside


def _rates(age: FloatArray, period: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        rates: FloatArray = 1.0 / (age * period)
    return rates


def _plain_points(
    words: Words,
    terms: Terms,
    bounds: FloatArray,
    log2_price: FloatArray,
    late_seconds: float,
) -> tuple[FloatArray, FloatArray]:
    """Return points of pages without signals."""
    shape = terms.table.shapes[words.shape_code][:, None]
    period = np.exp2(words.log2_period)[:, None]
    age = _ages(words, terms.table, _targets(words, terms, log2_price))
    age = _clip_to_bounds(age, bounds, period)
    return _rates(age, period), _in_time_share(shape, age, late_seconds / period)


def _signal_points(
    levels: SignalLevels,
    words: Words,
    terms: Terms,
    bounds: FloatArray,
    log2_price: FloatArray,
    late_seconds: float,
) -> tuple[FloatArray, FloatArray]:
    """Return points of pages with signals."""
    table = terms.table
    shape = table.shapes[words.shape_code][:, None]
    period = np.exp2(words.log2_period)[:, None]
    late = late_seconds / period
    log2_target = _targets(words, terms, log2_price)
    age = _ages(words, table, log2_target)
    interval = _intervals(words, table, log2_target, age)
    bounded = _clip_to_bounds(interval, bounds, period)
    # Fetched at that interval with signals or without, and all changes count.
    missed = 1.0 - levels.recall[(words.class_code - 1) // levels.precision.size][:, None]
    at_bound = _in_time_share(shape, bounded / missed, late / missed)
    # Signals Theorem 1: fresh for w = V + P(fresh at the fetch) ψ of every ψ.
    with np.errstate(over="ignore"):
        fresh = np.exp(-shape * np.log1p(age / shape))
        value = np.exp2(log2_target + terms.log2_bonus[words.shape_code][:, None])
        share = np.where(interval < np.inf, np.minimum(value / interval + fresh, 1.0), 0.0)
    if late_seconds > 0.0:
        # Of its stale time as much is late as with fetches at its longest interval.
        stale = 1.0 - _in_time_share(shape, age, np.zeros_like(late))
        with np.errstate(divide="ignore", invalid="ignore"):
            late_share = (1.0 - _in_time_share(shape, age, late)) / stale
        is_late = np.where(stale > 0.0, late_share, 0.0)
        share = np.where(age < np.inf, 1.0 - (1.0 - share) * is_late, share)
    return _rates(bounded, period), np.where(bounded != interval, at_bound, share)


def _intervals(
    words: Words, table: DueTable, log2_target: FloatArray, age: FloatArray
) -> FloatArray:
    """Return mean times between fetches; see `due_table.interval_periods_of`."""
    n_targets = table.due.shape[2]
    position = (log2_target - table.log2_target_min) / table.log2_target_step
    i = np.clip(position, 0.0, n_targets - 1.0).astype(np.int64)
    after = np.minimum(i + 1, n_targets - 1)
    shape_code, class_code = words.shape_code[:, None], words.class_code[:, None]

    def ratio(at: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
        due = table.due[shape_code, class_code, at].astype(np.float64)
        return table.interval[shape_code, class_code, at] - due, due

    (here, _), (there, due_there) = ratio(i), ratio(after)
    share = position - i
    is_between = (share > 0.0) & (share < 1.0) & (i + 1 < n_targets) & (due_there < LOG2_NEVER)
    log2_ratio = here + np.where(is_between, share * (there - here), 0.0)
    with np.errstate(invalid="ignore"):
        intervals: FloatArray = np.where(np.isinf(age), np.inf, age * np.exp2(log2_ratio))
    return intervals


def _fresh_share(shape: FloatArray, age: FloatArray) -> FloatArray:
    """Return which share of the time up to finite ages, in mean periods, copies are fresh."""
    # Mean of S(s) = (1 + s/a)^-a up to t: with l = log(1 + t/a) it is (a l / t) φ((a-1) l),
    # φ(x) = (1 - e^-x)/x.
    growth = np.log1p(age / shape)
    x = (shape - 1.0) * growth
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        mean_decay = np.where(np.abs(x) > 1e-8, -np.expm1(-x) / x, 1.0 - 0.5 * x)
        share = np.where(age > 0.0, shape * growth / age * mean_decay, 1.0)
    fresh: FloatArray = np.minimum(share, 1.0)
    return fresh


def _in_time_share(shape: FloatArray, age: FloatArray, late: FloatArray) -> FloatArray:
    """Return which share of the time copies are fresh, or stale for no longer than is late."""
    is_ever = age < np.inf
    finite = np.where(is_ever, age, 1.0)
    over = np.maximum(finite - late, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.minimum((late + over * _fresh_share(shape, over)) / finite, 1.0)
    # A copy meets the target all the time before it can be late, and at age 0.
    in_time: FloatArray = np.where(is_ever, np.where(over > 0.0, share, 1.0), 0.0)
    in_time[(late > 0.0) & (age <= late)] = 1.0
    return in_time
