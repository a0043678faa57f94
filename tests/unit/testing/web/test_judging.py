"""The log shows how polite a crawler was, how fresh its copies were, and its false changes."""

from collections.abc import Iterable

import pytest

from recrawl.sim.pages import START_AT
from recrawl.testing.web import (
    CopyMade,
    HostTraits,
    LocalWeb,
    LoggedRequest,
    RequestKind,
    RequestLog,
    RobotsKind,
    ViolationKind,
    WebPage,
    copies_made,
    find_violations,
    judge_changes,
    mean_freshness,
)
from recrawl.testing.web.local_web import request_kind

HOST = "one.example"
START_MS = 1_000 * START_AT
DAY_MS = 86_400_000


def make_web(**fields: object) -> LocalWeb:
    traits = HostTraits(name=HOST, **{"page_kind": "news_front", "n_pages": 20, **fields})  # type: ignore[arg-type]
    return LocalWeb([traits], started_at_ms=START_MS)


def request(at: float, path: str, **fields: object) -> LoggedRequest:
    """Return a request at a number of seconds after the start that took 0.1 s."""
    at_ms = START_MS + round(1_000 * at)
    page = int(path.rpartition("/")[2]) if path.rpartition("/")[2].isdigit() else -1
    row = LoggedRequest(
        at_ms, at_ms + 100, HOST, path, request_kind(path), 200, page, 0, "", False, None, 9, "t"
    )
    return row._replace(**fields)  # type: ignore[arg-type]


def make_log(rows: Iterable[LoggedRequest]) -> RequestLog:
    log = RequestLog()
    for row in rows:
        log.append(row)
    return log


def kinds_of(web: LocalWeb, rows: list[LoggedRequest], **limits: float) -> list[tuple[str, str]]:
    found = find_violations(web, make_log(rows), **limits)  # type: ignore[arg-type]
    return [(str(violation.kind), violation.request.path) for violation in found]


# ---------------------------------------------------------------------------- politeness


def test_a_polite_crawler_violates_nothing() -> None:
    rows = [request(0, "/robots.txt"), request(5, "/sitemap.xml"), request(10, "/1")]
    assert kinds_of(make_web(robots=RobotsKind.CRAWL_DELAY), rows, delay_seconds=1.0) == []


def test_disallowed_paths_are_violations() -> None:
    rows = [request(0, "/robots.txt"), request(5, "/1"), request(10, "/private/9")]
    web = make_web(robots=RobotsKind.DISALLOW_SOME)
    assert kinds_of(web, rows) == [(ViolationKind.DISALLOWED, "/private/9")]
    assert kinds_of(make_web(), rows) == []


def test_a_sitemap_may_be_read_even_if_all_is_disallowed() -> None:
    rows = [request(0, "/robots.txt"), request(5, "/sitemap.xml"), request(9, "/feed.xml")]
    web = make_web(robots=RobotsKind.DISALLOW_ALL)
    assert kinds_of(web, rows) == [(ViolationKind.DISALLOWED, "/feed.xml")]


def test_robots_txt_must_be_read_first() -> None:
    late = [request(0, "/1"), request(5, "/robots.txt"), request(10, "/2")]
    assert kinds_of(make_web(), late) == [(ViolationKind.ROBOTS_UNREAD, "/1")]
    early = [request(0, "/robots.txt"), request(0.05, "/1")]
    assert (ViolationKind.ROBOTS_UNREAD, "/1") in kinds_of(make_web(), early)


@pytest.mark.parametrize("fields", [{"status": 503}, {"fault": "dropped"}])
def test_a_robots_txt_without_answer_is_not_read(fields: dict[str, object]) -> None:
    rows = [request(0, "/robots.txt", **fields), request(5, "/1")]
    assert kinds_of(make_web(), rows) == [(ViolationKind.ROBOTS_UNREAD, "/1")]


def test_a_redirected_robots_txt_is_read_at_its_end() -> None:
    rows = [request(0, "/robots.txt", status=301), request(2, "/1")]
    web = make_web(robots=RobotsKind.REDIRECT)
    assert kinds_of(web, rows) == [(ViolationKind.ROBOTS_UNREAD, "/1")]
    assert kinds_of(web, [rows[0], request(1, "/robots/rules.txt"), rows[1]]) == []


def test_new_rules_hold_after_a_day() -> None:
    rows = [request(0, "/robots.txt")]
    rows += [request(86_400 * day, "/private/9") for day in (0.5, 1.5, 2.5)]
    found = find_violations(make_web(robots=RobotsKind.CHANGES), make_log(rows))
    assert [violation.request.at_ms for violation in found] == [START_MS + 5 * DAY_MS // 2]


def test_requests_too_soon_are_violations() -> None:
    rows = [request(0, "/robots.txt"), request(4.9, "/1"), request(9.9, "/2")]
    web = make_web(robots=RobotsKind.CRAWL_DELAY, crawl_delay_seconds=5.0)
    assert kinds_of(web, rows) == [(ViolationKind.DELAY, "/1")]
    assert kinds_of(web, rows, tolerance_seconds=0.2) == []
    assert kinds_of(make_web(), rows, delay_seconds=5.0) == [(ViolationKind.DELAY, "/1")]
    assert kinds_of(make_web(), rows, delay_seconds=4.0) == []


def test_retry_after_holds_for_the_whole_host() -> None:
    rows = [
        request(0, "/robots.txt"),
        request(5, "/1", status=429, retry_after_seconds=120.0),
        request(100, "/2"),
        request(124.9, "/3"),
        request(125, "/4"),
    ]
    found = [(ViolationKind.RETRY_AFTER, "/2"), (ViolationKind.RETRY_AFTER, "/3")]
    assert kinds_of(make_web(), rows) == found


def test_requests_at_once_are_violations() -> None:
    rows = [request(0, "/robots.txt"), request(5, "/1"), request(5.05, "/2"), request(5.1, "/3")]
    assert kinds_of(make_web(), rows) == [
        (ViolationKind.AT_ONCE, "/2"),
        (ViolationKind.AT_ONCE, "/3"),
    ]
    assert kinds_of(make_web(), rows, n_at_once_max=2) == []


# ---------------------------------------------------------------------------- freshness


def test_a_copy_is_fresh_until_the_page_changes() -> None:
    web = make_web()
    host = web.hosts[HOST]
    changed_ms, version = host.versions(3, START_MS + 30 * DAY_MS)[1]
    assert version != 0
    page = [WebPage(HOST, 3, host.url(3))]
    copies = [CopyMade(HOST, 3, START_MS, 0)]
    assert mean_freshness(
        web, copies, from_ms=START_MS, until_ms=changed_ms, pages=page
    ) == pytest.approx(1.0)
    half_ms = START_MS + (changed_ms - START_MS) // 2
    late = [CopyMade(HOST, 3, half_ms, 0)]
    assert mean_freshness(
        web, late, from_ms=START_MS, until_ms=changed_ms, pages=page
    ) == pytest.approx(0.5)
    again = [*copies, CopyMade(HOST, 3, changed_ms + 1_000, version)]
    fresh = mean_freshness(web, again, from_ms=changed_ms, until_ms=changed_ms + 2_000, pages=page)
    assert fresh == pytest.approx(0.5)


def test_freshness_agrees_with_samples() -> None:
    """A mean over instants one minute apart is within 0.01 of the exact mean."""
    web = make_web(rate_spread=1.0)
    host = web.hosts[HOST]
    until_ms = START_MS + 4 * DAY_MS
    rows = []
    for hour in range(96):
        page = (7 * hour) % 20
        reply = web.answer(HOST, host.path(page), START_MS + hour * 3_600_000, {})
        rows.append(request(3_600 * hour, host.path(page), page=page, version=reply.version))
    copies = copies_made(make_log(rows))
    exact = mean_freshness(web, copies, from_ms=START_MS, until_ms=until_ms)
    n_fresh, n_all = 0, 0
    held: dict[int, int] = {}
    waiting = sorted(copies, key=lambda copy: copy.at_ms)
    for at_ms in range(START_MS, until_ms, 60_000):
        while waiting and waiting[0].at_ms <= at_ms:
            copy = waiting.pop(0)
            held[copy.page] = copy.version
        for page in range(20):
            n_all += 1
            n_fresh += held.get(page, -2) == host.current(page, at_ms)[1]
    assert exact == pytest.approx(n_fresh / n_all, abs=0.01)
    assert 0.3 < exact < 0.98


def test_importance_weighs_pages() -> None:
    web = make_web(n_pages=2)
    host = web.hosts[HOST]
    copies = [CopyMade(HOST, 0, START_MS, 0)]
    mean = mean_freshness(
        web,
        copies,
        from_ms=START_MS,
        until_ms=START_MS + 1_000,
        importance={host.url(0): 3.0},
    )
    assert mean == pytest.approx(0.75)


def test_answers_that_do_not_show_the_page_make_no_copy() -> None:
    rows = [
        request(0, "/robots.txt", version=-1),
        request(1, "/1"),
        request(2, "/2", version=-1, fault="blocked"),
        request(3, "/1", status=304, version=-1),
    ]
    assert copies_made(make_log(rows)) == [CopyMade(HOST, 1, START_MS + 1_100, 0)]


def test_an_interval_has_a_length() -> None:
    with pytest.raises(ValueError, match="from_ms"):
        mean_freshness(make_web(), [], from_ms=1, until_ms=1)


# ---------------------------------------------------------------------------- false changes


def test_changes_are_judged_by_the_versions_that_were_sent() -> None:
    web = make_web()
    url = web.hosts[HOST].url(1)
    rows = [
        request(0, "/1", version=0),
        request(10, "/1", version=0),
        request(20, "/1", version=-1, fault="blocked"),
        request(30, "/1", version=4),
        request(40, "/1", version=5),
    ]
    at_ms = [row.at_ms + 50 for row in rows]
    right = judge_changes(web, make_log(rows), [(url, at_ms[3]), (url, at_ms[4])])
    assert (right.n_right, right.n_false, right.n_missed, right.false_ratio) == (2, 0, 0, 0.0)
    wrong = judge_changes(web, make_log(rows), [(url, at_ms[1]), (url, at_ms[2]), (url, at_ms[3])])
    assert (wrong.n_right, wrong.n_false, wrong.n_missed) == (1, 2, 1)
    assert wrong.false_ratio == pytest.approx(2 / 3)


def test_changes_of_unknown_pages_are_false() -> None:
    found = judge_changes(make_web(), RequestLog(), [("http://other.example/1", START_MS)])
    assert (found.n_right, found.n_false, found.n_missed) == (0, 1, 0)
    assert judge_changes(make_web(), RequestLog(), []).false_ratio == 0.0


def test_requests_have_kinds() -> None:
    paths = {"/robots.txt": RequestKind.ROBOTS, "/sitemap-3.xml": RequestKind.SITEMAP}
    paths |= {"/feed.xml": RequestKind.FEED, "/7": RequestKind.PAGE, "/": RequestKind.PAGE}
    assert {path: request_kind(path) for path in paths} == paths
