"""The divergence curve that a page is scheduled by, learned from its polls alone.

What a schedule needs of a page, beside how often it changes, is how much of a copy a change makes
wrong: its mean, for value is linear in divergence.  Sizes of changes have a heavy tail.  Most are
small and a few replace the page, so that the most probable curve of a page that has shown few
changes is too low.  Here the mean is shrunk towards the mean of the corpus instead.

The curve is ``ceiling * (1 - exp(-ratio * changes))``.  A page is then worth fetching as one that
is fresh or stale, with weight × ceiling and mean period / ratio.  Scroll pages need no curve of
their own: with the same first slope and ceiling the schedule is as good.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from recrawl.core.arrays import ArrayLike, FloatArray, RowArray
from recrawl.core.belief.gamma import GammaBelief, mean_rate
from recrawl.core.divergence.online_fit import DivergencePrior, OnlineFit
from recrawl.core.kernel import kernel

__all__ = [
    "CurveLearner",
    "DivergenceTotals",
    "OnlineCurves",
    "pooled_prior",
]


class DivergenceTotals(NamedTuple):
    """Totals over the changed polls of each page: 24 bytes a page."""

    n_changed: FloatArray
    """Polls that found a change."""
    expected_changes: FloatArray
    """Sum of change rate × elapsed time over them, as believed after each."""
    divergence: FloatArray
    """Sum of their divergences, each from the version fetched before."""

    @classmethod
    def empty(cls, n_pages: int) -> Self:
        """Return the totals of pages not yet polled."""
        return cls(np.zeros(n_pages), np.zeros(n_pages), np.zeros(n_pages))


class OnlineCurves(NamedTuple):
    """Curves by which the objective *fragments* schedules pages: 16 bytes a page."""

    ceiling: FloatArray
    """Divergence after a long time, 0 to 1; multiplies the weight of the page."""
    ratio: FloatArray
    """Divergence rate / change rate; divides the mean period of the page."""


@kernel
def _add_polls(
    totals: DivergenceTotals, rows: RowArray, expected_changes: FloatArray, divergence: FloatArray
) -> None:
    for k in range(rows.size):
        if math.isnan(divergence[k]):
            continue
        row = rows[k]
        totals.n_changed[row] += 1.0
        totals.expected_changes[row] += expected_changes[k]
        totals.divergence[row] += divergence[k]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveLearner:
    """Learns how much of a page one change replaces, from all of its polls and from the corpus.

    Parameters
    ----------
    mean_divergence
        Mean over pages of the divergence that a changed poll finds, assumed until the corpus has
        shown its own.  870 real pages have .14 from one version to the next.
    n_pages
        Number of pages that weigh as much as ``mean_divergence``.
    n_changed
        Number of changed polls of a page that weigh as much as the corpus.
    ratio_max
        Largest ratio of divergence rate to change rate.  No page diverges faster than it changes:
        a ratio above 1 comes from bursts, and such a page would look hopeless to follow.

    Examples
    --------
    Two pages change daily and are polled daily.  Every change replaces a half of the first and a
    hundredth of the second, both may lose a half in the end:

    >>> day = 86_400.0
    >>> learner = CurveLearner()
    >>> totals = DivergenceTotals.empty(2)
    >>> belief = GammaBelief.of([50.0, 50.0], 50 * day)
    >>> for _ in range(40):
    ...     learner.observe(totals, [0, 1], belief, day, [True, True], [0.5, 0.01])
    >>> curves = learner.curves(totals, ceiling=0.5)
    >>> curves.ratio.round(2)
    array([0.95, 0.02])
    """

    mean_divergence: float = 0.14
    n_pages: float = 5.0
    n_changed: float = 2.0
    ratio_max: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 < self.mean_divergence < 1.0:
            raise ValueError(
                f"mean_divergence must be between 0 and 1, got {self.mean_divergence!r}"
            )
        for name in ("n_pages", "n_changed", "ratio_max"):
            value = getattr(self, name)
            if not 0.0 < value < math.inf:
                raise ValueError(f"{name} must be positive and finite, got {value!r}")

    def observe(
        self,
        totals: DivergenceTotals,
        rows: ArrayLike,
        belief: GammaBelief,
        elapsed: ArrayLike,
        changed: ArrayLike,
        divergence: ArrayLike,
    ) -> None:
        """Add polls to the totals of pages, in place.

        Parameters
        ----------
        totals
            Totals of all pages.
        rows
            Rows of the pages polled; may repeat a page.
        belief
            Belief about the change rate of each page polled, after the poll.
        elapsed
            Seconds since the previous poll.
        changed
            Whether the poll found a change.
        divergence
            Divergence of the new version from the one fetched before; nan where not compared.
        """
        row_column = np.atleast_1d(np.asarray(rows, dtype=np.int64))
        expected = np.asarray(elapsed) * mean_rate(belief)
        of_changed = np.where(np.asarray(changed, dtype=np.bool_), divergence, np.nan)
        _add_polls(
            totals,
            row_column,
            np.array(np.broadcast_to(expected, row_column.shape), dtype=np.float64),
            np.array(np.broadcast_to(of_changed, row_column.shape), dtype=np.float64),
        )

    def corpus_mean(self, totals: DivergenceTotals) -> float:
        """Return the mean over pages of the divergence that a changed poll finds."""
        seen = totals.n_changed > 0.0
        of_pages = totals.divergence[seen] / totals.n_changed[seen]
        total = of_pages.sum() + self.n_pages * self.mean_divergence
        return float(total / (of_pages.size + self.n_pages))

    def curves(
        self,
        totals: DivergenceTotals,
        ceiling: ArrayLike,
        *,
        fitted_ratio: ArrayLike = math.inf,
        corpus_mean: float | None = None,
        rows: ArrayLike | None = None,
    ) -> OnlineCurves:
        """Return the curves of pages.

        Parameters
        ----------
        totals
            Totals of all pages.
        ceiling
            Ceilings of the requested pages, from their profiles (`DivergencePrior.fit`).  Raised
            where polls found larger changes.
        fitted_ratio
            Fitted divergence rate over change rate, from the same profiles.  Where polls are so
            rare that all that can go has gone, they only say that the ratio is high, and a page
            taken to diverge as fast as it changes looks hopeless to follow.  The nearer to the
            ceiling polls find a page, the more the fit counts, where it is lower.
        corpus_mean
            Result of `corpus_mean`, which reads all pages; computed if not given.
        rows
            Rows of the requested pages; all if not given.
        """
        mean = self.corpus_mean(totals) if corpus_mean is None else corpus_mean
        wanted = slice(None) if rows is None else np.asarray(rows, dtype=np.int64)
        n_polls = totals.n_changed[wanted] + self.n_changed
        divergence = (totals.divergence[wanted] + self.n_changed * mean) / n_polls
        # Polls of one expected change each stand for the corpus.
        expected = (totals.expected_changes[wanted] + self.n_changed) / n_polls
        highest = np.maximum(ceiling, divergence)
        # After x expected changes the divergence, given that there was one, is
        #
        #     D = c (1 - e^{-ρx}) / (1 - e^{-x}),     hence ρ = -log(1 - D/c (1 - e^{-x})) / x.
        #
        ratio = -np.log1p(divergence / highest * np.expm1(-expected)) / expected
        ratio = np.minimum(ratio, self.ratio_max)
        saturation = divergence / highest
        lower = np.minimum(ratio, fitted_ratio)
        return OnlineCurves(highest, ratio ** (1.0 - saturation) * lower**saturation)


def pooled_prior(prior: DivergencePrior, fit: OnlineFit, change_rate: ArrayLike) -> DivergencePrior:
    """Return the prior that the corpus itself suggests (one step of EM).

    Repeated now and then it moves a corpus from the prior it started with to its own.

    Parameters
    ----------
    prior
        Prior that the curves were fitted with.
    fit
        Fitted curves of the pages with observations.
    change_rate
        Change rates of these pages, per second, as given to the fit.
    """
    if fit.ceiling.size == 0:
        return prior
    # Beyond this a ceiling is 0 or 1 for any schedule, and its logit anything.
    ceiling = np.clip(fit.ceiling, 1e-4, 1 - 1e-4)
    logit = np.log(ceiling / (1.0 - ceiling))
    logit_sd = fit.log_ceiling_sd / (1.0 - ceiling)
    log_ratio = np.log(fit.rate / np.asarray(change_rate, dtype=np.float64))
    # The mean of a population's posteriors and its variance: that of their means plus their own,
    # of which none is wider than the prior's.
    logit_variance = logit.var() + np.mean(np.minimum(logit_sd, prior.logit_ceiling_sd) ** 2)
    ratio_variance = log_ratio.var() + np.mean(np.minimum(fit.log_rate_sd, prior.log_ratio_sd) ** 2)
    return replace(
        prior,
        ratio_median=float(np.exp(log_ratio.mean())),
        log_ratio_sd=float(np.sqrt(ratio_variance)),
        ceiling_median=float(1.0 / (1.0 + np.exp(-logit.mean()))),
        logit_ceiling_sd=float(np.sqrt(logit_variance)),
    )
