"""The same calls have the same results in a folder and over HTTP."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from recrawl.client import AsyncClient, Client
from recrawl.corpus import AsyncCorpus, Corpus, Outcome, RowStatus, Transition, Why
from recrawl.errors import ChangesLost
from recrawl.messages.robots import RobotsNote
from tests.manual_clock import ManualClock
from tests.unit.client.conftest import URLS
from tests.unit.service.running_server import RunningServer

UNKNOWN = "https://unknown.example/"
# Methods of a corpus that its server needs itself, or that read its files.
NOT_OFFERED = {
    "close_partition",
    "close_standby",
    "backup",
    "begin",
    "believed_pages",
    "change_matching",  # `remove` and `set` with a pattern call it
    "corpus",
    "export_batches",
    "follow_clock",
    "follow_standby",
    "for_parts",
    "forget",
    "forget_states",
    "holdout",
    "import_crawl",
    "is_budget_per_run",
    "keep_places_in_log",
    "last_scrub",
    "lease_asked_at_ms",
    "lease_each",
    "leases_under_way",
    "leave_out_stopped",
    "n_log_records",
    "newcomers",
    "open_partition",
    "open_partitions",
    "owned_partitions",
    "pages_for_plan",
    "partitions",
    "refresh",
    "reset_clock",
    "run_name",
    "has_moved",
    "set_records_version",
    "similar_hosts",
    "similar_urls",
    "metrics",  # at /metrics, for Prometheus
    "snapshot",
    "stand_by",
    "standby_lags",
    "tick",
    "wait_seconds",
}
ONLY_CLIENT = {"configuration", "url", "work", "close", "take_turns"}
# Arguments that the service does not offer.
ARGUMENTS_MISSING = {"at_ms", "on_record", "is_weighted", "until_ms"}


@pytest.fixture(params=["folder", "client"])
def face(request: pytest.FixtureRequest, corpus: Corpus) -> Iterator[Any]:
    """A corpus in a folder, or a client of a server of it."""
    if request.param == "folder":
        yield corpus
        return
    with RunningServer({"news": corpus}) as server, Client(_url(server)) as client:
        yield client


def _url(server: RunningServer) -> str:
    return f"http://127.0.0.1:{server.port}/v1/corpora/news"


def public_names(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("kind", "model"), [(Client, Corpus), (AsyncClient, AsyncCorpus)])
def test_a_client_has_the_methods_of_a_corpus(kind: type, model: type) -> None:
    expected = public_names(model) - NOT_OFFERED - ({"n_pages"} if kind is AsyncClient else set())
    assert expected - public_names(kind) == set()
    assert public_names(kind) - public_names(model) <= ONLY_CLIENT


@pytest.mark.parametrize("name", sorted(public_names(Client) & public_names(Corpus) - {"n_pages"}))
def test_a_method_takes_the_arguments_of_a_corpus(name: str) -> None:
    parameters = inspect.signature(getattr(Corpus, name)).parameters
    own = inspect.signature(getattr(Client, name)).parameters
    if any(one.kind is one.VAR_KEYWORD for one in own.values()):
        return
    missing = set(parameters) - set(own)
    assert missing <= ARGUMENTS_MISSING
    for expected in (one for one in parameters.values() if one.name in own):
        found = own[expected.name]
        assert (found.kind, found.default) == (expected.kind, expected.default)


@pytest.mark.parametrize("name", sorted(public_names(Client) & public_names(AsyncClient) - {"url"}))
def test_both_clients_take_the_same_arguments(name: str) -> None:
    first, second = (inspect.signature(getattr(one, name)) for one in (Client, AsyncClient))
    assert list(first.parameters) == list(second.parameters)
    assert [one.default for one in first.parameters.values()] == [
        one.default for one in second.parameters.values()
    ]


def test_pages_are_added_once(face: Any) -> None:
    added = face.add([*URLS, URLS[0], "not a url", None], importance=2.0)
    assert added == (20, 1, 2)
    assert added.rows[:2].tolist() == [RowStatus.DONE, RowStatus.DONE]
    assert added.rows[20:].tolist() == [RowStatus.DUPLICATE, RowStatus.REFUSED, RowStatus.REFUSED]
    assert face.n_pages == 20
    assert set(face.why_refused([*URLS, "not a url"])) == {20}
    assert face.add([]) == (0, 0, 0)
    with pytest.raises(TypeError, match="a single one"):
        face.add(URLS[0])
    with pytest.raises(ValueError, match=r"one (number|value)"):
        face.add(URLS[:2], importance=[1.0, 2.0, 3.0])


@pytest.mark.parametrize("n_pages", [3, 300])
def test_the_users_data_comes_back(face: Any, n_pages: int) -> None:
    urls = pa.array([f"https://h{i}.example/" for i in range(n_pages)])
    names = [f"dé-{i}" for i in range(n_pages)]
    objects = [{"n": i, "ü": [1, None]} for i in range(n_pages)]
    face.add(urls, doc_id=names, metadata=objects, importance=np.arange(n_pages) + 1.0)
    orders = face.lease(n_pages)
    assert {one.doc_id for one in orders} == set(names)
    assert sorted(one.metadata["n"] for one in orders) == list(range(n_pages))
    assert face.add(["https://x.example/"], metadata=[[1]]).n_refused == 1


def test_orders_are_leased_extended_released_and_reported(face: Any) -> None:
    face.add(URLS)
    orders = face.lease(10)
    assert len(orders) == 4
    assert orders.shortfall is not None
    assert orders.shortfall.n_requested == 10
    assert orders.shortfall.reasons[0].why == Why.GROUP_BUSY
    assert orders.shortfall.text.startswith("4 of 10 pages")
    handles = [one.handle for one in orders]
    assert face.extend(handles, seconds=900) == 4
    released = face.release([handles[0], 1 << 40])
    assert released == 1
    assert released.rows.tolist() == [RowStatus.DONE, RowStatus.UNKNOWN]
    outcomes = [
        Outcome(handle=handles[1], digest=b"1", etag=b'"a\xff"', last_modified=b"x" * 5_000),
        Outcome(handle=handles[2], body=b"<p>A page with some words of its own"),
        Outcome(handle=handles[3], status=404),
    ]
    reported = face.report(outcomes)
    assert reported.counted.tolist() == [True, True, True]
    assert reported.transition.tolist() == [Transition.NEW, Transition.NEW, Transition.GONE]
    assert reported.has_dropped.tolist() == [True, False, False]
    again = face.report([*outcomes, Outcome(handle=1 << 40, digest=b"")])
    assert again.rows.tolist() == [RowStatus.DUPLICATE] * 3 + [RowStatus.UNKNOWN]
    assert face.report([]).counted.size == 0
    assert face.lease(0) == []
    assert face.lease_table(0).num_rows == 0


def test_a_table_of_orders_has_the_same_columns(face: Any, corpus: Corpus) -> None:
    face.add(URLS, metadata={"a": 1})
    table = face.lease_table(3)
    assert table.schema.equals(corpus.lease_table(1).schema)
    assert table.num_rows == 3
    assert table["metadata"].to_pylist() == ['{"a":1}'] * 3
    outcomes = pa.table({"handle": table["handle"], "digest": pa.array([b"\xff", b"2", b"3"])})
    assert face.report(outcomes).counted.tolist() == [True] * 3
    assert face.lease_table(10).num_rows == 0


def test_given_urls_are_leased_or_not(face: Any) -> None:
    face.add(URLS[:5])
    found = face.lease_urls([URLS[0], URLS[1], UNKNOWN, "not a url"])
    assert [one.why for one in found] == [
        Why.DUE,
        Why.GROUP_BUSY,
        Why.NOT_TRACKED,
        Why.INVALID_URL,
    ]
    assert found[0].order.url == URLS[0]
    assert [one.url for one in found.orders] == [URLS[0]]
    assert face.lease_urls([UNKNOWN], add=True)[0].why == Why.DUE


def test_signals_and_requests_count(face: Any) -> None:
    face.add(URLS)
    signalled = face.signal([*URLS[:3], UNKNOWN, "not a url"], source="sitemap")
    assert signalled == 3
    assert signalled.n_unknown == 2
    assert face.requests([URLS[0], UNKNOWN], [5.0, 1.0]) == 1
    table = face.sources()
    assert table.rows[0].source == "sitemap"
    assert face.source("sitemap", "site0.example") == table.rows[0]
    assert face.source("feed", "site0.example") is None
    with pytest.raises(ValueError, match="n_requests"):
        face.requests(URLS[:1], -1.0)


def test_samples_are_read(face: Any, corpus: Corpus, clock: ManualClock) -> None:
    face.add(URLS)
    face.signal(URLS[:3], source="sitemap")
    clock.pass_seconds(60)
    (node,) = corpus.nodes
    node.tick(corpus.time)
    now, then = face.sample(), face.samples()
    assert now.total.n_pages == 20
    assert list(now.partitions) == [0]
    assert then.n_pages.tolist() == [20.0]
    assert then.histogram("freshness").counts == now.histograms["freshness"].counts
    assert then.budget_per_second.tolist() == [np.inf]
    assert face.samples(host="site0.example", step="hour").n_pages.tolist() == [5.0]
    assert face.samples(kind="").n_pages.tolist() == [20.0]
    assert np.isnan(face.samples(kind="").price).all()
    assert face.samples(until_ms=int(then.at_ms[0])).at_ms.size == 0
    source = face.source_samples("sitemap", "site0.example", step="day")
    assert (source.step, source.precision.size) == ("day", 1)
    with pytest.raises(ValueError, match="step"):
        face.samples(step="week")
    with pytest.raises(ValueError, match="not both"):
        face.samples(host="site0.example", kind="")


def test_audited_freshness_has_rows_for_the_corpus_its_kinds_and_hosts(face: Any) -> None:
    face.add(URLS)
    table = face.audited_freshness()
    assert table.rows[0].part == "corpus"
    assert {row.part for row in table.rows} == {"corpus", "kind", "host"}
    assert sum(row.n_pages for row in table.rows if row.part == "host") == 20
    assert (table.n_judged, table.rows[0].audited, table.rows[0].disagrees) == (0, None, False)


def test_changes_are_read_and_committed(face: Any) -> None:
    face.add(URLS, doc_id=[f"d{i}" for i in range(20)])
    orders = face.lease(4)
    face.report([Outcome(handle=one.handle, text="One passage.\nTwo.") for one in orders])
    changes = face.changes(limit=3)
    assert [one.what for one in changes] == [Transition.NEW] * 3
    assert changes[0].doc_id.startswith("d")
    assert changes[0].passages is not None
    assert len(changes[0].passages.added) == 2
    assert len(face.changes(changes[-1].cursor)) == 1
    assert face.commit_changes("index", changes[0].cursor) == changes[0].cursor
    assert face.changes(consumer="index") == face.changes(changes[0].cursor)
    (consumer,) = face.consumers()
    assert (consumer.name, consumer.n_behind) == ("index", 3)
    assert face.remove_consumer("index")
    assert not face.remove_consumer("index")
    with pytest.raises(ValueError, match="either a cursor or a consumer"):
        face.changes(changes[0].cursor, consumer="index")
    with pytest.raises(ValueError, match="cursor"):
        face.changes("nonsense")


def test_changes_that_are_lost_raise_the_same_error(
    face: Any, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(*args: Any, **kwargs: Any) -> Any:
        raise ChangesLost("the feed has lost 3 changes")

    monkeypatch.setattr(corpus, "changes", lose)
    with pytest.raises(ChangesLost, match="lost 3 changes"):
        face.changes(consumer="index")


def test_settings_are_changed(face: Any) -> None:
    face.add(URLS)
    found = face.set([*URLS[:2], UNKNOWN], importance=4.0, max_age="1d")
    assert found == 2
    assert found.rows.tolist() == [RowStatus.DONE, RowStatus.DONE, RowStatus.UNKNOWN]
    assert face.set(pattern="/3", cost=2.0) == 4
    assert face.set_each([*URLS[:2], UNKNOWN], importance=[2.0, 3.0, 4.0]) == 2
    face.set_host("Site0.example", delay="5s", in_flight_max=2)
    host = face.host("site0.example")
    assert (host.delay_seconds, host.in_flight_max, host.n_pages) == (5.0, 2, 5)
    assert face.n_pages_of_host("site0.example") == 5
    face.set_budget("30/h")
    assert face.stats().budget == "30 fetches/h"
    for wrong in ({}, {"urls": URLS, "pattern": "/3"}):
        with pytest.raises(ValueError, match="either urls or a pattern"):
            face.set(**wrong, cost=1.0)
    with pytest.raises((TypeError, ValueError), match="colour"):
        face.set(URLS, colour="red")
    with pytest.raises(ValueError, match="soon"):
        face.set_budget("soon")


def test_pages_are_removed(face: Any) -> None:
    face.add(URLS)
    assert face.remove([URLS[0], UNKNOWN]) == 1
    assert face.remove(pattern="/4") == 4
    assert face.n_pages == 15
    with pytest.raises(ValueError, match="either urls or a pattern"):
        face.remove()


def test_pages_are_listed_and_explained(face: Any, clock: ManualClock) -> None:
    face.add(URLS)
    assert {url for batch in face.pages(["url"], batch=7) for url in batch["url"].to_pylist()} == {
        *URLS
    }
    rows, cursor = face.pages_after(limit=12)
    rest, end = face.pages_after(cursor, limit=12)
    assert (rows.num_rows, rest.num_rows, end) == (12, 8, None)
    assert "value" in rows.schema.names
    page = face.explain(URLS[0])
    assert page.as_dict()["why"] == "due"
    assert page.as_dict()["url"] == URLS[0]
    assert face.explain(UNKNOWN) is None


def test_statistics_have_the_same_fields(face: Any, corpus: Corpus) -> None:
    face.add(URLS)
    assert face.stats() == corpus.stats()
    assert face.plan().n_pages == 20
    assert face.plan_targets(["90 %"]).budget_per_hour is None


def test_paced_orders_end_in_time(face: Any, clock: ManualClock) -> None:
    face.add(URLS)
    found = []
    for order in face.paced(batch_max=3, for_seconds=30):
        found.append(order)
        if len(found) == 2:
            break
    del order
    assert len({one.handle for one in found}) == 2


def test_keys_of_pages_reach_the_corpus(open_corpus: Callable[..., Corpus]) -> None:
    corpus = open_corpus(corpus={"group_by": "key"})
    with RunningServer({"news": corpus}) as server, Client(_url(server)) as client:
        client.add(URLS[:3], key=["a", "a", "b"])
        assert client.set(URLS[:3], key=["a", "a", "c"], cost=2.0) == 2
        assert {one.key for one in client.lease(5)} == {"a", "b"}
        with pytest.raises(ValueError, match="give the key"):
            client.add(URLS)


def test_hosts_and_their_pages_are_listed(face: Any) -> None:
    face.add(URLS)
    rows, n_hosts = face.hosts()
    assert n_hosts == len(rows)
    assert sum(row.n_pages for row in rows) == len(URLS)
    host = rows[0].host
    assert rows[0] == face.host(host)
    found, cursor = [], None
    while True:
        batch, cursor = face.pages_of_host(host, cursor=cursor, columns=["url"], limit=2)
        found += batch.column("url").to_pylist()
        if cursor is None:
            break
    assert sorted(found) == sorted(url for url in URLS if f"//{host}/" in url)
    path = found[0].partition(host)[2]
    for prefix in (path, found[0], path[1:]):
        batch, _ = face.pages_of_host(host, prefix=prefix, columns=["url"])
        assert found[0] in batch.column("url").to_pylist()
    assert face.pages_of_host(host, prefix="/none").batch.num_rows == 0
    assert face.pages_of_host("unknown.example").batch.num_rows == 0
    with pytest.raises(ValueError, match="limit"):
        face.pages_of_host(host, limit=100_000)


def test_a_page_is_fetched_now_and_its_last_change_is_shown(face: Any, clock: ManualClock) -> None:
    face.add(URLS[:2])
    assert face.last_change(URLS[0]) is None
    for words in ("The first passage of the page", "Another passage instead of the first"):
        clock.pass_seconds(60)
        body = f"<p>{words}, with some more words</p><p>One that stays as it is always</p>"
        face.report([Outcome(url=URLS[0], body=body.encode(), content_type="text/html")])
    change = face.last_change(URLS[0])
    assert (change.what, len(change.removed), len(change.added)) == (Transition.CHANGED, 1, 1)
    assert change.n_kept == 1
    clock.pass_seconds(60)
    asked = face.fetch_now([URLS[0], UNKNOWN])
    assert asked.rows.tolist() == [RowStatus.DONE, RowStatus.UNKNOWN]
    page = face.explain(URLS[0])
    members = page.as_dict()
    assert (members["wanted_at_ms"], members["why"]) == (clock.wall_ms(), "due")
    # A wish is no evidence that the page has changed.
    assert members["sources"] == []
    assert members["freshness_probability"] > 0.9
    history = face.history(URLS[0], n_records_max=1_000)
    members = history.as_dict()
    assert len(members["polls"]) == 2
    assert [one["source"] for one in members["signals"]] == ["operator"]
    assert face.history(UNKNOWN) is None


def test_what_robots_files_say_comes_back(face: Any) -> None:
    hosts = [f"site{i}.example" for i in range(250)]
    notes = [RobotsNote(f"https://{host}", "found", "nothing", 1_000) for host in hosts]
    notes[7] = notes[7]._replace(closes="parts", lines=("Disallow: /a",), n_lines=30)
    face.note_robots(notes)
    assert face.robots([*hosts, "other.example"]) == {
        host: [note] for host, note in zip(hosts, notes, strict=True)
    }
    assert face.robots([]) == {}
