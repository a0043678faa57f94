"""A policy to backtest: it fetches pages that changed recently more often than others."""

import numpy as np

DAY = 86_400.0


class RecentlyChanged:
    """Fetches the pages whose copies are oldest, relative to the time since their last change."""

    def start(self, pages, at):
        n_pages = pages.importance.size  # pages are numbered from 0, times are in seconds
        self.fetched_at = np.full(n_pages, at)
        self.changed_at = np.full(n_pages, at)
        self.is_under_way = np.zeros(n_pages, bool)

    def on_signals(self, at, page, source, claimed_at):
        pass  # a log has no signals

    def pick(self, at, n):
        unchanged_for = self.fetched_at - self.changed_at + DAY
        urgency = np.where(self.is_under_way, -1.0, (at - self.fetched_at) / unchanged_for)
        chosen = np.argsort(-urgency, kind="stable")[:n]
        self.is_under_way[chosen] = True
        return chosen

    def learn(self, at, page, outcomes):
        self.fetched_at[page] = at
        self.changed_at[page[outcomes.changed]] = at[outcomes.changed]
        self.is_under_way[page] = False
