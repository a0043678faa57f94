"""Latest changes and problems of several workers are put together as those of one corpus."""

from collections.abc import Callable

from recrawl.corpus import CheckResult, Corpus, Outcome, OverviewPart, read_overview_part
from recrawl.corpus.doctor.check_results import bad, warn
from recrawl.corpus.doctor.overview_part import merge_overview_parts
from recrawl.messages.enums import Transition
from recrawl.messages.views import PageChange
from tests.manual_clock import ManualClock


def part(*problems: CheckResult, times: tuple[int, ...] = ()) -> OverviewPart:
    changes = [
        PageChange("c", f"https://a.example/{at_ms}", Transition.CHANGED, at_ms, None, None, None)
        for at_ms in times
    ]
    return OverviewPart(changes, list(problems))


def problem(check: str, what: str = "w") -> CheckResult:
    return warn(check, what, "do")


def test_the_newest_changes_of_all_come_first() -> None:
    parts = [("w0", part(times=(9, 4, 1))), ("w1", part(times=(7, 6)))]
    merged = merge_overview_parts(parts, 4)
    assert [one.at_ms for one in merged.changes] == [9, 7, 6, 4]
    assert merged.workers_away == ()
    assert merge_overview_parts([], 4, ["w2", "w1", "w2"]) == OverviewPart([], [], ("w1", "w2"))


def test_a_problem_says_which_worker_has_it_unless_all_have_it() -> None:
    own, same, host = problem("limits", "too low"), problem("consumers"), problem("hosts", "a, b")
    broken = bad("audits", "cannot be read", "do")
    merged = merge_overview_parts([("w0", part(own, same)), ("w1", part(same, host, broken))], 1)
    assert [one.what for one in merged.problems] == [
        "too low (worker w0)",
        "w",
        "a, b",
        "cannot be read (worker w1)",
    ]
    assert merged.problems[3].level == broken.level
    assert merge_overview_parts([("w0", part(own))], 1).problems == [own]


def test_no_fetcher_asks_only_if_none_asks_any_worker() -> None:
    idle, later = problem("fetchers", "since 1"), problem("fetchers", "since 2")
    assert merge_overview_parts([("w0", part(idle)), ("w1", part())], 1).problems == []
    both = merge_overview_parts([("w0", part(idle)), ("w1", part(later))], 1)
    assert both.problems == [idle]


def test_a_corpus_says_its_own(open_corpus: Callable[..., Corpus], clock: ManualClock) -> None:
    corpus = open_corpus()
    urls = [f"https://a.example/{i}" for i in range(4)]
    corpus.add(urls)
    for url in urls:
        clock.pass_seconds(60)
        corpus.report([Outcome(url=url, digest=b"1")])
    corpus.set_host("a.example", is_closed=True)
    found = read_overview_part(corpus, 2, 0)
    assert [one.url for one in found.changes] == [urls[3], urls[2]]
    assert [one.check for one in found.problems] == ["hosts"]
