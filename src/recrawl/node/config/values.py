"""Types of configuration values: durations, rates, counts, time windows and choices.

The type of a field says which values it accepts.  It reads the value from TOML, checks it when an
object is made in Python, and describes it on the reference page.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from recrawl.errors import ConfigError
from recrawl.node.config.rates import (
    A_DURATION,
    A_RATE,
    SOME_MONEY,
    Money,
    Rate,
    duration_text,
    is_number,
    seconds,
)
from recrawl.node.config.time_windows import A_WINDOW, TimeWindows

__all__ = [
    "PARTITIONS_MAX",
    "PARTITION_BITS",
    "Count",
    "Duration",
    "Flags",
    "Money",
    "Number",
    "PerSecond",
    "Positive",
    "Probability",
    "Rate",
    "Share",
    "Texts",
    "TimeWindows",
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
            is_plain = rate.per_seconds is not None and rate.currency is None
            value = rate.amount / (rate.per_seconds or 1.0) if is_plain else math.nan
        fits = is_number(value) and (isinstance(value, int) or not self.is_whole)
        if fits and self.is_open:
            fits = self.low < value < self.high
        if not (fits and self.low <= value <= self.high):
            raise ValueError(f"must be {self.what}, got {value!r}")
        return int(value) if self.is_whole else float(value)


Duration: TypeAlias = Annotated[float, _Allowed(what=A_DURATION, unit="duration")]
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
Texts: TypeAlias = tuple[str, ...]
"""Several texts; in TOML an array."""


_READ_BY_THEMSELVES: dict[Any, str] = {Rate: A_RATE, Money: SOME_MONEY, TimeWindows: A_WINDOW}


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
    if hint in _READ_BY_THEMSELVES:
        return hint.of(value)
    if hint is bool:
        if not isinstance(value, bool):
            raise ValueError(f"must be {type_text(hint)}, got {value!r}")
        return value
    if hint == Texts:
        is_list = isinstance(value, list | tuple)
        if not is_list or not all(isinstance(one, str) and one.strip() for one in value):
            raise ValueError(f"must be {type_text(hint)}, got {value!r}")
        return tuple(value)
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
    if hint in _READ_BY_THEMSELVES:
        return _READ_BY_THEMSELVES[hint]
    if hint is bool:
        return "true or false"
    if hint == Texts:
        return "a list of texts"
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
