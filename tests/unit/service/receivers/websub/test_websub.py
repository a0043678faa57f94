"""WebSub with a real hub: subscriptions are verified, renewed and ended, and pushes checked."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recrawl.cli.commands import serve
from recrawl.corpus import Corpus
from recrawl.service import FeedSubscription, ServiceLimits, list_feed_subscriptions, subscribe_feed
from recrawl.service import unsubscribe_feed as unsubscribe
from tests.manual_clock import ManualClock
from tests.unit.service.receivers.away_pages import AwayPages
from tests.unit.service.receivers.websub.hub import Asked, Hub, send
from tests.unit.service.running_server import RunningServer

DATE = "2023-11-14T20:{:02}:00Z"  # two hours before the time of the clock
HOUR, DAY = 3_600, 86_400


class Subscriber:
    """A server that subscribes, and its corpus."""

    def __init__(self, corpus: Corpus, folder: Path, hub: Hub, clock: ManualClock) -> None:
        self.corpus = corpus
        self.folder = folder
        self.hub = hub
        self.clock = clock

    @property
    def one(self) -> FeedSubscription:
        (found,) = list_feed_subscriptions(self.folder)
        return found

    @property
    def n_signals(self) -> int:
        return int(self.corpus.stats().n_signals)

    @property
    def is_active(self) -> bool:
        return self.one.is_active(self.corpus.now_ms())

    def add(self, **options: Any) -> None:
        subscribe_feed(self.folder, self.hub.url("/feed"), now_ms=self.corpus.now_ms(), **options)

    def activate(self) -> Asked:
        self.add()
        wait_until(lambda: self.is_active and bool(self.hub.secrets))
        return self.hub.asked[-1]

    def wait_for_request(self, n: int) -> Asked:
        wait_until(lambda: len(self.hub.asked) >= n)
        assert len(self.hub.asked) == n
        return self.hub.asked[-1]


def wait_until(is_done: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 20
    while not is_done():
        assert time.monotonic() < ends_at
        time.sleep(0.02)


@pytest.fixture
def hub() -> Iterator[Hub]:
    hub = Hub()
    yield hub
    hub.close()


@pytest.fixture
def limits() -> ServiceLimits:
    return ServiceLimits(notice_bytes_max=20_000)


@pytest.fixture
def subscriber(
    open_corpus: Callable[..., Corpus],
    tmp_path: Path,
    hub: Hub,
    clock: ManualClock,
    limits: ServiceLimits,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Subscriber]:
    corpus = open_corpus()
    corpus.add([hub.url(f"/{i}") for i in range(6)] + ["https://other.example/"])
    folder = tmp_path / "corpus"
    settings = serve._websub_settings(
        "http://set-below.example/", "mailto:me@example.com", ("127.0.0.0/8",), delay_seconds=0.0
    )
    settings = replace(settings, poll_seconds=0.02)
    # Away from this machine and without API keys: hubs have none.
    server = RunningServer(
        {"news": corpus}, is_local=False, folders={"news": folder}, websub=settings, limits=limits
    )
    # The port is known only now.
    object.__setattr__(settings, "url", f"http://127.0.0.1:{server.port}/")
    with server:
        yield Subscriber(corpus, folder, hub, clock)


@pytest.mark.parametrize("in_header", [False, True])
@pytest.mark.parametrize("behaviour", ["verify", "verify first", "move"])
def test_a_feed_is_subscribed_to_at_its_hub(
    subscriber: Subscriber, hub: Hub, in_header: bool, behaviour: str
) -> None:
    hub.in_header, hub.behaviour = in_header, behaviour
    asked = subscriber.activate()
    assert (asked.mode, asked.topic, asked.lease_seconds) == ("subscribe", hub.topic, "864000")
    assert 32 <= len(asked.secret) < 200
    assert len(asked.callback.rpartition("/")[2]) >= 43
    assert hub.verified[0].status == 200
    assert subscriber.one.hub == hub.url("/hub")
    hub.entries = [(hub.url(f"/{i}"), DATE.format(i)) for i in range(3)]
    assert hub.push(asked.callback, hub.feed()).status == 202
    assert subscriber.n_signals == 3
    (row,) = subscriber.corpus.sources()[0]
    assert row.source == "websub"
    assert subscriber.one.pushed_at_ms == subscriber.corpus.now_ms()


def test_a_subscription_is_renewed_before_it_ends(
    subscriber: Subscriber, hub: Hub, clock: ManualClock
) -> None:
    hub.lease_seconds = str(10 * DAY)
    first = subscriber.activate()
    clock.pass_seconds(6.9 * DAY)
    time.sleep(0.2)
    assert len(hub.asked) == 1
    clock.pass_seconds(0.2 * DAY)
    again = subscriber.wait_for_request(2)
    assert again == first  # the same callback and secret, so that nothing is pushed twice
    wait_until(lambda: subscriber.one.lease_ends_at_ms > subscriber.corpus.now_ms() + 9 * DAY)
    assert hub.n_feeds == 2  # discovered again, because a feed may move to another hub
    # If the feed cannot be read at a renewal, the hub that is known is asked.
    hub.names_hub = False
    clock.pass_seconds(7.1 * DAY)
    assert subscriber.wait_for_request(3) == first


def test_a_lease_that_is_not_renewed_ends(
    subscriber: Subscriber, hub: Hub, clock: ManualClock
) -> None:
    asked = subscriber.activate()
    hub.behaviour = "ignore"
    clock.pass_seconds(9 * DAY)
    subscriber.wait_for_request(2)
    hub.entries = [(hub.url("/0"), DATE.format(0))]
    assert hub.push(asked.callback, hub.feed()).status == 202
    clock.pass_seconds(1 * DAY)
    hub.entries = [(hub.url("/1"), DATE.format(0))]
    assert hub.push(asked.callback, hub.feed()).status == 410
    assert subscriber.n_signals == 1


def test_a_hub_that_never_verifies_is_asked_ever_more_rarely(
    subscriber: Subscriber, hub: Hub, clock: ManualClock
) -> None:
    hub.behaviour = "ignore"
    subscriber.add()
    waits = []
    for n in range(1, 13):
        subscriber.wait_for_request(n)
        one = subscriber.one
        waits.append((one.next_at_ms - subscriber.corpus.now_ms()) / 1000)
        clock.pass_seconds(waits[-1])
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (HOUR, DAY)
    assert "has not verified" in subscriber.one.problem
    assert not subscriber.is_active
    asked = hub.asked[-1]
    assert hub.push(asked.callback, hub.feed(), secret=asked.secret).status == 410
    # A verification that comes too late belongs to no request.
    subscriber.wait_for_request(13)
    clock.pass_seconds(2 * HOUR)
    assert hub.verify(asked).status == 404
    hub.behaviour = "verify"
    clock.pass_seconds(DAY)
    wait_until(lambda: subscriber.is_active)
    assert (subscriber.one.n_failures, subscriber.one.problem) == (0, "")


@pytest.mark.parametrize("behaviour", ["other topic", "other mode"])
def test_a_hub_that_lies_gets_no_challenge_back(
    subscriber: Subscriber, hub: Hub, behaviour: str
) -> None:
    hub.behaviour = behaviour
    subscriber.add()
    wait_until(lambda: bool(hub.verified))
    assert hub.verified[0].status == 404
    assert not subscriber.is_active


def test_wrong_verifications(subscriber: Subscriber, hub: Hub) -> None:
    asked = subscriber.activate()
    good = {"mode": "subscribe", "topic": hub.topic, "challenge": "x", "lease_seconds": "60"}
    assert hub.call(asked.callback, **good).body == b"x"  # a hub may repeat its question
    wrong: list[dict[str, str]] = [
        {"mode": "unsubscribe"},
        {"mode": ""},
        {"topic": hub.topic + "x"},
        {"challenge": ""},
        {"challenge": "x" * 2_000},
        {"lease_seconds": ""},
        {"lease_seconds": "0"},
        {"lease_seconds": "-5"},
        {"lease_seconds": "9" * 30},
        {"lease_seconds": "ten"},
    ]
    for changed in wrong:
        assert hub.call(asked.callback, **(good | changed)).status == 404, changed
    for callback in (asked.callback[:-1], asked.callback + "x", asked.callback + "x" * 99):
        assert hub.call(callback, **good).status in (404, 422)
    assert subscriber.is_active
    # Nobody learns which corpora there are.
    for callback in (asked.callback.replace("/news/", "/other/"), asked.callback + "x"):
        assert hub.call(callback, **good).status == 404
        assert hub.push(callback, b"").status == 410


def test_a_hub_may_deny(subscriber: Subscriber, hub: Hub, clock: ManualClock) -> None:
    hub.behaviour = "deny"
    subscriber.add()
    wait_until(lambda: "not today" in subscriber.one.problem)
    assert not subscriber.is_active
    hub.behaviour = "verify"
    clock.pass_seconds(DAY + 1)
    wait_until(lambda: subscriber.is_active)
    # Also later, at any time.
    asked = hub.asked[-1]
    assert hub.call(asked.callback, mode="denied", topic=hub.topic).status == 200
    assert not subscriber.is_active
    assert hub.push(asked.callback, hub.feed()).status == 410


def test_pushes_that_are_not_signed_are_ignored(subscriber: Subscriber, hub: Hub) -> None:
    asked = subscriber.activate()
    hub.entries = [(hub.url("/0"), DATE.format(0))]
    body = hub.feed()
    good = hub.push(asked.callback, hub.feed([]))
    assert good.status == 202
    assert hub.push(asked.callback, body, secret="wrong") == good  # nobody learns it
    for header in ("", "sha256=", "sha256", "md5=0", f"sha256={'0' * 64}", "sha256=é", "=" * 9_000):
        headers = {"X-Hub-Signature": header.encode("latin-1").decode("latin-1")}
        assert send("POST", asked.callback, body, headers) == good
    assert send("POST", asked.callback, body) == good
    assert subscriber.n_signals == 0
    for i, method in enumerate(("sha1", "sha256", "sha384", "sha512")):
        pushed = hub.feed([(hub.url(f"/{i}"), DATE.format(1))])
        assert hub.push(asked.callback, pushed, method=method).status == 202
        assert subscriber.n_signals == i + 1


def test_a_push_that_is_repeated_counts_once(
    subscriber: Subscriber, hub: Hub, clock: ManualClock
) -> None:
    asked = subscriber.activate()
    body = hub.feed([(hub.url("/0"), DATE.format(0)), (hub.url("/1"), "")])
    for _ in range(3):
        assert hub.push(asked.callback, body).status == 202
    assert subscriber.n_signals == 2
    # An entry that was announced before is no news in a longer feed.
    later = hub.feed([(hub.url("/2"), DATE.format(9)), (hub.url("/0"), DATE.format(0))])
    assert hub.push(asked.callback, later).status == 202
    assert subscriber.n_signals == 3
    # Neither is an old push that is sent again days later.
    clock.pass_seconds(3 * DAY)
    old = hub.feed([(hub.url("/0"), DATE.format(0))])
    assert hub.push(asked.callback, old).status == 202
    assert subscriber.n_signals == 3


def test_a_hub_pushes_again_if_pages_cannot_be_reached(
    subscriber: Subscriber, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = subscriber.activate()
    away = AwayPages(subscriber.corpus, monkeypatch)
    away.urls = {hub.url("/1")}
    body = hub.feed([(hub.url(f"/{i}"), DATE.format(i)) for i in range(3)])
    assert hub.push(asked.callback, body).status == 503
    away.urls.clear()
    assert hub.push(asked.callback, body).status == 202


def test_a_feed_announces_pages_of_its_own_host_alone(subscriber: Subscriber, hub: Hub) -> None:
    asked = subscriber.activate()
    urls = ["https://other.example/", hub.url("/0"), "ftp://x/", "x", hub.url("/0") + "#a"]
    entries = [(url, DATE.format(0)) for url in urls]
    assert hub.push(asked.callback, hub.feed(entries)).status == 202
    assert subscriber.n_signals == 1


def test_a_feed_may_be_allowed_to_announce_pages_of_other_hosts(
    subscriber: Subscriber, hub: Hub
) -> None:
    subscriber.add(hosts=["*.example", "other.example"])
    wait_until(lambda: subscriber.is_active and bool(hub.secrets))
    urls = ["https://other.example/", hub.url("/0")]
    body = hub.feed([(url, DATE.format(0)) for url in urls])
    assert hub.push(hub.asked[-1].callback, body).status == 202
    assert subscriber.n_signals == 1


def test_bodies_are_bounded_and_never_break_it(subscriber: Subscriber, hub: Hub) -> None:
    asked = subscriber.activate()
    assert hub.push(asked.callback, b"x" * 20_001).status == 413
    for body in (b"", b"<", b"\xff" * 1_000, b"<feed>" * 500, b"{}", b"\x1f\x8b" + b"x" * 50):
        assert hub.push(asked.callback, body).status == 202
    headers = {"Content-Encoding": "gzip"}
    assert send("POST", asked.callback, b"x", headers).status == 415
    assert subscriber.n_signals == 0


class TestLimits:
    @pytest.fixture
    def limits(self) -> ServiceLimits:
        return ServiceLimits(notice_urls_per_hour=2)

    def test_a_host_may_announce_so_many_urls(self, subscriber: Subscriber, hub: Hub) -> None:
        asked = subscriber.activate()
        for i in range(6):
            body = hub.feed([(hub.url(f"/{i}"), DATE.format(i))])
            assert hub.push(asked.callback, body).status == 202
        assert subscriber.n_signals == 2


def test_a_subscription_is_ended(subscriber: Subscriber, hub: Hub) -> None:
    asked = subscriber.activate()
    now_ms = subscriber.corpus.now_ms()
    assert unsubscribe(subscriber.folder, hub.url("/feed"), now_ms=now_ms)
    assert not unsubscribe(subscriber.folder, hub.url("/feed"), now_ms=now_ms)
    # What was on its way is ignored at once.
    assert hub.push(asked.callback, hub.feed([(hub.url("/0"), "")])).status == 410
    wait_until(lambda: not list_feed_subscriptions(subscriber.folder))
    assert (hub.asked[-1].mode, hub.asked[-1].callback) == ("unsubscribe", asked.callback)
    assert hub.verified[-1].status == 200
    assert hub.push(asked.callback, hub.feed()).status == 410
    assert subscriber.n_signals == 0
    subscriber.add()
    wait_until(lambda: subscriber.is_active)
    assert hub.asked[-1].callback != asked.callback


def test_a_hub_that_does_not_end_it_is_left_alone(
    subscriber: Subscriber, hub: Hub, clock: ManualClock
) -> None:
    subscriber.activate()
    hub.behaviour = "refuse"
    unsubscribe(subscriber.folder, hub.url("/feed"), now_ms=subscriber.corpus.now_ms())
    for n in (2, 3, 4):
        subscriber.wait_for_request(n)
        wait_until(lambda: n_failures(subscriber.folder) != n - 2)  # noqa: B023 - called at once
        clock.pass_seconds(HOUR)
    wait_until(lambda: not list_feed_subscriptions(subscriber.folder))
    assert len(hub.asked) == 4


def n_failures(folder: Path) -> int | None:
    found = list_feed_subscriptions(folder)
    return found[0].n_failures if found else None


def test_problems_are_shown_and_tried_again(
    subscriber: Subscriber, hub: Hub, clock: ManualClock
) -> None:
    hub.names_hub = False
    subscriber.add()
    wait_until(lambda: subscriber.one.problem == "it names no hub")
    hub.names_hub, hub.behaviour = True, "refuse"
    clock.pass_seconds(HOUR)
    wait_until(lambda: "500" in subscriber.one.problem)
    hub.behaviour = "verify"
    clock.pass_seconds(DAY)
    wait_until(lambda: subscriber.is_active)


def test_hubs_and_feeds_at_addresses_that_are_not_public_are_not_asked(
    open_corpus: Callable[..., Corpus], tmp_path: Path, hub: Hub
) -> None:
    corpus, folder = open_corpus(), tmp_path / "corpus"
    settings = serve._websub_settings("http://127.0.0.1/", "mailto:me@example.com", ())
    with RunningServer({"news": corpus}, folders={"news": folder}, websub=settings):
        subscribe_feed(folder, hub.url("/feed"), now_ms=corpus.now_ms())
        wait_until(lambda: list_feed_subscriptions(folder)[0].problem != "")
    assert hub.n_feeds == 0
    # Also if the feed itself is public, and names such a hub.
    public = serve._websub_settings("http://127.0.0.1/", "mailto:x@example.com", ("127.0.0.0/8",))
    public = replace(public, allow_networks=())
    other = open_corpus("other")
    with RunningServer({"news": other}, folders={"news": tmp_path / "other"}, websub=public):
        subscribe_feed(tmp_path / "other", hub.url("/feed"), now_ms=other.now_ms())
        wait_until(lambda: list_feed_subscriptions(tmp_path / "other")[0].problem != "")
    assert hub.n_feeds == 1
    assert hub.asked == []


def test_wrong_subscriptions(tmp_path: Path) -> None:
    for wrong in ("ftp://a/", "feed", "https://u@a.example/"):
        with pytest.raises(ValueError, match="not the URL of a page"):
            subscribe_feed(tmp_path, wrong, now_ms=1)
    subscribe_feed(tmp_path, "https://a.example/feed", now_ms=1)
    with pytest.raises(ValueError, match="already"):
        subscribe_feed(tmp_path, "https://a.example/feed", now_ms=1)
    with pytest.raises(ValueError, match="not a host"):
        subscribe_feed(tmp_path, "https://b.example/feed", hosts=["https://b/"], now_ms=1)
    with pytest.raises(ValueError, match="must be a URL"):
        serve._websub_settings("recrawl.example", "x", ())
