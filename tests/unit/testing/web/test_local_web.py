"""Hosts of the local web answer as their host_traits say, and the truth about them is the truth."""

import datetime as dt
import gzip
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from recrawl.content import observe
from recrawl.sim.pages import START_AT
from recrawl.testing.web import (
    FeedKind,
    HostTraits,
    LocalWeb,
    MissingPage,
    ReplyFault,
    RobotsKind,
    SitemapDates,
    SitemapForm,
    ValidatorKind,
    make_hosts,
)
from recrawl.testing.web.replies import Reply
from recrawl.testing.web.robots import is_allowed

HOST = "one.example"
START_MS = 1_000 * START_AT
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def make_web(**fields: object) -> LocalWeb:
    traits = HostTraits(name=HOST, **{"page_kind": "news_front", "n_pages": 20, **fields})  # type: ignore[arg-type]
    return LocalWeb([traits], started_at_ms=START_MS)


def get(web: LocalWeb, path: str, at_ms: int = START_MS, **headers: str) -> Reply:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return web.answer(HOST, path, at_ms, names)


def header(reply: Reply, name: str) -> str | None:
    return dict(reply.headers).get(name)


# ---------------------------------------------------------------------------- pages


def test_the_version_of_an_answer_is_the_true_one() -> None:
    web = make_web()
    host = web.hosts[HOST]
    for page in range(20):
        for day in range(0, 30, 3):
            at_ms = START_MS + day * DAY_MS + 7 * HOUR_MS
            reply = get(web, host.path(page), at_ms)
            truth = [version for _, version in host.versions(page, at_ms)]
            if reply.version >= 0:
                assert reply.version in truth[-2:]  # a server may still have the version before
            assert host.current(page, at_ms)[1] == truth[-1]


def test_a_misencoded_answer_shows_the_page() -> None:
    """Its bytes say how it was meant: recrawl reads the text of a good answer in it."""
    web = make_web(page_kind="russian_article")
    paths = [web.hosts[HOST].path(page) for page in range(20)]
    instants = range(START_MS, START_MS + 40 * HOUR_MS, HOUR_MS // 2)
    replies = [(get(web, path, at), path, at) for at in instants for path in paths]
    damaged = [row for row in replies if row[0].content_fault == "misencoded"]
    types = {header(reply, "Content-Type") for reply, _, _ in damaged}
    assert types == {"text/html; charset=windows-1251", "text/html; charset=utf-8"}
    for reply, path, at_ms in damaged:
        good = next(
            one
            for one in (get(web, path, at_ms + k) for k in range(1, 60))
            if one.version == reply.version and not one.content_fault
        )
        found, right = (observe(one.body, header(one, "Content-Type")) for one in (reply, good))
        # Advertisements differ between two answers.
        assert np.isin(right.passages, found.passages).mean() > 0.9


def test_versions_begin_exactly_when_the_truth_says() -> None:
    host = make_web(rate_spread=1.0).hosts[HOST]
    changed = host.versions(3, START_MS + 60 * DAY_MS)
    assert len(changed) > 3
    for at_ms, version in changed[1:]:
        assert host.current(3, at_ms) == (at_ms, version)
        assert host.current(3, at_ms - 1)[0] < at_ms


def test_pages_change_faster_if_asked_to() -> None:
    traits = HostTraits(name=HOST, page_kind="news_front", n_pages=5)
    slow = LocalWeb([traits], started_at_ms=START_MS).hosts[HOST]
    fast = LocalWeb([traits], started_at_ms=START_MS, page_speed=24.0).hosts[HOST]
    assert fast.changes_per_day(0) == pytest.approx(24 * slow.changes_per_day(0))
    for page in range(5):
        versions = [version for _, version in slow.versions(page, START_MS + 24 * DAY_MS)]
        assert [version for _, version in fast.versions(page, START_MS + DAY_MS)] == versions


@pytest.mark.parametrize("page", [0, 9, 10, 19])
def test_a_url_leads_to_its_page(page: int) -> None:
    web = make_web()
    url = web.hosts[HOST].url(page)
    found = web.find_page(url)
    assert found is not None
    assert (found.page, found.url) == (page, url)
    assert ("/private/" in url) == (page % 10 == 9)


@pytest.mark.parametrize(
    "path", ["/9", "/20", "/x", "/-1", "/٣", "/private/3", "/0/", "/99999999999"]
)
def test_other_paths_are_no_pages(path: str) -> None:
    web = make_web()
    assert web.hosts[HOST].page_at(path) == -1
    assert get(web, path).status == 404


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (MissingPage.NOT_FOUND, 404),
        (MissingPage.GONE, 410),
        (MissingPage.SOFT_404, 200),
        (MissingPage.HOME_PAGE, 302),
    ],
)
def test_missing_pages(kind: MissingPage, status: int) -> None:
    reply = get(make_web(missing=kind), "/nothing")
    assert (reply.status, reply.version, reply.page) == (status, -1, -1)


def test_a_compressed_page_is_the_same_page() -> None:
    plain, packed = make_web(), make_web(is_compressed=True)
    body = gzip.decompress(get(packed, "/3", accept_encoding="gzip, br").body)
    assert body == get(plain, "/3").body
    assert get(packed, "/3").body == body


# ---------------------------------------------------------------------------- validators


def ask_again(kind: ValidatorKind, hours: int, **fields: object) -> list[tuple[bool, bool]]:
    """Return for each page whether it has changed, and whether the host answered 304."""
    web = make_web(validators=kind, **fields)
    host = web.hosts[HOST]
    found = []
    first_ms, then_ms = START_MS + HOUR_MS, START_MS + (1 + hours) * HOUR_MS
    for page in range(20):
        first = get(web, host.path(page), first_ms)
        tag, date = header(first, "ETag"), header(first, "Last-Modified")
        names = {"if_none_match": tag, "if_modified_since": date}
        sent = {name: value for name, value in names.items() if value is not None}
        then = get(web, host.path(page), then_ms, **sent)
        if first.version >= 0 and not then.content_fault:
            changed = host.current(page, then_ms)[1] != first.version
            found.append((changed, then.status == 304))
    return found


@pytest.mark.parametrize("kind", [ValidatorKind.RIGHT, ValidatorKind.WEAK, ValidatorKind.DATE_ONLY])
def test_right_validators_give_304_exactly_for_pages_that_are_the_same(kind: ValidatorKind) -> None:
    for hours in (0, 30, 30 * 24):
        # A server with an old copy gives the old validators, also rightly.
        pages = ask_again(kind, hours)
        wrong = [changed == is_304 for changed, is_304 in pages]
        assert sum(wrong) <= 2
        assert len(pages) > 10


@pytest.mark.parametrize(
    "kind",
    [
        ValidatorKind.NONE,
        ValidatorKind.EVERY_ANSWER,
        ValidatorKind.IGNORED,
        ValidatorKind.DATE_OF_ANSWER,
    ],
)
def test_some_hosts_never_answer_304(kind: ValidatorKind) -> None:
    assert not any(is_304 for _, is_304 in ask_again(kind, 24))


def test_two_servers_know_only_their_own_etags() -> None:
    pages = ask_again(ValidatorKind.TWO_SERVERS, 1)
    n_304 = sum(is_304 for _, is_304 in pages)
    assert 0 < n_304 < len(pages)


def test_wrong_304s_hide_changes_for_a_day() -> None:
    pages = ask_again(ValidatorKind.WRONG_304, 20, rate_spread=1.0)
    assert all(is_304 for _, is_304 in pages)
    assert any(changed for changed, _ in pages)


def test_a_304_has_no_body_and_no_version() -> None:
    web = make_web()
    tag = header(get(web, "/1"), "ETag")
    assert tag is not None
    reply = get(web, "/1", if_none_match=f'"other", W/{tag}')
    assert (reply.status, reply.body, reply.version, reply.page) == (304, b"", -1, 1)


# ---------------------------------------------------------------------------- robots.txt


@pytest.mark.parametrize("kind", list(RobotsKind))
def test_robots_txt_says_what_the_rules_mean(kind: RobotsKind) -> None:
    """A parser of the standard library agrees with the rules, where it can read them."""
    web = make_web(robots=kind)
    reply = get(web, "/robots.txt", START_MS + 2 * DAY_MS)
    allows_all = is_allowed(web.hosts[HOST].traits, "/private/9", 2 * 86_400)
    if kind in (RobotsKind.MISSING, RobotsKind.FORBIDDEN):
        assert 400 <= reply.status < 500
        assert allows_all
    elif kind is RobotsKind.SERVER_ERROR:
        assert reply.status == 503
        assert not is_allowed(web.hosts[HOST].traits, "/1", 2 * 86_400)
    elif kind is RobotsKind.DROPPED:
        assert reply.fault is ReplyFault.DROPPED
    elif kind is RobotsKind.REDIRECT_LOOP:
        assert header(reply, "Location") == "/robots.txt"
    else:
        if kind is RobotsKind.REDIRECT:
            reply = get(web, header(reply, "Location") or "")
        assert reply.status == 200
        group = reply.body.decode("latin-1").lower().partition("user-agent: recrawl")
        lines = re.findall(r"^disallow *: *(/private/|/$)", group[2] or group[0], re.M)
        is_refused = bool(lines) and kind is not RobotsKind.OTHER_CRAWLER
        assert is_refused == (not allows_all)


def test_rules_may_change_and_come_late() -> None:
    traits = HostTraits(name=HOST, robots=RobotsKind.CHANGES)
    assert is_allowed(traits, "/private/9", 0)
    assert not is_allowed(traits, "/private/9", 86_400)
    late = make_web(robots=RobotsKind.UNREACHABLE_AT_FIRST)
    assert get(late, "/robots.txt", START_MS + 2 * HOUR_MS).status == 503
    assert get(late, "/robots.txt", START_MS + 3 * HOUR_MS).status == 200


def test_robots_txt_of_odd_sizes() -> None:
    assert len(get(make_web(robots=RobotsKind.HUGE), "/robots.txt").body) > 500 * 1024
    assert b"\r\n" in get(make_web(robots=RobotsKind.ODD_BYTES), "/robots.txt").body
    assert get(make_web(robots=RobotsKind.SLOW), "/robots.txt").wait_seconds > 5
    delay = make_web(robots=RobotsKind.CRAWL_DELAY, crawl_delay_seconds=7.5)
    assert b"Crawl-delay: 7.5\n" in get(delay, "/robots.txt").body


# ---------------------------------------------------------------------------- sitemaps and feeds

NAMESPACE = "{http://www.sitemaps.org/schemas/sitemap/0.9}"


def sitemap_dates(body: bytes) -> dict[str, str | None]:
    rows = ET.fromstring(body).iter(f"{NAMESPACE}url")
    return {
        row.findtext(f"{NAMESPACE}loc") or "": row.findtext(f"{NAMESPACE}lastmod") for row in rows
    }


@pytest.mark.parametrize("form", list(SitemapForm))
def test_robots_txt_names_the_sitemap(form: SitemapForm) -> None:
    web = make_web(sitemap=form)
    found = re.findall(rb"^Sitemap: http://one.example(/.*)$", get(web, "/robots.txt").body, re.M)
    assert len(found) == (form is not SitemapForm.MISSING)
    for path in found:
        reply = get(web, path.decode())
        assert reply.status == 200
        body = gzip.decompress(reply.body) if form is SitemapForm.GZIP else reply.body
        if form is SitemapForm.INDEX:
            (part,) = re.findall(rb"<loc>http://one.example(/.*)</loc>", body)
            body = get(web, part.decode()).body
        if form is SitemapForm.BROKEN:
            with pytest.raises(ET.ParseError):
                ET.fromstring(body)
        elif form is SitemapForm.TEXT:
            assert body.decode().split() == [web.hosts[HOST].url(page) for page in range(20)]
        else:
            urls = list(sitemap_dates(body))
            assert urls[:20] == [web.hosts[HOST].url(page) for page in range(20)]
            assert (len(urls) > 50_000) == (form is SitemapForm.HUGE)


@pytest.mark.parametrize("dates", list(SitemapDates))
def test_dates_of_sitemaps_are_as_right_as_they_say(dates: SitemapDates) -> None:
    web = make_web(sitemap_dates=dates)
    host = web.hosts[HOST]
    at_ms = START_MS + 10 * DAY_MS + 13 * HOUR_MS + 1_234_000
    found = sitemap_dates(get(web, "/sitemap.xml", at_ms).body)
    assert len(found) == 20
    n_right = 0
    for page in range(20):
        text = found[host.url(page)]
        if text is not None:
            truth = LocalDate(host.current(page, at_ms)[0])
            n_right += text in (truth.date, truth.instant)
    if dates in (SitemapDates.RIGHT, SitemapDates.DATE_ONLY):
        assert n_right == 20
    elif dates is SitemapDates.STALE:
        assert 5 < n_right < 20
    else:
        assert n_right < 5
    assert all(text is None for text in found.values()) == (dates is SitemapDates.NONE)
    assert (len(set(found.values())) == 1) == (
        dates in (SitemapDates.NONE, SitemapDates.BUILD_TIME)
    )


class LocalDate:
    """An instant as sitemaps write it."""

    def __init__(self, at_ms: int) -> None:
        at = dt.datetime.fromtimestamp(at_ms // 1_000, dt.UTC)
        self.date = at.date().isoformat()
        self.instant = at.isoformat()


def test_a_host_with_a_million_pages_has_an_index_of_sitemaps() -> None:
    web = make_web(n_pages=1_000_000, sitemap_dates=SitemapDates.NONE)
    index = get(web, "/sitemap.xml").body
    assert index.count(b"<sitemap>") == 20
    assert len(sitemap_dates(get(web, "/sitemap-19.xml").body)) == 50_000
    assert get(web, "/sitemap-20.xml").status == 404
    assert get(web, "/999998").status == 200


@pytest.mark.parametrize("kind", [FeedKind.RSS, FeedKind.ATOM])
def test_feeds_show_the_ten_pages_that_changed_last(kind: FeedKind) -> None:
    web = make_web(feed=kind)
    host = web.hosts[HOST]
    at_ms = START_MS + 10 * DAY_MS
    tree = ET.fromstring(get(web, "/feed.xml", at_ms).body)
    if kind is FeedKind.RSS:
        urls = [item.findtext("link") for item in tree.iter("item")]
    else:
        urls = [link.get("href") for link in tree.iter("{http://www.w3.org/2005/Atom}link")]
    changed = sorted(((host.current(page, at_ms)[0], page) for page in range(20)), reverse=True)
    assert urls == [host.url(page) for _, page in changed[:10]]


def test_feeds_may_be_missing_or_broken() -> None:
    assert get(make_web(), "/feed.xml").status == 404
    with pytest.raises(ET.ParseError):
        ET.fromstring(get(make_web(feed=FeedKind.BROKEN), "/feed.xml").body)


# ---------------------------------------------------------------------------- links and traps


def links_of(body: bytes) -> list[str]:
    return [link.decode() for link in re.findall(rb'href="(/[^"]*)"', body)]


def test_all_pages_are_reached_by_links_from_the_home_page() -> None:
    web = make_web(n_pages=250)
    seen, waiting = set(), ["/"]
    while waiting:
        path = waiting.pop()
        seen.add(path)
        if path == "/" or path.startswith("/list/"):
            waiting += [link for link in links_of(get(web, path).body) if link not in seen]
    assert {web.hosts[HOST].path(page) for page in range(250)} <= seen


def test_the_calendar_has_no_end() -> None:
    web = make_web(has_calendar=True)
    assert "/calendar/2026/1" in links_of(get(web, "/").body)
    path = "/calendar/2026/1"
    for _ in range(1_000):
        reply = get(web, path)
        assert reply.status == 200
        path = links_of(reply.body)[-1]
    assert path == "/calendar/2109/5"
    assert get(make_web(), "/calendar/2026/1").status == 404


# ---------------------------------------------------------------------------- hosts


def test_every_kind_is_on_some_host() -> None:
    host_traits = make_hosts()
    assert len(host_traits) == 200
    assert sum(traits.n_pages for traits in host_traits) == 20_000
    assert len({traits.name for traits in host_traits}) == 200
    assert {traits.robots for traits in host_traits} == set(RobotsKind)
    assert {traits.sitemap for traits in host_traits} == set(SitemapForm)
    assert {traits.sitemap_dates for traits in host_traits} == set(SitemapDates)
    assert {traits.feed for traits in host_traits} == set(FeedKind)
    assert {traits.validators for traits in host_traits} == set(ValidatorKind)
    assert {traits.missing for traits in host_traits} == set(MissingPage)
    assert {fault for traits in host_traits for fault, _ in traits.faults} == set(ReplyFault)
    assert host_traits == make_hosts()
    assert host_traits != make_hosts(seed=1)


def test_well_behaved_hosts_have_no_faults() -> None:
    for traits in make_hosts(30, 300, is_well_behaved=True):
        assert not traits.faults
        assert traits.robots is RobotsKind.ALLOW_ALL
        assert traits.sitemap_dates is SitemapDates.RIGHT


def test_pages_that_robots_txt_disallows_are_not_reachable() -> None:
    host_traits = [
        HostTraits(name=f"{kind}.example", robots=kind, n_pages=20) for kind in RobotsKind
    ]
    web = LocalWeb(host_traits, started_at_ms=START_MS)
    count = {traits.name: 0 for traits in host_traits}
    for page in web.reachable_pages():
        count[page.host] += 1
    assert count["allow_all.example"] == count["missing.example"] == 20
    assert count["disallow_all.example"] == count["server_error.example"] == 0
    assert count["disallow_some.example"] == count["changes.example"] == 18
    assert count["patterns.example"] == 19


@pytest.mark.parametrize(("n_hosts", "n_pages"), [(0, 10), (11, 10)])
def test_hosts_need_pages(n_hosts: int, n_pages: int) -> None:
    with pytest.raises(ValueError, match="n_hosts"):
        make_hosts(n_hosts, n_pages)


def test_names_of_hosts_are_different() -> None:
    with pytest.raises(ValueError, match="twice"):
        LocalWeb([HostTraits(name="a"), HostTraits(name="a")], started_at_ms=0)


def test_few_hosts_have_pages_of_different_kinds() -> None:
    kinds = [traits.page_kind for traits in make_hosts(20, 200)]
    assert len(set(kinds)) == 20
