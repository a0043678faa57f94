"""Estimate what recrawl would have achieved with the fetches of a log.

A log shows only between which two fetches a page changed, so the times of changes are drawn several
times, each time from the posterior given the log (`recrawl.backtest.replay_of`).  recrawl runs on
each of these webs, and the results are combined with the rules for multiple imputation: the
interval contains the error from the choice of hosts and the error from the unknown times.

References
----------
D. B. Rubin, "Multiple imputation for nonresponse in surveys", Wiley 1987, §3.3.
J. Barnard, D. B. Rubin, "Small-sample degrees of freedom with multiple imputation", Biometrika
86(4), 1999, eq. 3.
"""

from dataclasses import dataclass

import numpy as np
import scipy  # submodules load on first use, which saves importers a second

from recrawl.backtest import Estimate, History, Point, Replay, Support, replay_of, support_of
from recrawl.backtest.policy_runs import PolicyRuns, run_ours
from recrawl.backtest.replay import logged_account
from recrawl.backtest.savings import Curves, curves_of, draws_of, fetches_for
from recrawl.core.arrays import FloatArray

__all__ = ["IMPUTATIONS", "ShadowEstimate", "combine_imputations", "estimate_shadow"]

IMPUTATIONS = 5
"""Number of times that the unknown times of changes are drawn."""
LEVEL = 0.95
"""Level of the intervals."""
# recrawl runs with these multiples of the log's fetches.
_BUDGETS = (0.3, 0.5, 0.75, 1.0, 1.35)
_SAME = _BUDGETS.index(1.0)
_N_DRAWS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowEstimate:
    """Freshness of a crawler's own fetches, and of recrawl's with the same number of fetches."""

    start_ms: int
    end_ms: int
    n_pages: int
    n_hosts: int
    n_fetches: int
    freshness: Estimate
    """Share of time for which the crawler's copies equalled their pages."""
    freshness_of_ours: Estimate
    """The same for recrawl, with as many fetches."""
    gain: Estimate
    """Difference of the two: recrawl's less the crawler's."""
    savings: Estimate
    """Share of the fetches that recrawl saves for the crawler's freshness."""

    @property
    def is_difference_found(self) -> bool:
        """Whether the interval of the gain excludes 0."""
        return self.gain.is_known and (self.gain.low > 0 or self.gain.high < 0)


def combine_imputations(values: FloatArray, variances: FloatArray, n_units: int) -> Estimate:
    """Return the mean of estimates from several imputations, with its 95 % interval.

    Parameters
    ----------
    values, variances
        Estimate from each imputation, and its variance as if the imputed data were known.
    n_units
        Number of independent units in the data, here of hosts or pages.

    Examples
    --------
    >>> found = combine_imputations(np.array([1.0, 1.0]), np.array([0.01, 0.01]), 1_000_001)
    >>> round(found.low, 3), round(found.high, 3)
    (0.804, 1.196)
    """
    if not (np.isfinite(values).all() and np.isfinite(variances).all()):
        return Estimate(value=float(np.mean(values)), low=float("nan"), high=float("nan"))
    m = values.size
    within, between = float(variances.mean()), float(values.var(ddof=1)) if m > 1 else 0.0
    # T = W + (1 + 1/m) B, Rubin eq. 3.1.5.
    total = within + (1 + 1 / m) * between
    complete = max(n_units - 1, 1)
    if total <= 0:
        return Estimate(value=float(values.mean()), low=values.min(), high=values.max())
    missing = (1 + 1 / m) * between / total
    # Degrees of freedom: 1/ν = 1/ν_m + 1/ν_obs, Barnard and Rubin eq. 3.
    observed = (complete + 1) / (complete + 3) * complete * (1 - missing)
    inverse = (missing**2 / (m - 1) if m > 1 else 0.0) + 1 / max(observed, 1e-9)
    half = scipy.special.stdtrit(1 / inverse, 0.5 + LEVEL / 2) * np.sqrt(total)
    middle = float(values.mean())
    return Estimate(value=middle, low=_round(middle - half), high=_round(middle + half))


def _round(edge: float) -> float:
    """Return an edge of an interval without digits that mean nothing."""
    return float(f"{edge:.6g}")


def estimate_shadow(
    history: History, *, n_imputations: int = IMPUTATIONS, seed: int = 0
) -> tuple[Support, ShadowEstimate | None]:
    """Estimate what recrawl would have achieved with the fetches of a history.

    Parameters
    ----------
    history
        History of fetches.
    n_imputations
        Number of times that the unknown times of changes are drawn.
    seed
        Random seed.

    Returns
    -------
    support
        Facts and cautions about the history, and reasons to refuse it.
    estimate
        The estimate; None if the history is too small.
    """
    replay = replay_of(history, seed=seed)
    support = support_of(history, replay)
    account = logged_account(history, replay)
    if not support.is_enough or account is None or account.n_fetches == 0:
        return support, None
    draws = draws_of(replay.web.group, n_draws=_N_DRAWS, seed=seed)
    rows = [_estimate_once(history, replay, draws)]
    for number in range(1, n_imputations):
        again = replay_of(history, seed=seed + 1_000_003 * number)
        rows.append(_estimate_once(history, again, draws))
    n_hosts = int(np.unique(replay.web.group).size)
    n_units = n_hosts if n_hosts >= 40 else replay.web.n_pages

    def combine(column: int) -> Estimate:
        each = np.stack([row[column] for row in rows])
        sampled = each[:, 1:]
        known = np.isfinite(sampled)
        variances = np.full(len(rows), np.nan)
        # Beyond the budgets that were run a sample is unknown, and so is the whole interval.
        if (known.mean(axis=1) >= 0.95).all():
            variances = np.nanvar(np.where(known, sampled, np.nan), axis=1, ddof=1)
        return combine_imputations(each[:, 0], variances, n_units)

    ratio = combine(3)
    return support, ShadowEstimate(
        start_ms=replay.start_ms,
        end_ms=replay.end_ms,
        n_pages=replay.web.n_pages,
        n_hosts=n_hosts,
        n_fetches=account.n_fetches,
        freshness=combine(0),
        freshness_of_ours=combine(1),
        gain=combine(2),
        savings=Estimate(
            value=float(-np.expm1(ratio.value)),
            low=float(-np.expm1(ratio.high)),
            high=float(-np.expm1(ratio.low)),
        ),
    )


def _estimate_once(
    history: History, replay: Replay, draws: np.ndarray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return results for one imputation, for each sample of hosts.

    These are the log's freshness, recrawl's with as many fetches, their difference, and the log of
    the ratio of recrawl's fetches to the log's, for the log's freshness.
    """
    web = replay.web
    account = logged_account(history, replay)
    assert account is not None
    budget = account.n_fetches / web.horizon

    def curves(runs: PolicyRuns) -> Curves:
        return curves_of(runs, importance=web.importance, seconds=web.horizon, draws=draws)

    own = curves(PolicyRuns(name="as logged", points=(Point.of(account),)))
    ours = curves(run_ours(web, [factor * budget for factor in _BUDGETS]))
    freshness, n_fetches = own.freshness[:, 0], own.n_fetches[:, 0]
    # A sample of hosts may have slightly more of the log's fetches than of recrawl's.
    rise = ours.freshness[0, _SAME + 1] - ours.freshness[0, _SAME - 1]
    step = np.log(ours.n_fetches[0, _SAME + 1] / ours.n_fetches[0, _SAME - 1])
    more = np.log(n_fetches / np.maximum(ours.n_fetches[:, _SAME], 1))
    reached = ours.freshness[:, _SAME] + max(rise / step, 0.0) * more
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.log(fetches_for(ours, freshness) / n_fetches)
    return freshness, reached, reached - freshness, ratio
