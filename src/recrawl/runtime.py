"""Deprecated: the Python interface is in `recrawl.corpus`."""

from typing import TYPE_CHECKING

from recrawl.deprecated_names import find_moved_names

# Names of recrawl 0.1.0.
_MOVED = {
    "Added": "recrawl.corpus.Added",
    "AsyncCorpus": "recrawl.corpus.AsyncCorpus",
    "Change": "recrawl.corpus.PageChange",
    "Clock": "recrawl.corpus.Clock",
    "Corpus": "recrawl.corpus.Corpus",
    "CorpusConfig": "recrawl.corpus.CorpusConfig",
    "Order": "recrawl.corpus.Order",
    "Outcome": "recrawl.corpus.Outcome",
    "PageExplanation": "recrawl.corpus.PageExplanation",
    "PageSettings": "recrawl.corpus.PageSettings",
    "Plan": "recrawl.corpus.Plan",
    "Reported": "recrawl.corpus.Reported",
    "Stats": "recrawl.corpus.Stats",
    "SystemClock": "recrawl.corpus.SystemClock",
    "open_corpus": "recrawl.corpus.open_corpus",
}
# mypy would accept any attribute of a module that has this function.
if not TYPE_CHECKING:
    __getattr__ = find_moved_names(__name__, _MOVED)
