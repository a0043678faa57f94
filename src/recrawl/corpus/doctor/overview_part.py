"""What the overview of the dashboard says in words: latest changes, and problems."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from recrawl.corpus.corpus import Corpus
from recrawl.corpus.doctor import check_open_corpus
from recrawl.corpus.doctor.check_results import CheckResult
from recrawl.corpus.feed.change_feed import PageChange, latest_changes

__all__ = ["OverviewPart", "merge_overview_parts", "read_overview_part"]

# Their results name what they are about, wherever it is.
_NAMED: Final = frozenset({"hosts", "host limits", "sources"})
_FETCHERS: Final = "fetchers"


class OverviewPart(NamedTuple):
    """What one process knows, or all of them together."""

    changes: list[PageChange]
    """The latest changes, newest first."""
    problems: list[CheckResult]
    workers_away: tuple[str, ...] = ()
    """Names of workers that have not answered in time."""


def read_overview_part(corpus: Corpus, n_changes: int, n_due: float | None = None) -> OverviewPart:
    """Return the latest changes and the problems of the open partitions of a corpus.

    Parameters
    ----------
    corpus
        Open corpus.
    n_changes
        Largest number of changes.
    n_due
        Number of pages that are due in all partitions; None looks for no problems.
    """
    return OverviewPart(
        latest_changes(corpus.nodes, n_changes),
        [] if n_due is None else check_open_corpus(corpus, n_due=n_due),
    )


def merge_overview_parts(
    parts: Sequence[tuple[str, OverviewPart]], n_changes: int, workers_away: Sequence[str] = ()
) -> OverviewPart:
    """Return what all workers know as one.

    A problem that all have in the same words is there once.  Others say which worker has them, as
    far as that matters.  No fetcher asks for pages only if none asks any worker.

    Parameters
    ----------
    parts
        Name of each worker that has answered, and what it knows.
    n_changes
        Largest number of changes.
    workers_away
        Names of the others.
    """
    workers: dict[CheckResult, list[str]] = {}
    idle = []
    for worker, part in parts:
        own_idle = [one for one in part.problems if one.check == _FETCHERS]
        idle.append(own_idle)
        for one in part.problems:
            if one.check != _FETCHERS:
                workers.setdefault(one, []).append(worker)
    problems = [
        one
        if len(names) > 1 or len(parts) == 1 or one.check in _NAMED
        else replace(one, what=f"{one.what} (worker {names[0]})")
        for one, names in workers.items()
    ]
    if idle and all(idle):
        problems[:0] = idle[0]
    changes = [change for _, part in parts for change in part.changes]
    changes.sort(key=lambda change: -change.at_ms)
    return OverviewPart(changes[:n_changes], problems, tuple(sorted(set(workers_away))))
