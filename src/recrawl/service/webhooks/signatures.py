"""Sign and verify requests by the scheme of Standard Webhooks.

A receiver calls `verify_webhook` with the headers and the body as they arrived, before it reads the
body.  Libraries of Standard Webhooks exist for most languages and do the same.

References
----------
Standard Webhooks 1.0 (standardwebhooks.com): the headers, the secret and the signature
"""

import base64
import binascii
import hmac
import secrets
import time
from collections.abc import Iterable, Mapping

from recrawl.errors import WebhookRefused
from recrawl.fetch.sinks.kinds.webhook import sign_webhook

__all__ = ["make_webhook_secret", "signature_headers", "verify_webhook", "webhook_secret_bytes"]

_PREFIX = "whsec_"
_SECRET_BYTES = 32
_SECRET_BYTES_MIN, _SECRET_BYTES_MAX = 24, 64
_SIGNATURES_MAX = 16
_HEADER_MAX = 2_000


def make_webhook_secret() -> str:
    """Return a new random secret, as sender and receiver store it."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def webhook_secret_bytes(secret: str) -> bytes:
    """Return the bytes of a secret.

    Parameters
    ----------
    secret
        Text that begins with ``whsec_``, followed by 24 to 64 bytes in base64.

    Examples
    --------
    >>> len(webhook_secret_bytes("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
    24
    """
    try:
        found = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        found = b""
    if not secret.startswith(_PREFIX) or not _SECRET_BYTES_MIN <= len(found) <= _SECRET_BYTES_MAX:
        # Without the text itself, which must not get into a log.
        raise ValueError(
            f"a secret must be {_PREFIX} followed by {_SECRET_BYTES_MIN} to {_SECRET_BYTES_MAX} "
            "bytes in base64"
        )
    return found


def signature_headers(
    secrets: Iterable[str], message_id: str, timestamp: int, body: bytes
) -> dict[str, str]:
    """Return the headers of a signed request, with one signature for each secret.

    Parameters
    ----------
    secrets
        Secrets that are valid now; several while one replaces another.
    message_id
        Identifier of the message, the same for each attempt to send it.
    timestamp
        Time of the attempt, in seconds since 1970.
    body
        Body of the request.
    """
    signatures = [
        sign_webhook(webhook_secret_bytes(secret), message_id, timestamp, body)
        for secret in secrets
    ]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(signatures),
    }


def verify_webhook(
    secret: str | Iterable[str],
    headers: Mapping[str, str],
    body: bytes,
    *,
    now_seconds: float | None = None,
    tolerance_seconds: float = 300.0,
) -> str:
    """Check that a request comes from a sender with the same secret; return its ``webhook-id``.

    Parameters
    ----------
    secret
        Secret of the webhook, or several of which one must fit.
    headers
        Headers of the request; the case of their names does not matter.
    body
        Body of the request, byte by byte as it arrived.
    now_seconds
        Present time in seconds since 1970; the system's unless given.
    tolerance_seconds
        Greatest difference between the time of the request and now, which keeps somebody who has
        recorded a request from sending it again later.

    Raises
    ------
    WebhookRefused
        If the request must not be trusted.

    Examples
    --------
    >>> headers = {
    ...     "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    ...     "webhook-timestamp": "1614265330",
    ...     "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    ... }
    >>> secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    >>> verify_webhook(secret, headers, b'{"test": 2432232314}', now_seconds=1_614_265_330)
    'msg_p5jXN8AQM9LWM0D4loKWxJek'
    """
    wanted = [secret] if isinstance(secret, str) else list(secret)
    given = {name.lower(): value for name, value in headers.items()}
    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    message_id, timestamp, signatures = (given.get(name, "") for name in names)
    for name in names:
        if not 0 < len(given.get(name, "")) <= _HEADER_MAX:
            raise WebhookRefused(f"the request has no header {name}")
    if not (timestamp.isascii() and timestamp.isdecimal() and len(timestamp) < 13):
        raise WebhookRefused("webhook-timestamp is not a number of seconds")
    now = time.time() if now_seconds is None else now_seconds
    if abs(now - int(timestamp)) > tolerance_seconds:
        raise WebhookRefused(
            f"the request was signed {abs(now - int(timestamp)):,.0f} s "
            f"{'ago' if now > int(timestamp) else 'ahead of this clock'}; "
            f"{tolerance_seconds:,.0f} s are allowed"
        )
    expected = [
        sign_webhook(webhook_secret_bytes(one), message_id, int(timestamp), body).encode()
        for one in wanted
    ]
    found = [one.encode() for one in signatures.split(" ")[:_SIGNATURES_MAX]]
    # Every pair is compared, in a time that does not depend on the difference.
    fits = [hmac.compare_digest(one, other) for one in expected for other in found]
    if not any(fits):
        raise WebhookRefused("no signature fits the secret and the body")
    return message_id
