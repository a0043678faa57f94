"""The continuous optimum: the best schedule for a budget when every rate is known."""

import math
from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import ArrayLike, FloatArray, as_floats
from recrawl.core.kernel import kernel
from recrawl.core.price.due import noisy_due_elapsed_of
from recrawl.core.signal_quality.rates import SignalRates
from recrawl.core.value.noisy import value_and_interval_of

__all__ = ["ContinuousOptimum", "continuous_optimum", "thresholds_at_price"]

_N_PRICES_MAX = 100
_N_PAGES_SAMPLED = 10_000
# Pages all of whose changes are announced have no unsignalled ones, and a signal is worth an
# infinite time.  This share of the announced ones stands for none, so that times stay finite.
_UNSIGNALLED_SHARE_MIN = 1e-12


class ContinuousOptimum(NamedTuple):
    """The optimal schedule: each page is fetched when its effective elapsed time is reached.

    ``price`` is what a fetch must be worth; ``effective_elapsed`` (seconds, infinite for pages
    not worth following), ``fetch_rate`` (per second) and ``freshness`` have one row per page;
    ``weighted_freshness`` is their mean weighted by importance; ``converged`` says whether the
    budget was met.
    """

    price: float
    effective_elapsed: FloatArray
    fetch_rate: FloatArray
    freshness: FloatArray
    weighted_freshness: float
    converged: bool


@kernel
def _thresholds(
    rates: SignalRates, target: FloatArray, threshold: FloatArray, out: FloatArray
) -> None:
    """Move ``threshold`` to the price's, from where it is; write fetch rate and freshness."""
    for row in range(target.size):
        gamma = rates.signal_rate[row]
        precision = rates.precision[row]
        alpha = max(rates.unsignalled_change_rate[row], _UNSIGNALLED_SHARE_MIN * precision * gamma)
        x, _ = noisy_due_elapsed_of(alpha, gamma, precision, target[row], threshold[row])
        threshold[row] = x
        exponent = alpha * x if x < math.inf else math.inf
        value, interval = value_and_interval_of(alpha, gamma, precision, exponent)
        # f = 1/ψ, w = V + e^{-αι} ψ, and the freshness is w/ψ
        if x == math.inf:
            # Stale sooner or later, unless it never changes.
            out[0, row] = 0.0
            out[1, row] = 0.0 if alpha + precision * gamma > 0.0 else 1.0
        elif interval > 0.0:
            out[0, row] = 1.0 / interval
            out[1, row] = value / interval + math.exp(-exponent)
        else:
            out[0, row] = math.inf
            out[1, row] = 1.0


def thresholds_at_price(
    rates: SignalRates, price: float, *, importance: ArrayLike = 1.0, cost: ArrayLike = 1.0
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return each page's threshold, fetch rate and freshness at a price.

    Parameters
    ----------
    rates
        Rates of each page: unsignalled changes, signals, precision.
    price
        Value that a fetch must reach (Λ).
    importance
        Weight of each page.
    cost
        Cost of one fetch of each page.

    Returns
    -------
    tuple
        Effective elapsed seconds at which each page is fetched (ι), fetches per second (1/ψ) and
        the share of time it is fresh (w/ψ).

    References
    ----------
    Signals Theorem 1, Lemma 4, App. A (eq. 4)
    """
    shape = rates.precision.shape
    search = _PriceSearch.of(rates, importance, cost)
    fetch_rate, freshness = search.at(price)
    return search.threshold.reshape(shape), fetch_rate.reshape(shape), freshness.reshape(shape)


def continuous_optimum(
    rates: SignalRates,
    fetch_budget: float,
    *,
    importance: ArrayLike = 1.0,
    cost: ArrayLike = 1.0,
    tolerance: float = 1e-7,
) -> ContinuousOptimum:
    """Return the schedule of greatest freshness that spends the budget exactly.

    A discrete schedule (one fetch every 1/budget seconds, the page of greatest value) comes as
    close to it as counting allows.

    Parameters
    ----------
    rates
        Rates of each page: unsignalled changes (positive), signals, precision.
    fetch_budget
        Fetches per second; with costs, cost per second.
    importance
        Weight of each page.
    cost
        Cost of one fetch of each page.
    tolerance
        Relative error allowed in the budget, or else in the price.

    Examples
    --------
    >>> from recrawl.core.signal_quality import from_recall
    >>> pages = from_recall(change_rate=[1.0, 2.0, 50.0], recall=0.0, false_signal_rate=0.0)
    >>> best = continuous_optimum(pages, fetch_budget=3.0)
    >>> best.fetch_rate.round(2), round(best.weighted_freshness, 3)
    (array([1.35, 1.65, 0.  ]), 0.429)

    References
    ----------
    Signals Theorem 1, App. A (eqs 4, 5)
    """
    for name, column in rates._asdict().items():
        if not np.all((column >= 0) & (column < np.inf)):
            raise ValueError(f"{name} must be finite and not negative")
    if not np.all(as_floats(cost) > 0):
        raise ValueError("cost must be positive")
    if not 0 <= fetch_budget < math.inf:
        raise ValueError(f"fetch_budget must be finite and not negative, got {fetch_budget!r}")
    shape = rates.precision.shape
    search = _PriceSearch.of(rates, importance, cost)
    start = float(search.log_limits().max(initial=-math.inf)) - 1.0
    stride = search.weight.size // _N_PAGES_SAMPLED
    if stride > 1 and fetch_budget > 0.0:
        # A sample of the pages gives nearly the price, for a fraction of the work.
        _, start, _ = search.sample(stride).solve(fetch_budget / stride, start, 1e-4)
    if fetch_budget > 0.0:
        low, high, converged = search.solve(fetch_budget, start, tolerance)
    else:
        low = high = start + 2.0  # above every page's limit
        converged = True
    fetch_rate, freshness = search.at(math.exp(low))
    threshold = search.threshold.reshape(shape)
    if high > low:
        # A page whose greatest value is this price may be followed or not; here, partly.
        search = search.sample(1)
        less_rate, less_freshness = search.at(math.exp(high))
        more, less = search.costs @ fetch_rate, search.costs @ less_rate
        share = (fetch_budget - less) / (more - less)
        fetch_rate = less_rate + share * (fetch_rate - less_rate)
        freshness = less_freshness + share * (freshness - less_freshness)
    return ContinuousOptimum(
        math.exp(low),
        threshold,
        fetch_rate.reshape(shape),
        freshness.reshape(shape),
        float(search.weight @ freshness / search.weight.sum()),
        converged,
    )


class _PriceSearch:
    """Thresholds at one price after another, each search started from the last result."""

    def __init__(self, rates: SignalRates, weight: FloatArray, costs: FloatArray) -> None:
        self._rates = SignalRates(*(np.ascontiguousarray(column) for column in rates))
        self.weight = weight
        self.costs = costs
        self.threshold = np.zeros(weight.size)

    @classmethod
    def of(cls, rates: SignalRates, importance: ArrayLike, cost: ArrayLike) -> "_PriceSearch":
        shape = rates.precision.shape
        return cls(
            SignalRates(*(column.reshape(-1) for column in rates)),
            np.broadcast_to(as_floats(importance), shape).reshape(-1),
            np.broadcast_to(as_floats(cost), shape).reshape(-1),
        )

    def sample(self, stride: int) -> "_PriceSearch":
        """Return a search over every ``stride``-th page."""
        rates = SignalRates(*(column[::stride] for column in self._rates))
        return _PriceSearch(rates, self.weight[::stride], self.costs[::stride])

    def log_limits(self) -> FloatArray:
        """Return the log of importance / (change rate × cost), which the value tends to.

        A page is dropped where the price passes it: its fetch rate then falls to 0 within the
        last digit of the price.
        """
        change_rate = self._rates.change_rate()
        counts = (change_rate > 0) & (self.weight > 0)
        log_limits: FloatArray = np.log(self.weight[counts] / (change_rate * self.costs)[counts])
        return log_limits

    def at(self, price: float) -> tuple[FloatArray, FloatArray]:
        """Return fetch rates and freshness at ``price``; thresholds are left in place."""
        with np.errstate(divide="ignore", invalid="ignore"):
            target = price * self.costs / self.weight
        out = np.empty((2, self.threshold.size))
        _thresholds(self._rates, target, self.threshold, out)
        return out[0], out[1]

    def solve(self, budget: float, start: float, tolerance: float) -> tuple[float, float, bool]:
        """Return the log prices between which ``budget`` is spent, and whether they were found.

        They are equal unless the budget is spent where a page is dropped.  Log spending falls
        with log price, by about a half: a secant search on it, with bisection where that leaves
        the bracket.
        """
        if budget <= 0.0:
            return start + 1.0, start + 1.0, True
        if start == -math.inf:
            return math.inf, math.inf, False  # there is nothing worth fetching
        low, high = -math.inf, math.inf
        log_price, slope = start, -0.5
        last_price, last_gap = math.nan, math.nan
        for _ in range(_N_PRICES_MAX):
            spent = float(self.costs @ self.at(math.exp(log_price))[0])
            gap = math.log(spent / budget) if spent > 0.0 else -math.inf
            if abs(gap) <= tolerance:
                return log_price, log_price, True
            low, high = (log_price, high) if gap > 0.0 else (low, log_price)
            if high - low <= max(tolerance, 1e-14 * abs(log_price)):
                return low, high, True
            measured = (gap - last_gap) / (log_price - last_price)
            if -math.inf < measured < -0.01:
                slope = measured
            last_price, last_gap = log_price, gap
            log_price -= min(max(gap / slope, -3.0), 3.0)
            if not low < log_price < high:
                # The first steps down from a price that buys nothing end here too.
                log_price = 0.5 * (low + high) if low > -math.inf else high - 1.0
        return log_price, log_price, False
