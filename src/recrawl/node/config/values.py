"""Types of configuration values: durations, rates, counts and choices.

The type of a field says which values it accepts.  It reads the value from TOML, checks it when an
object is made in Python, and describes it on the reference page.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    Self,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from recrawl.errors import ConfigError

__all__ = [
    "PARTITIONS_MAX",
    "PARTITION_BITS",
    "Count",
    "Duration",
    "Flags",
    "Number",
    "PerSecond",
    "Positive",
    "Probability",
    "Rate",
    "Share",
    "WholeNumber",
    "duration_text",
    "hints_of",
    "read_fields",
    "read_value",
    "seconds",
    "type_text",
]

PARTITION_BITS = 12
"""Bits of an order's handle that name its partition."""
PARTITIONS_MAX = 1 << PARTITION_BITS

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
# "min" and "minutes" as well as "m": the first letter decides.
_UNIT = r"s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|d(?:ays?)?|w(?:eeks?)?"
_NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_DURATION = re.compile(rf"\s*({_NUMBER})\s*({_UNIT})\s*", re.IGNORECASE)
_RATE = re.compile(rf"\s*({_NUMBER})\s*(?:/|\bper\b)\s*({_UNIT}|run)\s*", re.IGNORECASE)


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
            return float(match[1]) * _SECONDS[match[2][0].lower()]
    elif _is_number(duration) and not math.isnan(duration):
        return float(duration)
    raise ValueError(f"must be {_A_DURATION}, got {duration!r}")


def duration_text(duration: float) -> str:
    """Return a duration as text, in the largest unit that divides it.

    Examples
    --------
    >>> duration_text(86_400), duration_text(90), duration_text(0.5)
    ('1d', '90s', '0.5s')
    """
    if math.isinf(duration):
        return "inf"
    for unit, size in reversed(_SECONDS.items()):
        if duration and duration % size == 0:
            return f"{duration / size:g}{unit}"
    return f"{duration:g}s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """An amount per unit of time, or per run of the program.

    Parameters
    ----------
    amount
        Amount, 0 or more; infinite means unlimited.
    per_seconds
        Unit of time in seconds; None means one run.

    Examples
    --------
    >>> Rate.of("30/h"), Rate.of("30 per hour")
    (Rate(amount=30.0, per_seconds=3600.0), Rate(amount=30.0, per_seconds=3600.0))
    >>> Rate.of("100/run").per_seconds is None
    True
    """

    amount: float
    per_seconds: float | None

    def __post_init__(self) -> None:
        if not self.amount >= 0:
            raise ConfigError(f"amount must not be negative, got {self.amount!r}")
        if self.per_seconds is not None and not 0 < self.per_seconds < math.inf:
            raise ConfigError(f"per_seconds must be positive, got {self.per_seconds!r}")

    def __str__(self) -> str:
        """Return the rate as text that `of` reads, such as ``30/h``."""
        if math.isinf(self.amount):
            return "unlimited"
        units = {size: unit for unit, size in _SECONDS.items()}
        if self.per_seconds is None:
            return f"{_shortest(self.amount)}/run"
        unit = units.get(self.per_seconds)
        if unit is None:
            return f"{_shortest(self.amount / self.per_seconds)}/s"
        return f"{_shortest(self.amount)}/{unit}"

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
                unit = match[2].lower()
                return cls(
                    amount=float(match[1]),
                    per_seconds=None if unit == "run" else _SECONDS[unit[0]],
                )
        raise ValueError(f"must be {_A_RATE}, got {rate!r}")


def _shortest(amount: float) -> str:
    """Return the shortest text that reads back as the same number."""
    return f"{amount:.0f}" if amount.is_integer() and amount < 1e15 else repr(amount)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Allowed:
    """Numbers that a field accepts, and the notations for them."""

    what: str
    """Description for messages: a noun phrase with its article."""
    is_whole: bool = False
    unit: Literal["none", "duration", "rate"] = "none"
    low: float = 0.0
    high: float = math.inf
    is_open: bool = False
    """Whether ``low`` and ``high`` themselves are excluded."""

    def read(self, value: Any) -> float | int:
        """Return the number that a value stands for; raise ValueError if it is not accepted."""
        if self.unit == "duration":
            value = seconds(value)
        elif self.unit == "rate" and isinstance(value, str):
            rate = Rate.of(value)
            value = math.nan if rate.per_seconds is None else rate.amount / rate.per_seconds
        fits = _is_number(value) and (isinstance(value, int) or not self.is_whole)
        if fits and self.is_open:
            fits = self.low < value < self.high
        if not (fits and self.low <= value <= self.high):
            raise ValueError(f"must be {self.what}, got {value!r}")
        return int(value) if self.is_whole else float(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_A_DURATION = 'a duration (seconds, or text such as "90s", "15m", "6h", "2d", "1w")'
_A_RATE = 'a rate (text such as "5/s", "100/min", "30/h", "1000/d", "100/run", or "unlimited")'

Duration: TypeAlias = Annotated[float, _Allowed(what=_A_DURATION, unit="duration")]
"""Seconds; in TOML also text with a unit."""
PerSecond: TypeAlias = Annotated[
    float, _Allowed(what='a rate (per second, or text such as "5/s", "30/h", "1/d")', unit="rate")
]
"""Per second; in TOML also text with a unit."""
Number: TypeAlias = Annotated[float, _Allowed(what="a number, not negative")]
Positive: TypeAlias = Annotated[float, _Allowed(what="a positive finite number", is_open=True)]
Share: TypeAlias = Annotated[float, _Allowed(what="a number from 0 to 1", high=1.0)]
Probability: TypeAlias = Annotated[
    float, _Allowed(what="a number between 0 and 1, both excluded", high=1.0, is_open=True)
]
WholeNumber: TypeAlias = Annotated[
    int, _Allowed(what="a whole number, not negative", is_whole=True)
]
Count: TypeAlias = Annotated[int, _Allowed(what="a whole number from 1", is_whole=True, low=1)]
Flags: TypeAlias = Mapping[str, str | int | float | bool]
"""Settings of another program, passed on unchanged."""


def read_value(hint: Any, value: Any) -> Any:
    """Return a value as a field of this type stores it; raise ValueError if it is not accepted."""
    if get_origin(hint) is Annotated:
        return get_args(hint)[1].read(value)
    if get_origin(hint) in (Union, UnionType):
        # None means "not set"; TOML cannot express it.
        return None if value is None else read_value(_without_none(hint), value)
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise ValueError(f"must be {type_text(hint)}, got {value!r}")
        return value
    if hint is Rate:
        return Rate.of(value)
    if hint is str:
        if not (isinstance(value, str) and value.strip()):
            raise ValueError(f"must be {type_text(hint)}, got {value!r}")
        return value
    assert hint == Flags, hint
    if not (isinstance(value, Mapping) and all(_is_flag(flag) for flag in value.values())):
        raise ValueError(f"must be {type_text(hint)}, got {value!r}")
    return dict(value)


def _is_flag(value: Any) -> bool:
    return isinstance(value, str | int | float | bool)


def _without_none(hint: Any) -> Any:
    return next(part for part in get_args(hint) if part is not NoneType)


def type_text(hint: Any) -> str:
    """Return a description of the values that a field of this type accepts."""
    if get_origin(hint) is Annotated:
        return str(get_args(hint)[1].what)
    if get_origin(hint) in (Union, UnionType):
        return type_text(_without_none(hint))
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(f'"{choice}"' for choice in get_args(hint))
    if hint is Rate:
        return _A_RATE
    return "text" if hint is str else "a table of text, numbers and booleans"


def hints_of(section: type) -> dict[str, Any]:
    """Return the types of the fields of a section, by name."""
    return get_type_hints(section, include_extras=True)


def read_fields(section: Any) -> None:
    """Read and check the fields of a frozen section, from its ``__post_init__``."""
    hints = hints_of(type(section))
    for field in fields(section):
        try:
            value = read_value(hints[field.name], getattr(section, field.name))
        except ValueError as error:
            raise ConfigError(f"{field.name} {error}") from None
        object.__setattr__(section, field.name, value)
