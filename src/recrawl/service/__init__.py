"""The HTTP service: a corpus that fetchers on many machines and in any language share.

Needs the extra ``recrawl[server]``.  Names are imported when they are first used, so that a command
can say what is missing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recrawl.service.app import create_app
    from recrawl.service.change_topic import ChangeTopic, read_client_settings
    from recrawl.service.keys import (
        ApiKey,
        Scope,
        create_key,
        list_keys,
        needs_key,
        open_without_keys,
        revoke_key,
        rotate_key,
    )
    from recrawl.service.limits import ServiceLimits, limit_rows
    from recrawl.service.listening import ListenError, bind_socket
    from recrawl.service.problems import PROBLEMS
    from recrawl.service.protection.audit import (
        AuditEntry,
        append_audit_entry,
        audit_command,
        read_audit_log,
    )
    from recrawl.service.protection.key_use import KeyUse, read_key_uses
    from recrawl.service.receivers.receiver_files import (
        NoticeReceiver,
        add_receiver,
        list_receivers,
        remove_receiver,
        rotate_receiver_secret,
    )
    from recrawl.service.receivers.websub.discovery import FetchedFeed
    from recrawl.service.receivers.websub.files import (
        list_feed_subscriptions,
        subscribe_feed,
        unsubscribe_feed,
    )
    from recrawl.service.receivers.websub.subscription import FeedSubscription
    from recrawl.service.receivers.websub.worker import WebSubSettings
    from recrawl.service.server import is_loopback, serve_corpora

__all__ = [
    "PROBLEMS",
    "ApiKey",
    "AuditEntry",
    "ChangeTopic",
    "FeedSubscription",
    "FetchedFeed",
    "KeyUse",
    "ListenError",
    "NoticeReceiver",
    "Scope",
    "ServiceLimits",
    "WebSubSettings",
    "add_receiver",
    "append_audit_entry",
    "audit_command",
    "bind_socket",
    "create_app",
    "create_key",
    "is_loopback",
    "limit_rows",
    "list_feed_subscriptions",
    "list_keys",
    "list_receivers",
    "needs_key",
    "open_without_keys",
    "read_audit_log",
    "read_client_settings",
    "read_key_uses",
    "remove_receiver",
    "revoke_key",
    "rotate_key",
    "rotate_receiver_secret",
    "serve_corpora",
    "subscribe_feed",
    "unsubscribe_feed",
]

_MODULES = {
    "recrawl.service.app": ("create_app",),
    "recrawl.service.change_topic": ("ChangeTopic", "read_client_settings"),
    "recrawl.service.keys": (
        "ApiKey",
        "Scope",
        "create_key",
        "list_keys",
        "needs_key",
        "open_without_keys",
        "revoke_key",
        "rotate_key",
    ),
    "recrawl.service.limits": ("ServiceLimits", "limit_rows"),
    "recrawl.service.listening": ("ListenError", "bind_socket"),
    "recrawl.service.problems": ("PROBLEMS",),
    "recrawl.service.protection.audit": (
        "AuditEntry",
        "append_audit_entry",
        "audit_command",
        "read_audit_log",
    ),
    "recrawl.service.protection.key_use": ("KeyUse", "read_key_uses"),
    "recrawl.service.receivers.receiver_files": (
        "NoticeReceiver",
        "add_receiver",
        "list_receivers",
        "remove_receiver",
        "rotate_receiver_secret",
    ),
    "recrawl.service.receivers.websub.discovery": ("FetchedFeed",),
    "recrawl.service.receivers.websub.subscription": ("FeedSubscription",),
    "recrawl.service.receivers.websub.worker": ("WebSubSettings",),
    "recrawl.service.receivers.websub.files": (
        "list_feed_subscriptions",
        "subscribe_feed",
        "unsubscribe_feed",
    ),
    "recrawl.service.server": ("is_loopback", "serve_corpora"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import the module that defines a public name, and return the name's value."""
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, so that they can be completed before they are imported."""
    return sorted({*globals(), *__all__})
