"""Time, ownership, budget and settings of a shard."""

import math
from typing import Any

import numpy as np
import pytest

from recrawl.errors import EventError
from recrawl.shard import events as ev
from recrawl.shard.settings import ShardSettings
from recrawl.shard.shard import Shard
from recrawl.shard.state.status import BudgetUnit, Verdict
from tests.reference.shards import DAY, HOUR, Story, ms

# ---------------------------------------------------------------- time and ownership


def test_time_is_the_owners_ticks_and_never_goes_back() -> None:
    story = Story()
    story.tick(100)
    assert story.shard.now_ms == ms(100)
    assert story.tick(50).valid.all()
    assert story.shard.now_ms == ms(100)
    assert not story.tick(DAY, epoch=0).valid.any()
    assert not story.tick(DAY, epoch=2).valid.any()
    assert story.shard.now_ms == ms(100)


def test_only_the_owners_clock_moves_time() -> None:
    story = Story()
    page = story.add(1, at=10 * DAY)
    order = story.order(page, at=5)
    story.report(page, Verdict.CHANGED, at=10 * DAY, order=order)
    story.signal(page, at=10 * DAY, claimed_at_ms=ms(10 * DAY))
    story.apply(ev.event_of(ev.RequestsSeen, page=page, n_requests=1, at_ms=ms(10 * DAY)))
    story.apply(ev.event_of(ev.LeasesExtended, order=order, expires_at_ms=ms(10 * DAY)))
    assert story.shard.now_ms == ms(5)
    pages = story.shard.tables.pages
    instants = (pages.first_seen, pages.fetched_at, pages.heard_at, pages.requested_at)
    now = story.shard.now_ms // 1000 - 631_152_000
    assert all(column[0] <= now for column in instants)


def test_a_higher_epoch_takes_over_and_an_equal_or_lower_one_does_not() -> None:
    story = Story()
    assert story.claim(3, at=10).valid.all()
    assert story.shard.epoch == 3
    assert not story.claim(3, at=DAY).valid.any()
    assert not story.claim(2, at=DAY).valid.any()
    assert (story.shard.epoch, story.register("owner")) == (3, 3)
    assert story.shard.now_ms == ms(10)


def test_decisions_of_old_epochs_are_void_and_change_nothing_but_their_count() -> None:
    story = Story()
    page = story.add(5)
    order = story.order(page[:2])
    zombie: list[ev.Event] = [
        ev.event_of(ev.Ticked, epoch=1, at_ms=ms(DAY), price=9.0),
        ev.event_of(
            ev.Ordered,
            epoch=1,
            at_ms=ms(DAY),
            order=order[1] + 1 + np.arange(3),
            page=page[2:],
            expires_at_ms=ms(2 * DAY),
            reason=0,
        ),
        ev.event_of(ev.LeasesExpired, epoch=1, at_ms=ms(DAY), order=order),
        ev.event_of(ev.PriorsSet, epoch=1, kind=0, shape=2.0, seconds=DAY),
        ev.event_of(ev.Claimed, owner=1, epoch=1, at_ms=ms(DAY)),
    ]
    story.claim(2)
    before, n_void = story.shard.digest(), story.register("n_void")
    for event in zombie:
        assert not story.apply(event).valid.any()
    assert story.register("n_void") == n_void + 1 + 3 + 2 + 1 + 1
    story.shard.tables.registers.n_void[0] = n_void
    assert story.shard.digest() == before


def test_void_rows_are_counted() -> None:
    story = Story()
    page = story.add(2)
    story.report([page[0], -1, 99], at=0)
    assert story.register("n_void") == 2


def test_proposals_and_reads_change_nothing() -> None:
    story = Story()
    page = story.add(50)
    story.budget(10, 1)
    story.fetch(page[:20], Verdict.CHANGED, at=HOUR)
    story.order(page[:3])
    before = story.shard.digest()
    for _ in range(3):
        story.shard.decide(ms(2 * HOUR), 7)
        story.shard.decide(ms(2 * HOUR), 7, exact=True)
        story.shard.overdue(ms(2 * HOUR))
        story.shard.tick(ms(2 * HOUR))
        story.shard.free_pages(100)
        story.shard.credit(ms(2 * HOUR))
        story.shard.learn_priors()
    assert story.shard.digest() == before


def test_the_same_log_gives_the_same_bytes() -> None:
    story = Story()
    page = story.add(200, group=np.arange(200) % 7, importance=np.arange(1, 201))
    for k in range(1, 30):
        story.tick(k * HOUR)
        orders = story.shard.decide(story.shard.now_ms, 10)
        assert story.apply(orders).valid.all()
        story.signal(page[k::11], source=k % 5)
        story.report(orders.page, k % 5, order=orders.order)
    copy = story.replay()
    assert copy.digest() == story.shard.digest()
    through_bytes = Shard(story.settings)
    through_bytes.apply_all(ev.decode_events(ev.encode_events(story.log)))
    assert through_bytes.digest() == story.shard.digest()
    page_by_page = Shard(story.settings)
    for event in story.log:
        if isinstance(event, ev.Outcomes | ev.Signals):
            for row in range(event.page.size):
                page_by_page.apply(ev.select_rows(event, slice(row, row + 1)))
        else:
            page_by_page.apply(event)
    columns: Any = zip(page_by_page.tables.pages, copy.tables.pages, strict=True)
    for mine, other in columns:
        assert mine[:200].tobytes() == other[:200].tobytes()


def test_an_empty_batch_of_any_kind_does_nothing() -> None:
    story = Story()
    page = story.add(3)
    story.order(page)
    before = story.shard.digest()
    for kind, dtypes in ev.DTYPES.items():
        empty = ev.event_of(kind, **{name: np.zeros(0, dtype) for name, dtype in dtypes.items()})
        assert story.apply(empty).valid.size == 0
    assert story.shard.digest() == before


# ---------------------------------------------------------------- budget


def spend(story: Story, at: float) -> int:
    """Order as many pages as the budget allows; return their number."""
    page = story.add(200, at=at)
    orders = story.shard.decide(ms(at), 100)
    assert story.apply(orders).valid.all()
    story.remove(page)
    return int(orders.page.size)


def test_without_a_budget_orders_are_unlimited() -> None:
    story = Story()
    assert story.shard.credit(ms(0)) == math.inf
    assert spend(story, 10) == 100


def test_a_budget_per_second_is_earned_as_time_passes() -> None:
    story = Story()
    story.budget(2, 1, burst_seconds=3)
    assert spend(story, 100) == 6
    assert spend(story, 100) == 0
    assert spend(story, 101) == 2
    assert spend(story, 101.4) == 0
    assert spend(story, 101.5) == 1
    assert spend(story, 1e6) == 6


def test_a_budget_per_day_is_spread_over_the_day() -> None:
    story = Story()
    story.budget(48, DAY, burst_seconds=HOUR)
    assert spend(story, 1) == 2
    assert spend(story, 1 + HOUR / 2) == 1
    assert spend(story, 1 + HOUR) == 1
    assert sum(spend(story, 1 + HOUR + k * HOUR / 2) for k in range(1, 25)) == 24


def test_a_budget_smaller_than_its_burst_still_allows_one_fetch() -> None:
    story = Story()
    story.budget(1, DAY, burst_seconds=1)
    assert spend(story, 0) == 1
    assert spend(story, DAY - 1) == 0
    assert spend(story, DAY) == 1


def test_a_budget_for_a_run_is_all_at_once_and_not_earned_again() -> None:
    story = Story()
    story.budget(5, 0)
    assert spend(story, 0) == 5
    assert spend(story, 10 * DAY) == 0
    story.budget(3, 0)
    assert spend(story, 10 * DAY) == 3


def test_a_budget_in_cost_counts_what_pages_cost() -> None:
    story = Story()
    story.budget(10, 1, unit=BudgetUnit.COST, burst_seconds=1)
    page = story.add(20, cost=4)
    orders = story.shard.decide(ms(0))
    # The last order may exceed the credit, which is negative afterwards.
    assert orders.page.size == 3
    story.apply(orders)
    assert story.shard.credit(ms(0)) == pytest.approx(-2, abs=0.01)
    assert story.shard.decide(ms(0.2)).page.size == 0
    assert story.shard.decide(ms(0.3)).page.size == 1
    assert page.size == 20


def test_a_new_budget_does_not_give_back_what_was_spent() -> None:
    story = Story()
    story.budget(10, 1)
    assert spend(story, 0) == 10
    story.budget(20, 1)
    assert spend(story, 0) == 0
    assert spend(story, 0.5) == 10


def test_a_smaller_budget_takes_away_what_was_saved() -> None:
    story = Story()
    story.budget(10, 1, burst_seconds=5)
    story.budget(2, 1, burst_seconds=1)
    assert spend(story, 100) == 2


def test_an_infinite_amount_is_an_unlimited_budget() -> None:
    story = Story()
    story.budget(3, 1)
    assert spend(story, 0) == 3
    for period in (0, 60):
        story.budget(math.inf, period, burst_seconds=0)
        story.tick(1)
        assert spend(story, 1) == 100


@pytest.mark.parametrize(
    "wrong",
    [
        {"amount": -1.0},
        {"amount": math.nan},
        {"period_seconds": -1.0},
        {"period_seconds": math.inf},
        {"period_seconds": math.nan},
        {"burst_seconds": math.inf},
        {"unit": 2},
        {"price_mode": 2},
        {"price": -1.0},
        {"price": math.nan},
    ],
)
def test_impossible_budgets_are_void(wrong: dict[str, float]) -> None:
    story = Story()
    assert not story.budget(**{"amount": 5.0, "period_seconds": 1.0, **wrong}).valid.any()
    assert story.shard.credit(ms(0)) == math.inf


def test_releasing_an_order_does_not_give_back_its_budget() -> None:
    story = Story()
    story.budget(1, DAY)
    page = story.add(2)
    orders = story.shard.decide(ms(0), 1)
    story.apply(orders)
    story.apply(ev.event_of(ev.LeasesReleased, order=orders.order))
    assert story.shard.decide(ms(0)).page.size == 0
    assert page.size == 2


# ---------------------------------------------------------------- settings


def test_settings_survive_json() -> None:
    settings = ShardSettings(belief_half_life=math.inf, objective="fragments", sweep_seconds=7)
    assert ShardSettings.from_json(settings.to_json()) == settings


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", '{"no_such": 1}', '{"group_delay": -1}', '{"group_delay": "x"}']
)
def test_settings_of_another_version_are_an_error_and_change_nothing(text: str) -> None:
    story = Story()
    story.add(3)
    before = story.shard.digest()
    good = ShardSettings(group_delay=77.0).to_json()
    with pytest.raises(EventError, match="settings"):
        story.apply(ev.event_of(ev.SettingsSet, settings=[good, text]))
    assert story.shard.digest() == before
    assert story.shard.settings == story.settings


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("group_delay", -1.0),
        ("group_delay", math.nan),
        ("group_delay", math.inf),
        ("group_delay", "x"),
        ("limits_max", 70_000),
        ("prior_shape", 0.0),
        ("prior_period", math.inf),
        ("signal_precision", 1.0),
        ("audit_share", 1.0),
        ("lease_seconds", 0.0),
        ("group_in_flight_max", 0),
        ("sources_per_page_max", 9),
        ("objective", "beauty"),
        ("estimator", "guess"),
        ("picker", "best"),
        ("last_modified", "maybe"),
    ],
)
def test_impossible_settings_are_rejected(name: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=name):
        ShardSettings(**{name: wrong})


def test_settings_before_the_first_claim_are_those_of_a_new_shard() -> None:
    """A node that was there before the first record has the state of a replay."""
    chosen = ShardSettings(prior_shape=0.5, prior_period=20.0)
    given = ev.event_of(ev.SettingsSet, settings=[chosen.to_json()])
    early, replayed = Shard(), Shard(chosen)
    for shard in (early, replayed):
        shard.apply(given)
    assert early.digest() == replayed.digest()
    # What was learned or assumed later stays.
    early.apply(ev.event_of(ev.Claimed, owner=1, epoch=1, at_ms=ms(1)))
    before = early.tables.priors.seconds.copy()
    early.apply(ev.event_of(ev.SettingsSet, settings=[ShardSettings().to_json()]))
    assert early.tables.priors.seconds.tolist() == before.tolist()
