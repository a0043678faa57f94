"""Admit the requests that other workers forward, if they are about partitions of this worker."""

import re
import time
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import quote, unquote

from recrawl.cluster.api.credentials import ClusterKeys
from recrawl.cluster.api.owners import Owner, Owners
from recrawl.corpus import Corpus
from recrawl.errors import AccessDenied, WrongOwner
from recrawl.messages.forwarding import (
    AUTHORIZATION_KIND,
    BODY,
    EXPECTED,
    FORWARDED,
    HELD_ONLY,
    IN_PARTS,
    REQUEST,
    Forwarded,
    read_epochs,
    read_request,
)

__all__ = ["ForwardedRequests", "signed_text"]

# What workers send to each other: calls about pages, orders, hosts and changes, and nothing about
# keys, webhooks or the budget.
_PATHS: Final = re.compile(
    r"(?:(?:POST|PATCH|GET) /v1/corpora/(?P<corpus>[^/?]+)/"
    r"(pages|pages/settings|pages/remove|pages/fetch-now|page|page/history|page/last-change"
    r"|orders|orders/by-url|orders/extend|orders/release|outcomes|signals|requests|turns"
    r"|hosts|hosts/[^/?]+|hosts/[^/?]+/pages|stats|samples?|audited-freshness|sources|changes"
    r"|consumers|plan/pages|overview-part|robots)"
    r"|(?:PUT|DELETE) /v1/corpora/(?P<of_consumer>[^/?]+)/consumers/[^/?]+)"
)


def signed_text(
    receiver: str, method: str, target: str, headers: Mapping[str, str], sender: str
) -> str:
    """Return what the signature of a forwarded request is for.

    Parameters
    ----------
    receiver
        Name of the worker that gets it.
    method
        Method of HTTP.
    target
        Path and query, as they are sent.
    headers
        Headers of the request.
    sender
        Name of the worker that sends it.
    """
    own = [headers.get(name, "") for name in (EXPECTED, REQUEST, HELD_ONLY, BODY)]
    if IN_PARTS in headers:
        own.append(IN_PARTS)
    return "\n".join((quote(sender), quote(receiver), method, target, *own))


class ForwardedRequests:
    """The gate of a worker for requests of other workers: a `recrawl.service.forwarded.WorkerGate`.

    Parameters
    ----------
    corpora
        Corpora by the names that paths use, with the partitions that are open in this process.
    owners
        Owners of partitions, as this worker knows them.
    keys
        Keys that all workers share.
    now_ms
        Function that returns the current time, in milliseconds since 1970.
    """

    def __init__(
        self,
        corpora: Mapping[str, Corpus],
        owners: Owners,
        keys: ClusterKeys,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._corpora = corpora
        self._owners = owners
        self._keys = keys
        self._now_ms = now_ms

    def admit(self, method: str, target: str, headers: Mapping[str, str]) -> Forwarded:
        """Return what another worker says of a request; see `WorkerGate.admit`."""
        found = _PATHS.fullmatch(f"{method} {target.partition('?')[0]}")
        if found is None:
            raise AccessDenied("workers do not forward such requests")
        sender = unquote(headers.get(FORWARDED, ""))
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind != AUTHORIZATION_KIND:
            raise AccessDenied("a forwarded request needs the signature of a worker")
        signed = signed_text(self._owners.worker, method, target, headers, sender)
        self._keys.check(token, signed, self._now_ms())
        try:
            expected = read_epochs(headers.get(EXPECTED, ""))
            text = headers.get(REQUEST)
            request = None if text is None else read_request(text)
        except ValueError as error:
            raise AccessDenied(f"a header of the forwarded request is malformed: {error}") from None
        corpus = self._corpora.get(unquote(found["corpus"] or found["of_consumer"]))
        if corpus is not None:  # the service answers that there is none
            self._check_owned(corpus, expected)
        return Forwarded(
            sender, request, HELD_ONLY in headers, headers.get(BODY, ""), IN_PARTS in headers
        )

    def _check_owned(self, corpus: Corpus, expected: Mapping[int, int]) -> None:
        """Raise unless all partitions are open here, with the expected claim or a later one."""
        wrong: dict[int, Owner | None] = {}
        for partition, epoch in expected.items():
            node = corpus.nodes.by_partition.get(partition)
            if node is None or not node.is_owner or node.shard.epoch < epoch:
                owner = self._owners.owner_of(partition)
                is_own = owner is not None and owner.worker == self._owners.worker
                wrong[partition] = None if is_own else owner
        if wrong:
            some = ", ".join(map(str, sorted(wrong)[:20]))
            raise WrongOwner(
                f"the worker {self._owners.worker} does not own the partitions {some}", wrong
            )
