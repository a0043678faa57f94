"""A very large host is split over partitions, and its delay holds across them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import recrawl
from recrawl.corpus import Corpus, CorpusConfig, Order, Outcome, resize_corpus
from recrawl.corpus.inspect import audits, hosts
from recrawl.corpus.monitoring import present
from recrawl.corpus.past.explanation_text import explanation_words
from recrawl.node.node import apply_entry
from recrawl.node.orders import partition_of
from recrawl.node.records import entry_of
from recrawl.node.routing import partition_of_key, partitions_of_host, split_partitions_of
from recrawl.shard import Shard
from recrawl.shard.state.status import Why
from tests.manual_clock import ManualClock

HOST = "huge.example"
PARTITIONS = 4
DELAY = 5.0


def config_of(**politeness: float) -> CorpusConfig:
    return CorpusConfig.from_dict(
        {
            "corpus": {"partitions": PARTITIONS, "group_pages_max": 30},
            "ledger": {"durability": "os"},
            "politeness": {"delay": DELAY, "in_flight_max": 1, **politeness},
            "protection": {"new_pages_share": 1.0, "new_domain_share": 1.0},
        }
    )


def urls(first: int, end: int) -> list[str]:
    return [f"https://{HOST}/page-{i}" for i in range(first, end)]


@contextmanager
def open_split(folder: Path, clock: ManualClock, **politeness: float) -> Iterator[Corpus]:
    with recrawl.open(folder, config_of(**politeness), clock=clock) as corpus:
        yield corpus


def n_pages(corpus: Corpus) -> list[int]:
    return [node.shard.n_pages for node in corpus.nodes]


def test_pages_after_the_split_are_spread_over_all_partitions(
    tmp_path: Path, clock: ManualClock
) -> None:
    home = partition_of_key(HOST, PARTITIONS)
    with open_split(tmp_path / "corpus", clock) as corpus:
        corpus.add(urls(0, 31))
        assert n_pages(corpus)[home] == sum(n_pages(corpus)) == 31
        added = corpus.add(urls(20, 231))
        assert (added.n_added, added.n_known) == (200, 11)
        assert sum(n_pages(corpus)) == 231
        assert min(n_pages(corpus)) >= 30
        # Nothing is there twice, wherever it is.
        again = corpus.add(urls(0, 231))
        assert (again.n_added, again.n_known) == (0, 231)
        assert corpus.n_pages_of_host(HOST) == 231
        assert int(corpus.remove(urls(0, 231))) == 231
    with open_split(tmp_path / "corpus", clock) as corpus:
        assert sum(n_pages(corpus)) == 0
        # Pages that were removed are new ones, so they are spread by their hashes.
        corpus.add(urls(0, 200))
        assert n_pages(corpus)[home] < 100


def test_a_split_host_is_counted_whole_among_the_largest(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "HOSTS_SHOWN_MAX", 2)
    monkeypatch.setattr(audits, "AUDITED_HOSTS_MAX", 2)
    monkeypatch.setattr(present, "HOSTS_SAMPLED_MAX", 2)
    with open_split(tmp_path / "corpus", clock) as corpus:
        corpus.add(urls(0, 31))
        corpus.add(urls(31, 111))
        for i in range(6):
            corpus.add([f"https://site{i}.example/{j}" for j in range(5 + i)])
        table, sample = corpus.hosts(), corpus.sample()
        found = [(row.host, row.n_pages) for row in table.rows]
        assert found == [(HOST, 111), ("site5.example", 10)]
        assert [(name, one.n_pages) for name, one in sample.hosts.items()] == found
        audited = [row for row in corpus.audited_freshness().rows if row.part == "host"]
        assert [(row.name, row.n_pages) for row in audited] == found
        assert table.n_hosts == 7


def test_calls_by_url_find_pages_in_every_part(tmp_path: Path, clock: ManualClock) -> None:
    with open_split(tmp_path / "corpus", clock) as corpus:
        corpus.add(urls(0, 40))
        corpus.add(urls(40, 140))
        assert int(corpus.set(urls(0, 140), importance=3.0)) == 140
        assert all(corpus.explain(url) is not None for url in urls(0, 140))
        assert corpus.explain(urls(140, 141)[0]) is None
        seen = corpus.report([Outcome(url=url, body=b"<p>x") for url in urls(0, 140)])
        assert seen.counted.all()


def part_of(corpus: Corpus, order: Order) -> int:
    return int(partition_of(np.array([order.handle]), corpus.format.generation)[0])


def crawl(
    corpus: Corpus,
    clock: ManualClock,
    *,
    seconds: float,
    fetch_seconds: Callable[[], float],
    status: Callable[[], int] = lambda: 200,
) -> list[tuple[int, int, int]]:
    """Fetch for a while; return when each fetch began and ended, and its partition."""
    end = clock.wall + seconds * 1000
    log: list[tuple[int, int, int]] = []
    held: list[tuple[int, int, Order]] = []
    while clock.wall < end:
        held += [
            (
                clock.wall,
                # A fetch does not outlast its lease.
                min(clock.wall + round(1000 * fetch_seconds()), order.expires_at_ms),
                order,
            )
            for order in corpus.lease(5)
        ]
        done = [one for one in held if one[1] <= clock.wall]
        held = [one for one in held if one[1] > clock.wall]
        for begun, ended, order in done:
            code = status()
            corpus.report(Outcome(handle=order.handle, status=code, digest=b"x"))
            log.append((begun, ended, part_of(corpus, order)))
        clock.pass_seconds(1.0)
    for begun, ended, order in held:
        corpus.report(Outcome(handle=order.handle, status=200, digest=b"x"))
        log.append((begun, min(ended, clock.wall), part_of(corpus, order)))
    return sorted(log)


def check_delays(log: list[tuple[int, int, int]]) -> None:
    for (_, ended, before), (begun, _, part) in pairwise(log):
        # Within one partition a report counts from the last tick, which is up to a second old.
        assert begun - ended >= DELAY * 1000 - (1000 if part == before else 0)


def test_the_delay_holds_across_partitions_and_restarts(tmp_path: Path, clock: ManualClock) -> None:
    random = np.random.default_rng(7)
    log = []
    with open_split(tmp_path / "corpus", clock) as corpus:
        corpus.add(urls(0, 31))
        assert len(corpus.lease(3)) == 1  # in flight while the host is split
        corpus.add(urls(31, 150))
    for _ in range(2):
        with open_split(tmp_path / "corpus", clock) as corpus:
            log += crawl(corpus, clock, seconds=250, fetch_seconds=lambda: random.exponential(1.5))
            clock.pass_seconds(random.uniform(0, 100))
    assert len(log) > 40
    check_delays(log)
    assert {part for _, _, part in log} == {*range(PARTITIONS)}


def test_a_retry_after_holds_for_all_parts(tmp_path: Path, clock: ManualClock) -> None:
    with open_split(tmp_path / "corpus", clock) as corpus:
        corpus.add(urls(0, 31))
        corpus.add(urls(31, 120))
        parts: set[int] = set()
        while len(parts) < 2:  # until another partition than the first has its turn
            for order in corpus.lease(5):
                parts.add(part_of(corpus, order))
                last = order
                if len(parts) < 2:
                    corpus.report(Outcome(handle=order.handle, body=b"<p>x"))
            clock.pass_seconds(1.0)
        corpus.report(Outcome(handle=last.handle, status=429, retry_after_seconds=600.0))
        found_at = clock.wall
        # A window of a part can be used for five seconds at least, so this step misses none.
        while not corpus.lease(5):
            clock.pass_seconds(4.0)
        assert clock.wall - found_at >= 600_000 - 1_000


def test_explain_says_that_the_host_is_split(tmp_path: Path, clock: ManualClock) -> None:
    with open_split(tmp_path / "corpus", clock) as corpus:
        corpus.add(urls(0, 31))
        corpus.add(urls(31, 100))
        assert len(corpus.lease(1)) == 1
        waiting = []
        for url in urls(0, 100):
            page = corpus.explain(url)
            assert page is not None
            assert page.group_view.is_split
            if page.state.why == Why.PART_WAITS:
                waiting.append(page)
        assert len(waiting) > 20
        assert "is split over several partitions" in explanation_words(waiting[0])
        leased = corpus.lease_urls(urls(0, 100))
        assert Why.PART_WAITS in [one.why for one in leased]


def test_an_owner_sets_the_delay_of_all_parts(tmp_path: Path, clock: ManualClock) -> None:
    with open_split(tmp_path / "corpus", clock) as corpus:
        corpus.add(urls(0, 31))
        corpus.add(urls(31, 200))
        corpus.set_host(HOST, delay=9.0)
        for part in partitions_of_host(HOST, PARTITIONS):
            node = corpus.nodes[part]
            group = node.split_hosts()[HOST]
            assert node.shard.tables.groups.delay_ms[group] == 9_000
        assert corpus.host(HOST).n_pages == 200


def test_a_corpus_with_one_partition_splits_nothing(tmp_path: Path, clock: ManualClock) -> None:
    config = CorpusConfig.from_dict({"corpus": {"group_pages_max": 5}})
    with recrawl.open(tmp_path / "corpus", config, clock=clock) as corpus:
        corpus.add(urls(0, 100))
        assert not corpus.nodes[0].split_hosts()


def test_a_replay_of_the_log_gives_the_same_state(tmp_path: Path, clock: ManualClock) -> None:
    with open_split(tmp_path / "corpus", clock) as corpus:
        corpus.add(urls(0, 31))
        corpus.add(urls(31, 120))
        crawl(corpus, clock, seconds=150, fetch_seconds=lambda: 1.0)
        for node in corpus.nodes:
            again = Shard()
            for _, record in node.ledger.read(0):
                apply_entry(again, entry_of(record))
            assert again.digest() == node.shard.digest()


def pages_of(corpus: Corpus) -> list[dict[str, Any]]:
    columns = ["url", "status", "importance", "is_in_flight", "fetched_at_ms", "doc_id"]
    rows = [row for batch in corpus.pages(columns) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: str(row["url"]))


def lease_one(corpus: Corpus, clock: ManualClock) -> Order:
    """Return the next order, as soon as there is one."""
    for _ in range(400):
        if orders := corpus.lease(1):
            return orders[0]
        clock.pass_seconds(1.0)
    raise AssertionError("nothing is due")


@pytest.mark.parametrize(("partitions", "is_reported"), [(6, True), (2, False), (1, True)])
def test_a_resize_divides_the_parts_of_a_host_anew(
    tmp_path: Path, clock: ManualClock, partitions: int, *, is_reported: bool
) -> None:
    folder = tmp_path / "corpus"
    with open_split(folder, clock) as corpus:
        corpus.add(urls(0, 31), doc_id=[f"d{i}" for i in range(31)])
        corpus.add(urls(31, 200), importance=2.0)
        corpus.remove(urls(20, 25) + urls(100, 110))
        corpus.commit_changes("reader", "oldest")
        crawl(corpus, clock, seconds=60, fetch_seconds=lambda: 1.0)
        corpus.signal(urls(30, 180), source="sitemap")
        crawl(corpus, clock, seconds=40, fetch_seconds=lambda: 1.0)
        order, begun = lease_one(corpus, clock), clock.wall
        pages = pages_of(corpus)
        unread = [(one.at_ms, one.url) for one in corpus.changes(consumer="reader")]
        granted = max(int(node.shard.tables.groups.granted_until.max()) for node in corpus.nodes)
    assert unread
    assert resize_corpus(folder, partitions).n_pages == len(pages) == 185
    with recrawl.open(folder, clock=clock) as corpus:
        assert pages_of(corpus) == pages
        assert [(one.at_ms, one.url) for one in corpus.changes(consumer="reader")] == unread
        assert corpus.host(HOST).n_pages == 185
        home = partition_of_key(HOST, partitions)
        for node in corpus.nodes:
            own = [one for _, name in node.scan_urls() for one in name.to_pylist() if HOST in one]
            expected = split_partitions_of(pa.array(own, pa.string()), home, partitions)
            assert {*expected.tolist()} == {node.partition}
            assert (HOST in node.split_hosts()) == (partitions > 1)
        again = corpus.add(urls(0, 20) + urls(25, 100))
        assert (again.n_added, again.n_known) == (0, 95)
        # The order is in flight, and the windows of before have not ended.
        assert not corpus.lease(5)
        clock.pass_seconds(2.0)
        ended = order.expires_at_ms
        if is_reported:
            assert corpus.report([Outcome(handle=order.handle, digest=b"x")]).counted.all()
            ended = clock.wall
        later = lease_one(corpus, clock)
        if partitions > 1:
            assert clock.wall >= granted + 1000 * DELAY
        corpus.report([Outcome(handle=later.handle, digest=b"x")])
        part = part_of(corpus, later)
        log = [(begun, ended, part if partitions == 1 else -1), (clock.wall, clock.wall, part)]
        log += crawl(corpus, clock, seconds=200, fetch_seconds=lambda: 1.0)
        check_delays(log)
        assert len(log) > 15
        assert len({part for *_, part in log[1:]}) >= min(partitions, 2)
