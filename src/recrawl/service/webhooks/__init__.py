"""Webhooks: send the changes of pages to other programs, as signed requests.

A webhook subscribes an address to the changes of a corpus.  `WebhookDelivery` sends them, each at
least once and those of a page in order, as events of CloudEvents signed by the scheme of Standard
Webhooks.  `verify_webhook` is for the program that receives them.  Needs the packages of the extra
``recrawl[run]``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recrawl.service.webhooks.delivery import WebhookDelivery
    from recrawl.service.webhooks.files import (
        add_webhook,
        change_webhook,
        drop_letters,
        list_letters,
        list_webhooks,
        remove_webhook,
        rotate_webhook_secret,
        send_letters_again,
    )
    from recrawl.service.webhooks.limits import WebhookLimits
    from recrawl.service.webhooks.outbox import Letter
    from recrawl.service.webhooks.signatures import make_webhook_secret, verify_webhook
    from recrawl.service.webhooks.subscription import Webhook, private_address_warning
    from recrawl.service.webhooks.threaded_feed import ThreadedFeed
    from recrawl.service.webhooks.worker import DeliverySettings, WebhookStatus

__all__ = [
    "DeliverySettings",
    "Letter",
    "ThreadedFeed",
    "Webhook",
    "WebhookDelivery",
    "WebhookLimits",
    "WebhookStatus",
    "add_webhook",
    "change_webhook",
    "drop_letters",
    "list_letters",
    "list_webhooks",
    "make_webhook_secret",
    "private_address_warning",
    "remove_webhook",
    "rotate_webhook_secret",
    "send_letters_again",
    "verify_webhook",
]

_MODULES = {
    "delivery": ("WebhookDelivery",),
    "files": (
        "add_webhook",
        "change_webhook",
        "drop_letters",
        "list_letters",
        "list_webhooks",
        "remove_webhook",
        "rotate_webhook_secret",
        "send_letters_again",
    ),
    "limits": ("WebhookLimits",),
    "outbox": ("Letter",),
    "signatures": ("make_webhook_secret", "verify_webhook"),
    "subscription": ("Webhook", "private_address_warning"),
    "threaded_feed": ("ThreadedFeed",),
    "worker": ("DeliverySettings", "WebhookStatus"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import the module that defines a public name, and return the name's value."""
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, so that they can be completed before they are imported."""
    return sorted({*globals(), *__all__})
