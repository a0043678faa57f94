"""Only a trusted proxy is believed where a request comes from."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from recrawl.corpus import Corpus
from recrawl.service import create_key
from recrawl.service.keys import KeyRing
from recrawl.service.protection.proxies import read_networks
from tests.unit.service.running_server import RunningServer

PROXIES = ("127.0.0.1", "10.1.0.0/16", "2001:db8::/32")
Serve = Callable[..., Any]


@pytest.fixture
def serve(open_corpus: Callable[..., Corpus], tmp_path: Path) -> Serve:
    """Start a server with a key and a log of requests."""
    key, _ = create_key(tmp_path, ["read"], name="reader", now_ms=1)

    @contextmanager
    def start(*proxies: str) -> Iterator[Callable[..., dict[str, Any]]]:
        file = tmp_path / "requests.jsonl"
        with RunningServer(
            {"news": open_corpus()},
            keys={"news": KeyRing(tmp_path)},
            is_local=not proxies,
            request_log=str(file),
            trusted_proxies=proxies,
        ) as server:

            def ask(**headers: str) -> dict[str, Any]:
                answer = server.get("/budget", Authorization=f"Bearer {key}", **headers)
                assert answer.status == 200
                wanted = answer.headers["x-request-id"]
                while True:  # the line is written after the answer
                    for line in file.read_text().splitlines():
                        found: dict[str, Any] = json.loads(line)
                        if found["id"] == wanted:
                            return found

            yield ask

    return start


def test_without_trusted_proxies_nobody_is_believed(serve: Serve) -> None:
    with serve() as ask:
        assert ask(X_Forwarded_For="203.0.113.5")["client"] == "127.0.0.1"


def test_a_proxy_that_is_not_trusted_is_not_believed(serve: Serve) -> None:
    with serve("10.1.0.0/16") as ask:
        assert ask(X_Forwarded_For="203.0.113.5")["client"] == "127.0.0.1"


@pytest.mark.parametrize(
    ("header", "client"),
    [
        ("203.0.113.5", "203.0.113.5"),
        # What the client itself has sent is left of what the proxy has appended.
        ("198.51.100.1, 203.0.113.5", "203.0.113.5"),
        ("127.0.0.1, 10.1.2.3, 203.0.113.5", "203.0.113.5"),
        # A chain of trusted proxies.
        ("198.51.100.1, 203.0.113.5, 10.1.2.3, 2001:db8::7", "203.0.113.5"),
        ("10.1.2.3", "10.1.2.3"),
        ("203.0.113.5:4711, 10.1.2.3:80", "203.0.113.5"),
        ("[2001:db9::1]:4711", "2001:db9::1"),
        ("2001:db9::1", "2001:db9::1"),
        ("::ffff:203.0.113.5, ::ffff:10.1.2.3", "203.0.113.5"),
        # What cannot be read ends the chain.
        ("203.0.113.5, unknown, 10.1.2.3", "10.1.2.3"),
        ("203.0.113.5, evil line", "127.0.0.1"),
        ("", "127.0.0.1"),
        (",,,", "127.0.0.1"),
        (", ".join(["203.0.113.5"] + ["10.1.2.3"] * 40), "10.1.2.3"),
    ],
)
def test_the_client_is_the_last_address_that_is_not_a_proxy(
    serve: Serve, header: str, client: str
) -> None:
    with serve(*PROXIES) as ask:
        assert ask(X_Forwarded_For=header)["client"] == client


def test_a_server_without_keys_refuses_requests_through_a_proxy(
    open_corpus: Callable[..., Corpus],
) -> None:
    with RunningServer({"news": open_corpus()}) as server:
        assert server.get("/stats").status == 200
        for name in (
            *("X_Forwarded_For", "X_Forwarded_Proto", "X_Forwarded_Host", "Forwarded", "Via"),
            *("X_Real_Ip", "X_Client_Ip", "CF_Connecting_IP"),
        ):
            answer = server.get("/stats", **{name: "for=203.0.113.5"})
            assert (answer.status, answer.problem) == (421, "wrong-host")


def test_behind_a_trusted_proxy_every_corpus_needs_keys(open_corpus: Callable[..., Corpus]) -> None:
    with RunningServer({"news": open_corpus()}, trusted_proxies=["127.0.0.1"]) as server:
        assert server.get("/stats").problem == "key-needed"
        assert server.request("GET", "/metrics").problem == "key-needed"


def test_wrong_networks_are_refused() -> None:
    for wrong in ("10.1.0.0/8", "proxy.example", ""):
        with pytest.raises(ValueError, match="is not a network"):
            read_networks([wrong])


def test_trailers_are_not_believed(open_corpus: Callable[..., Corpus], tmp_path: Path) -> None:
    key, _ = create_key(tmp_path, ["lease"], now_ms=1)
    file = tmp_path / "requests.jsonl"
    with RunningServer(
        {"news": open_corpus()},
        keys={"news": KeyRing(tmp_path)},
        request_log=str(file),
        trusted_proxies=("127.0.0.1",),
    ) as server:
        for path in ("orders", "turns"):
            with socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
                client.sendall(
                    f"POST /v1/corpora/news/{path} HTTP/1.1\r\nHost: a\r\n"
                    f"Authorization: Bearer {key}\r\nX-Forwarded-For: 203.0.113.5\r\n"
                    "Transfer-Encoding: chunked\r\n\r\n"
                    "0\r\nX-Forwarded-For: 198.51.100.7\r\n\r\n".encode()
                )
                assert client.recv(10_000)
    clients = [json.loads(line)["client"] for line in file.read_text().splitlines()]
    assert clients == ["203.0.113.5"] * 2
