"""The scripts of the how-to guides run unchanged against a real server."""

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import recrawl

pytestmark = pytest.mark.slow

SCRIPTS = Path(__file__).resolve().parents[2] / "docs/how-to/scripts"
POLITE = '[politeness]\ndelay = "0s"\nin_flight_max = 4\nburst = 4\n'


class Site:
    """A small site whose pages have texts that the test sets; some of them fail."""

    def __init__(self) -> None:
        self.text = {f"/{i}": "first" for i in range(20)}
        self.requests: Counter[str] = Counter()
        self.not_modified = 0
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.requests[self.path] += 1
                text = site.text.get(self.path)
                etag = f'"{text}"'
                if text == "down":
                    self.send_response(503)
                    self.send_header("Retry-After", "1")
                elif text is None:
                    self.send_response(404)
                elif self.headers.get("If-None-Match") == etag:
                    site.not_modified += 1
                    self.send_response(304)
                else:
                    body = text.encode()
                    self.send_response(200)
                    self.send_header("ETag", etag)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                    return
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}{path}"


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    site.thread.start()
    yield site
    site.server.shutdown()
    site.thread.join()
    site.server.server_close()


def run(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / script), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow_without_jit
def test_the_nightly_script_spends_its_budget_and_prints_the_changes(
    site: Site, tmp_path: Path
) -> None:
    (tmp_path / "recrawl.toml").write_text('[budget]\nrate = "20/run"\n' + POLITE)
    with recrawl.open(tmp_path) as corpus:
        corpus.add([site.url(f"/{i}") for i in range(20)])
    first = run("nightly.py", str(tmp_path))
    assert first.count("new ") == 20
    assert sum(site.requests.values()) == 20
    site.text |= {"/3": "second", "/5": "down"}
    del site.text["/4"]
    assert run("nightly.py", str(tmp_path)) == ""  # what is left of today's budget: nothing
    second = run("nightly.py", str(tmp_path), "tomorrow").splitlines()
    assert sorted(second) == [f"changed {site.url('/3')}", f"gone {site.url('/4')}"]
    assert site.not_modified >= 10
    with recrawl.open(tmp_path, read_only=True) as corpus:
        explanation = corpus.explain(site.url("/5"))
        assert explanation is not None
        assert explanation.state.errors >= 1


@pytest.mark.slow_without_jit
def test_the_paced_script_fetches_several_at_a_time_within_the_budget(
    site: Site, tmp_path: Path
) -> None:
    (tmp_path / "recrawl.toml").write_text('[budget]\nrate = "5/s"\nburst = "1s"\n' + POLITE)
    with recrawl.open(tmp_path) as corpus:
        corpus.add([site.url(f"/{i}") for i in range(20)])
    started = time.monotonic()
    run("paced.py", str(tmp_path), "3")
    seconds = time.monotonic() - started
    # At most the budget of the elapsed time and a burst of one second; machines may be slow.
    assert 1 <= sum(site.requests.values()) <= 5 * seconds + 6
    with recrawl.open(tmp_path, read_only=True) as corpus:
        assert corpus.stats().in_flight == 0
        assert len(corpus.changes()) == sum(site.requests.values())
