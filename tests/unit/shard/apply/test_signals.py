"""Signals: which count, how they age their page, and what a shard learns of their source."""

import math

import numpy as np
import pytest

from recrawl.shard import ShardSettings
from recrawl.shard import events as ev
from recrawl.shard.state.status import Verdict
from recrawl.shard.state.trust import delay_of, false_chance_of, next_precision_of, precision_of
from recrawl.shard.state.words import class_of
from tests.reference.shards import DAY, HOUR, Story, ms


def started(n: int = 1, **settings: object) -> tuple[Story, np.ndarray]:
    """Return a story with pages that were fetched once, an hour ago."""
    story = Story(**settings)
    page = story.add(n)
    story.fetch(page, at=1)
    story.tick(HOUR)
    return story, page


def give(story: Story, source: int, precision: float, delay: float = math.nan) -> None:
    story.apply(ev.event_of(ev.SourcesSet, source=source, precision=precision, delay_seconds=delay))


def test_a_signal_ages_its_page() -> None:
    story, page = started()
    last = story.last(page[0])
    assert story.signal(page).valid.all()
    assert story.last(page[0]) < last
    assert story.of_page(page[0], "n_signals") == 1
    assert story.register("n_signals") == 1
    assert story.of_page(page[0], "fetched_at") > 0


def test_a_signal_of_a_better_source_ages_more() -> None:
    story, page = started(3)
    for source, precision in enumerate([0.0, 0.3, 0.9]):
        give(story, source, precision, 0.0)
    story.signal(page, source=[0, 1, 2])
    lasts = [story.last(p) for p in page]
    assert lasts[0] > lasts[1] > lasts[2]
    assert lasts[0] == 1


def test_a_claimed_time_repeated_by_its_source_is_void() -> None:
    story, page = started()
    assert story.signal(page, claimed_at_ms=ms(HOUR - 10)).valid.all()
    digest = story.shard.digest()
    for at in (HOUR, HOUR + 1):
        assert not story.signal(page, at, claimed_at_ms=ms(HOUR - 10)).valid.any()
    assert not story.signal(page, claimed_at_ms=ms(HOUR - 20)).valid.any()
    story.shard.tables.registers.n_void[0] = 0
    assert story.shard.digest() == digest
    assert story.signal(page, claimed_at_ms=ms(HOUR - 5)).valid.all()


def test_the_same_claim_of_another_source_or_page_counts() -> None:
    story, page = started(2)
    claim = ms(HOUR - 10)
    given = [(page[0], 0), (page[1], 0), (page[0], 1), (page[0], 2)]
    for p, source in given:
        assert story.signal(p, source=source, claimed_at_ms=claim).valid.all()
    for p, source in given:
        assert not story.signal(p, source=source, claimed_at_ms=claim).valid.any()


def test_a_claimed_time_before_the_last_fetch_is_void() -> None:
    story, page = started()
    last = story.last(page[0])
    assert not story.signal(page, claimed_at_ms=ms(0.5)).valid.any()
    assert story.last(page[0]) == last
    assert story.of_page(page[0], "n_signals") == 0


def test_without_a_claim_the_same_arrival_twice_is_one_signal() -> None:
    story, page = started()
    assert story.signal(page, at=HOUR - 7).valid.all()
    assert not story.signal(page, at=HOUR - 7).valid.any()
    assert story.signal(page, at=HOUR - 3).valid.all()


def test_a_claim_a_little_ahead_counts_once() -> None:
    story, page = started()
    ahead = ms(HOUR + 600)
    assert story.signal(page, claimed_at_ms=ahead).valid.all()
    for at in (HOUR + 100, HOUR + 1000, 10 * HOUR):
        story.tick(at)
        assert not story.signal(page, claimed_at_ms=ahead).valid.any()


def test_a_claim_from_the_far_future_is_void_and_later_signals_count() -> None:
    story, page = started()
    for at in (HOUR, 2 * HOUR):
        story.tick(at)
        assert not story.signal(page, claimed_at_ms=ms(1000 * DAY)).valid.any()
    assert story.signal(page, claimed_at_ms=ms(2 * HOUR)).valid.all()


def test_an_arrival_ahead_of_shard_time_counts_as_now() -> None:
    story, page = started()
    story.signal(page, at=HOUR + 400 * DAY)
    assert story.shard.now_ms == ms(HOUR)
    assert story.last(page[0]) <= 1


def test_a_fetch_ends_the_signals_before_it() -> None:
    story, page = started()
    story.signal(page)
    story.signal(page, source=1)
    story.fetch(page, at=2 * HOUR)
    assert story.of_page(page[0], "n_signals") == 0
    assert story.last(page[0]) == 2 * HOUR
    assert not story.shard.tables.links.n_signals.any()


def test_a_signal_between_a_fetch_and_its_report_still_counts() -> None:
    story, page = started()
    order = story.order(page, at=2 * HOUR)
    story.tick(2 * HOUR + 60)
    story.signal(page)
    story.tick(2 * HOUR + 90)
    story.report(page, order=order, at=2 * HOUR + 30)
    assert story.of_page(page[0], "n_signals") == 1
    assert story.last(page[0]) < 2 * HOUR + 30


def test_the_precision_of_a_source_is_learned_from_outcomes() -> None:
    story = Story()
    page = story.add(2)
    story.fetch(page, at=1)
    for k in range(1, 40):
        story.tick(k * HOUR)
        story.signal(page, source=[0, 1])
        story.fetch(page, [Verdict.CHANGED, Verdict.UNCHANGED], at=k * HOUR + 60)
    sources, rules = story.shard.tables.sources, story.shard.rules
    assert precision_of(sources, 0, rules) > 0.85
    assert precision_of(sources, 1, rules) < 0.1
    assert precision_of(sources, 2, rules) == pytest.approx(0.25)


def test_an_explanation_tells_assumed_from_learned_precision() -> None:
    story, page = started()
    story.signal(page)
    told = story.shard.explain(int(page[0]))
    assert told is not None
    assert not told.sources[0].is_judged
    story.fetch(page, Verdict.UNCHANGED, at=2 * HOUR)
    told = story.shard.explain(int(page[0]))
    assert told is not None
    assert told.sources[0].is_judged


def test_a_given_precision_is_not_learned_until_it_is_no_longer_given() -> None:
    story, page = started()
    give(story, 0, 0.8, 5.0)
    sources, rules = story.shard.tables.sources, story.shard.rules
    for k in range(2, 20):
        story.tick(k * HOUR)
        story.signal(page)
        story.fetch(page, at=k * HOUR + 60)
    assert precision_of(sources, 0, rules) == pytest.approx(0.8)
    assert delay_of(sources, 0, rules) == 5.0
    give(story, 0, math.nan)
    assert precision_of(sources, 0, rules) == pytest.approx(0.25)
    assert delay_of(sources, 0, rules) == pytest.approx(60.0)


def test_signals_of_a_new_source_are_likely_to_be_false_together() -> None:
    story, page = started(2)
    give(story, 1, 0.25)
    sources, rules = story.shard.tables.sources, story.shard.rules
    # The belief about the first is Beta(1, 3), whose moments are known.
    for n, all_false in enumerate([1, 3 / 4, 3 / 5, 3 / 6, 3 / 7]):
        assert false_chance_of(sources, 0, rules, n) == pytest.approx(all_false)
        assert false_chance_of(sources, 1, rules, n) == pytest.approx(0.75**n)
        next_false = 1 - next_precision_of(sources, 0, rules, n)
        assert all_false * next_false == pytest.approx(false_chance_of(sources, 0, rules, n + 1))
    assert next_precision_of(sources, 1, rules, 4) == pytest.approx(0.25)
    story.signal(page, source=[0, 1])
    assert story.last(page[0]) == story.last(page[1])
    story.tick(HOUR + 1)
    story.signal(page, source=[0, 1])
    assert story.last(page[0]) > story.last(page[1])


def test_the_delay_of_a_source_is_learned_from_its_claims() -> None:
    story, page = started(signal_delay=60, signal_delay_weight=2)
    for k in range(2, 12):
        story.tick(k * HOUR)
        story.signal(page, claimed_at_ms=ms(k * HOUR - 900))
    expected = (60 * 2 + 900 * 10) / 12
    assert delay_of(story.shard.tables.sources, 0, story.shard.rules) == pytest.approx(expected)


def test_a_signal_soon_after_a_fetch_counts_less_where_its_source_is_slow() -> None:
    story, page = started(2)
    give(story, 0, 0.9, 0.0)
    give(story, 1, 0.9, 10 * HOUR)
    story.signal(page, source=[0, 1])
    assert story.last(page[0]) < story.last(page[1]) < 1


def test_a_page_has_at_most_its_largest_number_of_sources() -> None:
    story, page = started(sources_per_page_max=3)
    heard = [story.signal(page, source=s, at=HOUR - s).valid[0] for s in (7, 3, 9, 4, 3)]
    assert heard == [True, True, True, False, False]
    assert story.of_page(page[0], "n_sources") == 3
    story.tick(2 * HOUR)
    assert story.signal([page[0]] * 3, source=[7, 3, 9]).valid.all()
    assert story.of_page(page[0], "signal_count") == 2
    assert sorted(story.shard.tables.links.signal_count.tolist())[-3:] == [0, 2, 2]


def test_links_of_many_pages_are_found_again_after_the_table_grows() -> None:
    story, page = started(500)
    for k, source in enumerate([5, 6, 7]):
        story.tick(HOUR + k + 1)
        assert story.signal(page, source=source).valid.all()
    assert story.register("n_links") == 1000
    story.tick(2 * HOUR)
    for source in (5, 6, 7):
        assert story.signal(page, source=source).valid.all()
    links = story.shard.tables.links
    assert (links.signal_count[links.key > 0] == 2).all()
    assert story.register("n_links") == 1000


def test_a_page_in_a_reused_slot_has_no_sources() -> None:
    story, page = started(2)
    story.signal([page[0]] * 3, source=[1, 2, 3], at=HOUR)
    story.remove(page[0])
    again = story.add(1, at=HOUR)
    assert story.of_page(again[0], "n_sources") == 0
    story.fetch(again, at=2 * HOUR)
    story.tick(3 * HOUR)
    assert story.signal([again[0]] * 2, source=[2, 8]).valid.all()
    assert story.of_page(again[0], "source") == 2
    links = story.shard.tables.links
    mine = links.source[(links.key > 0) & (links.source == 8)]
    assert mine.tolist() == [8]
    assert links.signal_count[links.source == 8].tolist() == [1.0]


def test_signals_determine_the_class_of_a_page() -> None:
    story, page = started(2)
    give(story, 0, 0.9, 0.0)
    for k in range(1, 200):
        story.tick(HOUR + k * 600)
        story.signal(page[0])
    words = story.shard.tables.pages.word
    assert class_of(words[0]) > 0
    assert class_of(words[1]) == 0


def test_an_outcome_dated_before_the_page_was_added_leaves_its_signals_countable() -> None:
    story = Story(signal_rate_seconds=DAY)
    story.tick(30 * DAY)
    page = story.add(1, at=30 * DAY)
    story.signal(page)
    for day in (1, 29, 29.5):
        assert story.report(page, Verdict.CHANGED, at=day * DAY).valid.all()
    assert 0 <= class_of(story.shard.tables.pages.word[0]) < 1024


def test_signals_of_unknown_pages_and_of_sources_beyond_the_limit_are_void() -> None:
    story, page = started()
    assert not story.signal([-1, 5, 1 << 32]).valid.any()
    valid = story.signal([page[0], page[0]], source=[2**32 - 1, 1]).valid
    assert valid.tolist() == [False, True]
    event = ev.event_of(ev.SourcesSet, source=2**32 - 1, precision=0.5, delay_seconds=1)
    assert not story.apply(event).valid.any()


def test_a_signal_of_a_page_never_fetched_does_not_move_its_time() -> None:
    story = Story()
    page = story.add(1)
    last = story.last(page[0])
    story.tick(HOUR)
    assert story.signal(page).valid.all()
    assert story.last(page[0]) == last


def test_evidence_about_a_source_is_limited() -> None:
    story, page = started(signal_evidence_max=20.0)
    give(story, 1, 0.5)
    for k in range(1, 100):
        story.tick(HOUR * (k + 1))
        story.signal(page)
        story.fetch(page, at=HOUR * (k + 1) + 60)
    assert story.shard.tables.sources.total[0] <= 21.0


def judge(story: Story, page: np.ndarray, k: int, verdict: Verdict) -> float:
    """Let a signal arrive and a fetch judge it; return the learned precision of its source."""
    story.tick(HOUR * (k + 1))
    story.signal(page)
    story.fetch(page, at=HOUR * (k + 1) + 60, verdict=verdict)
    return float(precision_of(story.shard.tables.sources, 0, story.shard.rules))


def honest(precision: float, n: int, **settings: object) -> tuple[Story, np.ndarray, float]:
    """Return a story after ``n`` judged signals, of which a share was true, and what it learned."""
    story, page = started(1, **settings)
    learned = 0.0
    n_true = 0
    for k in range(1, n + 1):
        is_true = n_true < precision * k
        n_true += is_true
        learned = judge(story, page, k, Verdict.CHANGED if is_true else Verdict.UNCHANGED)
    return story, page, learned


@pytest.mark.parametrize("precision", [0.5, 0.7, 0.95])
def test_the_weight_of_a_source_that_starts_to_lie_is_halved_within_20_judged_signals(
    precision: float,
) -> None:
    story, page, learned = honest(precision, 300)
    assert learned == pytest.approx(precision, abs=0.05)
    for k in range(301, 321):
        if judge(story, page, k, Verdict.UNCHANGED) <= 0.5 * learned:
            break
    assert judge(story, page, 321, Verdict.UNCHANGED) <= 0.5 * learned


def test_a_source_that_stops_to_lie_is_believed_within_20_judged_signals() -> None:
    story, page, learned = honest(0.1, 300)
    assert learned < 0.2
    after = [judge(story, page, k, Verdict.CHANGED) for k in range(301, 321)]
    assert max(after) > 0.5


def test_without_a_limit_of_evidence_a_shift_is_not_noticed() -> None:
    story, page, learned = honest(0.5, 300, signal_shift_evidence=math.inf)
    for k in range(301, 321):
        after = judge(story, page, k, Verdict.UNCHANGED)
    assert after > 0.9 * learned
    assert story.shard.tables.sources.worse_evidence[0] == 0.0


def test_a_source_of_which_little_is_known_does_not_shift() -> None:
    story, page = started()
    for k in range(1, 9):
        judge(story, page, k, Verdict.UNCHANGED)
    sources = story.shard.tables.sources
    assert sources.total[0] == pytest.approx(8.0)


def test_older_settings_do_not_look_for_shifts() -> None:
    settings = ShardSettings.from_stored({"signal_evidence_max": 200.0})
    assert settings.signal_shift_evidence == math.inf
    assert ShardSettings.from_json(ShardSettings().to_json()) == ShardSettings()
