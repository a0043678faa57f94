"""Measure the freshness that the shard loses to a policy without any approximation.

The shard stores codes, looks values up in tables and sweeps over the pages; the exact policy values
every page at every pick in full precision.  Both start without knowledge, on the same webs.
"""

from typing import Any

import numpy as np

from lab.paired import paired
from recrawl.shard import ShardSettings
from recrawl.sim import papers_web, simulate
from recrawl.sim.policies.averaged import AveragedArgmax
from recrawl.sim.policies.shard_policy import ShardPolicy, unlimited_settings

__all__ = ["measure", "measure_loss"]

_HOUR = 3_600.0
_DAY = 86_400.0


def measure_loss(
    n_pages: int, budget: float, horizon: float, n_webs: int, n_per_pick: int, picker: Any
) -> dict[str, Any]:
    """Return the share of the exact policy's freshness that the shard loses."""
    losses, freshness = [], []
    # The exact policy only has the simpler of the two ways to value what polls teach.
    settings = unlimited_settings(ShardSettings(picker=picker, learning="bonus"))
    for seed in range(n_webs):
        web = papers_web(seed, horizon=horizon, n_pages=n_pages)
        options: dict[str, Any] = {
            "n_per_pick": n_per_pick,
            "burn_in_seconds": 0.25 * horizon,
        }
        exact = simulate(web, AveragedArgmax(settings.learning_bonus), budget, **options)
        shard = simulate(web, ShardPolicy(settings, budget=budget), budget, **options)
        losses.append(1 - shard.freshness / exact.freshness)
        freshness.append(exact.freshness)
    found = paired(np.array(losses))
    return {
        "pages": n_pages,
        "picker": picker,
        "fetches_per_hour": budget * _HOUR,
        "fetches_per_pick": n_per_pick,
        "hours": horizon / _HOUR,
        "webs": n_webs,
        "exact_freshness": round(float(np.mean(freshness)), 4),
        "loss": round(found.mean, 5),
        "standard_error": round(found.standard_error, 5),
    }


def measure(n_webs: int = 4, scale: float = 1.0) -> dict[str, object]:
    """Measure both pickers with continuous fetches, and nightly batches over a year.

    Parameters
    ----------
    n_webs
        Number of webs per setting.
    scale
        Factor for the length of the runs and the size of the largest corpus.
    """
    hour = 1_000 * _HOUR * scale
    large = round(100_000 * scale)
    return {
        "continuous": [
            measure_loss(1_000, 10 / _HOUR, hour, n_webs, 1, "scan"),
            measure_loss(1_000, 10 / _HOUR, hour, n_webs, 1, "sweep"),
            measure_loss(10_000, 100 / _HOUR, hour, n_webs, 2, "sweep"),
            measure_loss(large, 1_000 / _HOUR, 0.4 * hour, max(n_webs // 2, 1), 10, "sweep"),
        ],
        "nightly": [
            measure_loss(500, n / _DAY, 365 * _DAY * scale, n_webs, n, "auto") for n in (25, 60)
        ],
    }
