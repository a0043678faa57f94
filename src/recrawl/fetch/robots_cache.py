"""The robots.txt files of many sites, each fetched again when it expires."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from recrawl.fetch.fetch_time import FetchTime
from recrawl.fetch.fetcher import FetchAnswer, FetchProblem
from recrawl.fetch.robots import RobotsFile, RobotsRules
from recrawl.messages.robots import RobotsNote

__all__ = [
    "ROBOTS_CACHE_BYTES_MAX",
    "ROBOTS_CACHE_FILES_MAX",
    "ROBOTS_PARSED_BYTES_MAX",
    "RobotsCache",
]

ROBOTS_CACHE_FILES_MAX: Final = 50_000
"""Number of files that are remembered; the one that was used longest ago goes first."""
ROBOTS_CACHE_BYTES_MAX: Final = 64 << 20
"""Bytes of all remembered files as they were received."""
ROBOTS_PARSED_BYTES_MAX: Final = 4 << 20
"""Bytes of the files whose parsed rules, about 25 times as large, stay in memory."""

# These answers say nothing about the file: no request was sent.
_NOT_ASKED: Final = frozenset({FetchProblem.HOST_DELAY, FetchProblem.CLOSED})

FetchRobots: TypeAlias = Callable[[str], Awaitable[FetchAnswer]]


class RobotsCache:
    """Remembers robots.txt files, and fetches each one once at a time.

    Parameters
    ----------
    product
        Name of the fetcher, by which files address it.
    time
        Clock.
    fetch
        Function that fetches the URL of a file.
    on_note
        Function that is called with what a file says, after each attempt to fetch it.
    """

    def __init__(
        self,
        product: str,
        time: FetchTime,
        fetch: FetchRobots,
        on_note: Callable[[RobotsNote], None] | None = None,
    ) -> None:
        self._product = product
        self._on_note = on_note
        self._time = time
        self._fetch = fetch
        self._files: OrderedDict[str, tuple[RobotsFile, int]] = OrderedDict()
        self._n_bytes = 0
        self._parsed: OrderedDict[str, RobotsRules] = OrderedDict()
        self._n_bytes_parsed = 0
        self._running: dict[str, asyncio.Task[FetchAnswer | None]] = {}

    def __len__(self) -> int:
        return len(self._files)

    def fresh_file(self, origin: str) -> RobotsFile | None:
        """Return the file of a site if it is known and has not expired.

        Parameters
        ----------
        origin
            Scheme, host and port of the site, such as ``https://example.com``.
        """
        found = self._files.get(origin)
        if found is None or found[0].expires_at_ms <= self._time.now_ms():
            return None
        self._files.move_to_end(origin)
        if found[0].rules is not None:
            self._keep_parsed(origin, found[0].rules)
        return found[0]

    async def refresh(self, origin: str) -> RobotsFile | FetchAnswer:
        """Fetch the file of a site if it is not known, and return it.

        Returns the answer of the fetch instead if the host could not be asked yet.

        Parameters
        ----------
        origin
            Scheme, host and port of the site.
        """
        while True:
            found = self.fresh_file(origin)
            if found is not None:
                return found
            task = self._running.get(origin)
            if task is None:
                task = asyncio.create_task(self._ask(origin))
                self._running[origin] = task
                task.add_done_callback(lambda _: self._running.pop(origin, None))
            # A caller that is cancelled must not cancel the fetch for the others.
            answer = await asyncio.shield(task)
            if answer is not None:
                return answer

    async def close(self) -> None:
        """Cancel the fetches that have not ended."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, origin: str) -> FetchAnswer | None:
        answer = await self._fetch(f"{origin}/robots.txt")
        # A host whose own address is refused was not asked; one that redirects to such was.
        is_refused = answer.problem == FetchProblem.REFUSED_ADDRESS and not answer.redirects
        if answer.problem in _NOT_ASKED or is_refused:
            return answer
        before = self._files.get(origin)
        status = answer.status
        if answer.problem is not None and not _is_redirect_problem(answer.problem):
            status = 0
        file = RobotsFile.after_answer(
            status,
            answer.body,
            product=self._product,
            now_ms=self._time.now_ms(),
            before=None if before is None else before[0],
        )
        self._remember(origin, file, len(answer.body))
        if self._on_note is not None:
            self._on_note(file.note(origin, self._product, self._time.now_ms()))
        return None

    def _remember(self, origin: str, file: RobotsFile, n_bytes: int) -> None:
        before = self._files.pop(origin, None)
        self._n_bytes += n_bytes - (0 if before is None else before[1])
        self._files[origin] = (file, n_bytes)
        while len(self._files) > 1 and (
            len(self._files) > ROBOTS_CACHE_FILES_MAX or self._n_bytes > ROBOTS_CACHE_BYTES_MAX
        ):
            oldest, (_, dropped) = self._files.popitem(last=False)
            self._n_bytes -= dropped
            self._free(oldest)

    def _keep_parsed(self, origin: str, rules: RobotsRules) -> None:
        """Keep the parsed rules of a site in memory, and free those that were used long ago."""
        before = self._parsed.get(origin)
        if before is rules:
            self._parsed.move_to_end(origin)
            return
        if before is not None:
            self._free(origin)
        self._parsed[origin] = rules
        self._n_bytes_parsed += rules.n_bytes
        while len(self._parsed) > 1 and self._n_bytes_parsed > ROBOTS_PARSED_BYTES_MAX:
            self._free(next(iter(self._parsed)))

    def _free(self, origin: str) -> None:
        rules = self._parsed.pop(origin, None)
        if rules is not None:
            self._n_bytes_parsed -= rules.n_bytes
            rules.free_memory()


def _is_redirect_problem(problem: FetchProblem) -> bool:
    """Return whether a site answered, but with redirects that lead nowhere (RFC 9309, 2.3.1.2)."""
    return problem in (FetchProblem.REDIRECT_LOOP, FetchProblem.TOO_MANY_REDIRECTS)
