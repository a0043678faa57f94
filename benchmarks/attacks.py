"""Measure how much of the budget one site can take, and what that costs the other pages.

An established corpus is attacked in the middle of a run.  The measurement compares the freshness
of the other pages after that moment with their freshness in the same run without the attack.

- ``many-urls``: one host adds thousands of new URLs at once.
- ``many-hosts``: 200 new hosts of one registrable domain add as many pages as the corpus has.
- ``slow-growth``: 20 hosts of one domain add as many pages, some every day.
- ``false-signals``: a new source announces changes of a host's pages that did not change.

``costs`` compares the defaults with a shard without protection where nobody attacks: pages come at
a normal pace, and each host has a source of signals, some good and some bad.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import RowArray
from recrawl.shard import DomainsSet, PagesAdded, ShardSettings, Signals, event_of
from recrawl.sim import (
    GroupSizes,
    ShardPolicy,
    SignalSource,
    Web,
    make_web,
    simulate,
    unlimited_settings,
)
from recrawl.sim.policies.policy import KnownPages

__all__ = [
    "ATTACKS",
    "LAYOUTS",
    "UNPROTECTED",
    "Attack",
    "AttackResult",
    "cost_of_protection",
    "measure",
    "run_attack",
]

DAY = 86_400.0
UNPROTECTED: dict[str, Any] = {
    "new_pages_share": 1.0,
    "new_domain_share": 1.0,
    "untested_signals_max": float("inf"),
}
"""Settings of a shard without protection."""
LAYOUTS = ("many hosts", "one host", "three hosts", "one host with 90 %")
"""How the pages of a corpus that nobody attacks are spread over hosts."""
# Mean number of days between two fetches of a page: about 87 % of copies are fresh.
_DAYS_PER_FETCH = 2.0
_N_PER_PICK = 10
# Number of the source that lies; no other source has it.
_LIAR = 7
# Days from one false signal about a page to the next.
_DAYS_PER_LIE = 0.25


class Attack(NamedTuple):
    """What comes to a corpus late, in relation to its size."""

    pages: float = 0.0
    """Number of new pages, per page of the corpus."""
    n_hosts: int = 1
    """Number of hosts, all of one domain, that these pages are on; 0 for those of the corpus."""
    days_to_add: float = 0.0
    """Days over which the pages come; 0 for all at once."""
    lying_share: float = 0.0
    """Share of the pages of the corpus, all on one host, that the false signals are about."""
    days: float = 20.0
    """Days from the attack to the end of the run."""


ATTACKS = {
    "many-urls": Attack(pages=2.5),
    "many-hosts": Attack(pages=1.0, n_hosts=200),
    "slow-growth": Attack(pages=1.0, n_hosts=20, days_to_add=20.0),
    "false-signals": Attack(lying_share=0.5, days=2.0),
}
_GROWTH = Attack(pages=0.15, n_hosts=0, days_to_add=20.0)
_NONE = Attack()


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


def _change_rates(rng: np.random.Generator, n_pages: int) -> NDArray[np.float64]:
    return np.exp(1.2 * rng.standard_normal(n_pages)) / (10 * DAY)


def _attacked_web(attack: Attack, n_pages: int, seed: int, days: float) -> Web:
    """Make the web of the corpus, whose pages come first, and of the attacker."""
    rate = _change_rates(np.random.default_rng(seed), n_pages)
    n_late = round(attack.pages * n_pages)
    group = GroupSizes().assign_groups(seed=seed, n_pages=n_pages)
    if attack.lying_share > 0:
        is_lied_about = np.arange(n_pages) < attack.lying_share * n_pages
        group = np.where(is_lied_about, 0, 1 + group)
        # These pages hardly change, and would get little of the budget.
        rate = np.where(is_lied_about, 0.1 * rate, rate)
    hosts = int(group.max()) + 1 + np.arange(n_late) % attack.n_hosts
    # Every page of the attacker changes so often that it is well worth fetching.
    late_rate = np.full(n_late, 1 / (2 * DAY))
    return make_web(
        seed,
        days * DAY,
        np.concatenate([rate, late_rate]),
        group=np.concatenate([group, hosts]),
    )


def _growing_web(layout: str, n_pages: int, seed: int, days: float) -> Web:
    """Make a web that nobody attacks, with a source of signals on each host."""
    rng = np.random.default_rng(seed)
    n_all = n_pages + round(_GROWTH.pages * n_pages)
    rate = _change_rates(rng, n_all)
    group = {
        "many hosts": rng.permutation(GroupSizes().assign_groups(seed=seed, n_pages=n_all)),
        "one host": np.zeros(n_all, np.int64),
        "three hosts": np.arange(n_all) % 3,
        "one host with 90 %": np.where(rng.random(n_all) < 0.9, 0, 1 + np.arange(n_all) % 50),
    }[layout]
    n_groups = int(group.max()) + 1
    recall, precision = 0.5 * rng.random(n_groups), 0.1 + 0.85 * rng.random(n_groups)
    source = SignalSource.with_precision(
        change_rate=rate, recall=recall[group], precision=precision[group], delay_seconds=3_600.0
    )
    return make_web(seed, days * DAY, rate, group=group, sources=[source])


class _LatePages(ShardPolicy):
    """A shard that learns of some pages, or hears false signals, from some day on."""

    def __init__(
        self, settings: ShardSettings, budget: float, attack: Attack, n_pages: int, starts: float
    ) -> None:
        super().__init__(settings, budget=budget)
        self._attack = attack
        self._n_pages = n_pages
        self._starts = starts
        self._lies_at = starts
        self.n_fetched = np.zeros(2, np.int64)

    def start(self, pages: KnownPages, at: float) -> None:
        """Add the pages that are there from the start."""
        self._all = pages
        super().start(KnownPages(*(_rows(column, self._n_pages) for column in pages)), at)
        self._n_added = 0

    def pick(self, at: float, n: int) -> RowArray:
        """Let the attacker act, then the shard choose pages."""
        if at < self._starts:
            return super().pick(at, n)
        self._add_late_pages(at)
        n_lied = round(self._attack.lying_share * self._n_pages)
        if n_lied and at >= self._lies_at:
            self._lies_at += _DAYS_PER_LIE * DAY
            self._lie(at, n_lied)
        slots = super().pick(at, n)
        is_attackers = (slots >= self._n_pages) | (slots < n_lied)
        self.n_fetched += np.array([slots.size, is_attackers.sum()])
        return slots

    def _add_late_pages(self, at: float) -> None:
        attack = self._attack
        share = 1.0
        if attack.days_to_add > 0:
            share = min((at - self._starts) / (attack.days_to_add * DAY), 1.0)
        n_late = round(attack.pages * self._n_pages)
        n = int(share * n_late) - self._n_added
        if n <= 0:
            return
        self._tick(self._ms(at))
        first = self._n_pages + self._n_added
        group = self._all.group[first : first + n]
        if attack.n_hosts > 1:
            hosts = np.unique(self._all.group[self._n_pages :])
            event = event_of(DomainsSet, group=hosts, domain=hosts[0], is_unlimited=0)
            self.shard.apply(event)
        page = self.shard.free_pages(n)
        columns = {"kind": 0, "importance": 1.0, "cost": 1.0, "at_ms": self._ms(at)}
        self.shard.apply(event_of(PagesAdded, page=page, group=group, **columns))
        self._page = np.concatenate([self._page, page])
        self._group = np.concatenate([self._group, group])
        self._order = np.concatenate([self._order, np.zeros(n, np.int64)])
        self._n_added += n

    def _lie(self, at: float, n_pages: int) -> None:
        self._tick(self._ms(at))
        page, at_ms = self._page[:n_pages], self._ms(at)
        self.shard.apply(event_of(Signals, page=page, source=_LIAR, at_ms=at_ms, claimed_at_ms=0))

    def on_signals(self, at: Any, page: Any, source: Any, claimed_at: Any) -> None:
        """Hear only signals about pages that have been added."""
        known = page < self._page.size
        if known.any():
            super().on_signals(at[known], page[known], source[known], claimed_at[known])


def _rows(column: Any, n: int) -> Any:
    return column[:n] if isinstance(column, np.ndarray) else column


def _run(
    web: Web, attack: Attack, n_pages: int, days_before: float, settings: ShardSettings
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the freshness of each page after the attack, and the numbers of fetches."""
    budget = n_pages / (_DAYS_PER_FETCH * DAY)
    starts = days_before * DAY
    policy = _LatePages(unlimited_settings(settings), budget, attack, n_pages, starts)
    account = simulate(web, policy, budget, n_per_pick=_N_PER_PICK, burn_in_seconds=starts)
    return account.page_fresh_seconds / (web.horizon - starts), policy.n_fetched


def run_attack(
    attack: Attack,
    *,
    n_pages: int = 2_000,
    seed: int = 0,
    days_before: float = 20.0,
    settings: ShardSettings | None = None,
) -> AttackResult:
    """Run a corpus with and without an attack, and compare the freshness of the other pages.

    Parameters
    ----------
    attack
        Attack, which begins after ``days_before`` days.
    n_pages
        Number of pages of the corpus.
    seed
        Random seed.
    days_before
        Days before the attack, in which the corpus is established.
    settings
        Settings of the shard; politeness does not count.
    """
    settings = settings or ShardSettings()
    web = _attacked_web(attack, n_pages, seed, days_before + attack.days)
    attacked, n_fetched = _run(web, attack, n_pages, days_before, settings)
    without, _ = _run(web, _NONE, n_pages, days_before, settings)
    others = slice(round(attack.lying_share * n_pages), n_pages)
    share = float(n_fetched[1] / max(n_fetched[0], 1))
    return AttackResult(float(attacked[others].mean()), float(without[others].mean()), share)


def cost_of_protection(
    layout: str,
    *,
    n_pages: int = 2_000,
    seed: int = 0,
    days_before: float = 20.0,
    settings: ShardSettings | None = None,
) -> tuple[float, float]:
    """Return freshness of all pages with the settings, and without protection.

    Nobody attacks: signals begin on the first day, and pages come from ``days_before`` on.

    Parameters
    ----------
    layout
        One of `LAYOUTS`.
    n_pages, seed, days_before, settings
        See `run_attack`.
    """
    settings = settings or ShardSettings()
    web = _growing_web(layout, n_pages, seed, days_before + _GROWTH.days)
    fresh = []
    for chosen in (settings, replace(settings, **UNPROTECTED)):
        # From the first day on, as new sources cost most at the beginning.
        budget, starts = n_pages / (_DAYS_PER_FETCH * DAY), days_before * DAY
        policy = _LatePages(unlimited_settings(chosen), budget, _GROWTH, n_pages, starts)
        account = simulate(web, policy, budget, n_per_pick=_N_PER_PICK)
        fresh.append(account.unweighted_freshness)
    return fresh[0], fresh[1]


def measure(n_pages: int = 2_000, n_seeds: int = 1) -> dict[str, object]:
    """Run all attacks with both pickers, and measure what protection costs without an attack.

    Parameters
    ----------
    n_pages
        Number of pages of the corpus.
    n_seeds
        Number of simulated webs for each attack and layout.
    """
    attacks: list[dict[str, object]] = []
    costs: list[dict[str, object]] = []
    for picker in ("scan", "sweep"):
        settings = ShardSettings(picker=picker)
        for seed in range(n_seeds):
            for name, attack in ATTACKS.items():
                for is_protected in (True, False):
                    chosen = settings if is_protected else replace(settings, **UNPROTECTED)
                    result = run_attack(attack, n_pages=n_pages, seed=seed, settings=chosen)
                    attacks.append(
                        {
                            "attack": name,
                            "picker": picker,
                            "seed": seed,
                            "protected": is_protected,
                            "kept": round(result.kept, 4),
                            **result._asdict(),
                        }
                    )
            for layout in LAYOUTS:
                fresh, without = cost_of_protection(
                    layout, n_pages=n_pages, seed=seed, settings=settings
                )
                costs.append(
                    {
                        "hosts": layout,
                        "picker": picker,
                        "seed": seed,
                        "freshness": fresh,
                        "freshness_without_protection": without,
                        "cost": round(1.0 - fresh / without, 5),
                    }
                )
    return {"attacks": attacks, "costs": costs}
