"""Change the number of partitions of a corpus on Kafka."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from recrawl.cluster.budget.quotas import BUDGET_KEY
from recrawl.cluster.control_topic import ControlTopic
from recrawl.cluster.rules import is_drain_key
from recrawl.cluster.status import observe_cluster
from recrawl.cluster.view import open_control
from recrawl.corpus import CorpusConfig, Resized, present_config, resize_corpus
from recrawl.errors import LedgerError

__all__ = ["resize_cluster"]

_READ_BACK_SECONDS_MAX: Final = 30.0
_LOOK_SECONDS: Final = 0.1


class _Decisions:
    """The control topic, and what operators have decided there that outlives its partitions."""

    def __init__(self, control: ControlTopic) -> None:
        self._control = control
        self.messages: dict[str, bytes] = {}

    def publish(self, key: str, value: bytes) -> None:
        """Send a message."""
        self._control.publish(key, value)

    def read(self) -> list[tuple[str, bytes]]:
        """Return the messages that have come, and remember decisions."""
        found = self._control.read()
        self.messages |= {
            key: message for key, message in found if key == BUDGET_KEY or is_drain_key(key)
        }
        return found

    def close(self) -> None:
        """Close the topic."""
        self._control.close()


def resize_cluster(
    folder: str | os.PathLike[str],
    partitions: int,
    *,
    on_step: Callable[[str], None] = lambda _: None,
) -> Resized:
    """Change the number of partitions of a corpus on Kafka.

    Workers may be running: they go on with the new partitions.  It can be interrupted at any
    moment: call it again to finish.

    Parameters
    ----------
    folder
        Folder with the configuration of the corpus, which no running worker uses; it gets the files
        of all partitions.
    partitions
        New number of partitions.
    on_step
        Function that is called with the name of each step before it begins.
    """
    config = present_config(Path(folder))
    decisions = _Decisions(open_control(config))
    try:
        # What operators have decided must be known in the new control topic as well.
        observe_cluster(decisions, config.corpus.partitions)
        return resize_corpus(
            folder,
            partitions,
            on_step=on_step,
            before_switch=lambda topic: _copy_decisions(config, topic, decisions.messages),
        )
    finally:
        decisions.close()


def _copy_decisions(config: CorpusConfig, topic: str, messages: dict[str, bytes]) -> None:
    """Send decisions to the control topic of the new partitions, and read them back."""
    control = open_control(replace(config, ledger=replace(config.ledger, topic=topic)))
    try:
        give_up_at = time.monotonic() + _READ_BACK_SECONDS_MAX
        for key, message in messages.items():
            control.publish(key, message)
        missing = {*messages.items()}
        while missing:
            if time.monotonic() > give_up_at:
                raise LedgerError("the control topic of the new partitions cannot be written")
            missing -= {*control.read()}
            time.sleep(_LOOK_SECONDS)
    finally:
        control.close()
