"""``recrawl serve`` and ``recrawl keys``: a real process, started and stopped."""

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import recrawl
from recrawl.cli import main

URLS = [f"https://site{i}.example/" for i in range(5)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "news"
    with recrawl.open(found) as corpus:
        corpus.add(URLS)
    return found


class Process:
    """A process of ``recrawl serve``."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "recrawl", "serve", "--port", "0", *arguments]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"RECRAWL_KERNELS": "interpreted"},
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        self.url: str = json.loads(line)["url"]
        self.port = int(self.url.split(":")[2].partition("/")[0])

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        sent = None if body is None else json.dumps(body)
        connection.request(method, path, sent, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        found = json.loads(answer.read())
        connection.close()
        return answer.status, found

    def stop(self) -> str:
        self.process.send_signal(signal.SIGTERM)
        _, remarks = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, remarks
        return remarks


@pytest.fixture
def start() -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def starter(*arguments: str) -> Process:
        started.append(Process(*arguments))
        return started[-1]

    yield starter
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.communicate()


def test_a_server_stops_cleanly_and_keeps_what_it_answered(
    folder: Path, start: Callable[..., Process]
) -> None:
    server = start("-C", str(folder))
    assert server.request("GET", "/healthz") == (200, {"status": "ok"})
    assert server.request("GET", "/readyz") == (200, {"status": "ready"})
    assert server.request("GET", "/v1/corpora") == (200, {"corpora": ["news"]})
    _, leased = server.request("POST", "/v1/corpora/news/orders?n=5")
    rows = [{"handle": order["handle"], "digest": "x"} for order in leased["orders"]]
    assert len(rows) == len(URLS)
    _, reported = server.request("POST", "/v1/corpora/news/outcomes", rows)
    assert reported["counts"] == {"done": len(URLS)}
    # A client that waits gets an answer when the server stops, not a broken connection.
    waiting: list[tuple[int, Any]] = []
    path = "/v1/corpora/news/orders?wait=60&why=false"
    thread = threading.Thread(target=lambda: waiting.append(server.request("POST", path)))
    thread.start()
    time.sleep(0.5)
    started = time.monotonic()
    remarks = server.stop()
    thread.join(30)
    assert waiting == [(200, {"orders": [], "shortfall": None})]
    assert time.monotonic() - started < 20
    assert "only programs on this machine" in remarks
    assert "run beside it: recrawl run -C http://127.0.0.1:" in remarks
    assert "Traceback" not in remarks
    with recrawl.open(folder, read_only=True) as corpus:
        assert corpus.stats().n_outcomes == len(URLS)


def test_requests_are_logged_to_standard_error(folder: Path, start: Callable[..., Process]) -> None:
    server = start("-C", str(folder), "--request-log", "-")
    server.request("GET", "/healthz")
    (line,) = (line for line in server.stop().splitlines() if line.startswith("{"))
    assert json.loads(line)["route"] == "/healthz"


def test_what_was_answered_survives_a_kill(folder: Path, start: Callable[..., Process]) -> None:
    server = start("-C", str(folder))
    _, leased = server.request("POST", "/v1/corpora/news/orders?n=3")
    rows = [{"handle": order["handle"], "digest": "x"} for order in leased["orders"]]
    _, reported = server.request("POST", "/v1/corpora/news/outcomes", rows)
    assert reported["counts"] == {"done": 3}
    server.process.kill()
    server.process.communicate()
    again = start("-C", str(folder))
    _, repeated = again.request("POST", "/v1/corpora/news/outcomes", rows)
    assert repeated["counts"] == {"duplicate": 3}
    again.stop()


def test_several_corpora(tmp_path: Path, folder: Path, start: Callable[..., Process]) -> None:
    with recrawl.open(tmp_path / "other"):
        pass
    server = start(f"news={folder}", f"shop={tmp_path / 'other'}")
    assert server.request("GET", "/v1/corpora") == (200, {"corpora": ["news", "shop"]})
    assert server.request("GET", "/v1/corpora/shop/stats")[1]["n_pages"] == 0
    assert server.request("GET", "/v1/corpora/news/stats")[1]["n_pages"] == len(URLS)
    server.stop()


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, arguments, prog_name="recrawl")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_wrong_options(folder: Path, tmp_path: Path) -> None:
    code, text = run("serve", "-C", str(folder), "--workers", "2")
    assert (code, "one process owns a corpus" in text) == (2, True)
    code, text = run("serve", "-C", str(folder), "--host", "0.0.0.0", "--port", "0")
    assert (code, "recrawl keys create" in text) == (2, True)
    behind = ("serve", "-C", str(folder), "--port", "0", "--trusted-proxy")
    code, text = run(*behind, "127.0.0.1")
    assert (code, "behind a proxy; create a key" in " ".join(text.split())) == (2, True)
    run("keys", "create", "--scope", "read", "-C", str(folder))
    code, text = run(*behind, "proxy.example")
    assert (code, "is not a network" in text) == (2, True)
    code, text = run("serve", str(folder))
    assert (code, "NAME=FOLDER" in text) == (2, True)
    for wrong in ("a/b=x", f"x={folder} x={folder}"):
        assert run("serve", *wrong.split())[0] == 2
    code, text = run("serve", "-C", str(tmp_path / "nothing"), "--port", "0")
    assert (code, "recrawl init" in text) == (1, True)


def test_a_port_that_is_taken_is_named(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, text = run("serve", "-C", str(folder), "--port", str(port))
    assert (code, f"127.0.0.1 port {port}" in text, "--port" in text) == (1, True, True)


def test_keys_are_created_listed_and_revoked(folder: Path, tmp_path: Path) -> None:
    where = ("-C", str(folder))
    code, text = run("keys", "create", "--scope", "read", "--expires", "1d", "--name", "a", *where)
    assert code == 0
    created = json.loads(text.splitlines()[0])
    assert created["scopes"] == ["read"]
    assert created["expires_at_ms"] - created["created_at_ms"] == 86_400_000
    code, text = run("keys", "list", *where)
    listed = json.loads(text)
    never = {"used_at_ms": None, "used_from": None}
    assert listed == never | {name: value for name, value in created.items() if name != "key"}
    assert run("keys", "revoke", created["id"], *where)[0] == 0
    assert run("keys", "revoke", created["id"], *where)[0] == 1
    assert run("keys", "list", *where) == (0, "")
    assert run("keys", "create", *where)[0] == 2
    assert run("keys", "list", "-C", str(tmp_path))[0] == 1


def test_a_server_with_a_certificate(
    folder: Path, tmp_path: Path, start: Callable[..., Process]
) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    write_certificate(certificate, key)
    server = start("-C", str(folder), "--tls", str(certificate), str(key))
    assert server.url.startswith("https://")
    context = ssl.create_default_context(cafile=str(certificate))
    connection = http.client.HTTPSConnection("localhost", server.port, timeout=30, context=context)
    connection.request("GET", "/healthz")
    assert connection.getresponse().status == 200
    connection.close()
    server.stop()


def write_certificate(certificate: Path, key: Path) -> None:
    """Write a certificate for localhost that has signed itself, and its key."""
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(private, hashes.SHA256())
    )
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
