"""recrawl's rule on pages by themselves: each is fetched when its averaged value is the price."""

import math
from dataclasses import dataclass

import numpy as np

from lab.policies.loop_runs import IntervalLog
from recrawl.core.arrays import CountArray, FloatArray, RowArray
from recrawl.core.belief import BROAD, GammaBelief, after_poll, rebase_beliefs
from recrawl.core.kernel import kernel
from recrawl.core.price import averaged_due_elapsed, latest_elapsed
from recrawl.shard.apply.priors import WHOLE_PAGES, is_refit_due, refit_prior
from recrawl.sim import Fetcher, Web
from recrawl.sim.web.times import offsets_of

__all__ = ["BeliefRule", "belief_log", "log_of_fetches"]

HOUR = 3_600.0
# Between two looks whether the corpus has taught enough for another prior.
_LEARNING_STEP = 6 * HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class BeliefRule:
    """When recrawl fetches a page at a fixed price.

    Parameters
    ----------
    prior
        Believed of a page never polled.
    price
        Seconds of staleness that cost as much as a fetch.
    stale_for, promise
        A copy is fetched before it has been stale for so many seconds with a probability above
        the promise; by default nothing is promised.
    learns_prior
        Whether the prior is learned from the pages on the way, as the shard does.
    """

    prior: GammaBelief
    price: float
    stale_for: float = math.inf
    promise: float = 1.0
    learns_prior: bool = False

    def due_elapsed(self, belief: GammaBelief) -> FloatArray:
        """Return the seconds after a fetch at which pages are due."""
        due = averaged_due_elapsed(belief, self.price)
        if self.promise < 1.0:
            latest = latest_elapsed(belief, stale_for=self.stale_for, probability=self.promise)
            due = np.minimum(due, latest)
        return due


def belief_log(web: Web, rule: BeliefRule) -> IntervalLog:
    """Fetch every page when it is due, from a fetch of all at the start, and return the log.

    No fetch fails and no page returns to an earlier version.
    """
    n_pages = web.n_pages
    prior = rule.prior
    belief = GammaBelief(
        np.full(n_pages, float(prior.shape)), np.full(n_pages, float(prior.seconds))
    )
    due_at = rule.due_elapsed(belief)
    fetched_at = np.zeros(n_pages)
    fetcher = Fetcher(web)
    pages: list[RowArray] = []
    instants: list[FloatArray] = []
    n_polls = n_learned = 0
    step = _LEARNING_STEP if rule.learns_prior else web.horizon
    for now in np.append(np.arange(step, web.horizon, step), web.horizon):
        while (due_at <= now).any():
            page = np.flatnonzero(due_at <= now)
            at = due_at[page]
            outcomes = fetcher.fetch(page, at)
            before = GammaBelief(belief.shape[page], belief.seconds[page])
            after = after_poll(before, outcomes.elapsed, outcomes.changed)
            belief.shape[page], belief.seconds[page] = after
            fetched_at[page] = at
            due_at[page] = at + rule.due_elapsed(after)
            pages.append(page)
            instants.append(at)
            n_polls += page.size
        if rule.learns_prior and is_refit_due(n_polls, n_learned):
            n_learned = n_polls
            polled = fetched_at > 0
            shown = GammaBelief(belief.shape[polled], belief.seconds[polled])
            learned = refit_prior(shown, BROAD, WHOLE_PAGES)
            belief = rebase_beliefs(belief, prior, learned)
            prior = learned
            # What would have been due under the new prior is due now.
            due_at = np.maximum(fetched_at + rule.due_elapsed(belief), now)
    none = np.empty(0, np.int64)
    return log_of_fetches(
        web, np.concatenate([none, *pages]), np.concatenate([np.empty(0), *instants])
    )


def log_of_fetches(web: Web, page: RowArray, at: FloatArray) -> IntervalLog:
    """Return the intervals between fetches given in any order."""
    n_pages = web.n_pages
    # Every page's last interval is cut off by the horizon.
    page = np.concatenate([page, np.arange(n_pages)])
    ended_at = np.concatenate([at, np.full(n_pages, web.horizon)])
    is_fetch = np.concatenate([np.ones(at.size, np.bool_), np.zeros(n_pages, np.bool_)])
    order = np.lexsort((~is_fetch, ended_at, page))
    ended_at, is_fetch = ended_at[order], is_fetch[order]
    offsets = offsets_of(page, n_pages)
    elapsed = np.diff(ended_at, prepend=0.0)
    elapsed[offsets[:-1]] = ended_at[offsets[:-1]]
    stale = np.empty(ended_at.size)
    _stale_seconds(web.changes.offsets, web.changes.at, offsets, ended_at, elapsed, stale)
    none = np.zeros(n_pages, np.int64)
    return IntervalLog(
        offsets, ended_at, elapsed, np.maximum(stale, 0.0), stale >= 0, is_fetch, none
    )


@kernel
def _stale_seconds(
    change_offsets: CountArray,
    changed_at: FloatArray,
    offsets: CountArray,
    ended_at: FloatArray,
    elapsed: FloatArray,
    out: FloatArray,
) -> None:
    """Write how long each interval's copy was stale at its end; -1 if it was not."""
    for page in range(offsets.size - 1):
        change = change_offsets[page]
        for row in range(offsets[page], offsets[page + 1]):
            started_at = ended_at[row] - elapsed[row]
            while change < change_offsets[page + 1] and changed_at[change] <= started_at:
                change += 1
            out[row] = -1.0
            if change < change_offsets[page + 1] and changed_at[change] <= ended_at[row]:
                out[row] = ended_at[row] - changed_at[change]
