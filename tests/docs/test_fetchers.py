"""Fetchers in other languages work against a real server, with a key."""

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import recrawl
from recrawl.corpus import CorpusConfig
from recrawl.service import Scope, create_key
from recrawl.service.keys import KeyRing
from tests.unit.service.running_server import RunningServer

pytestmark = pytest.mark.slow

FETCHERS = Path(__file__).resolve().parents[2] / "examples/fetchers"
COMMANDS = {
    "fetcher.go": ["go", "run", str(FETCHERS / "fetcher.go")],
    "fetcher.mjs": ["node", str(FETCHERS / "fetcher.mjs")],
}
CONFIG = CorpusConfig.from_dict({"politeness": {"delay": 0, "in_flight_max": 10}})
N_PAGES = 7


class _Pages(BaseHTTPRequestHandler):
    """Answers with an ETag, and with 304 if it is sent again; the last page does not exist."""

    asked: list[str | None]

    def do_GET(self) -> None:
        self.asked.append(self.headers["If-None-Match"])
        is_known = self.headers["If-None-Match"] == '"v1"'
        is_there = self.path != f"/{N_PAGES - 1}"
        body = b"" if is_known else f"<p>The page {self.path} has a sentence.".encode()
        self.send_response((304 if is_known else 200) if is_there else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("ETag", '"v1"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[tuple[str, list[str | None]]]:
    asked: list[str | None] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Pages", (_Pages,), {"asked": asked}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", asked
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_fetcher_leases_fetches_and_reports(
    name: str, site: tuple[str, list[str | None]], tmp_path: Path
) -> None:
    program = COMMANDS[name][0]
    assert shutil.which(program), f"install {program}; CI does so by itself"
    url, asked = site
    corpus = recrawl.open(tmp_path / "corpus", CONFIG)
    corpus.add([f"{url}/{i}" for i in range(N_PAGES)])
    key, _ = create_key(tmp_path / "corpus", [Scope.LEASE, Scope.REPORT], now_ms=0)
    ring = KeyRing(tmp_path / "corpus")
    environment = {**os.environ, "GO111MODULE": "off", "GOCACHE": str(tmp_path / "go")}
    with RunningServer({"news": corpus}, keys={"news": ring}) as server:
        base = f"http://127.0.0.1:{server.port}/v1/corpora/news"
        done = subprocess.run(
            [*COMMANDS[name], base, "1"],
            env=environment | {"RECRAWL_KEY": key},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"{N_PAGES} pages fetched, of which done: {N_PAGES}\n"
        assert asked == [None] * N_PAGES
        stats = corpus.stats()
        assert stats.n_outcomes == N_PAGES
        # With a wrong key it ends with the answer of the server.
        done = subprocess.run(
            [*COMMANDS[name], base, "1"],
            env=environment | {"RECRAWL_KEY": key[:-1]},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 1
        assert "key" in done.stderr
