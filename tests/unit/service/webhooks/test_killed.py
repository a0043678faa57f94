"""A sender that is killed again and again: every change arrives, those of a page in order."""

import asyncio
import os
import random
import sys
from pathlib import Path

import pytest
from aiohttp import web

from recrawl.service.webhooks import add_webhook
from tests.unit.service.webhooks.receivers import Received, open_receiver

SENDER = Path(__file__).with_name("killed_sender.py")
# More for a long run: RECRAWL_TEST_KILLS=100.
N_KILLS = int(os.environ.get("RECRAWL_TEST_KILLS", "6"))


@pytest.mark.slow
@pytest.mark.slow_without_jit  # processes of their own, with kernels
@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_every_change_arrives_at_a_receiver_that_fails_half_of_the_time(
    tmp_path: Path, seed: int
) -> None:
    dice = random.Random(seed)

    async def main() -> None:
        folder = tmp_path / "corpus"
        folder.mkdir()
        async with open_receiver() as receiver:

            async def fail_half(received: Received) -> web.StreamResponse:
                if dice.random() < 0.5:
                    return receiver.accept(received)
                if dice.random() < 0.5:
                    receiver.accept(received)  # but the sender does not hear of it
                return web.Response(status=500)

            receiver.script = fail_half
            _, receiver.secret = add_webhook(
                folder, "hook", receiver.url, now_ms=0, start="oldest", events_max=3
            )
            sender = await asyncio.create_subprocess_exec(
                *(sys.executable, SENDER, folder, str(N_KILLS), str(seed)),
                stdout=asyncio.subprocess.PIPE,
            )
            output, _ = await sender.communicate()
            assert sender.returncode == 0
        happened = output.decode().split()
        assert len(happened) > 200
        assert {*happened} == {*receiver.numbers}
        receiver.check_order()

    asyncio.run(main())
