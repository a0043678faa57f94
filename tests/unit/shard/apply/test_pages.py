"""Events of pages: added, removed, importance, cost, kinds, limits, curves and requests."""

import math

import numpy as np
import pytest

from recrawl.core.belief.codes import BeliefCodes, decode_beliefs
from recrawl.core.requests import RequestCounts, RequestImportance
from recrawl.shard import events as ev
from recrawl.shard import shard as shard_module
from recrawl.shard.due import bounds_of
from recrawl.shard.state.status import PageStatus, Verdict
from recrawl.shard.state.words import class_of, is_bounded, log2_period_of, log2_weight_of, shape_of
from tests.reference.shards import DAY, HOUR, Story, ms, shard_seconds


def beliefs(story: Story) -> tuple[np.ndarray, np.ndarray]:
    n = story.register("n_slots")
    pages = story.shard.tables.pages
    shape, seconds = decode_beliefs(BeliefCodes(pages.belief_shape[:n], pages.belief_seconds[:n]))
    return np.asarray(shape), np.asarray(seconds)


def weight(story: Story, page: int) -> float:
    return float(log2_weight_of(story.shard.tables.pages.word[ev.slot_of_page(page)]))


def period(story: Story, page: int) -> float:
    return float(2 ** log2_period_of(story.shard.tables.pages.word[ev.slot_of_page(page)]))


def set_limits(story: Story, page: object, **columns: object) -> np.ndarray:
    given = {
        "interval_seconds_min": 0.0,
        "interval_seconds_max": math.inf,
        "stale_seconds": 0.0,
        "stale_probability": 0.0,
        **columns,
    }
    return story.apply(ev.event_of(ev.LimitsSet, page=page, **given)).valid


def set_priors(story: Story, kind: object, shape: object, seconds: object) -> np.ndarray:
    return story.apply(
        ev.event_of(ev.PriorsSet, epoch=story.shard.epoch, kind=kind, shape=shape, seconds=seconds)
    ).valid


# ---------------------------------------------------------------- slots


def test_pages_take_the_slots_that_free_pages_returned() -> None:
    story = Story()
    assert story.shard.free_pages(3).tolist() == [0, 1, 2]
    page = story.add(3)
    assert story.shard.n_pages == 3
    story.remove(page[[2, 0]])
    names = story.shard.free_pages(4)
    assert ev.slot_of_page(names).tolist() == [0, 2, 3, 4]
    assert (names >> 32).tolist() == [1, 1, 0, 0]
    assert story.add(4).tolist() == names.tolist()
    assert (story.shard.n_pages, story.register("n_free")) == (5, 0)


def test_a_page_not_in_the_next_free_slot_is_void() -> None:
    story = Story()
    event = ev.event_of(
        ev.PagesAdded, page=[1, 0, 0, 1], group=0, kind=0, importance=1, cost=1, at_ms=ms(0)
    )
    assert story.apply(event).valid.tolist() == [False, True, False, True]
    assert not story.apply(event).valid.any()
    assert story.shard.n_pages == 2


def test_events_of_a_removed_page_are_void() -> None:
    story = Story()
    page = story.add(1)
    story.tick(HOUR)
    assert story.remove(page).valid.all()
    assert not story.remove(page).valid.any()
    again = story.add(1, at=HOUR)
    assert again[0] == page[0] + (1 << 32)
    for p in (page, page + (2 << 32)):
        assert not story.report(p, Verdict.CHANGED).valid.any()
        assert not story.signal(p).valid.any()
        story.order(p)
        assert not story.ordered.valid.any()
        for kind, columns in (
            (ev.ImportanceSet, {"importance": 2}),
            (ev.CostsSet, {"cost": 2}),
            (ev.KindsSet, {"kind": 0}),
            (ev.CurvesSet, {"ceiling": 0.5, "ratio": 0.5, "scroll_items": 0}),
            (ev.RequestsSeen, {"n_requests": 3, "at_ms": ms(HOUR)}),
        ):
            assert not story.apply(ev.event_of(kind, page=p, **columns)).valid.any()
        assert not set_limits(story, p).any()


def test_a_reused_slot_keeps_nothing_of_its_previous_page() -> None:
    def use_slot(story: Story, page: np.ndarray) -> None:
        story.fetch(page, Verdict.CHANGED, at=HOUR)
        story.fetch(page, Verdict.GONE, at=2 * HOUR)
        story.fetch(page, Verdict.TRANSIENT_ERROR, at=3 * HOUR)
        story.signal(page)
        story.signal(page, source=4, at=3 * HOUR - 1)
        set_limits(story, page, interval_seconds_min=5)
        story.apply(ev.event_of(ev.RequestsSeen, page=page, n_requests=9, at_ms=ms(3 * HOUR)))
        story.apply(ev.event_of(ev.CurvesSet, page=page, ceiling=0.5, ratio=0.1, scroll_items=3))

    used, fresh = Story(), Story()
    page = used.add(1)
    use_slot(used, page)
    used.remove(page)
    fresh.tick(3 * HOUR)
    rows = []
    for story in (used, fresh):
        story.add(1, at=3 * HOUR, kind=0, importance=3, cost=2)
        row = {name: col[0].item() for name, col in story.shard.tables.pages._asdict().items()}
        del row["generation"]
        del row["source"]  # meaningless without sources
        rows.append(row)
    assert rows[0] == rows[1]


def test_generations_wrap_around() -> None:
    story = Story()
    for k in range(258):
        page = story.add(1)
        assert page[0] >> 32 == k % 256
        story.remove(page)


def test_growing_tables_keep_their_contents() -> None:
    story = Story()
    page = story.add(50, importance=np.arange(1, 51))
    before = story.shard.tables.pages.importance[:50].tolist()
    story.add(5000, group=np.arange(5000))
    assert story.shard.tables.pages.importance[:50].tolist() == before
    assert story.shard.tables.groups.n_pages[:5000].tolist() == [51] + [1] * 4999
    assert story.report(page, at=0).valid.all()


def test_groups_and_kinds_beyond_the_limit_end_a_batch_of_adds() -> None:
    story = Story(groups_max=10, kinds_max=4)
    event = ev.event_of(
        ev.PagesAdded,
        page=story.shard.free_pages(4),
        group=[0, 9, 10, 1],
        kind=0,
        importance=1,
        cost=1,
        at_ms=ms(0),
    )
    assert story.apply(event).valid.tolist() == [True, True, False, False]
    event = event._replace(
        page=story.shard.free_pages(4), group=event.group * 0, kind=event.kind + 4
    )
    assert not story.apply(event).valid.any()
    assert story.shard.tables.groups.n_pages.sum() == story.shard.n_pages == 2


def test_a_page_is_new_until_it_is_fetched_and_valued_by_its_prior() -> None:
    story = Story()
    page = story.add(1, at=0)
    assert story.of_page(page[0], "status") == PageStatus.NEW
    assert story.of_page(page[0], "fetched_at") == 0
    assert story.last(page[0]) < -DAY


# ---------------------------------------------------------------- worth and cost


def test_weight_is_importance_over_cost() -> None:
    story = Story()
    page = story.add(3, importance=[1, 8, 1], cost=[1, 1, 4])
    assert [weight(story, p) for p in page] == [0, 3, -2]
    story.apply(ev.event_of(ev.ImportanceSet, page=page, importance=16))
    assert [weight(story, p) for p in page] == [4, 4, 2]
    story.apply(ev.event_of(ev.CostsSet, page=page, cost=2))
    assert [weight(story, p) for p in page] == [3, 3, 3]


@pytest.mark.parametrize("importance", [0.0, -1.0, math.nan, math.inf, 1e-38, 3e38])
@pytest.mark.parametrize("cost", [0.0, -1.0, math.nan, math.inf, 1e-38, 3e38])
def test_any_importance_and_cost_give_a_weight(importance: float, cost: float) -> None:
    story = Story()
    page = story.add(1, importance=importance, cost=cost)
    assert -13 < weight(story, page[0]) < 13
    story.budget(10, 1, unit=1)
    story.order(page)
    assert math.isfinite(story.register("credit"))


def test_requests_raise_importance_as_in_core_and_fade() -> None:
    story = Story()
    own = story.settings
    rule = RequestImportance(
        half_life=own.request_half_life, prior_seconds=own.request_prior_seconds
    )
    counts = RequestCounts.zeros(0, n_pages=1)
    rule.observe(counts, rows=[0], at=[10 * DAY], n_requests=[1000])
    rate = rule.rate(counts, now=int(10 * DAY), prior_rate=own.request_prior_rate)[0]
    page = story.add(2)
    story.tick(10 * DAY)
    seen = ev.event_of(ev.RequestsSeen, page=page[0], n_requests=1000, at_ms=ms(10 * DAY))
    assert story.apply(seen).valid.all()
    high = weight(story, page[0])
    assert high == pytest.approx(math.log2(rate / own.request_prior_rate), abs=0.06)
    assert weight(story, page[1]) == 0
    story.tick(200 * DAY)
    story.apply(ev.event_of(ev.RequestsSeen, page=page[0], n_requests=0, at_ms=ms(200 * DAY)))
    assert weight(story, page[0]) < high - 4


def test_requests_reported_late_count_like_those_in_order() -> None:
    weights = []
    for times in ([1, 5, 9], [9, 1, 5], [5, 9, 1]):
        story = Story()
        page = story.add(1)
        story.tick(10 * DAY)
        for day in times:
            story.apply(
                ev.event_of(ev.RequestsSeen, page=page, n_requests=40 * day, at_ms=ms(day * DAY))
            )
        weights.append(story.of_page(page[0], "requests"))
    assert weights == pytest.approx([weights[0]] * 3, rel=1e-5)


def test_seconds_of_counting_add_up_with_an_unlimited_half_life() -> None:
    story = Story(request_half_life=math.inf)
    page = story.add(1)
    story.tick(1_000)
    for second in range(1, 1_001):
        story.apply(ev.event_of(ev.RequestsSeen, page=page, n_requests=1, at_ms=ms(second)))
    assert story.of_page(page[0], "requests") == 1_000
    assert story.of_page(page[0], "request_seconds") == pytest.approx(1_000)


@pytest.mark.parametrize("n_requests", [-1.0, math.nan, math.inf])
def test_impossible_requests_are_void(n_requests: float) -> None:
    story = Story()
    page = story.add(1)
    event = ev.event_of(ev.RequestsSeen, page=page, n_requests=n_requests, at_ms=ms(0))
    assert not story.apply(event).valid.any()


# ---------------------------------------------------------------- kinds and priors


def test_kinds_have_priors_of_their_own() -> None:
    story = Story()
    story.add(1)
    assert set_priors(story, [1, 2], [2.0, 3.0], [2 * DAY, 30 * DAY]).all()
    story.add(3, kind=[0, 1, 2])
    shape, seconds = beliefs(story)
    assert shape[2:] == pytest.approx([2, 3], rel=4e-4)
    assert seconds[2:] == pytest.approx([2 * DAY, 30 * DAY], rel=8e-4)
    assert shape[1] == pytest.approx(story.settings.prior_shape, rel=4e-4)


def test_a_new_prior_keeps_the_evidence_of_every_belief() -> None:
    story = Story(belief_half_life=math.inf)
    page = story.add(2)
    story.fetch(page, at=1)
    story.fetch(page, [Verdict.CHANGED, Verdict.UNCHANGED], at=5 * DAY)
    shape, seconds = beliefs(story)
    old_a, old_b = 0.5, 25 * DAY
    assert set_priors(story, 0, 1.5, 40 * DAY).all()
    new_shape, new_seconds = beliefs(story)
    assert new_shape == pytest.approx(shape - old_a + 1.5, rel=2e-3)
    kept = np.minimum(seconds / old_b, 1)
    expected = np.maximum(seconds - old_b, 0) + kept * 40 * DAY
    assert new_seconds == pytest.approx(expected, rel=2e-3)


def test_moving_to_a_new_prior_in_steps_equals_moving_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def make_story() -> Story:
        story = Story()
        page = story.add(100, kind=np.arange(100) % 3)
        story.fetch(page, at=HOUR)
        story.fetch(page, np.arange(100) % 2, at=DAY)
        set_priors(story, [0, 1], [1.0, 2.0], [10 * DAY, DAY])
        return story

    at_once = make_story()
    monkeypatch.setattr(shard_module, "_REBASED_AT_ONCE", 7)
    monkeypatch.setattr(shard_module, "_REBASED_PER_TICK", 40)
    in_steps = make_story()
    assert in_steps.register("rebased_to") == 7
    assert in_steps.shard.learn_priors() is None
    for expected in (47, 87, 100):
        in_steps.tick(DAY)
        assert in_steps.register("rebased_to") == expected
    assert np.array_equal(beliefs(in_steps), beliefs(at_once))
    assert np.array_equal(
        in_steps.shard.tables.pages.word[:100], at_once.shard.tables.pages.word[:100]
    )


def test_pages_added_and_polled_between_steps_end_relative_to_the_new_prior(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shard_module, "_REBASED_AT_ONCE", 2)
    monkeypatch.setattr(shard_module, "_REBASED_PER_TICK", 1)
    story = Story(belief_half_life=math.inf)
    page = story.add(4)
    set_priors(story, 0, 2.0, 100 * DAY)
    story.remove(page[[0, 3]])
    added = story.add(3)  # in slots 3, 0 and 4: not yet moved, moved, and new
    assert ev.slot_of_page(added).tolist() == [3, 0, 4]
    for _ in range(5):
        story.tick(1)
    shape, seconds = beliefs(story)
    assert shape == pytest.approx([2.0] * 5, rel=2e-3)
    assert seconds == pytest.approx([100 * DAY] * 5, rel=2e-3)
    assert story.register("rebased_to") == 5
    assert ev.slot_of_page(story.add(1))[0] == 5
    assert story.register("rebased_to") == 6


def test_a_second_prior_first_completes_the_move_to_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shard_module, "_REBASED_AT_ONCE", 2)
    story = Story()
    story.add(6)
    set_priors(story, 0, 2.0, 100 * DAY)
    set_priors(story, 0, 1.0, 10 * DAY)
    story.tick(1)
    shape, seconds = beliefs(story)
    assert shape == pytest.approx([1.0] * 6, rel=3e-3)
    assert seconds == pytest.approx([10 * DAY] * 6, rel=3e-3)


@pytest.mark.parametrize(
    ("shape", "seconds"), [(0, 1), (1, 0), (-1, 1), (math.nan, 1), (1, math.inf), (math.inf, 1)]
)
def test_impossible_priors_are_void(shape: float, seconds: float) -> None:
    story = Story()
    story.add(1)
    assert not set_priors(story, 0, shape, seconds).any()


def test_priors_of_another_epoch_are_void() -> None:
    story = Story()
    story.add(1)
    for epoch in (0, 2):
        event = ev.event_of(ev.PriorsSet, epoch=epoch, kind=0, shape=2.0, seconds=DAY)
        assert not story.apply(event).valid.any()


def test_a_page_of_another_kind_moves_to_its_prior() -> None:
    story = Story(belief_half_life=math.inf)
    page = story.add(2)
    set_priors(story, 1, 4.0, 4 * DAY)
    event = ev.event_of(ev.KindsSet, page=page[0], kind=1)
    assert story.apply(event).valid.all()
    shape, seconds = beliefs(story)
    assert shape == pytest.approx([4.0, 0.5], rel=1e-3)
    assert seconds == pytest.approx([4 * DAY, 25 * DAY], rel=1e-3)
    assert period(story, page[0]) == pytest.approx(DAY, rel=0.08)


def test_a_kind_beyond_the_limit_is_void() -> None:
    story = Story(kinds_max=4)
    page = story.add(1, kind=1)
    assert not story.apply(ev.event_of(ev.KindsSet, page=page, kind=4)).valid.any()
    assert story.of_page(page[0], "kind") == 1
    assert story.shard.tables.priors.shape.size <= 4


# ---------------------------------------------------------------- limits


def test_equal_limits_share_a_row() -> None:
    story = Story()
    page = story.add(6)
    set_limits(story, page, interval_seconds_max=np.array([1, 2, 1, 2, math.inf, 3]) * DAY)
    rows = [story.of_page(p, "limits") for p in page]
    assert rows[0] == rows[2]
    assert rows[1] == rows[3]
    assert rows[4] == 0
    assert len(set(rows)) == 4
    assert story.register("n_limits") == 4
    set_limits(story, page, interval_seconds_max=DAY)
    assert {story.of_page(p, "limits") for p in page} == {rows[0]}
    assert story.register("n_limits") == 4


def test_shortest_and_longest_intervals_count_from_the_last_fetch() -> None:
    story = Story()
    page = story.add(2)
    story.fetch(page, at=100)
    set_limits(story, page[0], interval_seconds_min=HOUR, interval_seconds_max=DAY)
    tables = story.shard.tables
    at = shard_seconds(100)
    assert bounds_of(tables.pages, tables.limits, 0) == (at + HOUR, at + DAY)
    assert is_bounded(tables.pages.word[0])
    assert not is_bounded(tables.pages.word[1])
    set_limits(story, page[0])
    assert not is_bounded(tables.pages.word[0])


def test_a_staleness_promise_sets_a_latest_time() -> None:
    story = Story(belief_half_life=math.inf)
    page = story.add(1)
    story.fetch(page, at=100)
    set_limits(story, page, stale_seconds=HOUR, stale_probability=0.2)
    tables = story.shard.tables
    _, latest = bounds_of(tables.pages, tables.limits, 0)
    (shape,), (seconds,) = beliefs(story)
    since = latest - shard_seconds(100) - HOUR
    assert 1 - (seconds / (seconds + since)) ** shape == pytest.approx(0.2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"interval_seconds_min": 2.0, "interval_seconds_max": 1.0},
        {"interval_seconds_min": -1.0},
        {"interval_seconds_max": math.nan},
        {"stale_seconds": -1.0},
        {"stale_probability": 1.0},
        {"stale_probability": math.nan},
    ],
)
def test_impossible_limits_are_void(wrong: dict[str, float]) -> None:
    story = Story()
    page = story.add(1)
    set_limits(story, page, interval_seconds_max=5.0)
    assert not set_limits(story, page, **wrong).any()
    assert story.of_page(page[0], "limits") == 1


def test_sets_of_limits_beyond_the_maximum_are_void() -> None:
    story = Story(limits_max=4)
    page = story.add(6)
    valid = set_limits(story, page, interval_seconds_min=np.arange(6.0))
    assert valid.tolist() == [True] * 4 + [False] * 2
    assert set_limits(story, page, interval_seconds_min=2.0).all()


# ---------------------------------------------------------------- curves


def test_curves_count_only_if_the_objective_is_fragments() -> None:
    for objective, is_counted in (("freshness", False), ("fragments", True)):
        story = Story(objective=objective)
        page = story.add(3)
        story.apply(
            ev.event_of(
                ev.CurvesSet, page=page[1:], ceiling=[0.5, 1], ratio=[0.125, 1], scroll_items=[0, 9]
            )
        )
        assert (period(story, page[1]) > 7 * period(story, page[0])) == is_counted
        assert (weight(story, page[1]) == pytest.approx(-1, abs=0.05)) == is_counted
        assert (class_of(story.shard.tables.pages.word[2]) > 0) == is_counted


@pytest.mark.parametrize(("ceiling", "ratio"), [(0, 1), (1, 0), (math.nan, 1), (1, math.nan)])
def test_impossible_curves_are_void(ceiling: float, ratio: float) -> None:
    story = Story()
    page = story.add(1)
    event = ev.event_of(ev.CurvesSet, page=page, ceiling=ceiling, ratio=ratio, scroll_items=0)
    assert not story.apply(event).valid.any()


# ---------------------------------------------------------------- settings


def test_changed_settings_rewrite_all_words() -> None:
    story = Story()
    page = story.add(2)
    story.fetch(page, at=1)
    shapes = [shape_of(word) for word in story.shard.tables.pages.word[:2]]
    plug_in = Story(estimator="plug_in").settings
    assert story.set_settings(plug_in).valid.all()
    assert story.shard.settings == plug_in
    assert all(shape_of(word) > shapes[0] for word in story.shard.tables.pages.word[:2])
    story.set_settings(story.settings)
    assert [shape_of(word) for word in story.shard.tables.pages.word[:2]] == shapes


def test_beliefs_become_counts_and_back_without_losing_the_rate() -> None:
    story = Story(belief_half_life=math.inf)
    page = story.add(2)
    story.fetch(page, at=1)
    for k in range(1, 9):
        story.fetch(page, [Verdict.CHANGED, Verdict.UNCHANGED], at=k * DAY)
    before = [period(story, p) for p in page]
    story.set_settings(Story(estimator="counts").settings)
    assert [story.of_page(p, "belief_shape") for p in page] == [0, 0]
    assert [period(story, p) for p in page] == pytest.approx(before, rel=0.1)
    for k in range(9, 17):
        story.fetch(page, [Verdict.CHANGED, Verdict.UNCHANGED], at=k * DAY)
    story.set_settings(story.settings)
    shape, seconds = beliefs(story)
    assert shape == pytest.approx([8.5, 0.5], rel=1e-2)
    assert seconds == pytest.approx([33 * DAY, 33 * DAY], rel=1e-2)
