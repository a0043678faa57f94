"""The time of a node follows the system clock, and never goes back."""

from recrawl.node.clock import NodeTime, SystemClock
from tests.manual_clock import ManualClock


def test_time_follows_the_system_clock_forward() -> None:
    clock = ManualClock(1_000_000)
    time = NodeTime(clock, not_before_ms=0)
    clock.pass_seconds(2.5)
    assert time.now_ms() == 1_002_500
    assert time.ahead_ms == 0


def test_a_clock_set_back_does_not_set_the_nodes_time_back() -> None:
    clock = ManualClock(10_000_000)
    time = NodeTime(clock, not_before_ms=0)
    clock.set_back(3600)
    assert time.now_ms() == 10_000_000
    clock.pass_seconds(5)
    assert time.now_ms() == 10_005_000
    assert time.ahead_ms == 3_600_000


def test_a_clock_that_catches_up_is_followed_again() -> None:
    clock = ManualClock(10_000_000)
    time = NodeTime(clock, not_before_ms=0)
    clock.set_back(10)
    clock.wall += 60_000
    assert time.now_ms() == 10_050_000
    assert time.ahead_ms == 0


def test_time_starts_at_the_logged_time_or_later() -> None:
    clock = ManualClock(5_000)
    time = NodeTime(clock, not_before_ms=9_000)
    assert time.now_ms() == 9_000
    clock.pass_seconds(1)
    assert time.now_ms() == 10_000


def test_the_system_clock_runs() -> None:
    clock = SystemClock()
    first = clock.running_ms()
    clock.sleep(0.002)
    assert clock.running_ms() >= first + 1
    assert clock.wall_ms() > 1_700_000_000_000
