"""What a shard may spend: a rate with room for what was not spent, or an amount for one run."""

import math

from recrawl.core.arrays import FlagArray
from recrawl.shard.events import BudgetSet
from recrawl.shard.state.tables import Registers

__all__ = ["credit_at", "set_budget"]


def credit_at(registers: Registers, now_ms: int) -> float:
    """Return what the budget allows to be spent at an instant: fetches, or cost."""
    seconds = max(now_ms - int(registers.credited_at[0]), 0) / 1000
    earned = float(registers.budget[0]) * seconds if seconds > 0 else 0.0
    return min(float(registers.credit[0]) + earned, float(registers.credit_max[0]))


def set_budget(registers: Registers, event: BudgetSet, valid: FlagArray) -> None:
    """Write what may be spent from now on; rows that make no sense are void."""
    for i in range(valid.size):
        amount, period = float(event.amount[i]), float(event.period_seconds[i])
        burst = float(event.burst_seconds[i])
        if not (amount >= 0 and 0 <= period < math.inf and 0 <= burst < math.inf):
            continue
        if event.unit[i] > 1 or event.price_mode[i] > 1 or not event.price[i] >= 0:
            continue
        rate = amount / period if period > 0 else 0.0
        most = max(rate * burst, 1.0) if period > 0 and amount < math.inf else amount
        registers.budget[0] = rate if amount < math.inf else math.inf
        registers.credit_max[0] = most
        registers.credit[0] = min(float(registers.credit[0]), most) if period > 0 else amount
        registers.budget_unit[0] = event.unit[i]
        registers.price_mode[0] = event.price_mode[i]
        registers.fixed_price[0] = event.price[i]
        valid[i] = True
