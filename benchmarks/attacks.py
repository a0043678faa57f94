"""Measure how much of the budget one site can take, and what that costs the other pages.

An established corpus is attacked in the middle of a run.  The measurement compares the freshness
of the other pages after that moment with their freshness in the same run without the attack.

- ``many-urls``: one host adds thousands of new URLs at once.
- ``many-hosts``: 200 new hosts of one registrable domain add as many pages as the corpus has.
- ``slow-growth``: 20 hosts of one domain add as many pages, some every day.
- ``false-signals``: a new source announces changes of pages that did not change.

``costs`` compares the defaults with a shard without protection where nobody attacks: on hosts of
many sizes, on one host, on three, and with one host that has 90 % of the pages.
"""

from typing import Any, NamedTuple

import numpy as np

from recrawl.core.arrays import RowArray
from recrawl.shard import DomainsSet, PagesAdded, ShardSettings, Signals, event_of
from recrawl.sim import GroupSizes, ShardPolicy, Web, make_web, simulate, unlimited_settings
from recrawl.sim.policies.policy import KnownPages

__all__ = ["ATTACKS", "Attack", "AttackResult", "attacked_web", "run_attack"]

DAY = 86_400.0
# Mean number of days between two fetches of a page: about 85 % of copies are fresh.
_DAYS_PER_FETCH = 2.0
_N_PER_PICK = 10
# Number of the source that lies; no other source has it.
_LIAR = 7


class Attack(NamedTuple):
    """What an attacker does, in relation to the size of the corpus."""

    pages: float = 0.0
    """Number of pages that the attacker adds, per page of the corpus."""
    n_hosts: int = 1
    """Number of hosts, all of one domain, that these pages are on."""
    days_to_add: float = 0.0
    """Days over which the pages come; 0 for all at once."""
    lying_share: float = 0.0
    """Share of the pages of the corpus, all on one host, that the false signals are about."""


ATTACKS = {
    "many-urls": Attack(pages=2.5),
    "many-hosts": Attack(pages=1.0, n_hosts=200),
    "slow-growth": Attack(pages=1.0, n_hosts=20, days_to_add=20.0),
    "false-signals": Attack(lying_share=0.25),
}


class AttackResult(NamedTuple):
    """Freshness of the pages that are not the attacker's, and the budget that the attacker got."""

    freshness: float
    freshness_without: float
    share_of_budget: float
    """Share of fetches after the attack began: of its pages, or of those it lies about."""

    @property
    def kept(self) -> float:
        """Share of the freshness that is left under the attack."""
        return self.freshness / self.freshness_without


def attacked_web(attack: Attack, *, n_pages: int, seed: int, days: float) -> Web:
    """Make the web of the corpus, whose pages come first, and of the attacker."""
    rng = np.random.default_rng(seed)
    n_late = round(attack.pages * n_pages)
    rate = np.exp(1.2 * rng.standard_normal(n_pages)) / (10 * DAY)
    group = GroupSizes().assign_groups(seed=seed, n_pages=n_pages)
    if attack.lying_share > 0:
        group = np.where(np.arange(n_pages) < attack.lying_share * n_pages, 0, 1 + group)
    hosts = int(group.max()) + 1 + np.arange(n_late) % attack.n_hosts
    # Every page of the attacker changes as often as makes it most worth fetching.
    late_rate = np.full(n_late, 1 / (2 * DAY))
    return make_web(
        seed,
        days * DAY,
        np.concatenate([rate, late_rate]),
        group=np.concatenate([group, hosts]),
    )


class _AttackedPolicy(ShardPolicy):
    """A shard that learns of the attacker's pages, or hears its signals, from some day on."""

    def __init__(
        self, settings: ShardSettings, budget: float, attack: Attack, n_pages: int, starts: float
    ) -> None:
        super().__init__(settings, budget=budget)
        self._attack = attack
        self._n_pages = n_pages
        self._starts = starts
        self._lied_at = starts
        self.n_fetched = np.zeros(2, np.int64)

    def start(self, pages: KnownPages, at: float) -> None:
        self._late = KnownPages(*(_rows(column, self._n_pages, None) for column in pages))
        super().start(KnownPages(*(_rows(column, 0, self._n_pages) for column in pages)), at)
        self._n_added = 0

    def _attack_until(self, at: float) -> None:
        n_late = self._late.group.size
        share = 1.0
        if self._attack.days_to_add > 0:
            share = min((at - self._starts) / (self._attack.days_to_add * DAY), 1.0)
        n = int(share * n_late) - self._n_added if self._attack.pages > 0 else 0
        if n > 0:
            self._tick(self._ms(at))
            rows = slice(self._n_added, self._n_added + n)
            self._add_late(rows, at)
            self._n_added += n
        if self._attack.lying_share > 0 and at >= self._lied_at:
            self._lied_at += DAY
            self._tick(self._ms(at))
            page = self._page[: round(self._attack.lying_share * self._n_pages)]
            event = event_of(Signals, page=page, source=_LIAR, at_ms=self._ms(at), claimed_at_ms=0)
            self.shard.apply(event)

    def _add_late(self, rows: slice, at: float) -> None:
        late = self._late
        group = late.group[rows]
        page = self.shard.free_pages(group.size)
        hosts = np.unique(late.group)
        self.shard.apply(event_of(DomainsSet, group=hosts, domain=hosts[0], is_unlimited=0))
        event = event_of(
            PagesAdded,
            page=page,
            group=group,
            kind=0,
            importance=1.0,
            cost=1.0,
            at_ms=self._ms(at),
        )
        self.shard.apply(event)
        self._page = np.concatenate([self._page, page])
        self._order = np.concatenate([self._order, np.zeros(page.size, np.int64)])

    def pick(self, at: float, n: int) -> RowArray:
        if at >= self._starts:
            self._attack_until(at)
        slots = super().pick(at, n)
        if at >= self._starts:
            n_lied = round(self._attack.lying_share * self._n_pages)
            is_taken = (slots >= self._n_pages) | (slots < n_lied)
            self.n_fetched += np.array([slots.size, is_taken.sum()])
        return slots


def _rows(column: Any, first: int, end: int | None) -> Any:
    return column[first:end] if isinstance(column, np.ndarray) else column


_NONE = Attack()


def run_attack(
    attack: Attack,
    *,
    n_pages: int = 2_000,
    seed: int = 0,
    days_before: float = 20.0,
    days_after: float = 20.0,
    settings: ShardSettings | None = None,
) -> AttackResult:
    """Run a corpus with and without an attack; see the module for what is compared."""
    settings = unlimited_settings(settings)
    days = days_before + days_after
    web = attacked_web(attack, n_pages=n_pages, seed=seed, days=days)
    budget = n_pages / (_DAYS_PER_FETCH * DAY)
    results = []
    for chosen in (attack, _NONE):
        policy = _AttackedPolicy(settings, budget, chosen, n_pages, days_before * DAY)
        account = simulate(
            web,
            policy,
            budget,
            n_per_pick=_N_PER_PICK,
            burn_in_seconds=days_before * DAY,
        )
        fresh = account.page_fresh_seconds[round(attack.lying_share * n_pages) : n_pages]
        results.append((float(fresh.mean()) / (days_after * DAY), policy.n_fetched))
    (attacked, n_fetched), (without, _) = results
    return AttackResult(attacked, without, float(n_fetched[1] / max(n_fetched[0], 1)))
