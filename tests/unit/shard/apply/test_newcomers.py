"""Pages beyond the normal growth of their domain have a limited share of orders."""

from typing import Any

import numpy as np
import pytest

from recrawl.shard import events as ev
from recrawl.shard.shard import Shard
from recrawl.shard.state.status import Reason
from recrawl.shard.state.tables import GROUP_CLOSED, GROUP_UNLIMITED
from tests.reference.shards import DAY, Story, ms, shard_seconds, write_snapshot

N_PAGES = 200


def established(n_pages: int = N_PAGES, n_hosts: int = 10, **settings: Any) -> Story:
    """Return a shard whose pages have all been polled and change often, at day 2."""
    story = Story(**settings)
    pages = story.add(n_pages, group=np.arange(n_pages) % n_hosts)
    for day in (0.01, 0.5, 1.0):
        story.fetch(pages, 1, at=day * DAY)
    story.tick(2 * DAY)
    return story


def newcomers(story: Story, page: Any) -> int:
    until = story.shard.tables.pages.newcomer_until[ev.slot_of_page(page)]
    return int((until > shard_seconds(2 * DAY)).sum())


def domain(story: Story, group: Any, keeper: int, *, is_unlimited: int = 0) -> None:
    story.apply(ev.event_of(ev.DomainsSet, group=group, domain=keeper, is_unlimited=is_unlimited))


def share_of_orders(story: Story, page: Any, n: int, per_decision: int = 5) -> float:
    """Return the share of the pages among the next ``n`` orders, each reported at once."""
    story.budget(per_decision, 750.0, burst_seconds=3600.0)
    n_own = n_all = 0
    for k in range(n // per_decision):
        at = 2.4 * DAY + 600.0 * k
        story.tick(at)
        orders = story.shard.decide(ms(at), per_decision)
        story.apply(orders)
        story.report(orders.page, 1, order=orders.order)
        n_own += int(np.isin(orders.page, page).sum())
        n_all += orders.page.size
    assert n_all >= 0.7 * n
    return n_own / n_all


def test_pages_of_a_shard_that_is_being_filled_are_not_newcomers() -> None:
    story = Story()
    first = story.add(100)
    story.fetch(first, at=1.0)
    story.tick(2 * DAY)
    assert newcomers(story, story.add(5_000, at=2 * DAY)) == 0


def filling(n_hosts: int = 10, **settings: Any) -> Story:
    """Return a shard that is being filled, at day 2: other hosts have pages to fetch."""
    story = Story(**settings)
    pages = story.add(20 * n_hosts, group=np.arange(20 * n_hosts) % n_hosts)
    story.order(pages)
    story.fetch(pages, 1, at=0.5 * DAY)
    story.tick(DAY)
    story.add(400, at=DAY, group=100 + np.arange(400) % (n_hosts - 1))
    story.tick(2 * DAY)
    return story


def test_a_site_that_grows_while_it_is_crawled_brings_newcomers_before_a_shard_is_filled() -> None:
    story = filling()
    # Twenty pages of the hundred that a domain may grow by in thirty days come at once.
    page = story.add(1_000, at=2 * DAY, group=9)
    assert newcomers(story, page) == 980
    # Nobody has fetched from this host: its pages were given, not found.
    assert newcomers(story, story.add(1_000, at=2 * DAY, group=50)) == 0
    assert story.register("growth_until") == 0
    assert story.replay().digest() == story.shard.digest()


def test_pages_removed_while_a_shard_is_filled_make_room() -> None:
    story = filling()
    page = story.add(20, at=2 * DAY, group=9)
    story.apply(ev.event_of(ev.PagesRemoved, page=page[:10]))
    assert newcomers(story, story.add(20, at=2 * DAY, group=9)) == 10


def test_a_site_that_is_nearly_alone_has_no_limit_while_a_shard_is_filled() -> None:
    story = Story()
    pages = story.add(1_000, group=(np.arange(1_000) < 40).astype(int))
    story.order(pages)
    story.fetch(pages, 1, at=0.5 * DAY)
    story.tick(2 * DAY)
    assert newcomers(story, story.add(5_000, at=2 * DAY, group=0)) == 0
    # 2 % of the 5,960 others in thirty days is normal growth, and six days of that come at once.
    assert newcomers(story, story.add(5_000, at=2 * DAY, group=1)) == 4_977


@pytest.mark.parametrize("picker", ["scan", "sweep"])
@pytest.mark.parametrize(
    ("n_hosts", "share"),
    [pytest.param(40, 0.05, marks=pytest.mark.slow_without_jit), (5, 1 / 9), (2, 1 / 3)],
)
def test_a_site_has_an_equal_share_while_a_shard_is_filled(
    picker: str, n_hosts: int, share: float
) -> None:
    story = filling(n_hosts, picker=picker, sweep_seconds=1.0)
    page = story.add(300, at=2 * DAY, group=n_hosts - 1)
    found = share_of_orders(story, page[20:], 150)
    # Credit for eight orders was saved up.
    assert share - 0.02 <= found <= share + 8 / 150 + 0.01


def test_a_found_page_is_like_others_once_it_is_fetched_while_a_shard_is_filled() -> None:
    story = filling()
    page = story.add(100, at=2 * DAY, group=9)
    assert newcomers(story, page) == 80
    story.fetch(page[50:], 1, at=2.1 * DAY)
    assert newcomers(story, page) == 30


def test_pages_beyond_normal_growth_are_newcomers() -> None:
    story = established()
    page = story.add(1_000, at=2 * DAY, group=50)
    # A domain may grow by a hundred pages in thirty days, and save up six days of that.
    assert newcomers(story, page) == 980
    until = story.shard.tables.pages.newcomer_until[ev.slot_of_page(page)]
    assert until.max() == shard_seconds(92 * DAY), "a newcomer stays one for ninety days at most"
    assert story.replay().digest() == story.shard.digest()


def test_a_large_domain_may_grow_faster_than_a_small_one() -> None:
    story = established(4_000, 4)
    assert newcomers(story, story.add(100, at=2 * DAY, group=0)) == 0
    assert newcomers(story, story.add(100, at=2 * DAY, group=9)) == 80


def test_a_site_that_adds_articles_every_day_has_no_newcomers() -> None:
    story = established(2_000, 1)
    for day in range(2, 60):
        story.tick(day * DAY)
        page = story.add(50, at=day * DAY)
        until = story.shard.tables.pages.newcomer_until[ev.slot_of_page(page)]
        assert until.max() == 0, day


def test_pages_of_a_young_shard_are_not_newcomers() -> None:
    story = Story()
    first = story.add(200)
    story.fetch(first, at=1.0)
    story.fetch(first[:100], at=DAY)
    story.tick(2 * DAY)
    assert newcomers(story, story.add(800, at=2 * DAY)) == 0


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("picker", ["scan", "sweep"])
def test_an_ample_budget_fetches_all_newcomers_within_a_day(picker: str) -> None:
    story = established(200, 1, picker=picker, sweep_seconds=1.0)
    page = story.add(800, at=2 * DAY)
    assert newcomers(story, page) == 600
    story.budget(500, 3600.0, burst_seconds=3600.0)
    for k in range(24):
        at = 2 * DAY + 3600.0 * (k + 1)
        story.tick(at)
        orders = story.shard.decide(ms(at), 500)
        story.apply(orders)
        story.report(orders.page, 1, order=orders.order)
    assert (story.shard.tables.pages.fetched_at[ev.slot_of_page(page)] > 0).all()


def test_pages_that_users_order_by_url_leave_little_debt() -> None:
    story = established()
    page = story.add(1_000, at=2 * DAY, group=50)
    story.order(page[100:600])
    assert story.register("newcomer_credit") == -8
    assert story.shard.tables.groups.newcomer_credit[50] == -8


def test_a_small_shard_may_double_at_once() -> None:
    story = established(200, 1)
    assert newcomers(story, story.add(200, at=2 * DAY)) == 0


def test_pages_on_many_domains_are_newcomers_if_the_shard_grows_too_fast() -> None:
    story = established()
    page = story.add(1_000, at=2 * DAY, group=100 + np.arange(1_000))
    assert newcomers(story, page) == 800


def test_hosts_of_one_domain_share_its_growth() -> None:
    story = established()
    domain(story, np.arange(100, 200), 100)
    page = story.add(100, at=2 * DAY, group=100 + np.arange(100))
    assert newcomers(story, page) == 80


def test_pages_that_replace_removed_ones_are_not_newcomers() -> None:
    story = established(400, 1)
    n_newcomers = 0
    for day in range(2, 30):
        story.tick(day * DAY)
        oldest = np.flatnonzero(story.shard.tables.pages.status[:400] != 0)[:30]
        generation = story.shard.tables.pages.generation[oldest]
        story.remove(ev.page_of(oldest, generation))
        page = story.add(30, at=day * DAY)
        until = story.shard.tables.pages.newcomer_until[ev.slot_of_page(page)]
        n_newcomers += int((until > 0).sum())
    assert n_newcomers == 0
    assert story.shard.tables.groups.domain_pages[0] == 400


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("picker", ["scan", "sweep"])
def test_newcomers_of_a_domain_get_their_share_and_no_more(picker: str) -> None:
    story = established(picker=picker, sweep_seconds=1.0)
    page = story.add(1_000, at=2 * DAY, group=50)[20:]
    assert 0.04 <= share_of_orders(story, page, 600) <= 0.09
    assert story.replay().digest() == story.shard.digest()


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("picker", ["scan", "sweep"])
def test_newcomers_of_many_domains_together_get_their_share(picker: str) -> None:
    story = established(picker=picker, sweep_seconds=1.0)
    page = story.add(1_000, at=2 * DAY, group=100 + np.arange(1_000))[200:]
    for day in (2.1, 2.2, 2.3):
        story.fetch(ev.page_of(np.arange(200, 400), 0), 1, at=day * DAY)
    assert 0.17 <= share_of_orders(story, page, 600) <= 0.25


def test_one_decision_for_many_orders_keeps_the_shares() -> None:
    story = established(2_000, 10)
    page = story.add(1_000, at=2 * DAY, group=50)[20:]
    for k in range(4):
        at = 2 * DAY + 600.0 * k
        story.tick(at)
        orders = story.shard.decide(ms(at), 400)
        story.apply(orders)
        story.report(orders.page, order=orders.order)
        assert np.isin(orders.page, page).sum() == pytest.approx(20, abs=9), k


@pytest.mark.parametrize("picker", ["scan", "sweep"])
def test_newcomers_take_what_no_other_page_can_use(picker: str) -> None:
    story = established(picker=picker, sweep_seconds=1.0)
    page = story.add(1_000, at=2 * DAY, group=50)
    for group in range(10):
        story.set_group(group, is_closed=1)
    orders = story.shard.decide(ms(2 * DAY), 500)
    assert orders.page.size == 500
    assert np.isin(orders.page, page).all()
    assert (orders.reason == Reason.SPARE).sum() > 400
    story.apply(orders)
    assert story.register("newcomer_credit") > -1, "orders that nobody else could use are free"


def test_a_domain_with_most_pages_may_use_most_of_the_share_of_newcomers() -> None:
    story = established(n_hosts=1)
    page = story.add(1_000, at=2 * DAY)[200:]
    assert 0.15 <= share_of_orders(story, page, 400) <= 0.28


def test_users_lift_the_limit_of_a_host() -> None:
    story = established()
    page = story.add(1_000, at=2 * DAY, group=50)
    assert newcomers(story, page) > 0
    domain(story, 50, 50, is_unlimited=1)
    assert newcomers(story, page) == 0
    assert newcomers(story, story.add(1_000, at=2 * DAY, group=50)) == 0
    story.set_group(50, is_closed=1)
    assert story.shard.tables.groups.flags[50] & (GROUP_UNLIMITED | GROUP_CLOSED) == (
        GROUP_UNLIMITED | GROUP_CLOSED
    )


def test_shares_of_one_switch_the_limits_off() -> None:
    story = established(new_pages_share=1.0, new_domain_share=1.0)
    assert newcomers(story, story.add(1_000, at=2 * DAY, group=50)) == 0


def test_a_snapshot_keeps_newcomers_and_credit() -> None:
    story = established()
    page = story.add(1_000, at=2 * DAY, group=50)
    share_of_orders(story, page, 50)
    manifest, data = write_snapshot(story.shard.snapshot("1"))
    restored, _ = Shard.restore(manifest, data)
    assert restored.digest() == story.shard.digest()


def test_a_group_changes_its_domain_with_its_pages() -> None:
    story = established(20, 2)
    domain(story, [0, 1], 7)
    assert story.shard.tables.groups.domain_pages[[0, 1, 7]].tolist() == [0, 0, 20]
    domain(story, 1, 1)
    assert story.shard.tables.groups.domain_pages[[0, 1, 7]].tolist() == [0, 10, 10]
    # The credit of a domain is never kept by a group that belongs to another one.
    domain(story, 3, 0)
    assert story.shard.tables.groups.domain[3] == 8
