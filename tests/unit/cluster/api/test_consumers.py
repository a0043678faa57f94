"""Places of consumers in the change feed of a cluster: any worker commits and reads them."""

import asyncio
from pathlib import Path

import pytest

from recrawl import Outcome
from recrawl.client import Client
from recrawl.errors import ChangesLost, ServiceUnavailable
from recrawl.service.webhooks import ThreadedFeed, WebhookDelivery
from tests.unit.cluster.api.workers import Workers

pytestmark = pytest.mark.slow_without_jit

URLS = [f"https://h{i % 40}.example/page/{i}" for i in range(60)]


@pytest.fixture
def changed(workers: Workers, clients: list[Client]) -> list[str]:
    """Pages of all partitions, each with a change."""
    clients[0].add(URLS)
    orders = clients[0].lease(60)
    clients[1].report([Outcome(handle=one.handle, digest=b"a" * 16) for one in orders])
    return sorted(URLS)


def test_a_consumer_goes_on_at_any_worker(
    workers: Workers, clients: list[Client], changed: list[str]
) -> None:
    found: list[str] = []
    for turn in range(20):
        changes = clients[turn % 3].changes(consumer="search", limit=7)
        if not changes:
            break
        found += [one.url for one in changes]
        cursor = clients[(turn + 1) % 3].commit_changes("search", changes[-1].cursor)
        assert cursor == changes[-1].cursor
    assert sorted(found) == changed
    for client in clients:
        (one,) = client.consumers()
        assert (one.name, one.cursor, one.n_behind, one.problem) == ("search", cursor, 0, None)
        assert client.changes(consumer="search") == []
        assert client.changes(consumer="other", limit=1)[0].url in changed
    with pytest.raises(ValueError, match="either a cursor or a consumer"):
        workers[0].shared.changes(cursor, consumer="search")
    # A slow reader does not undo the commit of a faster one, at whatever worker.
    start = clients[0].commit_changes("new", "oldest")
    assert clients[2].commit_changes("search", start) == cursor
    assert clients[2].commit_changes("search", start, rewind=True) == start
    assert len(clients[1].changes(consumer="search")) == 60
    assert clients[0].commit_changes("search", "newest") != start
    assert clients[1].changes(consumer="search") == []
    assert clients[1].remove_consumer("search")
    assert not clients[2].remove_consumer("search")
    assert [one.name for one in clients[0].consumers()] == ["new"]
    with pytest.raises(ValueError, match="cursor"):
        clients[0].commit_changes("new", "1.0_2.0")


def test_a_place_stays_when_partitions_move(
    workers: Workers, clients: list[Client], changed: list[str]
) -> None:
    cursor = clients[0].changes(limit=25)[-1].cursor
    clients[0].commit_changes("search", cursor)
    # Without a goodbye, as if the worker had died: the new owner reads the log.
    for partition in (1, 4, 5):
        workers[2].corpus.open_partition(partition)
        workers[1].corpus.close_partition(partition, snapshot=False)
    workers.tell_all()
    for client in clients:
        (one,) = client.consumers()
        assert (one.cursor, one.n_behind) == (cursor, 35)
        assert len(client.changes(consumer="search")) == 35


def test_a_consumer_waits_for_partitions_that_are_away(
    workers: Workers, clients: list[Client], changed: list[str]
) -> None:
    client = Client(f"{workers[0].address}/v1/corpora/news", retry_seconds=0)
    end = clients[0].changes()[-1].cursor
    workers.tell_all({})
    for call in (
        client.consumers,
        lambda: client.changes(consumer="search"),
        lambda: client.remove_consumer("search"),
        lambda: client.commit_changes("search", end),
    ):
        with pytest.raises(ServiceUnavailable, match="partitions 1, 2, 4, 5 cannot be reached"):
            call()
    workers.tell_all()
    # What was committed in some partitions holds there, and nothing of the others is skipped.
    rest = clients[1].changes(consumer="search")
    assert len(rest) == sum(worker.corpus.n_pages for worker in workers.all[1:])
    assert clients[2].commit_changes("search", end) == end
    client.close()


def test_a_consumer_is_told_what_an_owner_no_longer_has(
    workers: Workers, clients: list[Client], changed: list[str]
) -> None:
    clients[0].commit_changes("late", "oldest")
    for node in workers[1].corpus.nodes:
        node.store.trim_changes(before_ms=1 << 60)
    n_missed = workers[1].corpus.n_pages
    for client in clients:
        with pytest.raises(ChangesLost, match=f"late has missed {n_missed} changes"):
            client.changes(consumer="late")
        assert client.consumers()[0].n_missed == n_missed
    clients[2].commit_changes("late", "oldest")
    assert len(clients[0].changes(consumer="late")) == 60 - n_missed


def test_workers_do_not_remove_the_places_of_each_others_webhooks(
    workers: Workers, clients: list[Client], tmp_path: Path
) -> None:
    clients[1].commit_changes("webhook.of-another-worker", "oldest")

    async def start_and_stop() -> None:
        feed = ThreadedFeed(workers[0].shared)
        async with WebhookDelivery(feed, tmp_path, is_feed_shared=True):
            await asyncio.sleep(0)

    asyncio.run(start_and_stop())
    assert [one.name for one in clients[0].consumers()] == ["webhook.of-another-worker"]
