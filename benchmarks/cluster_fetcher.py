"""A fetcher of the cluster benchmark: lease at any worker, visit, report, and write down all of it.

``python -m benchmarks.cluster_fetcher FILE URL...`` runs until it is killed.  Each line of the file
is a JSON object: an order that was visited, or an outcome that a worker acknowledged.
"""

import json
import random
import sys
import time
from typing import Final, TextIO

from recrawl import Outcome
from recrawl.client import Client
from recrawl.corpus import RowStatus
from recrawl.errors import RecrawlError

# Enough for the budget even if each lease waits for an owner that does not answer.
_ORDERS: Final = 100
# An order is not visited that expires sooner than this.
_SLACK_MS: Final = 200
_PAUSE_SECONDS: Final = 0.05


def _fetch(client: Client, file: TextIO, chance: random.Random) -> int:
    orders = client.lease(_ORDERS)
    outcomes = []
    for order in orders:
        now_ms = time.time_ns() // 1_000_000
        if now_ms > order.expires_at_ms - _SLACK_MS:
            continue  # another fetcher may visit the host already
        line = {"visit": order.handle, "url": order.url, "at_ms": now_ms}
        file.write(json.dumps(line) + "\n")
        outcomes.append(Outcome(handle=order.handle, digest=chance.randbytes(16)))
    file.flush()
    if outcomes:
        reported = client.report(outcomes)
        done = [
            outcome.handle
            for outcome, status in zip(outcomes, reported.rows, strict=True)
            if status == RowStatus.DONE
        ]
        file.write(json.dumps({"acknowledged": done}) + "\n")
        file.flush()
    return len(orders)


def main() -> None:
    """Fetch until the process is killed."""
    path, *urls = sys.argv[1:]
    chance = random.Random(path)
    clients = [Client(url, retry_seconds=1.0) for url in urls]
    with open(path, "a", encoding="utf-8") as file:
        while True:
            try:
                n = _fetch(chance.choice(clients), file, chance)
            except RecrawlError as error:
                file.write(json.dumps({"error": str(error)[:200]}) + "\n")
                n = 0
            if n < _ORDERS:
                time.sleep(_PAUSE_SECONDS)


if __name__ == "__main__":
    main()
