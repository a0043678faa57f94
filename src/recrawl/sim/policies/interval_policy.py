"""A crawler that fetches pages when their interval is over, by any of the rules in use."""

import numpy as np

from recrawl.core.arrays import CountArray, FloatArray, RowArray
from recrawl.sim.policies.interval_rules import FixedInterval, IntervalRule, Polls
from recrawl.sim.policies.policy import FetchOutcomes, KnownPages, largest, spread_phases

__all__ = ["IntervalPolicy", "trust_signals"]


class IntervalPolicy:
    """Fetches the pages that have been due longest, and nothing that is not due.

    Parameters
    ----------
    rule
        Turns polls into waits.
    scale
        Factor on the rule's clock, so that rules can be compared at equal fetches spent; see
        `recrawl.sim.scale_for_budget`.  Waits are multiplied by it, and the durations that the
        rule reads are divided by it, which multiplies every constant of the rule that is a time.
        A rule that is sped up (factor below 1) reads the true age of a version: a rule that waits
        as long as the version is old could not spend an ample budget otherwise.  A column gives
        each page a factor of its own: below 1 for pages that matter more.
    heeds_signals
        Whether a signal makes a page due at once.
    """

    def __init__(
        self, rule: IntervalRule, *, scale: float | FloatArray = 1.0, heeds_signals: bool = False
    ) -> None:
        if not (np.all(np.greater(scale, 0)) and np.all(np.isfinite(scale))):
            raise ValueError(f"scale must be positive and finite, got {scale!r}")
        self._rule = rule
        self._scales = scale
        self._heeds_signals = heeds_signals

    def start(self, pages: KnownPages, at: float) -> None:
        """Begin with pages due within their first interval, or at once if there are no copies."""
        n_pages = pages.importance.size
        first = self._rule.first_seconds
        self._scale = np.broadcast_to(np.asarray(self._scales, np.float64), n_pages)
        self._interval = np.full(n_pages, float(first))
        self._due_at = np.full(n_pages, float(at))
        if pages.has_copies:
            # A crawl that has run for a while has its pages spread over the interval.
            self._due_at += self._scale * first * spread_phases(n_pages, first=0.5)
        self._seen_at = np.full(n_pages, float(at))  # when the copy's version was first seen
        self._fetched_at = np.full(n_pages, float(at))
        self._n_polls = np.zeros(n_pages)
        self._n_changed = np.zeros(n_pages)
        self._polled_seconds = np.zeros(n_pages)

    @property
    def due_at(self) -> FloatArray:
        """When each page is due; inf while its fetch is under way."""
        return self._due_at

    def on_signals(
        self,
        at: FloatArray,
        page: RowArray,
        source: CountArray,  # noqa: ARG002
        claimed_at: FloatArray,
    ) -> None:
        """Make pages due whose signals speak of after their last fetch."""
        if self._heeds_signals:
            news = claimed_at > self._fetched_at[page]
            news &= self._due_at[page] < np.inf
            np.minimum.at(self._due_at, page[news], at[news])

    def pick(self, at: float, n: int) -> RowArray:
        """Return the pages that have been due longest."""
        pages = largest(-self._due_at, n)
        pages = pages[self._due_at[pages] <= at]
        self._due_at[pages] = np.inf
        return pages

    def learn(self, at: FloatArray, page: RowArray, outcomes: FetchOutcomes) -> None:
        """Set when the pages are due again."""
        if outcomes.error.any():
            failed = outcomes.error
            wait = self._scale[page[failed]] * self._rule.retry_seconds
            self._due_at[page[failed]] = at[failed] + wait
            if self._rule.restarts_after_error:
                self._interval[page[failed]] = self._rule.first_seconds
            kept = ~failed
            at, page = at[kept], page[kept]
            outcomes = outcomes.rows(kept)
        is_poll = outcomes.elapsed < np.inf
        changed = outcomes.changed
        seen_at = np.where(changed | ~is_poll, at, self._seen_at[page])
        self._seen_at[page] = seen_at
        self._fetched_at[page] = at
        self._n_polls[page] += is_poll
        self._n_changed[page] += changed
        self._polled_seconds[page] += np.where(is_poll, outcomes.elapsed, 0.0)
        dated = ~np.isnan(outcomes.last_modified_at)
        scale = self._scale[page]
        age = at - np.where(dated, outcomes.last_modified_at, seen_at)
        interval, wait = self._rule.next_waits(
            Polls(
                self._interval[page],
                changed,
                age / np.maximum(scale, 1.0),
                self._n_polls[page],
                self._n_changed[page],
                self._polled_seconds[page] / scale,
            )
        )
        first = self._rule.first_seconds
        self._interval[page] = np.where(is_poll, interval, first)
        self._due_at[page] = at + scale * np.where(is_poll, wait, first)


def trust_signals(
    *, otherwise_seconds: float = 30 * 86_400.0, scale: float = 1.0
) -> IntervalPolicy:
    """Return the policy that fetches when a signal says so, else after a long interval."""
    rule = FixedInterval(first_seconds=otherwise_seconds)
    return IntervalPolicy(rule, scale=scale, heeds_signals=True)
