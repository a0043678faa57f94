"""The price that spends a budget: the target from the demand curve, and the speed towards it.

In its steady state a corpus spends its budget at the price that the demand curve gives.  A change
of the budget or the corpus disturbs this state.  A price that jumped down would make more pages
due than a day can fetch, and one that jumped up would leave the budget unspent.  So the price moves
just fast enough to add or hold back the difference between the budget and the flow of pages at the
present price.  A correction by the backlog removes the remaining error.

The sweep notices a falling price only as it passes over the pages, so the correction takes a few
sweeps.  Meanwhile the number of pages that come due in a second varies; the target backlog is large
enough not to run out.  A much larger backlog is corrected at once, as a rising price holds pages
back without delay.
"""

import math

from recrawl.core.price.controller import PriceController
from recrawl.shard.picker.forecast import SampledDemand

__all__ = ["BudgetPrice", "backlog_target"]

# Seconds between two steps, and the longest time that one step accounts for.
_STEP = 1.0
_STEP_MAX = 60.0
# Number of waiting pages that an order below the price counts for.
_SPARE_WEIGHT = 5.0
# Share of the excess backlog removed in a sweep, and the most per second.
_GAIN_PER_SWEEP = 0.3
_GAIN_MAX = 0.1
# Target backlog: seconds of the budget, plus standard deviations of the backlog.
_BACKLOG_SECONDS = 2.0
_BACKLOG_DEVIATIONS = 4.0
# Multiple of the target backlog beyond which the price reacts at once.
_BACKLOG_HIGH = 2.5
# The price moves no faster than adds or holds back this multiple of the budget.
_SLEW = 2.0
_PRICE_MIN = 1e-30
_PRICE_MAX = 1e30


def backlog_target(fetches: float, sweep_seconds: float) -> float:
    """Return the number of pages that should wait, at a number of fetches per second."""
    # With Poisson arrivals and a share ``gain`` of the excess removed each second, the variance
    # of the backlog is fetches / (2 gain).
    gain = min(_GAIN_PER_SWEEP / sweep_seconds, _GAIN_MAX)
    deviation = math.sqrt(fetches / (2.0 * gain))
    return _BACKLOG_SECONDS * fetches + _BACKLOG_DEVIATIONS * deviation


class BudgetPrice:
    """The price in value per fetch, with its demand curve and its correction."""

    def __init__(self) -> None:
        self._log_base: float | None = None
        self._correction = 0.0
        self._stepped_at: float | None = None
        self._demand: SampledDemand | None = None
        self._n_spare = 0

    @property
    def price(self) -> float:
        """Value per fetch."""
        if self._log_base is None:
            return 0.0
        log_price = self._log_base + self._correction
        return min(max(math.exp(log_price), _PRICE_MIN), _PRICE_MAX)

    @property
    def demand(self) -> SampledDemand | None:
        """The latest demand curve."""
        return self._demand

    def set_price(self, price: float) -> None:
        """Restart at a price; the correction is its difference from the curve's price."""
        if price > 0.0:
            log_price = math.log(price)
            if self._log_base is None or self._demand is None:
                self._log_base = log_price
            self._correction = log_price - self._log_base

    def update_demand(self, demand: SampledDemand, budget: float) -> None:
        """Set the demand curve; without a price so far, start at the curve's price."""
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

    def count_spare_orders(self, n_spare: int) -> None:
        """Count orders of pages below the price since the last step."""
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
        """Move the price if a step is due; return whether it was.

        Parameters
        ----------
        now
            Time in seconds.
        budget
            Budget per second, in the unit of the demand curve.
        backlog
            Number of pages that could be ordered at once.
        n_pages
            Number of pages of the corpus.
        sweep_seconds
            Seconds after which a fall of the price is noticed for all pages.
        cost
            Mean cost of a fetch, in the unit of the budget.
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
        # The base moves at least this fast, because the curve's flow may be wrong.
        creep = 0.25 * gain * target
        flow = abs(self._demand.spending_at(math.exp(self._log_base)) - budget) / cost
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
