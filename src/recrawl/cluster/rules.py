"""What operators have decided about workers and partitions, in messages of the control topic.

Each decision has a key of its own, so that two operators do not overwrite each other's, and the
brokers keep the last one of each.
"""

from typing import Final

from recrawl.cluster.members.heartbeats import NAME_LENGTH_MAX
from recrawl.cluster.placement import PlacementRules
from recrawl.ledger.contract import N_PARTITIONS_MAX

__all__ = ["OperatorRules", "drain_message", "is_drain_key", "pin_message"]

_DRAIN: Final = "drain/"
_PIN: Final = "pin/"
_YES: Final = b"yes"
_NO: Final = b"no"
_DRAINED_MAX: Final = 4_096


def drain_message(worker: str, *, is_drained: bool) -> tuple[str, bytes]:
    """Return key and message that take all partitions from a worker, or allow it some again.

    Parameters
    ----------
    worker
        Name of the worker.
    is_drained
        Whether it should have no partitions.
    """
    return _DRAIN + worker, _YES if is_drained else _NO


def is_drain_key(key: str) -> bool:
    """Return whether a message is about a worker that should have no partitions."""
    return key.startswith(_DRAIN)


def pin_message(partition: int, worker: str | None) -> tuple[str, bytes]:
    """Return key and message that give a partition to a worker while that takes part.

    Parameters
    ----------
    partition
        Number of the partition.
    worker
        Name of the worker; None to give it to none in particular.
    """
    return f"{_PIN}{partition}", b"" if worker is None else worker.encode()


class OperatorRules:
    """The decisions so far, as one worker has read them."""

    def __init__(self) -> None:
        self._drained: set[str] = set()
        self._pins: dict[int, str] = {}
        self._to_repeat: dict[str, bytes] = {}

    def begin_anew(self) -> None:
        """Take note that the topic has lost all decisions; those that are heard now are newer."""
        drained = (drain_message(worker, is_drained=True) for worker in self._drained)
        pins = (pin_message(i, worker) for i, worker in self._pins.items())
        self._to_repeat = dict([*drained, *pins])

    def take_lost(self) -> list[tuple[str, bytes]]:
        """Return, once, the decisions that the topic has lost and nobody has made or said again."""
        found, self._to_repeat = list(self._to_repeat.items()), {}
        return found

    def hear(self, key: str, message: bytes) -> bool:
        """Take note of a message; return whether it was a decision."""
        self._to_repeat.pop(key, None)
        if key.startswith(_DRAIN):
            worker = key.removeprefix(_DRAIN)
            if message == _YES and len(self._drained) < _DRAINED_MAX:
                self._drained.add(worker)
            elif message == _NO:
                self._drained.discard(worker)
            return True
        if key.startswith(_PIN):
            self._hear_pin(key.removeprefix(_PIN), message)
            return True
        return False

    def _hear_pin(self, partition: str, message: bytes) -> None:
        if not (partition.isascii() and partition.isdigit() and len(partition) <= 5):
            return
        i, worker = int(partition), message.decode("utf-8", "replace")
        if i < N_PARTITIONS_MAX and 0 < len(worker) <= NAME_LENGTH_MAX:
            self._pins[i] = worker
        else:
            self._pins.pop(i, None)

    @property
    def placement(self) -> PlacementRules:
        """The decisions, for `place_partitions`."""
        return PlacementRules(dict(self._pins), frozenset(self._drained))
