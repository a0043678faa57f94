"""In stepped time nobody waits, and nothing that is in flight is overtaken by the clock."""

import asyncio
import threading
import time
from typing import Any

import pytest

from recrawl.testing.stepped_time import START_AT_MS, SteppedTime, run_stepped

DAY = 86_400


def test_a_year_of_sleep_takes_no_time() -> None:
    async def main(stepped: SteppedTime) -> int:
        await asyncio.sleep(365 * DAY)
        return stepped.now_ms()

    assert run_stepped(main) == START_AT_MS + 365 * DAY * 1_000


def test_timers_fire_in_order_at_their_instants() -> None:
    async def main(stepped: SteppedTime) -> list[tuple[str, int]]:
        found = []

        async def note(name: str, seconds: float) -> None:
            await stepped.sleep(seconds)
            found.append((name, stepped.now_ms()))

        await asyncio.gather(note("c", 30.25), note("a", 1.0), note("b", 1.001))
        return found

    assert run_stepped(main, start_at_ms=0) == [("a", 1_000), ("b", 1_001), ("c", 30_250)]


def test_the_clock_waits_for_threads() -> None:
    async def main(stepped: SteppedTime) -> int:
        async with asyncio.timeout(1.0):
            await asyncio.to_thread(time.sleep, 0.05)
        return stepped.now_ms()

    assert run_stepped(main, start_at_ms=0) == 0


def test_a_thread_may_wait_for_stepped_time() -> None:
    async def main(stepped: SteppedTime) -> tuple[int, int]:
        clock = stepped.clock
        await asyncio.to_thread(clock.sleep, 3_600.0)
        return clock.wall_ms(), clock.running_ms()

    assert run_stepped(main, start_at_ms=0) == (3_600_000, 3_600_000)


def test_the_thread_of_the_loop_cannot_wait() -> None:
    async def main(stepped: SteppedTime) -> None:
        stepped.clock.sleep(1.0)

    with pytest.raises(RuntimeError, match=r"asyncio\.sleep"):
        run_stepped(main)


def test_the_clock_stands_still_while_it_is_held() -> None:
    async def main(stepped: SteppedTime) -> int:
        answer: asyncio.Future[None] = stepped.loop.create_future()

        def work() -> None:
            time.sleep(0.05)
            stepped.loop.call_soon_threadsafe(answer.set_result, None)

        thread = threading.Thread(target=work)
        with stepped.loop.hold():
            thread.start()
            async with asyncio.timeout(0.001):
                await answer
        thread.join()
        return stepped.now_ms()

    assert run_stepped(main, start_at_ms=0) == 0


@pytest.mark.parametrize("n_bytes", [1, 1_000, 3_000_000])
def test_no_time_passes_while_bytes_are_in_flight(n_bytes: int) -> None:
    """A time-out of a microsecond never fires, however much is sent through sockets."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline():
            writer.write(b"x" * n_bytes)
            await writer.drain()
        writer.close()

    async def main(stepped: SteppedTime) -> int:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        for _ in range(5):
            async with asyncio.timeout(1e-6):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                for _ in range(5):
                    writer.write(b"again\n")
                    await reader.readexactly(n_bytes)
                writer.close()
                await writer.wait_closed()
            await asyncio.sleep(10)
        server.close()
        await server.wait_closed()
        return stepped.now_ms()

    assert run_stepped(main, start_at_ms=0) == 50_000


def test_a_peer_that_does_not_read_does_not_stop_the_clock() -> None:
    async def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader
        await asyncio.sleep(1_000)
        writer.close()

    async def main(stepped: SteppedTime) -> Any:
        server = await asyncio.start_server(ignore, "127.0.0.1", 0, limit=100)
        port = server.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"x" * 50_000_000)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(100):
                await writer.drain()
        writer.transport.abort()
        server.close()
        await asyncio.sleep(2_000)
        await server.wait_closed()
        return stepped.now_ms()

    assert run_stepped(main, start_at_ms=0) == 2_100_000
