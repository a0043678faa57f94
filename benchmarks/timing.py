"""Measure the least thread CPU time of several runs."""

import time
from collections.abc import Callable


def cpu_seconds(run: Callable[[], object], n_runs: int = 5) -> float:
    """Return the least thread CPU time that ``run`` took, after one run to warm up.

    Other processes disturb wall time, and can only make CPU time longer.
    """
    run()
    best = float("inf")
    for _ in range(n_runs):
        start = time.thread_time()
        run()
        best = min(best, time.thread_time() - start)
    return best
