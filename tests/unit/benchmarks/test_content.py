"""The evaluation on simulated pages counts as it says, and its command runs."""

from dataclasses import replace

import pytest

from benchmarks import content
from benchmarks.content import PageScore, Score
from recrawl.content.judging import ContentVerdict
from recrawl.sim.pages import START_AT, Answer, AnswerFault, EditSize

FIRST, UNCHANGED, CHANGED, REVERTED, WRONG = (
    ContentVerdict.FIRST,
    ContentVerdict.UNCHANGED,
    ContentVerdict.CHANGED,
    ContentVerdict.REVERTED,
    ContentVerdict.WRONG_ANSWER,
)
NOT_FOUND = AnswerFault.SOFT_404
CUT = AnswerFault.TRUNCATED


def answer(version: int, fault: AnswerFault | None = None) -> Answer:
    return Answer("https://a.example/", b"", "text/html", version, EditSize.WORD, fault)


def score_of(*polls: tuple[int, AnswerFault | None, ContentVerdict]) -> Score:
    score, page = Score(), PageScore()
    for version, fault, verdict in polls:
        page.add(score, answer(version, fault), verdict)
    return score


def test_a_change_that_is_found_and_one_that_is_missed_are_counted_once() -> None:
    score = score_of(
        (0, None, FIRST),
        (1, None, CHANGED),
        (2, None, UNCHANGED),
        (2, None, UNCHANGED),
        (2, None, CHANGED),
        (2, None, UNCHANGED),
    )
    assert (score.n_changes, score.n_missed, score.n_false) == (2, 1, 0)
    assert score.missed_by_size == {"word": 1}


def test_a_change_without_reason_is_false() -> None:
    score = score_of((0, None, FIRST), (0, None, CHANGED), (0, None, UNCHANGED))
    assert (score.n_unchanged, score.n_false, score.n_false_early) == (2, 1, 1)


def test_a_return_to_a_recent_version_is_not_a_change() -> None:
    polls = [(0, None, FIRST), (1, None, CHANGED), (0, None, REVERTED), (1, None, CHANGED)]
    score = score_of(*polls)
    assert (score.n_changes, score.n_missed, score.n_unchanged, score.n_false) == (1, 0, 2, 1)


def test_a_new_version_that_is_taken_for_a_return_is_missed() -> None:
    assert score_of((0, None, FIRST), (1, None, REVERTED)).n_missed == 1


def test_wrong_answers_are_recognised_or_not_and_a_change_of_one_is_false() -> None:
    score = score_of((0, None, FIRST), (0, NOT_FOUND, WRONG), (0, NOT_FOUND, CHANGED))
    assert (score.n_wrong, score.n_recognised, score.n_false) == (2, 1, 1)


def test_a_page_taken_for_a_wrong_answer_is_a_false_alarm_and_may_miss_a_change() -> None:
    score = score_of((0, None, FIRST), (1, None, WRONG), (1, None, CHANGED))
    assert (score.n_alarms, score.n_right, score.n_missed, score.n_changes) == (1, 3, 1, 1)


def test_a_damaged_answer_must_not_be_a_change() -> None:
    score = score_of((0, None, FIRST), (0, CUT, CHANGED), (0, CUT, UNCHANGED))
    assert (score.n_damaged, score.n_damaged_changes, score.n_false) == (2, 1, 1)


def test_an_answer_that_is_always_empty_is_neither_recognised_nor_a_false_alarm() -> None:
    score, page = Score(), PageScore()
    usual = replace(answer(0, AnswerFault.EMPTY_SHELL), is_usual_fault=True)
    page.add(score, usual, UNCHANGED)
    page.add(score, usual, WRONG)
    assert (score.n_wrong, score.n_alarms, score.n_unchanged) == (0, 0, 2)


def test_polls_are_in_the_order_of_time_and_twelve_hours_apart() -> None:
    polls = content.poll_times(3, 10, seed=1)
    assert polls == sorted(polls)
    assert len(polls) == 30
    assert polls[0][0] > START_AT
    last_at = max(at for at, _ in polls)
    assert last_at < START_AT + 13 * content.POLL_SECONDS


def test_the_evaluation_runs_on_a_few_pages() -> None:
    kinds = ("plain_text", "news_article", "json_api")
    found = content.measure(
        360,
        n_polls_off=360,
        n_sites=1,
        n_pages=6,
        kinds=kinds,
        names=("all rules", "without any"),
        with_freshness=False,
    )
    assert found["polls"] == 360
    assert set(found["kinds"]) == set(kinds)
    all_rules, none = found["settings"].values()
    assert all_rules["false_changes"] < none["false_changes"]
    assert "| `json_api` |" in content.as_markdown(found)


@pytest.mark.slow_without_jit
def test_errors_cost_freshness_at_the_same_budget() -> None:
    good = Score(n_unchanged=100, n_changes=100)
    bad = Score(n_unchanged=100, n_false=60, n_changes=100, n_missed=40)
    by_site = {
        (kind, 0): {"good": good, "bad": bad if kind == "news_front" else good}
        for kind in ("news_front", "legal_terms", "faq")
    }
    found = content.freshness_with_errors(by_site, ["good", "bad"], days=40)
    assert found["good"] == found["no errors"] > found["bad"]
