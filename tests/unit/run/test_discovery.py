"""What a crawl finds by itself: sitemaps, feeds and links of a made-up web."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from recrawl.corpus import Corpus, Order, Outcome, Transition, explanation_words
from recrawl.fetch import FetchAnswer, FetchKind, FetchProblem, FetchRequest
from recrawl.run.discovery import Discovery, DiscoverySettings, apply_polls
from recrawl.run.discovery.finder import FILL_FACTOR, FILL_PAGES_MIN, LINKED_PAGES_MIN
from recrawl.run.found import Findings
from recrawl.shard import Reason
from tests.manual_clock import ManualClock

Open = Callable[..., Corpus]
HOST = "https://a.example"
HTML = {"content-type": "text/html"}


def make_sitemap(urls: Mapping[str, str] | list[str]) -> bytes:
    dates = urls if isinstance(urls, Mapping) else dict.fromkeys(urls, "")
    rows = "".join(
        f"<url><loc>{url}</loc>" + (f"<lastmod>{date}</lastmod>" if date else "") + "</url>"
        for url, date in dates.items()
    )
    return f"<urlset>{rows}</urlset>".encode()


def make_index(urls: list[str]) -> bytes:
    rows = "".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in urls)
    return f"<sitemapindex>{rows}</sitemapindex>".encode()


def make_feed(entries: Mapping[str, str]) -> bytes:
    rows = "".join(
        f'<entry><link href="{url}"/><updated>{date}</updated></entry>'
        for url, date in entries.items()
    )
    return f'<feed xmlns="http://www.w3.org/2005/Atom">{rows}</feed>'.encode()


def robots(*sitemaps: str) -> bytes:
    return "\n".join(
        ["User-agent: *", "Disallow:", *(f"Sitemap: {url}" for url in sitemaps)]
    ).encode()


class MadeUpWeb:
    """A web of fixed bodies, and a fetcher for it; a body of None is a time-out."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.bodies: dict[str, bytes | None] = {}
        self.asked: list[str] = []

    def now_ms(self) -> int:
        return self._clock.wall_ms()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(3_600)  # time limits are not part of these tests

    async def close(self) -> None:
        pass

    async def fetch(self, request: FetchRequest) -> FetchAnswer:
        self.asked.append(request.url)
        given: dict[str, Any] = {
            "url": request.url,
            "final_url": request.url,
            "fetched_at_ms": self.now_ms(),
        }
        if request.url not in self.bodies:
            return FetchAnswer(status=404, **given)
        body = self.bodies[request.url]
        if body is None:
            return FetchAnswer(problem=FetchProblem.TIMED_OUT, **given)
        headers = {} if body.startswith((b"<urlset", b"<feed", b"User")) else HTML
        return FetchAnswer(status=200, body=body, headers=headers, **given)


class Crawl:
    """A crawl in small: what a finder returns is given to the corpus, as `recrawl.run` does it."""

    def __init__(self, corpus: Corpus, clock: ManualClock, settings: DiscoverySettings) -> None:
        self.corpus = corpus
        self.clock = clock
        self.web = MadeUpWeb(clock)
        self.finder = Discovery(corpus, settings)

    def start(self, *urls: str) -> None:
        self.apply(self.finder.start(urls))
        self.ask()

    def ask(self) -> None:
        async def ask_all() -> None:
            sites = self.finder.sites_to_ask()
            async for answers in self.finder.ask_sites(self.web, sites, self.web):
                self.apply(self.finder.take_sites(answers))

        asyncio.run(ask_all())

    def apply(self, found: Findings, outcomes: tuple[Outcome, ...] = ()) -> None:
        if found.pages:
            self.corpus.add(
                [page.url for page in found.pages], metadata=[one.metadata for one in found.pages]
            )
        for signal in found.signals:
            self.corpus.signal(
                [signal.url],
                source=signal.source,
                at_ms=signal.at_ms,
                claimed_at_ms=signal.claimed_at_ms,
            )
        if found.importances:
            values = list(found.importances.values())
            self.corpus.set_each(list(found.importances), importance=values)
        self.corpus.report([*outcomes, *found.outcomes])
        self.finder.commit()

    def fetch(self, url: str) -> Findings:
        """Fetch a page of the corpus, whether it is due or not."""
        (order,) = [one for one in self._orders() if one.url == url]
        answer = asyncio.run(self.web.fetch(FetchRequest(url=url)))
        found = self.finder.take(order, answer)
        outcome = Outcome(
            url=url,
            status=answer.status,
            changed=found.changed,
            digest=None if found.changed is not None else answer.body,
            fetched_at_ms=answer.fetched_at_ms,
        )
        self.apply(found, (outcome,))
        return found

    def _orders(self) -> Iterator[Order]:
        for batch in self.corpus.export_batches():
            for row in batch.to_pylist():
                found = self.corpus.explain(row["url"])
                assert found is not None
                yield Order(0, row["url"], row["url"], None, None, None, 0, None, found.metadata)  # type: ignore[arg-type]

    def urls(self) -> set[str]:
        return {order.url for order in self._orders()}

    def documents(self) -> set[str]:
        kinds = {order.url: self.finder.kind_of(order) for order in self._orders()}
        return {url for url, kind in kinds.items() if kind != FetchKind.PAGE}


@pytest.fixture
def open_crawl(open_corpus: Open, clock: ManualClock) -> Iterator[Callable[..., Crawl]]:
    opened = []

    def opener(rate: str = "1000/d", **settings: Any) -> Crawl:
        corpus = open_corpus(budget={"rate": rate})
        opened.append(Crawl(corpus, clock, DiscoverySettings(**settings)))
        return opened[-1]

    yield opener
    for crawl in opened:
        crawl.finder.close()


OpenCrawl = Callable[..., Crawl]


def fetch_due(crawl: Crawl, n_days: int) -> Counter[str]:
    """Fetch what is due for some days; return the number of fetches by host.

    Pages of old.example change always, others never.
    """
    n_fetched: Counter[str] = Counter()
    for _ in range(4 * n_days):
        crawl.clock.pass_seconds(6 * 3_600)
        for order in crawl.corpus.lease(100):
            host = order.url.split("/")[2]
            n_fetched[host] += 1
            answer = asyncio.run(crawl.web.fetch(FetchRequest(url=order.url)))
            found = crawl.finder.take(order, answer)
            is_changed = host == "old.example" if found.changed is None else found.changed
            outcome = Outcome(
                handle=order.handle, changed=is_changed, fetched_at_ms=answer.fetched_at_ms
            )
            crawl.apply(found, (outcome,))
    return n_fetched


def open_established(open_crawl: OpenCrawl, **settings: Any) -> Crawl:
    """Return a crawl that has kept forty pages fresh for some time."""
    crawl = open_crawl("40/d", **settings)
    crawl.corpus.add([f"https://old.example/{i}" for i in range(40)])
    fetch_due(crawl, 5)
    return crawl


def explain(crawl: Crawl, url: str) -> str:
    page = crawl.corpus.explain(url)
    assert page is not None
    return explanation_words(page)


def test_a_huge_site_is_limited_and_explain_says_so(open_crawl: OpenCrawl) -> None:
    crawl = open_established(open_crawl)
    pages = [f"{HOST}/{i}" for i in range(5_000)]
    crawl.web.bodies = {
        f"{HOST}/robots.txt": robots(f"{HOST}/map.xml"),
        f"{HOST}/map.xml": make_sitemap(pages),
    }
    crawl.start(f"{HOST}/")
    assert crawl.corpus.n_pages_of_host("a.example") == FILL_PAGES_MIN + 2
    assert crawl.corpus.newcomers()["a.example"] > 0.8 * FILL_PAGES_MIN
    words = explain(crawl, pages[FILL_PAGES_MIN - 1])
    assert "its domain added many" in words
    assert "budget" in words


def test_a_calendar_without_end_brings_pages_at_the_pace_of_its_share(
    open_crawl: OpenCrawl,
) -> None:
    crawl = open_established(open_crawl, follows_links=True, link_depth_max=200)

    class Calendar(dict[str, bytes | None]):
        """A page for each month, with links to its days and to the next month."""

        def __contains__(self, url: object) -> bool:
            return str(url).startswith(f"{HOST}/")

        def __getitem__(self, url: str) -> bytes:
            number = url.removeprefix(f"{HOST}/calendar/")
            month = int(number.partition("/")[0]) if number[:1].isdigit() else 0
            days = "".join(f"<a href='/calendar/{month}/{day}'>x</a>" for day in range(28))
            return f"<body>{days}<a href='/calendar/{month + 1}'>later</a></body>".encode()

    crawl.web.bodies = Calendar()
    crawl.start(f"{HOST}/")
    fetch_due(crawl, 2)
    fetch_due(crawl, 5)
    in_trap = [url for url in crawl.urls() if "/calendar/" in url]
    # Twenty at once, and then a twentieth of forty fetches a day.
    assert LINKED_PAGES_MIN <= len(in_trap) <= LINKED_PAGES_MIN + 0.05 * 40 * 7 + 1
    assert crawl.finder.counts.refused["too_fast"] > 0


def test_the_sitemaps_of_robots_txt_are_read_first(open_crawl: OpenCrawl) -> None:
    crawl = open_crawl()
    crawl.web.bodies = {
        f"{HOST}/robots.txt": robots(f"{HOST}/map.xml"),
        f"{HOST}/map.xml": make_sitemap([f"{HOST}/1", f"{HOST}/2", "https://b.example/3"]),
        f"{HOST}/sitemap.xml": make_sitemap([f"{HOST}/never"]),
    }
    crawl.start(f"{HOST}/")
    assert crawl.urls() == {f"{HOST}/", f"{HOST}/1", f"{HOST}/2", f"{HOST}/map.xml"}
    assert crawl.documents() == {f"{HOST}/map.xml"}
    assert crawl.finder.counts.refused == {"other_site": 1}
    page = crawl.corpus.explain(f"{HOST}/map.xml")
    assert page is not None
    # It has been fetched, and is fetched again because of its age alone.
    assert page.state.fetched_at_ms is not None
    assert page.state.importance == 0
    assert page.state.interval_seconds_max >= 3_600
    assert page.kind == "sitemap or feed"
    assert crawl.finder.sites_to_ask() == []


def test_well_known_places_are_tried_if_none_is_named(open_crawl: OpenCrawl) -> None:
    crawl = open_crawl()
    crawl.web.bodies = {
        f"{HOST}/sitemap.xml": b"<html><title>Not found</title>",
        f"{HOST}/sitemap_index.xml": make_index([f"{HOST}/s1.xml", "https://b.example/s2.xml"]),
        f"{HOST}/s1.xml": make_sitemap([f"{HOST}/1"]),
    }
    crawl.start(f"{HOST}/")
    assert crawl.documents() == {f"{HOST}/sitemap_index.xml", f"{HOST}/s1.xml"}
    assert f"{HOST}/1" in crawl.urls()
    assert "https://b.example/s2.xml" not in crawl.web.asked


def test_a_sitemap_elsewhere_speaks_for_the_site_that_names_it(open_crawl: OpenCrawl) -> None:
    crawl = open_crawl()
    crawl.web.bodies = {
        f"{HOST}/robots.txt": robots("https://cdn.example/a.xml"),
        "https://cdn.example/a.xml": make_sitemap([f"{HOST}/1", "https://www.a.example/2"]),
    }
    crawl.start(f"{HOST}/")
    assert {f"{HOST}/1", "https://www.a.example/2"} <= crawl.urls()
    crawl.web.bodies["https://cdn.example/a.xml"] = make_sitemap(
        [f"{HOST}/1", f"{HOST}/new", "https://c.example/other"]
    )
    crawl.clock.pass_seconds(3_600)
    found = crawl.fetch("https://cdn.example/a.xml")
    assert [page.url for page in found.pages] == [f"{HOST}/new"]
    assert found.changed is True


def test_an_unreachable_site_is_asked_again(open_crawl: OpenCrawl) -> None:
    crawl = open_crawl()
    crawl.web.bodies = {f"{HOST}/robots.txt": None}
    crawl.start(f"{HOST}/")
    assert crawl.urls() == {f"{HOST}/"}
    assert crawl.finder.sites_to_ask() == []
    crawl.clock.pass_seconds(400)
    crawl.web.bodies = {
        f"{HOST}/robots.txt": robots(f"{HOST}/map.xml"),
        f"{HOST}/map.xml": make_sitemap([f"{HOST}/1"]),
    }
    crawl.ask()
    assert f"{HOST}/1" in crawl.urls()


def test_robots_txt_is_read_again_every_day(open_crawl: OpenCrawl) -> None:
    crawl = open_crawl()
    crawl.web.bodies = {f"{HOST}/robots.txt": robots()}
    crawl.start(f"{HOST}/")
    assert crawl.documents() == set()
    crawl.clock.pass_seconds(86_500)
    crawl.web.bodies = {f"{HOST}/robots.txt": robots(f"{HOST}/map.xml")}
    crawl.ask()
    assert crawl.documents() == {f"{HOST}/map.xml"}


def test_a_large_site_does_not_crowd_out_the_others(open_crawl: OpenCrawl) -> None:
    crawl = open_crawl()
    sizes = {"a": 10, "b": 30, "huge": 5_000}
    for name, n in sizes.items():
        host = f"https://{name}.example"
        crawl.web.bodies[f"{host}/robots.txt"] = robots(f"{host}/map.xml")
        crawl.web.bodies[f"{host}/map.xml"] = make_sitemap([f"{host}/{i}" for i in range(n)])
    crawl.start(*(f"https://{name}.example/" for name in sizes))
    counts = {name: crawl.corpus.n_pages_of_host(f"{name}.example") - 2 for name in sizes}
    assert FILL_FACTOR * 20 < FILL_PAGES_MIN
    assert counts == {"a": 10, "b": 30, "huge": FILL_PAGES_MIN}
    # The rest comes later, within a share of the budget (50 of 1,000 fetches a day), and that is
    # no news.
    crawl.clock.pass_seconds(86_400)
    found = crawl.fetch("https://huge.example/map.xml")
    assert 49 <= len(found.pages) <= 50
    assert found.changed is False


def test_a_site_whose_pages_do_not_exist_brings_fewer(open_crawl: OpenCrawl) -> None:
    crawl = open_crawl()
    sizes = {"a": 10, "b": 30, "huge": 5_000}
    for name, n in sizes.items():
        host = f"https://{name}.example"
        crawl.web.bodies[f"{host}/robots.txt"] = robots(f"{host}/map.xml")
        crawl.web.bodies[f"{host}/map.xml"] = make_sitemap([f"{host}/{i}" for i in range(n)])
    crawl.start(*(f"https://{name}.example/" for name in sizes))

    def look_at(numbers: range) -> int:
        for url in (f"https://huge.example/{number}" for number in numbers):
            order = Order(0, url, url, None, None, Reason.VALUE, 0)
            crawl.finder.take(order, asyncio.run(crawl.web.fetch(FetchRequest(url=url))))
        crawl.finder.commit()
        crawl.clock.pass_seconds(86_400)
        return len(crawl.fetch("https://huge.example/map.xml").pages)

    # 50 a day, as a share of the budget, and a sixth of them after forty that do not exist.
    assert 5 <= look_at(range(40)) <= 10
    crawl.web.bodies |= {f"https://huge.example/{i}": b"<p>A page." for i in range(40, 190)}
    assert look_at(range(40, 190)) >= 40


def test_a_huge_site_has_its_share_from_the_first_day_on_a_small_budget(
    open_crawl: OpenCrawl,
) -> None:
    crawl = open_crawl("100/d")
    names = [f"ordinary-{i}" for i in range(10)]
    for name in [*names, "huge"]:
        host = f"https://{name}.example"
        pages = [f"{host}/{i}" for i in range(12 if name != "huge" else 5_000)]
        crawl.web.bodies |= dict.fromkeys([f"{host}/", *pages], b"<p>The same text always.")
        crawl.web.bodies[f"{host}/robots.txt"] = robots(f"{host}/map.xml")
        crawl.web.bodies[f"{host}/map.xml"] = make_sitemap(pages)
    crawl.start(*(f"https://{name}.example/" for name in [*names, "huge"]))
    assert crawl.corpus.n_pages_of_host("huge.example") <= FILL_FACTOR * 12 + 2
    first = fetch_due(crawl, 1)
    assert min(first[f"{name}.example"] for name in names) >= 12
    # Twice as many pages as an ordinary site has at first, and then a share.
    n_fetched = first + fetch_due(crawl, 3)
    assert n_fetched["huge.example"] <= 0.2 * n_fetched.total()


def test_limits_of_a_site_hold(open_crawl: OpenCrawl) -> None:
    crawl = open_crawl(documents_per_site_max=3, pages_per_site_max=5, index_depth_max=1)
    nested = make_index([f"{HOST}/deep.xml"])
    crawl.web.bodies = {
        f"{HOST}/robots.txt": robots(f"{HOST}/map.xml"),
        f"{HOST}/map.xml": make_index(
            [f"{HOST}/nested.xml", *(f"{HOST}/{i}.xml" for i in range(9))]
        ),
        f"{HOST}/nested.xml": nested,
        **{
            f"{HOST}/{i}.xml": make_sitemap([f"{HOST}/{i}/{k}" for k in range(4)]) for i in range(9)
        },
    }
    crawl.start(f"{HOST}/")
    assert len(crawl.documents()) == 3
    read = {url for url in crawl.documents() if url in crawl.web.asked}
    assert read == crawl.documents()
    assert crawl.corpus.n_pages - 1 - len(crawl.documents()) <= 5
    assert f"{HOST}/deep.xml" not in crawl.web.asked


def test_later_dates_become_signals_and_new_entries_pages(open_crawl: OpenCrawl) -> None:
    crawl = open_crawl()
    map_url = f"{HOST}/map.xml"
    first = {f"{HOST}/1": "2020-01-01T00:00:00Z", f"{HOST}/2": "2020-01-01T00:00:00Z"}
    crawl.web.bodies = {
        f"{HOST}/robots.txt": robots(map_url),
        map_url: make_sitemap(first),
        f"{HOST}/1": b"one",
        f"{HOST}/2": b"two",
    }
    crawl.start(f"{HOST}/")
    for url in first:
        crawl.fetch(url)
    crawl.clock.pass_seconds(7_200)
    assert crawl.fetch(map_url).changed is False
    assert crawl.finder.counts.n_signals == 0
    later_ms = crawl.corpus.now_ms() - 60_000
    crawl.web.bodies[map_url] = make_sitemap(
        first | {f"{HOST}/2": _iso(later_ms), f"{HOST}/3": _iso(later_ms)}
    )
    found = crawl.fetch(map_url)
    assert [(one.url, one.source, one.claimed_at_ms // 1000) for one in found.signals] == [
        (f"{HOST}/2", "sitemap", later_ms // 1000)
    ]
    assert [page.url for page in found.pages] == [f"{HOST}/3"]
    assert found.changed is True
    row = crawl.corpus.source("sitemap", "a.example")
    assert row is not None
    assert row.n_signals == 1


def test_nothing_is_signalled_twice_after_a_restart(open_crawl: OpenCrawl) -> None:
    crawl = open_crawl()
    map_url = f"{HOST}/map.xml"
    crawl.web.bodies = {
        f"{HOST}/robots.txt": robots(map_url),
        map_url: make_sitemap({f"{HOST}/1": "2020-01-01"}),
    }
    crawl.start(f"{HOST}/")
    crawl.clock.pass_seconds(3_600)
    crawl.web.bodies[map_url] = make_sitemap({f"{HOST}/1": "2021-01-01"})
    assert len(crawl.fetch(map_url).signals) == 1
    crawl.finder.close()
    crawl.finder = Discovery(crawl.corpus)
    crawl.clock.pass_seconds(3_600)
    assert crawl.fetch(map_url).signals == []
    # What was not committed is found again.
    crawl.web.bodies[map_url] = make_sitemap({f"{HOST}/1": "2022-01-01"})
    (order,) = [one for one in crawl._orders() if one.url == map_url]
    answer = asyncio.run(crawl.web.fetch(FetchRequest(url=map_url)))
    assert len(crawl.finder.take(order, answer).signals) == 1
    crawl.finder.close()
    crawl.finder = Discovery(crawl.corpus)
    assert len(crawl.fetch(map_url).signals) == 1


def test_a_rebuilt_sitemap_sends_few_signals(open_crawl: OpenCrawl) -> None:
    crawl = open_crawl()
    map_url = f"{HOST}/map.xml"
    pages = [f"{HOST}/{i}" for i in range(500)]
    crawl.web.bodies = {
        f"{HOST}/robots.txt": robots(map_url),
        map_url: make_sitemap(dict.fromkeys(pages, _iso(crawl.corpus.now_ms()))),
    }
    crawl.start(f"{HOST}/")
    crawl.clock.pass_seconds(3_600)
    crawl.web.bodies[map_url] = make_sitemap(dict.fromkeys(pages, _iso(crawl.corpus.now_ms())))
    found = crawl.fetch(map_url)
    assert {one.source for one in found.signals} == {"rebuilt sitemap"}
    assert len(found.signals) == 8
    assert crawl.finder.counts.n_signals_held_back == 492


def test_a_feed_of_the_start_page_is_polled(open_crawl: OpenCrawl) -> None:
    crawl = open_crawl()
    link = b'<link rel="alternate" type="application/atom+xml" href="/feed.xml">'
    old = "2020-01-01T00:00:00Z"
    crawl.web.bodies = {
        f"{HOST}/": b"<html><head>" + link + b"</head><body><a href='/linked'>x</a></body></html>",
        f"{HOST}/feed.xml": make_feed({f"{HOST}/1": old, "https://b.example/2": old}),
    }
    crawl.start(f"{HOST}/")
    found = crawl.fetch(f"{HOST}/")
    assert [page.url for page in found.pages] == [f"{HOST}/feed.xml"]
    assert crawl.fetch(f"{HOST}/feed.xml").signals == []
    assert crawl.urls() == {f"{HOST}/", f"{HOST}/feed.xml", f"{HOST}/1"}
    crawl.clock.pass_seconds(3_600)
    now = _iso(crawl.corpus.now_ms())
    crawl.web.bodies[f"{HOST}/feed.xml"] = make_feed({f"{HOST}/1": now, f"{HOST}/3": now})
    found = crawl.fetch(f"{HOST}/feed.xml")
    assert {(one.url, one.source) for one in found.signals} == {
        (f"{HOST}/1", "feed"),
        (f"{HOST}/3", "feed"),
    }
    # Ten others push an entry out; when it comes back unchanged, it is no news.
    crawl.web.bodies[f"{HOST}/feed.xml"] = make_feed({f"{HOST}/3": now})
    assert crawl.fetch(f"{HOST}/feed.xml").changed is False
    crawl.web.bodies[f"{HOST}/feed.xml"] = make_feed({f"{HOST}/1": now})
    assert crawl.fetch(f"{HOST}/feed.xml").changed is False


def test_signals_can_be_switched_off(open_crawl: OpenCrawl) -> None:
    crawl = open_crawl(sends_signals=False)
    map_url = f"{HOST}/map.xml"
    crawl.web.bodies = {
        f"{HOST}/robots.txt": robots(map_url),
        map_url: make_sitemap({f"{HOST}/1": "2020-01-01"}),
    }
    crawl.start(f"{HOST}/")
    crawl.clock.pass_seconds(3_600)
    crawl.web.bodies[map_url] = make_sitemap({f"{HOST}/1": "2021-01-01", f"{HOST}/2": ""})
    found = crawl.fetch(map_url)
    assert found.signals == []
    assert [page.url for page in found.pages] == [f"{HOST}/2"]


def test_links_of_the_same_site_are_followed_to_a_depth(open_crawl: OpenCrawl) -> None:
    crawl = open_crawl(follows_links=True, link_depth_max=2)
    crawl.web.bodies = {
        f"{HOST}/": b"<body><a href='/a?sid=1'>a</a> <a href='https://b.example/'>b</a></body>",
        f"{HOST}/a": b"<body><a href='/b'>b</a> <a href='/x/x/x'>x</a></body>",
        f"{HOST}/b": b"<body><a href='/c'>c</a></body>",
    }
    crawl.start(f"{HOST}/")
    for path in ("/", "/a", "/b"):
        crawl.fetch(HOST + path)
    assert crawl.urls() == {f"{HOST}/", f"{HOST}/a", f"{HOST}/b"}
    assert crawl.finder.counts.refused == {"repeated_parts": 1, "too_deep": 1}


def test_without_discovery_links_are_left_alone(open_crawl: OpenCrawl) -> None:
    crawl = open_crawl()
    crawl.web.bodies = {f"{HOST}/": b"<body><a href='/a'>a</a></body>"}
    crawl.start(f"{HOST}/")
    assert crawl.fetch(f"{HOST}/").pages == []


def test_copies_and_pages_that_forbid_it_are_not_kept_fresh(open_crawl: OpenCrawl) -> None:
    crawl = open_crawl(follows_links=True)
    crawl.web.bodies = {
        f"{HOST}/": b"<body><a href='/copy'>1</a> <a href='/hidden'>2</a></body>",
        f"{HOST}/copy": b"<head><link rel=canonical href='/real'></head><body>x</body>",
        f"{HOST}/hidden": b"<head><meta name=robots content=noindex></head><a href='/y'>y</a>",
    }
    crawl.start(f"{HOST}/")
    crawl.fetch(f"{HOST}/")
    assert crawl.fetch(f"{HOST}/copy").importances == {f"{HOST}/copy": 0.0}
    assert crawl.fetch(f"{HOST}/hidden").importances == {f"{HOST}/hidden": 0.0}
    assert {f"{HOST}/real", f"{HOST}/y"} <= crawl.urls()
    # Sinks do not get them, until a page no longer says so.
    assert crawl.finder.is_left_out(f"{HOST}/copy")
    assert crawl.finder.is_left_out(f"{HOST}/hidden")
    assert not crawl.finder.is_left_out(f"{HOST}/")
    crawl.web.bodies[f"{HOST}/hidden"] = b"<body>Welcome</body>"
    crawl.clock.pass_seconds(3_600)
    crawl.fetch(f"{HOST}/hidden")
    assert not crawl.finder.is_left_out(f"{HOST}/hidden")


def test_a_document_that_is_no_longer_one_is_left_for_a_week(open_crawl: OpenCrawl) -> None:
    crawl = open_crawl()
    map_url = f"{HOST}/map.xml"
    crawl.web.bodies = {
        f"{HOST}/robots.txt": robots(map_url),
        map_url: make_sitemap([f"{HOST}/1"]),
    }
    crawl.start(f"{HOST}/")
    crawl.clock.pass_seconds(3_600)
    crawl.web.bodies[map_url] = b"<html><title>Welcome</title></html>"
    assert crawl.fetch(map_url).changed is False
    page = crawl.corpus.explain(map_url)
    assert page is not None
    assert page.state.interval_seconds_max == pytest.approx(7 * 86_400, rel=0.01)


def test_documents_are_read_rarely_while_pages_wait_for_their_first_fetch(
    open_crawl: OpenCrawl,
) -> None:
    crawl = open_established(open_crawl)  # so there is a price
    map_url, pages = f"{HOST}/map.xml", [f"{HOST}/{i}" for i in range(100)]
    maps = [map_url, *(f"{HOST}/map{i}.xml" for i in range(3))]
    crawl.web.bodies = dict.fromkeys(maps, make_sitemap(pages))
    crawl.web.bodies[f"{HOST}/robots.txt"] = robots(*maps)
    crawl.start(pages[0])
    waits = []
    for n_fetched in (40, 100):
        crawl.clock.pass_seconds(86_400)
        crawl.corpus.report([Outcome(url=url, changed=True) for url in pages[:n_fetched]])
        date = _iso(crawl.clock.wall_ms() - 1_000)
        dates = dict.fromkeys(pages, "") | dict.fromkeys(pages[:30], date)
        crawl.web.bodies[map_url] = make_sitemap(dates)
        crawl.fetch(map_url)
        page = crawl.corpus.explain(map_url)
        assert page is not None
        waits.append(page.state.interval_seconds_max)
    # At first the four may take a twentieth of forty fetches a day.
    assert waits[0] == pytest.approx(2 * 86_400)
    assert waits[1] < waits[0] / 2


def open_with_spare(open_crawl: OpenCrawl) -> tuple[Crawl, str, str]:
    """Return a crawl with a sitemap and a spare feed, as many equal versions leave them behind."""
    crawl = open_crawl()
    map_url, feed_url = f"{HOST}/map.xml", f"{HOST}/feed.xml"
    old = "2020-01-01T00:00:00Z"
    link = b'<link rel="alternate" type="application/atom+xml" href="/feed.xml">'
    crawl.web.bodies = {
        f"{HOST}/robots.txt": robots(map_url),
        f"{HOST}/": b"<html><head>" + link + b"</head><body>x</body></html>",
        f"{HOST}/1": b"one",
        map_url: make_sitemap({f"{HOST}/1": old}),
        feed_url: make_feed({f"{HOST}/1": old}),
    }
    crawl.start(f"{HOST}/")
    for url in (f"{HOST}/", f"{HOST}/1", feed_url):
        crawl.fetch(url)
    memory = crawl.finder._memory
    rate, until = 10 / 86_400, crawl.corpus.now_ms() + 86_400_000
    for url, spare_rate in ((map_url, 0.0), (feed_url, rate)):
        version = memory.document(url)
        assert version is not None
        version = replace(version, true_rate=rate, trusted_until_ms=until, spare_rate=spare_rate)
        memory.set_document(url, version)
    memory.commit()
    apply_polls(crawl.corpus, {feed_url: 7 * 86_400.0})
    return crawl, map_url, feed_url


def longest_wait(crawl: Crawl, url: str) -> float:
    page = crawl.corpus.explain(url)
    assert page is not None
    return page.state.interval_seconds_max


@pytest.mark.parametrize("body", [b"", b"<html><title>Welcome</title></html>"])
def test_a_spare_is_read_when_the_other_document_disappears(
    open_crawl: OpenCrawl, body: bytes
) -> None:
    crawl, map_url, feed_url = open_with_spare(open_crawl)
    assert longest_wait(crawl, feed_url) > 6 * 86_400
    if body:
        crawl.web.bodies[map_url] = body
    else:
        del crawl.web.bodies[map_url]
    crawl.fetch(map_url)
    assert longest_wait(crawl, feed_url) <= 3_600


def test_a_spare_is_read_when_the_other_document_fails_for_long(open_crawl: OpenCrawl) -> None:
    crawl, map_url, feed_url = open_with_spare(open_crawl)
    crawl.web.bodies[map_url] = None
    crawl.fetch(map_url)
    assert longest_wait(crawl, feed_url) > 6 * 86_400
    crawl.clock.pass_seconds(86_401)
    crawl.fetch(map_url)
    assert longest_wait(crawl, feed_url) <= 3_600


def test_documents_are_reported_by_their_news(open_crawl: OpenCrawl) -> None:
    crawl = open_crawl()
    map_url = f"{HOST}/map.xml"
    crawl.web.bodies = {
        f"{HOST}/robots.txt": robots(map_url),
        map_url: make_sitemap([f"{HOST}/1"]),
    }
    crawl.start(f"{HOST}/")
    changes = [one for one in crawl.corpus.changes() if one.url == map_url]
    assert [one.what for one in changes] == [Transition.NEW]
    # Whoever reads the change feed can tell documents from pages.
    assert crawl.finder.kind_of(changes[0]) == FetchKind.SITEMAP


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
