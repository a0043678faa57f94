"""The fetcher keeps the promises of the protocol, and is polite in ways of its own."""

import asyncio
import base64
import gzip
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from recrawl.errors import ConfigError
from recrawl.fetch import FetchKind, FetchProblem, FetchRequest, FetchSettings, HttpFetcher
from recrawl.fetch.guarded_sockets import SystemResolver
from recrawl.fetch.robots import ROBOTS_BYTES_MAX
from recrawl.fetch.target_urls import parse_target
from recrawl.testing.fetchers import (
    FETCHER_CHECKS,
    FetcherCheck,
    ScriptedSite,
    SeenRequest,
    http_answer,
    open_site,
)
from recrawl.testing.own_connections import watch_connections
from tests.unit.fetch.test_forbidden_addresses import NameTable


@pytest.mark.parametrize("check", FETCHER_CHECKS, ids=lambda check: check.__name__)
def test_the_promises_of_a_fetcher(check: FetcherCheck) -> None:
    check(HttpFetcher)


def make_settings(**changes: Any) -> FetchSettings:
    given: dict[str, Any] = {
        "contact": "https://example.com/bot",
        "delay_seconds": 0.0,
        "slowness_factor": 0.0,
        "backoff_seconds": 0.0,
        "allow_networks": ("127.0.0.0/8",),
    }
    return FetchSettings(**given | changes)


def run(
    scripts: dict[str, Any],
    use: Callable[[HttpFetcher, ScriptedSite], Awaitable[None]],
    **changes: Any,
) -> None:
    async def main() -> None:
        async with open_site(scripts) as site:
            fetcher = HttpFetcher(make_settings(**changes))
            try:
                await use(fetcher, site)
            finally:
                await fetcher.close()

    asyncio.run(main())


def test_a_share_of_requests_is_sent_without_validators() -> None:
    async def use(fetcher: HttpFetcher, site: ScriptedSite) -> None:
        n_audits = 0
        for i in range(400):
            url = f"{site.url}/{i}"
            answer = await fetcher.fetch(FetchRequest(url=url, etag=b'"1"'))
            assert answer.was_conditional == ("if-none-match" in site.requests[-1].headers)
            assert answer.was_conditional != answer.is_audit
            n_audits += answer.is_audit
        # Five standard deviations around a quarter.
        assert 57 < n_audits < 143
        answer = await fetcher.fetch(FetchRequest(url=f"{site.url}/x"))
        assert not answer.is_audit

    run({}, use, audit_share=0.25)


def test_a_dropped_request_is_sent_again_only_after_the_delay() -> None:
    """A server may close an idle connection; the second attempt passes the gate as well."""

    async def drop(seen: SeenRequest, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def use(fetcher: HttpFetcher, site: ScriptedSite) -> None:
        assert (await fetcher.fetch(FetchRequest(url=f"{site.url}/a"))).status == 404
        answer = await fetcher.fetch(FetchRequest(url=f"{site.url}/drop"))
        assert answer.problem == FetchProblem.DROPPED
        assert answer.n_requests == 2
        assert site.paths() == ["/a", "/drop", "/drop"]
        first, second = (seen.at_seconds for seen in site.requests[-2:])
        assert second - first >= 0.3 - 0.002
        # Without a connection that could have been stale, one attempt is enough.
        answer = await fetcher.fetch(FetchRequest(url=f"{site.url}/drop"))
        assert answer.n_requests == 1

    run({"/drop": drop}, use, delay_seconds=0.3)


def test_robots_files_are_shared_and_cut() -> None:
    rules = b"User-agent: *\nDisallow: /private\n"
    long = rules + b"#" * ROBOTS_BYTES_MAX + b"\nDisallow: /\n"

    async def use(fetcher: HttpFetcher, site: ScriptedSite) -> None:
        urls = [f"{site.url}/{i}" for i in range(10)]
        answers = await asyncio.gather(*(fetcher.fetch(FetchRequest(url=url)) for url in urls))
        assert {answer.status for answer in answers} == {404}
        answer = await fetcher.fetch(FetchRequest(url=f"{site.url}/private"))
        assert answer.problem == FetchProblem.ROBOTS
        assert fetcher.n_requests == {FetchKind.ROBOTS: 1, FetchKind.PAGE: 10}
        file = await fetcher.robots(f"{site.url}/a")
        assert file is not None
        assert file.rules is not None

    run({"/robots.txt": http_answer(long)}, use, connections_per_host=4)


def test_robots_redirects_beyond_five_mean_a_missing_file() -> None:
    hops = {
        f"/hop{i}": http_answer(status=302, headers=f"Location: /hop{i + 1}\r\n") for i in range(9)
    }
    start = http_answer(status=302, headers="Location: /hop0\r\n")

    async def use(fetcher: HttpFetcher, site: ScriptedSite) -> None:
        assert (await fetcher.fetch(FetchRequest(url=f"{site.url}/a"))).status == 404
        assert site.paths() == ["/hop0", "/hop1", "/hop2", "/hop3", "/hop4", "/a"]

    run({"/robots.txt": start, **hops}, use)


def test_a_cancelled_fetch_leaves_its_host_to_others() -> None:
    async def hang(seen: SeenRequest, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    async def use(fetcher: HttpFetcher, site: ScriptedSite) -> None:
        task = asyncio.create_task(fetcher.fetch(FetchRequest(url=f"{site.url}/hang")))
        while "/hang" not in site.paths():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await fetcher.fetch(FetchRequest(url=f"{site.url}/a"))).status == 404

    run({"/hang": hang}, use)


def test_fetches_end_when_the_fetcher_is_closed() -> None:
    async def hang(seen: SeenRequest, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    async def use(fetcher: HttpFetcher, site: ScriptedSite) -> None:
        task = asyncio.create_task(fetcher.fetch(FetchRequest(url=f"{site.url}/a")))
        while not site.requests:
            await asyncio.sleep(0.01)
        await fetcher.close()
        assert (await task).problem == FetchProblem.CLOSED

    run({"/robots.txt": hang}, use)


def test_a_proxy_is_asked_for_the_checked_address() -> None:
    """The proxy gets the address that was checked; names that lead elsewhere never reach it."""
    heads: list[str] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async def main() -> None:
        proxy = await asyncio.start_server(refuse, "127.0.0.1", 0)
        port = proxy.sockets[0].getsockname()[1]
        names = NameTable(
            {"public.example": lambda: ["93.184.215.14"], "inside.example": lambda: ["10.0.0.1"]}
        )
        settings = make_settings(
            proxy=f"http://127.0.0.1:{port}", allow_networks=(), obey_robots=False
        )
        fetcher = HttpFetcher(settings, resolver=names)
        problems = {}
        for url in (
            "https://public.example/a",
            "https://inside.example/a",
            "https://127.0.0.1/a",
            "https://[::1]/a",
            "http://public.example/a",
            f"http://127.0.0.1:{port}/a",
        ):
            answer = await fetcher.fetch(FetchRequest(url=url))
            problems[url] = answer.problem
        await fetcher.close()
        proxy.close()
        assert problems.pop("https://public.example/a") == FetchProblem.CONNECT
        assert set(problems.values()) == {FetchProblem.REFUSED_ADDRESS}
        assert [head.split("\r\n")[0] for head in heads] == ["CONNECT 93.184.215.14:443 HTTP/1.1"]

    with watch_connections() as seen:
        asyncio.run(main())
    assert {address[0] for address in seen} == {"127.0.0.1"}


def test_names_are_resolved_by_the_system() -> None:
    async def main() -> None:
        resolver = SystemResolver()
        found = await resolver.resolve("localhost", 80)
        assert {one["host"] for one in found} <= {"127.0.0.1", "::1"}
        assert {one["port"] for one in found} == {80}
        for name in ("a" * 300, "nowhere.invalid", "a..b", "\0"):
            with pytest.raises((OSError, ValueError)):
                await resolver.resolve(name, 80)
        await resolver.close()

    asyncio.run(main())


def test_mutated_answers_never_raise(seed: int) -> None:
    rng = random.Random(seed)
    good = [
        http_answer(b"<p>page", headers='Content-Type: text/html\r\nETag: "1"\r\n'),
        http_answer(gzip.compress(b"page" * 50), headers="Content-Encoding: gzip\r\n"),
        http_answer(b"moved", status=301, headers="Location: /next?a=1\r\n"),
        http_answer(b"busy", status=503, headers="Retry-After: 0\r\n"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npage\r\n0\r\n\r\n",
        b"HTTP/1.0 304 Not Modified\r\n\r\n",
    ]
    pieces = [b"\r\n", b"\0", b"\xff", b": ", b"1e9", b"-1", b"gzip", b"%", b" " * 50, b"9" * 30]

    async def send(seen: SeenRequest, writer: asyncio.StreamWriter) -> None:
        data = bytearray(rng.choice(good))
        for _ in range(rng.randint(1, 2)):
            at = rng.randrange(len(data))
            data[at : at + rng.randint(0, 4)] = rng.choice([*pieces, rng.randbytes(3)])
        writer.write(bytes(data))
        await writer.drain()
        writer.close()

    async def use(fetcher: HttpFetcher, site: ScriptedSite) -> None:
        problems: Counter[FetchProblem | None] = Counter()
        for i in range(300):
            site.scripts[f"/{i}"] = send
            answer = await fetcher.fetch(FetchRequest(url=f"{site.url}/{i}"))
            problems[answer.problem] += 1
            assert answer.problem is None or not answer.body
        assert len(problems) >= 3
        assert (await fetcher.fetch(FetchRequest(url=f"{site.url}/robots.txt"))).status == 200

    run({}, use, idle_seconds_max=5.0)


def test_passwords_in_urls_are_not_sent() -> None:
    async def use(fetcher: HttpFetcher, site: ScriptedSite) -> None:
        url = site.url.replace("://", "://user:secret@")
        assert (await fetcher.fetch(FetchRequest(url=f"{url}/a"))).final_url == f"{site.url}/a"
        secret = base64.b64encode(b"user:secret").decode()
        assert all(secret not in str(seen.headers) for seen in site.requests)

    run({}, use)


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("http://Example.COM", "http://example.com/"),
        ("https://example.com:443/a?b#c", "https://example.com/a?b"),
        ("http://example.com/ü?q=a b", "http://example.com/%C3%BC?q=a%20b"),
        ("http://example.com/%7Ea/../b", "http://example.com/b"),
        ("http://[::1]:8080/", "http://[::1]:8080/"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
    ],
)
def test_urls_are_sent_as_browsers_send_them(text: str, sent: str) -> None:
    target = parse_target(text)
    assert target is not None
    assert target.text == sent == str(target.as_yarl())
    assert target.host == target.as_yarl().raw_host


@pytest.mark.parametrize(
    "changes",
    [
        {"contact": ""},
        {"contact": "a b"},
        {"contact": "x\r\nEvil: 1"},
        {"name": "bot 1"},
        {"name": "1"},
        {"delay_seconds": -1.0},
        {"delay_seconds": float("nan")},
        {"connections_per_host": 0},
        {"audit_share": 2.0},
        {"allow_networks": ("nowhere",)},
        {"proxy": "socks5://127.0.0.1"},
    ],
)
def test_wrong_settings_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        make_settings(**changes)


def test_the_user_agent_says_who_it_is() -> None:
    assert make_settings(name="my-bot").user_agent.startswith("my-bot/")
    assert make_settings().user_agent.endswith("(+https://example.com/bot)")
    assert make_settings(contact="me@example.com").user_agent.endswith("(me@example.com)")
