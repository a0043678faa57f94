"""Gates of several workers keep the delays of hosts together, whatever fails between them."""

import asyncio
import itertools
from collections.abc import Coroutine
from typing import Any

import pytest

from recrawl.errors import ServiceUnavailable
from recrawl.fetch import FetchSettings, SystemTime
from recrawl.messages.turns import TurnEnd, TurnsAnswer
from recrawl.run.shared import SharedGate
from recrawl.service.hosting.host_turns import HostTurns
from recrawl.service.limits import ServiceLimits

DELAY = 0.1


class Service:
    """The turns of a service, which can be away, and can lose answers."""

    def __init__(self, turn_seconds: float = 30.0) -> None:
        limits = ServiceLimits(turn_seconds_max=turn_seconds)
        self.turns = HostTurns(delay_seconds=DELAY, n_at_once_max=1, limits=limits)
        self.is_away = False
        self.n_answers_lost = 0

    async def take_turns(
        self,
        *,
        begin: dict[str, str] | None = None,
        renew: dict[str, str] | None = None,
        end: tuple[TurnEnd, ...] = (),
    ) -> TurnsAnswer:
        await asyncio.sleep(0)
        if self.is_away:
            raise ServiceUnavailable("away")
        for one in end:
            self.turns.end(one)
        renewed = {turn: self.turns.renew(turn, host) for turn, host in (renew or {}).items()}
        begun = {turn: self.turns.begin(turn, host) for turn, host in (begin or {}).items()}
        if self.n_answers_lost:
            self.n_answers_lost -= 1
            raise ServiceUnavailable("the answer was lost")
        return TurnsAnswer(
            begun, {turn: seconds for turn, seconds in renewed.items() if seconds is not None}
        )


def settings(**changes: Any) -> FetchSettings:
    return FetchSettings(
        contact="https://example.com/bot", delay_seconds=DELAY, slowness_factor=0.0, **changes
    )


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def make_gate(service: Service, **changes: Any) -> SharedGate:
    return SharedGate(settings(**changes), SystemTime(), service)


def test_requests_of_two_workers_follow_each_other_with_the_delay() -> None:
    async def main() -> None:
        service = Service()
        service.n_answers_lost = 2
        gates = [make_gate(service), make_gate(service)]
        spans: list[tuple[float, float]] = []
        loop = asyncio.get_running_loop()

        async def fetch(gate: SharedGate) -> None:
            assert await gate.enter("x.example") == 0
            began = loop.time()
            await asyncio.sleep(0.02)
            spans.append((began, loop.time()))
            gate.leave("x.example", seconds=0.02)

        await asyncio.gather(*(fetch(gates[i % 2]) for i in range(6)))
        for gate in gates:
            await gate.close()
        for before, after in itertools.pairwise(spans):
            assert after[0] >= before[1] + DELAY - 0.01
        assert len(service.turns) == 0

    run(main())


def test_what_one_worker_learns_holds_for_the_other() -> None:
    async def main() -> None:
        service = Service()
        first, second = make_gate(service), make_gate(service)
        assert await first.enter("x.example") == 0
        first.leave("x.example", is_failure=True, retry_after_seconds=500.0)
        assert await first.enter("y.example") == 0
        first.leave("y.example")
        first.set_crawl_delay("y.example", 300.0)
        await first.close()
        assert await second.enter("x.example") > 490
        assert await second.enter("y.example") > 290
        assert await second.enter("z.example") == 0
        second.leave("z.example")
        await second.close()

    run(main())


def test_a_request_is_cancelled_before_a_turn_ends_that_cannot_be_renewed() -> None:
    async def main() -> None:
        service = Service(turn_seconds=2.5)
        gate, other = make_gate(service), make_gate(service)

        async def fetch() -> None:
            assert await gate.enter("x.example") == 0
            try:
                await asyncio.sleep(60)
            finally:
                gate.leave("x.example")

        fetching = asyncio.create_task(fetch())
        await asyncio.sleep(1.0)
        assert not fetching.done(), "it was renewed"
        service.is_away = True
        with pytest.raises(asyncio.CancelledError):
            await fetching
        assert len(service.turns) == 1
        service.is_away = False
        assert await other.enter("x.example") == 0
        other.leave("x.example")
        await gate.close()
        await other.close()

    run(main())


def test_a_turn_that_nobody_waits_for_is_ended() -> None:
    async def main() -> None:
        service = Service()
        gate = make_gate(service)
        service.n_answers_lost = 1
        entering = asyncio.create_task(gate.enter("x.example"))
        while not len(service.turns):
            await asyncio.sleep(0)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        await gate.close()
        assert len(service.turns) == 0

    run(main())


def test_a_long_wait_is_not_waited_for() -> None:
    async def main() -> None:
        service = Service()
        service.turns.begin("other", "x.example")
        gate = make_gate(service, wait_seconds_max=0.3)
        assert await gate.enter("x.example") >= 1.0
        service.turns.end(TurnEnd("other", "x.example", 100.0))
        await asyncio.sleep(DELAY)
        assert await gate.enter("x.example") > 0.3
        await gate.close()

    run(main())
