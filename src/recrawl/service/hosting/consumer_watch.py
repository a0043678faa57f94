"""Warn before a consumer of the change feed loses changes.

The feed keeps changes for a while, and at most so many.  A consumer that is far behind loses those
that it has not read; somebody should look at it before.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from recrawl.corpus import Consumer

__all__ = ["WARN_FROM", "ConsumerWatch"]

logger = logging.getLogger(__name__)

WARN_FROM: Final = 0.8
"""Share of what the feed keeps, from which a consumer is warned of."""
_LOOK_SECONDS: Final = 60.0


class ConsumerWatch:
    """Looks at the consumers of one corpus once a minute.

    Parameters
    ----------
    name
        Name of the corpus.
    corpus
        Object with the methods of `recrawl.Corpus`.
    read
        Function that runs a function in a thread that may read the corpus.
    """

    def __init__(self, name: str, corpus: Any, read: Callable[..., Awaitable[Any]]) -> None:
        self._name = name
        self._corpus = corpus
        self._read = read
        self._warned: set[str] = set()
        self._looking: asyncio.Task[None] | None = None
        self.kept_used: dict[str, float] = {}
        """`Consumer.kept_used` of each consumer, at most a minute old."""

    @property
    def kept_used_max(self) -> float:
        """The value of the consumer that is nearest to losing changes."""
        return max(self.kept_used.values(), default=0.0)

    def start(self) -> None:
        """Begin to look."""
        self._looking = asyncio.create_task(self._look_again_and_again())

    async def _look_again_and_again(self) -> None:
        while True:
            try:
                await self.look()
            except Exception:
                logger.exception("the consumers of %s could not be read", self._name)
            await asyncio.sleep(_LOOK_SECONDS)

    async def look(self) -> None:
        """Look once, and log a warning for each consumer that has come near to losing changes."""
        consumers: Sequence[Consumer] = await self._read(self._corpus.consumers)
        self.kept_used = {one.name: one.kept_used for one in consumers}
        late = {one.name: one for one in consumers if one.kept_used >= WARN_FROM}
        for name in sorted(late.keys() - self._warned):
            one = late[name]
            logger.warning(
                "consumer %s of %s is %d changes behind, and has used %.0f %% of the time or "
                "number that the change feed keeps; %s",
                name,
                self._name,
                one.n_behind,
                100 * one.kept_used,
                one.problem or "let it read and commit, or raise changes.kept_for and kept_max",
            )
        self._warned = set(late)

    async def close(self) -> None:
        """Stop looking."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
