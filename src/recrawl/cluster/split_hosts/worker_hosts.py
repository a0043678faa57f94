"""What a worker does about once a second for the hosts that are split over partitions."""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from recrawl.cluster.split_hosts.messages import (
    GRANTS_KEY,
    NEEDS_KEY,
    grants_message,
    needs_message,
    read_grants,
    read_needs,
)
from recrawl.node.split_hosts.exchange import SplitMessages
from recrawl.node.split_hosts.windows import HostGrants, PartNeeds

__all__ = ["OwnedHosts", "WorkerHosts"]

# Messages that may wait for a step; the oldest are dropped, because all are repeated.
_HEARD_MAX: Final = 10_000


class OwnedHosts(Protocol):
    """What is needed of a `recrawl.node.split_hosts.exchange.SplitHosts`."""

    def share(self, publish: Callable[[SplitMessages], None]) -> None:
        """Send messages to other workers from now on."""
        ...

    def exchange(self, now_ms: int) -> None:
        """Grant windows, begin those whose time has come, and tell others."""
        ...

    def hear_needs(self, needs: PartNeeds, now_ms: int) -> None:
        """Take note of what a part needs."""
        ...

    def hear_grants(self, grants: HostGrants) -> None:
        """Take note of what a home partition grants."""
        ...


class WorkerHosts:
    """One worker's part in the turns of split hosts.

    Parameters
    ----------
    hosts
        Split hosts of the partitions that are open in this process.
    now_ms
        Function that returns the time of the corpus, in milliseconds since 1970.
    publish
        Function that sends a message with a key to the control topic.
    """

    def __init__(
        self,
        hosts: OwnedHosts,
        now_ms: Callable[[], int],
        publish: Callable[[str, bytes], None],
    ) -> None:
        self._hosts = hosts
        self._now_ms = now_ms
        self._publish = publish
        self._heard: deque[tuple[str, bytes]] = deque(maxlen=_HEARD_MAX)
        hosts.share(self._send)

    def _send(self, messages: SplitMessages) -> None:
        for needs in messages.needs:
            self._publish(*needs_message(needs))
        for grants in messages.grants:
            self._publish(*grants_message(grants))

    def hear(self, key: str, message: bytes) -> bool:
        """Take a message of the control topic; return whether it is about split hosts.

        It is read with the next step, because a step may wait for the log of a partition, and
        whoever reads the control topic must not.
        """
        if not key.startswith((NEEDS_KEY, GRANTS_KEY)):
            return False
        self._heard.append((key, message))
        return True

    def step(self) -> None:
        """Read what was heard, grant windows, and begin those whose time has come."""
        for _ in range(len(self._heard)):
            key, message = self._heard.popleft()
            if key.startswith(NEEDS_KEY):
                if (needs := read_needs(key, message)) is not None:
                    self._hosts.hear_needs(needs, self._now_ms())
            elif (grants := read_grants(key, message)) is not None:
                self._hosts.hear_grants(grants)
        self._hosts.exchange(self._now_ms())
