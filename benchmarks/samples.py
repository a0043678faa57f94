"""Measure what a sample of a partition costs: CPU time, bytes in the log, and bytes of series."""

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import pyarrow as pa

import recrawl
from recrawl.corpus import Corpus, CorpusConfig
from recrawl.node.node import Node
from recrawl.node.sampling.buckets import RESOLUTIONS, add_sample
from recrawl.node.sampling.encoding import pack_sample, tables_of
from recrawl.node.sampling.present import PAGES_LOGGED_MAX, read_state

__all__ = ["measure"]

_N_TIMES: Final = 5
_MINUTE_MS: Final = 60_000
_PAGES_AT_ONCE: Final = 100_000


def _fill(corpus: Corpus, n_pages: int, n_hosts: int) -> None:
    """Add pages of hosts of unequal sizes, and report a copy of each."""
    rng = np.random.default_rng(1)
    share = 1.0 / np.arange(1, n_hosts + 1)
    host = rng.choice(n_hosts, n_pages, p=share / share.sum())
    urls = [f"https://host{h}.example/{i}" for i, h in enumerate(host.tolist())]
    for first in range(0, n_pages, _PAGES_AT_ONCE):
        some = pa.array(urls[first : first + _PAGES_AT_ONCE])
        corpus.add(some, importance=rng.lognormal(0.0, 1.0, len(some)))
        status = pa.array(np.full(len(some), 200, np.int16))
        changed = pa.array(np.ones(len(some), np.bool_))
        corpus.report(pa.table({"url": some, "status": status, "changed": changed}))


def _costs(node: Node, now_ms: int) -> dict[str, Any]:
    read: list[float] = []
    packed: list[float] = []
    stored: list[float] = []
    data, batch = b"", node.store.batch()
    for i in range(_N_TIMES + 1):
        at_ms = now_ms + i * _MINUTE_MS
        batch = node.store.batch()
        times = [time.thread_time()]
        with node.lock:
            state = read_state(node.shard, node.lock, at_ms, n_pages_max=PAGES_LOGGED_MAX)
        times.append(time.thread_time())
        data = pack_sample(tables_of(state))
        times.append(time.thread_time())
        add_sample(node.store, batch, at_ms, tables_of(state))
        node.store.write(batch, node.store.position)
        times.append(time.thread_time())
        if i:  # the first one compiles
            for column, seconds in zip((read, packed, stored), np.diff(times), strict=True):
                column.append(float(seconds))
    per_bucket = sum(len(value or b"") for value in batch.samples.values()) / (len(RESOLUTIONS) + 1)
    n_kept = sum(one.n_kept for one in RESOLUTIONS.values())
    each = {"read": median(read), "packed": median(packed), "stored": median(stored)}
    return {
        "cpu_ms": {name: round(1000 * seconds, 2) for name, seconds in each.items()},
        "share_of_a_minute": round(sum(each.values()) / 60, 6),
        "record_bytes": len(data),
        "log_mb_per_day": round(len(data) * 1_440 / 1e6, 1),
        "series_mb_max": round(per_bucket * n_kept / 1e6, 1),
    }


def measure(n_pages: int = 1_000_000, n_hosts: int = 20_000) -> dict[str, Any]:
    """Return the costs of a sample of a corpus with one partition.

    Parameters
    ----------
    n_pages, n_hosts
        Size of the corpus.
    """
    config = CorpusConfig.from_dict({"budget": {"rate": "1000000/day"}})
    with (
        tempfile.TemporaryDirectory() as folder,
        recrawl.open(Path(folder) / "corpus", config) as corpus,
    ):
        _fill(corpus, n_pages, n_hosts)
        (node,) = corpus.nodes.all
        return {"n_pages": n_pages, "n_hosts": n_hosts, **_costs(node, corpus.now_ms())}
