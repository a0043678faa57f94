"""Every answer of a fetcher becomes an outcome that the corpus understands."""

from typing import Any

import pytest

from recrawl.corpus import Order
from recrawl.fetch import FetchAnswer, FetchProblem, FetchRedirect
from recrawl.run.outcomes import is_unsent, make_outcome, make_spool_page
from recrawl.shard import Reason

ORDER = Order(
    handle=4096,
    url="https://example.com/a",
    fetch_url="https://example.com/a",
    etag=b'"1"',
    last_modified=None,
    reason=Reason.VALUE,
    expires_at_ms=0,
)


def make_answer(**fields: Any) -> FetchAnswer:
    url = ORDER.fetch_url
    return FetchAnswer(url=url, final_url=fields.pop("final_url", url), fetched_at_ms=7, **fields)


@pytest.mark.parametrize("problem", FetchProblem)
def test_a_problem_never_looks_like_a_page(problem: FetchProblem) -> None:
    for status in (0, 200, 301, 304):
        outcome = make_outcome(ORDER, make_answer(status=status, problem=problem))
        assert outcome.status == 0
        assert outcome.body is None
        assert outcome.disallowed is (problem in (FetchProblem.ROBOTS, FetchProblem.BAD_URL))


def test_only_the_host_that_asks_for_it_is_left_alone() -> None:
    busy = {"status": 503, "retry_after_seconds": 600.0}
    assert make_outcome(ORDER, make_answer(**busy)).retry_after_seconds == 600
    redirects = (FetchRedirect("https://example.com/a", 302),)
    for url, seconds in (("https://example.org/b", 0), ("https://example.com/b", 600)):
        answer = make_answer(**busy, final_url=url, redirects=redirects)
        assert make_outcome(ORDER, answer).retry_after_seconds == seconds


def test_a_redirect_counts_for_the_page_that_was_ordered() -> None:
    answer = make_answer(
        status=200,
        body=b"<p>Tea",
        headers={"content-type": "text/html", "etag": '"2"'},
        final_url="https://example.org/b",
        redirects=(FetchRedirect("https://example.com/a", 301),),
    )
    outcome = make_outcome(ORDER, answer)
    assert (outcome.handle, outcome.status, outcome.body) == (4096, 200, b"<p>Tea")
    assert outcome.moved_to is None
    page = make_spool_page(ORDER, answer, keeps_unchanged=False)
    assert page is not None
    assert (page.url, page.final_url) == ("https://example.com/a", "https://example.org/b")


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"status": 304, "was_conditional": True}, 304),
        ({"status": 304}, 0),
        ({"status": 301}, 0),
        ({"status": 404}, 404),
        ({"status": 503, "retry_after_seconds": 30.0}, 503),
        ({"status": 0, "problem": FetchProblem.TIMED_OUT}, 0),
    ],
)
def test_statuses(fields: dict[str, Any], status: int) -> None:
    outcome = make_outcome(ORDER, make_answer(**fields))
    assert outcome.status == status
    assert outcome.retry_after_seconds == fields.get("retry_after_seconds", 0.0)


def test_validators_survive_an_answer_without_them() -> None:
    outcome = make_outcome(ORDER, make_answer(status=304, was_conditional=True))
    assert outcome.etag == b'"1"'


def test_what_was_not_sent_is_given_back() -> None:
    assert is_unsent(make_answer(problem=FetchProblem.HOST_DELAY, retry_after_seconds=90.0))
    assert is_unsent(make_answer(problem=FetchProblem.ROBOTS, retry_after_seconds=300.0))
    assert is_unsent(make_answer(problem=FetchProblem.CLOSED))
    assert not is_unsent(make_answer(problem=FetchProblem.ROBOTS))
    redirects = (FetchRedirect("https://example.com/a", 302),)
    assert not is_unsent(make_answer(problem=FetchProblem.HOST_DELAY, redirects=redirects))


def test_archives_also_get_answers_without_news() -> None:
    answer = make_answer(status=304, was_conditional=True)
    assert make_spool_page(ORDER, answer, keeps_unchanged=False) is None
    page = make_spool_page(ORDER, answer, keeps_unchanged=True)
    assert page is not None
    assert page.status == 304
