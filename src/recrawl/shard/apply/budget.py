"""Apply the events of the budget: its rate, its unspent credit, and named runs.

Credit is what may be spent now, in fetches or cost.  A budget per unit of time earns credit as time
passes, up to a limit.  A budget per run gives each named run its own credit, which is not earned
again; the table `Runs` remembers what the latest runs have spent.
"""

import math

import numpy as np

from recrawl.core.arrays import FlagArray
from recrawl.shard.events import BudgetSet, CreditSet, QuotaSet, RunBudgetSet, RunChosen
from recrawl.shard.state.tables import Registers, Runs

__all__ = [
    "choose_run",
    "credit_at",
    "log2_price_fall",
    "run_spending",
    "set_budget",
    "set_credit",
    "set_quota",
    "set_run_budget",
]

# While more than this share of the budget that can be kept is unspent, the price of small corpora
# falls, by up to this many octaves.
_KEPT_SHARE = 0.5
_FALL_OCTAVES = 2.0


def credit_at(registers: Registers, now_ms: int) -> float:
    """Return the credit at an instant: the fetches, or the cost, that may be spent then."""
    seconds = max(now_ms - int(registers.credited_at[0]), 0) / 1000
    earned = float(registers.budget[0]) * seconds if seconds > 0 else 0.0
    return min(float(registers.credit[0]) + earned, float(registers.credit_max[0]))


def log2_price_fall(registers: Registers, now_ms: int) -> float:
    """Return by how many octaves the price is lower because much of the budget is unspent.

    Budget beyond what can be kept is lost, so pages are worth fetching somewhat earlier before
    that happens: once a night for instance, where the price is that of fetches at any time.
    """
    most = float(registers.credit_max[0])
    if not 0.0 < registers.budget[0] < math.inf or not most > 0.0:
        return 0.0
    share = min(credit_at(registers, now_ms) / most, 1.0)
    return _FALL_OCTAVES * max(share - _KEPT_SHARE, 0.0) / (1.0 - _KEPT_SHARE)


def run_spending(registers: Registers, runs: Runs, run: int) -> float:
    """Return what a run has spent so far; 0 for a run that is not known, or no longer."""
    if run and registers.run[0] == run:
        return float(registers.credit_max[0] - registers.credit[0])
    row = _row_of_run(runs, run)
    return 0.0 if row < 0 else float(runs.spent[row])


def set_budget(registers: Registers, runs: Runs, event: BudgetSet, valid: FlagArray) -> None:
    """Set a budget per unit of time; rows with impossible values are void."""
    for i in range(valid.size):
        amount, period = float(event.amount[i]), float(event.period_seconds[i])
        burst = float(event.burst_seconds[i])
        if not (amount >= 0 and 0 <= period < math.inf and 0 <= burst < math.inf):
            continue
        if event.unit[i] > 1 or event.price_mode[i] > 1 or not event.price[i] >= 0:
            continue
        _leave_run(registers, runs)
        rate = amount / period if period > 0 else 0.0
        most = max(rate * burst, 1.0) if period > 0 and amount < math.inf else amount
        registers.budget[0] = rate if amount < math.inf else math.inf
        registers.budget_period[0] = period
        registers.run_budget[0] = 0.0
        registers.credit_max[0] = most
        registers.credit[0] = min(float(registers.credit[0]), most) if period > 0 else amount
        _set_price(registers, event, i)
        valid[i] = True


def set_run_budget(registers: Registers, runs: Runs, event: RunBudgetSet, valid: FlagArray) -> None:
    """Set a budget per run; nothing may be spent until a run is chosen."""
    for i in range(valid.size):
        if not 0 < event.amount[i] < math.inf:
            continue
        if event.unit[i] > 1 or event.price_mode[i] > 1 or not event.price[i] >= 0:
            continue
        _leave_run(registers, runs)
        registers.budget[0] = registers.budget_period[0] = 0.0
        registers.run_budget[0] = event.amount[i]
        registers.credit[0] = registers.credit_max[0] = 0.0
        _set_price(registers, event, i)
        valid[i] = True


def choose_run(registers: Registers, runs: Runs, event: RunChosen, valid: FlagArray) -> None:
    """Begin or continue a named run with what is left of its amount."""
    for i in range(valid.size):
        if event.epoch[i] != registers.epoch[0] or not registers.run_budget[0] > 0:
            continue
        if event.run[i] == 0 or not 0 <= event.amount[i] < math.inf:
            continue
        _leave_run(registers, runs)
        run = int(event.run[i])
        row = _row_of_run(runs, run)
        if row < 0:
            # Empty rows have been used at 0, so they come first.
            row = int(np.argmin(runs.used_at))
            runs.run[row], runs.spent[row] = run, 0.0
        runs.used_at[row] = max(int(registers.now[0]), 1)
        registers.run[0] = run
        registers.credit_max[0] = event.amount[i]
        registers.credit[0] = event.amount[i] - runs.spent[row]
        valid[i] = True


def set_credit(registers: Registers, event: CreditSet, valid: FlagArray) -> None:
    """Set the unspent part of a budget per unit of time; void for any other budget."""
    for i in range(valid.size):
        is_rate = 0 < registers.budget[0] < math.inf and registers.run_budget[0] == 0
        if is_rate and math.isfinite(event.credit[i]):
            registers.credit[0] = min(event.credit[i], registers.credit_max[0])
            registers.credited_at[0] = registers.now[0]
            valid[i] = True


def set_quota(registers: Registers, runs: Runs, event: QuotaSet, valid: FlagArray) -> None:
    """Set what a partition of a cluster may spend; rows of another epoch are void.

    Credit never rises here: what one partition gives up must not appear twice in others.
    """
    for i in range(valid.size):
        rate, period = float(event.per_second[i]), float(event.period_seconds[i])
        burst = float(event.burst_seconds[i])
        if event.epoch[i] != registers.epoch[0]:
            continue
        if not (rate >= 0 and 0 <= period < math.inf and 0 <= burst < math.inf):
            continue
        if event.unit[i] > 1 or event.price_mode[i] > 1 or not event.price[i] >= 0:
            continue
        _leave_run(registers, runs)
        most = max(rate * burst, 1.0) if rate < math.inf else math.inf
        had = float(registers.credit[0])
        if not math.isfinite(had) or registers.run_budget[0] > 0:
            had = 0.0  # nothing was saved up
        registers.budget[0] = rate
        registers.budget_period[0] = period
        registers.run_budget[0] = 0.0
        registers.credit_max[0] = most
        registers.credit[0] = min(had, most) if rate < math.inf else math.inf
        _set_price(registers, event, i)
        valid[i] = True


def _set_price(registers: Registers, event: BudgetSet | RunBudgetSet | QuotaSet, i: int) -> None:
    registers.budget_unit[0] = event.unit[i]
    registers.price_mode[0] = event.price_mode[i]
    registers.fixed_price[0] = event.price[i]


def _row_of_run(runs: Runs, run: int) -> int:
    rows = np.flatnonzero(runs.run == np.uint64(run))
    return int(rows[0]) if run and rows.size else -1


def _leave_run(registers: Registers, runs: Runs) -> None:
    """Save what the present run has spent, and end it."""
    run = int(registers.run[0])
    row = _row_of_run(runs, run)
    if row >= 0:
        runs.spent[row] = run_spending(registers, runs, run)
    registers.run[0] = 0
