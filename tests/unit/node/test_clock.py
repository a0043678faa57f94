"""A node's time follows the machine's clock, and never goes back."""

from recrawl.node.clock import NodeTime, SystemClock
from tests.manual_clock import ManualClock


def test_time_is_the_machines_clock_while_that_goes_forward() -> None:
    clock = ManualClock(1_000_000)
    time = NodeTime(clock, not_before_ms=0)
    clock.pass_seconds(2.5)
    assert time.now_ms() == 1_002_500
    assert time.ahead_ms == 0


def test_a_clock_set_back_does_not_set_time_back_and_time_goes_on_at_its_pace() -> None:
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


def test_time_does_not_begin_before_what_was_logged() -> None:
    clock = ManualClock(5_000)
    time = NodeTime(clock, not_before_ms=9_000)
    assert time.now_ms() == 9_000
    clock.pass_seconds(1)
    assert time.now_ms() == 10_000


def test_the_machines_clock_runs() -> None:
    clock = SystemClock()
    first = clock.running_ms()
    clock.sleep(0.002)
    assert clock.running_ms() >= first + 1
    assert clock.wall_ms() > 1_700_000_000_000
