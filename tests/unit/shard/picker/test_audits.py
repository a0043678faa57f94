"""Audits choose every copy with the same chance, also on hosts that are always busy."""

import numpy as np
import pytest
from numpy.typing import NDArray

from recrawl.shard import events as ev
from recrawl.shard.picker.queue.audits import (
    AUDIT_WAIT_SECONDS_MAX,
    WAITING_AUDITS_MAX,
    WaitingAudits,
)
from recrawl.shard.state.status import Reason, Verdict
from tests.reference.shards import Story, ms

N_PAGES = 60


def audited_pages(
    story: Story, first: float, n_decisions: int, *, step: float = 10.0, n: int = 3
) -> NDArray[np.int64]:
    """Let a shard decide every few seconds, fetch everything at once, and return audited pages."""
    found = []
    for k in range(n_decisions):
        at = first + k * step
        story.tick(at)
        orders = story.shard.decide(int(ms(at)), n)
        story.apply(orders)
        story.report(orders.page, Verdict.UNCHANGED, order=orders.order)
        found.append(orders.page[orders.reason == Reason.AUDIT])
    return np.concatenate(found)


def story_of_hosts(audit_share: float = 0.3) -> tuple[Story, NDArray[np.int64]]:
    """Return a shard with two hosts of the same size, of which the second is slow."""
    story = Story(picker="scan", audit_share=audit_share, group_delay=0.0)
    page = story.add(N_PAGES, group=np.repeat([0, 1], N_PAGES // 2))
    story.report(page, at=1)
    story.set_group(0, delay_ms=0, in_flight_max=1_000)
    story.set_group(1, delay_ms=35_000)
    return story, page


# Thousands of decisions like those of the other tests, for a share with a small error.
@pytest.mark.slow_without_jit
def test_a_busy_host_is_audited_as_often_as_a_free_one() -> None:
    story, page = story_of_hosts(audit_share=0.06)
    audited = audited_pages(story, 3_600, 2_500)
    n_slow = np.isin(audited, page[N_PAGES // 2 :]).sum()
    assert audited.size > 350
    # Both hosts have half of the pages; without waiting the slow one would have a fifth of audits.
    assert abs(n_slow / audited.size - 0.5) < 5 * 0.5 / np.sqrt(audited.size)


def test_an_audit_is_dropped_if_its_host_stays_blocked() -> None:
    story, page = story_of_hosts()
    slow = page[N_PAGES // 2 :]
    story.set_group(1, delay_ms=0, blocked_until_ms=int(ms(10 * AUDIT_WAIT_SECONDS_MAX)))
    audited = audited_pages(story, 3_600, 40)
    waiting = story.shard.picker._audits
    assert 0 < len(waiting) <= 40
    assert not np.isin(audited, slow).any()
    audited_pages(story, 3_600 + 2 * AUDIT_WAIT_SECONDS_MAX, 1, n=1)
    assert len(waiting) <= 1


def test_pages_below_their_shortest_interval_and_on_closed_hosts_are_not_audited() -> None:
    story, page = story_of_hosts()
    kept = page[:10]
    story.apply(
        ev.event_of(
            ev.LimitsSet,
            page=kept,
            interval_seconds_min=1e6,
            interval_seconds_max=np.inf,
            stale_seconds=0.0,
            stale_probability=0.0,
        )
    )
    story.set_group(1, is_closed=1)
    audited = audited_pages(story, 3_600, 60)
    assert audited.size > 20
    assert np.isin(audited, page[10 : N_PAGES // 2]).all()
    assert len(story.shard.picker._audits) == 0


def test_only_intervals_of_a_schedule_allow_audits_in_between() -> None:
    """A user may set the same shortest and longest interval; that is a limit of audits, too."""
    story, page = story_of_hosts()
    story.set_group(1, is_closed=1)
    of_users, of_schedule = page[:10], page[10:20]
    for some, stale_seconds in ((of_users, 0.0), (of_schedule, ev.SCHEDULE_STALE_SECONDS)):
        story.apply(
            ev.event_of(
                ev.LimitsSet,
                page=some,
                interval_seconds_min=1e6,
                interval_seconds_max=1e6,
                stale_seconds=stale_seconds,
                stale_probability=0.0,
            )
        )
    audited = audited_pages(story, 3_600, 60)
    assert np.isin(of_schedule, audited).any()
    assert np.isin(audited, page[10 : N_PAGES // 2]).all()
    # Other orders leave them alone before the interval is over, as they do with limits of users.
    story.tick(10_000)
    orders = story.shard.decide(int(ms(10_000)), N_PAGES)
    early = orders.page[orders.reason != Reason.AUDIT]
    assert not np.isin(early, page[:20]).any()


def test_the_number_of_waiting_audits_is_limited() -> None:
    story = Story(audit_share=0.1)
    page = story.add(WAITING_AUDITS_MAX + 10)
    story.report(page, at=1)
    story.set_group(0, blocked_until_ms=int(ms(1e6)))
    audits, tables, market = WaitingAudits(), story.shard.tables, story.shard.picker._market
    for slot in range(page.size):
        assert not audits.order(tables, market, int(ms(10)), slot)
    assert len(audits) == WAITING_AUDITS_MAX


def test_audits_leave_hosts_to_other_pages_of_the_same_decision() -> None:
    """One host with one fetch at a time is leased from, however many audits a lease contains."""
    story = Story(picker="scan", audit_share=0.3, group_delay=1.0)
    page = story.add(20)
    story.report(page, at=1)
    for k in range(50):
        at = 100.0 + 10 * k
        story.tick(at)
        orders = story.shard.decide(int(ms(at)), 16)
        assert orders.page.size == 1
        story.apply(orders)
        story.report(orders.page, Verdict.UNCHANGED, order=orders.order)
    assert 5 <= story.register("n_audited") <= 30
