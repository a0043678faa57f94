"""Look up the age at which a page is due, from a few small codes.

Measure time in units of a page's own mean period (seconds / shape of its belief).  The averaged
value then depends only on the shape of the belief and on the precision and recall of the signals.
The age at which the value reaches a price depends on the same three, once the price is divided by
the page's weight and period.  So one table serves all rates, weights and prices, and a new price
needs no new table.

The divergence of a page that churns or is edited piece by piece has the same curve as its chance
of being stale, so such pages need no rows of their own.  Pages that scroll need a few rows.
"""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import ArrayLike, FloatArray
from recrawl.core.kernel import kernel
from recrawl.core.price.due import averaged_due_elapsed_of
from recrawl.core.value.averaged import belief_log_rates
from recrawl.core.value.noisy import value_and_interval_of
from recrawl.core.value.scroll import scroll_value_of

__all__ = ["DueCodes", "DueTable", "build_due_table", "due_periods_of", "interval_periods_of"]

# Stands for "never": an age no page reaches, finite so that look-ups can interpolate.
LOG2_NEVER = 40.0
# Range of the tabulated ages, as log2 of mean periods.
_LOG2_AGE_MIN = -16.0
_LOG2_AGE_MAX = 24.0
# Grid steps per octave of rates and of ages, while a table is built.
_RATES_PER_OCTAVE = 4
_AGES_PER_OCTAVE = 4
# The same for scroll pages, whose values bend more sharply the more items they have.
_SCROLL_STEPS_PER_OCTAVE = 16
_SCROLL_AGES_PER_OCTAVE = 8
# Range of rates of scroll pages, log2 per mean period; others add less than 1e-6 of a value.
_SCROLL_LOG2_RATE_MIN = -50.0
_SCROLL_LOG2_RATE_MAX = 10.0


def _logit_levels(low: float, high: float, n_levels: int) -> FloatArray:
    """Return levels between two shares, evenly spaced in a softened logit, ends included."""
    soft = 0.01
    ends = np.log((np.array([low, high]) + soft) / (1 - np.array([low, high]) + soft))
    share = 1 / (1 + np.exp(-np.linspace(ends[0], ends[1], n_levels)))
    levels: FloatArray = np.clip(share * (1 + 2 * soft) - soft, low, high)
    return levels


@dataclass(frozen=True, slots=True, kw_only=True)
class DueCodes:
    """The codes that a due table is indexed by: 5 bits of shape, 10 bits of class.

    Class 0 is for pages without signals, or with uninformative ones.  The signal classes that
    follow are pairs of recall and precision.  With the defaults, rounding to codes costs less than
    0.1 % of freshness.  The last classes are for scroll pages without signals, one for each of a
    few numbers of items; `scroll_ratio` rescales a page to the nearest of these numbers.

    Parameters
    ----------
    shape_log2_min, shape_log2_step, n_shapes
        Grid of belief shapes, one code each.
    recall, precision
        Levels of recall and precision; each pair of them is a signal class.
    scroll_items
        Numbers of items of the scroll classes, ascending.
    log2_target_min, log2_target_step, n_targets
        Grid of prices, in units of weight × mean period.
    """

    shape_log2_min: float = -4.0
    shape_log2_step: float = 0.33
    n_shapes: int = 32
    recall: FloatArray = field(default_factory=lambda: _logit_levels(0.01, 0.995, 24)[1:])
    precision: FloatArray = field(default_factory=lambda: _logit_levels(0.002, 0.999, 42))
    scroll_items: tuple[int, ...] = (2, 3, 5, 8, 13, 21, 40, 80)
    log2_target_min: float = -26.0
    log2_target_step: float = 0.25
    n_targets: int = 145

    @property
    def n_classes(self) -> int:
        """Number of signal classes, including class 0."""
        return 1 + self.recall.size * self.precision.size

    @property
    def n_codes(self) -> int:
        """Number of class codes: the signal classes, then those of scroll pages."""
        return self.n_classes + len(self.scroll_items)

    def shapes(self) -> FloatArray:
        """Return the shape that each code stands for."""
        codes = np.arange(self.n_shapes, dtype=np.float64)
        shapes: FloatArray = np.exp2(self.shape_log2_min + self.shape_log2_step * codes)
        return shapes

    def shape_code(self, shape: ArrayLike) -> NDArray[np.uint8]:
        """Return the code of the nearest shape."""
        code = np.rint((np.log2(shape) - self.shape_log2_min) / self.shape_log2_step)
        return np.clip(code, 0, self.n_shapes - 1).astype(np.uint8)

    def class_code(self, recall: ArrayLike, precision: ArrayLike) -> NDArray[np.uint16]:
        """Return the class of pages whose signals have this recall and precision."""
        r = np.nan_to_num(np.asarray(recall, dtype=np.float64))
        row = _nearest(self.recall, r)
        column = _nearest(self.precision, np.asarray(precision, dtype=np.float64))
        code = 1 + row * self.precision.size + column
        return np.where(r < 0.5 * self.recall[0], 0, code).astype(np.uint16)

    def class_quality(self, class_code: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return the recall and precision that classes stand for; zeros for other classes."""
        code = np.asarray(class_code, dtype=np.int64)
        with_signals = (code > 0) & (code < self.n_classes)
        row, column = np.divmod(np.where(with_signals, code - 1, 0), self.precision.size)
        return self.recall[row] * with_signals, self.precision[column] * with_signals

    def scroll_code(self, n_items: ArrayLike) -> NDArray[np.uint16]:
        """Return the class of pages on which this many items scroll; 0 for less than two items."""
        n = np.asarray(n_items, dtype=np.float64)
        levels = np.asarray(self.scroll_items, dtype=np.float64)
        code = self.n_classes + _nearest(np.log1p(levels), np.log1p(n))
        return np.where(n < 2.0, 0, code).astype(np.uint16)

    def class_items(self, class_code: ArrayLike) -> NDArray[np.int64]:
        """Return the number of items that scroll classes stand for; 1 for other classes."""
        items = np.array([1, *self.scroll_items], dtype=np.int64)
        row = np.maximum(np.asarray(class_code, dtype=np.int64) - self.n_classes + 1, 0)
        return items[row]

    def scroll_ratio(self, n_items: ArrayLike, ceiling: ArrayLike = 1.0) -> FloatArray:
        """Return the factor by which a scroll page is faster than the page of its class.

        To look a page up, divide its mean period by this factor and multiply its weight by
        ``ceiling``.  Its value then rises from 0 with the same slope as that of the class.  Due
        times have an error of up to 2 % if all content scrolls (ceiling 1), and of up to 15 % if
        the static part is so large that the ceiling is a half.

        Parameters
        ----------
        n_items
            Items on the page (K), at least 1.
        ceiling
            Divergence after a long time, 2K / (S + 2K) with a static part of S items.
        """
        # The first step of h_j = 2j/(S+K+j) is 2/(S+K+1); that of the class, L items, c · 2/(L+1).
        n = np.asarray(n_items, dtype=np.float64)
        share = np.asarray(ceiling, dtype=np.float64)
        level = self.class_items(self.scroll_code(n))
        # The denominator is c (S+K+1) with S = 2K (1/c - 1).
        ratio: FloatArray = (level + 1.0) / (2.0 * n + share * (1.0 - n))
        return ratio


def _nearest(levels: FloatArray, shares: FloatArray) -> NDArray[np.int64]:
    middles = (levels[1:] + levels[:-1]) / 2
    return np.searchsorted(middles, shares)


class DueTable(NamedTuple):
    """Ages at which pages are due and their fetch intervals: 36 MB with the default codes.

    Both are log2 of mean periods, indexed by shape code, class code and target.  Target k is the
    price at which log2 of price / (weight × mean period) is
    ``log2_target_min + k * log2_target_step``.  ``due`` is an effective age, and ``interval`` the
    mean time until a page reaches it, which signals shorten.  ``limit`` is the value of a page at
    a very high age, in weight × mean period.
    """

    due: NDArray[np.float32]
    interval: NDArray[np.float32]
    limit: FloatArray
    shapes: FloatArray
    log2_target_min: float
    log2_target_step: float


@kernel
def due_periods_of(table: DueTable, shape_code: int, class_code: int, log2_target: float) -> float:
    """Return the effective age, in mean periods, at which a page is due; inf if never.

    ``log2_target`` is log2 of price / (weight × mean period).
    """
    row = table.due[shape_code, class_code]
    position = (log2_target - table.log2_target_min) / table.log2_target_step
    if position < 0.0:
        # The value reaches so low a price long before a change: the age is proportional to √price.
        return math.exp2(float(row[0]) + 0.5 * position * table.log2_target_step)
    i = min(int(position), row.size - 2)
    if row[i] >= LOG2_NEVER:
        return math.inf
    if row[i + 1] < LOG2_NEVER:
        share = min(position - i, 1.0)
        return math.exp2(float(row[i]) * (1.0 - share) + float(row[i + 1]) * share)
    # The value reaches its limit L within this step.  Its distance to L is proportional to the
    # chance (1 + t/a)^-a of being fresh, times t where ψ grows: extrapolate from the last entry.
    limit = table.limit[shape_code, class_code]
    target = math.exp2(log2_target)
    if target >= limit or math.isinf(limit):
        return math.inf
    last = math.exp2(table.log2_target_min + i * table.log2_target_step)
    shape = float(table.shapes[shape_code])
    growth = math.log((limit - last) / (limit - target)) / max(shape - 1.0, 0.5 * shape)
    age = math.exp2(float(row[i]))
    return age + (shape + age) * math.expm1(min(growth, 60.0))


@kernel
def interval_periods_of(
    table: DueTable, shape_code: int, class_code: int, log2_target: float
) -> float:
    """Return the mean time between fetches of a page, in mean periods; inf if it is never due.

    The arguments are those of `due_periods_of`.
    """
    age = due_periods_of(table, shape_code, class_code, log2_target)
    if math.isinf(age):
        return age
    # Interpolate the ratio of interval to age, which is nearly constant.
    position = (log2_target - table.log2_target_min) / table.log2_target_step
    i = int(min(max(position, 0.0), table.due.shape[2] - 1.0))
    due = table.due[shape_code, class_code]
    interval = table.interval[shape_code, class_code]
    log2_ratio = float(interval[i]) - float(due[i])
    share = position - i
    if 0.0 < share < 1.0 and i + 1 < due.size and due[i + 1] < LOG2_NEVER:
        log2_ratio += share * (float(interval[i + 1]) - float(due[i + 1]) - log2_ratio)
    return age * math.exp2(log2_ratio)


def build_due_table(codes: DueCodes | None = None, classes: ArrayLike | None = None) -> DueTable:
    """Build the table for these codes; a table of all classes takes a few seconds.

    Parameters
    ----------
    codes
        Codes of the table; the defaults if not given.
    classes
        Class codes to fill, by default all; pages of other classes are never due.

    Examples
    --------
    A page believed to change every 10 days or so, weight 1, no signals, at a price of one hour:

    >>> codes = DueCodes()
    >>> table = build_due_table(codes, classes=[0])
    >>> hour, period = 3_600.0, 864_000.0
    >>> shape_code = int(codes.shape_code(0.5))
    >>> age = period * due_periods_of(table, shape_code, 0, math.log2(hour / period))
    >>> round(age / hour, 1)
    24.1

    References
    ----------
    Signals Theorem 1 (its threshold, averaged and scale-free)
    """
    codes = codes or DueCodes()
    shape = (codes.n_shapes, codes.n_codes, codes.n_targets)
    table = DueTable(
        np.full(shape, LOG2_NEVER, np.float32),
        np.full(shape, LOG2_NEVER, np.float32),
        np.zeros(shape[:2]),
        codes.shapes(),
        codes.log2_target_min,
        codes.log2_target_step,
    )
    wanted = np.unique(np.arange(codes.n_codes) if classes is None else np.asarray(classes))
    _fill_without_signals(table)
    recall, precision = codes.class_quality(wanted)
    for level in np.unique(precision[precision > 0]):
        of_level = precision == level
        ratio = recall[of_level] / (1 - recall[of_level]) / level
        values = _values_by_ratio(level, ratio.min(), ratio.max())
        _fill_classes(level, ratio, wanted[of_level].astype(np.int64), values, table)
    for class_code in wanted[wanted >= codes.n_classes]:
        _fill_scroll(int(codes.class_items(class_code)), int(class_code), table)
    return table


@kernel
def _fill_without_signals(table: DueTable) -> None:
    for row in range(table.shapes.size):
        shape = table.shapes[row]
        # The averaged value tends to b/(a-1).
        table.limit[row, 0] = shape / (shape - 1.0) if shape > 1.0 else math.inf
        for k in range(table.due.shape[2]):
            target = math.exp2(table.log2_target_min + k * table.log2_target_step)
            age = averaged_due_elapsed_of(shape, shape, target)
            log2_age = min(math.log2(age), LOG2_NEVER)
            table.due[row, 0, k] = log2_age
            table.interval[row, 0, k] = log2_age


class _ValuesByRatio(NamedTuple):
    """Values of pages with signals of one precision, on a grid of ages and unsignalled rates.

    The unit of time is the mean time between signals, 1/γ: the rows are log2 of γ × age, the
    columns log2 of α/γ, and an entry is γ times the value.
    """

    log2_age_min: float
    log2_rate_min: float
    value: FloatArray


def _values_by_ratio(precision: float, ratio_min: float, ratio_max: float) -> _ValuesByRatio:
    # The grid covers all tabulated ages and rates of 2^-42 to 2^9 per mean period, at any γ.
    log2_low, log2_high = math.floor(math.log2(ratio_min)), math.ceil(math.log2(ratio_max))
    age_min, rate_min = log2_low + _LOG2_AGE_MIN, -42.0 - log2_high
    n_ages = int((log2_high + _LOG2_AGE_MAX - age_min) * _AGES_PER_OCTAVE) + 1
    n_rates = int((9.0 - log2_low - rate_min) * _RATES_PER_OCTAVE) + 1
    values = _ValuesByRatio(age_min, rate_min, np.empty((n_ages, n_rates)))
    _evaluate_values(precision, values)
    return values


@kernel
def _evaluate_values(precision: float, values: _ValuesByRatio) -> None:
    for i in range(values.value.shape[0]):
        age = math.exp2(values.log2_age_min + i / _AGES_PER_OCTAVE)
        for j in range(values.value.shape[1]):
            rate = math.exp2(values.log2_rate_min + j / _RATES_PER_OCTAVE)
            values.value[i, j] = value_and_interval_of(rate, 1.0, precision, rate * age)[0]


@kernel
def _fill_classes(
    precision: float,
    ratios: FloatArray,
    classes: NDArray[np.int64],
    values: _ValuesByRatio,
    table: DueTable,
) -> None:
    """Fill the classes of one precision; ``ratios`` are their signals per mean period."""
    n_ages, n_rates = values.value.shape
    log2_value = np.empty(n_ages)
    log2_age = np.empty(n_ages)
    weight = np.empty(n_rates)
    for c in range(classes.size):
        gamma = ratios[c]
        log2_gamma = math.log2(gamma)
        for s in range(table.shapes.size):
            shape = table.shapes[s]
            first, last, stride = _weigh_rates(shape, log2_gamma, values, weight)
            n = 0
            for i in range(n_ages):
                log2_age[n] = values.log2_age_min + i / _AGES_PER_OCTAVE - log2_gamma
                if not _LOG2_AGE_MIN <= log2_age[n] <= _LOG2_AGE_MAX:
                    continue
                value = 0.0
                for j in range(last, first, -stride):
                    value += weight[j] * values.value[i, j]
                log2_value[n] = math.log2(value / gamma)
                n += 1
            table.limit[s, classes[c]] = math.exp2(log2_value[n - 1])
            _fill_due_ages(log2_age[:n], log2_value[:n], s, classes[c], table)
            _fill_intervals(shape, gamma, precision, s, classes[c], table)


@kernel
def _weigh_rates(
    shape: float, log2_gamma: float, values: _ValuesByRatio, weight: FloatArray
) -> tuple[int, int, int]:
    """Write the weights of rates under the belief Gamma(shape, shape); return which to sum over.

    This is the trapezoidal rule in log rate of the averaged value, on the rates of the grid.
    """
    log_step = math.log(2.0) / _RATES_PER_OCTAVE
    high, step, n_rates = belief_log_rates(shape, shape, math.exp2(_LOG2_AGE_MAX), 24)
    stride = max(1, int(step / log_step))
    # z = log(rate × shape) of column 0
    z0 = (values.log2_rate_min + log2_gamma) * math.log(2.0) + math.log(shape)
    last = min(int((high - z0) / log_step), weight.size - 1)
    first = max(int((high - n_rates * step - z0) / log_step), 0) - 1
    log_norm = math.log(stride * log_step) - math.lgamma(shape)
    for j in range(last, first, -stride):
        z = z0 + j * log_step
        weight[j] = math.exp(shape * z - math.exp(z) + log_norm)
    return first, last, stride


@kernel
def _fill_due_ages(
    log2_age: FloatArray, log2_value: FloatArray, s: int, class_code: int, table: DueTable
) -> None:
    """Write the ages at which the value reaches each target, by interpolation."""
    i = 0
    for k in range(table.due.shape[2]):
        target = table.log2_target_min + k * table.log2_target_step
        while i < log2_value.size - 1 and log2_value[i + 1] < target:
            i += 1
        if i == log2_value.size - 1:
            table.due[s, class_code, k] = LOG2_NEVER
            continue
        rise = log2_value[i + 1] - log2_value[i]
        share = (target - log2_value[i]) / rise if rise > 0.0 else 0.0
        table.due[s, class_code, k] = log2_age[i] + share * (log2_age[i + 1] - log2_age[i])


@kernel
def _fill_intervals(
    shape: float, gamma: float, precision: float, s: int, class_code: int, table: DueTable
) -> None:
    # A signal moves the effective age t to (b+t)ρ - b, ρ = (1-p)^{-1/a}.  If every jump were as
    # long as the one at half the threshold, the mean time to the threshold would be ψ; that is
    # within 5 % in nine of ten cases.
    growth = math.expm1(-math.log1p(-precision) / shape)
    exponent = -math.log1p(-precision)
    for k in range(table.due.shape[2]):
        if table.due[s, class_code, k] >= LOG2_NEVER:
            continue
        age = math.exp2(float(table.due[s, class_code, k]))
        rate = exponent / ((shape + 0.5 * age) * growth)  # the α for which the jump β is as long
        interval = value_and_interval_of(rate, gamma, precision, rate * age)[1]
        table.interval[s, class_code, k] = math.log2(interval)


@kernel
def _fill_scroll(n_items: int, class_code: int, table: DueTable) -> None:
    # λU is a function F of x = λt alone.  With the same steps of log2 for x, rates and ages, the
    # value Σ_j w_j F(λ_j t_i) / λ_j at the age t_i needs F only at the grid points j + i.
    per_octave = _SCROLL_STEPS_PER_OCTAVE
    n_rates = int((_SCROLL_LOG2_RATE_MAX - _SCROLL_LOG2_RATE_MIN) * per_octave) + 1
    n_steps = int((_LOG2_AGE_MAX - _LOG2_AGE_MIN) * per_octave)
    gain = np.empty(n_rates + n_steps)
    for k in range(gain.size):
        x = math.exp2(_SCROLL_LOG2_RATE_MIN + _LOG2_AGE_MIN + k / per_octave)
        gain[k] = scroll_value_of(1.0, x, n_items, 0.0)
    stride = per_octave // _SCROLL_AGES_PER_OCTAVE
    n_ages = n_steps // stride
    log2_age = np.empty(n_ages)
    log2_value = np.empty(n_ages)
    weight = np.empty(n_rates)
    log_step = math.log(2.0) / per_octave
    for s in range(table.shapes.size):
        shape = table.shapes[s]
        log_norm = math.log(log_step) - math.lgamma(shape)
        for j in range(n_rates):
            log_rate = _SCROLL_LOG2_RATE_MIN * math.log(2.0) + j * log_step
            z = log_rate + math.log(shape)
            # The density of Gamma(shape, shape) in log rate, divided by the rate.
            weight[j] = math.exp(shape * z - math.exp(z) + log_norm - log_rate)
        for i in range(n_ages):
            value = 0.0
            for j in range(n_rates):
                value += weight[j] * gain[j + i * stride]
            log2_age[i] = _LOG2_AGE_MIN + i / _SCROLL_AGES_PER_OCTAVE
            log2_value[i] = math.log2(value)
        table.limit[s, class_code] = math.exp2(log2_value[n_ages - 1])
        _fill_due_ages(log2_age, log2_value, s, class_code, table)
        for k in range(table.due.shape[2]):
            table.interval[s, class_code, k] = table.due[s, class_code, k]
