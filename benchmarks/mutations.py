"""Change bytes at random, as the runs with mutated bodies and mutated signals do."""

import random
from collections.abc import Sequence
from typing import Final

__all__ = ["LARGE_SHARE", "N_MUTATIONS", "insert_many", "mutate"]

N_MUTATIONS: Final = 7
"""Number of ways in which `mutate` can change bytes."""
LARGE_SHARE: Final = 0.001
"""Share of inputs in which a piece is repeated up to a megabyte."""


def mutate(
    body: bytearray,
    way: int,
    at: int,
    to: int,
    samples: Sequence[bytes],
    pieces: Sequence[bytes],
    rng: random.Random,
) -> None:
    """Change a part of some bytes in place.

    Parameters
    ----------
    body
        Bytes to change.
    way
        Number of the way to change them, below `N_MUTATIONS`.
    at, to
        Ends of the part.
    samples
        Whole inputs, one of which may replace everything after ``at``.
    pieces
        Short texts to insert.
    rng
        Source of random numbers.
    """
    match way:
        case 0:
            del body[at:to]
        case 1:
            body[at:at] = body[at:to] * rng.randrange(1, 20)
        case 2:
            body[at:at] = rng.choice(pieces) * rng.choice((1, 1, 1, 3, 30, 300))
        case 3:
            body[at:to] = rng.choice(pieces)
        case 4:
            body[at:to] = rng.randbytes(to - at)
        case 5:
            body[at:] = rng.choice(samples)
        case _:
            for place in range(at, to):
                body[place] ^= 1 << rng.randrange(8)


def insert_many(body: bytearray, pieces: Sequence[bytes], rng: random.Random) -> None:
    """Insert a piece many times, up to a megabyte, into a small share of inputs.

    Parameters
    ----------
    body
        Bytes to change.
    pieces
        Short texts to insert.
    rng
        Source of random numbers.
    """
    if rng.random() < LARGE_SHARE:
        piece = rng.choice(pieces) + bytes(body[: rng.randrange(50)])
        at = rng.randrange(len(body) + 1)
        body[at:at] = piece * rng.randrange(1_000_000 // len(piece))
