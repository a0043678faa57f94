"""A shard with dead fetchers, zombies, jumping clocks and lost, late and duplicate events."""

from typing import Literal

import pytest

from recrawl.shard import events as ev
from recrawl.sim.faults.laws import BrokenLawError, Laws
from recrawl.sim.faults.run import run_faults
from tests.conftest import JIT_DISABLED
from tests.reference.shards import Story, ms

N_EVENTS = 1_000 if JIT_DISABLED else 20_000


@pytest.mark.parametrize("picker", ["scan", "sweep"])
def test_every_law_holds_whatever_goes_wrong(seed: int, picker: Literal["scan", "sweep"]) -> None:
    report = run_faults(seed, N_EVENTS, picker=picker)
    assert report.n_events >= N_EVENTS
    assert report.n_handed_out <= report.n_orders
    assert report.n_orders > N_EVENTS / 50
    if N_EVENTS >= 20_000:
        assert min(report.n_restarts, report.n_claims, report.n_void) > 3


def test_the_same_seed_is_the_same_run() -> None:
    assert run_faults(7, 800) == run_faults(7, 800)
    assert run_faults(7, 800).digest != run_faults(8, 800).digest


# Each law is broken once, by a log that no shard would propose.


def watched() -> tuple[Laws, Story]:
    """Return laws that watch the shard of a story with six pages in two groups."""
    story = Story(group_delay=10.0, group_in_flight_max=1)
    laws = Laws(story.shard)
    story.apply = laws.follow  # type: ignore[method-assign]
    story.add(6, group=[0, 0, 0, 1, 1, 1])
    return laws, story


def test_a_second_order_in_flight_is_noticed() -> None:
    _, story = watched()
    story.order(0)
    with pytest.raises(BrokenLawError, match="group 0 has 2 in flight"):
        story.order(1)


def test_an_order_within_the_delay_is_noticed() -> None:
    _, story = watched()
    order = story.order(0)
    story.report(0, order=order, at=1)
    with pytest.raises(BrokenLawError, match="delay"):
        story.order(1, at=9)


def test_an_order_beyond_the_burst_is_noticed() -> None:
    _, story = watched()
    story.set_group(0, delay_ms=10_000, in_flight_max=9, burst=2)
    story.order([0, 1])
    with pytest.raises(BrokenLawError, match="too often"):
        story.order(2, at=9)


def test_an_order_from_a_closed_group_is_noticed() -> None:
    _, story = watched()
    story.set_group(0, is_closed=1)
    with pytest.raises(BrokenLawError, match="closed"):
        story.order(0)


def test_an_overspent_budget_is_noticed() -> None:
    _, story = watched()
    story.budget(1, 1, burst_seconds=1)
    story.order(0)
    with pytest.raises(BrokenLawError, match="budget"):
        story.order(3, at=0.5)


def test_an_order_missing_from_the_log_is_noticed() -> None:
    laws, story = watched()
    order = int(story.order(0)[0])
    with pytest.raises(BrokenLawError, match="not in the log"):
        laws.hand_out(order, 1)
    with pytest.raises(BrokenLawError, match="not in the log"):
        laws.hand_out(order + 1, 0)
    laws.hand_out(order, 0)
    with pytest.raises(BrokenLawError, match="twice"):
        laws.hand_out(order, 0)


def test_counters_that_do_not_add_up_are_noticed() -> None:
    for spoil in ("in_flight", "n_pages", "n_free"):
        _, story = watched()
        getattr(story.shard.tables.registers, spoil)[0] += 1
        with pytest.raises(BrokenLawError):
            story.tick(1)
    laws, story = watched()
    story.order(0)
    story.shard.tables.groups.in_flight[0] = 0
    with pytest.raises(BrokenLawError, match="in a group"):
        laws.follow(ev.event_of(ev.Ticked, epoch=1, at_ms=ms(1), price=1))
