"""Idempotency keys that a client makes, and whether it has sent them before."""

import uuid

__all__ = ["NewRequestKey", "new_request_key"]


class NewRequestKey(str):
    """An idempotency key that was made here, so that it is known whether it was sent before."""

    __slots__ = ("_is_used",)

    def is_first_use(self) -> bool:
        """Return whether this is the first call with the key."""
        is_used = getattr(self, "_is_used", False)
        self._is_used = True
        return not is_used


def new_request_key() -> str:
    """Return an idempotency key that no other request has."""
    return NewRequestKey(uuid.uuid4().hex)
