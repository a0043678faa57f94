"""A shard with the divergence curves that a node learns for it from content.

A shard stores a page's divergence curve but reads no content.  Here, as in a node, every fetched
version is compared with the previous copy and with a few older versions, and the resulting curves
are sent to the shard as events.
"""

from typing import Protocol

import numpy as np

from recrawl.core.arrays import CountArray, FloatArray, RowArray
from recrawl.core.belief.codes import BeliefCodes, decode_beliefs
from recrawl.core.belief.gamma import GammaBelief, mean_rate
from recrawl.core.divergence import (
    ComparedPolls,
    CurveEvidence,
    CurveLearner,
    CurvePopulation,
    DivergencePrior,
    PageCurveLearner,
    is_pooling_due,
)
from recrawl.core.kernel import kernel
from recrawl.shard import CurvesSet, event_of
from recrawl.sim.policies.policy import FetchOutcomes, KnownPages
from recrawl.sim.policies.shard_policy import ShardPolicy
from recrawl.sim.web.content import divergence_of
from recrawl.sim.web.webs import Web, version_after

__all__ = ["Contents", "LearningCurves", "WebContents"]


class Contents(Protocol):
    """The versions that fetches return, and the divergence between versions of a page."""

    def read(self, page: RowArray, at: FloatArray) -> CountArray:
        """Return the versions that fetches of ``page`` at ``at`` find."""
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
        The web, which is not modified.
    """

    def __init__(self, web: Web) -> None:
        self._web = web

    def read(self, page: RowArray, at: FloatArray) -> CountArray:
        """Return the versions that fetches of ``page`` at ``at`` find."""
        versions = np.empty(page.size, np.int64)
        _read(self._web, page, at, versions)
        return versions

    def divergence(self, page: RowArray, copy: CountArray, version: CountArray) -> FloatArray:
        """Return the divergence of each page's ``version`` from a ``copy`` of another."""
        divergence = np.empty(page.size)
        _compare(self._web, page, copy, version, divergence)
        return divergence


class LearningCurves:
    """A shard that receives the divergence curves of its pages, learned from its polls.

    Parameters
    ----------
    policy
        Policy whose settings have the objective ``fragments``.
    contents
        Contents of the web that the policy runs on.
    learner
        Learner of how much of a page one change replaces.
    prior
        Prior about ceilings at the start.
    n_polls_per_base
        Number of polls of a page after which the current version is stored, to compare later
        versions with.

    Examples
    --------
    >>> from recrawl.shard import ShardSettings
    >>> from recrawl.sim import make_web, simulate
    >>> from recrawl.sim.policies.shard_policy import ShardPolicy, unlimited_settings
    >>> day = 86_400.0
    >>> web = make_web(0, 30 * day, [1 / day, 0.2 / day])
    >>> shard = ShardPolicy(unlimited_settings(ShardSettings(objective="fragments")))
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
        self.policy = policy
        self._contents = contents
        self._learner = PageCurveLearner(
            learner=learner or CurveLearner(), n_polls_per_base=n_polls_per_base
        )
        self._first_prior = prior or DivergencePrior()

    def start(self, pages: KnownPages, at: float) -> None:
        """Begin with average curves."""
        self.policy.start(pages, at)
        n_pages = pages.importance.size
        everything = np.arange(n_pages)
        self._evidence = CurveEvidence.empty(n_pages)
        self._population = CurvePopulation(
            prior=self._first_prior,
            mean_divergence=self._learner.learner.corpus_mean(self._evidence.totals),
        )
        self._base: CountArray = np.zeros(self._evidence.profiles.base_at.shape, np.int64)
        self._n_polls = 0
        self._n_pooled = 0
        if pages.has_copies:
            now = np.full(n_pages, float(at))
            self._start_bases(everything, now, self._contents.read(everything, now))
        self._send_curves(everything)

    def on_signals(
        self, at: FloatArray, page: RowArray, source: CountArray, claimed_at: FloatArray
    ) -> None:
        """Send signals to the shard."""
        self.policy.on_signals(at, page, source, claimed_at)

    def pick(self, at: float, n: int) -> RowArray:
        """Let the shard choose pages."""
        return self.policy.pick(at, n)

    def learn(self, at: FloatArray, page: RowArray, outcomes: FetchOutcomes) -> None:
        """Report outcomes to the shard, then the curves learned from them."""
        self.policy.learn(at, page, outcomes)
        succeeded = ~outcomes.error
        at, page, outcomes = at[succeeded], page[succeeded], outcomes.rows(succeeded)
        version = self._contents.read(page, at)
        is_first = np.isinf(outcomes.elapsed)
        self._start_bases(page[is_first], at[is_first], version[is_first])
        self._observe(at[~is_first], page[~is_first], version[~is_first], outcomes.rows(~is_first))
        self._n_polls += page.size
        if is_pooling_due(self._n_polls, self._n_pooled):
            self._n_pooled = self._n_polls
            self._population = self._learner.pool(
                self._evidence, self._population, mean_rate(self._belief(slice(None)))
            )
            page = np.arange(self._evidence.n_since_base.size)
        self._send_curves(page)

    def _start_bases(self, page: RowArray, at: FloatArray, version: CountArray) -> None:
        slot = self._learner.start_bases(self._evidence, page, at).slot
        self._base[page, slot] = version

    def _observe(
        self, at: FloatArray, page: RowArray, version: CountArray, outcomes: FetchOutcomes
    ) -> None:
        n_bases = self._base.shape[1]
        from_bases = self._contents.divergence(
            np.repeat(page, n_bases), self._base[page].ravel(), np.repeat(version, n_bases)
        )
        polls = ComparedPolls(
            at,
            outcomes.elapsed,
            self._belief(page),
            outcomes.changed,
            outcomes.divergence,
            from_bases.reshape(-1, n_bases),
            np.ones(page.size, np.bool_),
        )
        slot, is_started = self._learner.observe(self._evidence, page, polls)
        self._base[page[is_started], slot[is_started]] = version[is_started]

    def _belief(self, page: RowArray | slice) -> GammaBelief:
        """Return the shard's beliefs about pages; in a new shard, slots are page numbers."""
        pages = self.policy.shard.tables.pages
        n_pages = self._evidence.n_since_base.size
        shape, seconds = pages.belief_shape[:n_pages][page], pages.belief_seconds[:n_pages][page]
        return decode_beliefs(BeliefCodes(shape, seconds))

    def _send_curves(self, page: RowArray) -> None:
        curves = self._learner.curves(
            self._evidence, self._population, mean_rate(self._belief(page)), page
        )
        event = event_of(
            CurvesSet, page=page, ceiling=curves.ceiling, ratio=curves.ratio, scroll_items=0
        )
        self.policy.shard.apply(event)
