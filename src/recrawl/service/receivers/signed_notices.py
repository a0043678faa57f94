"""Signed notices: a program of the site, such as a plugin of its CMS, announces changed pages.

A request is signed by the scheme of Standard Webhooks, which recrawl's own webhooks use too.  The
URLs become signals of the source ``webhook``, and recrawl learns for each host how reliable they
are.  A request that is sent twice counts once.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from recrawl.corpus import RequestKey
from recrawl.errors import WebhookRefused
from recrawl.service.hosting.hosted import HostedCorpus
from recrawl.service.limits import ServiceLimits
from recrawl.service.problems import Problem
from recrawl.service.receivers.announced_pages import check_all_taken, signal_announced
from recrawl.service.receivers.host_limits import HostLimits
from recrawl.service.receivers.notice_urls import host_of_page
from recrawl.service.receivers.receiver_files import NoticeReceiver, ReceiverRing
from recrawl.service.webhooks.signatures import verify_webhook

__all__ = ["NO_SIGNATURE_FITS", "SIGNED_SOURCE", "Accepted", "SignedNotices", "read_notice_urls"]

SIGNED_SOURCE = "webhook"
"""Name of the source of these signals."""
NO_SIGNATURE_FITS = "no signature fits the secret and the body"
"""Detail of the answer to a request whose headers are complete and whose signature is wrong."""

_ID_MAX = 200
_SEEN_MAX = 10_000


class Accepted(NamedTuple):
    """What became of the URLs of a notice."""

    n_accepted: int
    n_refused: int
    """URLs that are not pages, or not of the receiver's hosts."""
    n_delayed: int
    """URLs beyond what their host may announce in an hour."""


def read_notice_urls(body: bytes, n_urls_max: int) -> list[str]:
    """Return the URLs in the body of a notice, without repeats.

    Parameters
    ----------
    body
        JSON: an object with ``url`` or ``urls``, directly or in ``data``, or an array of such
        objects.  The events that recrawl's webhooks send are such objects.
    n_urls_max
        Number of URLs that a notice may have.
    """
    try:
        document = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Problem("invalid-body", f"the JSON cannot be read: {error}") from None
    found: dict[str, None] = {}
    for url in _urls_in(document):
        if not isinstance(url, str):
            raise Problem("invalid-body", "a URL must be text")
        found[url] = None
        if len(found) > n_urls_max:
            raise Problem("invalid-body", f"a notice has at most {n_urls_max:,} URLs")
    if not found:
        raise Problem("invalid-body", "a notice has url or urls, or data with one of them")
    return list(found)


def _urls_in(document: Any) -> Iterator[Any]:
    for item in document if isinstance(document, list) else [document]:
        if not isinstance(item, dict):
            raise Problem("invalid-body", "a notice is a JSON object, or an array of them")
        data = item.get("data")
        for place in (item, data if isinstance(data, dict) else {}):
            if place.get("url") is not None:
                yield place["url"]
            urls = place.get("urls")
            if urls is not None:
                yield from urls if isinstance(urls, list) else [urls]


class SignedNotices:
    """The signed notices of one server.

    Parameters
    ----------
    folders
        Folder of each corpus by its name, which has its receivers.
    limits
        Limits of the server.
    """

    def __init__(self, folders: Mapping[str, Path], limits: ServiceLimits) -> None:
        self._rings = {name: ReceiverRing(folder) for name, folder in folders.items()}
        self._hosts = HostLimits(limits.notice_urls_per_hour)
        self._n_urls_max = limits.notice_urls_max
        self._seen: OrderedDict[tuple[str, str, str, bytes], Accepted] = OrderedDict()

    async def receive(
        self, hosted: HostedCorpus, name: str, headers: Mapping[str, str], body: bytes
    ) -> Accepted:
        """Check a notice and signal its pages; raise if it must not be trusted.

        Parameters
        ----------
        hosted
            Corpus of the pages.
        name
            Name of the receiver.
        headers
            Headers of the request, with the signature.
        body
            Body of the request, byte by byte as it arrived.
        """
        ring = self._rings.get(hosted.name)
        receiver = None if ring is None else ring.find(name)
        message_id = self._verify(hosted, receiver, headers, body)
        assert receiver is not None
        digest = blake2b(body, digest_size=16).digest()
        seen = (hosted.name, name, message_id, digest)
        # The log knows repeats too, but they must not use up what the host may announce.
        if seen in self._seen:
            return self._seen[seen]
        urls = read_notice_urls(body, self._n_urls_max)
        taken, n_refused, n_delayed = self._choose(receiver, urls)
        if taken:
            key = RequestKey(f"receiver {name} {message_id}".encode(), digest)
            away = await signal_announced(hosted, taken, source=SIGNED_SOURCE, request=key)
            if away:
                # The same request again signals each page once, so all of it may be sent again.
                for host, n in Counter(map(host_of_page, taken)).items():
                    self._hosts.give_back(host, n)
            check_all_taken(away, len(taken))
        accepted = self._seen[seen] = Accepted(len(taken), n_refused, n_delayed)
        while len(self._seen) > _SEEN_MAX:
            self._seen.popitem(last=False)
        return accepted

    def _verify(
        self,
        hosted: HostedCorpus,
        receiver: NoticeReceiver | None,
        headers: Mapping[str, str],
        body: bytes,
    ) -> str:
        """Return the id of a request; an unknown receiver is answered like a wrong signature."""
        now_ms: int = hosted.corpus.now_ms()
        try:
            secrets = [] if receiver is None else receiver.valid_secrets(now_ms)
            message_id = verify_webhook(secrets, headers, body, now_seconds=now_ms / 1000)
        except WebhookRefused as error:
            raise Problem("signature-not-valid", str(error)) from None
        if len(message_id) > _ID_MAX or not message_id.isascii():
            raise Problem("invalid-value", f"webhook-id has at most {_ID_MAX} ASCII characters")
        return message_id

    def _choose(self, receiver: NoticeReceiver, urls: list[str]) -> tuple[list[str], int, int]:
        """Return the URLs that the receiver may announce now, and counts of the others."""
        hosts: dict[str, str] = {}
        for url in urls:
            try:
                host = host_of_page(url)
            except Problem:
                continue
            if receiver.covers(host):
                hosts[url] = host
        waits = {host: self._hosts.take(host, n) for host, n in Counter(hosts.values()).items()}
        taken = [url for url, host in hosts.items() if not waits[host]]
        if hosts and not taken:
            raise Problem(
                "too-busy",
                "the host has announced too many URLs",
                headers={"Retry-After": str(min(waits.values()))},
            )
        return taken, len(urls) - len(hosts), len(hosts) - len(taken)
