"""A client sends its key only to a server whose certificate is valid."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from recrawl.client import Client
from recrawl.errors import ServiceError
from recrawl.testing.web.certificates import CertificateMaker
from recrawl.testing.web.traits import TlsKind


class _Recorder(BaseHTTPRequestHandler):
    keys: list[str | None]

    def do_GET(self) -> None:
        self.keys.append(self.headers.get("Authorization"))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def https_server(context: ssl.SSLContext, keys: list[str | None]) -> Iterator[str]:
    handler = type("Recorder", (_Recorder,), {"keys": keys})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}/v1/corpora/news"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def maker() -> CertificateMaker:
    return CertificateMaker()


@pytest.fixture
def authority(maker: CertificateMaker, tmp_path: Path) -> Path:
    """File with the certificate of the authority."""
    (der,) = maker.client_context().get_ca_certs(binary_form=True)
    path = tmp_path / "authority.pem"
    path.write_text(ssl.DER_cert_to_PEM_cert(der))
    return path


def test_a_key_is_sent_to_a_server_with_a_valid_certificate(
    maker: CertificateMaker, authority: Path
) -> None:
    keys: list[str | None] = []
    context = maker.server_context(TlsKind.RIGHT, ["127.0.0.1"])
    with (
        https_server(context, keys) as url,
        Client(url, "rk_secret", certificates=authority) as client,
    ):
        assert client.configuration() == {}
    assert keys == ["Bearer rk_secret"]


@pytest.mark.parametrize("kind", [TlsKind.SELF_SIGNED, TlsKind.EXPIRED, TlsKind.WRONG_NAME])
def test_no_key_is_sent_to_a_server_with_a_wrong_certificate(
    maker: CertificateMaker, authority: Path, kind: TlsKind
) -> None:
    keys: list[str | None] = []
    context = maker.server_context(kind, ["127.0.0.1"])
    with (
        https_server(context, keys) as url,
        Client(url, "rk_secret", certificates=authority) as client,
        pytest.raises(ServiceError, match="no valid certificate"),
    ):
        client.configuration()
    assert keys == []


def test_an_unknown_authority_is_not_trusted(maker: CertificateMaker) -> None:
    keys: list[str | None] = []
    context = maker.server_context(TlsKind.RIGHT, ["127.0.0.1"])
    with (
        https_server(context, keys) as url,
        Client(url, "rk_secret") as client,
        pytest.raises(ServiceError, match="no valid certificate"),
    ):
        client.configuration()
    assert keys == []
