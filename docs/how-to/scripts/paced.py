"""Keep a corpus fresh around the clock: several fetches at a time, as the budget allows.

python paced.py corpus/ [seconds]
"""

import asyncio
import hashlib
import sys
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import recrawl

WORKERS = 8


def get(order: recrawl.Order) -> recrawl.Outcome:
    """Fetch one page; put the HTTP client of your choice here."""
    try:
        request = Request(order.fetch_url, headers={"User-Agent": "example-bot/1.0"})
        with urlopen(request, timeout=30) as response:
            digest = hashlib.blake2b(response.read(10_000_000)).digest()
            return recrawl.Outcome(handle=order.handle, status=response.status, digest=digest)
    except HTTPError as error:
        return recrawl.Outcome(handle=order.handle, status=error.code)
    except (OSError, HTTPException, ValueError):
        return recrawl.Outcome(handle=order.handle, status=0)


async def main(folder: str, for_seconds: float) -> None:
    """Run workers that fetch the ordered pages; each reports as soon as it is done."""
    async with recrawl.AsyncCorpus(folder) as corpus:
        orders: asyncio.Queue[recrawl.Order | None] = asyncio.Queue(maxsize=WORKERS)

        async def work() -> None:
            while (order := await orders.get()) is not None:
                await corpus.report(await asyncio.to_thread(get, order))

        workers = [asyncio.create_task(work()) for _ in range(WORKERS)]
        async for order in corpus.paced(batch_max=WORKERS, for_seconds=for_seconds):
            await orders.put(order)
        for _ in workers:
            await orders.put(None)
        await asyncio.gather(*workers)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else float("inf")))
