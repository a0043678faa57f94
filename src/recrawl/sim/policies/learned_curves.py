"""What a node adds to a shard that counts fragments: it compares what fetches bring.

A shard keeps a page's divergence curve but reads no content.  Here, as in a node, every fetch is
compared with the copy before it and with a few older versions; the curves that follow are told
to the shard as events.
"""

from typing import Protocol

import numpy as np

from recrawl.core.arrays import CountArray, FloatArray, RowArray
from recrawl.core.belief.codes import BeliefCodes, decoded
from recrawl.core.belief.gamma import GammaBelief, mean_rate
from recrawl.core.divergence import (
    ChangeProfiles,
    CurveLearner,
    DivergencePrior,
    DivergenceTotals,
    add_observations,
    pooled_prior,
    start_bases,
)
from recrawl.core.kernel import kernel
from recrawl.shard import CurvesSet, event_of
from recrawl.sim.policies.policy import KnownPages, Outcomes
from recrawl.sim.policies.shard_policy import ShardPolicy
from recrawl.sim.web.content import divergence_of
from recrawl.sim.web.webs import Web, version_after

__all__ = ["Contents", "LearningCurves", "WebContents"]

# The corpus is looked at as a whole whenever polls have grown by so much.
_POLLS_MIN = 50
_POLLS_GROWTH = 1.25


class Contents(Protocol):
    """What fetches bring, and how far versions of a page differ."""

    def read(self, page: RowArray, at: FloatArray) -> CountArray:
        """Return the versions that fetches of ``page`` at ``at`` bring."""
        ...

    def divergence(self, page: RowArray, copy: CountArray, version: CountArray) -> FloatArray:
        """Return the divergence of each page's ``version`` from a ``copy`` of another."""
        ...


@kernel
def _read(web: Web, pages: RowArray, at: FloatArray, out: CountArray) -> None:
    for i in range(pages.size):
        first, last = web.changes.offsets[pages[i]], web.changes.offsets[pages[i] + 1]
        row = first + np.searchsorted(web.changes.at[first:last], at[i], side="right")
        out[i] = version_after(web, pages[i], row)


@kernel
def _compare(
    web: Web, pages: RowArray, copies: CountArray, versions: CountArray, out: FloatArray
) -> None:
    for i in range(pages.size):
        out[i] = divergence_of(web.content, web.seed, pages[i], copies[i], versions[i])


class WebContents:
    """The contents of a simulated or recorded web.

    Parameters
    ----------
    web
        Which is only read, and only where something is fetched.
    """

    def __init__(self, web: Web) -> None:
        self._web = web

    def read(self, page: RowArray, at: FloatArray) -> CountArray:
        """Return the versions that fetches of ``page`` at ``at`` bring."""
        versions = np.empty(page.size, np.int64)
        _read(self._web, page, at, versions)
        return versions

    def divergence(self, page: RowArray, copy: CountArray, version: CountArray) -> FloatArray:
        """Return the divergence of each page's ``version`` from a ``copy`` of another."""
        divergence = np.empty(page.size)
        _compare(self._web, page, copy, version, divergence)
        return divergence


class LearningCurves:
    """A shard that is told the divergence curves of its pages, learned from its polls alone.

    Parameters
    ----------
    policy
        Whose settings have the objective ``fragments``.
    contents
        Of the same web that the policy is run on.
    learner
        Of how much of a page one change replaces.
    prior
        About ceilings, before the corpus has shown its own.
    n_polls_per_base
        After so many polls of a page the version found is kept, for comparison with later ones.

    Examples
    --------
    >>> from recrawl.shard import ShardSettings
    >>> from recrawl.sim import make_web, simulate
    >>> from recrawl.sim.policies.shard_policy import ShardPolicy, unlimited
    >>> day = 86_400.0
    >>> web = make_web(0, 30 * day, [1 / day, 0.2 / day])
    >>> shard = ShardPolicy(unlimited(ShardSettings(objective="fragments")))
    >>> simulate(web, LearningCurves(shard, WebContents(web)), 1 / day).n_fetches
    30
    """

    def __init__(
        self,
        policy: ShardPolicy,
        contents: Contents,
        *,
        learner: CurveLearner | None = None,
        prior: DivergencePrior | None = None,
        n_polls_per_base: int = 3,
    ) -> None:
        if n_polls_per_base < 1:
            raise ValueError(f"n_polls_per_base must be at least 1, got {n_polls_per_base!r}")
        self.policy = policy
        self._contents = contents
        self._learner = learner or CurveLearner()
        self._first_prior = prior or DivergencePrior()
        self._n_polls_per_base = n_polls_per_base

    def start(self, pages: KnownPages, at: float) -> None:
        """Begin with curves as pages have them on average."""
        self.policy.start(pages, at)
        n_pages = pages.importance.size
        everything = np.arange(n_pages)
        self._prior = self._first_prior
        self._totals = DivergenceTotals.empty(n_pages)
        self._corpus_mean = self._learner.corpus_mean(self._totals)
        self._profiles = ChangeProfiles.empty(n_pages)
        self._base: CountArray = np.zeros(self._profiles.base_at.shape, np.int64)
        self._n_since_base = np.zeros(n_pages, np.int64)
        self._ceiling = np.full(n_pages, self._prior.ceiling_median)
        self._fitted_ratio = np.full(n_pages, np.inf)
        self._n_polls = 0
        self._n_pooled = 0
        if pages.has_copies:
            now = np.full(n_pages, float(at))
            self._start_bases(everything, now, self._contents.read(everything, now))
        self._tell(everything)

    def hear(
        self, at: FloatArray, page: RowArray, source: CountArray, claimed_at: FloatArray
    ) -> None:
        """Tell the shard of signals."""
        self.policy.hear(at, page, source, claimed_at)

    def pick(self, at: float, n: int) -> RowArray:
        """Let the shard decide."""
        return self.policy.pick(at, n)

    def learn(self, at: FloatArray, page: RowArray, outcomes: Outcomes) -> None:
        """Report outcomes to the shard, then the curves that follow from them."""
        self.policy.learn(at, page, outcomes)
        done = ~outcomes.error
        at, page, outcomes = at[done], page[done], outcomes.rows(done)
        version = self._contents.read(page, at)
        is_first = np.isinf(outcomes.elapsed)
        self._start_bases(page[is_first], at[is_first], version[is_first])
        self._observe(at[~is_first], page[~is_first], version[~is_first], outcomes.rows(~is_first))
        self._n_polls += page.size
        if self._n_polls >= max(_POLLS_MIN, _POLLS_GROWTH * self._n_pooled):
            self._n_pooled = self._n_polls
            self._pool()
        else:
            self._tell(page)

    def _start_bases(self, page: RowArray, at: FloatArray, version: CountArray) -> None:
        slot = start_bases(self._profiles, page, at).slot
        self._base[page, slot] = version
        self._n_since_base[page] = 0

    def _observe(
        self, at: FloatArray, page: RowArray, version: CountArray, outcomes: Outcomes
    ) -> None:
        belief = self._belief(page)
        self._learner.observe(
            self._totals, page, belief, outcomes.elapsed, outcomes.changed, outcomes.divergence
        )
        n_bases = self._base.shape[1]
        from_bases = self._contents.divergence(
            np.repeat(page, n_bases), self._base[page].ravel(), np.repeat(version, n_bases)
        )
        add_observations(self._profiles, page, at, from_bases.reshape(-1, n_bases))
        self._fit(page, mean_rate(belief))
        self._n_since_base[page] += 1
        due = self._n_since_base[page] >= self._n_polls_per_base
        self._start_bases(page[due], at[due], version[due])

    def _fit(self, page: RowArray, change_rate: FloatArray) -> None:
        fit = self._prior.fit(self._profiles, change_rate, page)
        self._ceiling[page] = fit.ceiling
        self._fitted_ratio[page] = fit.rate / change_rate

    def _pool(self) -> None:
        """Move to what the corpus as a whole has shown, and tell of every page."""
        seen = np.flatnonzero(self._profiles.n_observed.any(axis=1))
        rate = mean_rate(self._belief(seen))
        fit = self._prior.fit(self._profiles, rate, seen)
        self._prior = pooled_prior(self._prior, fit, rate)
        self._ceiling[:] = self._prior.ceiling_median
        self._fit(seen, rate)
        self._corpus_mean = self._learner.corpus_mean(self._totals)
        self._tell(np.arange(self._ceiling.size))

    def _belief(self, page: RowArray) -> GammaBelief:
        """Return what the shard believes of pages; their slots in a new shard are their numbers."""
        pages = self.policy.shard.tables.pages
        return decoded(BeliefCodes(pages.belief_shape[page], pages.belief_seconds[page]))

    def _tell(self, page: RowArray) -> None:
        curves = self._learner.curves(
            self._totals,
            self._ceiling[page],
            fitted_ratio=self._fitted_ratio[page],
            corpus_mean=self._corpus_mean,
            rows=page,
        )
        event = event_of(
            CurvesSet, page=page, ceiling=curves.ceiling, ratio=curves.ratio, scroll_items=0
        )
        self.policy.shard.apply(event)
