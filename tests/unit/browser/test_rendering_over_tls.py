"""Pages of https sites are rendered, and certificates are checked by the browser too."""

import asyncio
import base64
import hashlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from recrawl.browser import ShellAwareFetcher, chromium
from recrawl.fetch import FetchRequest, HttpFetcher
from recrawl.testing.fetchers import ScriptedSite, http_answer
from recrawl.testing.web.certificates import CertificateMaker
from recrawl.testing.web.traits import TlsKind
from tests.unit.browser.browser_fixtures import (
    SHELL_SITE,
    TEXT,
    browser_settings,
    fetch_settings,
    html,
)
from tests.unit.fetch.test_forbidden_addresses import NameTable

ROBOTS = http_answer(b"User-agent: *\nAllow: /\n")


@asynccontextmanager
async def open_tls_site(
    scripts: dict[str, Any], context: ssl.SSLContext, name: str
) -> AsyncIterator[ScriptedSite]:
    site = ScriptedSite({"/robots.txt": ROBOTS, **scripts})
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0, ssl=context)
    site.url = f"https://{name}:{server.sockets[0].getsockname()[1]}"
    try:
        yield site
    finally:
        server.close()


async def key_hash(port: int) -> str:
    """Return the hash of a server's key, by which Chromium can be told to trust it."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    raw = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    key = x509.load_der_x509_certificate(raw).public_key()
    data = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(data).digest()).decode()


@pytest.mark.slow_without_jit
def test_pages_are_rendered_over_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        maker = CertificateMaker()
        right = maker.server_context(TlsKind.RIGHT, ["app.example"])
        wrong = maker.server_context(TlsKind.SELF_SIGNED, ["other.example"])
        async with (
            open_tls_site({}, right, "app.example") as site,
            open_tls_site({"/x.js": http_answer(b"1")}, wrong, "other.example") as other,
        ):
            page = SHELL_SITE["/page"].partition(b"\r\n\r\n")[2].decode()
            foreign = f'<script src="{other.url}/x.js"></script>'
            site.scripts.update(SHELL_SITE)
            site.scripts["/page"] = html(page + foreign)
            argument = await key_hash(int(site.url.rpartition(":")[2]))
            monkeypatch.setattr(
                chromium,
                "_ARGUMENTS",
                (*chromium._ARGUMENTS, f"--ignore-certificate-errors-spki-list={argument}"),
            )
            # Without robots.txt files the browser itself meets the wrong certificate.
            plain = HttpFetcher(
                fetch_settings(obey_robots=False),
                resolver=NameTable(),
                tls=maker.client_context(),
            )
            fetcher = ShellAwareFetcher(plain, browser_settings())
            answer = await fetcher.fetch(FetchRequest(url=f"{site.url}/page"))
            await fetcher.close()
            assert TEXT.encode() in answer.body
            assert site.paths() == ["/page", "/app.js", "/data.json"]
            assert other.requests == []
            # The handshakes count as well.
            assert answer.n_bytes_received > 2_000

    asyncio.run(main())
