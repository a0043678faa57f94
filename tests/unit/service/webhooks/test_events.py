"""Changes become events of limited size, and filters choose among them."""

import json
from typing import Any

import pytest

from recrawl.corpus import PageChange
from recrawl.service.webhooks.events import (
    ChangeFilter,
    batch_body,
    change_divergence,
    event_text,
)
from recrawl.service.webhooks.limits import WebhookLimits
from recrawl.service.webhooks.subscription import Webhook, WebhookSecret
from recrawl.shard import Transition
from recrawl.store import PassageChanges

LIMITS = WebhookLimits()


def change(**fields: Any) -> PageChange:
    made = PageChange("1.1", "https://a.example/x", Transition.CHANGED, 1_700_000_000_123)
    return made._replace(**{"sequence": "01", **fields})


def webhook(**settings: Any) -> Webhook:
    return Webhook(name="hook", id="1", url="", secrets=(WebhookSecret(""),), **settings)


def passages(kept: int, added: int, removed: int, text: Any = None) -> PassageChanges:
    return PassageChanges(tuple(range(kept)), tuple(range(added)), tuple(range(removed)), text)


@pytest.mark.parametrize(
    ("found", "divergence"),
    [(None, None), ((0, 0, 0), 0.0), ((4, 0, 0), 0.0), ((2, 1, 1), 0.5), ((0, 3, 2), 1.0)],
)
def test_divergence_is_the_share_of_passages_that_differ(
    found: tuple[int, int, int] | None, divergence: float | None
) -> None:
    made = change(passages=None if found is None else passages(*found))
    assert change_divergence(made) == divergence
    text = event_text(made, "urn:x", with_passages=False, limits=LIMITS)
    assert json.loads(text)["data"]["divergence"] == divergence


def test_changes_below_the_least_divergence_are_not_chosen() -> None:
    chosen = ChangeFilter(webhook(divergence_min=0.5)).choose(
        [
            change(passages=passages(2, 1, 1)),
            change(passages=passages(3, 1, 1)),
            change(what=Transition.GONE),  # not known
        ]
    )
    assert chosen == [True, False, True]


def test_passages_are_in_the_event_if_wanted() -> None:
    made = change(passages=passages(1, 2, 0, ("new text", None)))
    event = json.loads(event_text(made, "urn:x", with_passages=True, limits=LIMITS))
    assert event["data"]["passages"] == {
        "kept": ["0000000000000000"],
        "added": ["0000000000000000", "0000000000000001"],
        "removed": [],
        "added_text": ["new text", None],
    }
    gone = json.loads(event_text(change(), "urn:x", with_passages=True, limits=LIMITS))
    assert gone["data"]["passages"] is None


@pytest.mark.parametrize(
    ("n_bytes_max", "left_out"),
    [
        (1 << 18, None),
        (20_000, ["passages"]),
        (2_000, ["passages", "metadata"]),
        (650, ["passages", "metadata", "doc_id"]),
    ],
)
def test_large_events_lose_what_is_largest(n_bytes_max: int, left_out: list[str] | None) -> None:
    made = change(
        passages=passages(0, 1, 0, ("x" * 100_000,)),
        metadata={"note": "y" * 8_000},
        doc_id="z" * 256,
    )
    limits = WebhookLimits(event_bytes_max=n_bytes_max)
    text = event_text(made, "urn:x", with_passages=True, limits=limits)
    assert len(text) <= n_bytes_max
    assert json.loads(text)["data"].get("left_out") == left_out


def test_any_text_of_the_web_can_be_sent() -> None:
    made = change(
        url="https://a.example/\u202e\x00", metadata={"\ud800": "\udfff"}, doc_id="ß\u2028\n"
    )
    text = event_text(made, "urn:x", with_passages=False, limits=LIMITS)
    assert text.encode().isascii()
    assert json.loads(batch_body([text, text]))[1]["data"]["doc_id"] == "ß\u2028\n"
