"""A client copes with networks, servers and answers that are not as they should be."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import recrawl
from recrawl.client import AsyncClient, Client
from recrawl.client.service_url import ServiceUrl, parse_service_url
from recrawl.client.transport import Transport
from recrawl.corpus import Corpus, Outcome
from recrawl.errors import (
    AccessDenied,
    CorpusError,
    RequestKeyReused,
    ServiceError,
    ServiceUnavailable,
    StorageError,
)
from recrawl.service.keys import KeyRing, Scope, create_key
from recrawl.service.limits import ServiceLimits
from tests.unit.client.conftest import URLS
from tests.unit.client.unreliable_proxy import UnreliableProxy
from tests.unit.service.running_server import RunningServer


def test_importing_the_client_loads_no_compiled_code() -> None:
    program = (
        "import sys, recrawl; recrawl.Client; recrawl.AsyncClient; recrawl.Outcome; "
        "recrawl.open('http://127.0.0.1:1/v1/corpora/news').close(); "
        "print({'numba', 'recrawl.core', 'recrawl.corpus.corpus', 'recrawl.service'} "
        "& set(sys.modules))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert ran.stdout.strip() == "set()", ran.stderr


@pytest.mark.parametrize(
    ("url", "server", "corpus"),
    [
        ("http://127.0.0.1:8377/v1/corpora/news", "http://127.0.0.1:8377", "news"),
        ("https://a.example/prefix/v1/corpora/news/", "https://a.example/prefix", "news"),
        ("HTTPS://a.example", "https://a.example", None),
        ("https://a.example/v1/corpora", "https://a.example", None),
        ("https://[::1]:1/", "https://[::1]:1", None),
    ],
)
def test_an_address_names_a_server_and_a_corpus(url: str, server: str, corpus: str | None) -> None:
    assert parse_service_url(url) == ServiceUrl(server, corpus)


@pytest.mark.parametrize(
    "url",
    [
        "corpus",
        "ftp://a.example",
        "https://",
        "https://user:word@a.example/",
        "https://a.example/v1/corpora/news?key=1",
        "https://a.example/v1/corpora/news/pages",
    ],
)
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="url must"):
        Client(url)


def test_a_key_is_not_sent_in_clear_to_another_machine() -> None:
    with pytest.raises(ValueError, match="is not https"):
        Client("http://a.example/v1/corpora/news", "rk_1")
    Client("http://a.example/v1/corpora/news", "rk_1", allow_http=True).close()
    Client("http://127.0.0.1:1/", "rk_1").close()


def test_a_folder_becomes_a_service_by_one_line(server: RunningServer) -> None:
    with recrawl.open(f"http://127.0.0.1:{server.port}") as client:
        assert type(client).__name__ == "Client"
        assert client.add(URLS).n_added == 20
    with pytest.raises(ValueError, match="alone"):
        recrawl.open("http://127.0.0.1:1/", read_only=True)
    with pytest.raises(ServiceError, match="closed"):
        client.add(URLS)


def test_the_key_comes_from_the_environment(
    open_corpus: Callable[..., Corpus], monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = open_corpus()
    text, _ = create_key(corpus.folder, [Scope.LEASE], name="fetcher", now_ms=corpus.now_ms())
    with RunningServer({"news": corpus}, keys={"news": KeyRing(corpus.folder)}) as server:
        url = f"http://127.0.0.1:{server.port}/v1/corpora/news"
        with Client(url) as client, pytest.raises(AccessDenied, match="key"):
            client.lease(1)
        monkeypatch.setenv("RECRAWL_KEY", text)
        with Client(url) as client:
            assert client.lease(1) == []
            with pytest.raises(AccessDenied, match="report"):
                client.add(URLS)


def test_an_unknown_corpus_is_an_error_of_the_corpus(server: RunningServer) -> None:
    url = f"http://127.0.0.1:{server.port}/v1/corpora/other"
    with Client(url) as client, pytest.raises((CorpusError, AccessDenied)):
        client.stats()


def test_the_only_corpus_of_a_server_needs_no_name(
    server: RunningServer, open_corpus: Callable[..., Corpus]
) -> None:
    two = {"a": open_corpus("a"), "b": open_corpus("b")}
    with (
        RunningServer(two) as other,
        Client(f"http://127.0.0.1:{other.port}") as client,
        pytest.raises(CorpusError, match="several corpora: a, b"),
    ):
        client.stats()


@pytest.mark.parametrize("fault", ["drop", "refuse", "garbage", "bad gateway"])
def test_a_repeated_request_has_one_effect(
    proxy: UnreliableProxy, corpus: Corpus, fault: str
) -> None:
    with Client(proxy.url) as client:
        proxy.faults.extend([fault, fault])
        client.add(URLS)
        assert corpus.n_pages == 20
        proxy.faults.append(fault)
        client.signal(URLS[:4], source="feed")
        assert corpus.stats().n_signals == 4
        proxy.faults.extend([fault, fault])
        orders = client.lease(3)
        assert len(orders) == 3
        assert corpus.stats().n_ordered == 3
        proxy.faults.extend([fault, fault])
        reported = client.report([Outcome(handle=one.handle, digest=b"1") for one in orders])
        assert corpus.stats().n_outcomes == 3
        assert reported.is_known.all()
        proxy.faults.append(fault)
        client.requests(URLS[:4], 10)
    keys = [one.request for one in proxy.sent if one.path.startswith("/v1/corpora/news/orders")]
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert keys[0]


def test_a_busy_server_is_asked_again_when_it_says(proxy: UnreliableProxy) -> None:
    with Client(proxy.url) as client:
        proxy.faults.append("busy")
        began = time.monotonic()
        client.stats()
        assert time.monotonic() - began >= 1


def test_a_client_gives_up_in_time(proxy: UnreliableProxy) -> None:
    with Client(proxy.url, retry_seconds=0.5) as client:
        proxy.faults.extend(["refuse"] * 100)
        with pytest.raises(ServiceUnavailable, match="cannot be reached"):
            client.stats()
        assert 2 <= len(proxy.sent) <= 10
        proxy.faults.clear()
        client.stats()


def test_a_server_that_does_not_exist_is_unavailable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1/corpora/news"
    with (
        Client(url, retry_seconds=0.2) as client,
        pytest.raises(ServiceUnavailable, match="cannot be reached"),
    ):
        client.stats()


def test_a_server_that_hangs_does_not_hang_the_client(proxy: UnreliableProxy) -> None:
    with Client(proxy.url, timeout_seconds=0.5, retry_seconds=0) as client:
        proxy.faults.append("hang")
        with pytest.raises(ServiceUnavailable, match="has not answered within"):
            client.stats()


@pytest.mark.parametrize("fault", ["page", "redirect", "huge"])
def test_answers_of_others_are_errors(proxy: UnreliableProxy, fault: str) -> None:
    with Client(proxy.url, answer_bytes_max=1 << 20) as client:
        proxy.faults.append(fault)
        with pytest.raises(ServiceError):
            client.stats()
        assert len(proxy.sent) == 1


@pytest.mark.parametrize(
    "body", [b"[]", b"{}", b'{"orders": 1}', b'{"orders": [{}], "shortfall": null}', b"\xff"]
)
def test_json_of_another_shape_is_an_error(
    proxy: UnreliableProxy, monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    monkeypatch.setattr("tests.unit.client.unreliable_proxy._forward", lambda *_: (200, {}, body))
    with Client(proxy.url) as client:
        for call in (
            lambda: client.lease(1),
            lambda: client.lease_table(1),
            lambda: client.report(Outcome(handle=1, status=0)),
            lambda: client.add(URLS),
            client.stats,
            client.sources,
            client.changes,
            client.consumers,
            lambda: client.host("a.example"),
            lambda: client.lease_urls(URLS),
        ):
            with pytest.raises(ServiceError):
                call()


def test_errors_of_the_corpus_keep_their_type(
    client: Client, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.add(URLS)
    client.lease(1, request="mine")
    with pytest.raises(RequestKeyReused):
        client.lease(2, request="mine")

    def fail(*args: object, **kwargs: object) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(corpus, "add", fail)
    with pytest.raises(StorageError, match="the disk is full"):
        client.add(URLS)


def test_requests_that_are_too_large_are_divided(open_corpus: Callable[..., Corpus]) -> None:
    corpus = open_corpus()
    limits = ServiceLimits(rows_max=70)
    urls = [f"https://h{i}.example/" for i in range(500)]
    with (
        RunningServer({"news": corpus}, limits=limits) as server,
        Client(f"http://127.0.0.1:{server.port}") as client,
    ):
        assert client.add(urls).n_added == 500
        assert client.signal(urls, source="feed") == 500
        orders = client.lease(500)
        found = client.report([Outcome(handle=one.handle, digest=b"1") for one in orders])
    assert found.counted.all()
    assert found.counted.size == 500


def test_many_rows_need_several_requests(client: Client, corpus: Corpus) -> None:
    urls = pa.array([f"https://h{i}.example/" for i in range(25_000)])
    assert client.add(urls).n_added == 25_000
    table = client.lease_table(12_000)
    assert table.num_rows == 12_000
    assert len(set(table["handle"].to_pylist())) == 12_000
    assert len(client.lease(11_000)) == 11_000


def test_outcomes_that_say_nothing_are_refused(client: Client) -> None:
    client.add(URLS)
    order = client.lease(1)[0]
    with pytest.raises(ValueError, match="needs a body, text, digest or changed"):
        client.report(Outcome(handle=order.handle))
    with pytest.raises(ValueError, match="columns must be among"):
        client.report(pa.table({"colour": ["red"]}))
    with pytest.raises(ValueError, match="observation"):
        client.report(Outcome(handle=order.handle, observation=object()))


def test_an_outcome_without_an_order_counts_once(proxy: UnreliableProxy, corpus: Corpus) -> None:
    with Client(proxy.url) as client:
        client.add(URLS)
        proxy.faults.append("drop")
        client.report(Outcome(url=URLS[0], digest=b"1", fetched_at_ms=corpus.now_ms()))
    assert corpus.stats().n_outcomes == 1


def test_an_async_client_waits_for_many_leases_at_once(server: RunningServer) -> None:
    async def lease_all() -> list[int]:
        async with AsyncClient(f"http://127.0.0.1:{server.port}") as client:
            leases = [asyncio.create_task(client.lease(1, wait=20)) for _ in range(20)]
            await asyncio.sleep(0.3)
            await client.add([f"https://new{i}.example/" for i in range(20)])
            return [len(orders) for orders in await asyncio.gather(*leases)]

    assert asyncio.run(lease_all()) == [1] * 20


def test_only_the_first_attempt_says_that_it_is_the_first(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    send = Transport._send

    async def fail_once(self: Transport, *arguments: Any) -> Any:
        method, _, _, headers, *_ = arguments
        if method != "POST":
            return await send(self, *arguments)
        seen.append("Recrawl-First-Attempt" in headers)
        if len(seen) == 1:
            raise ServiceUnavailable("for the test")
        return await send(self, *arguments)

    monkeypatch.setattr(Transport, "_send", fail_once)
    with Client(f"http://127.0.0.1:{server.port}/v1/corpora/news") as client:
        client.lease(1)
        assert seen == [True, False]
        client.lease(1)
        client.lease(1, request="mine")
        client.lease_table(1)
    assert seen == [True, False, True, False, True]
