"""The robots.txt files of many sites are remembered within limits."""

import asyncio

import pytest

from recrawl.fetch import FetchAnswer, FetchProblem, RobotsFile, robots_cache
from recrawl.fetch.robots_cache import RobotsCache
from recrawl.messages.robots import RobotsNote
from tests.unit.fetch.test_host_gate import ManualTime

RULES = b"User-agent: *\nDisallow: /private\n" + b"".join(
    b"Disallow: /%d/*.php\n" % i for i in range(50)
)


class Sites:
    """Answers requests for robots.txt files, and counts them."""

    def __init__(self, **answer: object) -> None:
        self.urls: list[str] = []
        self.answer = answer or {"status": 200, "body": RULES}

    async def fetch(self, url: str) -> FetchAnswer:
        self.urls.append(url)
        await asyncio.sleep(0)
        return FetchAnswer(url=url, final_url=url, fetched_at_ms=0, **self.answer)  # type: ignore[arg-type]


def test_a_file_is_fetched_once_for_all_who_wait() -> None:
    async def main() -> None:
        sites, time = Sites(), ManualTime()
        cache = RobotsCache("recrawl", time, sites.fetch)
        found = await asyncio.gather(*(cache.refresh("http://a.example") for _ in range(9)))
        assert sites.urls == ["http://a.example/robots.txt"]
        assert all(isinstance(file, RobotsFile) for file in found)
        time.at_ms += 86_400_000
        await cache.refresh("http://a.example")
        assert len(sites.urls) == 2

    asyncio.run(main())


def test_a_cancelled_waiter_does_not_cancel_the_others() -> None:
    async def main() -> None:
        sites = Sites()
        cache = RobotsCache("recrawl", ManualTime(), sites.fetch)
        first, second = (asyncio.create_task(cache.refresh("http://a.example")) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert isinstance(await second, RobotsFile)
        assert len(sites.urls) == 1

    asyncio.run(main())


def test_a_host_that_could_not_be_asked_is_not_unreachable() -> None:
    async def main() -> None:
        sites = Sites(problem=FetchProblem.HOST_DELAY, retry_after_seconds=90.0)
        cache = RobotsCache("recrawl", ManualTime(), sites.fetch)
        found = await cache.refresh("http://a.example")
        assert isinstance(found, FetchAnswer)
        assert found.retry_after_seconds == 90.0
        sites.answer = {"status": 404}
        assert isinstance(await cache.refresh("http://a.example"), RobotsFile)

    asyncio.run(main())


def test_memory_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_cache, "ROBOTS_CACHE_BYTES_MAX", 20 * len(RULES))
    monkeypatch.setattr(robots_cache, "ROBOTS_PARSED_BYTES_MAX", 5 * len(RULES))

    async def main() -> None:
        sites = Sites()
        cache = RobotsCache("recrawl", ManualTime(), sites.fetch)
        origins = [f"http://{i}.example" for i in range(60)]
        files = {}
        for origin in origins:
            files[origin] = await cache.refresh(origin)
        assert len(cache) == 20
        parsed = 0
        for origin, file in files.items():
            assert isinstance(file, RobotsFile)
            assert file.rules is not None
            parsed += file.rules._parsed is not None
            assert not file.allows(f"{origin}/private")
            assert file.allows(f"{origin}/open")
        assert parsed == 5

    asyncio.run(main())


def test_each_attempt_is_noted() -> None:
    async def main() -> None:
        notes: list[RobotsNote] = []
        sites, time = Sites(), ManualTime()
        cache = RobotsCache("recrawl", time, sites.fetch, notes.append)
        await cache.refresh("http://a.example")
        await cache.refresh("http://a.example")
        time.at_ms += 86_400_000
        sites.answer = {"status": 503}
        await cache.refresh("http://a.example")
        assert [(one.result, one.closes) for one in notes] == [
            ("found", "parts"),
            ("unreachable", "parts"),
        ]
        assert {(one.origin, one.agent) for one in notes} == {("http://a.example", "recrawl")}
        assert notes[1].asked_at_ms == time.now_ms()

    asyncio.run(main())
