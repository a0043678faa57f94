"""Sitemaps and feeds of one site that say the same."""

from dataclasses import replace

import numpy as np
import pytest

from recrawl.run.discovery.memory import DocumentVersion, NewsRate, hash_entries
from recrawl.run.discovery.overlap import (
    COMPARED_MIN,
    FEED_RATE_SHARE,
    SITEMAP_RATE_SHARE,
    SPARE_RATE_SHARE,
    OtherDocument,
    count_shown,
    count_waiting,
    find_shown,
    is_spare,
    is_still_spare,
    rate_of_others,
    trusted_until,
)

DAY = 86_400
NOW = 1_790_000_000


def make_version(
    dates: dict[str, int], *, fetched_at: int = NOW, **given: float
) -> DocumentVersion:
    hashes = hash_entries(list(dates))
    order = np.argsort(hashes)
    return DocumentVersion(
        fetched_at_ms=fetched_at * 1_000,
        hashes=hashes[order],
        claimed_at=np.array(list(dates.values()), np.uint32)[order],
        **given,  # type: ignore[arg-type]
    )


def columns(dates: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    return hash_entries(list(dates)), np.array(list(dates.values()), np.uint32)


def test_an_entry_is_shown_with_the_same_date_or_a_later_one() -> None:
    other = make_version({"same": NOW, "later": NOW + 1, "earlier": NOW - 1, "undated": 0})
    asked = dict.fromkeys(["same", "later", "earlier", "undated", "unknown"], NOW)
    is_known, is_shown = find_shown(*columns(asked), other)
    assert is_known.tolist() == [True, True, True, True, False]
    assert is_shown.tolist() == [True, True, False, False, False]
    # An entry without a date cannot be compared.
    assert not find_shown(*columns({"same": 0}), other)[1].any()
    assert not find_shown(*columns(asked), make_version({}))[1].any()


def test_a_date_without_a_time_means_the_whole_day() -> None:
    midnight = NOW - NOW % DAY
    other = make_version({"page": midnight})
    assert find_shown(*columns({"page": midnight + DAY - 1}), other)[1].all()
    assert not find_shown(*columns({"page": midnight + DAY}), other)[1].any()


def test_news_are_compared_once_all_who_may_show_them_were_read() -> None:
    sitemap = OtherDocument("map", False, make_version({"a": NOW - 50, "b": NOW - 900}))
    # "b" changed after the sitemap was read, and "c" is not in it.
    news = {"a": NOW - 50, "b": NOW + 50, "c": NOW - 10}
    assert count_shown(*columns(news), [sitemap]) == (1, 2)
    # A feed speaks of all pages: "c" had its chance, and "b" may yet come.
    feed = OtherDocument("feed", True, make_version({}))
    assert count_shown(*columns(news), [sitemap, feed]) == (1, 2)
    # What the sitemap shows later counts when it is read.
    waiting = OtherDocument("news", True, make_version(news, fetched_at=NOW + 100))
    later = make_version({"a": NOW - 50, "b": NOW + 50}, fetched_at=NOW + 200)
    assert count_waiting(waiting, later, NOW * 1_000, is_feed=False) == (1, 1)
    missed = make_version({"a": NOW - 50, "b": NOW - 900}, fetched_at=NOW + 200)
    assert count_waiting(waiting, missed, NOW * 1_000, is_feed=False) == (0, 1)


def test_each_news_is_compared_exactly_once() -> None:
    """Two documents that show the same agree on all news, in whatever order they are read."""
    rng = np.random.default_rng(1)
    dates = {f"p{i}": NOW + int(at) for i, at in enumerate(rng.uniform(0, 100 * 3_600, 300))}
    reads = sorted(
        [(NOW + int(t), 0) for t in np.arange(5, 100, 7) * 3_600]
        + [(NOW + int(t), 1) for t in np.arange(3, 100, 11) * 3_600]
    )
    versions = [make_version({}, fetched_at=NOW), make_version({}, fetched_at=NOW)]
    for at, mine in reads:
        before, other = versions[mine], versions[1 - mine]
        shown = {page: date for page, date in dates.items() if date < at}
        version = make_version(
            shown, fetched_at=at, n_shown=before.n_shown, n_compared=before.n_compared
        )
        news = {page: date for page, date in shown.items() if date * 1_000 >= before.fetched_at_ms}
        n_shown, n_compared = count_shown(*columns(news), [OtherDocument("o", True, other)])
        versions[mine] = replace(
            version,
            n_shown=version.n_shown + n_shown,
            n_compared=version.n_compared + n_compared,
        )
        waiting = OtherDocument("o", True, other)
        n_shown, n_compared = count_waiting(waiting, version, before.fetched_at_ms, is_feed=True)
        versions[1 - mine] = replace(
            other, n_shown=other.n_shown + n_shown, n_compared=other.n_compared + n_compared
        )
    last = [at for at, _ in reads][-2:]
    for mine in (0, 1):
        seen = sum(date < last[0] for date in dates.values())
        assert versions[mine].n_shown == versions[mine].n_compared
        assert versions[mine].n_compared == pytest.approx(seen, abs=60)


def test_a_document_that_others_repeat_is_a_spare_and_stays_one() -> None:
    version = DocumentVersion(fetched_at_ms=0, true_rate=1.0, n_shown=20.0, n_compared=20.0)
    for is_feed, share in ((True, FEED_RATE_SHARE), (False, SITEMAP_RATE_SHARE)):
        assert is_spare(version, share, is_feed=is_feed)
        assert not is_spare(version, share - 0.01, is_feed=is_feed)
    # Of two that are equally good the feed is the spare.
    assert is_spare(version, 1.0, is_feed=True)
    assert not is_spare(version, 1.0, is_feed=False)
    assert not is_spare(replace(version, true_rate=0.0), 0.0, is_feed=True)
    assert not is_spare(replace(version, n_shown=10.0), 1.0, is_feed=True)
    few = COMPARED_MIN - 1
    assert not is_spare(replace(version, n_shown=few, n_compared=few), 1.0, is_feed=True)
    spare = replace(version, spare_rate=1.0)
    assert is_spare(spare, SPARE_RATE_SHARE, is_feed=True)
    assert not is_spare(spare, SPARE_RATE_SHARE - 0.01, is_feed=True)


def test_a_spare_is_read_when_the_others_announce_half_as_much() -> None:
    """As much as before, or as it does itself, whatever is more."""
    for true_rate, spare_rate in ((1.0, 0.8), (0.0, 1.0)):
        spare = DocumentVersion(fetched_at_ms=0, true_rate=true_rate, spare_rate=spare_rate)
        assert is_still_spare(spare, SPARE_RATE_SHARE)
        assert not is_still_spare(spare, SPARE_RATE_SHARE - 0.01)
        assert not is_still_spare(spare, 0.0)


def test_only_documents_that_were_read_lately_speak_for_others() -> None:
    until = trusted_until(NOW * 1_000, 2 * DAY)
    assert until == (NOW + 6 * DAY) * 1_000
    version = make_version({}, true_rate=2.0, trusted_until_ms=until)
    document = OtherDocument("map", False, version)
    spare = OtherDocument("feed", True, replace(version, spare_rate=1.0))
    assert rate_of_others([document, spare], until - 1) == 2.0
    assert rate_of_others([document, spare], until) == 0.0


def test_comparisons_survive_as_bytes() -> None:
    version = make_version(
        {"a": NOW}, true_rate=0.5, trusted_until_ms=7, spare_rate=2.0, n_shown=3.0, n_compared=4.0
    )
    version = replace(version, news=NewsRate(1.0, 2.0, 3.0, 4.0, 5.0))
    again = DocumentVersion.of_bytes(version.to_bytes())
    assert again is not None
    assert again.news == version.news
    assert (again.true_rate, again.trusted_until_ms, again.spare_rate) == (0.5, 7, 2.0)
    assert (again.n_shown, again.n_compared) == (3.0, 4.0)
