"""The guide "Share a corpus between machines" runs as written, with a site of its own."""

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.docs.tutorial_shell import Shell, steps, words

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).resolve().parents[2] / "docs/how-to/share-a-corpus.md").read_text("utf-8")
PORT = "8377"
SITES = ("https://example.com/", "https://example.org/", "https://example.net/")


class PageHandler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f"<p>The page {self.path}, which has a sentence of its own.".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def sites() -> Iterator[list[str]]:
    """Return the URLs of three sites, in place of those on the page."""
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), PageHandler) for _ in range(3)]
    threads = [threading.Thread(target=server.serve_forever) for server in servers]
    for thread in threads:
        thread.start()
    yield [f"http://127.0.0.1:{server.server_address[1]}/" for server in servers]
    for server, thread in zip(servers, threads, strict=True):
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path, PORT)
    shell.environment["RECRAWL_KERNELS"] = "interpreted"
    shell.environment["XDG_STATE_HOME"] = str(tmp_path / "state")
    yield shell
    shell.close()


@pytest.mark.slow_without_jit
def test_the_guide_runs_as_written(shell: Shell, sites: list[str]) -> None:
    (fetcher,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    (shell.folder / "fetch.py").write_text(fetcher)
    for step in steps(PAGE):
        command = step.command.replace(PORT, shell.port)
        for shown, url in zip(SITES, sites, strict=True):
            command = command.replace(shown, url)
        if "recrawl run" in command:
            command += " --allow-network 127.0.0.1/32"
        if command.startswith("pip "):
            continue  # recrawl is installed, or this test would not run
        if command.startswith("recrawl serve"):
            printed = shell.serve(step.command)
            assert "/v1/corpora/news" in printed
            continue
        code, printed, remarks = shell.run(command)
        assert code == 0, (command, printed, remarks)
        assert "Traceback" not in remarks, remarks
        if "recrawl run" in command:
            assert "1 new" in printed, (printed, remarks)
        if step.shown:
            assert words(step.shown) == words(printed)
    for process in shell.processes:
        process.terminate()
        assert process.wait(60) == 0
