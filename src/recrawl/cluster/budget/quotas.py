"""Messages about the budget: what partitions use and need, and what each of them may spend."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any, Final, NamedTuple, Self

from recrawl.messages.budgets import CURVE_POINTS_MAX, Budget, Demand

__all__ = [
    "BUDGET_KEY",
    "DEMAND_KEY",
    "KEEP",
    "QUOTAS_KEY",
    "BudgetMessage",
    "DemandMessage",
    "QuotaMessage",
    "RecordId",
]

BUDGET_KEY: Final = "budget"
"""Key of the budget that an operator has set."""
DEMAND_KEY: Final = "demand/"
"""What the key of a partition's demand begins with; its number follows."""
QUOTAS_KEY: Final = "quotas"
"""Key of the record of all quotas."""
KEEP: Final = -1.0
"""Quota of a partition that goes on with what it has."""
_BYTES_MAX: Final = 320 << 10
_NUMBER_MAX: Final = 1 << 62
_FORMAT: Final = 1


class RecordId(NamedTuple):
    """What tells records of quotas apart; a later one is greater."""

    epoch: int
    """Epoch of the claim of partition 0 under which it was computed."""
    number: int
    """Number of the record in that epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandMessage:
    """What the owner of a partition says about it, and which quota it has obeyed.

    Parameters
    ----------
    partition
        Number of the partition.
    epoch
        Epoch of its owner's claim.
    serial
        Number of the message, which rises from message to message of an owner.
    per_second
        Quota of the partition by its log; inf if unlimited.
    heard
        Record of quotas that the owner has obeyed.  It obeys no earlier one from then on.
    demand
        Pages and demand curve of the partition.
    """

    partition: int
    epoch: int
    serial: int
    per_second: float
    heard: RecordId
    demand: Demand

    @property
    def key(self) -> str:
        """The key under which it is published."""
        return f"{DEMAND_KEY}{self.partition}"

    def to_bytes(self) -> bytes:
        """Return the message as bytes."""
        return _to_bytes(
            {
                "partition": self.partition,
                "epoch": self.epoch,
                "serial": self.serial,
                "per_second": _number(self.per_second),
                "heard": list(self.heard),
                "n_pages": self.demand.n_pages,
                "price": [float(f"{price:.4g}") for price in self.demand.price],
                "spent": [float(f"{spent:.4g}") for spent in self.demand.spent],
            }
        )

    @classmethod
    def from_bytes(cls, message: bytes) -> Self | None:
        """Return the message in some bytes; None if this version does not understand them."""
        try:
            found = _fields(message)
            price, spent = _amounts(found["price"]), _amounts(found["spent"])
            if len(price) != len(spent) or len(price) > CURVE_POINTS_MAX:
                return None
            if not all(map(isfinite, price + spent)):
                return None
            return cls(
                partition=int(found["partition"]),
                epoch=_whole(found["epoch"]),
                serial=_whole(found["serial"]),
                per_second=_amount(found["per_second"]),
                heard=_record_id(found["heard"]),
                demand=Demand(_whole(found["n_pages"]), price, spent),
            )
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaMessage:
    """All quotas of a corpus, in one record.

    Parameters
    ----------
    id
        Epoch and number of the record.
    budget
        Budget that is split.
    price
        Common price; nan if it is not known.
    per_second
        Quota of each partition, or `KEEP`.
    most
        Largest quota that each partition may use until it has acknowledged this record.
    """

    id: RecordId
    budget: Budget
    price: float
    per_second: tuple[float, ...]
    most: tuple[float, ...]

    def to_bytes(self) -> bytes:
        """Return the message as bytes."""
        return _to_bytes(
            {
                "id": list(self.id),
                "budget": _budget_fields(self.budget),
                "price": self.price if isfinite(self.price) else None,
                "per_second": [_number(one) for one in self.per_second],
                "most": [_number(one) for one in self.most],
            }
        )

    @classmethod
    def from_bytes(cls, message: bytes) -> Self | None:
        """Return the message in some bytes; None if this version does not understand them."""
        try:
            found = _fields(message)
            price = found["price"]
            quotas = cls(
                id=_record_id(found["id"]),
                budget=_budget(found["budget"]),
                price=float("nan") if price is None else float(price),
                per_second=_amounts(found["per_second"], keep=True),
                most=_amounts(found["most"]),
            )
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
            return None
        return quotas if len(quotas.per_second) == len(quotas.most) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetMessage:
    """The budget of the whole corpus.

    Parameters
    ----------
    revision
        Number that rises each time an operator sets it; 0 if it was configured.
    budget
        The budget.
    """

    revision: int
    budget: Budget

    @property
    def order(self) -> tuple[int, Budget]:
        """What decides between two of them, in the same way everywhere; the greater one holds."""
        return self.revision, self.budget

    def to_bytes(self) -> bytes:
        """Return the message as bytes."""
        return _to_bytes({"revision": self.revision, "budget": _budget_fields(self.budget)})

    @classmethod
    def from_bytes(cls, message: bytes) -> Self | None:
        """Return the message in some bytes; None if this version does not understand them."""
        try:
            found = _fields(message)
            return cls(revision=_whole(found["revision"]), budget=_budget(found["budget"]))
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
            return None


def _to_bytes(fields: Mapping[str, Any]) -> bytes:
    found = {"format": _FORMAT, **fields}
    return json.dumps(found, separators=(",", ":"), allow_nan=False).encode()


def _fields(message: bytes) -> dict[str, Any]:
    if len(message) > _BYTES_MAX:
        raise ValueError("too long")
    found = json.loads(message)
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise ValueError("of another version")
    return found


def _number(amount: float) -> float | None:
    """Return an amount for JSON, which has no infinity."""
    return None if amount == inf else amount


def _amount(found: Any) -> float:
    amount = inf if found is None else float(found)
    if not amount >= 0:
        raise ValueError("not an amount")
    return amount


def _amounts(found: Any, *, keep: bool = False) -> tuple[float, ...]:
    if not isinstance(found, list):
        raise TypeError("not a list")
    return tuple(KEEP if keep and one == KEEP else _amount(one) for one in found)


def _record_id(found: Any) -> RecordId:
    epoch, number = found
    return RecordId(_whole(epoch), _whole(number))


def _whole(found: Any) -> int:
    number = int(found)
    if not -1 <= number <= _NUMBER_MAX:  # -1 for none
        raise ValueError("not a number in its range")
    return number


def _budget_fields(budget: Budget) -> dict[str, Any]:
    return {**budget._asdict(), "per_second": _number(budget.per_second)}


def _budget(found: Any) -> Budget:
    rest = {name: float(found[name]) for name in ("period_seconds", "burst_seconds", "price")}
    if not all(0 <= value < inf for value in rest.values()):
        raise ValueError("not a budget")
    unit, price_mode = int(found["unit"]), int(found["price_mode"])
    if unit not in (0, 1) or price_mode not in (0, 1):
        raise ValueError("not a budget")
    return Budget(_amount(found["per_second"]), unit=unit, price_mode=price_mode, **rest)
