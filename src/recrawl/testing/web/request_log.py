"""The log of the local web: every request with its answer."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from recrawl.testing.web.local_web import RequestKind

__all__ = ["LoggedRequest", "RequestLog", "read_request_log"]


class LoggedRequest(NamedTuple):
    """A request, as the server saw it.

    Instants are in milliseconds since 1970.  ``page`` and ``version`` are -1 where there is none.
    """

    at_ms: int
    ended_at_ms: int
    host: str
    path: str
    kind: RequestKind
    status: int
    page: int
    version: int
    fault: str
    is_conditional: bool
    retry_after_seconds: float | None
    n_bytes: int
    user_agent: str


class RequestLog:
    """Requests in the order in which their answers ended.

    Parameters
    ----------
    on_request
        Function that is called with each request, for example to write it to a file.
    keeps_rows
        Whether to keep requests in memory.
    """

    def __init__(
        self,
        on_request: Callable[[LoggedRequest], None] | None = None,
        *,
        keeps_rows: bool = True,
    ) -> None:
        self._rows: list[LoggedRequest] = []
        self._on_request = on_request
        self._keeps_rows = keeps_rows

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[LoggedRequest]:
        return iter(self._rows)

    def append(self, request: LoggedRequest) -> None:
        """Add a request."""
        if self._keeps_rows:
            self._rows.append(request)
        if self._on_request is not None:
            self._on_request(request)

    def by_host(self) -> dict[str, list[LoggedRequest]]:
        """Return the requests of each host, in the order in which they arrived."""
        found: dict[str, list[LoggedRequest]] = {}
        for request in sorted(self._rows, key=lambda row: row.at_ms):
            found.setdefault(request.host, []).append(request)
        return found


def read_request_log(path: Path) -> RequestLog:
    """Read the log that a server process has written with ``--log``.

    Parameters
    ----------
    path
        File of the log, one JSON object per line; an unfinished last line is ignored.
    """
    log = RequestLog()
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.endswith("\n"):
            row = json.loads(line)
            row["kind"] = RequestKind(row["kind"])
            log.append(LoggedRequest(**row))
    return log


def log_line(request: LoggedRequest) -> str:
    """Return a request as one line of JSON."""
    return json.dumps(request._asdict()) + "\n"
