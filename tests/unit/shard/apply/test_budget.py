"""Budgets: named runs keep what they have spent, and credit can be moved."""

import numpy as np
import pytest

from recrawl.shard import Shard
from recrawl.shard import events as ev
from recrawl.shard.state.snapshot import ADDED_COLUMNS, ADDED_TABLES
from recrawl.shard.state.status import Verdict
from recrawl.shard.state.tables import RUNS_MAX
from tests.reference.shards import DAY, HOUR, Story


def set_run_budget(story: Story, amount: float, **columns: float) -> bool:
    given = {"unit": 0, "price_mode": 0, "price": 0.0, **columns}
    return bool(story.apply(ev.event_of(ev.RunBudgetSet, amount=amount, **given)).valid.all())


def choose(story: Story, run: int, amount: float, epoch: int | None = None) -> bool:
    epoch = story.shard.epoch if epoch is None else epoch
    event = ev.event_of(ev.RunChosen, epoch=epoch, run=np.uint64(run), amount=amount)
    return bool(story.apply(event).valid.all())


def spend(story: Story, n: int, at: float) -> int:
    story.tick(at)
    orders = story.shard.decide(story.shard.now_ms, n)
    story.apply(orders)
    return int(orders.page.size)


@pytest.fixture
def story() -> Story:
    story = Story()
    story.set_group(0, in_flight_max=1_000, burst=1_000)
    story.add(100)
    return story


def test_nothing_is_spent_before_a_run_is_chosen(story: Story) -> None:
    assert set_run_budget(story, 7)
    assert spend(story, 50, DAY) == 0


def test_each_run_has_its_own_budget_and_continues_where_it_stopped(story: Story) -> None:
    set_run_budget(story, 7)
    assert choose(story, 1, 7)
    assert spend(story, 5, 1) == 5
    assert choose(story, 2, 7)
    assert spend(story, 50, 2) == 7
    assert choose(story, 1, 7)
    assert spend(story, 50, DAY) == 2
    assert [story.shard.run_spending(run) for run in (1, 2, 3)] == [7, 7, 0]


def test_a_run_keeps_its_spending_when_its_amount_or_the_budget_changes(story: Story) -> None:
    set_run_budget(story, 7)
    choose(story, 1, 7)
    assert spend(story, 5, 1) == 5
    set_run_budget(story, 9)
    choose(story, 1, 9)
    assert spend(story, 50, 2) == 4
    story.budget(30, HOUR)
    set_run_budget(story, 9)
    choose(story, 1, 9)
    assert spend(story, 50, 3) == 0


def test_only_the_latest_runs_are_remembered(story: Story) -> None:
    set_run_budget(story, 1)
    for run in range(1, RUNS_MAX + 2):
        story.tick(run)
        choose(story, run, 1)
        spend(story, 1, run)
        story.apply(ev.event_of(ev.LeasesReleased, order=story.register("next_order") - 1))
    assert story.shard.run_spending(1) == 0
    assert story.shard.run_spending(2) == story.shard.run_spending(RUNS_MAX + 1) == 1


def test_impossible_runs_are_void(story: Story) -> None:
    assert not choose(story, 1, 7)  # the budget is not per run
    assert not set_run_budget(story, 0)
    assert not set_run_budget(story, np.inf)
    assert set_run_budget(story, 7)
    assert not choose(story, 0, 7)
    assert not choose(story, 1, np.nan)
    assert not choose(story, 1, 7, epoch=story.shard.epoch - 1)


def test_a_page_that_robots_txt_forbids_costs_nothing(story: Story) -> None:
    set_run_budget(story, 7)
    choose(story, 1, 7)
    story.tick(1)
    orders = story.shard.decide(story.shard.now_ms, 50)
    story.apply(orders)
    story.report(orders.page[:2], Verdict.DISALLOWED, order=orders.order[:2])
    assert story.shard.run_spending(1) == 5
    story.report(orders.page[:2], Verdict.DISALLOWED, order=orders.order[:2])  # void: told twice
    story.report(orders.page[2:4], Verdict.TRANSIENT_ERROR, order=orders.order[2:4])
    assert story.shard.run_spending(1) == 5
    story.report(orders.page[4:], Verdict.DISALLOWED, order=orders.order[4:])
    assert story.shard.run_spending(1) == 2
    story.report(story.add(1), Verdict.DISALLOWED)  # fetched without an order
    assert story.shard.run_spending(1) == 2
    assert spend(story, 50, 2) == 5


def test_what_is_given_back_does_not_exceed_what_may_be_saved(story: Story) -> None:
    story.budget(1.0, 1.0, burst_seconds=5.0)
    story.tick(100)
    orders = story.shard.decide(story.shard.now_ms, 50)
    story.apply(orders)
    assert orders.page.size == 5
    story.tick(200)
    story.report(orders.page, Verdict.DISALLOWED, order=orders.order)
    assert spend(story, 50, 200) == 5


def test_credit_is_set_up_to_what_may_be_saved(story: Story) -> None:
    story.budget(10, DAY, burst_seconds=DAY)
    event = ev.event_of(ev.CreditSet, credit=4.0)
    assert story.apply(event).valid.all()
    assert spend(story, 50, 1) == 4
    story.apply(event._replace(credit=np.array([50.0])))
    assert spend(story, 50, 2) == 10
    assert not story.apply(event._replace(credit=np.array([np.nan]))).valid.any()
    set_run_budget(story, 7)
    assert not story.apply(event).valid.any()


def test_runs_survive_a_snapshot(story: Story) -> None:
    set_run_budget(story, 7)
    choose(story, 1, 7)
    spend(story, 5, 1)
    snapshot = story.shard.snapshot("9")
    buffer = np.zeros(snapshot.n_bytes, np.uint8)
    for offset, data in snapshot:
        buffer[offset : offset + data.size] = data
    again, _ = Shard.restore(snapshot.manifest, buffer)
    assert again.digest() == story.shard.digest()
    assert again.run_spending(1) == 5


def test_columns_of_runs_are_new_in_format_4() -> None:
    assert ADDED_TABLES["runs"] == (4, RUNS_MAX)
    assert ADDED_COLUMNS["registers", "run_budget"] == (4, 0.0)


def set_quota(story: Story, per_second: float, at: float, **columns: float) -> bool:
    given = {"burst_seconds": 10.0, "unit": 0, "price_mode": 0, "price": 0.0, **columns}
    epoch = given.pop("epoch", story.shard.epoch)
    event = ev.event_of(
        ev.QuotaSet,
        epoch=epoch,
        at_ms=story.shard.now_ms + round(1000 * at),
        per_second=per_second,
        period_seconds=HOUR,
        **given,
    )
    return bool(story.apply(event).valid.all())


def test_a_quota_keeps_what_was_earned_and_gives_nothing(story: Story) -> None:
    assert set_quota(story, 1.0, 0.0)
    assert story.register("credit") == 0.0  # it was unlimited, and had saved nothing
    assert set_quota(story, 4.0, 5.0)
    assert story.register("credit") == 5.0  # five seconds of the quota before
    assert story.register("credit_max") == 40.0
    assert story.register("budget") == 4.0
    assert set_quota(story, 0.2, 1.0)
    assert story.register("credit") == 2.0  # nine are more than may be saved up now
    assert set_quota(story, 4.0, 0.0)
    assert story.register("credit") == 2.0
    assert set_quota(story, np.inf, 0.0)
    assert story.register("credit") == np.inf


def test_a_quota_of_another_owner_changes_nothing(story: Story) -> None:
    assert set_quota(story, 1.0, 0.0)
    before = story.shard.now_ms
    assert not set_quota(story, 9.0, 5.0, epoch=story.shard.epoch - 1)
    assert story.register("budget") == 1.0
    assert story.shard.now_ms == before
    assert not set_quota(story, -1.0, 5.0)
    assert not set_quota(story, np.nan, 5.0)
    assert not set_quota(story, 1.0, 5.0, unit=2)
