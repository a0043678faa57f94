"""Outcomes of fetches: observations, transitions, errors and wrong clocks."""

import math

import numpy as np
import pytest

from recrawl.core.belief.codes import BeliefCodes, decode_beliefs
from recrawl.core.belief.gamma import GammaBelief, after_poll
from recrawl.shard.due import bounds_of, ready_at_of
from recrawl.shard.state.status import PageStatus, Transition, Verdict
from recrawl.shard.state.tables import RESULT_COLUMNS
from tests.reference.shards import DAY, HOUR, Story, ms, shard_seconds

CODE = 1.0004  # a step of a belief's seconds, and more than two of its shape


def belief(story: Story, page: np.ndarray) -> tuple[float, float]:
    codes = BeliefCodes(
        np.array([story.of_page(page[0], "belief_shape")], np.uint16),
        np.array([story.of_page(page[0], "belief_seconds")], np.uint16),
    )
    shape, seconds = decode_beliefs(codes)
    return float(shape[0]), float(seconds[0])


def near(a: tuple[float, float], b: tuple[float, float], codes: float = 1.5) -> bool:
    return all(abs(math.log(x / y)) <= codes * math.log(CODE) for x, y in zip(a, b, strict=True))


def started(**settings: object) -> tuple[Story, np.ndarray]:
    """Return a story with one page, fetched once."""
    story = Story(belief_half_life=math.inf, **settings)
    page = story.add(1)
    story.fetch(page, at=1)
    return story, page


def test_the_first_fetch_of_a_page_leaves_its_belief_as_it_is() -> None:
    story = Story()
    page = story.add(1)
    before = belief(story, page)
    assert story.fetch(page, Verdict.CHANGED, at=DAY).transition.tolist() == [Transition.NEW]
    assert belief(story, page) == before
    assert story.of_page(page[0], "status") == PageStatus.ACTIVE
    assert story.register("n_changed") == 0


def test_an_unchanged_poll_adds_its_interval() -> None:
    story, page = started()
    shape, seconds = belief(story, page)
    applied = story.fetch(page, at=1 + 10 * DAY)
    assert applied.transition.tolist() == [Transition.NONE]
    assert near(belief(story, page), (shape, seconds + 10 * DAY))


def test_a_changed_poll_updates_the_belief_as_core_does() -> None:
    story, page = started()
    shape, seconds = belief(story, page)
    expected = after_poll(GammaBelief(np.array([shape]), np.array([seconds])), 10 * DAY, True)
    assert story.fetch(page, Verdict.CHANGED, at=1 + 10 * DAY).transition[0] == Transition.CHANGED
    assert near(belief(story, page), (float(expected.shape[0]), float(expected.seconds[0])))
    assert story.register("n_changed") == 1


def test_evidence_fades_towards_the_prior() -> None:
    story = Story(belief_half_life=DAY)
    page = story.add(1)
    prior = belief(story, page)
    story.fetch(page, at=1)
    for day in range(1, 40):
        story.fetch(page, Verdict.CHANGED, at=day * HOUR)
    assert belief(story, page)[0] > 5 * prior[0]
    story.fetch(page, at=60 * DAY)
    shape, seconds = belief(story, page)
    assert near((shape, seconds), (prior[0], prior[1] + 60 * DAY - 39 * HOUR), codes=4)


def test_a_revert_does_not_count_as_a_change() -> None:
    story, page = started()
    other, other_page = started()
    applied = story.fetch(page, Verdict.REVERTED, at=5 * DAY)
    other.fetch(other_page, Verdict.UNCHANGED, at=5 * DAY)
    assert applied.transition.tolist() == [Transition.REVERTED]
    assert belief(story, page) == belief(other, other_page)
    assert story.register("n_changed") == 0


def test_a_transient_error_is_no_observation() -> None:
    story, page = started()
    before = {
        column: story.of_page(page[0], column)
        for column in ("belief_shape", "belief_seconds", "fetched_at", "status", "n_signals")
    }
    last = story.last(page[0])
    applied = story.fetch(page, Verdict.TRANSIENT_ERROR, at=DAY)
    assert applied.valid.all()
    assert applied.transition.tolist() == [Transition.NONE]
    assert {column: story.of_page(page[0], column) for column in before} == before
    assert story.last(page[0]) == last
    assert not story.is_held(page)


def test_a_wrong_answer_delays_the_page_but_not_its_host() -> None:
    story = Story(breaker_errors=2, breaker_seconds=100, backoff_seconds=50)
    page = story.add(3)
    story.fetch(page, at=1)
    columns = ("belief_shape", "belief_seconds", "fetched_at", "status", "n_signals")
    before = {column: story.of_page(page[0], column) for column in columns}
    groups = story.shard.tables.groups
    story.fetch(page[2:], Verdict.TRANSIENT_ERROR, at=DAY)
    for k in range(5):
        applied = story.fetch(page[:1], Verdict.WRONG_ANSWER, at=(k + 2) * DAY)
        assert applied.valid.all()
        assert applied.transition.tolist() == [Transition.NONE]
    assert {column: story.of_page(page[0], column) for column in columns} == before
    assert story.of_page(page[0], "not_before") == shard_seconds(6 * DAY) + 50 * 2**4
    # Neither paused nor cleared of the error of another page.
    assert groups.blocked_until[0] == 0
    assert groups.n_errors[0] == 1
    story.fetch(page[:1], at=7 * DAY)
    assert story.of_page(page[0], "errors") == 0


def test_a_page_waits_longer_after_each_error_in_a_row() -> None:
    story, page = started(backoff_seconds=100, backoff_seconds_max=1000, breaker_errors=200)
    waits = []
    for k in range(1, 7):
        story.fetch(page, Verdict.TRANSIENT_ERROR, at=k * DAY)
        earliest, _ = bounds_of(story.shard.tables.pages, story.shard.tables.limits, int(page[0]))
        waits.append(earliest - shard_seconds(k * DAY))
    assert waits == [100, 200, 400, 800, 1000, 1000]
    story.fetch(page, at=7 * DAY)
    assert story.of_page(page[0], "not_before") == 0
    story.fetch(page, Verdict.TRANSIENT_ERROR, at=8 * DAY)
    assert story.of_page(page[0], "not_before") == shard_seconds(8 * DAY) + 100


@pytest.mark.parametrize(("asked", "waits"), [(50, 100), (400, 400), (1e9, 1000), (math.nan, 100)])
def test_a_page_waits_as_long_as_the_site_asks(asked: float, waits: int) -> None:
    story, page = started(backoff_seconds=100, backoff_seconds_max=1000)
    story.tick(DAY)
    order = story.order(page)
    story.report(page, Verdict.TRANSIENT_ERROR, order=order, retry_after_seconds=asked)
    assert story.of_page(page[0], "not_before") == shard_seconds(DAY) + waits


def test_a_group_rests_as_long_as_the_site_asks() -> None:
    story, page = started(breaker_seconds_max=1000)
    story.tick(DAY)
    story.report(page, Verdict.TRANSIENT_ERROR, retry_after_seconds=400)
    assert ready_at_of(story.shard.tables.groups, 0, ms(DAY)) == ms(DAY + 400)
    story.report(page, Verdict.TRANSIENT_ERROR, retry_after_seconds=1e30)
    assert ready_at_of(story.shard.tables.groups, 0, ms(DAY)) == ms(DAY + 1000)


def test_a_group_rests_longer_with_each_error_beyond_the_limit() -> None:
    story = Story(breaker_errors=3, breaker_seconds=100, breaker_seconds_max=300)
    page = story.add(10, group=[0] * 9 + [1])
    groups = story.shard.tables.groups
    rests = []
    for k in range(7):
        story.fetch(page[k : k + 1], Verdict.TRANSIENT_ERROR, at=DAY * (k + 1))
        rests.append((int(groups.blocked_until[0]) - int(ms(DAY * (k + 1)))) / 1000)
    assert [max(rest, 0) for rest in rests] == [0, 0, 100, 200, 300, 300, 300]
    assert groups.blocked_until[1] == 0
    story.fetch(page[7:8], at=10 * DAY)
    story.fetch(page[8:9], Verdict.TRANSIENT_ERROR, at=11 * DAY)
    assert groups.blocked_until[0] < ms(11 * DAY)


def test_errors_of_fetches_in_flight_together_count_once() -> None:
    story = Story(breaker_errors=3, breaker_seconds=100, breaker_seconds_max=86_400)
    page = story.add(50)
    story.tick(DAY)
    story.report(page, Verdict.TRANSIENT_ERROR)
    groups = story.shard.tables.groups
    assert groups.blocked_until[0] == ms(DAY + 100)
    assert groups.n_errors[0] == 3


def test_gone_counts_as_a_version_of_the_page() -> None:
    story, page = started()
    assert story.fetch(page, Verdict.GONE, at=DAY).transition[0] == Transition.GONE
    assert story.of_page(page[0], "status") == PageStatus.GONE
    assert story.register("n_changed") == 1
    assert story.fetch(page, Verdict.GONE, at=2 * DAY).transition[0] == Transition.NONE
    assert story.fetch(page, Verdict.MOVED, at=3 * DAY).transition[0] == Transition.MOVED
    assert story.register("n_changed") == 2
    assert story.fetch(page, Verdict.UNCHANGED, at=4 * DAY).transition[0] == Transition.RETURNED
    assert story.of_page(page[0], "status") == PageStatus.ACTIVE
    assert story.register("n_changed") == 3


def test_a_page_found_gone_too_often_in_a_row_is_given_up() -> None:
    story, page = started(gone_polls_max=3)
    found = [story.fetch(page, Verdict.GONE, at=k * DAY).transition[0] for k in (1, 2, 3)]
    assert found == [Transition.GONE, Transition.NONE, Transition.RETIRED]
    assert story.of_page(page[0], "status") == PageStatus.RETIRED
    assert story.is_held(page)
    story.order(page)
    assert not story.ordered.valid.any()


def test_a_retired_page_returns_only_by_a_report_without_an_order() -> None:
    story, page = started(gone_polls_max=1)
    story.fetch(page, Verdict.GONE, at=DAY)
    for k, verdict in enumerate(
        [Verdict.GONE, Verdict.MOVED, Verdict.DISALLOWED, Verdict.TRANSIENT_ERROR]
    ):
        story.tick((2 + k) * DAY)
        assert story.report(page, verdict).transition.tolist() == [Transition.NONE]
        assert story.of_page(page[0], "status") == PageStatus.RETIRED
        assert story.is_held(page)
    story.tick(9 * DAY)
    assert story.report(page, Verdict.CHANGED).transition.tolist() == [Transition.RETURNED]
    assert story.of_page(page[0], "status") == PageStatus.ACTIVE
    assert not story.is_held(page)


def test_transient_errors_do_not_count_towards_giving_up() -> None:
    story, page = started(gone_polls_max=3, breaker_errors=200)
    story.fetch(page, Verdict.GONE, at=DAY)
    for k in range(5):
        story.fetch(page, Verdict.TRANSIENT_ERROR, at=(2 + k) * DAY)
    assert story.fetch(page, Verdict.GONE, at=10 * DAY).transition[0] == Transition.NONE
    assert story.fetch(page, Verdict.GONE, at=11 * DAY).transition[0] == Transition.RETIRED


def test_a_page_is_not_given_up_while_it_is_in_flight() -> None:
    story, page = started(gone_polls_max=1)
    order = story.order(page, at=DAY)
    story.tick(DAY + 10)
    # A report without an order finds it gone while the order is in flight.
    assert story.report(page, Verdict.GONE).transition.tolist() == [Transition.GONE]
    assert story.of_page(page[0], "status") == PageStatus.GONE
    story.tick(DAY + 20)
    assert story.report(page, Verdict.CHANGED).transition.tolist() == [Transition.RETURNED]
    assert story.is_held(page)
    story.tick(DAY + 30)
    assert story.report(page, Verdict.GONE, order=order).transition.tolist() == [Transition.RETIRED]


def test_a_disallowed_page_is_tried_again_after_a_while() -> None:
    story, page = started(disallowed_seconds=1000)
    before = belief(story, page)
    assert story.fetch(page, Verdict.DISALLOWED, at=DAY).transition[0] == Transition.NONE
    assert story.of_page(page[0], "status") == PageStatus.DISALLOWED
    assert story.of_page(page[0], "not_before") == shard_seconds(DAY) + 1000
    assert belief(story, page) == before
    assert not story.is_held(page)
    story.fetch(page, at=2 * DAY)
    assert story.of_page(page[0], "status") == PageStatus.ACTIVE


def test_a_page_disallowed_at_first_is_new_when_it_is_first_seen() -> None:
    story = Story()
    page = story.add(1)
    story.fetch(page, Verdict.DISALLOWED, at=DAY)
    assert story.fetch(page, Verdict.CHANGED, at=20 * DAY).transition[0] == Transition.NEW


def test_a_fetchers_clock_ahead_moves_neither_shard_time_nor_its_page_beyond_it() -> None:
    story, page = started()
    order = story.order(page, at=HOUR)
    now = story.shard.now_ms
    story.report(page, order=order, at=HOUR + DAY)
    assert story.shard.now_ms == now
    assert story.of_page(page[0], "fetched_at") == shard_seconds(HOUR)


def test_a_fetchers_clock_behind_does_not_make_its_report_void() -> None:
    story, page = started()
    order = story.order(page, at=2 * DAY)
    story.tick(2 * DAY + 60)
    assert story.report(page, order=order, at=-DAY).valid.all()
    assert story.of_page(page[0], "fetched_at") == shard_seconds(2 * DAY)


def test_an_outcome_no_later_than_the_last_one_is_void() -> None:
    story, page = started()
    story.fetch(page, at=DAY)
    digest = belief(story, page)
    for at in (DAY, DAY / 2, -5 * DAY):
        assert not story.report(page, Verdict.CHANGED, at=at).valid.any()
    assert belief(story, page) == digest


@pytest.mark.parametrize("verdict", [8, 255])
def test_an_unknown_verdict_ends_its_lease_and_is_void(verdict: int) -> None:
    story, page = started()
    order = story.order(page)
    assert not story.report(page, verdict, order=order, at=DAY).valid.any()
    assert not story.is_held(page)


@pytest.mark.parametrize("page", [-1, -(2**63), 1, 2**40, 2**63 - 1, 1 << 32])
def test_an_outcome_of_an_unknown_page_is_void(page: int) -> None:
    story, _ = started()
    assert not story.report(page, at=DAY).valid.any()


def test_a_trusted_last_modified_date_is_the_time_of_the_change() -> None:
    story, page = started(last_modified="trust")
    shape, seconds = belief(story, page)
    story.tick(10 * DAY)
    story.report(page, Verdict.CHANGED, last_modified_at_ms=ms(9 * DAY))
    assert near(belief(story, page), (shape + 1, seconds + DAY))


@pytest.mark.parametrize("modified", [-DAY, 11 * DAY])
def test_a_last_modified_date_that_contradicts_what_was_seen_is_not_used(modified: float) -> None:
    story, page = started(last_modified="trust")
    other, other_page = started()
    for told, told_page in ((story, page), (other, other_page)):
        told.tick(10 * DAY)
        told.report(
            told_page,
            Verdict.CHANGED if modified < 0 else Verdict.UNCHANGED,
            last_modified_at_ms=ms(modified),
        )
    assert belief(story, page) == belief(other, other_page)


def test_a_last_modified_date_is_not_used_unless_trusted() -> None:
    story, page = started()
    other, other_page = started()
    story.tick(10 * DAY)
    other.tick(10 * DAY)
    story.report(page, Verdict.CHANGED, last_modified_at_ms=ms(9 * DAY))
    other.report(other_page, Verdict.CHANGED)
    assert belief(story, page) == belief(other, other_page)


def test_audits_count_fresh_and_stale_copies() -> None:
    story, page = started()
    for k, verdict in enumerate([Verdict.UNCHANGED, Verdict.CHANGED, Verdict.TRANSIENT_ERROR]):
        order = story.order(page, at=(k + 1) * DAY, reason=3)
        story.report(page, verdict, order=order)
    assert (story.register("n_audited"), story.register("n_audited_fresh")) == (2, 1)


def test_audits_are_counted_by_group_and_kind_with_what_the_model_expected() -> None:
    story = Story()
    pages = story.add(4, group=[1, 1, 2, 2], kind=[0, 1, 0, 1])
    story.fetch(pages, at=1)
    expected = np.zeros((4, 2))
    for k, page in enumerate(pages):
        at = 1 + (k + 1) * DAY
        shape, seconds = belief(story, page[None])
        chance = (1 + (k + 1) * DAY / seconds) ** -shape
        expected[k] = chance, chance * (1 - chance)
        order = story.order(page[None], at=at, reason=3)
        story.report(page[None], Verdict.CHANGED if k == 0 else Verdict.UNCHANGED, order=order)
    groups, kinds = story.shard.tables.groups, story.shard.tables.priors
    registers = story.shard.tables.registers
    assert groups.n_audited[:4].tolist() == [0, 2, 2, 0]
    assert groups.n_audited_fresh[:4].tolist() == [0, 1, 2, 0]
    assert kinds.n_audited[:2].tolist() == [2, 2]
    assert kinds.n_audited_fresh[:2].tolist() == [1, 2]
    for k, name in enumerate(("audited_modelled", "audited_variance")):
        column = expected[:, k]
        by_group = [column[:2].sum(), column[2:].sum()]
        # The word has the period in steps of a tenth of an octave.
        assert getattr(groups, name)[1:3] == pytest.approx(by_group, rel=0.05)
        by_kind = [column[::2].sum(), column[1::2].sum()]
        assert getattr(kinds, name)[:2] == pytest.approx(by_kind, rel=0.05)
        assert getattr(registers, name)[0] == pytest.approx(getattr(groups, name).sum())


def test_results_and_spending_are_counted_by_group_and_kind() -> None:
    story = Story()
    pages = story.add(3, group=[1, 1, 2], kind=[0, 1, 1])
    story.fetch(pages, at=1)
    verdicts = (
        *(Verdict.UNCHANGED, Verdict.CHANGED, Verdict.REVERTED, Verdict.GONE, Verdict.MOVED),
        *(Verdict.DISALLOWED, Verdict.TRANSIENT_ERROR, Verdict.WRONG_ANSWER),
    )
    for k, verdict in enumerate(verdicts):
        order = story.order(pages[:2], at=1 + (k + 1) * DAY)
        story.report(pages[:2], verdict, order=order)
    groups, kinds = story.shard.tables.groups, story.shard.tables.priors
    expected = {
        "n_first": (2, 1),
        "n_unchanged": (4, 0),  # a page that is changed back counts as unchanged
        "n_changed": (2, 0),
        "n_gone": (4, 0),
        "n_disallowed": (2, 0),
        "n_failed": (2, 0),
        "n_wrong_answer": (2, 0),
    }
    assert tuple(expected) == RESULT_COLUMNS
    for name, counts in expected.items():
        assert tuple(getattr(groups, name)[1:3]) == counts, name
        assert getattr(kinds, name)[0] == counts[0] // 2, name
        assert getattr(kinds, name)[1] == counts[0] // 2 + counts[1], name
    total = sum(int(getattr(groups, name).sum()) for name in RESULT_COLUMNS)
    assert total == story.register("n_outcomes")
    # Nothing is spent on pages that may not be fetched.
    assert groups.spent[1:3].tolist() == [16.0, 1.0]
    assert kinds.spent[:2].tolist() == [8.0, 9.0]


def test_a_new_kind_begins_without_audits() -> None:
    story, page = started()
    story.report(page, Verdict.UNCHANGED, order=story.order(page, at=DAY, reason=3))
    story.add(1, kind=[3])
    kinds = story.shard.tables.priors
    assert kinds.n_audited[:4].tolist() == [1, 0, 0, 0]
    assert kinds.audited_modelled[0] > 0
    assert not kinds.audited_modelled[1:].any()


def test_with_counts_a_rate_is_estimated_from_polls_and_changes() -> None:
    story = Story(estimator="counts")
    page = story.add(1)
    story.fetch(page, at=1)
    for k in range(1, 9):
        verdict = Verdict.CHANGED if k in (2, 5) else Verdict.UNCHANGED
        story.fetch(page, verdict, at=1 + k * DAY)
    assert story.of_page(page[0], "belief_shape") == (8 << 8) | 2
    _, seconds = belief(story, page)
    assert abs(math.log(seconds / (8 * DAY))) < 8 * math.log(CODE)


def test_counts_are_halved_before_they_overflow() -> None:
    story = Story(estimator="counts")
    page = story.add(1)
    for k in range(600):
        story.fetch(page, Verdict.CHANGED if k % 3 == 0 else Verdict.UNCHANGED, at=1 + k * HOUR)
    n_polls, n_changed = divmod(story.of_page(page[0], "belief_shape"), 256)
    assert 127 <= n_polls <= 255
    assert abs(n_changed / n_polls - 1 / 3) < 0.03
    assert abs(belief(story, page)[1] / n_polls / HOUR - 1) < 0.05


@pytest.mark.parametrize("estimator", ["gamma", "plug_in", "counts"])
def test_more_changes_mean_a_shorter_period_with_every_estimator(estimator: str) -> None:
    story = Story(estimator=estimator)
    page = story.add(2)
    story.fetch(page, at=1)
    for k in range(1, 6):
        story.fetch(page, [Verdict.CHANGED, Verdict.UNCHANGED], at=k * DAY)
    scale = (story.shard.tables.pages.word[:2] >> np.uint64(32)) & np.uint64(0xFF)
    assert scale[0] + 10 < scale[1]
