"""Delivery to receivers that fail, drop, hang, lie and go away: every change arrives, in order."""

import asyncio
import random
import socket
import stat
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from recrawl.errors import StorageError
from recrawl.service.webhooks import (
    DeliverySettings,
    WebhookDelivery,
    WebhookLimits,
    WebhookStatus,
    add_webhook,
    change_webhook,
    drop_letters,
    list_letters,
    list_webhooks,
    remove_webhook,
    rotate_webhook_secret,
    send_letters_again,
)
from recrawl.shard import Transition
from tests.unit.service.webhooks.receivers import (
    LOOPBACK,
    FakeFeed,
    Received,
    Receiver,
    open_receiver,
    until,
)

QUICK = WebhookLimits(
    backoff_seconds=0.01,
    backoff_factor=1.5,
    backoff_seconds_max=0.05,
    down_seconds_max=0.02,
    attempts_max=1_000,
    request_seconds_max=2.0,
    drain_seconds_max=0.5,
)
SETTINGS = DeliverySettings(
    source="urn:recrawl:corpus:test",
    allow_networks=LOOPBACK,
    reload_seconds=0.02,
    look_seconds=0.05,
    store_seconds=0.01,
)
PAGES = [f"p{i % 7}" for i in range(60)]


def run(main: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(180):
            await main

    asyncio.run(limited())


@asynccontextmanager
async def delivering(
    feed: FakeFeed,
    folder: Path,
    limits: WebhookLimits = QUICK,
    settings: DeliverySettings = SETTINGS,
    **more: Any,
) -> AsyncIterator[WebhookDelivery]:
    async with WebhookDelivery(feed, folder, limits=limits, settings=settings, **more) as delivery:
        yield delivery


def subscribe(folder: Path, receiver: Receiver, name: str = "hook", **settings: Any) -> None:
    settings.setdefault("start", "oldest")
    _, receiver.secret = add_webhook(folder, name, receiver.url, now_ms=0, **settings)


async def status_of(delivery: WebhookDelivery, name: str = "hook") -> WebhookStatus:
    return next(one for one in await delivery.status() if one.name == name)


def has_all(receiver: Receiver, feed: FakeFeed) -> bool:
    return {change.sequence for change in feed.stored} <= {*receiver.numbers}


def test_changes_arrive_signed_as_cloud_events(tmp_path: Path) -> None:
    async def main() -> None:
        feed = FakeFeed()
        feed.happen("a", metadata={"price": 3}, doc_id="7", kind="shop")
        async with open_receiver() as receiver:
            subscribe(tmp_path, receiver)
            async with delivering(feed, tmp_path) as delivery:
                await until(lambda: has_all(receiver, feed))
                feed.happen("b", what=Transition.GONE)
                delivery.wake()
                await until(lambda: has_all(receiver, feed))
                assert (await status_of(delivery)).problem == ""
        assert receiver.events[0] == {
            "specversion": "1.0",
            "id": "00000001",
            "source": "urn:recrawl:corpus:test",
            "type": "recrawl.page.changed",
            "subject": "https://site.example/a",
            "time": "2023-11-14T22:13:20.001Z",
            "sequence": "00000001",
            "datacontenttype": "application/json",
            "data": {
                "url": "https://site.example/a",
                "key": None,
                "what": "changed",
                "at_ms": 1_700_000_000_001,
                "kind": "shop",
                "doc_id": "7",
                "metadata": {"price": 3},
                "divergence": None,
                "n_passages_kept": None,
                "n_passages_added": None,
                "n_passages_removed": None,
            },
        }
        assert receiver.events[1]["type"] == "recrawl.page.gone"
        assert receiver.headers[0]["content-type"] == "application/cloudevents+json"
        assert receiver.headers[0]["webhook-id"] == "00000001"
        assert receiver.headers[0]["user-agent"].startswith("recrawl/")
        # The place was stored.
        assert [*feed.places.values()] == [2]
        assert list_letters(tmp_path, "hook") == []

    run(main())


@pytest.mark.parametrize("events_max", [1, 5])
def test_a_receiver_that_misbehaves_half_of_the_time_gets_everything(
    tmp_path: Path, events_max: int, seed: int
) -> None:
    """Errors, redirects, dropped connections and time-outs, before or after it has accepted."""
    dice = random.Random(seed)

    async def main() -> None:
        feed = FakeFeed()
        feed.happen(*PAGES)
        async with open_receiver() as receiver:

            async def misbehave(received: Received) -> web.StreamResponse:
                if dice.random() < 0.5:
                    return receiver.accept(received)
                if dice.random() < 0.3:  # it was accepted, but nobody hears of it
                    receiver.accept(received)
                way = dice.choice(["drop", "hang", "500", "503", "302", "400", "bytes"])
                transport = received.request.transport
                assert transport is not None
                if way == "drop":
                    transport.abort()
                elif way == "hang":
                    await asyncio.sleep(1.0)
                elif way == "bytes":
                    assert isinstance(transport, asyncio.WriteTransport)
                    transport.write(b"\x00\xffnot HTTP\r\n\r\n")
                    transport.close()
                elif way == "302":
                    return web.Response(status=302, headers={"Location": receiver.url + "/other"})
                elif way == "503":
                    return web.Response(status=503, headers={"Retry-After": "0"})
                return web.Response(status=int(way) if way.isdecimal() else 500)

            receiver.script = misbehave
            subscribe(tmp_path, receiver, events_max=events_max)
            limits = replace(QUICK, request_seconds_max=0.05)
            async with delivering(feed, tmp_path, limits) as delivery:
                await until(lambda: has_all(receiver, feed), 40)
                feed.happen(*PAGES)
                delivery.wake()
                await until(lambda: has_all(receiver, feed), 40)
                assert (await status_of(delivery)).n_failed > 5
        receiver.check_order()
        # Those whose answer got lost were delivered again, and the place may be before them.
        assert len(list_letters(tmp_path, "hook")) <= 5 * QUICK.requests_max

    run(main())


def test_bodies_of_answers_do_not_matter(tmp_path: Path) -> None:
    async def main() -> None:
        feed = FakeFeed()
        feed.happen(*PAGES[:8])
        async with open_receiver() as receiver:
            sizes: list[int] = []

            async def talk(received: Received) -> web.StreamResponse:
                """Accept with an answer that never ends: quickly, slowly, or compressed wrongly."""
                receiver.accept(received)
                answer = web.StreamResponse(headers={"Content-Encoding": "gzip"})
                await answer.prepare(received.request)
                n_bytes = 0
                try:
                    while True:
                        await answer.write(bytes(1 << 16) if received.n % 2 else b".")
                        n_bytes += 1 << 16 if received.n % 2 else 1
                        await asyncio.sleep(0 if received.n % 2 else 0.05)
                except ConnectionError:
                    sizes.append(n_bytes)
                return answer

            receiver.script = talk
            subscribe(tmp_path, receiver)
            async with delivering(feed, tmp_path):
                await until(lambda: has_all(receiver, feed))
                await until(lambda: len(sizes) == 8)
        assert receiver.n_requests == 8
        assert max(sizes) < 16 << 20

    run(main())


def test_410_ends_the_subscription_until_it_is_enabled_again(tmp_path: Path) -> None:
    async def main() -> None:
        feed = FakeFeed()
        feed.happen("a", "b", "c")
        async with open_receiver() as receiver:

            async def leave(received: Received) -> web.StreamResponse:
                return web.Response(status=410)

            receiver.script = leave
            limits = replace(QUICK, requests_max=1)
            subscribe(tmp_path, receiver)
            async with delivering(feed, tmp_path, limits) as delivery:
                await until(lambda: list_webhooks(tmp_path)[0].disabled is not None)
                feed.happen("a")
                delivery.wake()
                await asyncio.sleep(0.1)
                assert (await status_of(delivery)).state == "disabled"
            assert receiver.n_requests == 1
            async with delivering(feed, tmp_path, limits) as delivery:
                await asyncio.sleep(0.1)
                assert receiver.n_requests == 1  # also after a restart
                receiver.script = None
                change_webhook(tmp_path, "hook", disabled=None)
                await until(lambda: has_all(receiver, feed))
            receiver.check_order()

    run(main())


def test_a_receiver_that_is_down_holds_back_no_other(tmp_path: Path) -> None:
    async def main() -> None:
        feed = FakeFeed()
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))  # nobody listens
            url = f"http://127.0.0.1:{unused.getsockname()[1]}/"
            async with open_receiver() as receiver, open_receiver() as slow:

                async def hang(received: Received) -> web.StreamResponse:
                    await asyncio.sleep(60)
                    raise AssertionError

                slow.script = hang
                subscribe(tmp_path, slow, "slow")
                add_webhook(tmp_path, "down", url, now_ms=0, start="oldest")
                subscribe(tmp_path, receiver)
                limits = replace(QUICK, down_seconds_max=5.0, backoff_seconds=5.0)
                async with delivering(feed, tmp_path, limits) as delivery:
                    for _ in range(10):
                        feed.happen(*PAGES)
                        delivery.wake()
                        await until(lambda: has_all(receiver, feed), 5)
                    status = await status_of(delivery, "down")
                    assert status.state == "down"
                    assert status.n_failed <= 2 * limits.failures_max
                    assert "ClientConnectorError" in status.problem
                    assert status.n_held <= limits.letters_max
                assert len(receiver.events) == 600

    run(main())


def test_retry_after_is_respected(tmp_path: Path) -> None:
    async def main() -> None:
        feed = FakeFeed()
        feed.happen("a", "b")
        times: list[float] = []
        async with open_receiver() as receiver:

            async def ask(received: Received) -> web.StreamResponse:
                times.append(asyncio.get_running_loop().time())
                if received.n == 0:
                    return web.Response(status=429, headers={"Retry-After": "1"})
                return receiver.accept(received)

            receiver.script = ask
            subscribe(tmp_path, receiver)
            async with delivering(feed, tmp_path, replace(QUICK, requests_max=1)):
                await until(lambda: has_all(receiver, feed))
        assert times[1] - times[0] >= 0.99

    run(main())


class FixedResolver(AbstractResolver):
    """Resolves every name to one address."""

    def __init__(self, address: str) -> None:
        self.address = address

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host, host=self.address, port=port, family=family, proto=0, flags=0
            )
        ]

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "0x7f.1", "public.example"])
def test_addresses_that_are_not_public_are_never_connected_to(tmp_path: Path, host: str) -> None:
    async def main() -> None:
        feed = FakeFeed()
        feed.happen("a")
        async with open_receiver() as receiver:
            port = receiver.url.split(":")[2].split("/")[0]
            receiver.url = f"http://{host}:{port}/hook"
            subscribe(tmp_path, receiver)
            settings = replace(SETTINGS, allow_networks=())
            resolver = FixedResolver("127.0.0.1")
            async with delivering(feed, tmp_path, settings=settings, resolver=resolver) as delivery:
                while (status := await status_of(delivery)).n_failed < 2:
                    await asyncio.sleep(0.01)
                assert "public" in status.problem or "reserved" in status.problem
                assert "--allow-network" in status.problem
        assert receiver.n_requests == 0

    run(main())


def test_both_secrets_are_used_while_one_replaces_the_other(tmp_path: Path) -> None:
    async def main() -> None:
        feed = FakeFeed()
        now = [1_700_000_000.0]
        async with open_receiver() as receiver:
            subscribe(tmp_path, receiver)
            receiver.secret = ""  # signed at another time than now
            settings = replace(SETTINGS, now_seconds=lambda: now[0])
            async with delivering(feed, tmp_path, settings=settings) as delivery:

                async def count_signatures() -> int:
                    feed.happen("a")
                    delivery.wake()
                    await until(lambda: has_all(receiver, feed))
                    return receiver.headers[-1]["webhook-signature"].count("v1,")

                assert await count_signatures() == 1
                rotate_webhook_secret(
                    tmp_path, "hook", now_ms=round(now[0] * 1000), overlap_seconds=60
                )
                await delivery.reload()
                assert await count_signatures() == 2
                now[0] += 61
                assert await count_signatures() == 1
        assert len(list_webhooks(tmp_path)[0].secrets) == 2

    run(main())


def test_dead_letters_are_listed_hold_back_their_page_and_are_sent_again(tmp_path: Path) -> None:
    async def main() -> None:
        feed = FakeFeed()
        feed.happen("bad", "good", "bad", "bad", "good")
        is_mended = False
        async with open_receiver() as receiver:

            async def refuse_one(received: Received) -> web.StreamResponse:
                if b"/bad" in received.body and not is_mended:
                    return web.Response(status=422, text="no such\x1b[31m product")
                return receiver.accept(received)

            receiver.script = refuse_one
            subscribe(tmp_path, receiver)
            limits = replace(QUICK, attempts_max=3, failures_max=100)
            async with delivering(feed, tmp_path, limits) as delivery:
                await until(lambda: any(one.is_dead for one in list_letters(tmp_path, "hook")))
                await until(lambda: len(receiver.events) == 2)
                (dead,) = (one for one in list_letters(tmp_path, "hook") if one.is_dead)
                assert (dead.id, dead.n_attempts) == ("00000001", 3)
                assert dead.problem == "the receiver answered 422: no such\\x1b[31m product"
                assert (await status_of(delivery)).n_dead == 1
            async with delivering(feed, tmp_path, limits) as delivery:  # also after a restart
                await until(lambda: len(list_letters(tmp_path, "hook")) == 3)
                send_letters_again(tmp_path, "hook")
                await until(lambda: receiver.n_requests == 2 + 6)
                is_mended = True
                await until(lambda: any(one.is_dead for one in list_letters(tmp_path, "hook")))
                send_letters_again(tmp_path, "hook", ["00000001"])
                await until(lambda: has_all(receiver, feed))
                await until(lambda: list_letters(tmp_path, "hook") == [])
                assert not [*tmp_path.rglob("*.requests")]
            receiver.check_order()

    run(main())


def test_dead_letters_can_be_given_up(tmp_path: Path) -> None:
    async def main() -> None:
        feed = FakeFeed()
        feed.happen("bad", "bad")
        async with open_receiver() as receiver:

            async def refuse_first(received: Received) -> web.StreamResponse:
                if b"00000001" in received.body:
                    return web.Response(status=400)
                return receiver.accept(received)

            receiver.script = refuse_first
            subscribe(tmp_path, receiver)
            async with delivering(feed, tmp_path, replace(QUICK, attempts_max=2)) as delivery:
                await until(lambda: any(one.is_dead for one in list_letters(tmp_path, "hook")))
                assert receiver.numbers == []
                drop_letters(tmp_path, "hook", ["00000001"])
                await until(lambda: receiver.numbers == ["00000002"])
                change_webhook(tmp_path, "hook", holds_back=False)
                await delivery.reload()

    run(main())


def test_a_full_outbox_stops_reading_and_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        feed = FakeFeed()
        feed.happen(*(f"p{i}" for i in range(50)))
        async with open_receiver() as receiver:
            is_mended = False

            async def refuse(received: Received) -> web.StreamResponse:
                return receiver.accept(received) if is_mended else web.Response(status=500)

            receiver.script = refuse
            subscribe(tmp_path, receiver)
            limits = replace(QUICK, attempts_max=1, letters_max=10, failures_max=1_000)
            async with delivering(feed, tmp_path, limits) as delivery:
                while (status := await status_of(delivery)).n_dead < 10:
                    await asyncio.sleep(0.01)
                assert (status.state, status.n_held) == ("full", 10)
                await asyncio.sleep(0.1)
                assert receiver.n_requests == 10
                assert (await status_of(delivery)).n_behind == 40
                is_mended = True
                send_letters_again(tmp_path, "hook")
                await until(lambda: has_all(receiver, feed))

    run(main())


def test_filters(tmp_path: Path) -> None:
    async def main() -> None:
        feed = FakeFeed()
        feed.happen("shop/1", "news/1", what=Transition.NEW, kind="goods")
        feed.happen("shop/1", "shop/2", "news/1", kind="goods")
        feed.happen("shop/1", what=Transition.GONE)
        async with open_receiver() as some, open_receiver() as others, open_receiver() as rest:
            subscribe(tmp_path, some, "some", what=["new", "gone"], patterns=["/shop/*"])
            subscribe(tmp_path, others, "others", kinds=["goods"], what=["changed"])
            subscribe(tmp_path, rest, "rest", patterns=["elsewhere.example/*"])
            async with delivering(feed, tmp_path):
                await until(lambda: len(some.events) == 2 and len(others.events) == 3)
                # What is not wanted counts as read.
                await until(lambda: {*feed.places.values()} == {6})
        assert some.numbers == ["00000001", "00000006"]
        assert sorted(others.numbers) == ["00000003", "00000004", "00000005"]
        assert rest.events == []

    run(main())


def test_batches(tmp_path: Path) -> None:
    async def main() -> None:
        feed = FakeFeed()
        feed.happen(*PAGES)
        async with open_receiver() as receiver:
            subscribe(tmp_path, receiver, events_max=25)
            async with delivering(feed, tmp_path):
                await until(lambda: has_all(receiver, feed))
        assert receiver.n_requests < 10
        assert receiver.headers[0]["content-type"] == "application/cloudevents-batch+json"
        receiver.check_order()

    run(main())


def test_a_new_webhook_begins_with_the_newest_change(tmp_path: Path) -> None:
    async def main() -> None:
        feed = FakeFeed()
        feed.happen("old")
        async with open_receiver() as receiver:
            subscribe(tmp_path, receiver, start="newest")
            async with delivering(feed, tmp_path):
                await until(lambda: list_webhooks(tmp_path)[0].is_started)
                feed.happen("new")
                await until(lambda: receiver.events)
            assert receiver.numbers == ["00000002"]
            # A place that got lost begins with the oldest: rather twice than never.
            feed.places.clear()
            async with delivering(feed, tmp_path):
                await until(lambda: len(receiver.events) == 3)

    run(main())


def test_webhooks_come_and_go_while_delivery_runs(tmp_path: Path) -> None:
    async def main() -> None:
        feed = FakeFeed()
        feed.happen("a")
        async with open_receiver() as receiver, delivering(feed, tmp_path) as delivery:
            assert await delivery.status() == []
            subscribe(tmp_path, receiver)
            await until(lambda: receiver.numbers == ["00000001"])
            assert remove_webhook(tmp_path, "hook")
            assert not remove_webhook(tmp_path, "hook")
            await until(lambda: not feed.places)
            feed.happen("a")
            subscribe(tmp_path, receiver)  # the same name again, from the beginning
            await until(lambda: len(receiver.numbers) == 3)
            remove_webhook(tmp_path, "hook")
            subscribe(tmp_path, receiver, start="newest")  # faster than anybody looks
            await until(lambda: len(feed.places) == 1 and list_webhooks(tmp_path)[0].is_started)
            feed.happen("b")
            await until(lambda: receiver.numbers[-1] == "00000003")
        remove_webhook(tmp_path, "hook")
        feed.places["other"] = 0
        async with delivering(feed, tmp_path):
            assert [*feed.places] == ["other"]

    run(main())


def test_lost_changes_are_said_and_can_be_skipped(tmp_path: Path) -> None:
    async def main() -> None:
        feed = FakeFeed()
        feed.happen(*PAGES[:10])
        async with open_receiver() as receiver:
            subscribe(tmp_path, receiver)
            async with delivering(feed, tmp_path) as delivery:
                await until(lambda: has_all(receiver, feed))
            feed.happen(*PAGES[:10])
            feed.n_trimmed = 15
            async with delivering(feed, tmp_path) as delivery:
                while (status := await status_of(delivery)).state != "lost":
                    await asyncio.sleep(0.01)
                assert status.problem == "5 changes are lost"
                assert len(receiver.events) == 10
                assert await delivery.resume("hook") == "15"
                await until(lambda: len(receiver.events) == 15)
                while (await status_of(delivery)).state == "lost":
                    await asyncio.sleep(0.01)

    run(main())


@pytest.mark.parametrize("trouble", [StorageError("the disk is full"), KeyError("a bug")])
def test_troubles_of_the_corpus_are_said_and_tried_again(
    tmp_path: Path, trouble: Exception
) -> None:
    async def main() -> None:
        feed = FakeFeed(trouble=trouble)
        feed.happen(*PAGES)
        async with open_receiver() as receiver:
            subscribe(tmp_path, receiver)
            async with delivering(feed, tmp_path) as delivery:
                while (status := await status_of(delivery)).state != "failing":
                    await asyncio.sleep(0.01)
                assert str(trouble.args[0]) in status.problem
                feed.trouble = None
                await until(lambda: has_all(receiver, feed))
                feed.trouble = trouble
                feed.happen("a")
                await asyncio.sleep(0.1)
                feed.trouble = None
                await until(lambda: has_all(receiver, feed))

    run(main())


def test_stopping_lets_requests_end_and_stores_the_place(tmp_path: Path) -> None:
    async def main() -> None:
        feed = FakeFeed()
        feed.happen("a", "b", "c", "d", "e")
        async with open_receiver() as receiver:

            async def take_long(received: Received) -> web.StreamResponse:
                await asyncio.sleep(0.2)
                return receiver.accept(received)

            receiver.script = take_long
            subscribe(tmp_path, receiver)
            async with delivering(feed, tmp_path):
                await until(lambda: receiver.n_requests == 4)
            assert len(receiver.events) == 4
            assert [*feed.places.values()] == [4]

    run(main())


def test_an_idle_webhook_reads_rarely(tmp_path: Path) -> None:
    async def main() -> None:
        feed = FakeFeed()
        async with open_receiver() as receiver:
            subscribe(tmp_path, receiver)
            settings = replace(SETTINGS, look_seconds=10.0)
            async with delivering(feed, tmp_path, settings=settings) as delivery:
                await until(lambda: feed.n_reads)
                await asyncio.sleep(0.3)
                assert feed.n_reads <= 3
                feed.happen("a")
                delivery.wake()
                await until(lambda: has_all(receiver, feed), 1)

    run(main())


def test_many_webhooks_share_the_reads_of_the_feed(tmp_path: Path) -> None:
    async def main() -> None:
        feed = FakeFeed()
        async with open_receiver() as receiver:
            for i in range(20):
                subscribe(tmp_path, receiver, f"hook{i}")
            receiver.secret = ""
            settings = replace(SETTINGS, look_seconds=10.0, reload_seconds=10.0)
            limits = replace(QUICK, reads_per_second_max=40, request_seconds_max=30.0)
            async with delivering(feed, tmp_path, limits, settings) as delivery:
                feed.n_reads = 0
                started = asyncio.get_running_loop().time()
                for i in range(100):
                    feed.happen(f"p{i}")
                    delivery.wake()  # after each change, as the service does
                    await asyncio.sleep(0.01)
                await until(lambda: len(receiver.events) >= 20 * 100)
                seconds = asyncio.get_running_loop().time() - started
                # One more of each in the beginning, and one that finds the end.
                assert feed.n_reads <= 40 * seconds + 2 * 20

    run(main())


def test_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    async def main() -> None:
        feed = FakeFeed()
        feed.happen("a")
        async with open_receiver() as receiver:

            async def refuse(received: Received) -> web.StreamResponse:
                return web.Response(status=500)

            receiver.script = refuse
            subscribe(tmp_path, receiver)
            async with delivering(feed, tmp_path):
                await until(lambda: list_letters(tmp_path, "hook"))
        files = [path for path in (tmp_path / "webhooks").iterdir() if path.name != ".lock"]
        assert len(files) == 2
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
        assert stat.S_IMODE((tmp_path / "webhooks").stat().st_mode) == 0o700
        assert "whsec_" not in repr(list_webhooks(tmp_path)).replace("whsec_…", "")

    run(main())
