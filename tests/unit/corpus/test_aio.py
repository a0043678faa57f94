"""The asyncio corpus does what a corpus does, and several coroutines share its syncs."""

import asyncio
from pathlib import Path

import pytest

import recrawl
from recrawl import AsyncCorpus, CorpusConfig, Outcome
from recrawl.shard import Transition

CONFIG = CorpusConfig.from_dict(
    {"politeness": {"delay": 0, "in_flight_max": 100, "burst": 100}, "budget": {"rate": "40/run"}}
)
URLS = [f"https://h{i % 5}.example/{i}" for i in range(40)]


def test_coroutines_fetch_and_report(tmp_path: Path) -> None:
    async def main() -> int:
        async with AsyncCorpus(tmp_path, CONFIG) as corpus:
            assert (await corpus.add(URLS)).n_added == 40
            await corpus.signal(URLS[:3], source="feed")
            await corpus.set(URLS[:2], importance=3.0)
            await corpus.set_host("h1.example", delay=0)
            seen = []

            async def fetch(order: recrawl.Order) -> None:
                reported = await corpus.report(Outcome(handle=order.handle, digest=b"a"))
                assert reported.counted.all()
                seen.append(order.url)

            async with asyncio.TaskGroup() as tasks:
                async for order in corpus.paced(batch_max=7):
                    tasks.create_task(fetch(order))
            assert sorted(seen) == sorted(URLS)
            assert len(await corpus.changes()) == 40
            assert (await corpus.changes())[0].what is Transition.NEW
            assert (await corpus.stats()).n_outcomes == 40
            assert await corpus.explain(URLS[0]) is not None
            assert await corpus.plan() is not None
            await corpus.snapshot()
            await corpus.set_budget("2/run")
            handles = [order.handle for order in await corpus.lease(5)]
            assert await corpus.extend(handles, seconds=900) == len(handles)
            assert await corpus.release(handles) == len(handles)
            assert await corpus.requests(URLS[:4]) == 4
            return await corpus.remove(URLS[:10])

    assert asyncio.run(main()) == 10


def test_many_reports_at_once_share_appends(tmp_path: Path) -> None:
    """Forty reports from forty coroutines take far fewer appends than forty."""
    n_appends = 0

    async def main() -> None:
        nonlocal n_appends
        async with AsyncCorpus(tmp_path, CONFIG) as corpus:
            await corpus.add(URLS)
            orders = await corpus.lease(40)
            ledger = corpus.corpus.nodes[0].ledger
            append = ledger.append

            def counted(records: object) -> object:
                nonlocal n_appends
                n_appends += 1
                return append(records)  # type: ignore[arg-type]

            ledger.append = counted  # type: ignore[method-assign, assignment]
            reports = [corpus.report(Outcome(handle=o.handle, changed=True)) for o in orders]
            assert all(result.counted.all() for result in await asyncio.gather(*reports))

    asyncio.run(main())
    assert n_appends <= 40


def test_a_corpus_that_is_not_open_says_so(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="async with"):
        asyncio.run(AsyncCorpus(tmp_path).stats())
