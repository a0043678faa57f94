"""The explanation of a page has names and numbers, for a writer and for a reader."""

import json
from collections.abc import Callable

import pytest

import recrawl
from recrawl import Outcome
from recrawl.corpus import Corpus
from recrawl.shard import Transition
from tests.manual_clock import ManualClock

Open = Callable[..., Corpus]
URL = "https://a.example/news/1"


def fetch(corpus: Corpus, clock: ManualClock, **found: object) -> None:
    clock.pass_seconds(3_600)
    corpus.lease(1)
    clock.pass_seconds(2)
    corpus.report(Outcome(url=URL, **found))  # type: ignore[arg-type]


def test_as_dict_has_everything_as_plain_values(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(
        budget={"rate": "30/h"}, pattern=[{"match": "/news/*", "kind": "news", "importance": 3}]
    )
    corpus.add([URL])
    fetch(corpus, clock, digest=b"a", etag=b'"1"')
    corpus.signal([URL], source="sitemap")
    page = corpus.explain(URL)
    assert page is not None
    plain = json.loads(json.dumps(page.as_dict(), allow_nan=True))
    assert plain["url"] == plain["fetch_url"] == URL
    assert plain["kind"] == "news"
    assert plain["status"] == "active"
    assert plain["last_outcome"] == "new"
    assert plain["etag"] == '"1"'
    assert plain["importance"] == pytest.approx(3, rel=1e-3)
    assert plain["host"]["name"] == "a.example"
    assert plain["host"]["n_pages"] == 1
    assert [source["source"] for source in plain["sources"]] == ["sitemap"]
    assert {one["what"] for one in plain["forward"]} >= {"signal", "half the price"}
    assert plain["forward"][0]["source"] == "sitemap"
    assert plain["budget_per_second"] == pytest.approx(30 / 3_600)


def test_a_lease_has_its_reason(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    corpus.add([URL])
    clock.pass_seconds(60)
    assert len(corpus.lease(1)) == 1
    page = corpus.explain(URL)
    assert page is not None
    plain = page.as_dict()
    assert plain["why"] == "in_flight"
    assert plain["lease"]["reason"] in ("discovery", "value")


def test_a_reader_uses_the_price_in_the_log(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(budget={"rate": "1/h", "burst": "2h"}, snapshots={"every": "52w"})
    corpus.add([f"https://a.example/{i}" for i in range(30)])
    corpus.add([URL])
    corpus.snapshot()
    for i in range(30):
        clock.pass_seconds(3_600)
        for order in corpus.lease(2):
            corpus.report(Outcome(handle=order.handle, digest=b"%d" % i))
    clock.pass_seconds(3_600)
    corpus.lease(1)
    with recrawl.open(corpus.folder, corpus.config, read_only=True, clock=clock) as reader:
        read, own = reader.explain(URL), corpus.explain(URL)
    assert read is not None
    assert own is not None
    logged = float(corpus.nodes[0].shard.tables.registers.price[0])
    assert logged > 0
    assert read.state.price == pytest.approx(logged)
    assert read.has_price


def test_a_reader_uses_a_fixed_price(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(budget={"price": 321})
    corpus.add([URL])
    with recrawl.open(corpus.folder, corpus.config, read_only=True, clock=clock) as reader:
        page = reader.explain(URL)
    assert page is not None
    assert page.state.price == pytest.approx(321)


def test_before_the_first_lease_there_is_no_price(open_corpus: Open) -> None:
    corpus = open_corpus(budget={"rate": "1/h"})
    corpus.add([URL])
    page = corpus.explain(URL)
    assert page is not None
    assert not page.has_price
    assert page.as_dict()["price"] is None


def test_a_fetch_without_a_change_leaves_validators_and_time(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus()
    corpus.add([URL])
    fetch(corpus, clock, digest=b"a")
    fetch(corpus, clock, digest=b"a")
    page = corpus.explain(URL)
    assert page is not None
    assert page.last_outcome == Transition.NONE
    assert page.as_dict()["last_outcome"] == "unchanged"


def test_a_page_that_was_signalled_and_is_in_flight(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    corpus.add([URL])
    fetch(corpus, clock, digest=b"a")
    corpus.signal([URL], source="sitemap")
    clock.pass_seconds(3_600)
    corpus.lease(1)
    page = corpus.explain(URL)
    assert page is not None
    assert page.state.why.name == "IN_FLIGHT"
    assert page.state.forward[0].what == "signal"


def test_a_page_never_fetched_is_not_due_before_it_was_added(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add([URL])
    page = corpus.explain(URL)
    assert page is not None
    assert page.state.due_at_ms is not None
    assert page.state.due_at_ms >= page.state.added_at_ms
    (batch,) = corpus.pages(columns=["due_at_ms"])
    assert batch.column("due_at_ms").to_pylist() == [page.state.due_at_ms]
