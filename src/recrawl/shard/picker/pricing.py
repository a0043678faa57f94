"""The price that spends a budget: where demand says it should be, and how fast it may go there.

A corpus in its steady state spends its budget at the price that the demand curve gives.  After a
change, of the budget or of the corpus, it is not in its steady state.  A price that jumped down
would set free more pages than a day can fetch, and one that jumped up would leave the budget
unspent.  So the price moves as fast as it sets free, or holds back, what the budget and the flow
of pages at the present price differ by.  A correction by what waits takes care of the rest.

A price that falls is noticed by the sweep as it passes, so the correction takes its time: a few
sweeps.  Meanwhile what comes due in a second varies; the backlog aimed at is large enough not to
run out by that.  A backlog far beyond it is met at once, as a rising price holds pages back
without delay.
"""

import math

from recrawl.core.price.controller import PriceController
from recrawl.shard.picker.forecast import Demand

__all__ = ["BudgetPrice", "backlog_target"]

# Between two steps, in seconds, and the longest time that one step makes up for.
_STEP = 1.0
_STEP_MAX = 60.0
# How many waiting pages an order below the price makes up for.
_SPARE_WEIGHT = 5.0
# Share of the backlog's excess taken back in a sweep, and per second at most.
_GAIN_PER_SWEEP = 0.3
_GAIN_MAX = 0.1
# The backlog aimed at: seconds of the budget, and standard deviations of what it varies by.
_BACKLOG_SECONDS = 2.0
_BACKLOG_DEVIATIONS = 4.0
# Of it, from where on it is met at once.
_BACKLOG_HIGH = 2.5
# The price moves no faster than holds back, or sets free, so many times the budget.
_SLEW = 2.0
_PRICE_MIN = 1e-30
_PRICE_MAX = 1e30


def backlog_target(fetches: float, sweep_seconds: float) -> float:
    """Return how many pages should wait, at so many fetches per second."""
    # With arrivals as random as a Poisson process and a share of the excess taken back each
    # second, the backlog's variance is fetches / (2 gain).
    gain = min(_GAIN_PER_SWEEP / sweep_seconds, _GAIN_MAX)
    deviation = math.sqrt(fetches / (2.0 * gain))
    return _BACKLOG_SECONDS * fetches + _BACKLOG_DEVIATIONS * deviation


class BudgetPrice:
    """A price in value per fetch, its demand curve and its correction."""

    def __init__(self) -> None:
        self._log_base: float | None = None
        self._correction = 0.0
        self._stepped_at: float | None = None
        self._demand: Demand | None = None
        self._n_spare = 0

    @property
    def price(self) -> float:
        """Value per fetch."""
        if self._log_base is None:
            return 0.0
        log_price = self._log_base + self._correction
        return min(max(math.exp(log_price), _PRICE_MIN), _PRICE_MAX)

    @property
    def demand(self) -> Demand | None:
        """The latest demand curve."""
        return self._demand

    def set_price(self, price: float) -> None:
        """Begin again at a price; what the curve is off by is the correction."""
        if price > 0.0:
            log_price = math.log(price)
            if self._log_base is None or self._demand is None:
                self._log_base = log_price
            self._correction = log_price - self._log_base

    def see_demand(self, demand: Demand, budget: float) -> None:
        """Take in a new curve; without a price so far, begin at the one it gives."""
        is_first = self._demand is None
        self._demand = demand
        if not budget > 0.0:
            return
        log_price = math.log(demand.price_for(budget))
        if self._log_base is None:
            self._log_base = log_price
        elif is_first:
            self._correction += self._log_base - log_price
            self._log_base = log_price

    def see_orders(self, n_spare: int) -> None:
        """Count orders of pages below the price."""
        self._n_spare += n_spare

    def step(
        self,
        now: float,
        budget: float,
        *,
        backlog: int,
        n_pages: int,
        sweep_seconds: float,
        cost: float = 1.0,
    ) -> bool:
        """Move the price, if it is time to; return whether it was.

        Parameters
        ----------
        now
            In seconds.
        budget
            Per second, in the unit of the demand curve.
        backlog
            Pages that could be ordered at once.
        n_pages
            Of the corpus.
        sweep_seconds
            After which a fall of the price is noticed for all pages.
        cost
            Of a fetch, on average, in the unit of the budget.
        """
        if self._stepped_at is None:
            self._stepped_at = now
        elapsed = now - self._stepped_at
        if elapsed < _STEP or self._demand is None or self._log_base is None:
            return False
        if not 0.0 < budget < math.inf:
            return False
        self._stepped_at = now
        elapsed = min(elapsed, _STEP_MAX)
        response = self._demand.response_at(self.price)
        response = min(max(response, 0.01 * n_pages, 1.0), 2.0 * n_pages)
        gain = min(_GAIN_PER_SWEEP / sweep_seconds, _GAIN_MAX)
        fetches = budget / cost
        target = backlog_target(fetches, sweep_seconds)
        # The base moves at least as fast as this: what the curve says of the flow may be wrong.
        creep = 0.25 * gain * target
        flow = abs(self._demand.spent_at(math.exp(self._log_base)) - budget) / cost
        reach = min(max(flow, creep), _SLEW * fetches) * elapsed / response
        gap = math.log(self._demand.price_for(budget)) - self._log_base
        self._log_base += min(max(gap, -reach), reach)
        allowed = _SLEW * fetches * elapsed
        high = max(backlog - _BACKLOG_HIGH * target, 0.0)
        controller = PriceController(
            gain=min(gain * elapsed, 0.5), responsiveness=1.0, backlog_steps=target / allowed
        )
        self._correction = controller.next_correction(
            self._correction,
            backlog=backlog + high * (_GAIN_MAX / gain - 1.0) - _SPARE_WEIGHT * self._n_spare,
            allowed=allowed,
            n_pages=response,
        )
        self._n_spare = 0
        return True
