"""A webhook: where changes are sent, how they are signed, and which of them."""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self
from urllib.parse import urlsplit

from recrawl.fetch.addresses import address_refusal, parse_networks
from recrawl.fetch.target_urls import REFUSED_PORTS, parse_target
from recrawl.messages.enums import Transition
from recrawl.service.webhooks.limits import WebhookLimits
from recrawl.service.webhooks.signatures import make_webhook_secret, webhook_secret_bytes
from recrawl.urls import Pattern

__all__ = ["WHAT", "Webhook", "WebhookSecret", "check_webhook", "private_address_warning"]

WHAT = tuple(one.name.lower() for one in Transition if one != Transition.NONE)
"""Names of the changes that a webhook can be limited to."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}")
_STARTS = ("newest", "oldest")
_KIND_MAX = 200
_REASON_MAX = 200


@dataclass(frozen=True, slots=True)
class WebhookSecret:
    """A secret with which requests are signed."""

    secret: str
    expires_at_ms: int | None = None
    """Time from which it is no longer used, in milliseconds since 1970; None for never."""

    def __repr__(self) -> str:
        return f"WebhookSecret('whsec_…', expires_at_ms={self.expires_at_ms})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A durable subscription to the changes of a corpus.  `add_webhook` creates one."""

    name: str
    """Name of 1 to 32 lower-case letters, digits, ``.``, ``_`` and ``-``."""
    id: str
    """Random text that tells it from an earlier webhook of the same name."""
    url: str
    """Address that receives the requests."""
    secrets: tuple[WebhookSecret, ...]
    """Secrets for signatures, the newest first."""
    what: tuple[str, ...] = ()
    """Changes to send, such as ``("new", "changed")``; all of them if empty."""
    patterns: tuple[str, ...] = ()
    """Patterns of URLs, such as ``shop.example/*``, of which one must match; any URL if empty."""
    kinds: tuple[str, ...] = ()
    """Kinds of pages; all of them if empty."""
    divergence_min: float = 0.0
    """Least share of a page's passages that differ, 0 to 1.  Changes whose passages are not known
    are sent."""
    with_passages: bool = False
    """Whether events have the hashes of passages, and the texts of new ones if they are kept."""
    events_max: int = 1
    """Events per request; above 1 the body is a batch of events."""
    holds_back: bool = True
    """Whether a dead letter holds back the later changes of its page."""
    start: str = "newest"
    """Place in the feed where a new webhook begins: ``"newest"`` or ``"oldest"``."""
    is_started: bool = False
    """Whether its place in the feed exists."""
    disabled: str | None = None
    """Reason why nothing is sent; None if it is enabled."""
    created_at_ms: int = 0

    @property
    def consumer(self) -> str:
        """Name of its consumer of the change feed."""
        return f"webhook.{self.name}.{self.id}"

    @property
    def is_batched(self) -> bool:
        """Whether requests have several events."""
        return self.events_max > 1

    def valid_secrets(self, now_ms: float) -> list[str]:
        """Return the secrets to sign with; never none."""
        valid = [
            one.secret
            for one in self.secrets
            if one.expires_at_ms is None or one.expires_at_ms > now_ms
        ]
        return valid or [self.secrets[0].secret]

    def rotate(
        self, secret: str | None, overlap_seconds: float, now_ms: int, limits: WebhookLimits
    ) -> Self:
        """Return the webhook with a new secret; the others stay valid for some time.

        Parameters
        ----------
        secret
            New secret; None for a random one.
        overlap_seconds
            Time for which requests are signed with the old secrets too.
        now_ms
            Current time, in milliseconds since 1970.
        limits
            Limits of webhooks.
        """
        secret = make_webhook_secret() if secret is None else secret
        webhook_secret_bytes(secret)
        if not 0 <= overlap_seconds < float("inf"):
            raise ValueError(f"overlap_seconds must be 0 or more, got {overlap_seconds}")
        ends_at = now_ms + round(overlap_seconds * 1000)
        old = [
            WebhookSecret(one.secret, min(one.expires_at_ms or ends_at, ends_at))
            for one in self.secrets
        ]
        left = [one for one in old if (one.expires_at_ms or 0) > now_ms]
        if len(left) >= limits.secrets_max:
            raise ValueError(
                f"{len(left)} secrets are still valid, and at most {limits.secrets_max} may be; "
                "wait until one has expired"
            )
        return replace(self, secrets=(WebhookSecret(secret), *left))

    def as_json(self) -> dict[str, Any]:
        """Return the webhook for a file, with its secrets."""
        return asdict(self)

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        """Return the webhook that `as_json` described; later versions may have more fields."""
        known = {one.name: row[one.name] for one in fields(cls) if one.name in row}
        secrets = tuple(
            WebhookSecret(one["secret"], one["expires_at_ms"]) for one in row["secrets"]
        )
        lists = {name: tuple(known.get(name, ())) for name in ("what", "patterns", "kinds")}
        return cls(**{**known, **lists, "secrets": secrets})

    def as_public(self) -> dict[str, Any]:
        """Return the webhook for people and programs, without its secrets."""
        row = asdict(self)
        row["secrets"] = [{"expires_at_ms": one.expires_at_ms} for one in self.secrets]
        return row


def check_webhook(webhook: Webhook, limits: WebhookLimits) -> Webhook:
    """Return a webhook if all its settings are valid; raise `ValueError` otherwise.

    Whether its host has a public address is checked at each connection, not here.

    Parameters
    ----------
    webhook
        Webhook to check.
    limits
        Limits of webhooks.
    """
    if not _NAME.fullmatch(webhook.name):
        raise ValueError(
            "the name of a webhook must be 1 to 32 lower-case letters, digits, '.', '_' and '-', "
            f"and begin with a letter or digit, got {webhook.name!r}"
        )
    _check_url(webhook.url)
    if not webhook.secrets:
        raise ValueError("a webhook needs a secret")
    for one in webhook.secrets:
        webhook_secret_bytes(one.secret)
    _check_texts("what", webhook.what, limits)
    for name in webhook.what:
        if name not in WHAT:
            raise ValueError(f"what must be among {', '.join(WHAT)}, got {name!r}")
    _check_texts("patterns", webhook.patterns, limits)
    for text in webhook.patterns:
        Pattern(text)
    _check_texts("kinds", webhook.kinds, limits)
    if not 0 <= webhook.divergence_min <= 1:
        raise ValueError(f"divergence_min must be from 0 to 1, got {webhook.divergence_min}")
    if not 1 <= webhook.events_max <= limits.events_max:
        raise ValueError(
            f"events_max must be from 1 to {limits.events_max}, got {webhook.events_max}"
        )
    if webhook.start not in _STARTS:
        raise ValueError(f"start must be newest or oldest, got {webhook.start!r}")
    if webhook.disabled is not None and len(webhook.disabled) > _REASON_MAX:
        raise ValueError(f"the reason must have at most {_REASON_MAX} characters")
    return webhook


def private_address_warning(url: str, allow_networks: Sequence[str] = ()) -> str | None:
    """Return a warning if a webhook's URL has an address that the server refuses; else None.

    A host that is given by its name is looked up only when something is sent.

    Parameters
    ----------
    url
        Address that receives the requests.
    allow_networks
        Networks that the server may send to although they are not public.

    Examples
    --------
    >>> private_address_warning("http://10.1.2.3:9000/hook")
    '10.1.2.3 is reserved for a private network: nothing is sent there unless the server is \
started with --allow-network 10.1.2.3'
    """
    host = (urlsplit(url).hostname or "").rstrip(".")
    address = "127.0.0.1" if host == "localhost" else host
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return None
    refusal = address_refusal(address, parse_networks(allow_networks))
    if refusal is None:
        return None
    return (
        f"{refusal}: nothing is sent there unless the server is started with "
        f"--allow-network {address}"
    )


def _check_url(url: str) -> None:
    target = parse_target(url)
    if target is None:
        raise ValueError(f"url must begin with https:// or http:// and name a host, got {url!r}")
    if "@" in urlsplit(url).netloc:
        raise ValueError("url must have no user name and no password; the signature is the proof")
    if target.port in REFUSED_PORTS:
        raise ValueError(f"url must not have port {target.port}, which is of another protocol")


def _check_texts(name: str, texts: Sequence[Any], limits: WebhookLimits) -> None:
    if len(texts) > limits.patterns_max:
        raise ValueError(f"{name} must be at most {limits.patterns_max}, got {len(texts)}")
    for text in texts:
        if not isinstance(text, str) or not text:
            raise ValueError(f"{name} must be texts, got {text!r}")
    if name == "kinds" and any(len(text) > _KIND_MAX for text in texts):
        raise ValueError(f"a kind must have at most {_KIND_MAX} characters")
