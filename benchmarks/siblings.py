"""Measure what it is worth to know that pages of a site change together, on recorded histories.

A policy lets the clocks of a site's pages run faster while its other pages change more often than
their own rates explain.  It is compared with the shard as it ships, on the recorded tracks of
RefreshBench, which are divided by host in an open half and one that is held out.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from recrawl.core.arrays import FlagArray, FloatArray, RowArray
from recrawl.core.belief.codes import BeliefCodes, decode_beliefs
from recrawl.node.shipped_due_table import shipped_due_table
from recrawl.refreshbench import Track, run_policy, track_named
from recrawl.refreshbench.recorded import data_folder
from recrawl.shard.state.words import EPOCH_SECONDS, SECONDS_MAX
from recrawl.sim import Account, FetchOutcomes, KnownPages, Web
from recrawl.sim.policies.shard_policy import START_MS, ShardPolicy, unlimited_settings

__all__ = ["TRACKS", "SiblingClocks", "measure", "paired_by_host"]

TRACKS = ("traces", "texts", "terms")
"""Recorded tracks whose hosts have several pages; on `hourly` each page is a host of its own."""

# Number of polls of a host that are remembered.
_N_POLLS_MAX = 128
# Largest factor by which a clock runs faster.
_FACTOR_MAX = 30.0
# Number of expected changes that the assumption of a normal site counts for.
_DOUBT = 4.0
_WORD_WITHOUT_LAST = np.uint64(0xFFFFFFFF80000000)


class _Polls(NamedTuple):
    """The latest polls of one host, oldest first."""

    page: RowArray
    since: FloatArray
    until: FloatArray
    expected: FloatArray
    """Changes that the belief about the page expected in the interval."""
    changed: FloatArray


class SiblingClocks(ShardPolicy):
    """A shard whose pages age by the changes that polls found on other pages of their site.

    The clock of a page runs by the factor (k + changed) / (k + expected), but never slower than
    time: ``changed`` and ``expected`` are the changes of its siblings' polls, each weighted with
    the share of its interval since the last fetch of the page, and k is the initial doubt.
    """

    def start(self, pages: KnownPages, at: float) -> None:
        """Add all pages to a new shard."""
        self._polls: dict[int, _Polls] = {}
        n_groups = int(pages.group.max()) + 1
        self._members = [np.flatnonzero(pages.group == group) for group in range(n_groups)]
        self._fetched_at = np.zeros(pages.group.size)
        super().start(pages, at)

    def learn(self, at: FloatArray, page: RowArray, outcomes: FetchOutcomes) -> None:
        """Report outcomes, and set the clocks of the other pages of their hosts."""
        now = float(at[-1])
        since = self._fetched_at[page].copy()
        columns = self.shard.tables.pages
        belief = decode_beliefs(
            BeliefCodes(columns.belief_shape[page], columns.belief_seconds[page])
        )
        expected = belief.shape * np.log1p((now - since) / belief.seconds)
        super().learn(at, page, outcomes)
        self._fetched_at[page] = now
        changed = outcomes.changed & ~outcomes.reverted
        group = self._group[page]
        for number in np.unique(group).tolist():
            if self._members[number].size < 2:
                continue
            rows = np.flatnonzero((group == number) & ~outcomes.error)
            self._remember(number, page[rows], since[rows], now, expected[rows], changed[rows])
            self._set_clocks(number, now)

    def _remember(
        self,
        group: int,
        page: RowArray,
        since: FloatArray,
        now: float,
        expected: FloatArray,
        changed: FlagArray,
    ) -> None:
        new = _Polls(page, since, np.full(page.size, now), expected, changed.astype(np.float64))
        old = self._polls.get(group)
        if old is not None:
            joined = (np.concatenate(pair)[-_N_POLLS_MAX:] for pair in zip(old, new, strict=True))
            new = _Polls(*joined)
        self._polls[group] = new

    def _set_clocks(self, group: int, now: float) -> None:
        """Move the effective last fetch of a host's pages, as signals would."""
        page = self._members[group]
        elapsed = now - self._fetched_at[page]
        aged = elapsed * self._factors(self._polls[group], page)
        page, aged = page[elapsed > 0], aged[elapsed > 0]
        seconds = START_MS / 1000 - EPOCH_SECONDS + now - aged
        last = np.clip(seconds, 1, SECONDS_MAX).astype(np.uint64)
        words = self.shard.tables.pages.word
        words[page] = (words[page] & _WORD_WITHOUT_LAST) | last
        self.shard.picker.touch(self.shard.tables, page)

    def _factors(self, polls: _Polls, page: RowArray) -> FloatArray:
        start = np.maximum(polls.since, self._fetched_at[page][:, None])
        share = np.maximum(polls.until - start, 0.0) / np.maximum(polls.until - polls.since, 1.0)
        share *= polls.page != page[:, None]
        changed = (share * polls.changed).sum(axis=1)
        expected = (share * polls.expected).sum(axis=1)
        return np.clip((_DOUBT + changed) / (_DOUBT + expected), 1.0, _FACTOR_MAX)


def _freshness_by_host(web: Web, account: Account) -> FloatArray:
    """Return what each host adds to the freshness of a web."""
    fresh = np.bincount(web.group, web.importance * account.page_fresh_seconds)
    return np.asarray(fresh / (web.horizon * web.importance.sum()))


def paired_by_host(by_host: FloatArray, others: FloatArray) -> tuple[float, float]:
    """Return the difference of two freshnesses, and its standard error by hosts."""
    differences = by_host - others
    n = differences.size
    spread = math.sqrt(n / (n - 1) * float(((differences - differences.mean()) ** 2).sum()))
    return float(differences.sum()), spread


def _run(policy: type[ShardPolicy], track: Track, web: Web, budget: int) -> FloatArray:
    chosen = policy(
        unlimited_settings(), budget=track.budget(budget, web), due_table=shipped_due_table()
    )
    return _freshness_by_host(web, run_policy(track, web, chosen, budget))


def measure(
    tracks: tuple[str, ...] = TRACKS,
    *,
    halves: tuple[int, ...] = (0, 1),
    budgets: tuple[int, ...] = (0, 1, 2, 3),
) -> list[dict[str, Any]]:
    """Compare the shard with and without sibling clocks; return a row for each budget of each half.

    Parameters
    ----------
    tracks
        Names of recorded tracks; their files must be in ``RECRAWL_DATA``.
    halves
        0 for the open half of the hosts, 1 for the half that is held out.
    budgets
        Numbers of the budgets, from scarce (0) to ample (3).
    """
    rows = []
    for name in tracks:
        track = track_named(name)
        for half in halves:
            web = track.web(half, data_folder())
            for budget in budgets:
                without = _run(ShardPolicy, track, web, budget)
                gain, error = paired_by_host(_run(SiblingClocks, track, web, budget), without)
                rows.append(
                    {
                        "track": name,
                        "half": "held out" if half else "open",
                        "fetches_per_page_day": track.fetches_per_page_day[budget],
                        "freshness": round(float(without.sum()), 4),
                        "gain": round(gain, 4),
                        "standard_error": round(error, 4),
                    }
                )
    return rows
