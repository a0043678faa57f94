"""Tell the corpus what robots.txt files say, so that people see why a host is not fetched from.

No fetch waits for it, and a crawl goes on if the corpus does not take it.
"""

import asyncio
import logging
from contextlib import suppress
from typing import Final

from recrawl.corpus import Corpus
from recrawl.errors import RecrawlError
from recrawl.messages.robots import RobotsNote

__all__ = ["RobotsTeller"]

_log = logging.getLogger("recrawl.run")

_PAUSE_SECONDS: Final = 1.0
_CLOSE_SECONDS_MAX: Final = 5.0
_WAITING_MAX: Final = 10_000


class RobotsTeller:
    """Collects notes, and gives them to a corpus once a second.

    Create it, and call its methods, in one event loop.

    Parameters
    ----------
    corpus
        Corpus that keeps the notes.
    """

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        # By site: of one that is asked again and again, only the newest counts.
        self._waiting: dict[str, RobotsNote] = {}
        self._has_news = asyncio.Event()
        self._is_closing = asyncio.Event()
        self._telling = asyncio.create_task(self._tell_all())

    def add(self, note: RobotsNote) -> None:
        """Add a note; beyond a limit it is dropped, until the file is read again."""
        if len(self._waiting) < _WAITING_MAX or note.origin in self._waiting:
            self._waiting[note.origin] = note
            self._has_news.set()

    async def close(self) -> None:
        """Give the last notes to the corpus; drop them if that takes longer than some seconds."""
        self._is_closing.set()
        self._has_news.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS_MAX):
                await asyncio.shield(self._telling)
        self._telling.cancel()
        await asyncio.gather(self._telling, return_exceptions=True)

    async def _tell_all(self) -> None:
        while self._waiting or not self._is_closing.is_set():
            await self._has_news.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(_PAUSE_SECONDS):
                    await self._is_closing.wait()
            notes, self._waiting = list(self._waiting.values()), {}
            self._has_news.clear()
            if not notes:
                continue
            try:
                await asyncio.to_thread(self._corpus.note_robots, notes)
            except (RecrawlError, OSError, ValueError) as error:
                # An older server does not know of robots.txt files.
                _log.debug("the corpus does not take what robots.txt files say: %s", error)
