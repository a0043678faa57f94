"""Read the answers of a service as the results that a corpus returns."""

import math
from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.errors import ServiceError
from recrawl.messages.enums import Reason, Transition, Why
from recrawl.messages.leases import WHYS, LeasedUrls, Orders, Shortfall, ShortfallReason
from recrawl.messages.orders import ORDER_SCHEMA, Order
from recrawl.messages.results import ChangedPart, Reported, RowStatus
from recrawl.messages.robots import RobotsNote
from recrawl.messages.samples import (
    DURATION_EDGES_SECONDS,
    Figures,
    Histogram,
    Sample,
    Samples,
    SourceFigures,
    SourceSamples,
)
from recrawl.messages.turns import TurnsAnswer, TurnStart
from recrawl.messages.views import (
    AuditedFreshness,
    AuditRow,
    AuditTable,
    Consumer,
    HostTable,
    HostView,
    LastChange,
    PageChange,
    Passage,
    PassageChanges,
    SourceRow,
    SourceTable,
    Stats,
)

__all__ = [
    "read_audits",
    "read_changed_part",
    "read_changes",
    "read_consumers",
    "read_host",
    "read_hosts",
    "read_last_change",
    "read_leased_urls",
    "read_order_table",
    "read_orders",
    "read_report_answer",
    "read_robots",
    "read_sample",
    "read_samples",
    "read_source_samples",
    "read_sources",
    "read_stats",
    "read_status",
    "read_table",
    "read_turns",
]

_N_BINS = len(DURATION_EDGES_SECONDS) - 1
_P = ParamSpec("_P")
_T = TypeVar("_T")
_STATUS = {status.name.lower(): int(status) for status in RowStatus}
_TRANSITIONS = {one.name.lower(): one for one in Transition}
_REASONS = {one.name.lower(): one for one in Reason}
_WHYS = {one.name.lower(): one for one in Why}
_WHY_CODES = {why: code for code, why in enumerate(WHYS)}


def _or_service_error(read: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return a reader that raises `ServiceError` for an answer of another shape."""

    @wraps(read)
    def read_or_raise(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return read(*args, **kwargs)
        except (KeyError, TypeError, ValueError, AttributeError, pa.ArrowException) as error:
            what = f"{type(error).__name__}: {error}"
            raise ServiceError(f"the answer is not that of a recrawl service: {what}") from error

    return read_or_raise


def _order(row: dict[str, Any]) -> Order:
    return Order(
        int(row["handle"]),
        row["url"],
        row["fetch_url"],
        _header(row["etag"]),
        _header(row["last_modified"]),
        _REASONS[row["reason"]],
        int(row["expires_at_ms"]),
        row["doc_id"],
        row["metadata"],
        row["key"],
    )


def _header(text: str | None) -> bytes | None:
    return None if text is None else text.encode("latin-1")


@_or_service_error
def read_orders(found: Any) -> Orders:
    """Return the orders of a lease, and why there are fewer than requested."""
    return Orders([_order(row) for row in found["orders"]], _shortfall(found["shortfall"]))


def _shortfall(found: dict[str, Any] | None) -> Shortfall | None:
    if found is None:
        return None
    reasons = (
        ShortfallReason(
            why=_WHYS[one["why"]],
            n_pages=one["n_pages"],
            seconds=one["seconds"],
            text=one["text"],
        )
        for one in found["reasons"]
    )
    return Shortfall(
        n_requested=found["n_requested"],
        n_leased=found["n_leased"],
        reasons=tuple(reasons),
        is_sampled=found["is_sampled"],
    )


@_or_service_error
def read_table(data: bytes) -> pa.Table:
    """Return the table of an Arrow IPC stream."""
    with pa.ipc.open_stream(data) as reader:
        table = reader.read_all()
    table.validate(full=True)
    return table


@_or_service_error
def read_order_table(table: pa.Table) -> pa.Table:
    """Return orders with the columns and types of `ORDER_SCHEMA`."""
    columns = []
    for field in ORDER_SCHEMA:
        column = table.column(field.name)
        if pa.types.is_dictionary(field.type):
            names = [one.name.lower() for one in Reason]
            codes = pa.array([names.index(name) for name in column.to_pylist()], pa.int8())
            columns.append(pa.DictionaryArray.from_arrays(codes, pa.array(names)))
        else:
            columns.append(column.cast(field.type))
    return pa.Table.from_arrays(columns, schema=ORDER_SCHEMA)


@_or_service_error
def read_leased_urls(urls: pa.Array, answers: Iterable[Any]) -> LeasedUrls:
    """Return the answers for given URLs."""
    found = list(answers)
    if len(found) != len(urls):
        raise ValueError(f"{len(found)} answers for {len(urls)} URLs")
    seconds = [math.inf if one["seconds"] is None else float(one["seconds"]) for one in found]
    return LeasedUrls(
        urls,
        [None if one["order"] is None else _order(one["order"]) for one in found],
        np.array([_WHY_CODES[_WHYS[one["why"]]] for one in found], np.uint8),
        np.array(seconds, np.float64),
    )


@_or_service_error
def read_changed_part(found: Any) -> ChangedPart:
    """Return what a request has changed; one without a cursor is of a server that does all."""
    cursor = found.get("cursor")
    return ChangedPart(int(found["n_pages"]), None if cursor is None else str(cursor))


@_or_service_error
def read_status(found: Any, n_rows: int | None = None) -> NDArray[np.uint8]:
    """Return the `RowStatus` of each row."""
    status = np.array([_STATUS[name] for name in found["status"]], np.uint8)
    if n_rows is not None and status.size != n_rows:
        raise ValueError(f"{status.size} statuses for {n_rows} rows")
    return status


@_or_service_error
def read_report_answer(found: Any, n_rows: int) -> Reported:
    """Return the effect of each outcome of one request."""
    status = read_status(found, n_rows)
    names = found["transition"]
    transition = [0 if name is None else int(_TRANSITIONS[name]) for name in names]
    has_dropped, wrong_answer = np.zeros(n_rows, np.bool_), np.zeros(n_rows, np.uint8)
    has_dropped[found.get("dropped", [])] = True
    for row, code in found.get("wrong_answers", {}).items():
        wrong_answer[int(row)] = code
    return Reported(
        status == RowStatus.DONE,
        np.array(transition, np.uint8),
        has_dropped,
        wrong_answer=wrong_answer,
        is_known=status != RowStatus.UNKNOWN,
        is_unavailable=np.isin(status, (RowStatus.UNAVAILABLE, RowStatus.ELSEWHERE)),
        is_elsewhere=status == RowStatus.ELSEWHERE,
    )


@_or_service_error
def read_turns(found: Any) -> TurnsAnswer:
    """Return what became of turns."""
    names = TurnStart._fields
    return TurnsAnswer(
        {turn: TurnStart(**_known_members(one, names)) for turn, one in found["begun"].items()},
        {turn: float(seconds) for turn, seconds in found["renewed"].items()},
    )


@_or_service_error
def read_changes(found: Any) -> list[PageChange]:
    """Return changes of pages."""
    return [
        PageChange(
            one["cursor"],
            one["url"],
            _TRANSITIONS[one["what"]],
            int(one["at_ms"]),
            one["doc_id"],
            one["metadata"],
            one["key"],
            _passages(one.get("passages")),
            one.get("kind"),
            one.get("sequence", ""),
        )
        for one in found["changes"]
    ]


def _passages(found: dict[str, Any] | None) -> PassageChanges | None:
    if found is None:
        return None
    text = found["added_text"]
    kept, added, removed = (tuple(map(int, found[name])) for name in ("kept", "added", "removed"))
    return PassageChanges(kept, added, removed, None if text is None else tuple(text))


@_or_service_error
def read_consumers(found: Any) -> list[Consumer]:
    """Return the consumers of the change feed."""
    return [Consumer(**_known_members(one, Consumer._fields)) for one in found["consumers"]]


@_or_service_error
def read_host(found: Any) -> HostView:
    """Return how a host is fetched from."""
    return HostView(**_known_members(found, HostView._fields))


@_or_service_error
def read_hosts(found: Any) -> HostTable:
    """Return the hosts with the most pages."""
    return HostTable([read_host(one) for one in found["hosts"]], int(found["n_hosts"]))


@_or_service_error
def read_last_change(found: Any) -> LastChange | None:
    """Return the last change of a page."""
    change = found["change"]
    if change is None:
        return None
    return LastChange(
        int(change["at_ms"]),
        _TRANSITIONS[change["what"]],
        _texts(change["removed"]),
        _texts(change["added"]),
        int(change["n_kept"]),
    )


def _texts(found: list[dict[str, Any]] | None) -> tuple[Passage, ...] | None:
    if found is None:
        return None
    return tuple(Passage(int(one["number"]), one["text"]) for one in found)


def read_audits(found: Any) -> AuditTable:
    """Return audited and modelled freshness."""
    names = [field.name for field in fields(AuditRow)]
    rows = [AuditRow(**_known_members(one, names)) for one in found["rows"]]
    return AuditTable(rows, int(found["n_judged"]))


@_or_service_error
def read_robots(found: Any) -> dict[str, list[RobotsNote]]:
    """Return what robots.txt files say, by host."""
    return {
        str(host): [RobotsNote.of_dict(one) for one in notes]
        for host, notes in found["hosts"].items()
    }


@_or_service_error
def read_sources(found: Any) -> SourceTable:
    """Return the sources of signals."""
    names = [field.name for field in fields(SourceRow)]
    rows = [SourceRow(**_known_members(one, names)) for one in found["sources"]]
    return SourceTable(rows, int(found["n_sources"]))


@_or_service_error
def read_stats(found: Any) -> Stats:
    """Return the statistics of a corpus."""
    members = _known_members(found, [field.name for field in fields(Stats)])
    names = [field.name for field in fields(AuditedFreshness)]
    members["audited"] = AuditedFreshness(**_known_members(members["audited"], names))
    return Stats(**members)


def _figures(found: dict[str, Any]) -> Figures:
    return Figures(**_known_members(found, [field.name for field in fields(Figures)]))


def _histogram(found: dict[str, Any]) -> Histogram:
    # JSON has no infinity; only the last end is without limit.
    edges = [math.inf if edge is None else edge for edge in found["edges"]]
    return Histogram(edges=tuple(edges), counts=tuple(found["counts"]))


def _source_figures(found: dict[str, Any]) -> SourceFigures:
    members: dict[str, Any] = _known_members(found, [field.name for field in fields(SourceFigures)])
    members = {name: math.nan if value is None else value for name, value in members.items()}
    return SourceFigures(**members)


@_or_service_error
def read_sample(found: Any) -> Sample:
    """Return the present state of a corpus."""
    members = _known_members(found, [field.name for field in fields(Sample)])
    partitions = {int(number): _figures(one) for number, one in found["partitions"].items()}
    return Sample(
        **{
            **members,
            "total": _figures(found["total"]),
            "partitions": partitions,
            "hosts": {name: _figures(one) for name, one in found["hosts"].items()},
            "kinds": {name: _figures(one) for name, one in found["kinds"].items()},
            "sources": [_source_figures(one) for one in found["sources"]],
            "histograms": {name: _histogram(one) for name, one in found["histograms"].items()},
        }
    )


def _column(found: list[float | None], missing: float = math.nan) -> NDArray[np.float64]:
    return np.array([missing if one is None else one for one in found], np.float64)


@_or_service_error
def read_samples(found: Any) -> Samples:
    """Return the series of a corpus, a host or a kind."""
    members = _known_members(found, [field.name for field in fields(Samples)])
    # JSON has no infinity, and only the series of a corpus has a budget.
    no_budget = math.inf if found["histograms"] else math.nan
    apart = {"step", "at_ms", "n_partitions", "results", "histograms"}
    apart |= {"n_partitions_away", "first_ms"}
    return Samples(
        **{
            **members,
            **{name: _column(one) for name, one in members.items() if name not in apart},
            "at_ms": np.array(found["at_ms"], np.int64),
            "n_partitions": np.array(found["n_partitions"], np.int64),
            "budget_per_second": _column(found["budget_per_second"], no_budget),
            "results": {name: _column(one) for name, one in found["results"].items()},
            "histograms": {
                name: np.array(rows, np.float64).reshape(-1, _N_BINS)
                for name, rows in found["histograms"].items()
            },
        }
    )


@_or_service_error
def read_source_samples(found: Any) -> SourceSamples:
    """Return the series of a source of signals."""
    members = _known_members(found, [field.name for field in fields(SourceSamples)])
    apart = {"step", "first_ms"}
    return SourceSamples(
        **{
            **{name: _column(one) for name, one in members.items() if name not in apart},
            **{name: members[name] for name in apart & members.keys()},
            "at_ms": np.array(found["at_ms"], np.int64),
        }
    )


def _known_members(found: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the members that this version knows; a later server may send more."""
    return {name: found[name] for name in names if name in found}
