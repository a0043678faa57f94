"""Orders and leases: valid orders, pages held, and late reports."""

import numpy as np
import pytest

from recrawl.shard import events as ev
from recrawl.shard.due import ready_at_of
from recrawl.shard.state.status import LeaseStage, Verdict
from tests.reference.shards import DAY, START_MS, Story, ms


def stage_of(story: Story, order: int) -> int:
    leases = story.shard.tables.leases
    return int(leases.stage[order & (leases.stage.size - 1)])


def in_flight(story: Story, group: int = 0) -> int:
    return int(story.shard.tables.groups.in_flight[group])


def end(story: Story, kind: type[ev.Event], order: object, **columns: object) -> np.ndarray:
    return story.apply(ev.event_of(kind, order=order, **columns)).valid


def expire(story: Story, order: object, at: float, epoch: int | None = None) -> np.ndarray:
    epoch = story.shard.epoch if epoch is None else epoch
    return end(story, ev.LeasesExpired, order, at_ms=ms(at), epoch=epoch)


def test_an_order_holds_its_page_until_the_report() -> None:
    story = Story()
    page = story.add(1)
    order = story.order(page)
    assert story.is_held(page)
    assert (story.register("in_flight"), in_flight(story)) == (1, 1)
    assert story.report(page, order=order, at=1).valid.all()
    assert not story.is_held(page)
    assert (story.register("in_flight"), in_flight(story)) == (0, 0)


def test_a_page_in_flight_is_not_ordered_twice() -> None:
    story = Story()
    page = story.add(1)
    story.order(page)
    second = story.order(page)
    assert not story.ordered.valid.any()
    assert story.register("in_flight") == 1
    # The void order still uses up a number, and its report is void.
    assert not story.report(page, order=second, at=1).valid.any()
    assert story.register("in_flight") == 1


def test_order_numbers_out_of_sequence_are_void() -> None:
    story = Story()
    page = story.add(3)
    first = story.register("next_order")
    story.order(page, order=[first + 1, first, first])
    assert story.ordered.valid.tolist() == [False, True, False]
    story.order(page[2], order=first)
    assert not story.ordered.valid.any()


def test_a_proposal_that_is_logged_twice_counts_once() -> None:
    story = Story()
    page = story.add(4)
    story.order(page[:2])
    again = story.log[-1]
    assert not story.apply(again).valid.any()
    assert story.register("in_flight") == 2


def test_orders_of_an_older_or_a_later_epoch_are_void() -> None:
    story = Story()
    page = story.add(2)
    story.claim(5, at=10)
    now = story.shard.now_ms
    for epoch in (1, 4, 6):
        story.order(page, at=DAY, epoch=epoch)
        assert not story.ordered.valid.any()
    assert (story.register("in_flight"), story.shard.now_ms) == (0, now)
    story.order(page)
    assert story.ordered.valid.all()


def test_only_the_owners_rows_of_a_mixed_batch_move_time() -> None:
    story = Story()
    page = story.add(2)
    order = story.register("next_order")
    event = ev.event_of(
        ev.Ordered,
        epoch=[1, 0],
        at_ms=[ms(5), ms(9999)],
        order=[order, order + 1],
        page=page,
        expires_at_ms=ms(500),
        reason=0,
    )
    assert story.apply(event).valid.tolist() == [True, False]
    assert story.shard.now_ms == ms(5)


def test_a_report_twice_counts_once() -> None:
    story = Story()
    page = story.add(1)
    story.fetch(page, at=0)
    order = story.order(page, at=DAY)
    event = story.report(page, Verdict.CHANGED, order=order, at=DAY + 1)
    assert event.valid.all()
    assert not story.report(page, Verdict.CHANGED, order=order, at=DAY + 2).valid.any()
    story.tick(DAY + 100)
    assert not story.report(page, Verdict.CHANGED, order=order, at=DAY + 50).valid.any()
    assert story.register("n_changed") == 1


def test_a_late_report_after_the_lease_ran_out_counts_once() -> None:
    story = Story()
    page = story.add(1)
    order = story.order(page, lasts=60)
    story.tick(100)
    assert expire(story, order, 100).all()
    assert not story.is_held(page)
    assert stage_of(story, int(order[0])) == LeaseStage.EXPIRED
    assert story.report(page, Verdict.CHANGED, order=order, at=90).valid.all()
    assert not story.report(page, Verdict.CHANGED, order=order, at=95).valid.any()
    assert story.register("in_flight") == 0
    assert in_flight(story) == 0


def test_a_late_report_leaves_the_next_order_of_its_page_in_flight() -> None:
    story = Story()
    page = story.add(1)
    first = story.order(page, lasts=60)
    story.tick(100)
    expire(story, first, 100)
    second = story.order(page)
    assert story.report(page, order=first, at=100).valid.all()
    assert story.is_held(page)
    assert story.register("in_flight") == 1
    story.tick(200)
    assert story.report(page, order=second, at=200).valid.all()
    assert not story.is_held(page)


def test_an_order_is_forgotten_after_its_grace_and_its_report_void() -> None:
    story = Story(lease_grace_seconds=600)
    page = story.add(2)
    orders = story.order(page, lasts=60)
    story.tick(61)
    expire(story, orders[:1], 61)
    assert story.report(page[1], order=orders[1], at=61).valid.all()
    story.tick(659)
    assert story.register("first_order") == orders[0]
    story.tick(660)
    assert story.register("first_order") == orders[1] + 1
    assert not story.report(page, order=orders, at=660).valid.any()
    assert not story.shard.tables.leases.page.any()


def test_an_order_in_flight_is_never_forgotten() -> None:
    story = Story(lease_grace_seconds=1)
    page = story.add(2)
    orders = story.order(page)
    story.report(page[1], order=orders[1])
    story.tick(30 * DAY)
    assert story.register("first_order") == orders[0]
    assert story.report(page[0], order=orders[0]).valid.all()


def test_a_released_order_frees_its_page_and_teaches_nothing() -> None:
    story = Story()
    page = story.add(1)
    order = story.order(page)
    assert end(story, ev.LeasesReleased, order).all()
    assert not end(story, ev.LeasesReleased, order).any()
    assert not story.is_held(page)
    assert not story.report(page, order=order, at=5).valid.any()
    assert story.of_page(page[0], "fetched_at") == 0


def test_a_lease_can_be_extended_up_to_the_longest() -> None:
    story = Story(lease_seconds_max=1000)
    page = story.add(1)
    order = story.order(page, lasts=60)
    assert story.shard.overdue(ms(100)).order.tolist() == order.tolist()
    assert end(story, ev.LeasesExtended, order, expires_at_ms=ms(500)).all()
    assert story.shard.overdue(ms(100)).order.size == 0
    assert end(story, ev.LeasesExtended, order, expires_at_ms=ms(5000)).all()
    assert story.shard.overdue(ms(999)).order.size == 0
    assert story.shard.overdue(ms(1000)).order.tolist() == order.tolist()
    story.tick(1000)
    expire(story, order, 1000)
    assert not end(story, ev.LeasesExtended, order, expires_at_ms=ms(1500)).any()


def test_only_the_owner_expires_leases() -> None:
    story = Story()
    page = story.add(1)
    order = story.order(page)
    story.claim(2)
    assert not expire(story, order, DAY, epoch=1).any()
    assert story.is_held(page)
    assert expire(story, order, 400).all()


def test_proposing_to_end_overdue_leases_changes_nothing() -> None:
    story = Story()
    page = story.add(5)
    orders = story.order(page, lasts=100, expires_at_ms=ms(np.array([100, 300, 200, 50, 400])))
    before = story.shard.digest()
    assert story.shard.overdue(ms(200)).order.tolist() == orders[[0, 2, 3]].tolist()
    assert story.shard.overdue(ms(200)).order.tolist() == orders[[0, 2, 3]].tolist()
    assert story.shard.digest() == before
    story.report(page[0], order=orders[0], at=200)
    assert story.apply(story.shard.overdue(ms(200))).valid.tolist() == [True, True]
    assert story.shard.overdue(ms(1000)).order.tolist() == orders[[1, 4]].tolist()


def test_reports_need_no_lease() -> None:
    story = Story()
    page = story.add(1)
    story.tick(10)
    assert story.report(page, at=10).valid.all()
    assert story.of_page(page[0], "fetched_at") > 0


def test_a_report_without_an_order_leaves_the_page_in_flight() -> None:
    story = Story()
    page = story.add(1)
    order = story.order(page)
    story.tick(10)
    story.report(page, at=10)
    assert story.is_held(page)
    story.tick(20)
    assert story.report(page, order=order, at=20).valid.all()
    assert not story.is_held(page)


def test_a_report_of_an_order_for_another_page_is_void() -> None:
    story = Story()
    page = story.add(2)
    order = story.order(page[0])
    assert not story.report(page[1], order=order, at=1).valid.any()
    assert story.is_held(page[0])


@pytest.mark.parametrize("order", [-1, 10**12, 2**62])
def test_a_report_of_an_unknown_order_is_void(order: int) -> None:
    story = Story()
    page = story.add(1)
    assert story.report(page, order=order, at=1).valid.any() == (order < 0)


def test_the_ring_of_leases_grows_around_those_in_flight() -> None:
    story = Story()
    page = story.add(300)
    first = story.order(page[:50])
    for k in range(0, 50, 2):
        story.report(page[k], order=first[k], at=1)
    second = story.order(page[50:])
    story.tick(2)
    assert story.report(page[1:50:2], order=first[1:50:2], at=2).valid.all()
    assert story.report(page[50:], order=second, at=2).valid.all()
    assert story.register("in_flight") == 0


def test_a_page_removed_in_flight_ends_its_lease_when_reported() -> None:
    story = Story()
    page = story.add(1, group=3)
    order = story.order(page)
    story.remove(page)
    again = story.add(1, group=4)
    assert ev.slot_of_page(again)[0] == ev.slot_of_page(page)[0]
    assert in_flight(story, 3) == 1
    assert not story.report(page, order=order, at=1).valid.any()
    assert (in_flight(story, 3), in_flight(story, 4)) == (0, 0)
    assert story.register("in_flight") == 0
    assert story.of_page(again[0], "fetched_at") == 0


def test_with_one_in_flight_the_delay_counts_from_the_report() -> None:
    story = Story()
    story.set_group(0, delay_ms=10_000)
    page = story.add(2)
    order = story.order(page[0], at=100)
    assert ready_at_of(story.shard.tables.groups, 0, ms(100)) == np.inf
    story.tick(130)
    story.report(page[0], order=order, at=105)
    assert ready_at_of(story.shard.tables.groups, 0, ms(100)) == ms(140)


@pytest.mark.parametrize(("reported", "ended"), [(103.0, 103.0), (99.0, 101.0), (5_000.0, 111.0)])
def test_a_former_owner_reports_later_than_the_last_time_in_the_log(
    reported: float, ended: float
) -> None:
    story = Story()
    story.set_group(0, delay_ms=10_000)
    page = story.add(2)
    order = story.order(page[0], at=100)
    former = story.shard.epoch
    story.claim(former + 1, at=101)
    # Its tick is void, so the report alone says when the fetch ended, within limits.
    assert not story.tick(reported, epoch=former).valid.any()
    story.report(page[0], order=order, at=reported)
    assert ready_at_of(story.shard.tables.groups, 0, ms(101)) == ms(ended + 10)


def test_with_one_in_flight_the_delay_counts_from_the_end_of_an_expired_lease() -> None:
    story = Story()
    story.set_group(0, delay_ms=10_000)
    page = story.add(2)
    orders = story.order(page[0], at=100)
    expire(story, orders, 500)
    assert ready_at_of(story.shard.tables.groups, 0, ms(100)) == ms(510)
    # A late report does not change that.
    story.tick(505)
    story.report(page[0], order=orders, at=505)
    assert ready_at_of(story.shard.tables.groups, 0, ms(100)) == ms(510)


def test_with_several_in_flight_orders_are_spaced_after_a_burst() -> None:
    story = Story()
    story.set_group(0, delay_ms=10_000, in_flight_max=10, burst=3)
    page = story.add(5)
    groups = story.shard.tables.groups
    story.order(page[:2], at=100)
    assert ready_at_of(groups, 0, START_MS) <= ms(100)
    story.order(page[2], at=100)
    assert ready_at_of(groups, 0, START_MS) == ms(110)
    story.order(page[3], at=110)
    assert ready_at_of(groups, 0, START_MS) == ms(120)
    # After a rest the full burst is available again, and no more.
    story.order(page[4], at=1000)
    assert ready_at_of(groups, 0, START_MS) == ms(990)


def test_a_group_never_exceeds_its_limit_in_flight() -> None:
    story = Story()
    story.set_group(0, in_flight_max=2)
    page = story.add(3)
    story.order(page[:2])
    assert ready_at_of(story.shard.tables.groups, 0, ms(100)) == np.inf


def test_closed_and_blocked_groups_wait() -> None:
    story = Story()
    story.add(1)
    groups = story.shard.tables.groups
    story.set_group(0, is_closed=1)
    assert ready_at_of(groups, 0, START_MS) == np.inf
    story.set_group(0, blocked_until_ms=ms(77))
    assert ready_at_of(groups, 0, START_MS) == ms(77)
    story.set_group(0)
    assert ready_at_of(groups, 0, START_MS) <= START_MS


def test_new_defaults_do_not_change_a_groups_own_policy() -> None:
    story = Story(group_delay=5.0)
    story.add(2, group=[0, 1])
    story.set_group(1, delay_ms=7)
    story.set_settings(Story(group_delay=9.0).settings)
    assert story.shard.tables.groups.delay_ms[:3].tolist() == [9000, 7, 9000]
    story.add(1, group=500)
    assert story.shard.tables.groups.delay_ms[500] == 9000


def test_the_last_policy_of_a_group_counts_and_impossible_ones_are_void() -> None:
    story = Story()
    event = ev.event_of(
        ev.GroupsSet,
        group=[2, 2, 3, 2**32 - 1],
        delay_ms=[1, 2, 3, 4],
        in_flight_max=[1, 1, 0, 1],
        burst=0,
        blocked_until_ms=0,
        is_closed=0,
    )
    assert story.apply(event).valid.tolist() == [True, True, False, False]
    groups = story.shard.tables.groups
    assert (groups.delay_ms[2], groups.burst[2], groups.flags[3]) == (2, 1, 0)


@pytest.mark.parametrize("delay", [3, 30])
def test_a_new_delay_counts_from_the_last_report(delay: int) -> None:
    story = Story()
    story.set_group(0, delay_ms=10_000)
    page = story.add(1)
    story.fetch(page, at=100)
    story.tick(105)
    story.set_group(0, delay_ms=delay * 1000)
    assert ready_at_of(story.shard.tables.groups, 0, ms(100)) == ms(100 + delay)
    story.set_group(0, delay_ms=delay * 1000)
    assert ready_at_of(story.shard.tables.groups, 0, ms(100)) == ms(100 + delay)


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (3, 2)])
def test_a_new_limit_in_flight_begins_with_a_delay(before: int, after: int) -> None:
    story = Story()
    story.set_group(0, delay_ms=10_000, in_flight_max=before, burst=3)
    page = story.add(1)
    story.fetch(page, at=100)
    story.tick(109)
    story.set_group(0, delay_ms=10_000, in_flight_max=after, burst=3)
    assert ready_at_of(story.shard.tables.groups, 0, ms(100)) == ms(119)


def test_a_group_never_fetched_from_is_ready_at_once() -> None:
    story = Story()
    story.add(1)
    story.tick(100)
    story.set_group(0, delay_ms=10_000, in_flight_max=2)
    assert ready_at_of(story.shard.tables.groups, 0, ms(100)) <= ms(100)


def test_a_new_default_delay_counts_from_the_last_report() -> None:
    story = Story(group_delay=10.0, group_in_flight_max=1)
    page = story.add(1)
    story.fetch(page, at=100)
    story.set_settings(Story(group_delay=30.0, group_in_flight_max=1).settings)
    assert ready_at_of(story.shard.tables.groups, 0, ms(100)) == ms(130)
