"""The budget of a corpus as its partitions have it, in the unit of the user."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

from recrawl.node.config.rates import Money, duration_text, unit_name
from recrawl.shard import Shard
from recrawl.shard.state.status import BudgetUnit
from recrawl.units import count_text, number_text

__all__ = ["BudgetView", "seconds_to_next_fetch"]

_HOUR = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetView:
    """The budget of all partitions together."""

    unit: Literal["fetches", "cost"]
    per_second: float | None
    """None if unlimited; 0 if the budget is per run."""
    period_seconds: float | None
    """Unit of time in which the user gave it, such as 86,400 for a day; None if unknown or not per
    time."""
    run_budget: float | None
    """Budget of each named run; None if it is not per run."""
    cost_per_fetch: Money | None
    """Price of a fetch; None unless the budget counts cost."""
    credit: float | None
    """Budget that may be spent at once, of the present run if it is per run; None if unlimited."""
    credit_max: float
    """Largest amount that may be spent at once."""

    @classmethod
    def of(
        cls,
        shards: Sequence[Shard],
        cost_per_fetch: Money | None = None,
        now_ms: int | None = None,
    ) -> Self:
        """Return the budget of shards.

        Parameters
        ----------
        shards
            Shards of all partitions.
        cost_per_fetch
            Configured price of a fetch.
        now_ms
            Time in milliseconds since 1970; by default the time of each shard.
        """
        registers = [shard.tables.registers for shard in shards]
        in_cost = all(r.budget_unit[0] == BudgetUnit.COST for r in registers)
        rate = sum(float(r.budget[0]) for r in registers)
        credit = sum(s.credit(s.now_ms if now_ms is None else now_ms) for s in shards)
        return cls(
            unit="cost" if in_cost else "fetches",
            per_second=rate if math.isfinite(rate) else None,
            period_seconds=float(registers[0].budget_period[0]) or None,
            run_budget=float(registers[0].run_budget[0]) or None,
            cost_per_fetch=cost_per_fetch if in_cost else None,
            credit=credit if math.isfinite(credit) else None,
            credit_max=sum(float(r.credit_max[0]) for r in registers),
        )

    @property
    def text(self) -> str:
        """The budget in the unit of the user: "20,000 fetches/day", "50 EUR/month"."""
        if self.run_budget is not None:
            return self.amount_text(self.run_budget, "run")
        if self.per_second is None:
            return "unlimited"
        if self.per_second == 0:
            left = f", {self.amount_text(self.credit)} left" if self.credit else ""
            return f"0 {self.unit}{left}"
        period = self.period_seconds or _HOUR
        return self.amount_text(
            self.per_second * period, unit_name(period) or duration_text(period)
        )

    def amount_text(self, amount: float, per: str | None = None) -> str:
        """Return an amount of the budget with its noun: fetches, cost or money.

        Parameters
        ----------
        amount
            Fetches or cost.
        per
            Unit of time, for a rate.
        """
        suffix = "" if per is None else f"/{per}"
        if self.cost_per_fetch is not None:
            money = amount * float(self.cost_per_fetch.amount)
            return f"{number_text(_round_amount(money))} {self.cost_per_fetch.currency}{suffix}"
        amount = _round_amount(amount)
        if self.unit == "cost":
            return f"{number_text(amount)} cost{suffix}"
        return count_text(amount, f"fetch{suffix}", f"fetches{suffix}")


def seconds_to_next_fetch(shard: Shard, now_ms: int | None = None) -> float:
    """Return the seconds until the budget of a partition pays for a fetch: 0 if it does now.

    Parameters
    ----------
    shard
        Shard of the partition.
    now_ms
        Time in milliseconds since 1970; by default that of the shard.
    """
    registers = shard.tables.registers
    credit = shard.credit(shard.now_ms if now_ms is None else now_ms)
    is_in_cost = registers.budget_unit[0] == BudgetUnit.COST
    # The last order of a budget in cost may exceed the credit.
    needed = 1e-9 if is_in_cost else 1.0
    if credit >= needed - 1e-6 * (not is_in_cost):
        return 0.0
    rate = float(registers.budget[0])
    return max((needed - credit) / rate, 1e-3) if rate > 0 else math.inf


def _round_amount(amount: float) -> float:
    """Return an amount that shares of partitions add up to, without the error of the sum."""
    return round(amount, 9 - math.ceil(math.log10(amount))) if amount > 0 else 0.0
