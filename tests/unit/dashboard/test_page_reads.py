"""Results that pages keep: what is quick is never old, and what is slow never keeps it waiting."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from recrawl.corpus import Corpus
from recrawl.dashboard.frame import page_reads, rendering
from recrawl.dashboard.frame.page_reads import PageReads
from recrawl.dashboard.limits import DashboardLimits
from recrawl.dashboard.pages import overview
from tests.unit.dashboard.browser_client import BrowserClient
from tests.unit.service.running_server import RunningServer


class Hosted:
    """A corpus whose calls run in a thread, as those of a server do."""

    name = "news"

    async def show(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(function, *args, **kwargs)


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        monkeypatch.setattr(page_reads, "time", SimpleNamespace(monotonic=lambda: self.now))


def test_what_is_quick_is_asked_for_again_after_five_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, calls = Clock(monkeypatch), []

    def look() -> int:
        calls.append(clock.now)
        return len(calls)

    async def check() -> None:
        reads, hosted = PageReads(DashboardLimits()), Hosted()
        found: list[int] = []
        for seconds in (0.0, 4.9, 0.1):
            clock.now += seconds
            found.append(await reads.read_current(hosted, look))  # type: ignore[arg-type]
        assert found == [1, 1, 2]

    asyncio.run(check())


@pytest.mark.parametrize("seconds", [0.5, 2.0, 4.0])
def test_a_sample_that_is_slow_to_make_is_never_shown_older_than_five_seconds(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """The fault: each sample takes long, and says what was so when it began."""
    clock = Clock(monkeypatch)

    def look() -> float:
        began = clock.now
        clock.now += seconds
        return began

    async def check() -> None:
        reads, hosted = PageReads(DashboardLimits()), Hosted()
        ages, begun = [], set()
        for _ in range(300):
            begun.add(began := await reads.read_current(hosted, look))  # type: ignore[arg-type]
            ages.append(clock.now - began)
            clock.now += 0.1
        assert max(ages) <= 5.0
        # And no more often than needed: the next one begins when the last is five seconds old.
        assert len(begun) <= 1 + clock.now // 5.0

    asyncio.run(check())


def test_a_sample_that_takes_longer_than_it_is_kept_is_not_made_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, calls = Clock(monkeypatch), []

    def look() -> int:
        clock.now += 8.0
        calls.append(clock.now)
        return len(calls)

    async def check() -> None:
        reads, hosted = PageReads(DashboardLimits()), Hosted()
        found: list[int] = []
        for pause in (0.0, 7.9, 0.2):
            clock.now += pause
            found.append(await reads.read_current(hosted, look))  # type: ignore[arg-type]
        assert found == [1, 1, 2]

    asyncio.run(check())


def test_the_overview_shows_the_present_state_also_if_the_rest_of_it_is_slow(
    open_server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault: charts take longer to read than a sample may be old."""
    clock = Clock(monkeypatch)
    began: list[float] = []
    shown: list[float] = []
    sample, read, show = Corpus.sample, overview.read_past, rendering.render

    def note_sample(corpus: Corpus) -> Any:
        began.append(clock.now)
        return sample(corpus)

    def read_slowly(*args: Any) -> Any:
        clock.now += 30.0
        return read(*args)

    def note_shown(*args: Any, **context: Any) -> Any:
        shown.append(clock.now - began[-1])
        return show(*args, **context)

    monkeypatch.setattr(Corpus, "sample", note_sample)
    monkeypatch.setattr(overview, "read_past", read_slowly)
    monkeypatch.setattr(overview, "render", note_shown)
    assert BrowserClient(open_server).get("/ui/news/").status == 200
    assert shown == [0.0]


def test_the_present_state_is_never_kept_longer_than_five_seconds(
    open_server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[tuple[str, str]] = []
    for name in ("read", "read_current"):
        method = getattr(PageReads, name)

        async def watched(
            self: PageReads,
            hosted: Any,
            function: Any,
            *args: Any,
            _name: str = name,
            _method: Any = method,
            **kwargs: Any,
        ) -> Any:
            kept.append((_name, function.__name__))
            return await _method(self, hosted, function, *args, **kwargs)

        monkeypatch.setattr(PageReads, name, watched)
    browser = BrowserClient(open_server)
    for path in ("", "live", "hosts", "hosts/site1.example", "kinds", "sources"):
        kept.clear()
        assert browser.get(f"/ui/news/{path}").status == 200
        assert {name for name, function in kept if function == "sample"} == {"read_current"}, path


def test_what_is_slow_is_shown_as_it_was_while_it_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, go, calls = Clock(monkeypatch), threading.Event(), []

    def draw() -> int:
        assert go.wait(30)
        clock.now += 0.9
        calls.append(clock.now)
        return len(calls)

    async def check() -> None:
        reads, hosted = PageReads(DashboardLimits()), Hosted()

        async def look(version: int) -> int:
            return await reads.read_slow(hosted, version, draw)  # type: ignore[arg-type]

        async def finish() -> None:
            go.set()
            (kept,) = reads._kept.values()
            await kept.task
            await asyncio.sleep(0)  # its callbacks
            go.clear()

        go.set()
        assert await look(1) == 1  # there is no older one, so this one waits
        go.clear()
        clock.now += 179.0  # 200 times as long as it took, less one second
        assert await look(1) == 1
        assert len(reads._kept) == 1
        assert await look(2) == 1  # of an older version, while that of the new one is read
        assert await look(3) == 1  # only one call at a time
        await finish()
        assert await look(2) == 2
        assert await look(3) == 2
        await finish()
        assert await look(3) == 3
        clock.now += 181.0
        assert await look(3) == 3  # too old, and being read again
        await finish()
        assert await look(3) == 4
        go.set()
        clock.now += 181.0 + 60.0
        assert await look(3) == 5  # too old to be shown
        reads.forget(hosted)  # type: ignore[arg-type]
        assert await look(3) == 6  # after an action nothing old is shown

    asyncio.run(check())


@pytest.mark.parametrize(
    ("is_slow", "took", "kept"),
    [
        (False, 0.01, 5),
        (False, 1, 50),
        (False, 20, 300),
        (True, 0, 120),
        (True, 1, 200),
        (True, 20, 300),
    ],
)
def test_what_takes_long_is_read_again_seldom_but_within_minutes(
    monkeypatch: pytest.MonkeyPatch, is_slow: bool, took: float, kept: float
) -> None:
    clock, calls = Clock(monkeypatch), []

    def look() -> int:
        clock.now += took
        calls.append(clock.now)
        return len(calls)

    async def check() -> None:
        reads, hosted = PageReads(DashboardLimits()), Hosted()
        for seconds, n_calls in ((0.0, 1), (kept - 1.0, 1), (62.0, 2)):
            clock.now += seconds
            if is_slow:
                await reads.read_slow(hosted, None, look)  # type: ignore[arg-type]
            else:
                await reads.read(hosted, look)  # type: ignore[arg-type]
            assert len(calls) == n_calls

    asyncio.run(check())
