"""Run a corpus through a varied scenario, and print its orders and digests of its state.

`test_kernel_mode` runs this as a program, once with compiled and once with interpreted kernels.
"""

import hashlib
import itertools
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np

import recrawl
from recrawl.corpus import CorpusConfig, Outcome
from tests.manual_clock import ManualClock

N_PAGES = 240
N_ROUNDS = 24
START_MS = 1_750_000_000_000


def outcome_of(handle: int, page: int, number: int) -> Outcome:
    """Return an outcome that depends on the page and on the round."""
    what = (page * 7 + number) % 17
    if what == 0:
        return Outcome(handle=handle, status=503, retry_after_seconds=30.0)
    if what == 1:
        return Outcome(handle=handle, status=404)
    if what == 2:
        return Outcome(handle=handle, status=304)
    digest = b"%d" % (number // (1 + page % 5))
    return Outcome(handle=handle, status=200, digest=digest)


def scenario_lines(picker: str, folder: Path) -> Iterator[str]:
    """Yield a line for each batch of orders, then lines with the statistics and the state."""
    config = CorpusConfig.from_dict(
        {
            "picker": {"kind": picker},
            "budget": {"rate": "30/s"},
            "politeness": {"delay": "1s", "in_flight_max": 3},
        }
    )
    clock = ManualClock(START_MS)
    urls = [f"https://h{i % 12}.example.com/{'ab'[i % 2]}/{i}?q={i:x}" for i in range(N_PAGES)]
    importance = np.exp2(np.arange(N_PAGES) % 9 - 4.0)
    with recrawl.open(folder, config, clock=clock) as corpus:
        corpus.add(urls[: N_PAGES // 2], importance=importance[: N_PAGES // 2])
        for number in range(N_ROUNDS):
            if number == 3:
                corpus.add(urls, importance=importance)
            orders = corpus.lease(25)
            yield f"orders {number}: {[order.url for order in orders]}"
            clock.pass_seconds(2.0)
            kept = itertools.islice(orders, 0, len(orders) - number % 3)
            corpus.report([outcome_of(o.handle, int(o.handle), number) for o in kept])
            corpus.signal(urls[number : number + 40 : 3], source="sitemap")
            corpus.requests(urls[number::11], n_requests=1.0 + number, at_ms=clock.wall_ms())
            clock.pass_seconds(3_600.0 * (1 + number))
            corpus.requests(urls[::50], n_requests=0.3, at_ms=clock.wall_ms() - 9_999_999)
        corpus.remove(urls[5:9])
        corpus.set(urls[20:30], importance=5.5, max_age=9_000.0)
        stats = corpus.stats()
        yield f"stats {stats.freshness_modelled!r} {stats.price!r} {stats.n_changed}"
        yield f"explain {corpus.explain(urls[33])!r}"
        for column in sorted_columns(corpus):
            yield " ".join(column)


def sorted_columns(corpus: recrawl.Corpus) -> list[tuple[str, str, str]]:
    """Return name, type and digest of every column of the state."""
    found = []
    for table_name, table in corpus.nodes[0].shard.tables._asdict().items():
        for name, column in table._asdict().items():
            digest = hashlib.sha256(np.ascontiguousarray(column).tobytes()).hexdigest()[:16]
            found.append((f"{table_name}.{name}", str(column.dtype), digest))
    return sorted(found)


if __name__ == "__main__":
    with (
        tempfile.TemporaryDirectory() as parent,
        mock.patch("secrets.randbits", return_value=12345),
    ):
        sys.stdout.writelines(
            f"{line}\n" for line in scenario_lines(sys.argv[1], Path(parent) / "c")
        )
