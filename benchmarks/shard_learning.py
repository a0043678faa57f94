"""Compare the shard with an oracle that knows every rate and the quality of every signal.

The shard starts cold: it knows the importance of pages and learns everything else, also the prior.
"""

from typing import Any

import numpy as np

from lab.paired import paired
from recrawl.shard import ShardSettings
from recrawl.sim import Oracle, papers_web, signals_web, simulate
from recrawl.sim.policies.shard_policy import ShardPolicy, unlimited_settings

__all__ = ["measure"]

_HOUR = 3_600.0


def _summary(ratios: list[float]) -> dict[str, float]:
    found = paired(np.array(ratios))
    return {"mean": round(found.mean, 4), "standard_error": round(found.standard_error, 4)}


def _compare_with_oracle(
    webs: list[Any], per_hour: float, horizon: float, settings: ShardSettings
) -> dict[str, Any]:
    whole, late, shard_freshness, oracle_freshness = [], [], [], []
    for web in webs:
        oracle = simulate(web, Oracle(web), per_hour / _HOUR, horizon=horizon, n_parts=4)
        account = simulate(web, ShardPolicy(settings), per_hour / _HOUR, horizon=horizon, n_parts=4)
        whole.append(account.freshness / oracle.freshness)
        late.append(account.part(3).freshness / oracle.part(3).freshness)
        shard_freshness.append(account.freshness)
        oracle_freshness.append(oracle.freshness)
    return {
        "fetches_per_hour": per_hour,
        "horizon_hours": horizon / _HOUR,
        "webs": len(webs),
        "oracle": round(float(np.mean(oracle_freshness)), 4),
        "shard": round(float(np.mean(shard_freshness)), 4),
        "ratio": _summary(whole),
        "ratio_in_last_quarter": _summary(late),
        "worst_ratio": round(min(whole), 4),
    }


def measure(
    n_webs: int = 8, hours: float = 2_000.0, settings: dict[str, Any] | None = None
) -> dict[str, list[dict[str, Any]]]:
    """Run webs without signals at 2, 5 and 20 fetches an hour, and with signals at 3.

    Parameters
    ----------
    n_webs
        Number of webs per setting; the shard and the oracle run on the same ones.
    hours
        Length of a run, from the cold start on.
    settings
        Settings of the shard that differ from the defaults.
    """
    chosen = unlimited_settings(ShardSettings(**(settings or {})))
    horizon = hours * _HOUR
    plain = [papers_web(seed, horizon=horizon) for seed in range(n_webs)]
    signalled = [signals_web(seed, horizon=horizon) for seed in range(n_webs)]
    return {
        "without_signals": [
            _compare_with_oracle(plain, rate, horizon, chosen) for rate in (2.0, 5.0, 20.0)
        ],
        "with_signals": [_compare_with_oracle(signalled, 3.0, horizon, chosen)],
    }
