"""A policy to backtest: pages that changed lately are fetched more often than others."""

import numpy as np

DAY = 86_400.0


class RecentlyChanged:
    """Fetches where the copy is oldest, measured by how long the page has stood still."""

    def start(self, pages, at):
        n_pages = pages.importance.size  # pages are numbered from 0, times are in seconds
        self.fetched_at = np.full(n_pages, at)
        self.changed_at = np.full(n_pages, at)
        self.is_under_way = np.zeros(n_pages, bool)

    def hear(self, at, page, source, claimed_at):
        pass  # signals; there are none in a log

    def pick(self, at, n):
        stood_still = self.fetched_at - self.changed_at + DAY
        urgency = np.where(self.is_under_way, -1.0, (at - self.fetched_at) / stood_still)
        chosen = np.argsort(-urgency, kind="stable")[:n]
        self.is_under_way[chosen] = True
        return chosen

    def learn(self, at, page, outcomes):
        self.fetched_at[page] = at
        self.changed_at[page[outcomes.changed]] = at[outcomes.changed]
        self.is_under_way[page] = False
