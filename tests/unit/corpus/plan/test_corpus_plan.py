"""The plan of a corpus: hosts, targets and their texts."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from recrawl.corpus import Corpus
from recrawl.corpus.plan.corpus_plan import TARGETS_MAX, CorpusPlan, make_plan
from recrawl.corpus.plan.targets import Target
from recrawl.corpus.plan.text import (
    Amounts,
    delay_words,
    next_goal,
    plan_words,
    target_words,
    together_words,
)

Open = Callable[..., Corpus]
HOUR = 3_600.0
PATTERNS: list[dict[str, Any]] = [
    {"match": "/product/*", "kind": "product", "importance": 4},
    {"match": "/help/*"},
]


def filled(open_corpus: Open, **sections: Any) -> Corpus:
    """Return a corpus of 60 pages on two hosts, of three kinds."""
    sections.setdefault("budget", {"rate": "6/d"})
    corpus = open_corpus(pattern=PATTERNS, **sections)
    for host in ("a.example", "b.example"):
        for kind in ("product", "help", "blog"):
            corpus.add([f"https://{host}/{kind}/{i}" for i in range(10)])
    return corpus


def plan(corpus: Corpus, *targets: str, **options: Any) -> CorpusPlan:
    parsed = [Target.parse(text) for text in targets]
    return make_plan(corpus.nodes.all, now_ms=0, targets=parsed, **options)


def test_a_plan_has_the_budget_and_the_freshness_it_achieves(open_corpus: Open) -> None:
    found = plan(filled(open_corpus))
    assert found.budget_per_hour == pytest.approx(0.25)
    assert found.freshness == pytest.approx(found.plan.freshness_at(0.25))
    assert found.freshness_looked_at == pytest.approx(found.freshness or 0, abs=0.01)
    assert [kind.kind for kind in found.plan.kinds] == ["other", "product", "/help/*"]
    assert found.is_answered_yes


def test_another_budget_can_be_compared(open_corpus: Open) -> None:
    found = plan(filled(open_corpus), budget_per_hour=1.0)
    assert found.budget_per_hour == 1.0
    assert found.freshness == pytest.approx(found.plan.freshness_at(1.0))


@pytest.mark.parametrize("budget", [{"rate": "100/run"}, {"rate": "unlimited"}])
def test_a_budget_that_is_not_per_time_counts_as_none(
    open_corpus: Open, budget: dict[str, str]
) -> None:
    found = plan(filled(open_corpus, budget=budget), "80 %")
    assert (found.budget_per_hour, found.freshness) == (None, None)
    assert found.freshness_looked_at == pytest.approx(0.95, abs=0.01)
    assert found.targets[0].verdict == "possible"
    assert "the corpus has no budget per hour or day to compare with" in plan_words(found)
    assert target_words(found.targets[0], found).startswith("80 %: possible. All pages need ")


def test_a_fixed_price_determines_the_spending(open_corpus: Open) -> None:
    found = plan(filled(open_corpus, budget={"price": 500_000}))
    assert found.price == pytest.approx(500_000, rel=1e-3)
    assert found.budget_per_hour == pytest.approx(
        found.plan.budget_for(found.freshness or 0), rel=0.01
    )
    both = plan(filled(open_corpus, folder="b", budget={"price": 500_000, "rate": "1/d"}))
    assert both.budget_per_hour == pytest.approx(1 / 24)


def test_hosts_add_up(open_corpus: Open) -> None:
    found = plan(filled(open_corpus))
    hosts = found.hosts
    assert {host.host: host.n_pages for host in hosts.largest} == {
        "a.example": 30,
        "b.example": 30,
    }
    assert sum(host.fetches_per_hour for host in hosts.largest) == pytest.approx(0.25, rel=0.02)
    assert (hosts.n_hosts, hosts.n_slowed, hosts.slowed) == (2, 0, ())
    assert hosts.freshness_lost == pytest.approx(0, abs=1e-9)
    assert delay_words(found) == ""


def test_a_delay_costs_freshness_at_the_same_price(open_corpus: Open) -> None:
    slow = {"a.example": {"delay": "24h"}}
    found = plan(filled(open_corpus, hosts=slow))
    (host,) = found.hosts.slowed
    assert (host.host, host.delay_seconds) == ("a.example", 24 * HOUR)
    assert host.is_slowed
    assert host.fetches_per_hour == pytest.approx(1 / 24, rel=0.01)
    assert host.fetches_per_hour_max == pytest.approx(1 / 24)
    other = next(row for row in found.hosts.largest if row.host == "b.example")
    assert host.fetches_per_hour_wanted == pytest.approx(other.fetches_per_hour, rel=0.01)
    assert host.freshness_without_delay == pytest.approx(other.freshness, abs=0.01)
    assert host.freshness < host.freshness_without_delay
    lost = (host.freshness_without_delay - host.freshness) / 2
    assert found.hosts.freshness_lost == pytest.approx(lost, rel=0.01)
    assert "1 host is fetched from as often as its delay allows" in delay_words(found)


@pytest.mark.parametrize(
    ("of", "n_pages"),
    [
        ("product", 20),
        ("/product/*", 20),
        ("a.example", 30),
        ("a.example/help/*", 10),
        ("https://b.example/blog/1", 1),
        ("*.example", 60),
        ("/nothing/*", 0),
    ],
)
def test_targets_are_about_kinds_hosts_and_patterns(
    open_corpus: Open, of: str, n_pages: int
) -> None:
    found = plan(filled(open_corpus), f"50 % of {of}")
    (answer,) = found.targets
    assert answer.n_pages == answer.n_counted == n_pages
    assert (answer.verdict == "no pages") == (n_pages == 0)
    assert found.is_answered_yes == (n_pages > 0)


def test_pages_of_a_target_are_found_in_every_partition(open_corpus: Open) -> None:
    found = plan(filled(open_corpus, corpus={"partitions": 3}), "50 % of /product/*")
    assert found.targets[0].n_pages == 20
    assert {host.host for host in found.hosts.largest} == {"a.example", "b.example"}


def test_the_importance_factor_of_the_answer_meets_the_target(open_corpus: Open) -> None:
    """What the plan advises is done, and planned again."""
    target = "93 % of /help/*"
    corpus = filled(open_corpus)
    before = plan(corpus, target).targets[0]
    assert before.verdict == "possible"
    assert before.importance_factor is not None
    corpus.set(
        [f"https://{host}.example/help/{i}" for host in "ab" for i in range(10)],
        importance=before.importance_factor,
    )
    after = plan(corpus, target)
    assert after.targets[0].share_now == pytest.approx(0.93, abs=0.01)
    assert after.targets[0].spent_now_per_hour == pytest.approx(before.needed_per_hour, rel=0.1)
    others = after.targets[0].others_freshness_now
    assert others == pytest.approx(before.others_freshness_then, abs=0.01)


def test_a_share_beyond_the_curve_is_searched_at_lower_prices(open_corpus: Open) -> None:
    found = plan(filled(open_corpus), "99.9 %", "99.9 % of /help/* under 1h")
    assert [answer.verdict for answer in found.targets] == ["too dear", "too dear"]
    assert all(math.isfinite(answer.needed_per_hour) for answer in found.targets)


def test_a_target_that_host_delays_do_not_allow_is_out_of_reach(open_corpus: Open) -> None:
    found = plan(filled(open_corpus, politeness={"delay": "10d"}), "99 %")
    (answer,) = found.targets
    assert answer.verdict == "out of reach"
    assert answer.share_max < 0.99 <= answer.share_max_without_delays
    assert "host delays allow no more" in target_words(answer, found)
    assert not found.is_answered_yes


def test_a_target_that_min_age_does_not_allow_is_out_of_reach(open_corpus: Open) -> None:
    corpus = open_corpus(pattern=[{"match": "*", "min_age": "300d"}], budget={"rate": "4/h"})
    corpus.add(["https://a.example/1"])
    found = plan(corpus, "99 %")
    assert found.targets[0].verdict == "out of reach"
    assert "min_age" in target_words(found.targets[0], found)


def test_targets_that_are_possible_alone_may_be_impossible_together(open_corpus: Open) -> None:
    corpus = filled(open_corpus)
    low, high = "90 % of /product/*", "98 % of /help/*"
    found = plan(corpus, low, high, budget_per_hour=0.5)
    assert found.together is not None
    assert together_words(found).startswith("All together: ")
    ample = plan(corpus, low, high, budget_per_hour=50.0)
    assert ample.together is not None
    assert ample.together.is_possible
    assert "All together: possible" in together_words(ample)
    assert not plan(corpus, low, "99.999999 %", budget_per_hour=0.5).is_answered_yes


def test_the_summary_has_the_current_freshness_and_what_the_next_goal_needs(
    open_corpus: Open,
) -> None:
    words = plan_words(plan(filled(open_corpus), budget_per_hour=0.25))
    assert " % needs " in words
    assert words.startswith("A budget of 6 fetches/day keeps pages ")
    assert "; twice the budget gives " in words


def test_every_verdict_has_its_text(open_corpus: Open) -> None:
    corpus = filled(open_corpus)
    found = plan(
        corpus,
        "50 % of /product/*",
        "95 % of /help/*",
        "99.9 % of /help/*",
        "50 % of /none/*",
        "97 %",
        budget_per_hour=0.25,
    )
    met, possible, dear, none, whole = (target_words(a, found) for a in found.targets)
    assert met.startswith("50 % of /product/*: met. It is ")
    assert possible.startswith("95 % of /help/*: possible. Now it is ")
    assert "times as important" in possible
    assert "These 20 pages need" in dear
    assert "not with this budget" in dear
    assert "none of the 60 pages looked at matches" in none
    assert "All pages need" in whole
    assert together_words(found) == "All together: no, because one of them cannot be met."


def test_an_empty_corpus_has_nothing_to_plan_for(open_corpus: Open) -> None:
    found = plan(open_corpus(), "95 %")
    assert plan_words(found) == "No pages to plan for yet."
    assert found.targets[0].verdict == "no pages"
    assert found.hosts.largest == ()


def test_small_budgets_are_given_per_day(open_corpus: Open) -> None:
    say = Amounts.of(plan(filled(open_corpus), budget_per_hour=0.25))
    assert say(0.25) == "6 fetches/day"
    assert say.number(math.inf) == "∞"


def test_the_next_goal_is_a_round_one_above(open_corpus: Open) -> None:
    corpus = filled(open_corpus)
    goal = next_goal(plan(corpus, budget_per_hour=0.25))
    assert goal is not None
    assert goal[0] == 0.95
    ample = plan(corpus, budget_per_hour=1_000.0)
    assert next_goal(ample) is None
    assert "Half the budget gives" in plan_words(ample)


def test_the_summary_names_host_delays_that_limit_freshness(open_corpus: Open) -> None:
    corpus = filled(open_corpus, politeness={"delay": "4d"})
    found = plan(corpus, budget_per_hour=10.0)
    assert found.is_held_by_delays
    assert "because of host delays" in plan_words(found)


def test_invalid_patterns_and_too_many_targets_are_rejected(open_corpus: Open) -> None:
    corpus = filled(open_corpus)
    with pytest.raises(ValueError, match="pattern"):
        plan(corpus, "95 % of ftp://x/*")
    with pytest.raises(ValueError, match="there must be at most"):
        plan(corpus, *["95 %"] * (TARGETS_MAX + 1))


def test_unweighted_every_copy_counts_the_same(open_corpus: Open) -> None:
    corpus = filled(open_corpus)
    weighted, plain = plan(corpus), plan(corpus, is_weighted=False)
    assert plain.freshness == pytest.approx(plain.plan.freshness_at(0.25, weighted=False))
    assert (weighted.freshness or 0) > (plain.freshness or 0)


def test_a_sample_represents_all_pages_of_a_target_and_of_a_host(open_corpus: Open) -> None:
    corpus = open_corpus(budget={"rate": "200/d"})
    for host, n in (("a.example", 1_500), ("b.example", 500)):
        corpus.add([f"https://{host}/{'news' if i % 4 else 'help'}/{i}" for i in range(n)])
    targets = ("95 % of /news/*", "95 % of b.example under 1d")
    exact, some = (plan(corpus, *targets, n_pages_max=n) for n in (4_000, 400))
    assert not some.plan.is_exact
    for whole, part in zip(exact.targets, some.targets, strict=True):
        assert part.n_counted < whole.n_counted
        assert part.n_pages == pytest.approx(whole.n_pages, rel=0.2)
        assert part.needed_per_hour == pytest.approx(whole.needed_per_hour, rel=0.2)
        assert part.verdict == whole.verdict
    assert [host.n_pages for host in some.hosts.largest] == [1_500, 500]


def test_a_page_with_max_age_0_leaves_the_plan_finite(open_corpus: Open) -> None:
    corpus = filled(open_corpus, budget={"rate": "10/h"}, politeness={"delay": 1})
    corpus.set(["https://a.example/blog/1"], max_age=0)
    found = plan(corpus, "50 %")
    assert found.ceilings.n_always == 1
    assert found.ceilings_per_hour == pytest.approx(HOUR)
    curve = found.plan.curve
    for column in (curve.fetches_per_hour, curve.cost_per_hour, curve.weighted_freshness):
        assert np.isfinite(column).all()
    for host in found.hosts.largest:
        assert math.isfinite(host.freshness)
        assert math.isfinite(host.fetches_per_hour)
    assert 0 < (found.freshness or 0) < 0.5
    text = plan_words(found)
    assert "1 page has limits that mean fetching all the time, counted as every 1 s." in text
    assert "alone need 3,600 fetches/h, more than the budget" in text


def test_limits_within_the_budget_are_not_mentioned(open_corpus: Open) -> None:
    corpus = filled(open_corpus)
    corpus.set(["https://a.example/blog/1"], max_age="2d")
    found = plan(corpus)
    assert found.ceilings_per_hour == pytest.approx(1 / 48)
    assert "Limits (max_age" not in plan_words(found)


def test_without_importance_all_pages_count_the_same(open_corpus: Open) -> None:
    corpus = filled(open_corpus)
    corpus.set(pattern="*", importance=0)
    found = plan(corpus, "50 %", budget_per_hour=10.0)
    curve, (target,) = found.plan.curve, found.targets
    assert curve.weighted_freshness == pytest.approx(curve.freshness)
    assert target.verdict == "met"
    assert target.share_now == pytest.approx(found.freshness, abs=0.01)
    assert found.hosts.largest[0].freshness == pytest.approx(found.freshness, abs=0.01)


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        ({"rate": "20000/day"}, "A budget of 20,000 fetches/day keeps pages "),
        ({"rate": "20/min"}, "A budget of 20 fetches/min keeps pages "),
        ({"rate": "1/s"}, "A budget of 3,600 fetches/h keeps pages "),
        ({"rate": "0.5/h"}, "A budget of 0.5 fetches/h keeps pages "),
        ({"rate": "1/day"}, "A budget of 1 fetch/day keeps pages "),
        ({"rate": "700/week"}, "A budget of 700 fetches/week keeps pages "),
        ({"rate": "50 EUR/month", "cost_per_fetch": "0.05 EUR"}, "A budget of 50 EUR/month keeps "),
    ],
)
def test_amounts_are_in_the_unit_of_the_budget(
    open_corpus: Open, budget: dict[str, str], words: str
) -> None:
    assert plan_words(filled(open_corpus, budget=budget).plan_targets()).startswith(words)


def test_a_plan_says_that_it_assumes_any_hour(open_corpus: Open) -> None:
    corpus = filled(open_corpus, budget={"rate": "6/d", "between": "01:00-05:00"})
    assert "leased only between 01:00-05:00 (UTC)" in plan_words(corpus.plan_targets())
    assert "leased only" not in plan_words(plan(corpus))
