"""Accounts of a fetch log by brute force: every quantity at the middle of every tiny step."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def items_of_versions(order: str, n_items: int, picks: Sequence[int]) -> list[list[str]]:
    """Return the items that a page shows at each version; ``picks`` says which an edit takes."""
    items = [f"start {k}" for k in range(n_items)]
    shown = [list(items)]
    for number, pick in enumerate(picks):
        if order == "all":
            items = [f"v{number} {k}" for k in range(n_items)]
        elif order == "oldest":
            items = [*items[1:], f"v{number}"]
        else:
            items = list(items)
            items[pick] = f"v{number}"
        shown.append(list(items))
    return shown


def jaccard_distance(a: Sequence[str], b: Sequence[str], n_static: int) -> float:
    static = [f"static {k}" for k in range(n_static)]
    first, second = {*a, *static}, {*b, *static}
    return 1 - len(first & second) / len(first | second)


def versions_on_a_grid(
    changed_at: Sequence[float], versions: Sequence[int], grid: NDArray[np.float64]
) -> list[int]:
    found = []
    for at in grid:
        version = 0
        for change, after in zip(changed_at, versions, strict=True):
            if change <= at:
                version = after
        found.append(version)
    return found


def copies_on_a_grid(
    fetched_at: Sequence[float],
    changed_at: Sequence[float],
    versions: Sequence[int],
    grid: NDArray[np.float64],
) -> list[int]:
    at_fetches = versions_on_a_grid(changed_at, versions, np.asarray(fetched_at))
    found = []
    for at in grid:
        copy = 0
        for fetch, version in zip(fetched_at, at_fetches, strict=True):
            if fetch <= at:
                copy = version
        found.append(copy)
    return found
