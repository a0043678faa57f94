"""Versions of sitemaps and feeds: what is new, what is remembered, and when to look again."""

from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np
import pytest

from recrawl.corpus import Corpus, Outcome
from recrawl.run.discovery.hint_documents import (
    POLL_SECONDS_MAX,
    POLL_SECONDS_MIN,
    REBUILT_SOURCE,
    SITEMAP_SOURCE,
    TOGETHER_MIN,
    DocumentHints,
    SignalQuality,
    add_news,
    choose_sample,
    claimed_ms,
    compare_versions,
    count_worth,
    first_of_each,
    news_per_second,
    read_hints,
    remember_version,
    seconds_to_next_poll,
    seconds_without_price,
    turnover_seconds,
)
from recrawl.run.discovery.memory import DocumentVersion, NewsRate
from recrawl.signals import DocumentKind
from tests.manual_clock import ManualClock

HOUR = 3_600.0
DAY_MS = 86_400_000
NOW_MS = 1_790_000_000_000


def iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()


def make_sitemap(dates: dict[str, str]) -> bytes:
    entries = "".join(
        f"<url><loc>https://a.example/{name}</loc>"
        + (f"<lastmod>{date}</lastmod>" if date else "")
        + "</url>"
        for name, date in dates.items()
    )
    return (
        f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>'.encode()
    )


def read(dates: dict[str, str]) -> DocumentHints:
    return read_hints(make_sitemap(dates), 1_000)


def names(hints: DocumentHints, rows: np.ndarray) -> list[str]:
    return [hints.url[row].rpartition("/")[2] for row in rows]


def test_new_entries_and_later_dates_are_news() -> None:
    before = remember_version(
        read({"a": "2026-01-01", "b": "2026-01-01", "c": "", "d": "2026-01-05"}),
        None,
        fetched_at_ms=NOW_MS,
    )
    now = read({"a": "2026-01-01", "b": "2026-01-02", "c": "2026-01-02", "d": "", "e": ""})
    news = compare_versions(now, before)
    assert names(now, news.new) == ["e"]
    assert names(now, news.later) == ["b", "c"]
    assert not news.is_together


def test_an_earlier_date_is_no_news() -> None:
    before = remember_version(read({"a": "2026-02-01"}), None, fetched_at_ms=NOW_MS)
    assert compare_versions(read({"a": "2026-01-01"}), before).later.size == 0


def test_dates_that_move_together_are_recognised() -> None:
    pages = [f"p{i}" for i in range(TOGETHER_MIN)]
    before = remember_version(read(dict.fromkeys(pages, "2026-01-01")), None, fetched_at_ms=NOW_MS)
    assert compare_versions(read(dict.fromkeys(pages, "2026-01-02")), before).is_together
    some = {name: f"2026-01-0{1 + (i < 4)}" for i, name in enumerate(pages)}
    assert not compare_versions(read(some), before).is_together
    # A few pages may well change together.
    few = remember_version(read({"a": "2026-01-01"}), None, fetched_at_ms=NOW_MS)
    assert not compare_versions(read({"a": "2026-01-02"}), few).is_together


def test_entries_that_come_back_are_remembered() -> None:
    first = remember_version(read({"a": "2026-01-01", "b": ""}), None, fetched_at_ms=NOW_MS)
    second = remember_version(read({"b": ""}), first, fetched_at_ms=NOW_MS + 1)
    news = compare_versions(read({"a": "2026-01-01", "b": ""}), second)
    assert news.new.size == news.later.size == 0


def test_entries_without_room_are_new_again() -> None:
    hints = read({"a": "", "b": ""})
    version = remember_version(hints, None, fetched_at_ms=NOW_MS, is_kept=np.array([True, False]))
    assert names(hints, compare_versions(hints, version).new) == ["b"]
    assert version.n_left_out == 1


def test_a_version_survives_as_bytes() -> None:
    version = remember_version(read({"a": "2026-01-01", "b": ""}), None, fetched_at_ms=NOW_MS)
    version = DocumentVersion(
        fetched_at_ms=NOW_MS,
        n_left_out=7,
        sample_url="https://a.example/ä",
        news=NewsRate(1.5, 2.0, 3.0, 4.0),
        hashes=version.hashes,
        claimed_at=version.claimed_at,
    )
    again = DocumentVersion.of_bytes(version.to_bytes())
    assert again is not None
    assert again.hashes.tolist() == version.hashes.tolist()
    assert again.claimed_at.tolist() == version.claimed_at.tolist()
    assert (again.fetched_at_ms, again.n_left_out, again.sample_url, again.news) == (
        version.fetched_at_ms,
        version.n_left_out,
        version.sample_url,
        version.news,
    )


@pytest.mark.parametrize("stored", [b"", b"\0\1", b"\0\2\0\0\0\0", b"\0\1\0\0\0\2[]" + bytes(12)])
def test_bytes_that_are_no_version_are_ignored(stored: bytes) -> None:
    assert DocumentVersion.of_bytes(stored) is None


def test_claims_are_as_exact_as_dates_are() -> None:
    today, past = iso(NOW_MS)[:10], iso(NOW_MS - 5 * DAY_MS)[:10]
    hints = read({"a": iso(NOW_MS - 1000), "b": today, "c": past, "d": "", "e": "2027-01-01"})
    claimed = claimed_ms(hints, NOW_MS)
    # A day that is not over, and one to come, claim nothing.
    assert claimed[[1, 3, 4]].tolist() == [0, 0, 0]
    assert claimed[0] == NOW_MS - 1000
    assert claimed[2] == hints.latest_ms[2] < NOW_MS


def test_a_sample_is_small_and_another_one_each_time() -> None:
    hints = read(dict.fromkeys((f"p{i}" for i in range(100)), "2026-01-01"))
    rows = np.arange(100)
    samples = [choose_sample(rows, hints, NOW_MS + i).tolist() for i in range(20)]
    assert all(len(sample) == TOGETHER_MIN for sample in samples)
    assert len({row for sample in samples for row in sample}) > 50


def quality(precision: float, *, n_judged: float = 100.0) -> SignalQuality:
    return SignalQuality(
        precision={SITEMAP_SOURCE: precision, REBUILT_SOURCE: precision},
        n_judged={SITEMAP_SOURCE: n_judged, REBUILT_SOURCE: n_judged},
    )


def test_reliable_documents_are_read_more_often() -> None:
    news = NewsRate()
    for _ in range(50):
        news = add_news(news, seconds=6 * HOUR, n_signals=10)
    times = [
        seconds_to_next_poll(news_per_second(news, quality(p), SITEMAP_SOURCE), 2 * HOUR)
        for p in (0.9, 0.3, 0.02)
    ]
    # The time falls with the root of the true news, here nearly 36 a day.
    assert times[0] == pytest.approx(np.sqrt(2 * 2 * HOUR / (36 / 24 / HOUR)), rel=0.2)
    assert times[1] / times[0] == pytest.approx(np.sqrt(3), rel=0.1)
    assert times[2] > 4 * times[0]


def test_news_of_pages_that_are_not_worth_their_price_do_not_count() -> None:
    news = NewsRate()
    for _ in range(50):
        news = add_news(news, seconds=6 * HOUR, n_signals=10, n_looked_at=6, n_worth=1)
    all_worth = news._replace(n_worth=news.n_looked_at)
    rates = [news_per_second(one, quality(0.9), SITEMAP_SOURCE) for one in (news, all_worth)]
    assert rates[0] / rates[1] == pytest.approx(1 / 6, rel=0.2)  # with one page assumed
    # A document that has only shown new pages is not concerned.
    pages = add_news(NewsRate(), seconds=6 * HOUR, n_pages=10)
    looked_at = pages._replace(n_looked_at=60.0)
    assert news_per_second(pages, quality(0.9), SITEMAP_SOURCE) == news_per_second(
        looked_at, quality(0.9), SITEMAP_SOURCE
    )


def test_pages_that_change_faster_than_their_price_are_not_worth_a_fetch(
    open_corpus: Callable[..., Corpus], clock: ManualClock
) -> None:
    corpus = open_corpus(budget={"price": 86_400})
    fast, slow = ([f"https://{kind}.example/{i}" for i in range(20)] for kind in ("fast", "slow"))
    corpus.add(fast + slow)
    for day in range(40):
        clock.pass_seconds(43_200)
        outcomes = [Outcome(url=url, digest=b"%d" % day) for url in fast]
        corpus.report(outcomes + [Outcome(url=url, digest=b"same") for url in slow])
    corpus.lease(1)
    assert count_worth(corpus, fast) == (6, 0)
    assert count_worth(corpus, slow) == (6, 6)
    assert count_worth(corpus, ["https://unknown.example/"]) == (0, 0)
    assert count_worth(corpus, []) == (0, 0)


def test_times_are_within_limits() -> None:
    assert seconds_to_next_poll(1e9, 1.0) == POLL_SECONDS_MIN
    assert seconds_to_next_poll(0.0, 1.0) == POLL_SECONDS_MAX
    assert seconds_to_next_poll(1e9, 1.0, ttl_seconds=HOUR) == HOUR
    assert seconds_without_price(None, 10) == HOUR
    # At a hundred fetches a day, ten documents get five in all.
    assert seconds_without_price(100 / 24 / HOUR, 10) == pytest.approx(48 * HOUR)
    assert seconds_without_price(1.0, 10) == HOUR
    assert seconds_without_price(1e-9, 10) == POLL_SECONDS_MAX


def test_a_document_that_costs_more_than_it_saves_is_read_once_a_week() -> None:
    day = 24 * HOUR
    # Each page changes every five days, and a fetch must save twenty hours.
    times = [
        seconds_to_next_poll(n / (5 * day), 20 * HOUR, n_pages=n) for n in (1.0, 2.0, 10.0, 100.0)
    ]
    assert times[0] == POLL_SECONDS_MAX
    assert times[2:] == [pytest.approx(day * np.sqrt(2 * 20 / 24 / (n / 5))) for n in (10, 100)]
    # Nine signals in ten are wrong: polling the pages alone is cheaper.
    wrong = seconds_to_next_poll(10 / (5 * day), 20 * HOUR, n_pages=10, precision=0.1)
    assert wrong == POLL_SECONDS_MAX


def test_a_feed_is_read_before_its_entries_are_gone() -> None:
    news = add_news(NewsRate(), seconds=10 * HOUR, n_signals=10)
    # All ten entries were new, and more may have been there in between.
    assert turnover_seconds(news, 10) == 5 * HOUR
    assert turnover_seconds(news, 40) == 20 * HOUR
    assert turnover_seconds(NewsRate(), 10) == np.inf
    rate, price = 20 / (24 * HOUR), 20 * HOUR
    slow = seconds_to_next_poll(rate, price, n_pages=60)
    fast = seconds_to_next_poll(rate, price, n_pages=60, turnover_seconds=slow / 2)
    assert fast == slow / 2
    # Ten minutes would cost more than the news are worth.
    assert seconds_to_next_poll(rate, price, n_pages=60, turnover_seconds=600) == slow


def test_dates_that_move_together_must_have_proved_right() -> None:
    assert not quality(0.9, n_judged=5).is_trusted_together()
    assert not quality(0.3).is_trusted_together()
    assert quality(0.7).is_trusted_together()


def test_of_repeated_urls_the_latest_date_counts() -> None:
    rows = first_of_each(["a", "b", "a", None], np.array([1, 5, 3, 9]))
    assert rows.tolist() == [1, 2]


def test_what_is_not_a_document_has_no_entries() -> None:
    hints = read_hints(b"<!doctype html><title>Not found</title>", 100)
    assert hints.kind == DocumentKind.NOTHING
    assert hints.url == []
