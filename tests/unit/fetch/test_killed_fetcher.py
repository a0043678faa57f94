"""A fetcher that is killed again and again contacts no host before its delay has passed."""

import asyncio
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from recrawl.testing.fetchers import http_answer, open_site

DELAY_SECONDS = 4.0
FETCHER = """
import asyncio, sys
from pathlib import Path
from recrawl.fetch import FetchRequest, FetchSettings, GateFile, HttpFetcher, SystemTime

async def main():
    settings = FetchSettings(
        contact="https://example.com/bot",
        delay_seconds=float(sys.argv[3]),
        slowness_factor=0.0,
        backoff_seconds=0.0,
        allow_networks=("127.0.0.0/8",),
        obey_robots=False,
    )
    gate = GateFile(Path(sys.argv[1])).open_gate(settings, SystemTime())
    fetcher = HttpFetcher(settings, gate=gate)
    while True:
        await fetcher.fetch(FetchRequest(url=sys.argv[2]))

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.slow_without_jit  # processes of their own, for half a minute
def test_delays_hold_across_kills(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_site({"/page": http_answer(b"page")}) as site:
            for i in range(4):
                n_before = len(site.requests)
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-c", FETCHER, str(tmp_path / "hosts")),
                    *(f"{site.url}/page", str(DELAY_SECONDS)),
                )
                while len(site.requests) < n_before + 1 + i % 2:
                    await asyncio.sleep(0.005)
                # Right after a request has arrived, sometimes before it is answered.
                process.kill()
                await process.wait()
            starts = [seen.at_seconds for seen in site.requests]
            gaps = [later - earlier for earlier, later in pairwise(starts)]
            assert len(gaps) >= 5
            assert min(gaps) >= DELAY_SECONDS - 0.02, gaps

    asyncio.run(main())
