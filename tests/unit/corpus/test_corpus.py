"""The methods of a corpus, and its state after it is opened again."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import recrawl
from recrawl import Outcome
from recrawl.corpus import Corpus, CorpusConfig
from recrawl.errors import ConfigError, CorpusError, LockedError, RecrawlError
from recrawl.shard import PageStatus, Reason, Transition
from tests.manual_clock import ManualClock

Open = Callable[..., Corpus]
URLS = [f"https://h{i % 5}.example/page/{i}" for i in range(50)]


def reported(corpus: Corpus, url: str, **facts: object) -> Transition:
    result = corpus.report(Outcome(url=url, **facts))  # type: ignore[arg-type]
    assert result.counted.all()
    return Transition(int(result.transition[0]))


# ---------------------------------------------------------------------- adding


def test_pages_are_added_once_by_their_canonical_url(open_corpus: Open) -> None:
    corpus = open_corpus()
    assert corpus.add(URLS) == (50, 0, 0)
    assert corpus.add(["HTTPS://H0.example:443/page/0#top", "not a url", URLS[3]]) == (0, 2, 1)
    assert corpus.add(["https://new.example/", "https://new.example"]) == (1, 1, 0)
    assert corpus.stats().n_pages == 51


def test_a_page_is_fetched_by_the_url_that_was_given(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(["https://EXAMPLE.com/a#b"])
    (order,) = corpus.lease(1)
    assert order.url == "https://example.com/a"
    assert order.fetch_url == "https://EXAMPLE.com/a#b"


def test_a_single_string_is_rejected(open_corpus: Open) -> None:
    with pytest.raises(TypeError, match="list or an array"):
        open_corpus().add("https://example.com/")


def test_urls_come_as_lists_generators_and_arrow_arrays(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(url for url in URLS[:10])
    corpus.add(pa.array(URLS[10:20]))
    corpus.add(pa.chunked_array([URLS[20:25], URLS[25:30]]))
    corpus.add(pa.array(URLS[30:40], pa.large_string()))
    corpus.add(tuple(URLS[40:]))
    assert corpus.stats().n_pages == 50


def test_strings_that_are_not_unicode_are_rejected(open_corpus: Open) -> None:
    corpus = open_corpus()
    added = corpus.add(
        ["https://a.example/\ud800", "https://a.example/x", "", "\x00", "http://[::1"]
    )
    assert added.n_refused >= 3
    assert corpus.explain("https://a.example/x") is not None


def test_more_important_pages_come_first(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(URLS, importance=1.2 ** np.arange(50) / 100)
    assert [order.url for order in corpus.lease(3)] == URLS[:-4:-1]


def test_removed_pages_are_no_longer_known_and_may_come_back(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    assert corpus.remove([*URLS[:10], "https://other.example/"]) == 10
    assert corpus.explain(URLS[0]) is None
    assert corpus.stats().n_pages == 40
    assert corpus.add(URLS[:5]) == (5, 0, 0)
    assert {order.url for order in corpus.lease(100)} == {*URLS[:5], *URLS[10:]}


# ---------------------------------------------------------------------- orders and outcomes


def test_a_page_is_leased_once_until_it_is_reported(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(URLS[:3])
    orders = corpus.lease(10)
    assert len(orders) == 3
    assert corpus.lease(10) == []
    assert all(order.reason is not Reason.AUDIT for order in orders)
    result = corpus.report([Outcome(handle=order.handle, digest=b"a") for order in orders])
    assert result.counted.all()
    assert (result.transition == Transition.NEW).all()


def test_a_second_report_of_an_order_does_not_count(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(URLS[:1])
    (order,) = corpus.lease(1)
    outcome = Outcome(handle=order.handle, digest=b"a")
    assert corpus.report(outcome).counted.tolist() == [True]
    assert corpus.report(outcome).counted.tolist() == [False]


def test_a_report_of_an_unknown_order_does_not_count(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(URLS[:1])
    assert corpus.report(Outcome(handle=1 << 40, digest=b"a")).counted.tolist() == [False]
    assert corpus.report(Outcome(handle=-5, digest=b"a")).counted.tolist() == [False]
    assert corpus.report(Outcome(handle=4095, digest=b"a")).counted.tolist() == [False]
    assert corpus.report(Outcome(url="https://not.node/", digest=b"a")).counted.tolist() == [False]


def test_digests_tell_new_unchanged_changed_and_reverted(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus()
    corpus.add(URLS[:1])
    transitions = []
    for digest in (b"a", b"a", b"b", b"a", b"a", b"c"):
        clock.pass_seconds(3600)
        transitions.append(reported(corpus, URLS[0], digest=digest))
    none, new, changed, back = (
        Transition.NONE,
        Transition.NEW,
        Transition.CHANGED,
        Transition.REVERTED,
    )
    assert transitions == [new, none, changed, back, none, changed]


def test_two_outcomes_of_a_page_in_one_report_are_compared_with_each_other(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus()
    corpus.add(URLS[:2])
    clock.pass_seconds(7200)
    at = clock.wall_ms()
    rows = [
        Outcome(url=URLS[0], digest=b"a", fetched_at_ms=at - 3_600_000),
        Outcome(url=URLS[1], digest=b"a", fetched_at_ms=at - 3_600_000),
        Outcome(url=URLS[0], digest=b"a", fetched_at_ms=at),
        Outcome(url=URLS[1], digest=b"b", fetched_at_ms=at),
    ]
    assert corpus.report(rows).transition.tolist() == [
        Transition.NEW,
        Transition.NEW,
        Transition.NONE,
        Transition.CHANGED,
    ]


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        ({"status": 200, "changed": True}, PageStatus.ACTIVE),
        ({"status": 304}, PageStatus.ACTIVE),
        ({"status": 404}, PageStatus.GONE),
        ({"status": 410}, PageStatus.GONE),
        ({"status": 301, "moved_to": "https://b.example/"}, PageStatus.MOVED),
        ({"status": 308}, PageStatus.MOVED),
        ({"disallowed": True}, PageStatus.DISALLOWED),
        ({"status": 0}, PageStatus.ACTIVE),
        ({"status": 302}, PageStatus.ACTIVE),
        ({"status": 403}, PageStatus.ACTIVE),
        ({"status": 429, "retry_after_seconds": 5.0}, PageStatus.ACTIVE),
        ({"status": 503}, PageStatus.ACTIVE),
    ],
)
def test_an_outcome_means_what_the_table_says(
    open_corpus: Open, clock: ManualClock, facts: dict[str, object], status: PageStatus
) -> None:
    corpus = open_corpus()
    corpus.add(URLS[:1])
    reported(corpus, URLS[0], digest=b"a")
    clock.pass_seconds(86_400)
    reported(corpus, URLS[0], **facts)
    explanation = corpus.explain(URLS[0])
    assert explanation is not None
    assert explanation.state.status is status
    is_error = facts.get("status") in (0, 302, 403, 429, 503)
    assert (explanation.state.errors > 0) == (is_error or status in (3, 4))


def test_an_outcome_without_information_about_content_is_rejected(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(URLS[:1])
    with pytest.raises(ValueError, match="none of body, text, digest and changed"):
        corpus.report(Outcome(url=URLS[0], status=200))
    with pytest.raises(ValueError, match="neither handle nor url"):
        corpus.report(Outcome(digest=b"a"))


def test_validators_come_back_with_the_next_order(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    corpus.add(URLS[:1])
    (order,) = corpus.lease(1)
    assert (order.etag, order.last_modified) == (None, None)
    date = b"Wed, 21 Oct 2015 07:28:00 GMT"
    corpus.report(Outcome(handle=order.handle, digest=b"a", etag=b'W/"1"', last_modified=date))
    clock.pass_seconds(86_400 * 30)
    (order,) = corpus.lease(1)
    assert (order.etag, order.last_modified) == (b'W/"1"', date)


def test_outcomes_come_as_tables_too(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    handles = [order.handle for order in corpus.lease(50)]
    table = pa.table({"handle": handles, "status": [200] * 50, "digest": [b"x"] * 50})
    assert corpus.report(table).counted.all()
    with pytest.raises(ValueError, match="got \\['colour'\\]"):
        corpus.report(pa.table({"handle": handles, "colour": [1] * 50}))


def test_orders_can_be_extended_and_released(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    corpus.add(URLS[:2])
    first, second = corpus.lease(2, seconds=60)
    assert corpus.extend([first.handle], seconds=600) == 1
    clock.pass_seconds(120)
    (again,) = corpus.lease(10)
    assert again.url == second.url
    assert corpus.release([first.handle, second.handle, again.handle, 12345]) == 2
    assert len(corpus.lease(10)) == 2


def test_leases_stay_within_the_budget(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(budget={"rate": "36/h", "burst": "100s"})
    corpus.add(URLS)
    clock.pass_seconds(1000)
    assert len(corpus.lease(50)) == 1
    clock.pass_seconds(50)
    assert len(corpus.lease(50)) <= 1
    corpus.set_budget(None)
    assert len(corpus.lease(20)) == 20


def test_a_budget_per_run_is_spent_once(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(budget={"rate": "7/run"})
    corpus.add(URLS)
    assert len(corpus.lease(50, run="night")) == 7
    clock.pass_seconds(86_400)
    assert corpus.lease(50, run="night") == []
    corpus.close()
    corpus = open_corpus(budget={"rate": "7/run"})
    assert corpus.lease(50, run="night") == []
    assert len(corpus.lease(50)) == 7


def test_paced_orders_come_as_the_budget_allows(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(budget={"rate": "1/s", "burst": "1s"})
    corpus.add(URLS)
    started = clock.running_ms()
    orders = corpus.paced()
    for _ in range(20):
        next(orders)
    seconds = (clock.running_ms() - started) / 1000
    assert 18 <= seconds <= 25


def test_paced_orders_end_with_the_budget_of_a_run_or_after_a_time(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    assert len(list(corpus.paced(for_seconds=30))) == 50
    assert sum(clock.slept) == pytest.approx(30, abs=1)
    corpus.set_budget("8/run")
    clock.pass_seconds(86_400)
    assert len(list(corpus.paced())) == 8


# ---------------------------------------------------------------------- hints and settings


def test_a_signal_makes_a_page_due_earlier(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(budget={"rate": "1/h"})
    corpus.add(URLS)
    for url in URLS:
        reported(corpus, url, digest=b"a")
    clock.pass_seconds(3600)
    assert corpus.signal([URLS[7], "https://not.node/"], source="sitemap") == 1
    (order,) = corpus.lease(1)
    assert order.url == URLS[7]
    explanation = corpus.explain(URLS[7])
    assert explanation is not None
    assert explanation.sources == ("sitemap",)


def test_a_signal_with_a_time_seen_before_is_ignored(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    corpus.add(URLS[:1])
    reported(corpus, URLS[0], digest=b"a")
    clock.pass_seconds(3600)
    claimed = clock.wall_ms() - 60_000
    assert corpus.signal(URLS[:1], source="sitemap", claimed_at_ms=claimed) == 1
    assert corpus.signal(URLS[:1], source="sitemap", claimed_at_ms=claimed) == 0


def test_requests_make_pages_important(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    clock.pass_seconds(86_400)
    assert corpus.requests([URLS[3], "https://not.node/"], [1000, 1]) == 1
    assert corpus.lease(1)[0].url == URLS[3]


def test_settings_of_pages_are_set_by_url_and_by_pattern(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    assert corpus.set(URLS[:2], importance=100.0, kind="front", max_age="6h") == 2
    explanation = corpus.explain(URLS[1])
    assert explanation is not None
    assert explanation.kind == "front"
    assert explanation.state.importance == pytest.approx(100, rel=1e-3)
    assert explanation.state.interval_seconds_max == 6 * 3600
    assert corpus.set(pattern="h1.example/*", min_age=60) == 10
    explanation = corpus.explain(URLS[1])
    assert explanation is not None
    assert explanation.state.interval_seconds_min == 60
    assert explanation.state.interval_seconds_max == 6 * 3600
    with pytest.raises(ValueError, match="either urls or a pattern"):
        corpus.set(importance=1.0)


def test_patterns_of_the_configuration_apply_to_added_pages(open_corpus: Open) -> None:
    pattern = {"match": "/page/1*", "importance": 8, "max_age": "1d", "kind": "ones"}
    corpus = open_corpus(pattern=[pattern])
    corpus.add(URLS)
    one, two = corpus.explain(URLS[11]), corpus.explain(URLS[2])
    assert one is not None
    assert two is not None
    assert (one.kind, two.kind) == ("ones", None)
    assert one.state.importance == pytest.approx(8, rel=1e-3)
    assert one.state.interval_seconds_max == 86_400
    assert two.state.importance == pytest.approx(1, rel=1e-3)


def test_a_changed_pattern_applies_to_existing_pages(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    corpus.close()
    corpus = open_corpus(pattern=[{"match": "/page/1*", "importance": 8, "max_age": "1d"}])
    one, two = corpus.explain(URLS[11]), corpus.explain(URLS[2])
    assert one is not None
    assert two is not None
    assert (one.kind, two.kind) == ("/page/1*", None)
    assert one.state.importance == pytest.approx(8, rel=1e-3)
    corpus.close()
    corpus = open_corpus(pattern=[{"match": "/page/2*", "max_age": "2d"}])
    one, two = corpus.explain(URLS[11]), corpus.explain(URLS[2])
    assert one is not None
    assert two is not None
    assert (one.kind, two.kind) == (None, "/page/2*")
    assert one.state.interval_seconds_max == float("inf")
    assert two.state.interval_seconds_max == 2 * 86_400


def test_a_host_is_fetched_from_as_often_as_it_allows(
    open_corpus: Open, clock: ManualClock
) -> None:
    politeness = {"delay": 10, "in_flight_max": 1, "burst": 1}
    corpus = open_corpus(politeness=politeness, hosts={"h1.example": {"delay": 60}})
    corpus.add(URLS)
    orders = corpus.lease(50)
    assert len(orders) == 5
    corpus.report([Outcome(handle=order.handle, digest=b"a") for order in orders])
    clock.pass_seconds(11)
    hosts = {order.url.split("/")[2] for order in corpus.lease(50)}
    assert hosts == {"h0.example", "h2.example", "h3.example", "h4.example"}
    corpus.set_host("h1.example", delay=1)
    assert {order.url.split("/")[2] for order in corpus.lease(50)} == {"h1.example"}


# ---------------------------------------------------------------------- the feed


def test_changes_come_in_order_and_after_a_cursor(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    corpus.add(URLS[:2])
    for digest in (b"a", b"b"):
        for url in URLS[:2]:
            clock.pass_seconds(3600)
            reported(corpus, url, digest=digest)
    first = corpus.changes(limit=1)
    assert [(change.url, change.what) for change in first] == [(URLS[0], Transition.NEW)]
    corpus.close()
    corpus = open_corpus()
    rest = corpus.changes(first[-1].cursor)
    assert [(change.url, change.what) for change in rest] == [
        (URLS[1], Transition.NEW),
        (URLS[0], Transition.CHANGED),
        (URLS[1], Transition.CHANGED),
    ]
    assert corpus.changes(rest[-1].cursor) == []
    clock.pass_seconds(3600)
    reported(corpus, URLS[0], status=404)
    clock.pass_seconds(3600)
    reported(corpus, URLS[0], digest=b"b")
    assert [change.what for change in corpus.changes(rest[-1].cursor)] == [
        Transition.GONE,
        Transition.RETURNED,
    ]
    with pytest.raises(ValueError, match="cursor"):
        corpus.changes("nonsense")


# ---------------------------------------------------------------------- partitions


def test_several_partitions_behave_as_one_corpus(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(corpus={"partitions": 3}, budget={"rate": "3600/h", "burst": "1h"})
    urls = [f"https://h{i % 40}.example/{i}" for i in range(400)]
    corpus.add(urls)
    assert all(node.shard.n_pages > 0 for node in corpus.nodes)
    clock.pass_seconds(3600)
    orders = corpus.lease(300)
    assert len(orders) == 300
    assert len({order.handle for order in orders}) == 300
    assert corpus.report([Outcome(handle=o.handle, digest=b"a") for o in orders]).counted.all()
    assert len(corpus.changes(limit=1000)) == 300
    assert corpus.stats().n_pages == 400
    assert corpus.signal(urls, source="feed") > 0
    assert corpus.remove(urls[:100]) == 100
    assert corpus.plan() is not None


# ---------------------------------------------------------------------- opening


def test_everything_is_there_when_opened_again(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    orders = corpus.lease(5)
    before = corpus.nodes[0].shard.tables
    held = int(before.registers.in_flight[0])
    corpus.close()
    clock.pass_seconds(10)
    corpus = open_corpus()
    assert int(corpus.nodes[0].shard.tables.registers.in_flight[0]) == held == 5
    assert corpus.report([Outcome(handle=o.handle, digest=b"a") for o in orders]).counted.all()


def test_a_second_writer_is_rejected(open_corpus: Open) -> None:
    open_corpus()
    with pytest.raises(LockedError, match="open"):
        open_corpus()


def test_a_corpus_can_be_read_while_another_process_writes(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    reported(corpus, URLS[0], digest=b"a")
    reader = open_corpus(read_only=True)
    assert reader.stats().n_pages == 50
    explanation = reader.explain(URLS[0])
    assert explanation is not None
    assert explanation.state.status is PageStatus.ACTIVE
    assert len(reader.changes()) == 1
    assert reader.plan() is not None
    clock.pass_seconds(10)
    corpus.add(["https://later.example/"])
    reported(corpus, "https://later.example/", digest=b"a")
    corpus.snapshot()
    reader.refresh()
    assert reader.stats().n_pages == 51
    assert reader.explain("https://later.example/") is not None
    assert len(reader.changes()) == 2
    for attempt in (lambda: reader.add(["https://x.example/"]), lambda: reader.lease(1)):
        with pytest.raises(RecrawlError, match="for reading"):
            attempt()


def test_changing_what_is_fixed_at_creation_is_rejected(open_corpus: Open) -> None:
    open_corpus(corpus={"partitions": 2}).close()
    with pytest.raises(ConfigError, match=r"corpus\.partitions is 2"):
        open_corpus()


def test_without_a_configuration_a_corpus_keeps_its_own(tmp_path: Path, clock: ManualClock) -> None:
    config = CorpusConfig.from_dict(
        {"corpus": {"partitions": 2}, "budget": {"rate": "60/h"}, "leases": {"length": 33}}
    )
    recrawl.open(tmp_path, config, clock=clock).close()
    with recrawl.open(tmp_path, clock=clock) as corpus:
        assert len(corpus.nodes) == 2
        assert corpus.nodes[0].shard.settings.lease_seconds == 33
        total = sum(float(node.shard.tables.registers.budget[0]) for node in corpus.nodes)
        assert total == pytest.approx(60 / 3600)


def test_the_configuration_is_read_from_the_folder(tmp_path: Path) -> None:
    (tmp_path / "recrawl.toml").write_text('[budget]\nrate = "60/h"\n')
    with recrawl.open(tmp_path) as corpus:
        assert float(corpus.nodes[0].shard.tables.registers.budget[0]) == pytest.approx(1 / 60)


def test_reading_a_folder_without_a_corpus_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="is not a corpus"):
        recrawl.open(tmp_path / "nothing", read_only=True)


def test_a_corpus_of_a_newer_version_is_rejected(open_corpus: Open, tmp_path: Path) -> None:
    open_corpus().close()
    file = tmp_path / "corpus" / "FORMAT"
    file.write_text(file.read_text().replace('"format": 2', '"format": 99'))
    with pytest.raises(CorpusError, match="newer version"):
        open_corpus()


def test_closing_twice_is_harmless_and_with_closes(open_corpus: Open) -> None:
    corpus = open_corpus()
    with corpus:
        corpus.add(URLS)
    corpus.close()


@pytest.mark.slow_without_jit
def test_patterns_get_their_share_of_the_budget(open_corpus: Open, clock: ManualClock) -> None:
    """Both kinds of pages are alike, and one is to have three quarters of the fetches."""
    pattern = {"match": "/page/1*", "share": 0.75, "kind": "ones"}
    corpus = open_corpus(pattern=[pattern], budget={"rate": "60/h", "burst": "1h"})
    urls = [f"https://h{i % 5}.example/page/{1 + i % 2}{i}" for i in range(200)]
    corpus.add(urls)
    for url in urls:
        reported(corpus, url, digest=b"a")
    counts = {"ones": 0, "others": 0}
    for hour in range(60):
        clock.pass_seconds(3600)
        orders = corpus.lease(60)
        outcomes = [Outcome(handle=order.handle, digest=b"%d" % (hour // 9)) for order in orders]
        corpus.report(outcomes)
        for order in orders:
            counts["ones" if "/page/1" in order.url else "others"] += 1
    assert sum(counts.values()) > 3000
    assert 0.65 < counts["ones"] / sum(counts.values()) < 0.85


@pytest.mark.slow_without_jit
def test_budget_moves_to_the_partition_where_it_achieves_more(
    open_corpus: Open, clock: ManualClock
) -> None:
    """Pages of one partition change all the time, those of the others never."""
    corpus = open_corpus(corpus={"partitions": 2}, budget={"rate": "60/h", "burst": "1h"})
    urls = [f"https://h{i % 40}.example/{i}" for i in range(200)]
    corpus.add(urls)
    busy = corpus.nodes[0]
    for hour in range(80):
        clock.pass_seconds(3600)
        outcomes = []
        for order in corpus.lease(60):
            is_busy = order.handle % 4096 == busy.partition
            outcomes.append(Outcome(handle=order.handle, digest=b"%d" % (hour * is_busy)))
        corpus.report(outcomes)
    budget = [float(node.shard.tables.registers.budget[0]) for node in corpus.nodes]
    assert sum(budget) == pytest.approx(60 / 3600)
    share_of_pages = busy.shard.n_pages / 200
    assert budget[0] / sum(budget) > share_of_pages + 0.05


def test_the_price_survives_the_process(open_corpus: Open, clock: ManualClock) -> None:
    urls = [f"https://host{i}.example/" for i in range(60)]
    corpus = open_corpus(budget={"rate": "30/h", "burst": "1h"})
    corpus.add(urls)
    for _ in range(4):
        orders = corpus.lease(40)
        corpus.report([Outcome(handle=order.handle, digest=b"1") for order in orders])
        clock.pass_seconds(3_600)
        corpus.lease(0)
    price = corpus.stats().price
    corpus.close()
    again = open_corpus(budget={"rate": "30/h", "burst": "1h"})
    assert price > 0
    assert again.stats().price == price
