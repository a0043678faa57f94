"""Reading through any worker: pages, changes, statistics, sources; and turns at hosts."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from recrawl import Outcome
from recrawl.client import Client
from recrawl.cluster.api.owners import Owner, owners_of, standbys_of
from recrawl.cluster.api.worker_calls import ForwardingSettings
from recrawl.cluster.members.heartbeats import Heartbeat
from recrawl.cluster.members.membership import Members
from recrawl.corpus import Corpus, CorpusConfig, OverviewPart, RowStatus, read_overview_part
from recrawl.dashboard import attach_dashboard
from recrawl.errors import NotInCluster
from recrawl.messages.partitions import OwnedPartition
from recrawl.messages.robots import RobotsNote
from recrawl.messages.turns import TurnEnd
from recrawl.service.routes import inspect
from tests.unit.cluster.api.workers import Workers
from tests.unit.dashboard.browser_client import BrowserClient

pytestmark = pytest.mark.slow_without_jit

URLS = [f"https://h{i % 40}.example/page/{i}" for i in range(200)]


@pytest.mark.parametrize("limit", [1, 9, 1_000])
def test_all_pages_are_listed_once_through_any_worker(
    workers: Workers, clients: list[Client], limit: int
) -> None:
    urls = URLS[:30]
    assert clients[0].pages_after(limit=limit).cursor is None
    clients[0].add(urls)
    for columns in (None, ["url"], ["doc_id", "url"]):
        found, cursor, turn = [], None, 0
        while True:
            rows = clients[turn % 3].pages_after(cursor, columns=columns, limit=limit)
            assert rows.batch.num_rows
            assert columns is None or rows.batch.schema.names == columns
            found += rows.batch.column("url").to_pylist()
            turn, cursor = turn + 1, rows.cursor
            if cursor is None:
                break
        assert sorted(found) == sorted(urls)
    with pytest.raises(ValueError, match="cursor"):
        clients[0].pages_after("9_9_9")


def test_hosts_and_single_pages_are_shown_through_any_worker(
    workers: Workers, clients: list[Client]
) -> None:
    urls = URLS[:30]
    clients[0].add(urls)
    orders = clients[0].lease(30)
    clients[0].report([Outcome(handle=one.handle, digest=b"a" * 16) for one in orders])
    for client in clients:
        assert sum(row.n_pages for row in client.hosts().rows) == 30
        assert client.audited_freshness().rows[0].n_pages == 30
        for url in urls[:6]:
            host = url.split("/")[2]
            found = client.pages_of_host(host, columns=["url"])
            assert found.batch.column("url").to_pylist() == [url]
            assert client.last_change(url) is not None
            assert client.history(url) is not None
        assert client.fetch_now(urls).rows.max() <= RowStatus.DUPLICATE


@pytest.mark.parametrize("limit", [1, 7, 1_000])
def test_changes_are_read_once_and_in_order_through_any_worker(
    workers: Workers, clients: list[Client], limit: int
) -> None:
    clients[0].add(URLS[:60])
    orders = clients[0].lease(60)
    for first in range(0, 60, 6):
        some = orders[first : first + 6]
        clients[1].report([Outcome(handle=one.handle, digest=b"a" * 16) for one in some])
    found, cursor, turn = [], None, 0
    while changes := clients[turn % 3].changes(cursor, limit=limit):
        assert len(changes) <= limit
        found += changes
        turn, cursor = turn + 1, changes[-1].cursor
    assert sorted(one.url for one in found) == sorted(URLS[:60])
    if limit == 1_000:
        assert [one.at_ms for one in found] == sorted(one.at_ms for one in found)
    assert len({one.sequence for one in found}) == 60
    # Any cursor on the way continues with what came after it.
    middle = found[29].cursor
    rest = clients[2].changes(middle)
    assert sorted(one.url for one in rest) == sorted(one.url for one in found[30:])


def test_a_cursor_keeps_its_place_in_partitions_that_are_away(
    workers: Workers, clients: list[Client]
) -> None:
    clients[0].add(URLS[:60])
    orders = clients[0].lease(60)
    clients[1].report([Outcome(handle=one.handle, digest=b"a" * 16) for one in orders])
    workers.tell_all({})
    here = clients[0].changes()
    workers.tell_all()
    rest = clients[1].changes(here[-1].cursor)
    assert 0 < len(here) < 60
    assert sorted(one.url for one in [*here, *rest]) == sorted(URLS[:60])


def test_statistics_and_sources_are_those_of_all(workers: Workers, clients: list[Client]) -> None:
    clients[0].add(URLS)
    clients[0].signal(URLS[:80], source="sitemap")
    for client in clients:
        stats = client.stats()
        assert (stats.n_pages, stats.n_groups, stats.n_signals) == (200, 40, 80)
        assert sum(stats.pages_by_status.values()) == 200
        assert (stats.budget, stats.n_partitions_away) == ("unlimited", 0)
        rows, n_sources = client.sources()
        assert (len(rows), n_sources) == (40, 40)
        audits = client.audited_freshness().rows
        assert (audits[0].part, audits[0].n_pages) == ("corpus", 200)
        assert sum(row.n_pages for row in audits if row.part == "host") == 200
        assert client.configuration()["corpus"]["partitions"] == 6
    workers.tell_all({})
    n_here = workers[2].corpus.n_pages
    stats = clients[2].stats()
    assert (stats.n_pages, stats.n_partitions_away) == (n_here, 5)


def test_samples_of_all_workers_are_added_up(workers: Workers, clients: list[Client]) -> None:
    clients[0].add(URLS)
    clients[0].signal(URLS[:80], source="sitemap")
    for worker in workers.all:
        for node in worker.corpus.nodes:
            node._sampled_ms = node._ticked_ms = 0  # as if a minute had passed
            node.tick(worker.corpus.time)
    for client in clients:
        now = client.sample()
        assert (now.total.n_pages, now.n_hosts, now.n_partitions_away) == (200, 40, 0)
        assert list(now.partitions) == list(range(6))
        assert {one.n_pages for one in now.hosts.values()} == {5}
        days = client.samples(step="day")
        assert (days.n_pages.sum(), days.n_partitions.sum()) == (200, 6)
        host = client.samples(step="day", host="h7.example")
        assert (host.n_pages.sum(), host.n_partitions.sum()) == (5, 1)
        source = client.source_samples("sitemap", "h7.example", step="day")
        assert source.precision.size == 1
    workers.tell_all({})
    n_here = workers[2].corpus.n_pages
    assert clients[2].sample().total.n_pages == n_here
    days = clients[2].samples(step="day")
    assert (days.n_pages.sum(), days.n_partitions_away) == (n_here, 5)


def test_what_a_cluster_does_not_answer_says_so(workers: Workers, clients: list[Client]) -> None:
    with pytest.raises(NotInCluster, match="workers share a rate"):
        clients[0].set_budget("10/run")
    answer = workers[0].server.request(
        "PUT",
        "/v1/corpora/news/budget",
        b'{"rate": "10/run"}',
        {"Content-Type": "application/json"},
    )
    assert (answer.status, answer.problem) == (501, "not-in-cluster")


def test_a_turn_at_a_host_is_granted_once_by_all_workers_together(
    workers: Workers, clients: list[Client]
) -> None:
    hosts = [f"host{i}.example" for i in range(12)]
    begin = {f"a{i}": host for i, host in enumerate(hosts)}
    granted = clients[0].take_turns(begin=begin).begun
    assert all(one.is_granted for one in granted.values())
    n_turns = [
        len(worker.server.app.state.service.corpora.find("news").turns) for worker in workers.all
    ]
    assert sum(n_turns) == 12
    assert all(n < 12 for n in n_turns)
    # Asked anywhere, the same turn is the same one.
    again = clients[1].take_turns(begin=begin, renew=begin)
    assert len(again.begun) == len(again.renewed) == 12
    ended = [TurnEnd(turn, host, wait_seconds=1_000.0) for turn, host in begin.items()]
    clients[2].take_turns(end=ended)
    later = clients[0].take_turns(begin={f"b{i}": host for i, host in enumerate(hosts)}).begun
    assert not any(one.is_granted for one in later.values())


def test_a_standby_explains_pages_and_hosts_and_says_how_far_it_is_behind(
    workers: Workers, clients: list[Client]
) -> None:
    clients[0].add(URLS)
    for partition in (1, 4, 5):
        workers[2].corpus.stand_by(partition)
    rows = [row for batch in workers[1].corpus.pages(["url"]) for row in batch.to_pylist()]
    url = rows[0]["url"]
    owned = {i: one for worker in workers.all for i, one in worker.owned().items()}
    there = Owner("w2", workers[2].address, 0)
    gone = {i: one for i, one in owned.items() if one.worker != "w1"}
    for worker in workers.all:
        worker.owners.replace(gone, {key: [there] for key in (1, 4, 5)})
    for client in (clients[0], clients[2]):
        page = client.explain(url)
        assert page is not None
        assert page.url == url
        assert page.standby_seconds >= 0
        assert "A standby of the partition says this" in page.words[0]
    page = clients[1].explain(url)
    assert page is not None
    assert page.standby_seconds is None
    # So does it show hosts.
    host = url.split("/")[2]
    for client in (clients[0], clients[2]):
        view = client.host(host)
        assert (view.host, view.n_pages) == (host, 5)
        assert view.standby_seconds is not None
        assert view.standby_seconds >= 0
    assert clients[1].host(host).standby_seconds is None
    # It does not take changes.
    assert clients[0].add([url]).rows.tolist() == [RowStatus.UNAVAILABLE]


def test_owners_and_standbys_are_read_from_heartbeats() -> None:
    def heartbeat(name: str, owned: dict[int, int], standby: dict[int, float]) -> Heartbeat:
        return Heartbeat(
            worker=name,
            instance=name,
            started_at_ms=1,
            address=f"http://{name}",
            owned={i: OwnedPartition(epoch) for i, epoch in owned.items()},
            standby_seconds=standby,
        )

    members = Members(
        (
            heartbeat("a", {0: 3, 1: 1}, {2: 5.0}),
            heartbeat("b", {1: 2, 2: 1}, {0: 0.5}),
            heartbeat("c", {}, {0: 0.1, 2: 0.3}),
        ),
        is_frozen=False,
    )
    assert owners_of(members) == {
        0: Owner("a", "http://a", 3),
        1: Owner("b", "http://b", 2),
        2: Owner("b", "http://b", 1),
    }
    found = {i: [one.worker for one in workers] for i, workers in standbys_of(members).items()}
    assert found == {0: ["c", "b"], 2: ["c", "a"]}


def test_latest_changes_and_problems_are_those_of_all(
    workers: Workers, clients: list[Client]
) -> None:
    clients[0].add(URLS)
    clients[0].report([Outcome(url=url, digest=b"1") for url in URLS])
    for i in range(8):
        clients[0].set_host(f"h{i}.example", is_closed=True)
    own = [read_overview_part(worker.corpus, 500, 0) for worker in workers.all]
    assert all(part.changes for part in own)
    for worker in workers.all:
        found = worker.shared.overview_part(500, n_due=0)
        assert sorted(one.url for one in found.changes) == sorted(URLS)
        assert [one.at_ms for one in found.changes] == sorted(
            (one.at_ms for one in found.changes), reverse=True
        )
        assert len(worker.shared.overview_part(7, n_due=0).changes) == 7
        checks = [one.check for one in found.problems]
        assert checks.count("hosts") == sum(
            one.check == "hosts" for part in own for one in part.problems
        )
        assert found.workers_away == ()


def test_only_workers_are_told_what_one_worker_knows(workers: Workers) -> None:
    answer = workers[0].server.request("GET", "/v1/corpora/news/overview-part?n_changes=5&n_due=0")
    assert (answer.status, answer.problem) == (404, "unknown-path")


def test_a_slow_worker_keeps_the_overview_waiting_no_longer_than_its_deadline(
    tmp_path: Path, config: CorpusConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault: one worker takes minutes to find its problems."""
    go = threading.Event()
    options: dict[str, Any] = {"dashboard": attach_dashboard}
    with Workers(tmp_path, config, [[0, 3], [1, 4, 5], [2]], **options) as workers:
        with workers[0].client() as client:
            client.add(URLS)
            client.report([Outcome(url=url, digest=b"1") for url in URLS])
        browser = BrowserClient(workers[0].server)
        everything = browser.get("/ui/news/").data.decode()
        assert "in time" not in everything

        def read_slowly(corpus: Corpus, n_changes: int, n_due: float | None) -> OverviewPart:
            if corpus is workers[1].corpus:
                go.wait(300)
            return read_overview_part(corpus, n_changes, n_due)

        monkeypatch.setattr(inspect, "read_overview_part", read_slowly)
        monkeypatch.setattr(workers[0].calls, "settings", ForwardingSettings(seconds_max=3.0))
        began = time.monotonic()
        found = workers[0].shared.overview_part(500, n_due=0)
        assert time.monotonic() - began < 30
        assert found.workers_away == ("w1",)
        own = {one.url for part in (0, 2) for one in workers[part].corpus.changes()}
        assert {one.url for one in found.changes} == own
        shown, ends_at = "", time.monotonic() + 60
        while "The worker w1 has not answered in time" not in shown:  # what is kept ends
            assert time.monotonic() < ends_at, shown
            shown = browser.get("/ui/news/").data.decode()
        assert "Without those of 1 worker that has not answered in time" in shown
        go.set()


def test_what_robots_files_say_is_known_to_all(workers: Workers, clients: list[Client]) -> None:
    first = RobotsNote("https://h1.example", "found", "parts", 1_000)
    second = RobotsNote("https://h2.example", "missing", "nothing", 2_000)
    clients[0].note_robots([first, second])
    clients[1].note_robots([newer := first._replace(closes="nothing", asked_at_ms=3_000)])
    for client in clients:
        assert client.robots(["h1.example", "h2.example", "h3.example"]) == {
            "h1.example": [newer],
            "h2.example": [second],
        }
    workers.tell_all({})
    assert clients[2].robots(["h1.example"]) == {}
