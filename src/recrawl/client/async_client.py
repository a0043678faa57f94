"""The client of a service for asyncio: the methods of `recrawl.AsyncCorpus` over HTTP."""

import asyncio
import json
import os
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from copy import copy
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.client.answers import (
    read_audits,
    read_changed_part,
    read_changes,
    read_consumers,
    read_host,
    read_hosts,
    read_last_change,
    read_leased_urls,
    read_order_table,
    read_orders,
    read_report_answer,
    read_robots,
    read_sample,
    read_samples,
    read_source_samples,
    read_sources,
    read_stats,
    read_status,
    read_table,
    read_turns,
)
from recrawl.client.details import ServiceDetails
from recrawl.client.problems import RequestTooLarge, UnknownName
from recrawl.client.request_keys import NewRequestKey, new_request_key
from recrawl.client.rows import (
    ROWS_PER_REQUEST,
    Urls,
    body_of,
    page_table,
    split_rows,
    table_of_outcomes,
    url_array,
)
from recrawl.client.sent_rows import AnsweredRows, SentRows, repeat_unavailable
from recrawl.client.service_url import parse_service_url
from recrawl.client.transport import ARROW, Connecting, Transport
from recrawl.client.work import Stop, WorkCounts, work_until_stopped
from recrawl.errors import ServiceError, ServiceUnavailable
from recrawl.messages.enums import Why
from recrawl.messages.leases import LeasedUrls, Orders, Shortfall, is_run_over
from recrawl.messages.orders import ORDER_SCHEMA, Order, Outcome
from recrawl.messages.results import (
    Added,
    ChangedPart,
    CountedRows,
    Reported,
    RowStatus,
    Signalled,
    find_unavailable,
)
from recrawl.messages.robots import RobotsNote
from recrawl.messages.samples import Sample, Samples, SourceSamples
from recrawl.messages.turns import TurnEnd, TurnsAnswer
from recrawl.messages.views import (
    AuditTable,
    Consumer,
    HostTable,
    HostView,
    LastChange,
    PageChange,
    PageRows,
    SourceRow,
    SourceTable,
    Stats,
)

__all__ = ["AsyncClient"]

_ORDERS_PER_REQUEST = 10_000
_LISTED_PER_REQUEST = 5_000
_NOTES_PER_REQUEST = 500
_HOSTS_PER_REQUEST = 100
_WAIT_SECONDS = 20.0
# Share of a lease that may pass while other pages of the same call are leased.
_LEASE_SHARE_WAITED = 0.25
_REPORTED = (
    "counted",
    "transition",
    "has_dropped",
    "wrong_answer",
    "is_known",
    "is_unavailable",
    "is_elsewhere",
)


class AsyncClient:
    """A corpus on a server, for asyncio; open it with ``async with``.

    Each method does what the method of `recrawl.AsyncCorpus` with its name does, as far as the
    service offers it.  Requests that fail are repeated, and have the effect of one.

    Parameters
    ----------
    url
        Address of the corpus, as `recrawl serve` prints it:
        ``https://example.com/v1/corpora/news``.  Without a name it is the only corpus of the
        server.
    key
        API key; the value of the environment variable ``RECRAWL_KEY`` by default.
    timeout_seconds
        Longest time for one attempt, beyond the time that the server is asked to wait.
    retry_seconds
        Longest time for which a request is repeated; 0 for never.
    row_retry_seconds
        Longest time for which rows are sent again whose partition cannot be reached;
        ``retry_seconds`` by default, 0 for never.
    answer_bytes_max
        Largest answer that is read, in bytes.
    connections_max
        Number of connections at a time.
    allow_http
        Whether the key may be sent to another machine without encryption.
    certificates
        File of certificates to trust instead of those of the system.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout_seconds: float = 60.0,
        retry_seconds: float = 60.0,
        row_retry_seconds: float | None = None,
        answer_bytes_max: int = 256 << 20,
        connections_max: int = 100,
        allow_http: bool = False,
        certificates: str | os.PathLike[str] | None = None,
    ) -> None:
        how = Connecting(
            key=key or os.environ.get("RECRAWL_KEY") or None,
            timeout_seconds=timeout_seconds,
            retry_seconds=retry_seconds,
            answer_bytes_max=answer_bytes_max,
            connections_max=connections_max,
            allow_http=allow_http,
            certificates=None if certificates is None else os.fspath(certificates),
        )
        self.url = url
        self._transport = Transport(parse_service_url(url), how)
        self._row_retry_seconds = (
            retry_seconds if row_retry_seconds is None else float(row_retry_seconds)
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    # ------------------------------------------------------------------ sending

    async def _get(self, path: str, wait_seconds: float = 0.0, **params: Any) -> Any:
        answer = await self._transport.call("GET", path, params=params, wait_seconds=wait_seconds)
        return answer.json()

    async def _send(self, method: str, path: str, body: Any, ends_at: float | None = None) -> Any:
        data = json.dumps(body, ensure_ascii=False).encode()
        return (await self._transport.call(method, path, body=data, ends_at=ends_at)).json()

    async def _send_rows(
        self,
        method: str,
        path: str,
        table: pa.Table,
        *,
        request: str | None = None,
        ends_at: float | None = None,
        **params: Any,
    ) -> list[SentRows]:
        """Send rows in as many requests as they need; return the rows and answer of each."""
        sent = []
        for number, part in enumerate(split_rows(table)):
            key = None if request is None else f"{request}.{number}"
            sent += await self._send_part(method, path, part, key, ends_at, params)
        return sent

    async def _send_part(
        self,
        method: str,
        path: str,
        table: pa.Table,
        request: str | None,
        ends_at: float | None,
        params: dict[str, Any],
    ) -> list[SentRows]:
        body = body_of(table)
        try:
            answer = await self._transport.call(
                method,
                path,
                params=params,
                body=body.data,
                content_type=body.content_type,
                request=request,
                ends_at=ends_at,
            )
        except RequestTooLarge:
            half = table.num_rows // 2
            if half == 0:
                raise
            halves = (table.slice(0, half), table.slice(half))
            sent = []
            for number, part in enumerate(halves):
                key = None if request is None else f"{request}.{number}"
                sent += await self._send_part(method, path, part, key, ends_at, params)
            return sent
        return [SentRows(table, request, answer.json())]

    async def _send_to_owners(
        self,
        method: str,
        path: str,
        table: pa.Table,
        *,
        request: str | None = None,
        check: Callable[[Any], None] = lambda _: None,
        **params: Any,
    ) -> tuple[NDArray[np.uint8], list[AnsweredRows]]:
        """Send rows, again while they are unavailable; return the status of each, and all answers.

        Parameters
        ----------
        method, path, table, request, **params
            Request to send.
        check
            Function that raises if an answer is an error.
        """
        status = np.full(table.num_rows, RowStatus.UNAVAILABLE, np.uint8)
        answered: list[AnsweredRows] = []

        def note(rows: NDArray[np.int64], sent: Iterable[SentRows]) -> None:
            first = 0
            for one in sent:
                n_rows = one.table.num_rows
                found = read_status(one.answer, n_rows)
                check(one.answer)
                own = rows[first : first + n_rows]
                first += n_rows
                places = find_unavailable(status[own])
                status[own[places]] = found[places]
                answered.append(AnsweredRows(own[places], places, n_rows, one.answer))

        sent = await self._send_rows(method, path, table, request=request, **params)
        note(np.arange(table.num_rows), sent)

        async def send_again(rows: NDArray[np.int64], ends_at: float) -> None:
            if request is None:
                part = table.take(pa.array(rows))
                note(rows, await self._send_rows(method, path, part, ends_at=ends_at, **params))
                return
            # Each partition remembers the key of a request with a hash of its body, and does its
            # rows once.  So the same request is sent again: with another key, rows would count
            # twice whose owner has done them and did not answer in time.
            first = 0
            for one in sent:
                own = np.arange(first, first + one.table.num_rows)
                first += one.table.num_rows
                if np.isin(own, rows).any():
                    note(
                        own,
                        await self._send_part(
                            method, path, one.table, one.request, ends_at, params
                        ),
                    )

        await repeat_unavailable(status, self._row_retry_seconds, send_again)
        return status, answered

    def _sending_rows_once(self) -> "AsyncClient":
        """Return a client with the same connections that leaves unavailable rows to its caller."""
        one = copy(self)
        one._row_retry_seconds = 0.0
        return one

    # ------------------------------------------------------------------ pages

    async def add(
        self,
        urls: Urls,
        *,
        importance: Any = None,
        cost: Any = None,
        doc_id: Any = None,
        metadata: Any = None,
        key: Any = None,
    ) -> Added:
        """Add pages to track."""
        table = page_table(
            urls, importance=importance, cost=cost, doc_id=doc_id, metadata=metadata, key=key
        )
        rows, answers = await self._send_to_owners("POST", "/pages", table)
        n_added, n_known, n_refused = (
            int(np.count_nonzero(rows == status))
            for status in (RowStatus.DONE, RowStatus.DUPLICATE, RowStatus.REFUSED)
        )
        return Added(
            n_added,
            n_known,
            n_refused,
            n_limited=sum(one.answer.get("n_limited") or 0 for one in answers),
            limited_until_ms=max(
                (one.answer.get("limited_until_ms") or 0 for one in answers), default=0
            ),
            rows=rows,
        )

    async def why_refused(
        self, urls: Urls, *, doc_id: Any = None, metadata: Any = None, key: Any = None
    ) -> dict[int, str]:
        """Return the first rows that `add` refuses, and the reason of each."""
        table = page_table(urls, doc_id=doc_id, metadata=metadata, key=key)
        reasons: dict[int, str] = {}
        first = 0
        for sent in await self._send_rows("POST", "/pages", table, check=True):
            reasons |= {first + int(row): why for row, why in sent.answer["reasons"].items()}
            first += sent.table.num_rows
        return reasons

    async def remove(
        self, urls: Urls | None = None, *, pattern: str | None = None, key: Any = None
    ) -> CountedRows:
        """Stop tracking pages, given by URL or by pattern; return the number of pages removed."""
        if (urls is None) == (pattern is None):
            raise ValueError("remove takes either urls or a pattern")
        if urls is None:
            _check_no_key(key)
            return await self._change_all_matching(str(pattern), None)
        table = page_table(urls, key=key)
        rows, answers = await self._send_to_owners("POST", "/pages/remove", table)
        return CountedRows(sum(int(one.answer["n_pages"]) for one in answers), rows=rows)

    async def set(
        self,
        urls: Urls | None = None,
        *,
        pattern: str | None = None,
        key: Any = None,
        **settings: Any,
    ) -> CountedRows:
        """Change settings of pages, given by URL or by pattern; return the number of pages."""
        if (urls is None) == (pattern is None):
            raise ValueError("set takes either urls or a pattern")
        if urls is None:
            _check_no_key(key)
            return await self._change_all_matching(str(pattern), settings)
        table = page_table(urls, key=key)
        rows = np.full(table.num_rows, RowStatus.REFUSED, np.uint8)
        n_set = 0

        async def send(some: NDArray[np.int64], ends_at: float | None = None) -> None:
            nonlocal n_set
            for one_key, part in _by_key(table.take(pa.array(some))):
                index = some[part]
                given = table["url"].take(pa.array(index)).to_pylist()
                for first in range(0, len(given), ROWS_PER_REQUEST):
                    # A URL that is null has no UTF-8 form; an empty one is refused as well.
                    sent = [url or "" for url in given[first : first + ROWS_PER_REQUEST]]
                    wanted = {"urls": sent, "key": one_key, "settings": settings}
                    found = await self._send("POST", "/pages/settings", wanted, ends_at)
                    rows[index[first : first + len(sent)]] = read_status(found, len(sent))
                    n_set += int(found["n_pages"])

        await send(np.arange(table.num_rows))
        await repeat_unavailable(rows, self._row_retry_seconds, send)
        return CountedRows(n_set, rows=rows)

    async def _change_all_matching(
        self, pattern: str, settings: Mapping[str, Any] | None
    ) -> CountedRows:
        """Change all pages whose URLs match a pattern, in as many requests as that takes."""
        n_pages = 0
        cursor: str | None = None
        while True:
            try:
                part = await self._change_matching(pattern, settings, cursor)
            except ServiceUnavailable as error:
                raise ServiceUnavailable(
                    f"{n_pages:,} pages were changed, and then: {error}; change the others again"
                ) from error
            n_pages, cursor = n_pages + part.n_pages, part.cursor
            if cursor is None:
                return CountedRows(n_pages)

    async def _change_matching(
        self, pattern: str, settings: Mapping[str, Any] | None, cursor: str | None
    ) -> ChangedPart:
        """Change some pages whose URLs match a pattern; see `recrawl.Corpus.change_matching`."""
        path, params, body = "/pages/remove", {"cursor": cursor or ""}, b""
        if settings is None:
            params["pattern"] = pattern
        else:
            path = "/pages/settings"
            wanted = {"pattern": pattern, "settings": settings}
            body = json.dumps(wanted, ensure_ascii=False).encode()
        answer = await self._transport.call("POST", path, params=params, body=body)
        return read_changed_part(answer.json())

    async def set_each(
        self,
        urls: Urls,
        *,
        importance: Any = None,
        cost: Any = None,
        doc_id: Any = None,
        metadata: Any = None,
        key: Any = None,
    ) -> CountedRows:
        """Set the importance, the cost, the doc_id or the metadata of each page."""
        table = page_table(
            urls, importance=importance, cost=cost, doc_id=doc_id, metadata=metadata, key=key
        )
        rows, _ = await self._send_to_owners("PATCH", "/pages", table)
        return _count_done(rows)

    async def pages_after(
        self,
        cursor: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        limit: int = 1_000,
    ) -> PageRows:
        """Return some pages after a cursor, and the cursor to continue with."""
        answer = await self._transport.call(
            "GET",
            "/pages",
            params={
                "cursor": cursor,
                "columns": "all" if columns is None else ",".join(columns),
                "limit": limit,
            },
            accept=ARROW,
        )
        return PageRows(_one_batch(answer.data), answer.headers.get("Recrawl-Cursor"))

    async def pages(
        self, columns: Sequence[str] | None = None, *, batch: int = 65_536
    ) -> AsyncIterator[pa.RecordBatch]:
        """Yield all pages and what is known of each, in batches of rows."""
        cursor = None
        limit = min(batch, _LISTED_PER_REQUEST)
        while True:
            rows, cursor = await self.pages_after(cursor, columns=columns, limit=limit)
            if rows.num_rows:
                yield rows
            if cursor is None:
                return

    async def explain(self, url: str, *, key: str | None = None) -> ServiceDetails | None:
        """Return everything known of a page and why it is or is not due; None if not tracked."""
        try:
            return ServiceDetails(_object(await self._get("/page", url=url, key=key)))
        except UnknownName:
            return None

    async def history(
        self,
        url: str,
        *,
        with_beliefs: bool = True,
        key: str | None = None,
        n_records_max: int | None = None,
    ) -> ServiceDetails | None:
        """Return the fetches, signals and orders of a page from the log; None if not tracked."""
        try:
            return ServiceDetails(
                _object(
                    await self._get(
                        "/page/history",
                        url=url,
                        with_beliefs=with_beliefs,
                        key=key,
                        n_records_max=n_records_max,
                    )
                )
            )
        except UnknownName:
            return None

    async def last_change(self, url: str, *, key: str | None = None) -> LastChange | None:
        """Return the last change of a page and its passages, as far as the feed has it."""
        return read_last_change(await self._get("/page/last-change", url=url, key=key))

    async def fetch_now(self, urls: Urls, *, key: Any = None) -> CountedRows:
        """Have pages fetched as soon as possible, as if they had certainly changed."""
        table = page_table(urls, key=key)
        rows, _ = await self._send_to_owners("POST", "/pages/fetch-now", table)
        return _count_done(rows)

    # ------------------------------------------------------------------ orders

    async def lease(
        self,
        n: int,
        *,
        seconds: float | None = None,
        exact: bool = False,
        run: str | None = None,
        with_shortfall: bool = True,
        request: str | None = None,
        wait: float = 0.0,
    ) -> Orders:
        """Return up to ``n`` pages that are most worth fetching now.

        Parameters
        ----------
        n, seconds, exact, run, with_shortfall
            Arguments of `recrawl.Corpus.lease`.
        request
            Idempotency key, to repeat the lease yourself; the client makes one for each call.
        wait
            Seconds to wait until the first page is due, at most 60.
        """
        request = request or new_request_key()
        is_first = isinstance(request, NewRequestKey) and request.is_first_use()
        orders = Orders()
        number = 0
        while len(orders) < n and orders.shortfall is None:
            asked = min(n - len(orders), _ORDERS_PER_REQUEST)
            wait = wait if number == 0 else 0.0
            params = {
                "n": asked,
                "wait": wait,
                "seconds": seconds,
                "exact": exact,
                "run": run,
                "why": with_shortfall,
            }
            answer = await self._transport.call(
                "POST",
                "/orders",
                params=params,
                request=f"{request}.{number}",
                is_first=is_first,
                wait_seconds=wait,
            )
            found = read_orders(answer.json())
            orders = Orders([*orders, *found], _of_all(found.shortfall, n, len(orders)))
            number += 1
            if len(found) < asked:
                break
        return orders

    async def lease_table(
        self,
        n: int,
        *,
        seconds: float | None = None,
        exact: bool = False,
        run: str | None = None,
    ) -> pa.Table:
        """Return up to ``n`` pages that are most worth fetching now, as an Arrow table."""
        request = new_request_key()
        parts = [ORDER_SCHEMA.empty_table()]
        n_orders = number = 0
        while n_orders < n:
            asked = min(n - n_orders, _ORDERS_PER_REQUEST)
            answer = await self._transport.call(
                "POST",
                "/orders",
                params={"n": asked, "seconds": seconds, "exact": exact, "run": run, "why": False},
                accept=ARROW,
                request=f"{request}.{number}",
                is_first=True,
            )
            part = read_order_table(read_table(answer.data))
            parts.append(part)
            n_orders += part.num_rows
            number += 1
            if part.num_rows < asked:
                break
        return pa.concat_tables(parts).unify_dictionaries().combine_chunks()

    async def lease_urls(
        self,
        urls: Urls,
        *,
        add: bool = False,
        seconds: float | None = None,
        run: str | None = None,
        key: Any = None,
        request: str | None = None,
    ) -> LeasedUrls:
        """Return an order for each URL that may be fetched now, or the reason why it may not.

        URLs whose partition cannot be reached are sent again, at most for a quarter of ``seconds``,
        because the leases of the others have begun.
        """
        path, table = "/orders/by-url", page_table(urls, key=key)
        params: dict[str, Any] = {"add": add, "seconds": seconds, "run": run}
        request = request or new_request_key()
        sent = await self._send_rows("POST", path, table, request=request, **params)
        answers = [row for one in sent for row in _answers_of(one)]
        status = np.array([_status_of_lease(one) for one in answers], np.uint8)

        async def send_again(rows: NDArray[np.int64], ends_at: float) -> None:
            # The same request with the same key, so that partitions lease nothing twice.
            first = 0
            for one in sent:
                own = np.arange(first, first + one.table.num_rows)
                first += one.table.num_rows
                if not np.isin(own, rows).any():
                    continue
                again = await self._send_part("POST", path, one.table, one.request, ends_at, params)
                found = [row for part in again for row in _answers_of(part)]
                for i in np.flatnonzero(np.isin(own, rows)).tolist():
                    answers[own[i]] = found[i]
                    status[own[i]] = _status_of_lease(found[i])

        seconds_max = self._row_retry_seconds
        if seconds is not None:
            seconds_max = min(seconds_max, _LEASE_SHARE_WAITED * seconds)
        await repeat_unavailable(status, seconds_max, send_again)
        return read_leased_urls(url_array(table["url"]), answers)

    async def paced(
        self,
        *,
        batch_max: int = 100,
        seconds: float | None = None,
        for_seconds: float = float("inf"),
        run: str | None = None,
    ) -> AsyncIterator[Order]:
        """Yield pages to fetch as they come due and the budget allows, waiting in between."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + for_seconds
        while (left := ends - loop.time()) > 0:
            orders = await self.lease(
                batch_max, seconds=seconds, run=run, wait=min(left, _WAIT_SECONDS)
            )
            unused = [order.handle for order in reversed(orders)]
            try:
                for order in orders:
                    unused.pop()
                    yield order
            finally:
                if unused:  # the caller has stopped iterating
                    await self.release(unused)
            if not orders and _is_run_spent(orders):
                return

    async def extend(self, handles: Sequence[int], *, seconds: float) -> CountedRows:
        """Hold orders until ``seconds`` from now; return the number that were still held."""
        return await self._change_orders("/orders/extend", handles, seconds=float(seconds))

    async def release(self, handles: Sequence[int]) -> CountedRows:
        """Give back orders that were not fetched; return the number that were still held."""
        return await self._change_orders("/orders/release", handles)

    async def take_turns(
        self,
        *,
        begin: Mapping[str, str] | None = None,
        renew: Mapping[str, str] | None = None,
        end: Iterable[TurnEnd] = (),
        rest: Mapping[str, float] | None = None,
    ) -> TurnsAnswer:
        """Take turns with other fetchers at contacting hosts.

        Begin a turn before each request to a host, also for robots.txt files and redirects, and
        end it afterwards: between the two, and during the delay of the host, no other fetcher
        contacts it.  The call may be repeated.

        Parameters
        ----------
        begin, renew
            Hosts, by the names of turns; each turn has a new name.
        end
            Turns that have ended.
        rest
            Seconds for which no pages of a host are leased, by host.
        """
        body = {
            "end": [one._asdict() for one in end],
            "renew": _turn_rows(renew),
            "begin": _turn_rows(begin),
            "rest": [{"host": host, "seconds": s} for host, s in (rest or {}).items()],
        }
        return read_turns(await self._send("POST", "/turns", body))

    async def _change_orders(self, path: str, handles: Sequence[int], **body: float) -> CountedRows:
        given = np.asarray(handles, np.int64).reshape(-1)
        status = np.full(given.size, RowStatus.UNAVAILABLE, np.uint8)

        async def send(rows: NDArray[np.int64], ends_at: float | None = None) -> None:
            for first in range(0, rows.size, ROWS_PER_REQUEST):
                some = rows[first : first + ROWS_PER_REQUEST]
                wanted = {"handles": list(map(str, given[some].tolist())), **body}
                found = await self._send("POST", path, wanted, ends_at)
                status[some] = read_status(found, some.size)

        await send(np.arange(given.size))
        await repeat_unavailable(status, self._row_retry_seconds, send)
        return _count_done(status)

    async def report(
        self, outcomes: Outcome | Iterable[Outcome] | pa.Table | pa.RecordBatch
    ) -> Reported:
        """Report what fetches found."""
        table = table_of_outcomes(outcomes, self.now_ms())
        _, answers = await self._send_to_owners(
            "POST", "/outcomes", table, check=_check_none_refused
        )
        return _join_reported(table.num_rows, answers)

    def work(
        self,
        fetch: Callable[[Order], Awaitable[Outcome]],
        *,
        concurrency: int = 16,
        seconds: float = 300.0,
        run: str | None = None,
        stop: Stop | None = None,
        for_seconds: float = float("inf"),
        until_idle: bool = False,
        stop_seconds: float = 30.0,
        on_error: Callable[[Order, Exception], Outcome | None] | None = None,
    ) -> Awaitable[WorkCounts]:
        """Fetch pages and report them until told to stop; return what was done.

        Leases pages ahead, so that fetches never wait for the server, extends the leases of slow
        fetches, and reports outcomes in batches.  When it stops (SIGTERM, cancellation, ``stop``
        or ``for_seconds``), it gives back pages that no fetch has begun, waits for the others, and
        reports all outcomes.

        Parameters
        ----------
        fetch
            Function that fetches the page of an order and returns its outcome.  An outcome without
            handle and url is that of the order.
        concurrency
            Number of fetches at a time.
        seconds
            Length of leases, which are extended as long as a fetch needs.
        run
            Name of the run that pays, see `lease`.
        stop
            Event that ends the work when it is set.
        for_seconds
            Time after which the work ends.
        until_idle
            Whether the work ends when there is nothing to fetch.  It waits for hosts that rest
            between two fetches, if that takes no more than a minute, and fetches each page once.
        stop_seconds
            Time that fetches have to end when the work stops; their orders are given back then.
        on_error
            Function that is called when a fetch raises an exception, and returns the outcome to
            report, or None to give the order back.  By default an `OSError` is reported as no
            answer, and any other exception ends the work and is raised.
        """
        return work_until_stopped(
            self,
            self._sending_rows_once(),
            fetch,
            concurrency=concurrency,
            seconds=seconds,
            run=run,
            stop=stop,
            for_seconds=for_seconds,
            until_idle=until_idle,
            stop_seconds=stop_seconds,
            on_error=on_error,
        )

    # ------------------------------------------------------------------ signals and requests

    async def signal(
        self,
        urls: Urls,
        *,
        source: str,
        at_ms: Any = 0,
        claimed_at_ms: Any = 0,
        key: Any = None,
        request: str | None = None,
    ) -> Signalled:
        """Signal that pages may have changed; return the number of signals that counted."""
        table = page_table(urls, at_ms=at_ms, claimed_at_ms=claimed_at_ms, key=key)
        rows, _ = await self._send_to_owners(
            "POST", "/signals", table, request=request or new_request_key(), source=source
        )
        is_unknown = np.isin(rows, (RowStatus.UNKNOWN, RowStatus.REFUSED))
        return Signalled(
            int(np.count_nonzero(rows == RowStatus.DONE)),
            n_unknown=int(np.count_nonzero(is_unknown)),
            rows=rows,
        )

    async def requests(
        self,
        urls: Urls,
        n_requests: Any = 1,
        *,
        at_ms: Any = 0,
        key: Any = None,
        request: str | None = None,
    ) -> CountedRows:
        """Report how often users requested pages; requested pages become more important."""
        table = page_table(urls, n_requests=n_requests, at_ms=at_ms, key=key)
        rows, _ = await self._send_to_owners(
            "POST", "/requests", table, request=request or new_request_key()
        )
        return _count_done(rows)

    # ------------------------------------------------------------------ settings and reading

    def now_ms(self) -> int:
        """Return the current time of the server, as far as its answers have shown it."""
        return self._transport.now_ms()

    async def set_host(self, host: str, **politeness: Any) -> None:
        """Set how often a host may be fetched from."""
        await self._send("PATCH", f"/hosts/{quote(host, safe='')}", politeness)

    async def set_budget(self, rate: str | None) -> None:
        """Set the budget: ``"30/h"``, ``"20000/day"``, ``"100/run"``, or None for unlimited."""
        await self._send("PUT", "/budget", {"rate": rate})

    async def host(self, host: str) -> HostView:
        """Return how a host is fetched from."""
        return read_host(await self._get(f"/hosts/{quote(host, safe='')}"))

    async def hosts(self) -> HostTable:
        """Return the hosts with the most pages, most first."""
        return read_hosts(await self._get("/hosts"))

    async def note_robots(self, notes: Iterable[RobotsNote]) -> None:
        """Keep what robots.txt files say, for people who look at a host in the dashboard.

        It changes nothing about what is fetched.

        Parameters
        ----------
        notes
            Notes; a newer one of a site replaces the one before.
        """
        rows = [one._asdict() for one in notes]
        for first in range(0, len(rows), _NOTES_PER_REQUEST):
            some = rows[first : first + _NOTES_PER_REQUEST]
            await self._send("POST", "/robots", {"files": some})

    async def robots(self, hosts: Sequence[str]) -> dict[str, list[RobotsNote]]:
        """Return what robots.txt files of hosts say, as far as fetchers have told.

        Parameters
        ----------
        hosts
            Canonical names of hosts or domains; those of which nothing is known are not returned.
        """
        found: dict[str, list[RobotsNote]] = {}
        for first in range(0, len(hosts), _HOSTS_PER_REQUEST):
            some = list(hosts[first : first + _HOSTS_PER_REQUEST])
            found |= read_robots(await self._get("/robots", host=some))
        return found

    async def pages_of_host(
        self,
        host: str,
        *,
        prefix: str = "",
        cursor: str | None = None,
        columns: Sequence[str] | None = None,
        limit: int = 100,
    ) -> PageRows:
        """Return some pages of a host, and the cursor to continue with."""
        answer = await self._transport.call(
            "GET",
            f"/hosts/{quote(host, safe='')}/pages",
            params={
                "prefix": prefix,
                "cursor": cursor,
                "columns": "all" if columns is None else ",".join(columns),
                "limit": limit,
            },
            accept=ARROW,
        )
        return PageRows(_one_batch(answer.data), answer.headers.get("Recrawl-Cursor"))

    async def n_pages_of_host(self, host: str) -> int:
        """Return the number of tracked pages of a host."""
        return (await self.host(host)).n_pages

    async def sources(self) -> SourceTable:
        """Return the sources of signals, and how reliable and how late each is on each host."""
        return read_sources(await self._get("/sources"))

    async def audited_freshness(self) -> AuditTable:
        """Return audited and modelled freshness of all pages, by kind, and of the largest hosts."""
        return read_audits(await self._get("/audited-freshness"))

    async def source(self, source: str, host: str) -> SourceRow | None:
        """Return how reliable and how late a source of signals is on a host."""
        for row in (await self.sources()).rows:
            if row.source == source and row.group == host.lower():
                return row
        return None

    async def configuration(self) -> dict[str, Any]:
        """Return the settings of the corpus that differ from their defaults, by section."""
        return _object(await self._get("/configuration"))

    async def stats(self) -> Stats:
        """Return counts, budget, price and estimated freshness."""
        return read_stats(await self._get("/stats"))

    async def sample(self) -> Sample:
        """Return the present state: totals, partitions, largest hosts, kinds, sources."""
        return read_sample(await self._get("/sample"))

    async def samples(
        self,
        *,
        step: str = "minute",
        since_ms: int | None = None,
        until_ms: int | None = None,
        host: str | None = None,
        kind: str | None = None,
    ) -> Samples:
        """Return figures over time, of the corpus, a host or a kind."""
        return read_samples(
            await self._get(
                "/samples", step=step, since_ms=since_ms, until_ms=until_ms, host=host, kind=kind
            )
        )

    async def source_samples(
        self,
        source: str,
        host: str,
        *,
        step: str = "minute",
        since_ms: int | None = None,
        until_ms: int | None = None,
    ) -> SourceSamples:
        """Return precision, recall, delay and volume of a source of signals over time."""
        found = await self._get(
            "/samples", source=source, host=host, step=step, since_ms=since_ms, until_ms=until_ms
        )
        return read_source_samples(found)

    async def plan(self) -> ServiceDetails:
        """Return the freshness that each budget buys for this corpus."""
        return await self.plan_targets()

    async def plan_targets(
        self, targets: Sequence[str] = (), *, budget_per_hour: float | None = None
    ) -> ServiceDetails:
        """Return what budgets buy, and what targets cost."""
        found = await self._get("/plan", target=list(targets), budget_per_hour=budget_per_hour)
        return ServiceDetails(_object(found))

    # ------------------------------------------------------------------ changes

    async def changes(
        self,
        after: str | None = None,
        *,
        consumer: str | None = None,
        limit: int = 1_000,
        wait: float = 0.0,
    ) -> list[PageChange]:
        """Return the new, changed and gone pages after a cursor, oldest first.

        Parameters
        ----------
        after, consumer, limit
            Arguments of `recrawl.Corpus.changes`.
        wait
            Seconds to wait for the first change, at most 60.
        """
        if after is not None and consumer is not None:
            raise ValueError("changes takes either a cursor or a consumer")
        found: list[PageChange] = []
        while len(found) < limit:
            asked = min(limit - len(found), _LISTED_PER_REQUEST)
            part = read_changes(
                await self._get(
                    "/changes",
                    wait,
                    after=after,
                    consumer=None if found else consumer,
                    limit=asked,
                    wait=wait,
                    passages=True,
                )
            )
            found += part
            if len(part) < asked:
                break
            after, wait = part[-1].cursor, 0.0
        return found

    async def commit_changes(self, consumer: str, cursor: str, *, rewind: bool = False) -> str:
        """Record durably that a consumer has processed all changes up to a cursor."""
        body = {"cursor": cursor, "rewind": rewind}
        found = await self._send("PUT", f"/consumers/{quote(consumer, safe='')}", body)
        return str(_object(found)["cursor"])

    async def consumers(self) -> list[Consumer]:
        """Return the consumers of the change feed, and how far behind each is."""
        return read_consumers(await self._get("/consumers"))

    async def remove_consumer(self, consumer: str) -> bool:
        """Remove a consumer of the change feed; return whether it existed."""
        try:
            await self._transport.call("DELETE", f"/consumers/{quote(consumer, safe='')}")
        except UnknownName:
            return False
        return True


def _one_batch(data: bytes) -> pa.RecordBatch:
    table = read_table(data).combine_chunks()
    return pa.RecordBatch.from_arrays(
        [_one_chunk(table.column(name)) for name in table.schema.names], schema=table.schema
    )


def _turn_rows(hosts: Mapping[str, str] | None) -> list[dict[str, str]]:
    return [{"turn": turn, "host": host} for turn, host in (hosts or {}).items()]


def _object(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise ServiceError(f"the answer is not that of a recrawl service: {str(found)[:80]!r}")
    return found


def _count_done(rows: NDArray[np.uint8]) -> CountedRows:
    return CountedRows(int(np.count_nonzero(rows == RowStatus.DONE)), rows=rows)


def _answers_of(sent: SentRows) -> list[Any]:
    """Return the answer for each row of a request that leases given pages."""
    answers = _object(sent.answer).get("answers")
    if not isinstance(answers, list) or len(answers) != sent.table.num_rows:
        raise ServiceError("the answer does not have one row for each URL")
    return answers


def _status_of_lease(answer: Any) -> RowStatus:
    """Return whether the answer for a page may be another one after a moment."""
    is_away = _object(answer).get("why") == Why.UNAVAILABLE.name.lower()
    return RowStatus.UNAVAILABLE if is_away else RowStatus.DONE


def _check_no_key(key: Any) -> None:
    if key is not None:
        raise ValueError("key goes with urls; a pattern applies to the pages of all keys")


def _by_key(table: pa.Table) -> Iterator[tuple[str | None, NDArray[np.int64]]]:
    """Yield each key with the numbers of its rows."""
    if "key" not in table.schema.names:
        yield None, np.arange(table.num_rows)
        return
    keys = np.array(table["key"].to_pylist(), object)
    for key in dict.fromkeys(keys.tolist()):
        yield key, np.flatnonzero(keys == key)


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _of_all(shortfall: Shortfall | None, n: int, n_before: int) -> Shortfall | None:
    """Return the shortfall of the last request as that of the whole lease."""
    if shortfall is None:
        return None
    return Shortfall(
        n_requested=n,
        n_leased=n_before + shortfall.n_leased,
        reasons=shortfall.reasons,
        is_sampled=shortfall.is_sampled,
    )


def _is_run_spent(orders: Orders) -> bool:
    shortfall = orders.shortfall
    if shortfall is None:
        return False
    whys = {one.why for one in shortfall.reasons}
    return Why.RUN_SPENT in whys or (Why.NO_BUDGET in whys and is_run_over(orders))


def _check_none_refused(found: Any) -> None:
    """Raise if the service has refused an outcome of a request."""
    reasons = _object(found).get("reasons")
    if reasons:
        row, why = next(iter(reasons.items()))
        raise ValueError(f"the service has refused {len(reasons)} outcomes; {row}: {why}")


def _join_reported(n_rows: int, answers: Iterable[AnsweredRows]) -> Reported:
    """Return the effect of each outcome, from several answers; a later one counts."""
    columns: dict[str, NDArray[Any]] = {
        name: np.zeros(n_rows, np.uint8 if name in ("transition", "wrong_answer") else np.bool_)
        for name in _REPORTED
    }
    for one in answers:
        found = read_report_answer(one.answer, one.n_rows)
        for name, column in columns.items():
            column[one.rows] = getattr(found, name)[one.places]
    return Reported(**columns)
