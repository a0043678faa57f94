"""The price of a budget for believed rates, against a general root finder."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from recrawl.core.belief import GammaBelief
from recrawl.core.price import averaged_due_elapsed
from recrawl.core.signal_quality import from_recall
from recrawl.papers.price import continuous_optimum, price_of_budget

DAY = 86_400.0


@pytest.mark.parametrize("per_day", [0.1, 10.0, 1_000.0, 1e6])
def test_spends_the_budget(per_day: float) -> None:
    rng = np.random.default_rng(0)
    belief = GammaBelief.with_mean_rate(
        np.exp(rng.normal(-3, 2, 300)) / DAY, shape=np.exp(rng.normal(-0.5, 1, 300))
    )
    importance, cost = rng.exponential(1, 300), rng.uniform(0.5, 3, 300)

    def spent(log_price: float) -> float:
        due = averaged_due_elapsed(belief, math.exp(log_price), importance=importance / cost)
        return float((cost / due).sum()) * DAY - per_day

    price = price_of_budget(belief, per_day / DAY, importance=importance, cost=cost)
    assert math.log(price) == pytest.approx(brentq(spent, -40, 60), abs=1e-5)


def test_is_the_price_of_the_optimum_for_rates_that_are_known() -> None:
    rate = np.array([0.1, 1.0, 3.0]) / DAY
    best = continuous_optimum(from_recall(rate, 0.0, 0.0), 2 / DAY)
    known = GammaBelief.with_mean_rate(rate, shape=1e7)
    assert price_of_budget(known, 2 / DAY) == pytest.approx(best.price, rel=1e-4)
