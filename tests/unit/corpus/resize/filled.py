"""A corpus in which everything has happened that must survive a change of its partitions."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import recrawl
from recrawl import Outcome
from recrawl.corpus import Corpus, CorpusConfig, Order, RowStatus
from recrawl.store import Names
from tests.manual_clock import ManualClock

N_PAGES = 300
URLS = [f"https://h{i % 29}.site{i % 5}.example/page/{i}" for i in range(N_PAGES)]
COLUMNS = [
    "url",
    "kind",
    "status",
    "importance",
    "is_in_flight",
    "belief_shape",
    "belief_seconds",
    "fetched_at_ms",
    "doc_id",
]
SETTINGS: dict[str, Any] = {
    "politeness": {"delay": 5, "in_flight_max": 50, "burst": 50},
    "budget": {"rate": "100/s"},
    "pattern": [{"match": "*/page/1*", "kind": "ones", "max_age": "7d"}],
}


@dataclass
class Filled:
    """What is known of the corpus when it is closed."""

    folder: Path
    pages: list[dict[str, Any]] = field(default_factory=list)
    open_orders: list[Order] = field(default_factory=list)
    urls_read: set[str] = field(default_factory=set)
    urls_unread: set[str] = field(default_factory=set)
    cursor: str = ""
    hosts: dict[str, Any] = field(default_factory=dict)
    etag: dict[str, bytes] = field(default_factory=dict)


def pages_of(corpus: Corpus) -> list[dict[str, Any]]:
    rows = [row for batch in corpus.pages(COLUMNS) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: str(row["url"]))


def hosts_of(corpus: Corpus) -> dict[str, Any]:
    """Return delays and blocks of all hosts, by name."""
    found = {}
    for node in corpus.nodes:
        groups = node.shard.tables.groups
        n_groups = node.store.n_names(Names.GROUP)
        for number, name in enumerate(node.store.names_of(Names.GROUP, range(n_groups))):
            columns = ("ready_at", "blocked_until", "delay_ms", "in_flight", "n_pages", "n_errors")
            found[str(name)] = {one: int(getattr(groups, one)[number]) for one in columns}
    return found


def fill(folder: Path, config: CorpusConfig, clock: ManualClock) -> Filled:
    """Use a corpus, close it, and return what must be known of it later."""
    filled = Filled(folder)
    with recrawl.open(folder, config, clock=clock) as corpus:
        corpus.add(URLS, doc_id=[f"d{i}" for i in range(N_PAGES)])
        corpus.remove(URLS[40:60])
        for day in range(3):
            clock.pass_seconds(86_400)
            orders = corpus.lease(120)
            corpus.report(
                [
                    Outcome(
                        handle=one.handle,
                        digest=f"{one.url} {day if i % 2 else 0}".encode(),
                        etag=f'"{one.url}"'.encode(),
                        status=503 if i % 31 == 7 else 200,
                        retry_after_seconds=3600.0 if i % 31 == 7 else 0.0,
                    )
                    for i, one in enumerate(orders)
                ]
            )
            corpus.signal(URLS[70:200:3], source="sitemap")
            corpus.signal(URLS[70:200:4], source="feed")
        changes = corpus.changes(limit=10_000)
        middle = len(changes) // 3
        filled.cursor = changes[middle].cursor
        filled.urls_read = {one.sequence for one in changes[: middle + 1]}
        filled.urls_unread = {f"{one.url} {one.at_ms}" for one in changes[middle + 1 :]}
        corpus.commit_changes("reader", filled.cursor)
        clock.pass_seconds(600)
        filled.open_orders = list(corpus.lease(25, seconds=3_000))
        assert len(filled.open_orders) == 25
        filled.pages, filled.hosts = pages_of(corpus), hosts_of(corpus)
    return filled


def check(filled: Filled, corpus: Corpus) -> None:
    """Check that a corpus has everything that it had, and goes on with it."""
    assert hosts_of(corpus) == filled.hosts
    assert pages_of(corpus) == filled.pages
    assert corpus.stats().in_flight == len(filled.open_orders)
    expiry = {one.url: one.expires_at_ms for one in filled.open_orders}
    for node in corpus.nodes:
        leases = node.shard.tables.leases
        (rows,) = (leases.stage == 1).nonzero()
        for page, expires_at in zip(leases.page[rows], leases.expires_at[rows], strict=True):
            (url,) = node.store.urls_of(page.reshape(1)).to_pylist()
            assert expiry.pop(url) == expires_at
    assert not expiry
    for place in ({"after": filled.cursor}, {"consumer": "reader"}):
        found = corpus.changes(limit=10_000, **place)
        assert {f"{one.url} {one.at_ms}" for one in found} == filled.urls_unread
        assert len(found) == len(filled.urls_unread)
    first, second, *others = filled.open_orders
    assert corpus.extend([first.handle], seconds=2_000).rows[0] == RowStatus.DONE
    assert corpus.release([second.handle]).rows[0] == RowStatus.DONE
    reported = corpus.report(
        [Outcome(handle=one.handle, digest=b"new", etag=b'"new"') for one in (first, *others)]
    )
    assert reported.counted.all()
    again = corpus.report([Outcome(handle=one.handle, digest=b"new") for one in others])
    assert not again.counted.any()
    assert corpus.explain(URLS[0]) is not None
    assert corpus.explain(URLS[45]) is None
    added = corpus.add([*URLS[:3], "https://new.example/"])
    assert added.n_added == 1
