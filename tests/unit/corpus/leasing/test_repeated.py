"""A request with an idempotency key takes effect once, however often it is repeated."""

from collections.abc import Callable

import numpy as np
import pytest

from recrawl.corpus import Corpus, RequestKey, RowStatus
from recrawl.errors import RequestKeyReused
from tests.manual_clock import ManualClock

URLS = [f"https://site{i}.example/{j}" for i in range(4) for j in range(5)]
FIRST = RequestKey(b"first", b"digest of the body")
OTHER_BODY = RequestKey(b"first", b"digest of another body")
SECOND = RequestKey(b"second", b"digest of the body")


@pytest.fixture(params=[1, 3])
def corpus(open_corpus: Callable[..., Corpus], request: pytest.FixtureRequest) -> Corpus:
    opened = open_corpus(corpus={"partitions": request.param})
    opened.add(URLS)
    return opened


def test_a_repeated_lease_returns_the_orders_that_are_still_held(corpus: Corpus) -> None:
    first = corpus.lease(6, request=FIRST)
    assert len(first) == 6
    again = corpus.lease(6, request=FIRST)
    assert sorted(again) == sorted(first)
    corpus.release([first[0].handle])
    left = corpus.lease(6, request=FIRST)
    assert {order.handle for order in left} == {order.handle for order in first[1:]}
    second = corpus.lease(6, request=SECOND)
    assert not {order.url for order in second} & {order.url for order in left}


def test_a_repeated_lease_survives_a_restart(open_corpus: Callable[..., Corpus]) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    first = corpus.lease(6, request=FIRST)
    corpus.close()
    assert open_corpus().lease(6, request=FIRST) == first


def test_orders_that_expired_are_not_returned_again(corpus: Corpus, clock: ManualClock) -> None:
    assert corpus.lease(6, seconds=60, request=FIRST)
    clock.pass_seconds(61)
    assert corpus.lease(6, seconds=60, request=FIRST) == []


def test_an_extended_order_shows_its_new_end(corpus: Corpus, clock: ManualClock) -> None:
    (order,) = corpus.lease(1, seconds=60, request=FIRST)
    clock.pass_seconds(30)
    corpus.extend([order.handle], seconds=60)
    clock.pass_seconds(40)
    (again,) = corpus.lease(1, seconds=60, request=FIRST)
    assert again.handle == order.handle
    assert again.expires_at_ms > order.expires_at_ms


def test_another_request_with_the_same_key_is_an_error(corpus: Corpus) -> None:
    corpus.lease(6, request=FIRST)
    with pytest.raises(RequestKeyReused, match="another request"):
        corpus.lease(7, request=OTHER_BODY)
    with pytest.raises(RequestKeyReused):
        corpus.signal(URLS, source="sitemap", request=OTHER_BODY)
    with pytest.raises(RequestKeyReused):
        corpus.requests(URLS, 3, request=OTHER_BODY)


def test_given_urls_are_leased_once(corpus: Corpus) -> None:
    urls = [*URLS[:3], "https://unknown.example/", "no url", URLS[0]]
    first = corpus.lease_urls(urls, request=FIRST)
    assert [answer.order is not None for answer in first] == [True] * 3 + [False] * 3
    again = corpus.lease_urls(urls, request=FIRST)
    assert again.order == first.order
    corpus.release([first.orders[1].handle])
    left = corpus.lease_urls(urls, request=FIRST)
    assert left.order[1] is None
    assert left.orders == [first.orders[0], first.orders[2]]


def test_repeated_signals_count_once(corpus: Corpus) -> None:
    first = corpus.signal([*URLS, "https://unknown.example/"], source="ping", request=FIRST)
    assert first == len(URLS)
    assert first.rows.tolist() == [RowStatus.DONE] * len(URLS) + [RowStatus.UNKNOWN]
    again = corpus.signal([*URLS, "https://unknown.example/"], source="ping", request=FIRST)
    assert again == 0
    assert again.rows.tolist() == [RowStatus.DUPLICATE] * len(URLS) + [RowStatus.UNKNOWN]
    assert corpus.stats().n_signals == len(URLS)


def test_repeated_counts_of_requests_count_once(corpus: Corpus) -> None:
    first = corpus.requests(["no url", *URLS], 3, request=FIRST)
    assert first == len(URLS)
    again = corpus.requests(["no url", *URLS], 3, request=FIRST)
    assert again == 0
    assert again.rows.tolist() == [RowStatus.REFUSED] + [RowStatus.DUPLICATE] * len(URLS)


def test_rows_say_what_became_of_them(corpus: Corpus) -> None:
    urls = [URLS[0], "https://new.example/", "no url"]
    done, duplicate, refused = RowStatus.DONE, RowStatus.DUPLICATE, RowStatus.REFUSED
    assert corpus.add(urls).rows.tolist() == [duplicate, done, refused]
    assert corpus.set(urls, importance=2.0).rows.tolist() == [done, done, refused]
    each = corpus.set_each(urls, importance=[1.0, 2.0, 3.0])
    assert each.rows.tolist() == [done, done, refused]
    assert corpus.remove(urls).rows.tolist() == [done, done, refused]
    assert corpus.remove(urls).rows.tolist() == [RowStatus.UNKNOWN, RowStatus.UNKNOWN, refused]
    (order,) = corpus.lease(1)
    assert corpus.extend([order.handle, 77], seconds=60).rows.tolist() == [
        done,
        RowStatus.UNKNOWN,
    ]
    assert corpus.release([77, order.handle]).rows.tolist() == [RowStatus.UNKNOWN, done]


def test_reports_say_whether_a_page_is_known(corpus: Corpus) -> None:
    from recrawl import Outcome  # noqa: PLC0415

    orders = corpus.lease(2)
    handles = [orders[0].handle, orders[0].handle, orders[1].handle, (1 << 40), 0]
    outcomes = [Outcome(handle=handle, digest=b"x") for handle in handles[:-1]]
    outcomes.append(Outcome(url="https://unknown.example/", digest=b"x"))
    found = corpus.report(outcomes)
    done, unknown = RowStatus.DONE, RowStatus.UNKNOWN
    assert found.rows.tolist() == [done, RowStatus.DUPLICATE, done, unknown, unknown]
    again = corpus.report(outcomes[:1])
    assert again.rows.tolist() == [RowStatus.DUPLICATE]


def test_pages_are_listed_by_cursor(corpus: Corpus) -> None:
    corpus.remove(URLS[3:9])
    seen: list[str] = []
    cursor: str | None = None
    while True:
        batch, cursor = corpus.pages_after(cursor, columns=["url"], limit=4)
        assert batch.num_rows <= 4
        seen += batch.column("url").to_pylist()
        if cursor is None:
            break
    assert sorted(seen) == sorted(URLS[:3] + URLS[9:])
    for wrong in ("", "1_0_0", "0_99_0", "0_0", "-1_0_0", "x"):
        with pytest.raises(ValueError, match="cursor"):
            corpus.pages_after(wrong)
    with pytest.raises(ValueError, match="limit"):
        corpus.pages_after(limit=0)


def test_a_host_shows_its_settings(corpus: Corpus) -> None:
    assert corpus.host("unknown.example").n_pages == 0
    corpus.set_host("site1.example", delay="5s", in_flight_max=3, is_closed=True)
    host = corpus.host("SITE1.example")
    assert (host.host, host.n_pages, host.delay_seconds) == ("site1.example", 5, 5.0)
    assert (host.in_flight_max, host.is_closed, host.blocked_until_ms) == (3, True, None)
    assert np.isclose(corpus.host("site2.example").delay_seconds, 0.0)


def keys(*names: str) -> list[RequestKey | None]:
    return [RequestKey(name.encode(), b"digest") if name else None for name in names]


def test_several_callers_lease_at_once_and_each_repeats_its_own(corpus: Corpus) -> None:
    counts, requests = [3, 1, 2, 1], keys("a", "", "b", "c")
    first = corpus.lease_each(counts, requests=requests)
    handles = [[order.handle for order in orders] for orders in first if isinstance(orders, list)]
    assert [len(one) for one in handles] == counts
    assert len({handle for one in handles for handle in one}) == 7
    again = corpus.lease_each(counts, requests=requests)
    for i in (0, 2, 3):
        assert sorted(again[i]) == sorted(first[i])  # type: ignore[arg-type]
    assert not {order.handle for order in again[1]} & set(handles[1])  # type: ignore[union-attr]
    assert sorted(corpus.lease(2, request=requests[2])) == sorted(first[2])  # type: ignore[arg-type]


def test_the_orders_of_several_callers_survive_a_restart(
    open_corpus: Callable[..., Corpus],
) -> None:
    corpus = open_corpus(corpus={"partitions": 2})
    corpus.add(URLS)
    first = corpus.lease_each([2, 3], requests=keys("a", "b"))
    corpus.close()
    opened = open_corpus(corpus={"partitions": 2})
    again = opened.lease_each([3, 2], requests=keys("b", "a"))
    assert [sorted(one) for one in again] == [sorted(one) for one in first[::-1]]  # type: ignore[arg-type]


def test_an_error_of_one_caller_is_not_one_of_the_others(corpus: Corpus) -> None:
    corpus.lease(1, request=FIRST)
    found = corpus.lease_each([1, 1, 1], requests=[OTHER_BODY, SECOND, None])
    assert isinstance(found[0], RequestKeyReused)
    assert [len(one) for one in found[1:]] == [1, 1]  # type: ignore[arg-type]


def test_the_same_request_twice_at_once_gets_the_same_orders(corpus: Corpus) -> None:
    first, second, third = corpus.lease_each([2, 2, 1], requests=[FIRST, FIRST, None])
    assert first == second
    assert len(first) == 2  # type: ignore[arg-type]
    assert len(third) == 1  # type: ignore[arg-type]


def test_who_comes_first_gets_the_orders_that_there_are(corpus: Corpus) -> None:
    found = corpus.lease_each([15, 15, 2], requests=keys("a", "b", ""))
    assert [len(one) for one in found] == [15, 5, 0]  # type: ignore[arg-type]
    shortfalls = [one.shortfall for one in found]  # type: ignore[union-attr]
    assert shortfalls[0] is None
    assert [(one.n_requested, one.n_leased) for one in shortfalls[1:] if one] == [(15, 5), (2, 0)]
