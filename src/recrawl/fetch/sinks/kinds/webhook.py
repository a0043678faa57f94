"""A web address that receives versions as signed requests.

References
----------
Standard Webhooks 1.0 (standardwebhooks.com): the headers and the signature
"""

import base64
import binascii
import hashlib
import hmac
import http.client
import json
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from recrawl.errors import SinkError
from recrawl.fetch.addresses import address_refusal, parse_networks
from recrawl.fetch.sinks.contract import BatchSettings, check_sink_name
from recrawl.fetch.sinks.kinds.json_lines import check_content
from recrawl.fetch.sinks.version import PageVersion

__all__ = ["WebhookSink", "sign_webhook"]

_SECRET_PREFIX = "whsec_"
_ANSWER_BYTES_MAX = 1_000
_VERSIONS_PER_REQUEST = BatchSettings(versions_max=20, bytes_max=4 << 20)


def sign_webhook(secret: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of the header ``webhook-signature``.

    Parameters
    ----------
    secret
        Secret that sender and receiver share.
    message_id
        Value of the header ``webhook-id``.
    timestamp
        Value of the header ``webhook-timestamp``, in seconds since 1970.
    body
        Body of the request.

    Examples
    --------
    >>> sign_webhook(b"secret", "msg_1", 1_700_000_000, b"{}")
    'v1,A5oIrJxXPB/PkULSoVu0e4khvPiqpF9vljmhkSKg0FI='
    """
    signed = b".".join((message_id.encode(), str(timestamp).encode(), body))
    found = hmac.new(secret, signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(found).decode()}"


class WebhookSink:
    """Sends versions to a web address, in requests with the method POST.

    The body is ``{"versions": […]}`` with the fields of `PageVersion.as_json`.  Any answer but one
    with a status from 200 to 299 means that the versions are sent again.  Redirects are not
    followed, and no proxy is used.

    Parameters
    ----------
    url
        Address of the receiver.
    name
        Name of the sink.
    secret
        Secret for signatures, as Standard Webhooks writes it (``whsec_`` and base64), or any other
        text; None to send unsigned requests.
    content
        Forms of the content: ``"markdown"``, ``"text"`` and ``"body"``.
    allow_networks
        Networks that the receiver may be in although they are not public, such as ``127.0.0.0/8``.
    seconds_max
        Longest time for connecting, and for each wait for the answer.
    batch
        Number of versions per request.
    now_seconds
        Function that returns the present time, in seconds since 1970.
    """

    wants_unchanged = False

    def __init__(
        self,
        url: str,
        *,
        name: str = "webhook",
        secret: str | None = None,
        content: Sequence[str] = ("markdown",),
        allow_networks: Iterable[str] = (),
        seconds_max: float = 30.0,
        batch: BatchSettings = _VERSIONS_PER_REQUEST,
        now_seconds: Callable[[], float] = time.time,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url must begin with https:// or http://, got {url!r}")
        if not url.isascii() or not url.isprintable() or " " in url:
            raise ValueError(f"url must be without spaces and in ASCII, got {url!r}")
        self.name = check_sink_name(name)
        self.batch = batch
        self._content = check_content(content)
        self._host: str = parts.hostname
        self._is_secure = parts.scheme == "https"
        self._port = parts.port or (443 if self._is_secure else 80)
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._host_header = parts.netloc.rpartition("@")[2]
        self._secret = None if secret is None else _secret_bytes(secret)
        self._allowed = parse_networks(allow_networks)
        self._seconds_max = seconds_max
        self._now_seconds = now_seconds
        self._connection: http.client.HTTPConnection | None = None

    def write(self, versions: Sequence[PageVersion]) -> None:
        """Send versions and wait for the answer; see `Sink.write`."""
        if not versions:
            return
        rows = [version.as_json(self._content) for version in versions]
        body = json.dumps({"versions": rows}).encode()
        message_id = f"{versions[0].id}-{versions[-1].number}"
        timestamp = int(self._now_seconds())
        headers = {
            "Host": self._host_header,
            "Content-Type": "application/json",
            "User-Agent": "recrawl",
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
        }
        if self._secret is not None:
            headers["webhook-signature"] = sign_webhook(self._secret, message_id, timestamp, body)
        try:
            answer, text = self._send(body, headers)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise SinkError(f"{self._host}: {type(error).__name__}: {error}") from error
        except SinkError:
            self.close()
            raise
        if not 200 <= answer.status < 300:
            self.close()
            shown = text.decode("utf-8", "replace").strip()
            raise SinkError(
                f"{self._host} answered {answer.status} {answer.reason}: {shown[:200]}",
                retry_after_seconds=_seconds(answer.headers.get("Retry-After")),
            )

    def _send(self, body: bytes, headers: dict[str, str]) -> tuple[http.client.HTTPResponse, bytes]:
        is_reused = self._connection is not None
        try:
            return self._exchange(body, headers)
        except (ConnectionError, http.client.BadStatusLine):
            # The receiver may close a connection between two requests.
            self.close()
            if not is_reused:
                raise
            return self._exchange(body, headers)

    def _exchange(
        self, body: bytes, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        if self._connection is None:
            self._connection = self._connect()
        connection = self._connection
        connection.request("POST", self._target, body=body, headers=headers)
        answer = connection.getresponse()
        text = answer.read(_ANSWER_BYTES_MAX)
        if not answer.isclosed():  # more than anybody reads
            self.close()
        return answer, text

    def _connect(self) -> http.client.HTTPConnection:
        """Connect to an address that was checked, so that another look-up cannot replace it."""
        found = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        refusals = []
        for _, _, _, _, address in found:
            refusal = address_refusal(str(address[0]), self._allowed)
            if refusal is None:
                return self._connect_to(str(address[0]))
            refusals.append(refusal)
        raise SinkError(
            f"{self._host}: {'; '.join(dict.fromkeys(refusals))}. Use allow_networks to allow it"
        )

    def _connect_to(self, address: str) -> http.client.HTTPConnection:
        made = socket.create_connection((address, self._port), self._seconds_max)
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._is_secure:
                context = ssl.create_default_context()
                made = context.wrap_socket(made, server_hostname=self._host)
        except BaseException:
            made.close()
            raise
        connection = http.client.HTTPConnection(self._host, self._port, timeout=self._seconds_max)
        connection.sock = made
        return connection

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            with suppress(OSError):
                self._connection.close()
            self._connection = None


def _secret_bytes(secret: str) -> bytes:
    if secret.startswith(_SECRET_PREFIX):
        with suppress(binascii.Error, ValueError):
            return base64.b64decode(secret.removeprefix(_SECRET_PREFIX), validate=True)
    return secret.encode()


def _seconds(value: Any) -> float | None:
    """Return the seconds in a header Retry-After; dates are left to the usual delays."""
    text = str(value or "").strip()
    return float(text) if text.isdecimal() and len(text) < 10 else None
