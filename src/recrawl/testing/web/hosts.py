"""A mixture of hosts: every kind of robots.txt, sitemap, feed, validator and fault."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from recrawl.sim.pages import KINDS
from recrawl.sim.pages.draws import Draws
from recrawl.testing.web.traits import (
    FeedKind,
    HostTraits,
    MissingPage,
    ReplyFault,
    RobotsKind,
    SitemapDates,
    SitemapForm,
    ValidatorKind,
)

__all__ = ["make_hosts"]

_T = TypeVar("_T")

# Weights: most hosts behave, and every kind occurs once there are enough hosts.
_ROBOTS = {
    **dict.fromkeys(RobotsKind, 1),
    RobotsKind.ALLOW_ALL: 20,
    RobotsKind.MISSING: 12,
    RobotsKind.DISALLOW_SOME: 12,
    RobotsKind.CRAWL_DELAY: 4,
}
_SITEMAPS = {
    SitemapForm.MISSING: 6,
    SitemapForm.PLAIN: 12,
    SitemapForm.GZIP: 3,
    SitemapForm.INDEX: 3,
    SitemapForm.TEXT: 1,
    SitemapForm.BROKEN: 1,
    SitemapForm.HUGE: 0.2,
}
_DATES = {
    SitemapDates.NONE: 2,
    SitemapDates.RIGHT: 10,
    SitemapDates.DATE_ONLY: 3,
    SitemapDates.STALE: 3,
    SitemapDates.BUILD_TIME: 4,
    SitemapDates.WRONG: 2,
}
_FEEDS = {FeedKind.MISSING: 10, FeedKind.RSS: 5, FeedKind.ATOM: 4, FeedKind.BROKEN: 1}
_VALIDATORS = {
    ValidatorKind.RIGHT: 8,
    ValidatorKind.NONE: 6,
    ValidatorKind.WEAK: 2,
    ValidatorKind.DATE_ONLY: 2,
    ValidatorKind.TWO_SERVERS: 1,
    ValidatorKind.EVERY_ANSWER: 2,
    ValidatorKind.DATE_OF_ANSWER: 1,
    ValidatorKind.IGNORED: 1,
    ValidatorKind.WRONG_304: 1,
}
_MISSING = {
    MissingPage.NOT_FOUND: 10,
    MissingPage.GONE: 2,
    MissingPage.SOFT_404: 4,
    MissingPage.HOME_PAGE: 2,
}
# Answers that take long, or send many bytes, are rare.
_HEAVY = (ReplyFault.OVERSIZED, ReplyFault.ENDLESS, ReplyFault.BOMB, ReplyFault.BOMB_TWICE)
_N_FAULTS_PER_HOST = 3
_FAULT_SHARE = 0.02
_HEAVY_SHARE = 0.0005


def _deal(weights: Mapping[_T, float], n: int, draws: Draws) -> list[_T]:
    """Return ``n`` values in random order, in proportion to weights, and each if there is room."""
    values = list(weights)
    if n < len(values) and len(set(weights.values())) == 1:
        return draws.sample(values, n)
    total = sum(weights.values())
    dealt = list(values) if n >= len(values) else []
    room = n - len(dealt)
    for value in values:
        dealt += [value] * int(room * weights[value] / total)
    heaviest = max(values, key=lambda value: weights[value])
    dealt += [heaviest] * (n - len(dealt))
    return draws.sample(dealt, n)


def _page_counts(n_hosts: int, n_pages: int, draws: Draws) -> list[int]:
    """Return uneven numbers of pages that add up to ``n_pages``, each at least one."""
    sizes = [draws.exponential(1.0) + 0.05 for _ in range(n_hosts)]
    room = n_pages - n_hosts
    counts = [1 + int(room * size / sum(sizes)) for size in sizes]
    counts[0] += n_pages - sum(counts)
    return counts


def _draw_faults(draws: Draws, order: Sequence[ReplyFault]) -> tuple[tuple[ReplyFault, float], ...]:
    return tuple(
        (fault, (_HEAVY_SHARE if fault in _HEAVY else _FAULT_SHARE) * draws.uniform())
        for fault in order
    )


def make_hosts(
    n_hosts: int = 200,
    n_pages: int = 20_000,
    seed: int = 0,
    *,
    is_well_behaved: bool = False,
    rate_spread: float = 1.0,
) -> list[HostTraits]:
    """Return hosts of every kind; the same arguments always give the same hosts.

    Parameters
    ----------
    n_hosts
        Number of hosts.  From 45 on, every kind of robots.txt, sitemap, feed and validator, and
        every fault, is on some host.
    n_pages
        Number of pages on all hosts together.
    seed
        Random seed.
    is_well_behaved
        Whether robots.txt, sitemaps, feeds and validators are right and answers have no faults.
    rate_spread
        How much rates of change differ on one host; see `recrawl.sim.pages.make_site`.

    Examples
    --------
    >>> hosts = make_hosts(200, 20_000)
    >>> len(hosts), sum(host.n_pages for host in hosts)
    (200, 20000)
    """
    if not 1 <= n_hosts <= n_pages:
        raise ValueError(f"n_hosts must be from 1 to n_pages, got {n_hosts!r} and {n_pages!r}")
    draws = Draws("hosts", seed)
    kinds = _deal(dict.fromkeys(KINDS, 1.0), n_hosts, draws)
    counts = _page_counts(n_hosts, n_pages, draws)
    robots = _deal(_ROBOTS, n_hosts, draws)
    forms, dates = _deal(_SITEMAPS, n_hosts, draws), _deal(_DATES, n_hosts, draws)
    feeds, validators = _deal(_FEEDS, n_hosts, draws), _deal(_VALIDATORS, n_hosts, draws)
    missing = _deal(_MISSING, n_hosts, draws)
    # Half of the hosts have faults, and each fault is on some host.
    faulty = draws.sample(range(n_hosts), (n_hosts + 1) // 2)
    order = draws.sample(list(ReplyFault), len(ReplyFault))
    faults: dict[int, tuple[tuple[ReplyFault, float], ...]] = {}
    for row, host in enumerate(faulty):
        first = row * _N_FAULTS_PER_HOST
        chosen = [order[(first + i) % len(order)] for i in range(_N_FAULTS_PER_HOST)]
        faults[host] = _draw_faults(draws, chosen)
    host_traits = []
    for row in range(n_hosts):
        kind, number = kinds[row], seed * 1_000_003 + row
        has_shocks = draws.chance(0.3)
        traits = HostTraits(
            name=f"{kind.replace('_', '-')}-{number}.example",
            page_kind=kind,
            seed=number,
            n_pages=counts[row],
            rate_spread=rate_spread,
            shocks_per_day=0.5 if has_shocks else 0.0,
            shock_share=0.1 + 0.5 * draws.uniform() if has_shocks else 0.0,
            answer_seconds=0.02 + draws.exponential(0.1),
            is_compressed=draws.chance(0.5),
        )
        if not is_well_behaved:
            traits = replace(
                traits,
                robots=robots[row],
                crawl_delay_seconds=float(draws.integer(2, 20)),
                sitemap=forms[row],
                sitemap_dates=dates[row],
                feed=feeds[row],
                validators=validators[row],
                missing=missing[row],
                faults=faults.get(row, ()),
            )
        host_traits.append(traits)
    return host_traits
