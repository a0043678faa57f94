"""Signed notices become signals; others do not."""

import json
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from recrawl.corpus import Corpus
from recrawl.errors import StorageError
from recrawl.service import (
    ServiceLimits,
    add_receiver,
    list_receivers,
    remove_receiver,
    rotate_receiver_secret,
)
from recrawl.service.problems import Problem
from recrawl.service.receivers.signed_notices import read_notice_urls
from recrawl.service.webhooks.signatures import make_webhook_secret, signature_headers
from tests.manual_clock import ManualClock
from tests.unit.service.receivers.away_pages import AwayPages
from tests.unit.service.running_server import Answer, RunningServer

URLS = [f"https://blog.example/{i}" for i in range(8)]
OTHER = "https://shop.example/"
PATH = "/v1/corpora/news/receivers/blog"
NOW = 1_700_000_000_000


class Blog:
    """A server with a receiver for blog.example, and what its plugin sends."""

    def __init__(self, server: RunningServer, corpus: Corpus, folder: Path, secret: str) -> None:
        self.server = server
        self.corpus = corpus
        self.folder = folder
        self.secret = secret
        self.n_sent = 0

    def send(self, body: Any, secrets: list[str] | None = None, **changed: Any) -> Answer:
        """Sign and send a body; ``changed`` replaces headers, the path or the age."""
        self.n_sent += 1
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        path = changed.pop("path", PATH)
        signed_body = changed.pop("signed_body", data)
        message_id = changed.pop("message_id", f"msg_{self.n_sent}")
        at = self.corpus.now_ms() // 1000 - changed.pop("age_seconds", 0)
        headers = signature_headers(secrets or [self.secret], message_id, at, signed_body)
        headers |= {"Content-Type": "application/json"} | changed
        return self.server.request("POST", path, data, headers)

    @property
    def n_signals(self) -> int:
        return int(self.corpus.stats().n_signals)


@pytest.fixture
def limits() -> ServiceLimits:
    return ServiceLimits(notice_urls_max=10, notice_bytes_max=2_000)


@pytest.fixture
def blog(
    open_corpus: Callable[..., Corpus], tmp_path: Path, limits: ServiceLimits
) -> Iterator[Blog]:
    corpus, folder = open_corpus(), tmp_path / "corpus"
    corpus.add([*URLS, OTHER])
    _, secret = add_receiver(folder, "blog", ["blog.example"], now_ms=corpus.now_ms())
    # Away from this machine and without API keys: the signature is enough.
    with RunningServer(
        {"news": corpus}, is_local=False, limits=limits, folders={"news": folder}
    ) as server:
        yield Blog(server, corpus, folder, secret)


def test_a_signed_notice_becomes_signals(blog: Blog) -> None:
    answer = blog.send({"urls": [URLS[0], URLS[1], URLS[0], "https://blog.example/untracked"]})
    assert answer.status == 200
    assert answer.json == {"n_accepted": 3, "n_refused": 0, "n_delayed": 0}
    assert blog.n_signals == 2
    (row,) = blog.corpus.sources()[0]
    assert row.source == "webhook"


def test_a_notice_is_sent_again_if_pages_cannot_be_reached(
    blog: Blog, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = AwayPages(blog.corpus, monkeypatch)
    away.urls = {URLS[1]}
    for _ in range(3):
        answer = blog.send({"urls": URLS}, message_id="a")
        assert (answer.status, answer.problem) == (503, "unavailable")
        assert answer.headers["retry-after"] == "5"
    away.urls.clear()
    assert blog.send({"urls": URLS}, message_id="a").json["n_accepted"] == 8


def test_pages_of_other_hosts_are_refused(blog: Blog) -> None:
    urls = [OTHER, "https://evil.blog.example/", "mailto:x", "https://blog.example:8/", URLS[0]]
    answer = blog.send({"urls": urls})
    assert answer.json == {"n_accepted": 1, "n_refused": 4, "n_delayed": 0}
    assert blog.n_signals == 1


def test_a_backslash_does_not_hide_another_host(blog: Blog) -> None:
    _, secret = add_receiver(blog.folder, "all", ["*.blog.example"], now_ms=NOW)
    urls = ["https://shop.example\\.blog.example/../"]
    answer = blog.send({"urls": urls}, [secret], path="/v1/corpora/news/receivers/all")
    assert answer.json == {"n_accepted": 0, "n_refused": 1, "n_delayed": 0}
    assert blog.n_signals == 0


def test_a_repeated_notice_counts_once(blog: Blog) -> None:
    for _ in range(3):
        assert blog.send({"url": URLS[0]}, message_id="a").json["n_accepted"] == 1
    assert blog.n_signals == 1
    # Also after a restart, when the memory is empty.
    blog.server.app.state.signed_notices._seen.clear()
    assert blog.send({"url": URLS[0]}, message_id="a").status == 200
    assert blog.n_signals == 1
    blog.server.app.state.signed_notices._seen.clear()
    answer = blog.send({"url": URLS[1]}, message_id="a")
    assert (answer.status, answer.problem) == (422, "idempotency-key-reused")


def test_what_must_not_be_trusted_is_refused(blog: Blog) -> None:
    body = {"urls": URLS[:1]}
    wrong: list[dict[str, Any]] = [
        {"secrets": [make_webhook_secret()]},
        {"signed_body": b'{"urls": []}'},
        {"age_seconds": 400},
        {"age_seconds": -400},
        {"webhook-signature": "v1,AAAA"},
        {"webhook-signature": ""},
        {"webhook-id": "another"},
        {"webhook-timestamp": "1"},
        {"webhook-timestamp": "now"},
        {"path": "/v1/corpora/news/receivers/unknown"},
    ]
    for changed in wrong:
        answer = blog.send(body, **changed)
        assert (answer.status, answer.problem) == (401, "signature-not-valid"), changed
    paths = (PATH, PATH + "x", PATH.replace("news", "other"))
    answers = [blog.send(body, [make_webhook_secret()], path=path) for path in paths]
    # Nobody learns which receivers and corpora there are.
    assert answers[0].json == answers[1].json == answers[2].json
    assert blog.send(body, None, **{"Content-Encoding": "gzip"}).problem == "unknown-format"
    assert blog.send(body, message_id="x" * 300).problem == "invalid-value"
    assert blog.server.request("GET", PATH).status in (401, 405)
    for path in ("/v1/corpora/news/receivers", "/v1/corpora/news/receivers/", f"{PATH}/more"):
        assert blog.send(body, path=path).problem == "key-needed"
    assert blog.n_signals == 0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"7",
        b"[7]",
        b"{}",
        b'{"urls": []}',
        b'{"urls": [7]}',
        b'{"data": "x"}',
        b"\xff",
        b"[" * 500,
        b'{"url": {}}',
        json.dumps({"urls": ["a"] * 1 + [f"{i}" for i in range(10)]}),
    ],
)
def test_bodies_that_are_not_notices(blog: Blog, body: bytes | str) -> None:
    answer = blog.send(body.encode() if isinstance(body, str) else body)
    assert (answer.status, answer.problem) == (400, "invalid-body")


def test_urls_are_found_in_plain_and_in_event_bodies() -> None:
    bodies = (
        {"url": "a"},
        {"urls": ["a"]},
        {"urls": "a"},
        {"type": "post.updated", "timestamp": "x", "data": {"url": "a", "id": 7}},
        {"type": "posts.updated", "data": {"urls": ["a", "a"]}},
        [{"specversion": "1.0", "data": {"url": "a"}}, {"data": {"url": "a"}}],
    )
    for body in bodies:
        assert read_notice_urls(json.dumps(body).encode(), 1) == ["a"]
    with pytest.raises(Problem, match="at most 1 URLs"):
        read_notice_urls(b'{"urls": ["a", "b"]}', 1)


def test_sizes(blog: Blog) -> None:
    answer = blog.send({"urls": ["x" * 2_000]})
    assert (answer.status, answer.problem) == (413, "body-too-large")


class TestLimits:
    @pytest.fixture
    def limits(self) -> ServiceLimits:
        return ServiceLimits(notice_urls_per_hour=3, keyless_requests_per_second=2.0)

    def test_a_host_may_announce_so_many_urls(self, blog: Blog) -> None:
        assert blog.send({"urls": URLS[:2]}).status == 200
        answer = blog.send({"urls": URLS[2:4]})
        assert (answer.status, answer.problem) == (429, "too-busy")
        assert 0 < int(answer.headers["retry-after"]) <= 1_200
        assert blog.send({"urls": URLS[:2]}, message_id="msg_1").status == 200
        assert blog.send({"urls": URLS[2:3]}).status == 200
        assert blog.n_signals == 3

    def test_an_address_may_send_so_many_requests(self, blog: Blog) -> None:
        answers = [blog.send(b"{}", secrets=[make_webhook_secret()]) for _ in range(40)]
        assert answers[0].status == 401
        limited = [one for one in answers if one.status == 429]
        assert limited
        assert limited[0].problem == "too-many-requests"
        assert int(limited[0].headers["retry-after"]) >= 1


def test_secrets_are_rotated_and_receivers_removed(blog: Blog, clock: ManualClock) -> None:
    old = blog.secret
    new = rotate_receiver_secret(
        blog.folder, "blog", now_ms=blog.corpus.now_ms(), overlap_seconds=60
    )
    for secret in (old, new):
        assert blog.send({"url": URLS[0]}, [secret]).status == 200
    clock.pass_seconds(61)
    assert blog.send({"url": URLS[0]}, [old]).status == 401
    assert blog.send({"url": URLS[0]}, [old, new]).status == 200
    assert remove_receiver(blog.folder, "blog")
    assert not remove_receiver(blog.folder, "blog")
    assert blog.send({"url": URLS[0]}, [new]).status == 401


def test_receivers_are_stored_for_their_owner_alone(tmp_path: Path) -> None:
    receiver, secret = add_receiver(tmp_path, "a", ["Shop.example", "*.shop.example"], now_ms=NOW)
    assert list_receivers(tmp_path) == [receiver]
    assert stat.S_IMODE((tmp_path / "receivers.json").stat().st_mode) == 0o600
    assert secret not in str(receiver.as_public())
    assert [receiver.covers(host) for host in ("shop.example", "a.b.shop.example")] == [True] * 2
    assert not any(map(receiver.covers, ("xshop.example", "shop.example:8443", "example")))
    for wrong in (("a", ["b.example"]), ("B", ["b.example"]), ("b", []), ("b", ["https://b/"])):
        with pytest.raises(ValueError, match=r"already|name must|hosts|not a host"):
            add_receiver(tmp_path, *wrong, now_ms=NOW)
    for _ in range(10):
        rotate_receiver_secret(tmp_path, "a", now_ms=NOW)
    assert len(list_receivers(tmp_path)[0].secrets) == 5
    with pytest.raises(ValueError, match="no receiver"):
        rotate_receiver_secret(tmp_path, "b", now_ms=NOW)
    with pytest.raises(ValueError, match="90 days"):
        rotate_receiver_secret(tmp_path, "a", now_ms=NOW, overlap_seconds=1e9)
    (tmp_path / "receivers.json").write_text("{")
    with pytest.raises(StorageError, match="cannot be read"):
        list_receivers(tmp_path)


def test_a_receiver_that_is_added_while_the_server_runs(blog: Blog) -> None:
    _, secret = add_receiver(blog.folder, "shop", ["*.example"], now_ms=NOW)
    answer = blog.send({"url": OTHER}, [secret], path="/v1/corpora/news/receivers/shop")
    assert (answer.status, answer.json["n_accepted"]) == (200, 1)


def test_time_of_the_corpus_counts(blog: Blog, clock: ManualClock) -> None:
    assert blog.send({"url": URLS[0]}, age_seconds=299).status == 200
    clock.pass_seconds(10)
    assert blog.send({"url": URLS[1]}).status == 200
