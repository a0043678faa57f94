"""IndexNow: notices with a verified key become signals, and others do not."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from recrawl.cli.commands import serve
from recrawl.corpus import Corpus
from recrawl.service import ServiceLimits
from recrawl.service.problems import Problem
from recrawl.service.receivers import indexnow
from recrawl.service.receivers.host_limits import HostLimits
from recrawl.service.receivers.indexnow import read_notice
from tests.unit.service.receivers.away_pages import AwayPages
from tests.unit.service.running_server import Answer, RunningServer

KEY = "abcdef-0123456789"
PATH = "/v1/corpora/news/indexnow"


class Site:
    """A site with files, which counts requests."""

    def __init__(self) -> None:
        self.files = {f"/{KEY}.txt": KEY.encode()}
        self.moved: dict[str, str] = {}
        self.requests: Counter[str] = Counter()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.requests[self.path] += 1
                body = site.files.get(self.path)
                self.send_response(302 if self.path in site.moved else 404 if body is None else 200)
                self.send_header("Location", site.moved.get(self.path, "/"))
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def url(self, path: str) -> str:
        return f"http://{self.host}{path}"

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


@pytest.fixture
def receiving(open_corpus: Callable[..., Corpus], site: Site) -> Iterator[RunningServer]:
    corpus = open_corpus()
    corpus.add([site.url(f"/{i}") for i in range(5)] + [site.url("/blog/a")])
    fetch = serve._key_file_fetcher("mailto:me@example.com", allow_networks=("127.0.0.0/8",))
    limits = ServiceLimits(indexnow_urls_max=20, indexnow_urls_per_hour=1_000)
    # Away from this machine and without API keys: the key of the site is enough.
    with RunningServer({"news": corpus}, is_local=False, limits=limits, fetch_text=fetch) as server:
        server.app.state.corpus = corpus
        yield server


def n_signals(server: RunningServer) -> int:
    n: int = server.app.state.corpus.stats().n_signals
    return n


def announce(server: RunningServer, site: Site, *paths: str, **changed: Any) -> Answer:
    body = {
        "host": site.host,
        "key": KEY,
        "keyLocation": site.url(f"/{KEY}.txt"),
        "urlList": [site.url(path) for path in paths],
    }
    return server.request("POST", PATH, body | changed)


def wait_until(is_done: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 20
    while not is_done():
        assert time.monotonic() < ends_at
        time.sleep(0.05)


def test_a_notice_is_taken_once_its_key_is_verified(receiving: RunningServer, site: Site) -> None:
    first = announce(receiving, site, "/0", "/1", "/untracked")
    assert (first.status, first.data) == (202, b"")
    wait_until(lambda: n_signals(receiving) == 2)
    assert announce(receiving, site, "/2").status == 200
    assert n_signals(receiving) == 3
    query = f"?url={site.url('/3')}&key={KEY}&keyLocation={site.url(f'/{KEY}.txt')}"
    assert receiving.request("GET", PATH + query).status == 200
    assert n_signals(receiving) == 4
    assert site.requests == {f"/{KEY}.txt": 1}  # the key is remembered
    rows, _ = receiving.app.state.corpus.sources()
    assert {row.source for row in rows} == {"indexnow"}


def test_a_site_sends_a_notice_again_if_pages_cannot_be_reached(
    receiving: RunningServer, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    announce(receiving, site, "/0")
    wait_until(lambda: n_signals(receiving) == 1)
    away = AwayPages(receiving.app.state.corpus, monkeypatch)
    away.urls = {site.url("/2")}
    answer = announce(receiving, site, "/1", "/2")
    assert (answer.status, answer.problem) == (503, "unavailable")
    assert answer.headers["retry-after"] == "5"
    assert "1 of 2 pages" in answer.json["detail"]
    assert n_signals(receiving) == 2
    away.urls.clear()
    assert announce(receiving, site, "/1", "/2").status == 200


def test_pages_that_come_back_after_the_answer_are_signalled_then(
    receiving: RunningServer, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to a notice with an unknown key comes before its pages are signalled."""
    monkeypatch.setattr(indexnow, "_AGAIN_SECONDS", 0.05)
    away = AwayPages(receiving.app.state.corpus, monkeypatch)
    away.urls = {site.url("/2")}
    assert announce(receiving, site, "/1", "/2").status == 202
    wait_until(lambda: away.n_calls >= 2)
    assert n_signals(receiving) == 1
    away.urls.clear()
    wait_until(lambda: n_signals(receiving) == 2)


def test_a_key_that_the_site_does_not_have_is_refused(receiving: RunningServer, site: Site) -> None:
    site.files[f"/{KEY}.txt"] = b"another-key"
    assert announce(receiving, site, "/0").status == 202

    def is_refused() -> bool:
        answer = announce(receiving, site, "/0")
        return (answer.status, answer.status == 403 and answer.problem) == (403, "key-not-verified")

    wait_until(is_refused)
    assert n_signals(receiving) == 0
    assert site.requests == {f"/{KEY}.txt": 1}


def test_a_key_file_elsewhere_proves_nothing(receiving: RunningServer, site: Site) -> None:
    site.moved[f"/{KEY}.txt"] = "/other.txt"
    site.files["/other.txt"] = KEY.encode()
    announce(receiving, site, "/0")
    wait_until(lambda: announce(receiving, site, "/0").status == 403)
    assert n_signals(receiving) == 0


def test_nothing_is_fetched_from_hosts_without_tracked_pages(
    receiving: RunningServer, site: Site
) -> None:
    other = Site()
    try:
        assert announce(receiving, other, "/0").status == 202
        time.sleep(0.3)
        assert not other.requests
    finally:
        other.close()


def test_a_host_may_announce_only_so_many_urls(receiving: RunningServer, site: Site) -> None:
    wait_until(lambda: announce(receiving, site, "/0").status == 200)
    for _ in range(50):
        answer = announce(receiving, site, *["/1"] * 20)
        if answer.status != 200:
            break
    assert (answer.status, answer.problem) == (429, "too-busy")
    assert "too many URLs" in answer.json["detail"]
    assert 0 < int(answer.headers["retry-after"]) <= 3_600


def test_notices_beyond_the_limit_wait_for_no_key(receiving: RunningServer, site: Site) -> None:
    assert announce(receiving, site, *["/0"] * 20).status == 202
    answer = announce(receiving, site, "/1")
    assert answer.status in (200, 429)  # the key is verified, or still being checked


def test_wrong_notices_have_the_statuses_of_the_protocol(
    receiving: RunningServer, site: Site
) -> None:
    elsewhere = "https://other.example/"
    wrong: list[tuple[int, dict[str, Any]]] = [
        (400, {"key": "short"}),
        (400, {"key": "with spaces in it"}),
        (400, {"urlList": []}),
        (400, {"urlList": [site.url("/0")] * 21}),
        (400, {"urlList": "x"}),
        (422, {"urlList": [site.url("/0"), elsewhere]}),
        (422, {"urlList": ["ftp://x/"], "host": "x"}),
        (422, {"urlList": [site.url("/" + "x" * 3_000)]}),
        (422, {"host": "other.example"}),
        (422, {"keyLocation": f"{elsewhere}{KEY}.txt"}),
        (422, {"keyLocation": site.url(f"/blog/{KEY}.txt")}),
    ]
    for status, changed in wrong:
        answer = announce(receiving, site, "/0", **changed)
        assert answer.status == status, (changed, answer)
        assert answer.problem in ("invalid-body", "invalid-value")
    assert receiving.request("POST", PATH, b"{", {"Content-Type": "application/json"}).status == 400
    assert receiving.request("GET", f"{PATH}?url=x").status == 422
    assert not site.requests


def test_notices_are_off_unless_they_are_asked_for(server: RunningServer) -> None:
    assert server.request("POST", PATH, {}).problem == "unknown-path"


def test_key_files_are_fetched_from_public_addresses_alone(
    open_corpus: Callable[..., Corpus], site: Site
) -> None:
    corpus = open_corpus()
    corpus.add([site.url("/0")])
    fetch = serve._key_file_fetcher("mailto:me@example.com")
    with RunningServer({"news": corpus}, fetch_text=fetch) as server:
        assert announce(server, site, "/0").status == 202
        wait_until(lambda: announce(server, site, "/0").status == 403)
    assert not site.requests


@pytest.mark.parametrize("path", ["/blog/../x", "/blog/%2e%2E/x", "/blogs", "/blog\\..\\x", "/"])
def test_a_key_in_a_folder_is_for_that_folder_alone(path: str) -> None:
    key_url = f"https://a.example/blog/{KEY}.txt"

    def read(path: str) -> None:
        url = f"https://a.example{path}"
        read_notice([url], KEY, host=None, key_url=key_url, n_urls_max=1)

    read("/blog/x/../y")
    with pytest.raises(Problem, match="below /blog/"):
        read(path)


def test_limits_of_hosts_fill_up_again_and_are_bounded() -> None:
    now = 0.0
    limits = HostLimits(60, n_hosts_max=2, now=lambda: now)
    assert limits.take("a", 60) == 0
    assert limits.take("a", 1) == 60
    assert limits.take("b", 61) == 60  # never more than in an hour
    now = 60.0
    assert limits.take("a", 1) == 0
    limits.take("b", 1)
    limits.take("c", 1)
    assert limits.take("a", 60) == 0  # forgotten


def test_urls_that_were_not_taken_may_be_announced_again() -> None:
    limits = HostLimits(10, now=lambda: 0.0)
    assert limits.take("a.example", 8) == 0
    assert limits.take("a.example", 8) > 0
    limits.give_back("a.example", 6)
    assert limits.take("a.example", 8) == 0
    limits.give_back("a.example", 100)
    assert limits.take("a.example", 11) > 0
