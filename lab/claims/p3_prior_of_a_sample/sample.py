"""A sample of real pages' rates, found as Prior found its own: watched until 25 changes."""

from functools import lru_cache

import numpy as np

from lab.change_days import trace_days
from recrawl.core.arrays import FloatArray
from recrawl.papers.change_rate import PollHistories, irregular_change_rate

__all__ = ["N_CHANGES", "sampled_periods"]

DAY = 86_400.0
N_CHANGES = 25
"""Changes after which a page was watched no longer."""


@lru_cache(maxsize=1)
def sampled_periods() -> FloatArray:
    """Return the periods, in days, of recorded pages polled daily until 25 polls found a change.

    In an order that has nothing to do with what the pages are.  Pages found changed at every
    poll have no period, and are left out.
    """
    traces = trace_days()
    n_changes = np.bincount(traces.page, minlength=traces.n_pages)
    first = np.concatenate([[0], np.cumsum(n_changes)])[:-1]
    pages = np.flatnonzero(n_changes >= N_CHANGES)
    n_days = traces.day[first[pages] + N_CHANGES - 1] + 1
    # Days without a change count by their sum alone, so one poll stands for all of them.
    elapsed = np.full((pages.size, N_CHANGES + 1), DAY)
    elapsed[:, -1] = (n_days - N_CHANGES) * DAY
    changed = np.ones(elapsed.shape, np.bool_)
    changed[:, -1] = False
    rate, _ = irregular_change_rate(
        PollHistories(
            elapsed.reshape(-1),
            changed.reshape(-1),
            np.arange(pages.size + 1) * (N_CHANGES + 1),
        )
    )
    periods = 1 / (rate[rate < np.inf] * DAY)
    return np.random.default_rng(303).permutation(periods)
