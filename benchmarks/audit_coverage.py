"""How often the interval of audited freshness contains the truth, on many small simulated webs."""

from typing import NamedTuple, TypedDict

import numpy as np

from recrawl.corpus.inspect.stats import wilson_interval
from recrawl.shard import ShardSettings
from recrawl.sim import Failures, ShardPolicy, Web, make_web, simulate

__all__ = ["AuditedWeb", "CoverageRow", "audit_web", "measure"]

# Seconds in which the budget suffices to fetch each page once.
_ROUND_SECONDS = 7_200.0
_N_FETCHES = 960
_UNLIMITED = 65_535


class AuditedWeb(NamedTuple):
    """The audits of one web, and its true freshness in the same time."""

    n_audited: int
    n_fresh: int
    freshness: float
    """Share of time that copies equal their pages, integrated exactly."""
    modelled: float
    """Mean modelled freshness of the audited copies, just before they were fetched."""
    has_delays: bool
    """Whether some hosts are so slow that they are always busy."""
    has_failures: bool


class CoverageRow(TypedDict):
    """Some webs, and the share of them whose interval contains the true freshness."""

    webs: str
    n_webs: int
    coverage: float
    coverage_low: float
    coverage_high: float
    mean_error: float
    """Mean of audited less true freshness."""
    mean_width: float
    audits_median: float
    freshness_low: float
    freshness_high: float


def audit_web(seed: int) -> AuditedWeb:
    """Simulate one web, fetched by a shard that audits, and return its audits and the truth.

    Webs differ in everything that could make audits miss it: rates of pages and hosts, importance,
    budget, share of audits, fetches per decision, time from the order to the fetch; half of them
    have hosts with delays, half have pages and hosts that fail at times.
    """
    rng = np.random.default_rng([21, seed])
    n_pages, n_hosts = int(rng.integers(600, 1_500)), int(rng.integers(12, 40))
    budget = n_pages / _ROUND_SECONDS
    horizon = _N_FETCHES / budget
    has_delays, has_failures = bool(seed & 1), bool(seed & 2)
    group = rng.integers(0, n_hosts, n_pages)
    mean_rate = 2.0 ** rng.uniform(-3.0, 1.0) / _ROUND_SECONDS
    speed = np.exp(rng.normal(0.0, 1.0, n_hosts))[group] * np.exp(rng.normal(0.0, 1.0, n_pages))
    web = make_web(
        seed,
        horizon,
        mean_rate * speed,
        importance=np.exp(rng.normal(0.0, rng.uniform(0.0, 1.5), n_pages)),
        group=group,
        kind=group % 3,
        page_failures=_failures(rng, has_failures, 0.05),
        group_failures=_failures(rng, has_failures, 0.02),
    )
    delay = np.zeros(n_hosts)
    if has_delays:
        is_slow = rng.random(n_hosts) < 0.4
        # A host that is asked as often as its share of pages is busy if the factor is above 1.
        mean_wait = _ROUND_SECONDS / np.maximum(np.bincount(group, minlength=n_hosts), 1)
        delay = np.where(is_slow, rng.uniform(0.5, 3.0, n_hosts) * mean_wait, 0.001)
    return _run(web, rng, budget, delay, has_delays, has_failures)


def _failures(rng: np.random.Generator, has_failures: bool, share_max: float) -> Failures | None:
    share = float(rng.uniform(0.0, share_max))
    return Failures(share=share, seconds=0.05 * _ROUND_SECONDS) if has_failures else None


def _run(
    web: Web,
    rng: np.random.Generator,
    budget: float,
    delay: "np.ndarray[tuple[int], np.dtype[np.float64]]",
    has_delays: bool,
    has_failures: bool,
) -> AuditedWeb:
    settings = ShardSettings(
        picker="scan" if rng.random() < 0.5 else "sweep",
        group_delay=0.0,
        group_in_flight_max=_UNLIMITED,
        audit_share=float(rng.uniform(0.1, 0.3)),
        prior_period=_ROUND_SECONDS,
    )
    policy = ShardPolicy(settings, budget=budget, group_delay=delay if has_delays else None)
    n_per_pick = int(rng.choice([8, 16]))
    latency = float(rng.choice([0.0, rng.uniform(0.0, 0.5) / budget]))
    account = simulate(web, policy, budget, n_per_pick=n_per_pick, latency_seconds=latency)
    registers = policy.shard.tables.registers
    n_audited = int(registers.n_audited[0])
    return AuditedWeb(
        n_audited,
        int(registers.n_audited_fresh[0]),
        account.unweighted_freshness,
        float(registers.audited_modelled[0]) / max(n_audited, 1),
        has_delays,
        has_failures,
    )


def _row(name: str, webs: list[AuditedWeb]) -> CoverageRow:
    intervals = [wilson_interval(web.n_fresh, web.n_audited) for web in webs]
    n_covered = sum(
        low <= web.freshness <= high for web, (low, high) in zip(webs, intervals, strict=True)
    )
    low, high = wilson_interval(n_covered, len(webs))
    truth = np.array([web.freshness for web in webs])
    found = np.array([web.n_fresh / max(web.n_audited, 1) for web in webs])
    return {
        "webs": name,
        "n_webs": len(webs),
        "coverage": round(n_covered / max(len(webs), 1), 4),
        "coverage_low": round(low, 4),
        "coverage_high": round(high, 4),
        "mean_error": round(float((found - truth).mean()), 4),
        "mean_width": round(float(np.mean([high - low for low, high in intervals])), 4),
        "audits_median": float(np.median([web.n_audited for web in webs])),
        "freshness_low": round(float(np.quantile(truth, 0.05)), 4),
        "freshness_high": round(float(np.quantile(truth, 0.95)), 4),
    }


def measure(n_webs: int = 2_000, first_seed: int = 0) -> list[CoverageRow]:
    """Return how often the 95 % interval of audited freshness contains the true freshness.

    Parameters
    ----------
    n_webs
        Number of simulated webs.
    first_seed
        Random seed of the first web; the others follow.
    """
    webs = [audit_web(first_seed + i) for i in range(n_webs)]
    parts = {
        "all": webs,
        "hosts with delays": [web for web in webs if web.has_delays],
        "failing pages and hosts": [web for web in webs if web.has_failures],
        "neither": [web for web in webs if not (web.has_delays or web.has_failures)],
    }
    return [_row(name, some) for name, some in parts.items() if some]
