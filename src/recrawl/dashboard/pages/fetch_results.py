"""The results of fetches in words, the same on all pages."""

from typing import Final, NamedTuple

from recrawl.messages.samples import RESULTS, Figures

__all__ = ["RESULT_WORDS", "ResultRow", "result_rows"]

RESULT_WORDS: Final = {
    "first": "First copy",
    "unchanged": "Unchanged",
    "changed": "Changed",
    "gone": "Gone or moved",
    "disallowed": "Disallowed by robots.txt",
    "failed": "Failed",
    "wrong_answer": "Wrong answer",
}
"""Words for each of `recrawl.messages.samples.RESULTS`."""


class ResultRow(NamedTuple):
    """Fetches with one result."""

    words: str
    n: int
    share: float
    """Share of all fetches."""


def result_rows(figures: Figures) -> list[ResultRow]:
    """Return the fetches of a corpus, a host or a kind by result.

    Parameters
    ----------
    figures
        Figures of the fetches.
    """
    n = max(figures.n_fetches, 1)
    return [
        ResultRow(RESULT_WORDS[name], figures.results[name], figures.results[name] / n)
        for name in RESULTS
    ]
