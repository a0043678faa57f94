"""Run real workers under simulated faults, each run from a random seed, and check every property.

Time, messages, logs and faults are simulated, in one thread; `tests.simulation.cluster` says what
happens and what must hold.  If a property does not hold, the result has the seed of that run, which
replays it: ``python -m benchmarks cluster-simulation --steps 1 --seed SEED``.
"""

import sys
from dataclasses import fields
from typing import Any

from tests.simulation.cluster.run import ClusterReport, run_clusters

__all__ = ["measure"]


def measure(n_steps: int, *, seed: int = 0) -> dict[str, Any]:
    """Simulate clusters of consecutive seeds; return what was checked.

    Parameters
    ----------
    n_steps
        Smallest number of steps of all runs together.
    seed
        First seed.
    """
    n_done = 0

    def show(one_seed: int, report: ClusterReport) -> None:
        nonlocal n_done
        n_done += report.n_steps
        print(f"seed {one_seed}: {n_done:,} steps", file=sys.stderr)

    report = run_clusters(n_steps, seed, show)
    # Not `asdict`, which cannot copy a counter.
    found = {one.name: getattr(report, one.name) for one in fields(report)}
    ownerless_ms = sorted(found.pop("ownerless_ms"))
    return {
        **found,
        "n_takeovers": len(ownerless_ms),
        "takeover_ms_median": ownerless_ms[len(ownerless_ms) // 2] if ownerless_ms else None,
        "takeover_ms_max": ownerless_ms[-1] if ownerless_ms else None,
    }
