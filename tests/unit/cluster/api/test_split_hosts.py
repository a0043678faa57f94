"""Pages of split hosts are found through any worker, in their home partition or in a part."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from recrawl import Outcome
from recrawl.client import Client
from recrawl.corpus import Corpus, CorpusConfig, RequestKey, RowStatus
from recrawl.corpus.leasing.urls import LeasedUrls
from recrawl.errors import PartitionAway, ServiceUnavailable
from recrawl.messages.enums import Why
from recrawl.node.routing import partition_of_key
from tests.unit.cluster.api.conftest import PARTITIONS
from tests.unit.cluster.api.workers import Workers

pytestmark = pytest.mark.slow_without_jit

HOST = "huge.example"
OLD = [f"https://{HOST}/old/{i}" for i in range(31)]
NEW = [f"https://{HOST}/new/{i}" for i in range(200)]
ALL = [*OLD, *NEW]
OTHERS = [f"https://h{i}.example/" for i in range(20)]
ABSENT = [f"https://{HOST}/absent/{i}" for i in range(20)]
HOME = partition_of_key(HOST, 6)
DONE, UNKNOWN, UNAVAILABLE = RowStatus.DONE, RowStatus.UNKNOWN, RowStatus.UNAVAILABLE


@pytest.fixture
def config(config: CorpusConfig) -> CorpusConfig:
    ledger = config.ledger
    return CorpusConfig.from_dict(
        {
            "corpus": {"partitions": 6, "group_pages_max": 30},
            "ledger": {
                "kind": "kafka",
                "bootstrap": ledger.bootstrap,
                "topic": ledger.topic,
                "replication": 1,
            },
            "politeness": {"delay": 0, "in_flight_max": 100, "burst": 100},
        }
    )


@pytest.fixture
def workers(tmp_path: Path, config: CorpusConfig) -> Iterator[Workers]:
    with Workers(tmp_path, config, PARTITIONS) as running:
        for worker in running.all:
            worker.corpus.split_hosts.share(lambda _: None)
        yield running


def home_of(workers: Workers) -> int:
    (found,) = (i for i, own in enumerate(PARTITIONS) if HOME in own)
    return found


def pages_of(corpus: Corpus) -> list[str]:
    return [row["url"] for batch in corpus.pages(["url"]) for row in batch.to_pylist()]


def test_all_pages_of_a_split_host_are_found_through_any_worker(
    workers: Workers, clients: list[Client]
) -> None:
    home = home_of(workers)
    others = [client for i, client in enumerate(clients) if i != home]
    assert others[0].add(OLD).n_added == len(OLD)
    assert others[1].add(OTHERS).n_added == len(OTHERS)
    n_before = [worker.corpus.n_pages for worker in workers.all]
    # Some through the home's worker, some through the others.
    for i, client in enumerate(clients):
        added = client.add([*NEW[i::3], "not a URL"], doc_id=[*NEW[i::3], ""])
        assert tuple(added) == (len(NEW[i::3]), 0, 1)
        assert set(added.rows[:-1].tolist()) == {DONE}
    after = [worker.corpus.n_pages for worker in workers.all]
    assert min(np.subtract(after, n_before)) > 20  # all workers have some
    listed = sorted(url for worker in workers.all for url in pages_of(worker.corpus))
    assert listed == sorted([*ALL, *OTHERS])  # and each page is in one place

    for client in clients:
        assert client.add(ALL).n_known == len(ALL)
        status = [DONE] * len(ALL) + [UNKNOWN] * len(ABSENT)
        assert client.set([*ALL, *ABSENT], importance=3.0).rows.tolist() == status
        ids = [f"d{i}" for i in range(len(ALL))]
        assert int(client.set_each(ALL, doc_id=ids)) == len(ALL)
        assert int(client.requests([*ALL, *ABSENT], 2)) == len(ALL)
        signalled = client.signal([*ALL, *ABSENT], source="sitemap")
        assert signalled.n_unknown == len(ABSENT)
        page = client.explain(NEW[7])
        assert page is not None
        assert page.doc_id == ids[ALL.index(NEW[7])]
        assert all(client.explain(url) is not None for url in [*OLD[:2], *NEW[:8]])
        assert [client.explain(url) for url in ABSENT[:6]] == [None] * 6
        view = client.host(HOST)
        assert (view.n_pages, view.is_split) == (len(ALL), True)

        found, cursor = [], None
        while True:
            rows, cursor = client.pages_after(cursor, columns=["url"], limit=50)
            found += rows.column("url").to_pylist()
            if cursor is None:
                break
        assert sorted(found) == sorted([*ALL, *OTHERS])

    fetched = [Outcome(url=url, digest=bytes(16)) for url in [*NEW[:30], *ABSENT]]
    reported = others[0].report(fetched).rows.tolist()
    assert reported == [DONE] * 30 + [UNKNOWN] * len(ABSENT)
    leased = others[1].lease_urls([*NEW[50:70], *ABSENT])
    assert isinstance(leased, LeasedUrls)
    assert [one.why for one in leased][20:] == [Why.NOT_TRACKED] * len(ABSENT)
    assert {one.why for one in leased[:20]} <= {Why.PART_WAITS, Why.DUE, Why.NOT_YET}

    assert others[0].remove([*NEW[:10], ABSENT[0]]).rows.tolist() == [DONE] * 10 + [UNKNOWN]
    assert others[1].host(HOST).n_pages == len(ALL) - 10


def test_a_request_with_a_key_counts_once_in_all_parts(
    workers: Workers, clients: list[Client]
) -> None:
    clients[0].add(OLD)
    clients[0].add([*NEW, *OTHERS])
    shared = workers[home_of(workers)].shared
    key = RequestKey(b"a request", b"0123456789abcdef")
    first = shared.requests([*ALL, *OTHERS], 1, request=key).rows
    assert set(first.tolist()) == {DONE}
    again = shared.requests([*ALL, *OTHERS], 1, request=key).rows
    assert set(again.tolist()) == {RowStatus.DUPLICATE}


def test_pages_of_a_part_whose_owner_is_away_are_unavailable(
    workers: Workers, clients: list[Client]
) -> None:
    clients[0].add(OLD)
    clients[0].add(NEW)
    home = home_of(workers)
    (away, _) = (i for i in range(3) if i != home)
    owners = {i: one for worker in workers.all for i, one in worker.owned().items()}
    there = set(pages_of(workers[away].corpus))
    workers.tell_all({i: one for i, one in owners.items() if i not in PARTITIONS[away]})
    shared = workers[home].shared
    rows = shared.set(NEW, importance=2.0).rows
    assert [url for url, row in zip(NEW, rows, strict=True) if row == UNAVAILABLE] == [
        url for url in NEW if url in there
    ]
    assert set(rows.tolist()) == {DONE, UNAVAILABLE}
    rows = shared.add([f"https://{HOST}/late/{i}" for i in range(60)]).rows
    assert set(rows.tolist()) == {DONE, UNAVAILABLE}
    with pytest.raises(ServiceUnavailable, match="it is blocked only in the others"):
        shared.set_host(HOST, blocked_until_ms=shared.now_ms() + 60_000)
    lost = next(url for url in NEW if url in there)
    with pytest.raises(PartitionAway):
        shared.explain(lost)
