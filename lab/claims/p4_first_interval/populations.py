"""Populations of rates on which Prior's first intervals are tried: a recorded and a printed one."""

import numpy as np

from lab.claims.p3_prior_of_a_sample.sample import sampled_periods
from lab.policies.loops import COST_PRIOR
from recrawl.core.arrays import FloatArray

__all__ = ["COSTS", "COSTS_DAYS_MAX", "RECORDED", "costs_rates", "population_rates"]

HOUR = 3_600.0
DAY = 86_400.0
RECORDED = "recorded pages"
COSTS = "Cost's prior"
COSTS_DAYS_MAX = 100
"""The longest period in it, of which the papers say nothing."""


def population_rates(name: str, n_pages: int, *, is_second: bool = False) -> FloatArray:
    """Return changes per second of pages of a population; a second sample shares no page.

    `COSTS` is what Cost's pair of pseudo-observations says of Google's index, which neither paper
    prints: their likelihood as a function of the period, in steps of an hour as in Prior §4.3.
    It has to end somewhere, because it falls as 1 / period only.
    """
    if name == RECORDED:
        periods = sampled_periods()
        chosen = periods[n_pages : 2 * n_pages] if is_second else periods[:n_pages]
        return 1 / (chosen * DAY)
    # The second sample lies between the quantiles of the first.
    rates = costs_rates(n_pages, COSTS_DAYS_MAX, shift=0.25 if is_second else 0.75)
    return np.random.default_rng(404 + is_second).permutation(rates)


def costs_rates(
    n_pages: int, days_max: int, *, is_of_rate: bool = False, shift: float = 0.75
) -> FloatArray:
    """Return changes per second at evenly spread quantiles of what Cost's pair says.

    Its likelihood is read as a density of the period, or of the rate (``is_of_rate``).
    """
    hours = np.arange(1.0, 24 * days_max + 1)
    density = COST_PRIOR.density(1 / (hours * HOUR))
    # A density of the rate is one of the period times the derivative, 1 / period².
    cumulative = np.cumsum(density / hours**2 if is_of_rate else density)
    quantile = (np.arange(n_pages) + shift) / n_pages
    chosen = hours[np.searchsorted(cumulative / cumulative[-1], quantile)]
    rates: FloatArray = 1 / (chosen * HOUR)
    return rates
