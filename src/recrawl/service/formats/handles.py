"""Handles of orders in JSON: texts, because many languages read numbers above 2**53 as floats.

Clients may send the number as well; its digits count.
"""

from typing import Annotated, Final

from msgspec import Meta

__all__ = ["HANDLE_MAX", "Handle", "handle_number"]

HANDLE_MAX: Final = (1 << 63) - 1


def _pattern_up_to(most: int) -> str:
    """Return a pattern of the decimal numbers from 0 to the largest one.

    Each alternative has a smaller digit at one place, and any digits after it.
    """
    digits = str(most)
    parts = [f"[0-9]{{1,{len(digits) - 1}}}", digits]
    for place, digit in enumerate(digits):
        low = "1" if place == 0 else "0"
        if digit > low:
            rest = len(digits) - place - 1
            after = f"[0-9]{{{rest}}}" if rest else ""
            parts.append(f"{digits[:place]}[{low}-{int(digit) - 1}]{after}")
    return f"^({'|'.join(parts)})$"


Handle = (
    Annotated[str, Meta(pattern=_pattern_up_to(HANDLE_MAX), examples=["4096"])]
    | Annotated[int, Meta(ge=0, le=HANDLE_MAX)]
)
"""A handle as a client sends it."""


def handle_number(handle: str | int) -> int:
    """Return a handle as a number."""
    return handle if isinstance(handle, int) else int(handle)
