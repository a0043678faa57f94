"""Hosts are contacted one request after the other, with their delays in between."""

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

from recrawl.fetch import FetchSettings, HostGate


class ManualTime:
    """A clock that moves when somebody sleeps."""

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self.at_ms = now_ms

    def now_ms(self) -> int:
        return self.at_ms

    async def sleep(self, seconds: float) -> None:
        end_ms = self.at_ms + round(seconds * 1000)
        await asyncio.sleep(0)
        self.at_ms = max(self.at_ms, end_ms)


class Lines:
    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def append(self, line: bytes) -> None:
        self.lines.append(line)


def settings(**changes: Any) -> FetchSettings:
    return FetchSettings(contact="https://example.com/bot", **changes)


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def test_the_delay_runs_from_the_end_of_the_answer() -> None:
    async def main() -> None:
        time = ManualTime()
        gate = HostGate(settings(delay_seconds=2.0, slowness_factor=0.0), time)
        started = time.at_ms
        assert await gate.enter("a.example") == 0
        await time.sleep(5)
        gate.leave("a.example", seconds=5)
        assert gate.next_start_ms("a.example") == started + 7_000
        assert await gate.enter("a.example") == 0
        assert time.at_ms == started + 7_000
        assert await gate.enter("b.example") == 0
        assert time.at_ms == started + 7_000

    run(main())


def test_one_request_at_a_time() -> None:
    async def main() -> None:
        time = ManualTime()
        gate = HostGate(settings(delay_seconds=0.0, slowness_factor=0.0), time)
        n_open = n_done = 0

        async def request() -> None:
            nonlocal n_open, n_done
            await gate.enter("a.example")
            n_open += 1
            assert n_open == 1
            await asyncio.sleep(0)
            n_open -= 1
            n_done += 1
            gate.leave("a.example")

        await asyncio.gather(*(request() for _ in range(20)))
        assert n_done == 20

    run(main())


def test_a_cancelled_waiter_leaves_the_gate_to_others() -> None:
    async def main() -> None:
        gate = HostGate(settings(delay_seconds=0.0), ManualTime())
        await gate.enter("a.example")
        waiting = [asyncio.create_task(gate.enter("a.example")) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        gate.leave("a.example")
        assert await waiting[1] == 0
        gate.leave("a.example")
        assert await waiting[2] == 0

    run(main())


def test_slow_hosts_are_asked_less_often() -> None:
    async def main() -> None:
        time = ManualTime()
        gate = HostGate(settings(delay_seconds=1.0, slowness_factor=3.0), time)
        gaps = []
        for _ in range(20):
            await gate.enter("a.example")
            await time.sleep(4.0)
            gate.leave("a.example", seconds=4.0)
            gaps.append((gate.next_start_ms("a.example") - time.at_ms) / 1000)
        assert gaps == sorted(gaps)
        assert 11 < gaps[-1] <= 12.1
        for _ in range(200):
            await gate.enter("a.example")
            gate.leave("a.example", seconds=300.0)
        assert gate.next_start_ms("a.example") <= time.at_ms + 60_000

    run(main())


def test_failures_double_the_delay_and_success_ends_it() -> None:
    async def main() -> None:
        time = ManualTime()
        gate = HostGate(settings(wait_seconds_max=1e9, slowness_factor=0.0), time)
        gaps = []
        for i in range(15):
            await gate.enter("a.example")
            gate.leave("a.example", is_failure=i < 14)
            gaps.append((gate.next_start_ms("a.example") - time.at_ms) / 1000)
        assert gaps[:3] == [10, 20, 40]
        assert gaps[13:] == [3_600, 1]

    run(main())


def test_retry_after_is_never_shortened() -> None:
    async def main() -> None:
        for i in range(50):
            time = ManualTime()
            gate = HostGate(settings(), time)
            host = f"{i}.example"
            await gate.enter(host)
            gate.leave(host, is_failure=True, retry_after_seconds=120)
            assert 120_000 <= gate.next_start_ms(host) - time.at_ms <= 132_000
            assert 120 <= await gate.enter(host) <= 132
            assert gate.delayed_hosts(seconds_min=100).keys() == {host}
            await time.sleep(133)
            assert await gate.enter(host) == 0

    run(main())


def test_a_crawl_delay_holds_from_the_file_on() -> None:
    async def main() -> None:
        time = ManualTime()
        gate = HostGate(settings(), time)
        await gate.enter("a.example")
        gate.leave("a.example")
        gate.set_crawl_delay("a.example", 30.0)
        started = time.at_ms
        await gate.enter("a.example")
        assert time.at_ms == started + 30_000
        gate.leave("a.example")
        assert gate.next_start_ms("a.example") == time.at_ms + 30_000

    run(main())


def test_delays_survive_a_restart() -> None:
    async def main() -> None:
        time, lines = ManualTime(), Lines()
        gate = HostGate(settings(delay_seconds=5.0), time, lines)
        for host in ("done.example", "open.example", "busy.example"):
            await gate.enter(host)
        gate.leave("done.example")
        gate.leave("busy.example", is_failure=True, retry_after_seconds=1000)
        expected = {host: gate.next_start_ms(host) for host in ("done.example", "busy.example")}
        await time.sleep(2)
        for saved in (b"".join(lines.lines), gate.save()):
            again = HostGate(settings(delay_seconds=5.0), time)
            assert again.restore(saved + b"broken\n[1]\n[]\n{}\nnull\n" + saved[:20]) == 3
            for host, next_ms in expected.items():
                assert again.next_start_ms(host) == next_ms
            # The open request may have reached its host just before the process ended.
            assert again.next_start_ms("open.example") == time.at_ms + 5_000

    run(main())


def test_lines_that_make_no_sense_do_no_harm() -> None:
    gate = HostGate(settings(), ManualTime())
    lines = [
        ["a.example", 1e300, 0, 0, 0, 0],
        ["b.example", -5, -5, -5, -5, -5],
        ["c.example", "x", 0, 0, 0, 0],
        ["d.example", None, 0, 0, 0, 0],
    ]
    text = "\n".join(json.dumps(line) for line in lines)
    assert gate.restore(text.encode() + b'\n["e.example",NaN,0,0,0,0]\n\xff\xfe') == 2
    week_ms = 8 * 86_400_000
    assert gate.next_start_ms("a.example") <= ManualTime().now_ms() + week_ms
    assert gate.next_start_ms("b.example") <= ManualTime().now_ms()


def test_the_number_of_hosts_is_limited() -> None:
    async def main() -> None:
        time = ManualTime()
        gate = HostGate(settings(hosts_max=100, slowness_factor=0.0), time)
        for i in range(100):
            await gate.enter(f"{i}.example")
            gate.leave(f"{i}.example")
        # All have a delay that has not passed, so another host has to wait.
        assert await gate.enter("new.example") > 0
        await time.sleep(2)
        assert await gate.enter("new.example") == 0
        assert len(gate) == 1

    run(main())
