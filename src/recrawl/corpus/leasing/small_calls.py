"""Small leases and small reports of many threads, done together and logged in one append.

A fetcher waits for a sync of the disk when it leases a page, and again when it reports it.  While
one thread waits for the disk, others come with calls of both kinds; the next append has all of
them.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from recrawl.merged_calls import MergedCalls

if TYPE_CHECKING:
    from recrawl.corpus.leasing.pages import Leasing
    from recrawl.corpus.leasing.reports import Reporting
    from recrawl.node.orders import Outcome
    from recrawl.node.records import RequestKey

__all__ = ["LeaseShare", "SmallCalls", "SmallLease", "SmallReport", "Wanted", "new_small_calls"]

# Number of rows after which no other call is done together with them, so that nobody waits long.
_ROWS_MAX = 256


class Wanted(NamedTuple):
    """What leases must have in common to be decided together."""

    run: str | None
    """Name of the run that pays; None if the budget is not per run."""
    seconds: float | None
    exact: bool


class LeaseShare(NamedTuple):
    """What one caller wants."""

    n: int
    """Largest number of orders."""
    request: "RequestKey | None" = None
    """Key of the request, if it may be repeated."""


class SmallLease(NamedTuple):
    """A lease for one caller, or for several who want the same."""

    leasing: "Leasing"
    wanted: Wanted
    shares: Sequence[LeaseShare]


class SmallReport(NamedTuple):
    """A call of `Corpus.report`."""

    reporting: "Reporting"
    outcomes: "list[Outcome]"


SmallCalls: TypeAlias = MergedCalls[SmallLease | SmallReport, Any]
"""The queue of a corpus: a lease returns the orders of each share, or the error that its caller
gets; a report returns what became of its outcomes."""


def new_small_calls() -> SmallCalls:
    """Return an empty queue."""
    return MergedCalls(_do_together, _ROWS_MAX)


def _do_together(calls: Sequence[SmallLease | SmallReport]) -> list[Any]:
    """Do leases that want the same, and reports; an error is that of the calls of one kind."""
    if len(calls) == 1:
        return [*_do_one(calls[0])]
    leases = [call for call in calls if isinstance(call, SmallLease)]
    reports = [call for call in calls if isinstance(call, SmallReport)]
    finish_reports: Callable[[], Sequence[Any]] = list
    if reports:
        finish_reports = reports[0].reporting.begin_all([call.outcomes for call in reports])
    leased: Sequence[Any] = ()
    if leases:
        leased = _results(lambda: leases[0].leasing.lease_all(leases), len(leases))
    reported = _results(finish_reports, len(reports))
    of_leases, of_reports = iter(leased), iter(reported)
    return [next(of_leases if isinstance(call, SmallLease) else of_reports) for call in calls]


def _do_one(call: SmallLease | SmallReport) -> Sequence[Any]:
    if isinstance(call, SmallLease):
        return call.leasing.lease_all([call])
    return call.reporting.begin_all([call.outcomes])()


def _results(run: Callable[[], Sequence[Any]], n: int) -> Sequence[Any]:
    try:
        return run()
    except BaseException as error:
        return [error] * n
