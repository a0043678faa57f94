"""Kinds of pages spend their shares of the budget in a simulated web."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from recrawl.shard import events as ev
from recrawl.shard.apply.kind_weights import KIND_WEIGHT_MAX
from tests.reference.shards import DAY, HOUR, Story, ms

pytestmark = pytest.mark.slow_without_jit

N_KINDS = 4
N_PAGES = 800
PERIOD_DAYS = (1.0, 4.0, 10.0, 40.0)


def spent(
    shares: Mapping[int, float],
    *,
    n_days: int = 30,
    per_day: float = 240.0,
    delays: Mapping[int, float] | None = None,
    kinds: Any = None,
    **settings: Any,
) -> tuple[np.ndarray, Story]:
    """Return what each kind got of the budget in the last third of a run, and the story.

    A group for each kind, with a delay where ``delays`` has one.
    """
    rng = np.random.default_rng(7)
    story = Story(**settings)
    kind = np.arange(N_PAGES) % N_KINDS if kinds is None else np.asarray(kinds)
    story.add(N_PAGES, kind=kind, group=kind, importance=2.0 ** (np.arange(N_PAGES) // 4 % 5))
    for group, delay in (delays or {}).items():
        story.set_group(group, delay_ms=round(delay * 1000), in_flight_max=1)
    story.budget(per_day, DAY, burst_seconds=6 * HOUR)
    rate = rng.gamma(2.0, 0.5 / (np.array(PERIOD_DAYS)[kind] * DAY))
    last = np.zeros(N_PAGES)
    n_ordered = np.zeros(N_KINDS)
    for k in range(n_days * 8):
        at = k * 3 * HOUR
        story.apply(story.shard.tick(ms(at)))
        for learned in (
            story.shard.learn_priors(),
            story.shard.weigh_kinds(shares, ms(at)) if k % 8 == 0 else None,
        ):
            if learned is not None:
                story.apply(learned)
        orders = story.shard.decide(ms(at))
        story.apply(orders)
        slots = ev.slot_of_page(orders.page)
        changed = rng.random(slots.size) < -np.expm1(-rate[slots] * (at - last[slots]))
        last[slots] = at
        if slots.size:
            story.report(orders.page, changed.astype(np.uint8), order=orders.order)
        if 3 * k > 2 * n_days * 8:
            n_ordered += np.bincount(kind[slots], minlength=N_KINDS)
    budget = per_day / 8 * (n_days * 8 - 1 - 2 * n_days * 8 // 3)
    return n_ordered / budget, story


@pytest.mark.parametrize("picker", ["scan", "sweep"])
def test_kinds_spend_their_shares(picker: str) -> None:
    before, _ = spent({}, picker=picker)
    assert before[3] < 0.2
    shares = {1: 0.15, 3: 0.5}
    after, story = spent(shares, picker=picker)
    assert after.sum() == pytest.approx(1, abs=0.05)
    for kind, share in shares.items():
        assert after[kind] == pytest.approx(share, rel=0.1), kind
    # The other kinds share one price, as before.
    assert after[0] / after[2] == pytest.approx(before[0] / before[2], rel=0.4)
    assert story.replay().digest() == story.shard.digest()


def test_shares_that_are_the_whole_budget_leave_a_little_for_the_rest() -> None:
    after, _ = spent({0: 0.25, 1: 0.25, 2: 0.5})
    np.testing.assert_allclose(after[:3], [0.25, 0.25, 0.5], rtol=0.12)
    assert 0 < after[3] < 0.05


def test_all_kinds_may_have_a_share() -> None:
    after, _ = spent({0: 0.1, 1: 0.2, 2: 0.3, 3: 0.4})
    np.testing.assert_allclose(after, [0.1, 0.2, 0.3, 0.4], rtol=0.12)


def test_other_kinds_spend_what_a_kind_in_slow_groups_cannot() -> None:
    # Its groups allow one fetch in three hours; its share would be thirty.
    after, story = spent({0: 0.5}, delays={0: 3 * HOUR - 1})
    assert after[0] < 0.06
    assert after.sum() == pytest.approx(1, abs=0.05)
    assert weights(story).max() <= 1.01 * KIND_WEIGHT_MAX


def test_other_kinds_spend_what_a_kind_of_few_pages_cannot() -> None:
    kinds = np.where(np.arange(N_PAGES) < 3, 3, np.arange(N_PAGES) % 3)
    after, story = spent({3: 0.6, 0: 0.2}, kinds=kinds)
    # Each decision orders at most its three pages.
    assert 0.02 < after[3] < 0.11
    assert weights(story)[3] == pytest.approx(KIND_WEIGHT_MAX, rel=0.01)
    assert after.sum() == pytest.approx(1, abs=0.05)
    assert weights(story).max() <= 1.01 * KIND_WEIGHT_MAX
    assert after[1] + after[2] > 0.5


def weights(story: Story) -> np.ndarray:
    return np.exp2(story.shard.tables.priors.weight / 1024 - 32)
