"""Budgets as people have them: units, unspent budget, named runs, money."""

from collections.abc import Callable
from typing import TypeAlias

import pytest

from recrawl import Corpus, CorpusConfig, Outcome
from recrawl.corpus.budget_split import run_number
from recrawl.errors import ConfigError
from tests.manual_clock import ManualClock

HOUR, DAY = 3_600, 86_400
URLS = [f"https://h{i % 7}.example/page/{i}" for i in range(700)]

Open: TypeAlias = Callable[..., Corpus]


def leased(open_corpus: Open, rate: str, n: int = 700) -> int:
    corpus = open_corpus(folder=rate.replace("/", " "), budget={"rate": rate})
    corpus.add(URLS)
    found = len(corpus.lease(n))
    corpus.close()
    return found


# ---------------------------------------------------------------------- unspent budget


def test_a_day_of_budget_can_be_leased_at_once(open_corpus: Open) -> None:
    assert leased(open_corpus, "600/day") == 600
    assert leased(open_corpus, "600/h") == 600


def test_a_budget_per_month_begins_with_one_day(open_corpus: Open) -> None:
    assert leased(open_corpus, "6000/month") == 197


def test_a_tiny_budget_begins_with_one_fetch(open_corpus: Open) -> None:
    assert leased(open_corpus, "1/month") == 1


def test_unspent_budget_is_kept_for_one_unit(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(budget={"rate": "100/day"})
    corpus.add(URLS)
    assert len(corpus.lease(700)) == 100
    clock.pass_seconds(DAY / 2)
    assert len(corpus.lease(700)) == 50
    clock.pass_seconds(10 * DAY)
    assert len(corpus.lease(700)) == 100


def test_an_explicit_burst_is_kept(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(budget={"rate": "100/day", "burst": "6h"})
    corpus.add(URLS)
    assert len(corpus.lease(700)) == 25
    clock.pass_seconds(10 * DAY)
    assert len(corpus.lease(700)) == 25


@pytest.mark.parametrize("partitions", [1, 3])
def test_opening_again_neither_gives_nor_takes_budget(
    open_corpus: Open, clock: ManualClock, partitions: int
) -> None:
    shape = {"partitions": partitions}
    corpus = open_corpus(corpus=shape, budget={"rate": "100/day"})
    corpus.add(URLS)
    assert 97 <= len(corpus.lease(700)) <= 100
    for _ in range(4):
        corpus.close()
        clock.pass_seconds(DAY / 8)
        corpus = open_corpus(corpus=shape, budget={"rate": "100/day"})
    assert 45 <= len(corpus.lease(700)) <= 53


def test_a_changed_budget_adds_only_the_difference(open_corpus: Open) -> None:
    corpus = open_corpus(budget={"rate": "100/day"})
    corpus.add(URLS)
    assert len(corpus.lease(90)) == 90
    corpus.set_budget("130/day")
    assert len(corpus.lease(700)) == 40
    corpus.set_budget("100/day")
    assert corpus.lease(700) == []
    corpus.set_budget(None)
    assert len(corpus.lease(100)) == 100
    corpus.set_budget("50/day")
    assert len(corpus.lease(700)) == 50


# ---------------------------------------------------------------------- named runs


@pytest.mark.parametrize("partitions", [1, 4])
def test_processes_share_the_budget_of_a_named_run(open_corpus: Open, partitions: int) -> None:
    spent = []
    for run, n in [("a", 30), ("a", 500), ("b", 500), ("a", 500)]:
        corpus = open_corpus(corpus={"partitions": partitions}, budget={"rate": "100/run"})
        corpus.add(URLS)
        spent.append(len(corpus.lease(n, run=run)))
        corpus.close()
    assert spent == [30, 70, 100, 0]


def test_a_run_without_a_name_is_today_in_the_time_zone(
    open_corpus: Open, clock: ManualClock
) -> None:
    clock.wall = 1_718_488_800_000  # 2024-06-15 22:00 UTC, midnight in Berlin
    budget = {"rate": "7/run", "time_zone": "Europe/Berlin"}
    corpus = open_corpus(budget=budget)
    corpus.add(URLS)
    assert corpus.run_name() == "2024-06-16"
    assert len(corpus.lease(50)) == 7
    clock.pass_seconds(23 * HOUR)
    corpus.close()
    corpus = open_corpus(budget=budget)
    assert corpus.lease(50) == []
    assert corpus.lease(50, run="2024-06-16") == []
    clock.pass_seconds(HOUR)
    assert len(corpus.lease(50)) == 7


def test_a_run_budget_that_was_set_applies_to_every_later_run(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    corpus.set_budget("10/run")
    for _ in range(3):
        assert len(corpus.lease(50)) == 10
        assert corpus.lease(50) == []
        corpus.close()
        clock.pass_seconds(DAY)
        corpus = open_corpus()
    corpus.set_budget("12/run")
    assert len(corpus.lease(50)) == 12


def test_all_of_a_run_is_spent_although_only_one_partition_has_pages(open_corpus: Open) -> None:
    corpus = open_corpus(corpus={"partitions": 4}, budget={"rate": "100/run"})
    assert corpus.lease(1, run="a") == []
    corpus.add([f"https://one.example/{i}" for i in range(300)])
    assert len(corpus.lease(300, run="a")) > 90
    assert sum(len(corpus.lease(300, run="a")) for _ in range(9)) < 10
    assert sum(node.shard.run_spending(run_number("a")) for node in corpus.nodes) == 100


def test_paced_is_one_run_also_over_midnight(open_corpus: Open, clock: ManualClock) -> None:
    clock.wall = 1_718_495_995_000  # 2024-06-15 23:59:55
    corpus = open_corpus(budget={"rate": "20/run"}, politeness={"delay": 2, "in_flight_max": 1})
    corpus.add([f"https://one.example/{i}" for i in range(60)])
    n = 0
    for order in corpus.paced():
        n += 1
        corpus.release([order.handle])
    assert n == 20
    assert corpus.run_name() == "2024-06-16"
    assert len(list(corpus.paced(run="other", for_seconds=3))) >= 1


def test_a_run_ends_when_all_copies_are_fresh(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(budget={"rate": "50/run"}, politeness={"delay": 1, "in_flight_max": 1})
    corpus.add([f"https://one.example/{i}" for i in range(5)])
    for night in range(3):
        clock.pass_seconds(86_400)
        for order in corpus.paced(run=f"night {night}", for_seconds=3600):
            corpus.report(Outcome(handle=order.handle, digest=b"the same"))
    begun = clock.running_ms()
    assert list(corpus.paced(run="again", for_seconds=3600)) == []
    assert clock.running_ms() - begun < 60_000


@pytest.mark.parametrize("run", ["", " ", "a\nb", "x" * 201])
def test_a_run_needs_a_printable_name(open_corpus: Open, run: str) -> None:
    corpus = open_corpus(budget={"rate": "20/run"})
    with pytest.raises(ValueError, match="run must"):
        corpus.lease(1, run=run)


# ---------------------------------------------------------------------- money


def test_a_budget_in_money_pays_for_fetches_by_their_cost(open_corpus: Open) -> None:
    budget = {"rate": "0.30 EUR/day", "cost_per_fetch": "0.001 EUR"}
    pattern = {"match": "/app/*", "cost": 20}
    corpus = open_corpus(budget=budget, pattern=[pattern])
    corpus.add([*URLS, *(f"https://a.example/app/{i}" for i in range(50))])
    orders = corpus.lease(700)
    cost = sum(20 if "/app/" in order.url else 1 for order in orders)
    assert 300 <= cost < 320


@pytest.mark.parametrize(
    ("budget", "problem"),
    [
        ({"rate": "50 EUR/month"}, "cost_per_fetch must be given in EUR"),
        ({"rate": "50 EUR/month", "cost_per_fetch": "0.1 USD"}, "cost_per_fetch must be given in"),
        ({"rate": "5/h", "cost_per_fetch": "0 EUR"}, "must be an amount of money"),
        ({"rate": "5/h", "time_zone": "Mars/Olympus"}, "time_zone must be the name of a time zone"),
    ],
)
def test_impossible_budgets_are_refused(budget: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        CorpusConfig.from_dict({"budget": budget})


def test_money_needs_the_cost_of_a_fetch_also_when_it_is_set_later(open_corpus: Open) -> None:
    corpus = open_corpus()
    with pytest.raises(ConfigError, match="cost_per_fetch must be given in EUR"):
        corpus.set_budget("50 EUR/month")
