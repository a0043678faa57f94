"""What the shard's codes, tables and sweep cost against the exact averaged-value argmax.

Both learn from nothing on the same webs.  In full precision every page is valued at every pick.
"""

from typing import Any

import numpy as np

from lab.paired import paired
from recrawl.shard import ShardSettings
from recrawl.sim import papers_web, simulate
from recrawl.sim.policies.averaged import AveragedArgmax
from recrawl.sim.policies.shard_policy import ShardPolicy, unlimited

__all__ = ["loss", "measure"]

_HOUR = 3_600.0
_DAY = 86_400.0


def loss(
    n_pages: int, budget: float, horizon: float, n_webs: int, n_per_pick: int, picker: Any
) -> dict[str, Any]:
    """Return what the shard loses on so many webs, of the exact policy's freshness."""
    losses, freshness = [], []
    # The exact policy has the simpler of the two ways to value what polls teach.
    settings = unlimited(ShardSettings(picker=picker, learning="bonus"))
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
    """Run both pickers continuously, and nightly batches over a year.

    Parameters
    ----------
    n_webs
        Of each setting.
    scale
        Share of the usual horizons and of the largest corpus.
    """
    hour = 1_000 * _HOUR * scale
    large = round(100_000 * scale)
    return {
        "continuous": [
            loss(1_000, 10 / _HOUR, hour, n_webs, 1, "scan"),
            loss(1_000, 10 / _HOUR, hour, n_webs, 1, "sweep"),
            loss(10_000, 100 / _HOUR, hour, n_webs, 2, "sweep"),
            loss(large, 1_000 / _HOUR, 0.4 * hour, max(n_webs // 2, 1), 10, "sweep"),
        ],
        "nightly": [loss(500, n / _DAY, 365 * _DAY * scale, n_webs, n, "auto") for n in (25, 60)],
    }
