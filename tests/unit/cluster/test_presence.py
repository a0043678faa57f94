"""Workers find each other through a real broker, and notice who is gone."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recrawl.cluster.control_topic import ControlTopic
from recrawl.cluster.members.heartbeats import Heartbeat
from recrawl.cluster.presence import Presence

pytestmark = [pytest.mark.kafka, pytest.mark.slow_without_jit]

PROGRAM = Path(__file__).with_name("worker_program.py")
WAIT_SECONDS_MAX = 300.0


class Wires:
    """Logs of several workers in memory, which can be cut."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, bytes]] = []
        self.is_cut = False

    def connect(self) -> "Wire":
        return Wire(self)


class Wire:
    def __init__(self, wires: Wires) -> None:
        self._wires = wires
        self._n_read = 0
        self.is_closed = False

    def publish(self, key: str, value: bytes) -> None:
        if not self._wires.is_cut:
            self._wires.messages.append((key, value))

    def read(self) -> list[tuple[str, bytes]]:
        found = self._wires.messages[self._n_read :] if not self._wires.is_cut else []
        self._n_read += len(found)
        return found

    def close(self) -> None:
        self.is_closed = True


def own(worker: str) -> Callable[[], Heartbeat]:
    heartbeat = Heartbeat(worker=worker, instance=f"{worker}-1", started_at_ms=1)
    return lambda: heartbeat


def test_a_worker_beats_once_a_second_and_never_to_catch_up() -> None:
    wires, now = Wires(), 50.0
    presence = Presence(wires.connect(), own("a"), monotonic=lambda: now)
    for _ in range(100):
        presence.step()
        now += 0.1
    assert 9 <= len(wires.messages) <= 11
    now += 3_600
    presence.step()
    presence.step()
    assert len(wires.messages) <= 12


def test_a_worker_starts_again_after_its_clock_was_set_back() -> None:
    wires, now = Wires(), 50.0

    def start(name: str, clock_ms: int) -> Presence:
        own = Heartbeat(worker="a", instance=name, started_at_ms=clock_ms)
        return Presence(wires.connect(), lambda: own, monotonic=lambda: now)

    ahead, true = start("ahead", 3_600_000), start("true", 1)

    def run(*some: Presence) -> None:
        nonlocal now
        for _ in range(80):
            now += 0.1
            for one in some:
                one.step()

    run(ahead)
    run(true)
    assert true.replaced_by is None
    assert [one.instance for one in true.members.present] == ["true"]
    assert not true.members.is_frozen
    # The one that was started first ends, if it still runs.
    run(ahead, true)
    assert true.replaced_by is None
    assert ahead.replaced_by is not None
    true.stop()
    goodbye = Heartbeat.from_bytes(wires.messages[-1][1])
    assert goodbye is not None
    assert goodbye.start == (3_600_001, "true")


def test_of_two_that_start_at_once_with_one_name_one_remains() -> None:
    now = 50.0

    def start(wires: Wires, name: str, clock_ms: int) -> Presence:
        own = Heartbeat(worker="a", instance=name, started_at_ms=clock_ms)
        return Presence(wires.connect(), lambda: own, monotonic=lambda: now)

    for n_steps_later in range(3):
        wires = Wires()
        first, second = start(wires, "first", 9), start(wires, "second", 1)
        for step in range(40):
            now += 0.1
            first.step()
            if step >= n_steps_later:
                second.step()
        assert sorted(one.replaced_by is None for one in (first, second)) == [False, True]


def test_workers_find_each_other_and_part() -> None:
    wires, now = Wires(), 50.0
    logs = [wires.connect() for _ in range(3)]
    workers = [
        Presence(log, own(name), monotonic=lambda: now)
        for log, name in zip(logs, "abc", strict=True)
    ]

    def run(seconds: float, some: list[Presence]) -> list[tuple[str, ...]]:
        nonlocal now
        for _ in range(round(seconds * 10)):
            now += 0.1
            for one in some:
                one.step()
        return [one.members.names for one in some]

    assert run(7, workers) == [("a", "b", "c")] * 3
    workers[2].stop()
    assert logs[2].is_closed
    assert run(0.2, workers[:2]) == [("a", "b")] * 2
    wires.is_cut = True
    assert run(60, workers[:2]) == [("a", "b")] * 2
    assert all(one.members.is_frozen for one in workers[:2])
    wires.is_cut = False
    assert run(7, workers[:2]) == [("a", "b")] * 2
    assert not any(one.members.is_frozen for one in workers[:2])


def test_messages_of_other_kinds_and_forged_names_are_ignored() -> None:
    wires, now = Wires(), 50.0
    presence = Presence(wires.connect(), own("a"), monotonic=lambda: now)
    other = Heartbeat(worker="b", instance="b-1", started_at_ms=1).to_bytes()
    for _ in range(80):
        now += 0.1
        wires.messages += [("price", b"1"), ("worker/c", other), ("worker/a", b"\x00")]
        presence.step()
    assert presence.members.names == ("a",)


@pytest.fixture
def watching(kafka_bootstrap: str, kafka_topic: str) -> Iterator[Presence]:
    presence = Presence(ControlTopic.open(kafka_bootstrap, kafka_topic), own("watching"))
    presence.start()
    yield presence
    presence.stop()


def wait_until(is_so: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + WAIT_SECONDS_MAX
    while not is_so():
        assert time.monotonic() < give_up_at
        time.sleep(0.05)


def wait_for(presence: Presence, names: tuple[str, ...]) -> None:
    """Wait until a worker sees exactly these."""
    wait_until(lambda: presence.members.names == names and not presence.members.is_frozen)


def test_killed_stopped_and_ended_workers_are_noticed(
    watching: Presence, kafka_bootstrap: str, kafka_topic: str
) -> None:
    def start(name: str) -> "subprocess.Popen[str]":
        command = [sys.executable, str(PROGRAM), name, kafka_bootstrap, kafka_topic]
        started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert started.stdout is not None
        assert started.stdout.readline() == "started\n"
        return started

    workers = {name: start(name) for name in ("killed", "paused", "ended")}
    try:
        wait_for(watching, ("ended", "killed", "paused", "watching"))
        workers["ended"].send_signal(signal.SIGTERM)
        wait_for(watching, ("killed", "paused", "watching"))
        workers["killed"].kill()
        os.kill(workers["paused"].pid, signal.SIGSTOP)
        wait_for(watching, ("watching",))
        os.kill(workers["paused"].pid, signal.SIGCONT)
        wait_for(watching, ("paused", "watching"))
        assert workers["ended"].wait(WAIT_SECONDS_MAX) == 0
    finally:
        for one in workers.values():
            one.kill()
            one.communicate()


def test_a_later_start_with_the_same_name_replaces_the_first(
    watching: Presence, kafka_bootstrap: str, kafka_topic: str
) -> None:
    wait_for(watching, ("watching",))
    later = Heartbeat(worker="watching", instance="watching-2", started_at_ms=2)
    second = Presence(ControlTopic.open(kafka_bootstrap, kafka_topic), lambda: later)
    second.start()
    try:
        wait_for(second, ("watching",))
        wait_until(lambda: watching.replaced_by is not None)
        assert watching.replaced_by is not None
        assert watching.replaced_by.start == later.start
        assert second.replaced_by is None
    finally:
        second.stop()
