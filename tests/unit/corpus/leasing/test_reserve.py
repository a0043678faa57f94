"""Small leases that follow each other closely share a decision, and nobody notices."""

from collections.abc import Callable
from typing import TypeAlias

import pytest

from recrawl.corpus import Corpus, Outcome
from recrawl.shard.picker import Picker
from tests.manual_clock import ManualClock

Open: TypeAlias = Callable[..., Corpus]
PAGES = [f"https://h{i % 50}.example/{i}" for i in range(400)]
SWEEPING = {"scan_pages_max": 0}
each_picker = pytest.mark.parametrize("picker", [{}, SWEEPING], ids=["scan", "sweep"])


def add_pages(corpus: Corpus) -> None:
    corpus.add(PAGES, importance=[1 + i % 7 for i in range(len(PAGES))])


def count_decisions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of orders that each decision was asked for."""
    asked: list[int] = []
    decide = Picker.decide

    def counted(self: Picker, tables: object, now_ms: int, n: int, **options: bool) -> object:
        asked.append(n)
        return decide(self, tables, now_ms, n, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Picker, "decide", counted)
    return asked


@each_picker
def test_single_leases_are_those_of_one_large_lease(
    open_corpus: Open,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    picker: dict[str, int],
) -> None:
    whole, single = open_corpus("whole", picker=picker), open_corpus("single", picker=picker)
    for corpus in (whole, single):
        add_pages(corpus)
    clock.pass_seconds(60)
    expected = [order.url for order in whole.lease(300)]
    asked = count_decisions(monkeypatch)
    found = [single.lease(1)[0].url for _ in range(300)]
    assert len({*found}) == 300
    assert len(asked) < 20
    if not picker:
        assert found == expected
    importance = dict(zip(PAGES, [1 + i % 7 for i in range(len(PAGES))], strict=True))
    assert sum(map(importance.get, found)) == sum(map(importance.get, expected))  # type: ignore[arg-type]


@each_picker
def test_leases_far_apart_choose_nothing_ahead(
    open_corpus: Open,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    picker: dict[str, int],
) -> None:
    corpus = open_corpus(picker=picker)
    add_pages(corpus)
    asked = count_decisions(monkeypatch)
    for _ in range(10):
        clock.pass_seconds(1)
        assert len(corpus.lease(1)) == 1
    assert asked == [1] * 10


@each_picker
def test_dropped_pages_get_their_turn_again(
    open_corpus: Open, clock: ManualClock, picker: dict[str, int]
) -> None:
    """Pages chosen ahead are dropped by time, by settings and by large leases; none is lost."""
    corpus = open_corpus(picker=picker)
    add_pages(corpus)
    clock.pass_seconds(10)
    found = []
    for i in range(60):
        orders = [order for _ in range(3) for order in corpus.lease(1)]
        found += [order.url for order in orders]
        if i % 3 == 0:
            clock.pass_seconds(0.2)
        elif i % 3 == 1:
            corpus.set([PAGES[i]], importance=2.0)
        else:
            found += [order.url for order in corpus.lease(70 if i == 5 else 2)]
    clock.pass_seconds(5)
    found += [order.url for order in corpus.lease(400)]
    assert len(found) == len({*found}) == len(PAGES)


@each_picker
def test_a_host_that_fails_gets_no_more_requests(
    open_corpus: Open, clock: ManualClock, picker: dict[str, int]
) -> None:
    corpus = open_corpus(picker=picker, politeness={"delay": 0, "in_flight_max": 9, "burst": 9})
    corpus.add([f"https://a.example/{i}" for i in range(50)])
    clock.pass_seconds(10)
    orders = [order for _ in range(4) for order in corpus.lease(1)]
    assert len(orders) == 4
    assert corpus.nodes[0].shard._reserve.n_pages > 0
    corpus.report(Outcome(handle=orders[0].handle, status=429, retry_after_seconds=600))
    assert corpus.nodes[0].shard._reserve.n_pages == 0
    assert corpus.lease(1) == []


def test_the_budget_pays_for_every_single_lease(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(budget={"rate": "24/day", "burst": "1d"})
    add_pages(corpus)
    found = [order for _ in range(40) for order in corpus.lease(1)]
    assert len(found) == 24
    clock.pass_seconds(3_600)
    assert len([order for _ in range(5) for order in corpus.lease(1)]) == 1


def test_a_page_that_was_fetched_meanwhile_is_not_leased(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus()
    corpus.add(PAGES[:30])
    clock.pass_seconds(10)
    found = [corpus.lease(1)[0].url for _ in range(3)]
    rest = [url for url in PAGES[:30] if url not in found]
    corpus.report([Outcome(url=url, digest=b"1") for url in rest[:20]])
    clock.pass_seconds(0.01)
    found += [order.url for _ in range(7) for order in corpus.lease(1)]
    assert not {*found} & {*rest[:20]}
