"""Newcomers: pages beyond the normal growth of their domain or of the shard, and their credit.

One site must not take the budget from all others by adding pages.  A shard and each registrable
domain may grow by a normal pace; pages added faster than that are *newcomers* for some time, the
longer the more of them there are.  All orders of newcomers, first fetches and later ones, come from
credit that earns a share of all orders: that of the domain, and that of all newcomers together.
The picker heeds the credit while other pages are due (`recrawl.shard.picker.newcomers`).

Growth of a shard counts from when it has had as many polls as pages; before, it is being filled.
While it is filled, only a domain that has been ordered from can bring newcomers: pages that come
later were found there, as in a trap or in a large sitemap.  They are newcomers until their first
fetch, and each domain has an equal share of the orders, but at least ``new_domain_share``.  A
domain that is nearly alone in its shard has no limit.

The pace is kept by a clock for each domain and one for the shard (a leaky bucket, also known as the
generic cell rate algorithm): each page moves the clock ahead by the time that the pace allows for
one page.  A page is a newcomer until the clock's time, less some days of tolerance.
"""

import numpy as np

from recrawl.core.arrays import FlagArray
from recrawl.core.kernel import table_kernel
from recrawl.shard.events import DomainsSet, Ordered, PagesAdded, PagesRemoved
from recrawl.shard.state.rules import Rules
from recrawl.shard.state.status import Reason
from recrawl.shard.state.tables import GROUP_UNLIMITED, Groups, Pages, Registers
from recrawl.shard.state.words import EPOCH_SECONDS, SECONDS_MAX, number_of

__all__ = [
    "are_newcomers_limited",
    "charge_newcomers",
    "count_added",
    "count_removed",
    "domain_credit_of",
    "domain_of",
    "set_domains",
    "shares_in_effect",
    "start_growth",
]

_GROWTH_MS = 30 * 86_400_000
# Growth that a domain or a shard may save up.
_TOLERANCE_MS = 6 * 86_400_000
# Normal growth in thirty days, at least: of a shard, and of a domain in pages and as a share of the
# pages of the shard.
_SHARD_GROWTH_MIN = 1_000.0
_DOMAIN_GROWTH_MIN = 100.0
_DOMAIN_GROWTH_MIN_SHARE = 0.02
# Pages of other domains, per page of its own, up to which a domain has no limit in a shard that is
# being filled.
_ALONE_SHARE = 0.05
# Number of orders that credit may amount to: at least, and per page of the shard.
_CREDIT_MIN = 8.0
_CREDIT_PER_PAGE = 0.001
_SPARE = int(Reason.SPARE)


@table_kernel
def domain_of(groups: Groups, group: int) -> int:
    """Return the group that keeps the credit of a group's domain."""
    domain = number_of(groups.domain[group])
    return domain - 1 if domain > 0 else group


@table_kernel
def are_newcomers_limited(new_pages_share: float, new_domain_share: float) -> bool:
    """Return whether any limit of newcomers is set."""
    return new_pages_share < 1.0 or new_domain_share < 1.0


def shares_in_effect(
    groups: Groups, registers: Registers, new_pages_share: float, new_domain_share: float
) -> tuple[float, float]:
    """Return the shares of orders for all newcomers, and for those of one domain.

    While a shard is filled, newcomers of all domains together have no limit, because a crawl that
    follows links finds nearly all its pages late.  Each domain has an equal share then.

    Parameters
    ----------
    groups, registers
        State of the shard.
    new_pages_share, new_domain_share
        Shares that are set.
    """
    if registers.growth_until[0] > 0:
        return new_pages_share, new_domain_share
    n_domains = max(int(np.count_nonzero(groups.domain_pages)), 1)
    return 1.0, max(new_domain_share, 1.0 / n_domains)


@table_kernel
def start_growth(registers: Registers) -> None:
    """Begin to count growth once there were as many polls as there are pages."""
    if registers.growth_until[0] == 0 and registers.n_polls[0] >= registers.n_pages[0] > 0:
        registers.growth_until[0] = max(registers.now[0], 1)


@table_kernel
def part_of_pages(groups: Groups, registers: Registers, domain: int) -> float:
    """Return the share of a domain in the pages of the shard, before their present growth.

    It is 0 while the shard is filled.
    """
    if registers.growth_until[0] == 0:
        return 0.0
    pages = max(float(registers.growth_pages[0]), 1.0)
    return min(number_of(groups.growth_pages[domain]) / pages, 1.0)


@table_kernel
def _shard_step_ms(registers: Registers, rules: Rules) -> int:
    """Return the milliseconds that the normal growth of a shard allows for one page."""
    pace = max(rules.growth_share * registers.growth_pages[0], _SHARD_GROWTH_MIN)
    return int(_GROWTH_MS / pace)


@table_kernel
def _domain_step_ms(groups: Groups, registers: Registers, rules: Rules, domain: int) -> int:
    """Return the milliseconds that the normal growth of a domain allows for one page."""
    part = part_of_pages(groups, registers, domain)
    pace = max(
        rules.growth_share * number_of(groups.growth_pages[domain]),
        part * _SHARD_GROWTH_MIN,
        _DOMAIN_GROWTH_MIN_SHARE * registers.growth_pages[0],
        _DOMAIN_GROWTH_MIN,
    )
    return int(_GROWTH_MS / pace)


@table_kernel
def _grow(groups: Groups, registers: Registers, rules: Rules, group: int) -> int:
    """Count the growth by a page; return until when it is a newcomer in ms, 0 for not at all."""
    now = registers.now[0]
    domain = domain_of(groups, group)
    if registers.growth_until[0] <= now:
        registers.growth_until[0] = now
        registers.growth_pages[0] = registers.n_pages[0] - 1
    if groups.growth_until[domain] <= now:
        groups.growth_until[domain] = now
        groups.growth_pages[domain] = number_of(groups.domain_pages[domain]) - 1
    latest = now + int(1000.0 * rules.newcomer_max)
    until = groups.growth_until[domain] + _domain_step_ms(groups, registers, rules, domain)
    groups.growth_until[domain] = min(until, latest + _TOLERANCE_MS)
    if until - _TOLERANCE_MS <= now:
        # Only pages within the pace of their domain use up the growth of the shard.
        until = registers.growth_until[0] + _shard_step_ms(registers, rules)
        registers.growth_until[0] = min(until, latest + _TOLERANCE_MS)
        if until - _TOLERANCE_MS <= now:
            return 0
    return int(min(until - _TOLERANCE_MS, latest))


@table_kernel
def _filling_step_ms(groups: Groups, registers: Registers, rules: Rules, domain: int) -> int:
    """Return the milliseconds that normal growth of a domain allows, while a shard is filled.

    The pages of the other domains count, not all pages: a domain must not raise its own pace.
    """
    n_others = registers.n_pages[0] - number_of(groups.domain_pages[domain])
    pace = max(
        rules.growth_share * number_of(groups.growth_pages[domain]),
        _DOMAIN_GROWTH_MIN_SHARE * n_others,
        _DOMAIN_GROWTH_MIN,
    )
    return int(_GROWTH_MS / pace)


@table_kernel
def _grow_while_filled(groups: Groups, registers: Registers, rules: Rules, group: int) -> int:
    """Count a page of a shard that is being filled; return as `_grow` does."""
    now = registers.now[0]
    domain = domain_of(groups, group)
    if groups.ready_at[group] == 0 and groups.ready_at[domain] == 0:
        return 0  # nothing was ordered from it yet, so the page was not found there
    n_own = number_of(groups.domain_pages[domain])
    if registers.n_pages[0] - n_own <= _ALONE_SHARE * n_own:
        return 0
    if groups.growth_until[domain] <= now:
        groups.growth_until[domain] = now
        groups.growth_pages[domain] = n_own - 1
    latest = now + int(1000.0 * rules.newcomer_max)
    until = groups.growth_until[domain] + _filling_step_ms(groups, registers, rules, domain)
    groups.growth_until[domain] = min(until, latest + _TOLERANCE_MS)
    if until - _TOLERANCE_MS <= now:
        return 0
    return int(min(until - _TOLERANCE_MS, latest))


@table_kernel
def count_added(
    pages: Pages,
    groups: Groups,
    registers: Registers,
    rules: Rules,
    event: PagesAdded,
    valid: FlagArray,
) -> None:
    """Count added pages for their domains, and make those beyond normal growth newcomers."""
    is_limited = are_newcomers_limited(rules.new_pages_share, rules.new_domain_share)
    n_pages = registers.n_pages[0]
    for i in range(valid.size):
        n_pages -= 1 if valid[i] else 0
    n_after = registers.n_pages[0]
    registers.n_pages[0] = n_pages
    start_growth(registers)
    for i in range(valid.size):
        if not valid[i]:
            continue
        registers.n_pages[0] += 1
        slot = event.page[i] & 0xFFFFFFFF
        group = number_of(event.group[i])
        groups.domain_pages[domain_of(groups, group)] += np.uint32(1)
        pages.newcomer_until[slot] = 0
        if not is_limited or groups.flags[group] & GROUP_UNLIMITED:
            continue
        if registers.growth_until[0] == 0:
            until_ms = _grow_while_filled(groups, registers, rules, group)
        else:
            until_ms = _grow(groups, registers, rules, group)
        if until_ms > 0:
            until = min(max(until_ms // 1000 - EPOCH_SECONDS, 1), SECONDS_MAX)
            pages.newcomer_until[slot] = until
            registers.newcomers_until[0] = max(registers.newcomers_until[0], until)
    registers.n_pages[0] = n_after


@table_kernel
def count_removed(
    pages: Pages,
    groups: Groups,
    registers: Registers,
    rules: Rules,
    event: PagesRemoved,
    valid: FlagArray,
) -> None:
    """Count pages just removed for their domains; others may be added in their place."""
    for i in range(event.page.size):
        if not valid[i]:
            continue
        # A free slot keeps the group of its last page.
        slot = event.page[i] & 0xFFFFFFFF
        domain = domain_of(groups, number_of(pages.group[slot]))
        if groups.domain_pages[domain] > 0:
            groups.domain_pages[domain] -= np.uint32(1)
        if registers.growth_until[0] > 0:
            step = _domain_step_ms(groups, registers, rules, domain)
            groups.growth_until[domain] = max(groups.growth_until[domain] - step, 0)
            step = _shard_step_ms(registers, rules)
            registers.growth_until[0] = max(registers.growth_until[0] - step, 1)
        elif groups.growth_until[domain] > 0:
            step = _filling_step_ms(groups, registers, rules, domain)
            groups.growth_until[domain] = max(groups.growth_until[domain] - step, 0)


@table_kernel
def set_domains(groups: Groups, event: DomainsSet, groups_max: int, valid: FlagArray) -> None:
    """Set the domains of groups, and whether their pages may be newcomers."""
    for i in range(event.group.size):
        group, domain = number_of(event.group[i]), number_of(event.domain[i])
        if group >= groups_max or domain >= groups_max:
            continue
        # The credit is kept by a group that keeps its own, so that no chain forms.
        domain = group if domain == group else domain_of(groups, domain)
        before = domain_of(groups, group)
        if before != domain:
            n_pages = min(groups.n_pages[group], groups.domain_pages[before])
            groups.domain_pages[before] -= n_pages
            groups.domain_pages[domain] += n_pages
        groups.domain[group] = 0 if domain == group else domain + 1
        flags = number_of(groups.flags[group]) & ~GROUP_UNLIMITED
        groups.flags[group] = flags | (GROUP_UNLIMITED if event.is_unlimited[i] else 0)
        valid[i] = True


@table_kernel
def credit_max_of(registers: Registers) -> float:
    """Return the number of orders that credit may amount to."""
    return float(max(_CREDIT_MIN, _CREDIT_PER_PAGE * registers.n_pages[0]))


@table_kernel
def domain_share_of(
    groups: Groups,
    registers: Registers,
    domain: int,
    new_pages_share: float,
    new_domain_share: float,
) -> float:
    """Return the share of orders for newcomers of a domain.

    A domain that has most pages of the shard may have most of the share of all newcomers.
    """
    part = part_of_pages(groups, registers, domain)
    return max(new_domain_share, new_pages_share * part)


@table_kernel
def domain_credit_of(
    groups: Groups,
    registers: Registers,
    domain: int,
    new_pages_share: float,
    new_domain_share: float,
) -> float:
    """Return the number of orders that newcomers of a domain may have now."""
    share = domain_share_of(groups, registers, domain, new_pages_share, new_domain_share)
    earned = share * (registers.n_ordered[0] - groups.credited_order[domain])
    return float(min(groups.newcomer_credit[domain] + earned, credit_max_of(registers)))


@table_kernel
def charge_newcomers(
    pages: Pages,
    groups: Groups,
    registers: Registers,
    rules: Rules,
    event: Ordered,
    valid: FlagArray,
) -> None:
    """Charge the orders of newcomers to their credit, after `order_pages` has counted all orders.

    An order beyond the share, made because no other page was due, is free.  Debt is limited: users
    may have ordered pages by URL.
    """
    now = registers.now[0] // 1000 - EPOCH_SECONDS
    n_valid = 0
    for i in range(valid.size):
        n_valid += 1 if valid[i] else 0
    n_after = registers.n_ordered[0]
    n_charged = 0
    for i in range(valid.size):
        if not valid[i]:
            continue
        slot = event.page[i] & 0xFFFFFFFF
        if number_of(pages.newcomer_until[slot]) <= now:
            continue
        registers.n_newcomers_ordered[0] += 1
        if event.reason[i] == _SPARE:
            continue
        n_charged += 1
        domain = domain_of(groups, number_of(pages.group[slot]))
        if groups.credited_order[domain] < n_after:
            # What the orders of this batch earn is not limited by what credit may amount to.
            registers.n_ordered[0] = n_after - n_valid
            share = domain_share_of(
                groups, registers, domain, rules.new_pages_share, rules.new_domain_share
            )
            saved = domain_credit_of(
                groups, registers, domain, rules.new_pages_share, rules.new_domain_share
            )
            registers.n_ordered[0] = n_after
            groups.newcomer_credit[domain] = saved + share * n_valid
            groups.credited_order[domain] = n_after
        lowest = np.float32(-credit_max_of(registers))
        groups.newcomer_credit[domain] = max(
            groups.newcomer_credit[domain] - np.float32(1.0), lowest
        )
    credit = registers.newcomer_credit[0] + rules.new_pages_share * n_valid - n_charged
    most = credit_max_of(registers)
    registers.newcomer_credit[0] = min(max(credit, -most), most)
