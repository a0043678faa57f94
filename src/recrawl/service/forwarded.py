"""Requests that another worker of a cluster forwards: they are answered here, and only here.

A worker serves one corpus in two ways.  Requests of clients go to an object that knows the other
workers; requests that another worker forwards go to the partitions that are open in this process.
So a forwarded request cannot be forwarded again.  The service does not know how workers recognise
each other: it asks a `WorkerGate`.
"""

from collections.abc import Mapping
from typing import Protocol

from starlette.requests import Request

from recrawl.errors import AccessDenied, WrongOwner
from recrawl.messages.forwarding import FORWARDED, Forwarded, owner_rows
from recrawl.service.problems import Problem

__all__ = ["WorkerGate", "admit_forwarded", "find_forwarded"]


class WorkerGate(Protocol):
    """Recognises the requests of other workers."""

    def admit(self, method: str, target: str, headers: Mapping[str, str]) -> Forwarded:
        """Return what another worker says of a request that it forwards.

        Parameters
        ----------
        method
            Method of HTTP.
        target
            Path and query of the request, as they were sent.
        headers
            Headers of the request; names in any case.

        Raises
        ------
        AccessDenied
            If it is not a request of another worker, or not one that workers send.
        WrongOwner
            If it is about partitions that this worker does not own.
        """
        ...


def find_forwarded(request: Request) -> Forwarded | None:
    """Return what another worker says of a request; None if a client has sent it."""
    found: Forwarded | None = request.scope.get("state", {}).get("forwarded")
    return found


def admit_forwarded(request: Request, gate: WorkerGate | None) -> bool:
    """Return whether another worker has sent a request, after checking that it may.

    Parameters
    ----------
    request
        Request that says that it is forwarded, or does not.
    gate
        Gate that recognises other workers; None for a server that is not in a cluster.

    Raises
    ------
    Problem
        If it says that it is forwarded, and must not be answered here.
    """
    if gate is None or FORWARDED not in request.headers:
        return False
    path, query = request.scope.get("raw_path") or b"", request.scope["query_string"]
    target = (path.split(b"?")[0] + (b"?" + query if query else b"")).decode("latin-1")
    try:
        forwarded = gate.admit(request.method, target, request.headers)
    except AccessDenied as error:
        raise Problem("key-needed", str(error)) from error
    except WrongOwner as error:
        raise Problem("wrong-owner", str(error), owners=owner_rows(error.owners)) from error
    request.scope.setdefault("state", {})["forwarded"] = forwarded
    return True
