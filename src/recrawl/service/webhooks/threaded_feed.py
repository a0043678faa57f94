"""The change feed of a corpus whose methods block, for delivery in an event loop."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from recrawl.corpus import Consumer, PageChange
from recrawl.errors import RecrawlError

__all__ = ["ThreadedFeed"]


class ThreadedFeed:
    """Calls the methods of a corpus in threads.

    Parameters
    ----------
    corpus
        Object with the methods of `recrawl.Corpus`.
    run
        Function that calls another one with its arguments in a thread.  If it raises errors of its
        own from those of the corpus, the latter are raised.
    """

    def __init__(self, corpus: Any, run: Callable[..., Awaitable[Any]] = asyncio.to_thread) -> None:
        self._corpus = corpus
        self._call = run

    async def _run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return await self._call(function, *args, **kwargs)
        except RecrawlError:
            raise
        except Exception as error:
            if isinstance(error.__cause__, RecrawlError):
                raise error.__cause__ from None
            raise

    async def changes(
        self, after: str | None = None, *, consumer: str | None = None, limit: int = 1_000
    ) -> Sequence[PageChange]:
        """Return the changes after a cursor or the place of a consumer, oldest first."""
        found: Sequence[PageChange] = await self._run(
            self._corpus.changes, after, consumer=consumer, limit=limit
        )
        return found

    async def commit_changes(self, consumer: str, cursor: str, *, rewind: bool = False) -> str:
        """Record durably that a consumer has processed all changes up to a cursor."""
        held = await self._run(self._corpus.commit_changes, consumer, cursor, rewind=rewind)
        return str(held)

    async def consumers(self) -> Sequence[Consumer]:
        """Return the consumers of the change feed, and how far behind each is."""
        found: Sequence[Consumer] = await self._run(self._corpus.consumers)
        return found

    async def remove_consumer(self, consumer: str) -> bool:
        """Remove a consumer of the change feed; return whether it existed."""
        return bool(await self._run(self._corpus.remove_consumer, consumer))
