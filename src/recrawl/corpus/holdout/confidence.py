r"""Intervals for the difference of two arms that stay valid however often one looks.

Hosts are assigned to arms, not pages, so hosts are the units: the variance of an arm's freshness
comes from the spread between hosts.  With $a_h$ audits of host $h$, of which $f_h$ found a fresh
copy, the freshness of an arm is the ratio $F = \sum f_h / \sum a_h$, and its variance is that of
a ratio of sums over hosts, $n/(n-1) \sum (f_h - F a_h)^2 / (\sum a_h)^2$ (Cochran, "Sampling
techniques", 3rd ed., Wiley 1977, eq. 2.39 and §6.3).

With variance $V$ of the difference $D$, the process $D/V$ behaves like a Brownian motion at time
$1/V$ as evidence accumulates (Jennison and Turnbull, "Group-sequential analysis incorporating
covariate information", JASA 92(440), 1997).  A normal mixture bounds it at all times together:

$$|D - \Delta| \le V \sqrt{(1/V + r) \log\frac{1/V + r}{r \alpha^2}}$$

with probability $1 - \alpha$ (Howard, Ramdas, McAuliffe and Sekhon, "Time-uniform, nonparametric,
nonasymptotic confidence sequences", Annals of Statistics 49(2), 2021, eq. 14; asymptotically for
estimated variances: Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, "Time-uniform central limit
theory and asymptotic confidence sequences", Annals of Statistics 52(6), 2024, Theorem 2.2).
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy  # submodules load on first use, which saves importers a second

from recrawl.core.arrays import CountArray, FloatArray

__all__ = [
    "HOSTS_MIN",
    "LEVEL",
    "ArmEstimate",
    "Difference",
    "arm_estimate",
    "detectable_difference",
    "difference_of",
    "effective_number",
    "half_width",
]

LEVEL = 0.95
"""Probability that the interval contains the true difference at all looks together."""
POWER = 0.8
"""Probability with which the smallest detectable difference is found."""
HOSTS_MIN = 20.0
"""Least effective number of audited hosts in each arm; with fewer, no interval is given."""
# The sequence is narrowest when the standard error of the difference is this; a tenth or ten times
# of it costs little.  It must not depend on the data.
_ERROR_TUNED = 0.02
# Steps after which the smallest detectable difference no longer changes.
_STEPS = 30
# As if so many audits had been made besides, half of them of a fresh copy (Agresti and Coull 1998).
_AUDITS_ADDED = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmEstimate:
    """Audited freshness of one arm."""

    freshness: float
    """Share of audited copies that were fresh; nan without audits."""
    variance: float
    n_hosts: int
    """Number of hosts with audits."""
    n_effective: float
    """Number of hosts of equal size that would give the same precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A difference of freshness, with its interval; nan where it is unknown."""

    value: float
    low: float
    high: float

    @property
    def is_known(self) -> bool:
        """Whether the difference and its interval are known."""
        return bool(np.isfinite([self.value, self.low, self.high]).all())

    @property
    def is_found(self) -> bool:
        """Whether the interval excludes 0."""
        return self.is_known and (self.low > 0 or self.high < 0)


def effective_number(weight: FloatArray | CountArray) -> float:
    """Return the number of units of equal weight that give the precision of these.

    Examples
    --------
    >>> round(effective_number(np.array([1.0, 1.0, 1.0])), 2)
    3.0
    >>> round(effective_number(np.array([100.0, 1.0])), 2)
    1.02
    """
    each = np.asarray(weight, np.float64)
    squares = float((each**2).sum())
    return float(each.sum()) ** 2 / squares if squares > 0 else 0.0


def arm_estimate(n_audited: CountArray, n_fresh: CountArray) -> ArmEstimate:
    """Return the audited freshness of an arm, from the counts of its hosts.

    Parameters
    ----------
    n_audited, n_fresh
        Audits of each host, and how many of them found a fresh copy.
    """
    audits = np.asarray(n_audited, np.float64)
    fresh = np.asarray(n_fresh, np.float64)
    audits, fresh = audits[audits > 0], fresh[audits > 0]
    total = float(audits.sum())
    if total == 0:
        nothing = float("nan")
        return ArmEstimate(freshness=nothing, variance=nothing, n_hosts=0, n_effective=0.0)
    share = float(fresh.sum()) / total
    n = audits.size
    spread = float(((fresh - share * audits) ** 2).sum()) / total**2 * n / max(n - 1, 1)
    # Few audits may all find fresh copies; the variance is then not 0, but unknown.
    smoothed = (float(fresh.sum()) + _AUDITS_ADDED / 2) / (total + _AUDITS_ADDED)
    least = smoothed * (1 - smoothed) / total
    return ArmEstimate(
        freshness=share,
        variance=max(spread, least),
        n_hosts=n,
        n_effective=effective_number(audits),
    )


def half_width(variance: float, degrees_of_freedom: float = math.inf) -> float:
    """Return the half width of the interval of a difference with a variance.

    Parameters
    ----------
    variance
        Variance of the difference.
    degrees_of_freedom
        Degrees of freedom with which it is estimated; few widen the interval as Student's t does.
    """
    alpha = 1 - LEVEL
    if degrees_of_freedom < math.inf:
        normal = scipy.special.ndtri(1 - alpha / 2)
        student = scipy.special.stdtrit(max(degrees_of_freedom, 1.0), 1 - alpha / 2)
        variance = variance * float(student / normal) ** 2
    information = 1 / variance
    r = _mixture(alpha)
    return variance * math.sqrt((information + r) * math.log((information + r) / (r * alpha**2)))


def _mixture(alpha: float) -> float:
    """Return the parameter of the mixture that is tightest at the tuned error.

    Howard et al. 2021, eq. 18 with the branch -1 of Lambert's function.
    """
    w = float(scipy.special.lambertw(-(alpha**2) / math.e, -1).real)
    return (1 / _ERROR_TUNED**2) / (-w - 1)


def difference_of(ours: ArmEstimate, held_out: ArmEstimate) -> Difference:
    """Return recrawl's freshness less that of the old rule, with an interval for all looks."""
    value = ours.freshness - held_out.freshness
    few = min(ours.n_effective, held_out.n_effective)
    if not few >= HOSTS_MIN:
        return Difference(value=value, low=float("nan"), high=float("nan"))
    variance = ours.variance + held_out.variance
    # Satterthwaite's degrees of freedom.
    inverse = sum(
        (arm.variance / variance) ** 2 / (arm.n_effective - 1) for arm in (ours, held_out)
    )
    half = half_width(variance, 1 / inverse)
    return Difference(value=value, low=max(value - half, -1.0), high=min(value + half, 1.0))


def detectable_difference(
    *,
    n_hosts: tuple[float, float],
    n_audits: tuple[float, float],
    freshness: float,
    host_spread: float,
) -> float:
    """Return the smallest difference that an experiment finds with a probability of 80 %.

    Parameters
    ----------
    n_hosts
        Effective number of hosts in each arm.
    n_audits
        Audits in each arm until the end.
    freshness
        Freshness that is expected, of about both arms.
    host_spread
        Standard deviation of the freshness of hosts, beyond the chance of few audits.

    Returns
    -------
    difference
        The difference of freshness; inf if there are too few hosts.

    Examples
    --------
    >>> round(detectable_difference(
    ...     n_hosts=(900.0, 100.0), n_audits=(9_000.0, 1_000.0), freshness=0.8, host_spread=0.1), 3)
    0.071
    """
    if min(n_hosts) < HOSTS_MIN or min(n_audits) <= 0:
        return math.inf
    found = 0.0
    # The less fresh arm has another variance, which depends on the difference itself.
    for _ in range(_STEPS):
        lower = max(freshness - found, 0.0)
        least, most = sorted((lower, freshness))
        # Of all shares in between, the one nearest to a half has the largest variance.
        worst = min(max(0.5, least), most)
        found = _detectable_with((freshness, worst), n_hosts, n_audits, host_spread)
    return found if found <= 1.0 else math.inf


def _detectable_with(
    freshness: tuple[float, float],
    n_hosts: tuple[float, float],
    n_audits: tuple[float, float],
    host_spread: float,
) -> float:
    variances = [
        share * (1 - share) / audits + host_spread**2 / hosts
        for share, audits, hosts in zip(freshness, n_audits, n_hosts, strict=True)
    ]
    variance = sum(variances)
    inverse = sum(
        (own / variance) ** 2 / (hosts - 1) for own, hosts in zip(variances, n_hosts, strict=True)
    )
    # Student's t here, too: the width of the interval varies as its estimated variance does.
    reserve = float(scipy.special.stdtrit(1 / inverse, POWER)) * math.sqrt(variance)
    return half_width(variance, 1 / inverse) + reserve
