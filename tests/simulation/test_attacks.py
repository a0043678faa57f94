"""One site that adds pages, or lies, leaves the other pages as fresh as before.

`python -m benchmarks attacks` is the same at full size.
"""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.attacks import ATTACKS, LAYOUTS, UNPROTECTED, cost_of_protection, run_attack
from recrawl.shard import ShardSettings

pytestmark = pytest.mark.slow_without_jit

N_PAGES = 400
DAYS_BEFORE = 10.0
KEPT_MIN = 0.95
COST_MAX = 0.002


@pytest.mark.parametrize("picker", ["scan", "sweep"])
@pytest.mark.parametrize("name", ATTACKS)
def test_other_pages_stay_fresh_under_attack(name: str, picker: str) -> None:
    attack = ATTACKS[name]._replace(days=min(ATTACKS[name].days, 6.0), days_to_add=0.0)
    settings = ShardSettings(picker="scan" if picker == "scan" else "sweep")
    protected = run_attack(attack, n_pages=N_PAGES, days_before=DAYS_BEFORE, settings=settings)
    assert protected.kept >= KEPT_MIN


@pytest.mark.parametrize("name", ["many-urls", "many-hosts"])
def test_without_protection_other_pages_become_stale(name: str) -> None:
    attack = ATTACKS[name]._replace(days=6.0)
    settings = replace(ShardSettings(picker="scan"), **UNPROTECTED)
    result = run_attack(attack, n_pages=N_PAGES, days_before=DAYS_BEFORE, settings=settings)
    assert result.kept < KEPT_MIN
    assert result.share_of_budget > 0.5


def test_without_protection_false_signals_take_most_of_the_budget() -> None:
    attack = ATTACKS["false-signals"]
    settings = ShardSettings(picker="scan")
    shares = [
        run_attack(attack, n_pages=N_PAGES, days_before=DAYS_BEFORE, settings=chosen)
        for chosen in (settings, replace(settings, **UNPROTECTED))
    ]
    # Most of it: more than half.  What a source shows is remembered for 1,000 signals, so even
    # without protection the liar gets less than when it was remembered for 200.
    assert shares[1].share_of_budget > 0.5
    assert shares[0].share_of_budget < shares[1].share_of_budget - 0.05


def test_protection_costs_next_to_nothing_where_nobody_attacks() -> None:
    """On average over the kinds of corpora; a single small run has more noise than that."""
    costs = []
    for layout in LAYOUTS:
        fresh, without = cost_of_protection(layout, n_pages=N_PAGES, days_before=DAYS_BEFORE)
        costs.append(1.0 - fresh / without)
    assert np.mean(costs) <= COST_MAX
