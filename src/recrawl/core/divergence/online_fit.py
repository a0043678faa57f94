"""The most probable divergence curve of a page, from few observations and a prior."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import ArrayLike, FlagArray, FloatArray, RowArray
from recrawl.core.divergence.profile import ChangeProfiles, SmallCountArray, SmallFloatArray
from recrawl.core.kernel import kernel

__all__ = ["DivergencePrior", "OnlineFit"]

_ITERATIONS_MAX = 300
# Rates tried first, over four standard deviations of the prior on either side.
_N_SCANNED = 17


class OnlineFit(NamedTuple):
    """The most probable divergence curve of each page: 33 bytes a page."""

    ceiling: FloatArray
    """Divergence after a long time, 0 to 1."""
    rate: FloatArray
    """Divergence rate, per second."""
    log_ceiling_sd: FloatArray
    """Standard deviation of the logarithm of ``ceiling``, as far as observations tell."""
    log_rate_sd: FloatArray
    """Standard deviation of the logarithm of ``rate``."""
    is_converged: FlagArray
    """Whether the search converged."""


@kernel
def _accumulate(
    ages: SmallFloatArray,
    divergences: SmallFloatArray,
    counts: SmallCountArray,
    variances: tuple[float, float],
    prior: tuple[float, float, float, float],
    u: float,
    v: float,
    normal: FloatArray,
) -> float:
    """Write the gradient and two matrices of second derivatives; return minus twice log p."""
    # f(t) = d (1 - e^{-λt}) with u = logit d, v = log λ, x = λt, and independent Gaussian priors of
    # u and v.  A divergence D read from sketches of m hashes has variance D(1-D)/m; the floor
    # stands for what the mean curve does not say of one page's path.
    #
    #     ∂f/∂u = d (1-d) (1 - e^{-x}),      ∂f/∂v = d x e^{-x}
    #
    # normal[0:2] is the gradient of log p, normal[2:5] minus its second derivatives (uu, uv, vv)
    # as Gauss-Newton has them, always positive definite, and normal[5:8] as they are.
    per_draw, floor = variances
    mean_u, sd_u, mean_v, sd_v = prior
    ceiling = 1.0 / (1.0 + math.exp(-u))
    rate = math.exp(v)
    for k in range(normal.size):
        normal[k] = 0.0
    normal[0] = (mean_u - u) / sd_u**2
    normal[1] = (mean_v - v) / sd_v**2
    normal[2] = 1.0 / sd_u**2
    normal[4] = 1.0 / sd_v**2
    total = ((u - mean_u) / sd_u) ** 2 + ((v - mean_v) / sd_v) ** 2
    for slot in range(counts.size):
        for i in range(counts[slot]):
            seen = float(divergences[slot, i])
            x = rate * float(ages[slot, i])
            fading = math.exp(-x)
            weight = 1.0 / (floor + seen * (1.0 - seen) * per_draw)
            error = seen + ceiling * math.expm1(-x)
            by_u = -ceiling * (1.0 - ceiling) * math.expm1(-x)
            by_v = ceiling * x * fading
            total += weight * error * error
            normal[0] += weight * error * by_u
            normal[1] += weight * error * by_v
            normal[2] += weight * by_u * by_u
            normal[3] += weight * by_u * by_v
            normal[4] += weight * by_v * by_v
            normal[5] -= weight * error * by_u * (1.0 - 2.0 * ceiling)
            normal[6] -= weight * error * by_v * (1.0 - ceiling)
            normal[7] -= weight * error * by_v * (1.0 - x)
    for k in range(2, 5):
        normal[k + 3] += normal[k]
    return total


@kernel
def _step(normal: FloatArray, sd_u: float, sd_v: float, damping: float) -> tuple[float, float]:
    """Return Newton's step, or Gauss-Newton's where the former would not climb."""
    # Damped in units of the prior, so that along the valley where ceiling times rate stays the
    # same, which is curved, steps are short, and across it they are whole; one deviation at most.
    first = 5
    if not (normal[5] > 0.0 and normal[5] * normal[7] > normal[6] ** 2):
        first = 2
    a_uu = normal[first] + damping / sd_u**2
    a_uv = normal[first + 1]
    a_vv = normal[first + 2] + damping / sd_v**2
    determinant = a_uu * a_vv - a_uv * a_uv
    step_u = (a_vv * normal[0] - a_uv * normal[1]) / determinant
    step_v = (a_uu * normal[1] - a_uv * normal[0]) / determinant
    longest = max(abs(step_u) / sd_u, abs(step_v) / sd_v)
    if longest > 1.0:
        step_u /= longest
        step_v /= longest
    return step_u, step_v


@kernel
def _linear_ceiling(
    ages: SmallFloatArray,
    divergences: SmallFloatArray,
    counts: SmallCountArray,
    variances: tuple[float, float],
    rate: float,
) -> float:
    """Return the ceiling closest to the observations for this rate, strictly within 0 and 1."""
    by = 0.0
    bb = 0.0
    for slot in range(counts.size):
        for i in range(counts[slot]):
            seen = float(divergences[slot, i])
            grown = -math.expm1(-rate * float(ages[slot, i]))
            weight = 1.0 / (variances[1] + seen * (1.0 - seen) * variances[0])
            by += weight * grown * seen
            bb += weight * grown * grown
    return min(max(by / bb, 0.002), 0.998) if bb > 0.0 else 0.5


@kernel
def _start(
    ages: SmallFloatArray,
    divergences: SmallFloatArray,
    counts: SmallCountArray,
    variances: tuple[float, float],
    prior: tuple[float, float, float, float],
    normal: FloatArray,
) -> tuple[float, float]:
    """Return the best (u, v) of the prior's mean and a scan of rates; there may be two maxima."""
    best_u = u = prior[0]
    best_v = v = prior[2]
    least = math.inf
    for k in range(_N_SCANNED + 1):
        if k > 0:
            v = prior[2] + prior[3] * (8.0 * (k - 1) / (_N_SCANNED - 1) - 4.0)
            ceiling = _linear_ceiling(ages, divergences, counts, variances, math.exp(v))
            u = math.log(ceiling / (1.0 - ceiling))
        cost = _accumulate(ages, divergences, counts, variances, prior, u, v, normal)
        if cost < least:
            least = cost
            best_u = u
            best_v = v
    return best_u, best_v


@kernel
def _fit(
    ages: SmallFloatArray,
    divergences: SmallFloatArray,
    counts: SmallCountArray,
    variances: tuple[float, float],
    prior: tuple[float, float, float, float],
    normal: FloatArray,
    out: FloatArray,
) -> bool:
    """Write ceiling, rate and their standard deviations into ``out``; return convergence."""
    # The maximum of the posterior density of (u, v), by damped Newton.
    u, v = _start(ages, divergences, counts, variances, prior, normal)
    here = np.empty_like(normal)
    damping = 0.1
    cost = math.inf
    step_u = 0.0
    step_v = 0.0
    is_converged = False
    for _ in range(_ITERATIONS_MAX):
        new_cost = _accumulate(
            ages, divergences, counts, variances, prior, u + step_u, v + step_v, normal
        )
        if new_cost <= cost:
            u += step_u
            v += step_v
            cost = new_cost
            damping /= 4.0
            for k in range(normal.size):
                here[k] = normal[k]
        else:
            damping = max(4.0 * damping, 0.1)
        step_u, step_v = _step(here, prior[1], prior[3], damping)
        # What the step promises; below this the curve moves by 1e-5 of its uncertainty.
        if step_u * here[0] + step_v * here[1] < 1e-10 * (1.0 + cost):
            is_converged = True
            break
    ceiling = 1.0 / (1.0 + math.exp(-u))
    determinant = here[2] * here[4] - here[3] ** 2
    out[0] = ceiling
    out[1] = math.exp(v)
    out[2] = (1.0 - ceiling) * math.sqrt(here[4] / determinant)  # d log d / du = 1 - d
    out[3] = math.sqrt(here[2] / determinant)
    return is_converged


@kernel
def _fit_rows(
    n_observed: SmallCountArray,
    ages: SmallFloatArray,
    divergences: SmallFloatArray,
    rows: RowArray,
    change_rate: FloatArray,
    variances: tuple[float, float],
    prior: tuple[float, float, float, float],
    out: FloatArray,
    is_converged: FlagArray,
) -> None:
    normal = np.empty(8)
    for k in range(rows.size):
        row = rows[k]
        of_page = (prior[0], prior[1], prior[2] + math.log(change_rate[k]), prior[3])
        is_converged[k] = _fit(
            ages[row], divergences[row], n_observed[row], variances, of_page, normal, out[k]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergencePrior:
    """Prior of the divergence curves of pages, before a page has shown its own.

    The rate of the divergence is thought of as a multiple of the change rate: a ratio of 1 is
    churn, a small one a page edited piecemeal or a long scroll.  The defaults are those of 812
    real pages with at least 15 changes each (documentation, terms, feeds, lists, tables).

    Parameters
    ----------
    ratio_median
        Median of divergence rate / change rate.  The real pages have .07.
    log_ratio_sd
        Standard deviation of the logarithm of that ratio.  The real pages have 10th and 90th
        percentiles of .013 and .84, which is 1.63.
    ceiling_median
        Median divergence after a long time.  The real pages have .62.
    logit_ceiling_sd
        Standard deviation of log(ceiling / (1 - ceiling)).  With 2 the 10th
        and 90th percentiles are .14 and .95.
    sketch_size
        Number of hashes of each version in its sketch; None where divergences are exact.
    noise_floor
        Standard deviation of an observation beside the error of the sketch: one page's path is
        not its mean curve, and observations from one base depend on each other.  On the real
        pages .1 and .2 schedule about equally well; lower trusts few observations too much.

    Examples
    --------
    A page that changes daily was found .02 different after one day, .05 after three and .09
    after a week.  Little by little, and not as a page that is replaced:

    >>> from recrawl.core.divergence.profile import ChangeProfiles, add_observations, start_bases
    >>> day = 86_400.0
    >>> profiles = ChangeProfiles.empty(n_pages=1, n_bases=1)
    >>> _ = start_bases(profiles, 0, at=0.0)
    >>> add_observations(profiles, [0, 0, 0], [day, 3 * day, 7 * day], [[0.02], [0.05], [0.09]])
    >>> fit = DivergencePrior().fit(profiles, change_rate=1 / day)
    >>> fit.ceiling.round(2), (fit.rate * day).round(3)
    (array([0.49]), array([0.038]))

    References
    ----------
    Longevity §4.2 (curve fit; the prior is ours)
    """

    ratio_median: float = 0.07
    log_ratio_sd: float = 1.63
    ceiling_median: float = 0.62
    logit_ceiling_sd: float = 2.0
    sketch_size: int | None = 256
    noise_floor: float = 0.1

    def __post_init__(self) -> None:
        for name in ("ratio_median", "log_ratio_sd", "logit_ceiling_sd", "noise_floor"):
            value = getattr(self, name)
            if not 0.0 < value < math.inf:
                raise ValueError(f"{name} must be positive and finite, got {value!r}")
        if not 0.0 < self.ceiling_median < 1.0:
            raise ValueError(f"ceiling_median must be between 0 and 1, got {self.ceiling_median!r}")
        if self.sketch_size is not None and self.sketch_size < 1:
            raise ValueError(f"sketch_size must be at least 1, got {self.sketch_size!r}")

    def fit(
        self, profiles: ChangeProfiles, change_rate: ArrayLike, rows: ArrayLike | None = None
    ) -> OnlineFit:
        """Return the most probable curve of each page, given its profiles.

        Without observations it is the prior's: ``ratio_median * change_rate`` and
        ``ceiling_median``.

        Parameters
        ----------
        profiles
            Profiles of all pages.
        change_rate
            Changes per second of the requested pages, positive.
        rows
            Rows of the requested pages; all if not given.
        """
        if rows is None:
            row_column = np.arange(profiles.base_at.shape[0])
        else:
            row_column = np.atleast_1d(np.asarray(rows, dtype=np.int64))
        rate_column = np.array(
            np.broadcast_to(np.asarray(change_rate, dtype=np.float64), row_column.shape)
        )
        if np.any(~(rate_column > 0.0)):
            raise ValueError(f"change_rate must be positive, got {rate_column.min()!r}")
        out = np.empty((row_column.size, 4))
        is_converged = np.empty(row_column.size, np.bool_)
        _fit_rows(
            profiles.n_observed,
            profiles.ages,
            profiles.divergences,
            row_column,
            rate_column,
            (1.0 / self.sketch_size if self.sketch_size else 0.0, self.noise_floor**2),
            (
                math.log(self.ceiling_median / (1.0 - self.ceiling_median)),
                self.logit_ceiling_sd,
                math.log(self.ratio_median),
                self.log_ratio_sd,
            ),
            out,
            is_converged,
        )
        ceiling, rate, log_ceiling_sd, log_rate_sd = out.T.copy()
        return OnlineFit(ceiling, rate, log_ceiling_sd, log_rate_sd, is_converged)
