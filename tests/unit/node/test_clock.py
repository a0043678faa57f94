"""The time of a node follows the system clock, and never goes back."""

import logging
import time

import pytest

from recrawl.node.clock import NodeTime, SystemClock
from tests.manual_clock import ManualClock


def test_time_follows_the_system_clock_forward() -> None:
    clock = ManualClock(1_000_000)
    node_time = NodeTime(clock, not_before_ms=0)
    clock.pass_seconds(2.5)
    assert node_time.now_ms() == 1_002_500
    assert node_time.ahead_ms == 0


def test_a_clock_set_back_does_not_set_the_nodes_time_back() -> None:
    clock = ManualClock(10_000_000)
    node_time = NodeTime(clock, not_before_ms=0)
    clock.set_back(3600)
    assert node_time.now_ms() == 10_000_000
    clock.pass_seconds(5)
    assert node_time.now_ms() == 10_005_000
    assert node_time.ahead_ms == 3_600_000


def test_a_clock_that_catches_up_is_followed_again() -> None:
    clock = ManualClock(10_000_000)
    node_time = NodeTime(clock, not_before_ms=0)
    clock.set_back(10)
    clock.wall += 60_000
    assert node_time.now_ms() == 10_050_000
    assert node_time.ahead_ms == 0


def test_time_starts_at_the_logged_time_or_later() -> None:
    clock = ManualClock(5_000)
    node_time = NodeTime(clock, not_before_ms=9_000)
    assert node_time.now_ms() == 9_000
    clock.pass_seconds(1)
    assert node_time.now_ms() == 10_000


YEARS_MS = 20 * 365 * 86_400_000


def test_one_wrong_reading_does_not_move_time_ahead(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock(10_000_000)
    node_time = NodeTime(clock, not_before_ms=0)
    clock.wall += YEARS_MS
    with caplog.at_level(logging.WARNING):
        assert node_time.now_ms() == 10_000_000
        clock.pass_seconds(5)
        assert node_time.now_ms() == 10_005_000
    assert node_time.held_back_ms == YEARS_MS
    (record,) = caplog.records
    assert "moved ahead by 20 years within this process" in record.getMessage()
    clock.wall -= YEARS_MS
    clock.pass_seconds(5)
    assert node_time.now_ms() == 10_010_000
    assert node_time.held_back_ms == 0


def test_a_clock_that_is_wrong_by_years_is_never_followed_by_the_same_process() -> None:
    clock = ManualClock(10_000_000)
    node_time = NodeTime(clock, not_before_ms=0)
    clock.wall += YEARS_MS
    for _ in range(100):
        clock.pass_seconds(3600)
        node_time.now_ms()
    assert node_time.now_ms() == 10_000_000 + 100 * 3_600_000


def test_a_clock_that_was_set_right_is_followed_after_an_hour() -> None:
    clock = ManualClock(10_000_000)
    node_time = NodeTime(clock, not_before_ms=0)
    clock.wall += 86_400_000
    assert node_time.now_ms() == 10_000_000
    clock.pass_seconds(3599)
    assert node_time.now_ms() == 10_000_000 + 3_599_000
    clock.pass_seconds(1)
    assert node_time.now_ms() == clock.wall_ms()
    assert node_time.held_back_ms == 0


def test_a_clock_that_keeps_jumping_is_not_followed() -> None:
    clock = ManualClock(10_000_000)
    node_time = NodeTime(clock, not_before_ms=0)
    for _ in range(10):
        clock.pass_seconds(1800)
        clock.wall += 3_600_000
        node_time.now_ms()
    assert node_time.now_ms() == 10_000_000 + 18_000_000


def test_small_steps_are_followed_but_do_not_add_up() -> None:
    clock = ManualClock(10_000_000)
    node_time = NodeTime(clock, not_before_ms=0)
    for _ in range(10):
        clock.wall += 20_000
        node_time.now_ms()
    assert node_time.now_ms() == 10_060_000


def test_a_machine_that_slept_has_no_jump() -> None:
    """The running clock goes on while the machine sleeps."""
    clock = ManualClock(10_000_000)
    node_time = NodeTime(clock, not_before_ms=0)
    clock.pass_seconds(8 * 3600)
    assert node_time.now_ms() == clock.wall_ms()


def test_a_clock_that_was_not_set_yet_at_the_start_is_followed_once_it_is_right() -> None:
    clock = ManualClock(0)  # 1970
    node_time = NodeTime(clock, not_before_ms=1_700_000_000_000)
    assert node_time.now_ms() == 1_700_000_000_000
    clock.wall = 1_700_000_000_000 + 86_400_000
    node_time.now_ms()
    clock.pass_seconds(3600)
    assert node_time.now_ms() == clock.wall_ms()


def test_the_system_clock_runs() -> None:
    clock = SystemClock()
    first = clock.running_ms()
    clock.sleep(0.002)
    assert clock.running_ms() >= first + 1
    assert clock.wall_ms() > 1_700_000_000_000


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="Linux only")
def test_the_running_clock_goes_on_while_the_machine_sleeps() -> None:
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    running = SystemClock().running_ms()
    assert before <= running <= time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
