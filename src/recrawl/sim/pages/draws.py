"""Random draws that depend only on the names under which they are made.

They use no generator of the standard library, so every version of Python gives the same pages.
"""

import math
from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

__all__ = ["Draws"]

_T = TypeVar("_T")
_MASK = (1 << 64) - 1


class Draws:
    """Draws in a fixed order under a name: the same names give the same draws.

    Parameters
    ----------
    names
        Numbers and words that name the purpose of the draws.

    Examples
    --------
    >>> Draws(7, "price").integer(1, 100) == Draws(7, "price").integer(1, 100)
    True
    """

    __slots__ = ("_state",)

    def __init__(self, *names: int | str) -> None:
        text = "\x1f".join(map(str, names))
        self._state = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")

    def bits(self) -> int:
        """Return 64 random bits (Steele, Lea and Flood 2014, SplitMix)."""
        self._state = state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        return state ^ (state >> 31)

    def uniform(self) -> float:
        """Return a number from 0 to 1, without 1."""
        return (self.bits() >> 11) / 9_007_199_254_740_992.0

    def exponential(self, mean: float) -> float:
        """Return an exponential draw of this mean."""
        return -mean * math.log(1.0 - self.uniform())

    def normal(self) -> float:
        """Return a standard normal draw (Box and Muller 1958)."""
        radius = math.sqrt(-2.0 * math.log(1.0 - self.uniform()))
        return radius * math.cos(2.0 * math.pi * self.uniform())

    def integer(self, low: int, high: int) -> int:
        """Return an integer from ``low`` to ``high``, both included."""
        return low + self.bits() % (high - low + 1)

    def chance(self, probability: float) -> bool:
        """Return true with this probability."""
        return self.uniform() < probability

    def choose(self, options: Sequence[_T]) -> _T:
        """Return one of the options."""
        return options[self.bits() % len(options)]

    def sample(self, options: Sequence[_T], n: int) -> list[_T]:
        """Return at most ``n`` different options in random order."""
        rest = list(options)
        chosen = []
        for _ in range(min(n, len(rest))):
            row = self.bits() % len(rest)
            chosen.append(rest[row])
            rest[row] = rest[-1]
            rest.pop()
        return chosen

    def token(self, n_digits: int = 32) -> str:
        """Return random hexadecimal digits."""
        digits = ""
        while len(digits) < n_digits:
            digits += f"{self.bits():016x}"
        return digits[:n_digits]
