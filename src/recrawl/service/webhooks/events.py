"""Changes of pages as events of CloudEvents 1.0, and the choice of those that a webhook wants.

References
----------
CloudEvents 1.0.2 (cloudevents.io): the attributes, the JSON format and its batches, and the
extension ``sequence``
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from recrawl.corpus import PageChange
from recrawl.service.webhooks.limits import WebhookLimits
from recrawl.service.webhooks.subscription import Webhook
from recrawl.urls import PatternSet

__all__ = [
    "BATCH_TYPE",
    "EVENT_TYPE",
    "ChangeFilter",
    "batch_body",
    "change_divergence",
    "event_text",
]

EVENT_TYPE = "application/cloudevents+json"
"""Media type of a request with one event."""
BATCH_TYPE = "application/cloudevents-batch+json"
"""Media type of a request with several events."""


def change_divergence(change: PageChange) -> float | None:
    """Return the share of a page's passages that differ from the version before; None if unknown.

    Of all passages of both versions, it is the share of those that only one version has.
    """
    if change.passages is None:
        return None
    n_differing = len(change.passages.added) + len(change.passages.removed)
    n_all = n_differing + len(change.passages.kept)
    return n_differing / n_all if n_all else 0.0


class ChangeFilter:
    """Chooses the changes that a webhook wants.

    Parameters
    ----------
    webhook
        Webhook with the filters.
    """

    def __init__(self, webhook: Webhook) -> None:
        self._what = frozenset(webhook.what)
        self._kinds = frozenset(webhook.kinds)
        self._patterns = PatternSet(webhook.patterns) if webhook.patterns else None
        self._divergence_min = webhook.divergence_min

    def choose(self, changes: Sequence[PageChange]) -> list[bool]:
        """Return for each change whether the webhook wants it."""
        chosen = [self._is_wanted(change) for change in changes]
        if self._patterns is not None and any(chosen):
            urls = pa.array([change.url for change in changes], pa.string())
            matches = self._patterns.first_match(urls) >= 0
            return [one and bool(match) for one, match in zip(chosen, matches, strict=True)]
        return chosen

    def _is_wanted(self, change: PageChange) -> bool:
        if self._what and change.what.name.lower() not in self._what:
            return False
        if self._kinds and change.kind not in self._kinds:
            return False
        if self._divergence_min > 0:
            divergence = change_divergence(change)
            return divergence is None or divergence >= self._divergence_min
        return True


def event_text(
    change: PageChange, source: str, *, with_passages: bool, limits: WebhookLimits
) -> str:
    """Return a change as the JSON text of an event, within the limit of its size.

    Parameters
    ----------
    change
        Change of a page.
    source
        Name of the corpus as a URI, the attribute ``source``.
    with_passages
        Whether the event has the passages of the page.
    limits
        Limits of webhooks.
    """
    event = _event(change, source)
    data: dict[str, Any] = event["data"]
    if with_passages:
        data["passages"] = _passages(change)
    text = _encode(event)
    for name in ("passages", "metadata", "doc_id"):
        if len(text) <= limits.event_bytes_max:
            break
        if data.get(name) is not None:
            data[name] = None
            data["left_out"] = [*data.get("left_out", ()), name]
            text = _encode(event)
    return text


def _event(change: PageChange, source: str) -> dict[str, Any]:
    what = change.what.name.lower()
    at = datetime.fromtimestamp(change.at_ms / 1000, UTC)
    passages = change.passages
    return {
        "specversion": "1.0",
        "id": change.sequence,
        "source": source,
        "type": f"recrawl.page.{what}",
        "subject": change.url,
        "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "sequence": change.sequence,
        "datacontenttype": "application/json",
        "data": {
            "url": change.url,
            "key": change.key,
            "what": what,
            "at_ms": change.at_ms,
            "kind": change.kind,
            "doc_id": change.doc_id,
            "metadata": change.metadata,
            "divergence": change_divergence(change),
            "n_passages_kept": None if passages is None else len(passages.kept),
            "n_passages_added": None if passages is None else len(passages.added),
            "n_passages_removed": None if passages is None else len(passages.removed),
        },
    }


def _passages(change: PageChange) -> dict[str, Any] | None:
    if change.passages is None:
        return None
    kept, added, removed, added_text = change.passages
    hashes = {"kept": kept, "added": added, "removed": removed}
    found: dict[str, Any] = {
        name: [f"{one:016x}" for one in numbers] for name, numbers in hashes.items()
    }
    found["added_text"] = None if added_text is None else list(added_text)
    return found


def _encode(event: dict[str, Any]) -> str:
    # In ASCII, so that half of a surrogate pair in a text of the web is no error.
    return json.dumps(event, separators=(",", ":"))


def batch_body(events: Sequence[str]) -> bytes:
    """Return the body of a request with several events."""
    return f"[{','.join(events)}]".encode()
