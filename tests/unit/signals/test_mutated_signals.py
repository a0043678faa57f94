"""Mutated sitemaps, feeds, robots.txt files, headers and packed bodies break no parser."""

import math
import time

from benchmarks.mutated_signals import measure
from recrawl.fetch.robots import ROBOTS_BYTES_MAX, RobotsRules


def usual_seconds() -> float:
    """Return the processor time of reading an ordinary robots.txt file of the largest size."""
    rules = b"".join(b"Disallow: /shop/%d\n" % i for i in range(ROBOTS_BYTES_MAX // 20))
    start = time.thread_time()
    RobotsRules.of_body(b"User-agent: *\n" + rules, "recrawl")
    return time.thread_time() - start


def test_mutated_signals_are_parsed(seed: int) -> None:
    result = measure(20_000, seed=seed, seconds_max=math.inf)
    assert result["broken"] == []
    # Twenty such files take about two seconds, so a second on any machine is far below.
    assert result["slowest_seconds"] < 20 * usual_seconds()
    assert set(result["n_of_kind"]) == {"document", "robots", "header", "packed"}
    assert result["megabytes_grown"] < 100
