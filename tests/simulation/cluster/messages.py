"""A control topic in memory: one order for all, and readers that are behind by different times."""

from typing import Final, NamedTuple

from tests.simulation.cluster.world import World

__all__ = ["ControlMessages", "WorkerControl"]

_DELAY_MS_MAX: Final = 60
_LATE_MS_MAX: Final = 2_000
_KEPT_MS: Final = 60_000
_REPEATED: Final = 0.01
_LOST: Final = 0.5


class _Message(NamedTuple):
    at_ms: int
    key: str
    value: bytes


class ControlMessages:
    """The messages of all workers.

    Parameters
    ----------
    world
        Time and chance.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.messages: list[_Message] = []
        self.is_away = False
        """Whether nobody can write or read."""

    def add(self, key: str, value: bytes) -> None:
        """Put a message at the end; it is lost while the topic is away."""
        if not self.is_away:
            self.messages.append(_Message(self.world.now_ms, key, value))

    def kept(self) -> list[_Message]:
        """Return what a compacted topic has for a new reader."""
        since_ms = self.world.now_ms - _KEPT_MS
        last = {message.key: i for i, message in enumerate(self.messages)}
        return [
            message
            for i, message in enumerate(self.messages)
            if message.at_ms >= since_ms or last[message.key] == i
        ]


class WorkerControl:
    """The control topic as one worker has it, see `recrawl.cluster.control_topic.ControlLog`.

    Parameters
    ----------
    topic
        The messages of all workers.
    """

    def __init__(self, topic: ControlMessages) -> None:
        self._topic = topic
        self._world = topic.world
        self._kept = topic.kept()
        self._next = len(topic.messages)
        self._last_ms = 0
        self.lag_ms = 50
        """Milliseconds by which it reads later than others write."""
        self.loses_messages = False
        """Whether its messages are lost or late, unlike those of the others."""

    def publish(self, key: str, value: bytes) -> None:
        rng = self._world.rng
        delay_ms = rng.randrange(_DELAY_MS_MAX)
        if self.loses_messages:
            if self._world.happens(_LOST):
                return
            delay_ms = rng.randrange(_LATE_MS_MAX)
        # The messages of one writer never overtake each other.
        self._last_ms = max(self._last_ms, self._world.now_ms + delay_ms)
        self._world.after(
            self._last_ms - self._world.now_ms, lambda: self._topic.add(key, value), kind="message"
        )
        if self._world.fault(_REPEATED):
            again_ms = delay_ms + rng.randrange(_LATE_MS_MAX)
            self._world.after(again_ms, lambda: self._topic.add(key, value), kind="message")

    def read(self) -> list[tuple[str, bytes]]:
        if self._topic.is_away:
            return []
        found, self._kept = [(one.key, one.value) for one in self._kept], []
        until_ms = self._world.now_ms - self.lag_ms
        messages = self._topic.messages
        while self._next < len(messages) and messages[self._next].at_ms <= until_ms:
            found.append(messages[self._next][1:])
            self._next += 1
        return found

    def close(self) -> None:
        pass
