"""A crawl tells its corpus what robots.txt files say, and waits for nothing."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from recrawl.corpus import Corpus
from recrawl.errors import ServiceError
from recrawl.messages.robots import RobotsNote
from recrawl.run import robots_teller
from recrawl.run.robots_teller import RobotsTeller

HOST = "a.example"


def note(at_ms: int, origin: str = f"https://{HOST}") -> RobotsNote:
    return RobotsNote(origin, "found", "nothing", at_ms)


def test_the_newest_notes_are_told_at_the_latest_at_the_end(
    open_corpus: Callable[..., Corpus],
) -> None:
    corpus = open_corpus()

    async def main() -> None:
        teller = RobotsTeller(corpus)
        teller.add(note(1))
        teller.add(note(2))
        await teller.close()

    asyncio.run(main())
    assert corpus.robots([HOST]) == {HOST: [note(2)]}


class Unwilling:
    """A corpus on a server that does not know of robots.txt files at first."""

    def __init__(self) -> None:
        self.calls: list[list[RobotsNote]] = []

    def note_robots(self, notes: list[RobotsNote]) -> None:
        self.calls.append(notes)
        if len(self.calls) == 1:
            raise ServiceError("there is no such path")


def test_a_crawl_goes_on_if_the_corpus_takes_no_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_teller, "_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(robots_teller, "_WAITING_MAX", 2)
    corpus: Any = Unwilling()

    async def main() -> None:
        teller = RobotsTeller(cast("Corpus", corpus))
        for i in range(5):
            teller.add(note(i, f"https://site{i}.example"))
        while not corpus.calls:
            await asyncio.sleep(0.01)
        teller.add(note(9))
        await teller.close()
        nothing_new = RobotsTeller(cast("Corpus", corpus))
        await nothing_new.close()

    asyncio.run(main())
    assert [[one.asked_at_ms for one in call] for call in corpus.calls] == [[0, 1], [9]]
