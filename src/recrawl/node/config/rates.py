"""Durations, rates and amounts of money as people write them.

Units may be short or long, in the singular or plural: ``h``, ``hour``, ``hours``.  A month is
30.4375 days, a twelfth of a year of 365.25.
"""

import math
import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Self

from recrawl.errors import ConfigError

__all__ = ["MONTH_SECONDS", "Money", "Rate", "duration_text", "is_number", "seconds", "unit_name"]

MONTH_SECONDS = 30.4375 * 86_400.0

_SECONDS = {
    "s": 1.0,
    "m": 60.0,
    "h": 3_600.0,
    "d": 86_400.0,
    "w": 604_800.0,
    "month": MONTH_SECONDS,
}
# Units in texts for people.
_NAMES = {1.0: "s", 60.0: "min", 3_600.0: "h", 86_400.0: "day", 604_800.0: "week"}
_NAMES[MONTH_SECONDS] = "month"
# "min" and "minutes" as well as "m": the first letter decides, except for months.
_UNIT = r"s(?:ec(?:ond)?s?)?|months?|m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|d(?:ays?)?|w(?:eeks?)?"
_NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?"
# With or without commas between thousands.
_AMOUNT = rf"\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|{_NUMBER}"
_DURATION = re.compile(rf"\s*({_NUMBER})\s*({_UNIT})\s*", re.IGNORECASE)
_RATE = re.compile(
    rf"\s*({_AMOUNT})\s*([a-z]{{3}})?\s*(?:/|\bper\b)\s*({_UNIT}|run)\s*", re.IGNORECASE
)
_MONEY = re.compile(rf"\s*({_AMOUNT})\s*([a-z]{{3}})\s*", re.IGNORECASE)

A_DURATION = 'a duration (seconds, or text such as "90s", "15m", "6h", "2d", "1w")'
A_RATE = (
    'a rate (text such as "5/s", "100/min", "30/h", "20000/day", "50 EUR/month", "100/run", or '
    '"unlimited")'
)
SOME_MONEY = 'an amount of money (text such as "0.0005 EUR")'


def _unit_seconds(unit: str) -> float:
    unit = unit.lower()
    return _SECONDS["month" if unit.startswith("mo") else unit[0]]


def unit_name(per_seconds: float) -> str | None:
    """Return the unit of time of a rate for people, such as "day"; None if it has no name."""
    return _NAMES.get(per_seconds)


def seconds(duration: float | str) -> float:
    """Return a duration in seconds, given as a number of seconds or as text with a unit.

    Examples
    --------
    >>> seconds("90s"), seconds("15m"), seconds("6 hours"), seconds("2d"), seconds("1w"), seconds(5)
    (90.0, 900.0, 21600.0, 172800.0, 604800.0, 5.0)
    """
    if isinstance(duration, str):
        match = _DURATION.fullmatch(duration)
        if match:
            return float(match[1]) * _unit_seconds(match[2])
    elif is_number(duration) and not math.isnan(duration):
        return float(duration)
    raise ValueError(f"must be {A_DURATION}, got {duration!r}")


def duration_text(duration: float) -> str:
    """Return a duration as text, in the largest unit that divides it.

    Examples
    --------
    >>> duration_text(86_400), duration_text(90), duration_text(0.5), duration_text(2_629_800)
    ('1d', '90s', '0.5s', '1 month')
    """
    if math.isinf(duration):
        return "inf"
    for unit, size in reversed(_SECONDS.items()):
        if duration and duration % size == 0:
            n = duration / size
            if unit == "month":
                return f"{n:g} month" if n == 1 else f"{n:g} months"
            return f"{n:g}{unit}"
    return f"{duration:g}s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """An amount per unit of time, or per named run.

    Parameters
    ----------
    amount
        Amount, 0 or more; infinite means unlimited.
    per_seconds
        Unit of time in seconds; None means one run.
    currency
        Currency of an amount of money, such as "EUR"; None for a number of fetches or their cost.

    Examples
    --------
    >>> Rate.of("30/h"), Rate.of("30 per hour")
    (Rate(amount=30.0, per_seconds=3600.0), Rate(amount=30.0, per_seconds=3600.0))
    >>> Rate.of("100/run").per_seconds is None
    True
    >>> Rate.of("20000/d").text, Rate.of("50 EUR/month").text
    ('20,000/day', '50 EUR/month')
    """

    amount: float
    per_seconds: float | None
    currency: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.amount >= 0:
            raise ConfigError(f"amount must not be negative, got {self.amount!r}")
        if self.per_seconds is not None and not 0 < self.per_seconds < math.inf:
            raise ConfigError(f"per_seconds must be positive, got {self.per_seconds!r}")

    def __str__(self) -> str:
        """Return the rate as text that `of` reads, such as ``30/h``."""
        if math.isinf(self.amount):
            return "unlimited"
        money = f" {self.currency}" if self.currency else ""
        if self.per_seconds is None:
            return f"{_shortest(self.amount)}{money}/run"
        unit = {size: unit for unit, size in _SECONDS.items()}.get(self.per_seconds)
        if unit is None:
            return f"{_shortest(self.amount / self.per_seconds)}{money}/s"
        return f"{_shortest(self.amount)}{money}/{unit}"

    @property
    def text(self) -> str:
        """The rate as text for people, in the unit of the user: ``20,000/day``."""
        if math.isinf(self.amount):
            return "unlimited"
        whole = self.amount.is_integer() and self.amount < 1e15
        amount = f"{self.amount:,.0f}" if whole else _shortest(self.amount)
        money = f" {self.currency}" if self.currency else ""
        if self.per_seconds is None:
            return f"{amount}{money}/run"
        unit = unit_name(self.per_seconds)
        return f"{amount}{money}/{unit}" if unit else str(self)

    @classmethod
    def of(cls, rate: Self | str) -> Self:
        """Return the rate that a text describes; a `Rate` is returned unchanged."""
        if isinstance(rate, cls):
            return rate
        if isinstance(rate, str):
            if rate.strip() == "unlimited":
                return cls(amount=math.inf, per_seconds=1.0)
            match = _RATE.fullmatch(rate)
            if match:
                unit = match[3].lower()
                return cls(
                    amount=float(match[1].replace(",", "")),
                    per_seconds=None if unit == "run" else _unit_seconds(unit),
                    currency=match[2] and match[2].upper(),
                )
        raise ValueError(f"must be {A_RATE}, got {rate!r}")


@dataclass(frozen=True, slots=True)
class Money:
    """An amount of money in one currency, in decimal digits as written.

    Parameters
    ----------
    amount
        Amount, above 0.
    currency
        Three letters, such as "EUR".

    Examples
    --------
    >>> Money.of("0.0005 eur")
    Money(amount=Decimal('0.0005'), currency='EUR')
    >>> str(Money.of("1,000.50 USD"))
    '1000.50 USD'
    """

    amount: Decimal
    currency: str

    def __str__(self) -> str:
        """Return the amount as text that `of` reads."""
        return f"{self.amount:f} {self.currency}"

    @classmethod
    def of(cls, money: Self | str) -> Self:
        """Return the amount that a text describes; a `Money` is returned unchanged."""
        if isinstance(money, cls):
            return money
        match = _MONEY.fullmatch(money) if isinstance(money, str) else None
        amount = Decimal(match[1].replace(",", "")) if match else Decimal(0)
        if match is None or amount <= 0:
            raise ValueError(f"must be {SOME_MONEY}, got {money!r}")
        return cls(amount, match[2].upper())

    def amount_of(self, rate: Rate) -> float:
        """Return how many times a rate in the same currency pays this amount.

        Examples
        --------
        >>> Money.of("0.0005 EUR").amount_of(Rate.of("50 EUR/month"))
        100000.0
        """
        if math.isinf(rate.amount):
            return math.inf
        return float(Decimal(repr(rate.amount)) / self.amount)


def is_number(value: object) -> bool:
    """Return whether a value is a number, and not a boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shortest(amount: float) -> str:
    """Return the shortest text that reads back as the same number."""
    return f"{amount:.0f}" if amount.is_integer() and amount < 1e15 else repr(amount)
