"""The fetcher survives a web that misbehaves, and never is impolite, by the log of its server."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from recrawl.fetch import (
    FetchAnswer,
    FetchKind,
    FetchProblem,
    FetchRequest,
    FetchSettings,
    HttpFetcher,
)
from recrawl.testing.stepped_time import SteppedTime, run_stepped
from recrawl.testing.web import (
    HostTraits,
    LocalWeb,
    ReplyFault,
    RobotsKind,
    TlsKind,
    WebServer,
    find_violations,
    make_hosts,
    serve,
)

_T = TypeVar("_T")
DELAY_SECONDS = 2.0


def run_with_web(
    web: LocalWeb,
    use: Callable[[HttpFetcher, WebServer, SteppedTime], Awaitable[_T]],
) -> _T:
    """Let a fetcher use a web in stepped time; check that it was polite."""

    async def main(time: SteppedTime) -> _T:
        async with await serve(web, now_ms=time.now_ms, sets_port=False) as server:
            given: dict[str, Any] = {
                "contact": "https://example.com/bot",
                "delay_seconds": DELAY_SECONDS,
                "allow_networks": ("127.0.0.0/8",),
                "wait_seconds_max": 900.0,
            }
            fetcher = HttpFetcher(
                FetchSettings(**given),
                time=time,
                resolver=server.resolver(),
                tls=None if server.certificates is None else server.certificates.client_context(),
            )
            try:
                found = await use(fetcher, server, time)
            finally:
                await fetcher.close()
            violations = find_violations(web, server.log, delay_seconds=DELAY_SECONDS)
            assert violations == []
            return found

    return run_stepped(main, start_at_ms=web.started_at_ms)


def make_web(*host_traits: HostTraits) -> LocalWeb:
    return LocalWeb(host_traits, started_at_ms=1_767_225_600_000)


FAULTS = {
    ReplyFault.TOO_MANY: (429, None),
    ReplyFault.UNAVAILABLE_SECONDS: (503, None),
    ReplyFault.SOFT_404: (200, None),
    ReplyFault.REDIRECT: (200, None),
    ReplyFault.REDIRECT_CHAIN: (200, None),
    ReplyFault.REDIRECT_LONG: (None, FetchProblem.TOO_MANY_REDIRECTS),
    ReplyFault.REDIRECT_LOOP: (None, FetchProblem.REDIRECT_LOOP),
    ReplyFault.REDIRECT_BAD: (None, FetchProblem.BAD_REDIRECT),
    ReplyFault.REDIRECT_PRIVATE: (0, FetchProblem.REFUSED_ADDRESS),
    ReplyFault.STALLED: (0, FetchProblem.TIMED_OUT),
    ReplyFault.STALLED_BODY: (200, FetchProblem.TIMED_OUT),
    ReplyFault.DROPPED: (0, FetchProblem.DROPPED),
    ReplyFault.DROPPED_BODY: (200, FetchProblem.DROPPED),
    ReplyFault.RESET: (None, FetchProblem.DROPPED),
    ReplyFault.OVERSIZED: (200, FetchProblem.TOO_LARGE),
    ReplyFault.ENDLESS: (200, FetchProblem.TOO_LARGE),
    ReplyFault.LENGTH_TOO_LONG: (200, FetchProblem.DROPPED),
    ReplyFault.BOMB: (200, FetchProblem.BOMB),
    ReplyFault.GZIP_BAD: (200, FetchProblem.BAD_ENCODING),
    ReplyFault.GZIP_CUT: (200, FetchProblem.BAD_ENCODING),
    ReplyFault.HEADER_HUGE: (None, FetchProblem.BAD_ANSWER),
    ReplyFault.NOT_HTTP: (0, FetchProblem.BAD_ANSWER),
}


def test_every_fault_becomes_an_answer() -> None:
    async def use(
        fetcher: HttpFetcher, server: WebServer, time: SteppedTime
    ) -> dict[ReplyFault, FetchAnswer]:
        found = {}
        for fault in ReplyFault:
            url = f"http://one.example/fault/{fault}"
            found[fault] = await fetcher.fetch(FetchRequest(url=url))
            # The host is left alone for long after some faults.
            await time.sleep(5_000)
            url = "http://one.example/0"
            assert (await fetcher.fetch(FetchRequest(url=url))).status == 200
        return found

    hosts = (HostTraits(name="one.example"), HostTraits(name="two.example"))
    found = run_with_web(make_web(*hosts), use)
    wrong: dict[str, object] = {}
    for fault, (status, problem) in FAULTS.items():
        answer = found[fault]
        if answer.problem != problem or status not in (None, answer.status):
            wrong[fault] = answer.status, answer.problem, answer.detail
    assert not wrong
    for answer in found.values():
        assert answer.problem is None or answer.body == b""


def test_a_day_on_many_hosts_without_a_violation(seed: int) -> None:
    web = LocalWeb(make_hosts(25, 400, seed=seed), started_at_ms=1_767_225_600_000)
    hours = 12

    async def use(fetcher: HttpFetcher, server: WebServer, time: SteppedTime) -> Counter[str]:
        found: Counter[str] = Counter()
        urls: dict[str, list[str]] = {}
        for page in web.pages():
            urls.setdefault(page.url.split("/")[2], []).append(page.url)
        ends_at_ms = time.now_ms() + hours * 3_600_000

        async def crawl(number: int, pages: list[str]) -> None:
            validators: dict[str, tuple[bytes | None, bytes | None]] = {}
            step = 0
            while time.now_ms() < ends_at_ms and step < 25:
                url = pages[(step * 7 + number) % len(pages)]
                step += 1
                etag, last_modified = validators.get(url, (None, None))
                kind = FetchKind.SITEMAP if step % 10 == 0 else FetchKind.PAGE
                if kind == FetchKind.SITEMAP:
                    url = "/".join([*url.split("/")[:3], "sitemap.xml"])
                request = FetchRequest(url=url, etag=etag, last_modified=last_modified, kind=kind)
                answer = await fetcher.fetch(request)
                found[answer.problem or str(answer.status)] += 1
                if answer.status == 200 and answer.problem is None:
                    validators[url] = answer.etag, answer.last_modified
                await time.sleep(60.0 * (number % 7) + (answer.retry_after_seconds or 0.0))

        await asyncio.gather(*(crawl(i, pages) for host, pages in urls.items() for i in range(2)))
        return found

    found = run_with_web(web, use)
    assert found["200"] > 150
    assert found["304"] > 5
    assert found[FetchProblem.ROBOTS] > 0


def test_certificates_are_checked() -> None:
    web = make_web(*(HostTraits(name=f"{kind}.example", tls=kind) for kind in TlsKind))

    async def use(
        fetcher: HttpFetcher, server: WebServer, time: SteppedTime
    ) -> dict[TlsKind, FetchAnswer]:
        return {
            kind: await fetcher.fetch(
                FetchRequest(url=f"https://{kind}.example/robots.txt", kind=FetchKind.ROBOTS)
            )
            for kind in TlsKind
        }

    found = run_with_web(web, use)
    assert found[TlsKind.RIGHT].status == 200
    problems = {kind: answer.problem for kind, answer in found.items() if kind != TlsKind.RIGHT}
    assert None not in problems.values()
    assert problems[TlsKind.EXPIRED] == problems[TlsKind.WRONG_NAME] == FetchProblem.TLS
    assert problems[TlsKind.SELF_SIGNED] == FetchProblem.TLS


@pytest.mark.parametrize("kind", RobotsKind)
def test_every_kind_of_robots_file(kind: RobotsKind) -> None:
    web = make_web(HostTraits(name="one.example", robots=kind, n_pages=6))

    async def use(fetcher: HttpFetcher, server: WebServer, time: SteppedTime) -> list[FetchAnswer]:
        requests = [FetchRequest(url=page.url) for page in web.pages()]
        answers = [await fetcher.fetch(request) for request in requests]
        await time.sleep(2 * 86_400)
        return [*answers, *[await fetcher.fetch(request) for request in requests]]

    answers = run_with_web(web, use)
    allowed = {page.url for page in web.reachable_pages()}
    if kind not in (RobotsKind.CHANGES, RobotsKind.UNREACHABLE_AT_FIRST):
        for answer in answers:
            assert (answer.problem is None) == (answer.url in allowed), answer
