"""Every sink gets every version at least once, at its own pace."""

import json
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from recrawl.errors import SinkError
from recrawl.fetch.sinks import BatchSettings, PageVersion, SinkRunner, Spool
from recrawl.fetch.sinks import runner as runner_module
from recrawl.fetch.sinks.kinds.callables import CallableSink
from recrawl.fetch.sinks.runner import RETRY_SECONDS_MAX
from recrawl.testing.sinks import fill_spool

# Only a thread that hangs takes so long, on any machine.
SECONDS_MAX = 300


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_790_000_000_000

    def __call__(self) -> int:
        return self.now_ms


class Receiver:
    """A sink that can be told to fail."""

    def __init__(self, name: str, versions_max: int = 5, wait_seconds: float = 0.0) -> None:
        self.numbers: list[int] = []
        self.error: Exception | None = None
        batch = BatchSettings(versions_max=versions_max, wait_seconds=wait_seconds)
        self.sink = CallableSink(self.receive, name=name, batch=batch)
        self.done = threading.Event()
        self.done_at = 0

    def receive(self, versions: list[PageVersion]) -> None:
        if self.error is not None:
            raise self.error
        self.numbers += [version.number for version in versions]
        if self.done_at and self.numbers[-1] >= self.done_at:
            self.done.set()


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    with Spool.open(tmp_path / "spool") as spool:
        yield spool


def step_to_end(runner: SinkRunner) -> None:
    while runner.step():
        pass


def test_sinks_receive_everything_in_order(spool: Spool) -> None:
    fill_spool(spool, 23)
    one, two = Receiver("one"), Receiver("two", versions_max=100)
    runner = SinkRunner(spool, [one.sink, two.sink])
    step_to_end(runner)
    assert one.numbers == two.numbers == list(range(1, 24))
    assert [status.n_waiting for status in runner.statuses()] == [0, 0]
    assert str(runner.statuses()[0]) == "one: 23 written, 0 waiting"
    assert spool.first_number == 24
    assert runner.stop()


@pytest.mark.parametrize("error", [SinkError("no disk"), RuntimeError("bug"), KeyError("x")])
def test_a_failing_sink_keeps_its_place_and_stops_no_other(spool: Spool, error: Exception) -> None:
    fill_spool(spool, 12)
    clock = Clock()
    bad, good = Receiver("bad"), Receiver("good")
    bad.error = error
    runner = SinkRunner(spool, [bad.sink, good.sink], now_ms=clock)
    step_to_end(runner)
    assert good.numbers == list(range(1, 13))
    status = runner.statuses()[0]
    assert (status.n_waiting, status.n_failures) == (12, 1)
    assert status.error is not None
    assert str(error) in status.error
    assert spool.first_number == 1
    assert not runner.step()
    clock.now_ms += 1_000
    bad.error = None
    step_to_end(runner)
    assert bad.numbers == list(range(1, 13))
    assert runner.statuses()[0].error is None


def test_attempts_become_rarer_up_to_a_limit(spool: Spool) -> None:
    fill_spool(spool, 1)
    clock = Clock()
    bad = Receiver("bad")
    bad.error = SinkError("no")
    runner = SinkRunner(spool, [bad.sink], now_ms=clock)
    waits = []
    for _ in range(15):
        runner.step()
        retry_at_ms = runner.next_step_ms
        assert retry_at_ms is not None
        waits.append((retry_at_ms - clock.now_ms) / 1000)
        clock.now_ms = retry_at_ms
    assert waits[:4] == [1, 2, 4, 8]
    assert waits[-1] == RETRY_SECONDS_MAX
    bad.error = SinkError("slow down", retry_after_seconds=1e9)
    runner.step()
    assert runner.next_step_ms == clock.now_ms + RETRY_SECONDS_MAX * 1000


def test_the_other_side_may_ask_for_a_delay(spool: Spool) -> None:
    fill_spool(spool, 1)
    clock = Clock()
    bad = Receiver("bad")
    bad.error = SinkError("slow down", retry_after_seconds=60)
    runner = SinkRunner(spool, [bad.sink], now_ms=clock)
    runner.step()
    assert runner.next_step_ms == clock.now_ms + 60_000


def test_a_place_survives(spool: Spool) -> None:
    fill_spool(spool, 10)
    first = Receiver("a", versions_max=4)
    runner = SinkRunner(spool, [first.sink])
    runner.step()
    again = Receiver("a", versions_max=100)
    late = Receiver("late", versions_max=100)
    runner = SinkRunner(spool, [again.sink, late.sink])
    step_to_end(runner)
    assert first.numbers == [1]
    assert again.numbers == [2, 3, 4, 5, 6, 7, 8, 9, 10]
    assert late.numbers == list(range(1, 11))  # a new sink begins with the oldest version


def test_a_sink_gets_ahead_although_every_process_is_killed_in_a_long_call(spool: Spool) -> None:
    class Killed(BaseException):
        pass

    fill_spool(spool, 10)
    received: list[int] = []

    def receive(versions: list[PageVersion]) -> None:
        if len(versions) > 1:
            raise Killed
        received.extend(version.number for version in versions)

    for _ in range(10):
        runner = SinkRunner(spool, [CallableSink(receive, name="slow")])
        with suppress(Killed):
            step_to_end(runner)
    assert received == list(range(1, 11))


@pytest.mark.parametrize(
    ("call_seconds", "sizes"), [(math.inf, [1, 2, 4, 5, 5, 3]), (0.0, [1] * 20)]
)
def test_calls_grow_while_they_are_short(
    spool: Spool, monkeypatch: pytest.MonkeyPatch, call_seconds: float, sizes: list[int]
) -> None:
    monkeypatch.setattr(runner_module, "_CALL_SECONDS", call_seconds)
    fill_spool(spool, 20)
    found: list[int] = []
    sink = CallableSink(
        lambda versions: found.append(len(versions)),
        name="a",
        batch=BatchSettings(versions_max=5),
    )
    step_to_end(SinkRunner(spool, [sink]))
    assert found == sizes


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"spool": "x", "next": 5}', b'{"next": 5}'])
def test_a_damaged_place_begins_again(spool: Spool, text: bytes) -> None:
    fill_spool(spool, 10)
    sink = Receiver("a")
    SinkRunner(spool, [sink.sink])
    (spool.folder / "positions" / "a.json").write_bytes(text)
    step_to_end(SinkRunner(spool, [sink.sink]))
    assert sink.numbers == list(range(1, 11))


def test_a_place_beyond_the_end_is_the_end(spool: Spool) -> None:
    """The end of the spool was damaged, and cut off."""
    sink = Receiver("a")
    SinkRunner(spool, [sink.sink])
    place = {"spool": spool.id, "next": 100}
    (spool.folder / "positions" / "a.json").write_text(json.dumps(place))
    runner = SinkRunner(spool, [sink.sink])
    fill_spool(spool, 10)
    step_to_end(runner)
    assert sink.numbers == list(range(1, 11))


def test_versions_that_were_deleted_are_counted(spool: Spool) -> None:
    fill_spool(spool, 10)
    away = Receiver("away", versions_max=4)
    other = Receiver("other")
    runner = SinkRunner(spool, [away.sink])
    runner.step()
    step_to_end(SinkRunner(spool, [other.sink]))  # without the sink "away"
    (status,) = SinkRunner(spool, [away.sink]).statuses()
    assert status.n_missed == 9
    assert status.n_waiting == 0


def test_versions_are_collected(spool: Spool) -> None:
    clock = Clock()
    sink = Receiver("a", versions_max=10, wait_seconds=60)
    runner = SinkRunner(spool, [sink.sink], now_ms=clock)
    fill_spool(spool, 4)
    assert not runner.step()
    assert runner.next_step_ms == clock.now_ms + 60_000
    clock.now_ms += 60_000
    assert runner.step()
    assert sink.numbers == [1, 2, 3, 4]
    fill_spool(spool, 10)
    assert runner.step()  # a whole batch is sent at once
    fill_spool(spool, 1)
    assert not runner.step()
    assert runner.stop()  # the rest is sent at the end
    assert sink.numbers == list(range(1, 16))


def test_no_sink_keeps_nothing(spool: Spool) -> None:
    fill_spool(spool, 3)
    SinkRunner(spool, [])
    assert spool.first_number == 4


def test_names_are_checked(spool: Spool) -> None:
    with pytest.raises(ValueError, match="its own name"):
        SinkRunner(spool, [Receiver("a").sink, Receiver("a").sink])
    for name in ("", "../x", "A", "x/y", "x" * 65):
        with pytest.raises(ValueError, match="name of a sink"):
            CallableSink(print, name=name)


def test_threads_send_while_the_spool_is_filled(spool: Spool) -> None:
    sinks = [Receiver(f"s{i}") for i in range(3)]
    for sink in sinks:
        sink.done_at = 60
    with SinkRunner(spool, [sink.sink for sink in sinks]) as runner:
        for _ in range(6):
            fill_spool(spool, 10)
        for sink in sinks:
            assert sink.done.wait(SECONDS_MAX)
    assert [sink.numbers for sink in sinks] == [list(range(1, 61))] * 3
    assert runner.n_waiting == 0


def test_a_place_is_stored_after_the_versions(spool: Spool) -> None:
    """When a sink is called, the stored place is still before the versions that it gets."""
    fill_spool(spool, 9)
    stored: list[int] = []
    path = spool.folder / "positions" / "a.json"

    def receive(versions: list[PageVersion]) -> None:
        number = json.loads(path.read_text())["next"] if path.exists() else 1
        stored.append(versions[0].number - number)

    check: Callable[[list[PageVersion]], None] = receive
    sink = CallableSink(check, name="a", batch=BatchSettings(versions_max=2))
    step_to_end(SinkRunner(spool, [sink]))
    assert stored == [0] * 5


def test_a_sink_that_hangs_does_not_stop_the_end(spool: Spool) -> None:
    fill_spool(spool, 3)
    begun, let_go = threading.Event(), threading.Event()

    def hang(versions: list[PageVersion]) -> None:
        begun.set()
        assert let_go.wait(SECONDS_MAX)

    good = Receiver("good")
    good.done_at = 3
    runner = SinkRunner(spool, [CallableSink(hang, name="hangs"), good.sink])
    runner.start()
    assert begun.wait(SECONDS_MAX)
    assert good.done.wait(SECONDS_MAX)
    assert not runner.stop(0.2)
    let_go.set()
    assert good.numbers == [1, 2, 3]
