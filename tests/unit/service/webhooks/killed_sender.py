"""A process that reports outcomes and delivers their changes, in children that it kills.

Called with the folder of a corpus, the number of children to kill, and a random seed.  It imports
everything once and forks, because starting Python anew would take most of the time.  The last
child reports nothing, delivers what is left, and prints the sequence numbers of all changes.
"""

import asyncio
import os
import random
import signal
import sys
import time
from pathlib import Path

import recrawl
from recrawl.corpus import CorpusConfig
from recrawl.service.webhooks import (
    DeliverySettings,
    WebhookDelivery,
    WebhookLimits,
    list_letters,
)

URLS = [f"https://h{i % 5}.example/{i}" for i in range(200)]
CONFIG = CorpusConfig.from_dict({"corpus": {"partitions": 2}})
LIMITS = WebhookLimits(
    attempts_max=1_000,
    backoff_seconds=0.02,
    backoff_factor=1.5,
    backoff_seconds_max=0.1,
    down_seconds_max=0.05,
    request_seconds_max=0.5,
)
SETTINGS = DeliverySettings(
    allow_networks=("127.0.0.0/8",), reload_seconds=0.05, look_seconds=0.1, store_seconds=0.05
)


async def work(folder: Path, child: int, *, is_last: bool) -> None:
    async with recrawl.AsyncCorpus(folder, CONFIG) as corpus:
        await corpus.add(URLS)
        (folder / "ready").touch()
        async with WebhookDelivery(corpus, folder, limits=LIMITS, settings=SETTINGS) as delivery:
            for i in range(0 if is_last else 1_000_000):
                urls = random.Random(child * 1_000_000 + i).choices(URLS, k=20)
                digest = f"{child}-{i}".encode()
                await corpus.report(
                    [recrawl.Outcome(url=url, digest=digest) for url in dict.fromkeys(urls)]
                )
                delivery.wake()
                await asyncio.sleep(0.02)
            while True:
                (consumer,) = await corpus.consumers()
                if consumer.n_behind == 0 and not list_letters(folder, "hook"):
                    break
                await asyncio.sleep(0.05)
        cursor = None
        while changes := await corpus.changes(cursor):
            for change in changes:
                sys.stdout.write(f"{change.sequence}\n")
            cursor = changes[-1].cursor
        sys.stdout.flush()


def main() -> None:
    folder, n_kills, dice = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
    for i in range(n_kills + 1):
        (folder / "ready").unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            asyncio.run(work(folder, i, is_last=i == n_kills))
            os._exit(0)
        if i < n_kills:
            while not (folder / "ready").exists():
                time.sleep(0.01)
            time.sleep(dice.uniform(0.0, 1.0))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if i == n_kills and status:
            sys.exit(1)


if __name__ == "__main__":
    main()
