"""Learn the divergence curves of pages while they are polled, without a second look at old polls.

Every fetched version is compared with the version before it and with a few older ones, the bases of
the page.  `CurveEvidence` is all that is kept of these comparisons, `CurvePopulation` what the
pages of a corpus have in common, and `PageCurveLearner` turns both into the curve of each page.
"""

import math
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from recrawl.core.arrays import ArrayLike, FlagArray, FloatArray
from recrawl.core.belief.gamma import GammaBelief
from recrawl.core.divergence.online_curves import (
    CurveLearner,
    DivergenceTotals,
    OnlineCurves,
    pooled_prior,
)
from recrawl.core.divergence.online_fit import DivergencePrior
from recrawl.core.divergence.profile import (
    ChangeProfiles,
    SmallCountArray,
    StartedBases,
    add_observations,
    start_bases,
)

__all__ = [
    "ComparedPolls",
    "CurveEvidence",
    "CurvePopulation",
    "PageCurveLearner",
    "is_pooling_due",
]

# The population is learned again whenever the number of polls has grown by this factor.
_POLLS_MIN = 50
_POLLS_GROWTH = 1.25


def is_pooling_due(n_polls: int, n_pooled: int) -> bool:
    """Return whether there are enough polls, or enough new ones, to learn the population again.

    Parameters
    ----------
    n_polls
        Number of polls so far.
    n_pooled
        Number of polls when the population was last learned; 0 for never.
    """
    return n_polls >= max(_POLLS_MIN, _POLLS_GROWTH * n_pooled)


class CurveEvidence(NamedTuple):
    """What the polls of each page have shown about its divergence curve, one row per page.

    550 bytes a page with 5 bases.  The version at each base is kept beside it, by slot.
    """

    totals: DivergenceTotals
    profiles: ChangeProfiles
    n_since_base: SmallCountArray
    """Number of polls since the page's newest base."""

    @classmethod
    def empty(cls, n_pages: int, *, n_bases: int = 5, n_observations: int = 12) -> Self:
        """Return the evidence about pages that were never fetched; see `ChangeProfiles.empty`."""
        return cls(
            DivergenceTotals.empty(n_pages),
            ChangeProfiles.empty(n_pages, n_bases=n_bases, n_observations=n_observations),
            np.zeros(n_pages, np.uint8),
        )


class ComparedPolls(NamedTuple):
    """Polls of pages whose versions were compared with earlier ones, one row per poll."""

    at: FloatArray
    """Time of the fetch, in seconds."""
    elapsed: FloatArray
    """Seconds since the previous poll."""
    belief: GammaBelief
    """Belief about the change rate of the page after the poll."""
    changed: FlagArray
    """Whether the poll found a change."""
    divergence: FloatArray
    """Divergence of the new version from the one before; nan where not compared."""
    from_bases: FloatArray
    """Divergence of the new version from the page's bases, one column per slot; nan where not
    compared."""
    has_version: FlagArray
    """Whether the new version is known, so that it can become a base."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePopulation:
    """What the pages of a corpus have in common, by which few polls of one page are judged.

    Parameters
    ----------
    prior
        Prior of ceilings and divergence rates.
    mean_divergence
        Mean over pages of the divergence that a changed poll finds.
    """

    prior: DivergencePrior = field(default_factory=DivergencePrior)
    mean_divergence: float = CurveLearner().mean_divergence


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCurveLearner:
    """Learns the divergence curves by which the objective *fragments* schedules pages.

    Parameters
    ----------
    learner
        Learner of how much of a page one change replaces.
    n_polls_per_base
        Number of polls of a page after which its current version becomes a base, 1 to 255.

    Examples
    --------
    A page is polled every day for ten days and found changed each time.  A change replaces a tenth
    of it, and after some days it has lost a third:

    >>> from recrawl.core.belief import mean_rate
    >>> day = 86_400.0
    >>> learner, evidence = PageCurveLearner(), CurveEvidence.empty(1)
    >>> _ = start_bases(evidence.profiles, 0, at=0.0)
    >>> belief = GammaBelief.of([10.0], 10 * day)
    >>> for n in range(1, 11):
    ...     ages = n * day - evidence.profiles.base_at
    ...     polls = ComparedPolls(
    ...         np.array([n * day]), np.array([day]), belief, np.array([True]), np.array([0.1]),
    ...         0.33 * -np.expm1(-0.36 * ages / day), np.array([True]),
    ...     )
    ...     started = learner.observe(evidence, [0], polls)
    >>> curves = learner.curves(evidence, CurvePopulation(), mean_rate(belief))
    >>> curves.ceiling.round(2), curves.ratio.round(2)
    (array([0.35]), array([0.21]))

    References
    ----------
    Longevity §4.1
    Longevity §4.2 (online; the curve is ours)
    """

    learner: CurveLearner = field(default_factory=CurveLearner)
    n_polls_per_base: int = 3

    def __post_init__(self) -> None:
        if not 1 <= self.n_polls_per_base <= 255:
            raise ValueError(
                f"n_polls_per_base must be from 1 to 255, got {self.n_polls_per_base!r}"
            )

    def observe(
        self, evidence: CurveEvidence, rows: ArrayLike, polls: ComparedPolls
    ) -> StartedBases:
        """Add polls to the evidence, in place; return which versions became bases, and where.

        The caller keeps the version of each started base, to compare later versions with.

        Parameters
        ----------
        evidence
            Evidence about all pages.
        rows
            Rows of the pages polled, each at most once.
        polls
            The polls of these pages.
        """
        row_column = np.atleast_1d(np.asarray(rows, dtype=np.int64))
        self.learner.observe(
            evidence.totals,
            row_column,
            polls.belief,
            polls.elapsed,
            polls.changed,
            polls.divergence,
        )
        add_observations(evidence.profiles, row_column, polls.at, polls.from_bases)
        n_since = np.minimum(evidence.n_since_base[row_column].astype(np.int64) + 1, 255)
        evidence.n_since_base[row_column] = np.where(
            polls.has_version, n_since, evidence.n_since_base[row_column]
        )
        has_base = ~np.isnan(evidence.profiles.base_at[row_column]).all(axis=1)
        is_due = polls.has_version & (~has_base | (n_since >= self.n_polls_per_base))
        return self.start_bases(evidence, row_column, polls.at, is_due)

    def start_bases(
        self, evidence: CurveEvidence, rows: ArrayLike, at: ArrayLike, is_due: ArrayLike = True
    ) -> StartedBases:
        """Make the versions just fetched bases where ``is_due``; return their slots."""
        row_column = np.atleast_1d(np.asarray(rows, dtype=np.int64))
        due = np.broadcast_to(np.asarray(is_due, dtype=np.bool_), row_column.shape)
        due_rows = row_column[due]
        times = np.broadcast_to(np.asarray(at, dtype=np.float64), row_column.shape)[due]
        slot = np.zeros(row_column.size, np.int64)
        slot[due] = start_bases(evidence.profiles, due_rows, times).slot
        evidence.n_since_base[due_rows] = 0
        return StartedBases(slot, due.copy())

    def curves(
        self,
        evidence: CurveEvidence,
        population: CurvePopulation,
        change_rate: ArrayLike,
        rows: ArrayLike | None = None,
    ) -> OnlineCurves:
        """Return the curves of pages; the population's for a page without polls.

        Parameters
        ----------
        evidence
            Evidence about all pages.
        population
            Population that the pages belong to.
        change_rate
            Changes per second of the requested pages, positive.
        rows
            Rows of the requested pages; all if not given.
        """
        profiles = evidence.profiles
        n_rows = profiles.base_at.shape[0]
        row_column = np.arange(n_rows) if rows is None else np.asarray(rows, dtype=np.int64)
        rate = np.broadcast_to(np.asarray(change_rate, dtype=np.float64), row_column.shape)
        seen = profiles.n_observed[row_column].any(axis=1)
        ceiling = np.full(row_column.size, population.prior.ceiling_median)
        fitted_ratio = np.full(row_column.size, math.inf)
        fit = population.prior.fit(profiles, rate[seen], row_column[seen])
        ceiling[seen] = fit.ceiling
        fitted_ratio[seen] = fit.rate / rate[seen]
        return self.learner.curves(
            evidence.totals,
            ceiling,
            fitted_ratio=fitted_ratio,
            corpus_mean=population.mean_divergence,
            rows=row_column,
        )

    def pool(
        self, evidence: CurveEvidence, population: CurvePopulation, change_rate: ArrayLike
    ) -> CurvePopulation:
        """Return the population that the evidence about some or all of its pages suggests.

        One step of expectation maximisation; repeated as polls come in, it moves from the prior it
        started with to the corpus.

        Parameters
        ----------
        evidence
            Evidence about the pages, or about a sample of them.
        population
            The population so far.
        change_rate
            Changes per second of these pages, positive.
        """
        n_rows = evidence.n_since_base.size
        rate = np.broadcast_to(np.asarray(change_rate, dtype=np.float64), n_rows)
        seen = np.flatnonzero(evidence.profiles.n_observed.any(axis=1))
        fit = population.prior.fit(evidence.profiles, rate[seen], seen)
        return CurvePopulation(
            prior=pooled_prior(population.prior, fit, rate[seen]),
            mean_divergence=self.learner.corpus_mean(evidence.totals),
        )
