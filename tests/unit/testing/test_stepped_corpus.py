"""A corpus, the fetcher and the local web share one clock in stepped time."""

import asyncio
from pathlib import Path

import recrawl
from recrawl.fetch import FetchRequest, FetchSettings, HttpFetcher
from recrawl.testing.stepped_time import SteppedTime, run_stepped
from recrawl.testing.web import (
    HostTraits,
    LocalWeb,
    copies_made,
    find_violations,
    mean_freshness,
    serve,
)

N_MINUTES = 10


def test_a_corpus_is_kept_fresh_without_a_violation(tmp_path: Path) -> None:
    async def main(time: SteppedTime) -> None:
        hosts = [HostTraits(name=f"{name}.example", n_pages=3) for name in ("one", "two")]
        web = LocalWeb(hosts, started_at_ms=time.now_ms())
        settings = FetchSettings(
            contact="https://example.com/bot",
            allow_networks=("127.0.0.0/8",),
            delay_seconds=2.0,
        )
        async with (
            await serve(web, now_ms=time.now_ms, sets_port=False) as server,
            recrawl.AsyncCorpus(tmp_path, clock=time.clock) as corpus,
        ):
            fetcher = HttpFetcher(settings, time=time, resolver=server.resolver())

            async def fetch(order: recrawl.Order) -> recrawl.Outcome:
                answer = await fetcher.fetch(FetchRequest(url=order.fetch_url))
                return recrawl.Outcome(
                    handle=order.handle,
                    status=answer.status,
                    body=answer.body,
                    content_type=answer.content_type,
                )

            await corpus.add([page.url for page in web.pages()])
            end_ms = time.now_ms() + 60_000 * N_MINUTES
            while time.now_ms() < end_ms:
                orders = await corpus.lease(10)
                await corpus.report(await asyncio.gather(*map(fetch, orders)))
                await time.sleep(60)
            await fetcher.close()
            assert len(await corpus.changes()) == 6
        assert find_violations(web, server.log, delay_seconds=2.0) == []
        # Two pages are fetched per minute, so all six have a copy after the third.
        last_minutes = mean_freshness(
            web, copies_made(server.log), from_ms=end_ms - 300_000, until_ms=end_ms
        )
        assert last_minutes == 1.0

    run_stepped(main)
