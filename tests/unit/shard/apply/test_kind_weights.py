"""Weights of kinds: their effect on words, when they are void, and when they are proposed."""

import math

import numpy as np
import pytest

from recrawl.shard import events as ev
from recrawl.shard.apply import kind_weights as kinds_module
from recrawl.shard.apply.kind_weights import KIND_WEIGHT_MAX
from recrawl.shard.state.words import log2_weight_of
from tests.reference.shards import DAY, HOUR, Story, ms


def weighed(story: Story, **columns: object) -> ev.KindsWeighted:
    return ev.event_of(ev.KindsWeighted, **{"epoch": story.shard.epoch, **columns})


def octaves(story: Story, page: np.ndarray) -> list[float]:
    words = story.shard.tables.pages.word[ev.slot_of_page(page)]
    return [round(log2_weight_of(word), 1) for word in words]


def corpus(n: int = 400, per_day: float = 200.0) -> tuple[Story, np.ndarray]:
    """Return a story of four kinds, fetched once."""
    story = Story()
    page = story.add(n, kind=np.arange(n) % 4, group=np.arange(n) % 4)
    story.budget(per_day, DAY)
    story.fetch(page, 1, at=HOUR)
    return story, page


def test_a_weight_counts_for_present_and_future_pages_of_its_kind() -> None:
    story = Story()
    page = story.add(4, kind=[0, 1, 2, 1], importance=2.0)
    assert octaves(story, page) == [1.0, 1.0, 1.0, 1.0]
    assert story.apply(weighed(story, kind=[1, 2], weight=[8, 0.5])).valid.all()
    assert octaves(story, page) == [1.0, 4.0, 0.0, 4.0]
    found = story.shard.explain(int(page[1]))
    assert found is not None
    assert (found.importance, found.kind_weight) == (2.0, 8.0)
    later = story.add(2, kind=[1, 7])
    assert octaves(story, later) == [3.0, 0.0]
    story.apply(ev.event_of(ev.KindsSet, page=page[0], kind=1))
    assert octaves(story, page) == [4.0, 4.0, 0.0, 4.0]
    story.fetch(page, 1, at=HOUR)
    assert octaves(story, page) == [4.0, 4.0, 0.0, 4.0]
    story.apply(weighed(story, kind=1, weight=1))
    assert octaves(story, page) == [1.0, 1.0, 0.0, 1.0]


def test_weights_of_another_owner_and_impossible_ones_are_void() -> None:
    story = Story(kinds_max=10)
    page = story.add(2, kind=[0, 1])
    story.claim(5)
    before = story.shard.digest()
    for wrong in (
        {"epoch": 4, "weight": 2.0},
        {"epoch": 6, "weight": 2.0},
        {"weight": 0.0},
        {"weight": -1.0},
        {"weight": math.nan},
        {"weight": math.inf},
        {"weight": 2.0, "kind": 10},
    ):
        event = weighed(story, **{"kind": 1, **wrong})
        assert not story.apply(event).valid.any(), wrong
    story.shard.tables.registers.n_void[0] = 0
    assert story.shard.digest() == before
    assert octaves(story, page) == [0.0, 0.0]


def test_the_last_weight_of_a_kind_counts() -> None:
    story = Story()
    page = story.add(1, kind=3)
    story.apply(weighed(story, kind=[3, 3], weight=[2, 4]))
    assert octaves(story, page) == [2.0]


def test_nothing_is_proposed_without_shares_a_budget_or_pages() -> None:
    story, _ = corpus()
    assert story.shard.weigh_kinds({}, story.shard.now_ms) is None
    story.budget(math.inf, DAY)
    assert story.shard.weigh_kinds({1: 0.5}, story.shard.now_ms) is None
    story.budget(100, 0)
    assert story.shard.weigh_kinds({1: 0.5}, story.shard.now_ms) is None
    empty = Story()
    empty.budget(100, DAY)
    assert empty.shard.weigh_kinds({1: 0.5}, empty.shard.now_ms) is None


def test_a_proposal_changes_nothing_and_is_not_repeated_once_applied() -> None:
    story, _ = corpus()
    before = story.shard.digest()
    proposed = story.shard.weigh_kinds({1: 0.6, 2: 0.1}, story.shard.now_ms)
    assert story.shard.digest() == before
    assert proposed is not None
    assert proposed.kind.tolist() == [1, 2]
    # Equal pages, a quarter of each kind: one share above that, one below.
    assert proposed.weight[0] > 1 > proposed.weight[1]
    story.apply(proposed)
    assert story.shard.weigh_kinds({1: 0.6, 2: 0.1}, story.shard.now_ms) is None
    assert story.shard.weigh_kinds({1: 0.6, 2: 0.1002}, story.shard.now_ms) is None


def test_kinds_that_lose_their_share_weigh_one_again() -> None:
    story, _ = corpus()
    story.apply(weighed(story, kind=[1, 2], weight=[4, 1.01]))
    back = story.shard.weigh_kinds({}, story.shard.now_ms)
    assert back is not None
    assert back.kind.tolist() == [1, 2]
    assert back.weight.tolist() == [1, 1]


def test_weights_do_not_depend_on_those_before() -> None:
    shares = {1: 0.6, 2: 0.1}
    story, _ = corpus()
    first = story.shard.weigh_kinds(shares, story.shard.now_ms)
    assert first is not None
    story.apply(weighed(story, kind=[0, 1, 2], weight=[16, 8, 0.125]))
    again = story.shard.weigh_kinds(shares, story.shard.now_ms)
    assert again is not None
    assert dict(zip(again.kind.tolist(), again.weight.tolist(), strict=True)) == {
        0: 1.0,
        **dict(zip(first.kind.tolist(), first.weight.tolist(), strict=True)),
    }


def test_other_kinds_spend_the_share_of_pages_that_cannot_be_fetched() -> None:
    shares = {1: 0.5, 2: 0.25}
    story, page = corpus()
    both = story.shard.weigh_kinds(shares, story.shard.now_ms)
    assert both is not None
    story.report(page[1::4], 6, order=0)  # all of kind 1 back off
    rested = story.shard.weigh_kinds(shares, story.shard.now_ms)
    assert rested is not None
    assert rested.kind.tolist() == [2]
    later = story.shard.weigh_kinds(shares, ms(30 * DAY))
    assert later is not None
    assert later.kind.tolist() == both.kind.tolist()


def test_the_weight_of_a_kind_limited_by_shortest_intervals_is_bounded() -> None:
    story, page = corpus()
    story.apply(
        ev.event_of(
            ev.LimitsSet,
            page=page[1::4],
            interval_seconds_min=30 * DAY,
            interval_seconds_max=math.inf,
            stale_seconds=0,
            stale_probability=0,
        )
    )
    proposed = story.shard.weigh_kinds({1: 0.5, 2: 0.25}, story.shard.now_ms)
    assert proposed is not None
    weight = dict(zip(proposed.kind.tolist(), proposed.weight.tolist(), strict=True))
    assert weight[1] == pytest.approx(KIND_WEIGHT_MAX)
    # The other kinds get the rest, so that a quarter needs a larger weight.
    assert weight.get(2, 1.0) <= 1.0


def test_a_sample_of_pages_gives_nearly_the_weights_of_all_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story, _ = corpus(4000)
    all_pages = story.shard.weigh_kinds({1: 0.6, 2: 0.1}, story.shard.now_ms)
    monkeypatch.setattr(kinds_module, "_SAMPLE_MAX", 600)
    monkeypatch.setattr(kinds_module, "_SAMPLE_MIN", 100)
    some_pages = story.shard.weigh_kinds({1: 0.6, 2: 0.1}, story.shard.now_ms)
    assert all_pages is not None
    assert some_pages is not None
    np.testing.assert_allclose(some_pages.weight, all_pages.weight, rtol=0.1)


def test_at_a_fixed_price_weights_make_a_kind_spend_its_share() -> None:
    story, _ = corpus()
    weights = []
    for price in (1e2, 1e6):
        story.budget(200, DAY, price_mode=1, price=price)
        event = story.shard.weigh_kinds({1: 0.5}, story.shard.now_ms)
        weights.append(1.0 if event is None else float(event.weight[0]))
    assert weights[1] / weights[0] > 100


def test_a_budget_in_cost_is_shared_by_cost() -> None:
    story, page = corpus()
    story.apply(ev.event_of(ev.CostsSet, page=page[1::4], cost=8))
    story.budget(200, DAY)
    by_fetches = story.shard.weigh_kinds({1: 0.5}, story.shard.now_ms)
    story.budget(200, DAY, unit=1)
    by_cost = story.shard.weigh_kinds({1: 0.5}, story.shard.now_ms)
    assert by_fetches is not None
    assert by_cost is not None
    assert by_fetches.weight[0] > 2 * by_cost.weight[0]


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({1: -0.1}, "share must be between 0 and 1"),
        ({1: 1.1}, "share must be between 0 and 1"),
        ({1: math.nan}, "share must be between 0 and 1"),
        ({1: 0.6, 2: 0.6}, "add up to at most 1"),
        ({-1: 0.5}, "kind must be"),
        ({4096: 0.5}, "kind must be"),
    ],
)
def test_impossible_shares_are_rejected(shares: dict[int, float], message: str) -> None:
    story, _ = corpus(8)
    with pytest.raises(ValueError, match=message):
        story.shard.weigh_kinds(shares, story.shard.now_ms)
