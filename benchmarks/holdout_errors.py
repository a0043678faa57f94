"""Check how often hold-outs find a difference where there is one, and where there is none.

Hosts of very unequal size have freshness of their own.  Audits come daily, in proportion to the
pages of a host, and the difference is looked at every day.  Without a difference at most one in
twenty experiments may find one at any look; a difference as large as the plan says it can find must
be found in four of five.

Audits are drawn here, so that many experiments take seconds; `benchmarks.holdout_arms` checks that
the audits of a real corpus are such a sample.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from recrawl.corpus.holdout.confidence import (
    arm_estimate,
    detectable_difference,
    difference_of,
    effective_number,
)
from recrawl.node.config.holdout_section import HoldoutConfig, keeps_old_rule

# Spread of the logarithm of the sizes of hosts.
_SIZE_SPREAD = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """One kind of experiment."""

    name: str
    n_hosts: int
    share: float
    audits_per_day: int
    n_days: int
    freshness: float
    host_spread: float
    """Standard deviation of the freshness of hosts."""


DESIGNS = (
    Design(
        name="1,000 hosts, 10 % held out",
        n_hosts=1_000,
        share=0.1,
        audits_per_day=100,
        n_days=56,
        freshness=0.8,
        host_spread=0.1,
    ),
    Design(
        name="300 hosts, 30 % held out",
        n_hosts=300,
        share=0.3,
        audits_per_day=50,
        n_days=28,
        freshness=0.7,
        host_spread=0.15,
    ),
    Design(
        name="2,000 hosts, 5 % held out",
        n_hosts=2_000,
        share=0.05,
        audits_per_day=500,
        n_days=28,
        freshness=0.9,
        host_spread=0.05,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldoutErrors:
    """Results of many experiments of one design."""

    design: str
    n_experiments: int
    n_refused: int
    """Experiments with too few hosts in an arm, by chance, for which the plan promises nothing;
    shares are of the others."""
    false_alarm_share: float
    """Share of experiments without a difference that found one at any look."""
    detectable_points: float
    """Mean of the smallest difference that the plans say they can find, in percentage points."""
    found_share: float
    """Share of experiments with that difference that found it."""
    covered_share: float
    """Share of experiments with that difference whose intervals contained it at all looks."""


def _run(design: Design, seed: int, *, is_planted: bool) -> tuple[bool, bool, float]:
    """Run one experiment: whether it found a difference, whether all intervals were right."""
    rng = np.random.default_rng(seed)
    hosts = pa.array([f"site{i}.example" for i in range(design.n_hosts)])
    config = HoldoutConfig(share=design.share, interval=86_400.0, name=f"experiment {seed}")
    held = keeps_old_rule(hosts, config)
    size = np.exp(_SIZE_SPREAD * rng.standard_normal(design.n_hosts))
    weight = size / size.sum()
    n_audits = design.audits_per_day * design.n_days
    shares = [float(weight[rows].sum()) for rows in (~held, held)]
    planned = detectable_difference(
        n_hosts=(effective_number(size[~held]), effective_number(size[held])),
        n_audits=(n_audits * shares[0], n_audits * shares[1]),
        freshness=design.freshness,
        host_spread=design.host_spread,
    )
    if not np.isfinite(planned):
        return False, True, planned
    mean, spread = design.freshness, design.host_spread
    total = mean * (1 - mean) / spread**2 - 1
    fresh = rng.beta(mean * total, (1 - mean) * total, design.n_hosts)
    difference = planned if is_planted else 0.0
    # Scaled, so that the mean falls by the difference and no host falls below 0.
    fresh[held] *= 1 - difference / mean
    n_audited = np.zeros(design.n_hosts, np.int64)
    n_fresh = np.zeros(design.n_hosts, np.int64)
    has_found, is_right = False, True
    for _ in range(design.n_days):
        audits = rng.multinomial(design.audits_per_day, weight)
        n_audited += audits
        n_fresh += rng.binomial(audits, fresh)
        found = difference_of(
            arm_estimate(n_audited[~held], n_fresh[~held]),
            arm_estimate(n_audited[held], n_fresh[held]),
        )
        has_found |= found.is_found
        is_right &= not found.is_known or found.low <= difference <= found.high
    return has_found, is_right, planned


def measure(n_experiments: int) -> list[HoldoutErrors]:
    """Run many experiments of each design, with and without a difference."""
    found = []
    for design in DESIGNS:
        none = [_run(design, seed, is_planted=False) for seed in range(n_experiments)]
        some = [
            _run(design, seed, is_planted=True) for seed in range(n_experiments, 2 * n_experiments)
        ]
        n_runs = len(none) + len(some)
        none, some = ([run for run in runs if np.isfinite(run[2])] for runs in (none, some))
        found.append(
            HoldoutErrors(
                design=design.name,
                n_experiments=n_experiments,
                n_refused=n_runs - len(none) - len(some),
                false_alarm_share=float(np.mean([has_found for has_found, _, _ in none])),
                detectable_points=100 * float(np.mean([planned for _, _, planned in some])),
                found_share=float(np.mean([has_found for has_found, _, _ in some])),
                covered_share=float(np.mean([is_right for _, is_right, _ in some])),
            )
        )
    return found
