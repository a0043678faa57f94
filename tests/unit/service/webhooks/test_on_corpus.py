"""Delivery from a real corpus: with partitions, bodies, kinds, and a feed that forgets."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import recrawl
from recrawl.corpus import CorpusConfig, PageChange
from recrawl.errors import ChangesLost
from recrawl.service.webhooks import (
    DeliverySettings,
    ThreadedFeed,
    WebhookDelivery,
    WebhookLimits,
    add_webhook,
)
from tests.manual_clock import ManualClock
from tests.unit.service.webhooks.receivers import LOOPBACK, Receiver, open_receiver, until

URLS = [f"https://h{i % 7}.example/{'a' if i % 2 else 'b'}/{i}" for i in range(20)]
SETTINGS = DeliverySettings(
    allow_networks=LOOPBACK, reload_seconds=0.05, look_seconds=0.05, store_seconds=0.05
)
LIMITS = WebhookLimits(backoff_seconds=0.01)


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 180))


def subscribe(folder: Path, receiver: Receiver, name: str = "hook", **settings: Any) -> None:
    _, receiver.secret = add_webhook(folder, name, receiver.url, now_ms=0, **settings)


@pytest.mark.parametrize("partitions", [1, 3])
def test_all_changes_arrive_in_order_also_after_a_restart(tmp_path: Path, partitions: int) -> None:
    config = CorpusConfig.from_dict(
        {
            "corpus": {"partitions": partitions},
            "pattern": [{"match": "/a/*", "kind": "articles"}],
        }
    )

    clock = ManualClock()

    async def main() -> None:
        async with open_receiver() as receiver, open_receiver() as articles:
            for round_ in range(3):
                async with recrawl.AsyncCorpus(tmp_path, config, clock=clock) as corpus:
                    if round_ == 0:
                        await corpus.add(URLS)
                        subscribe(tmp_path, receiver)
                        subscribe(tmp_path, articles, "articles", kinds=["articles"])
                    async with WebhookDelivery(
                        corpus, tmp_path, settings=SETTINGS, limits=LIMITS
                    ) as delivery:
                        for digest in range(3):
                            clock.pass_seconds(60)
                            text = f"{round_}-{digest}".encode()
                            await corpus.report(
                                [recrawl.Outcome(url=url, digest=text) for url in URLS]
                            )
                            delivery.wake()
                        if round_ == 1:
                            continue  # the rest is delivered by the next process
                        await check_arrived(receiver, articles, await corpus.changes(), round_)
                    behind = [one.n_behind for one in await corpus.consumers()]
                    assert behind == [0, 0]
            receiver.check_order()
            articles.check_order()

    run(main())


async def check_arrived(
    receiver: Receiver, articles: Receiver, changes: list[PageChange], n_rounds: int
) -> None:
    assert len(changes) == (n_rounds + 1) * 3 * len(URLS)
    happened = {change.sequence for change in changes}
    wanted = {change.sequence for change in changes if change.kind == "articles"}
    await until(lambda: happened == {*receiver.numbers} and wanted == {*articles.numbers})


def test_a_webhook_that_was_away_for_too_long_says_so(tmp_path: Path) -> None:
    config = CorpusConfig.from_dict({"changes": {"kept_max": 10}})
    clock = ManualClock()

    async def main() -> None:
        async with (
            open_receiver() as receiver,
            recrawl.AsyncCorpus(tmp_path, config, clock=clock) as corpus,
        ):
            await corpus.add(URLS)
            subscribe(tmp_path, receiver)
            async with WebhookDelivery(corpus, tmp_path, settings=SETTINGS):
                pass
            for digest in (b"1", b"2", b"3"):
                clock.pass_seconds(60)
                await corpus.report([recrawl.Outcome(url=url, digest=digest) for url in URLS])
            n_kept = len(await corpus.changes())
            if n_kept == 3 * len(URLS):
                await corpus.snapshot()
                n_kept = len(await corpus.changes())
            assert n_kept < 3 * len(URLS)
            async with WebhookDelivery(corpus, tmp_path, settings=SETTINGS) as delivery:
                while (status := (await delivery.status())[0]).state != "lost":
                    await asyncio.sleep(0.01)
                assert "has missed" in status.problem
                assert receiver.events == []
                await delivery.resume("hook")
                await until(lambda: len(receiver.events) == n_kept)

    run(main())


def test_passages_are_sent_if_bodies_are_reported(tmp_path: Path) -> None:
    config = CorpusConfig.from_dict({"content": {"keep_text": True}})
    clock = ManualClock()

    async def main() -> None:
        async with (
            open_receiver() as receiver,
            recrawl.AsyncCorpus(tmp_path, config, clock=clock) as corpus,
        ):
            await corpus.add(URLS[:1])
            subscribe(tmp_path, receiver, with_passages=True, divergence_min=0.2)
            settings = replace(SETTINGS, source="urn:recrawl:corpus:texts")
            async with WebhookDelivery(corpus, tmp_path, settings=settings):
                for words in ("one two three", "four five six"):
                    body = f"<p>{words} are words.</p><p>A second passage stays.</p>".encode()
                    outcome = recrawl.Outcome(url=URLS[0], body=body, content_type="text/html")
                    await corpus.report(outcome)
                    clock.pass_seconds(60)
                await until(lambda: len(receiver.events) == 2)
        data = receiver.events[1]["data"]
        assert data["n_passages_kept"] == len(data["passages"]["kept"])
        assert 0.2 <= data["divergence"] <= 1
        assert any("four five six" in text for text in data["passages"]["added_text"])

    run(main())


def test_a_corpus_whose_methods_block_is_called_in_threads(tmp_path: Path) -> None:
    n_calls = 0

    async def run_with_problems(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Turn errors into others, as a service does."""
        nonlocal n_calls
        n_calls += 1
        try:
            return await asyncio.to_thread(function, *args, **kwargs)
        except Exception as error:
            raise RuntimeError("a problem") from error

    async def main() -> None:
        async with open_receiver() as receiver:
            with recrawl.open(tmp_path) as corpus:
                corpus.add(URLS)
                feed = ThreadedFeed(corpus, run_with_problems)
                subscribe(tmp_path, receiver)
                async with WebhookDelivery(feed, tmp_path, settings=SETTINGS) as delivery:
                    corpus.report([recrawl.Outcome(url=url, digest=b"1") for url in URLS])
                    delivery.wake()
                    await until(lambda: len(receiver.events) == len(URLS))
                assert n_calls > 2
                (consumer,) = await feed.consumers()
                assert consumer.n_behind == 0
                file = tmp_path / f"consumers/{consumer.name}.json"
                file.write_text(file.read_text().replace('"cursor": "', '"cursor": "9'))
                with pytest.raises(ChangesLost, match="not a place in this change feed"):
                    await feed.changes(consumer=consumer.name)
                assert await feed.remove_consumer(consumer.name)
                with pytest.raises(RuntimeError, match="a problem"):
                    await feed.changes(consumer="NOT A NAME")

    run(main())
