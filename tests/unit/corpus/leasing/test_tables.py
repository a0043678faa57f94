"""A lease as an Arrow table has the orders of any lease."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import recrawl
from recrawl.corpus import Corpus, Order, Outcome, Transition
from recrawl.corpus.leasing.small_calls import LeaseShare
from recrawl.node.orders import OrderRows
from tests.manual_clock import ManualClock

Open = Callable[..., Corpus]
URLS = [f"https://h{i % 3}.example/page/{i}" for i in range(60)]


def order_row(order: Order) -> dict[str, Any]:
    metadata = None if order.metadata is None else json.dumps(order.metadata, separators=(",", ":"))
    return order._asdict() | {"reason": order.reason.name.lower(), "metadata": metadata}


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("n", [7, 60])
def test_a_table_has_the_fields_of_the_orders(
    open_corpus: Open, clock: ManualClock, n: int, partitions: int
) -> None:
    found = []
    for folder in ("objects", "table"):
        corpus = open_corpus(folder, corpus={"partitions": partitions})
        corpus.add([URLS[0]], doc_id=["first"], metadata=[{"a": [1]}])
        corpus.add(["https://h1.example/ü"])
        corpus.add(URLS[1:])
        orders = corpus.lease(60)
        answers = [
            Outcome(handle=order.handle, digest=b"x", etag=b'"1"' if i % 2 else None)
            for i, order in enumerate(sorted(orders, key=lambda order: order.url))
        ]
        assert corpus.report(answers).counted.all()
        found.append(corpus)
    clock.pass_seconds(30 * 86_400)
    objects = [order_row(order) for order in found[0].lease(n, exact=True)]
    table = found[1].lease_table(n, exact=True)
    assert table.to_pylist() == objects
    assert table.schema.names == list(Order._fields)


def test_a_table_is_reported_by_its_handles(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    table = corpus.lease_table(40)
    assert table.num_rows == 40
    assert corpus.lease_table(40).num_rows == 20
    digest = pa.array([b"0123456789abcdef"] * 40, pa.binary(16))
    reported = corpus.report(pa.table({"handle": table["handle"], "digest": digest}))
    assert reported.counted.all()
    clock.pass_seconds(86_400)
    again = corpus.lease_table(40)
    assert set(again["url"].to_pylist()) <= set(URLS)


def test_a_table_without_orders_has_its_columns(open_corpus: Open) -> None:
    corpus = open_corpus(budget={"rate": "24/day", "between": "00:00-00:01"})
    full = open_corpus("full")
    full.add(URLS)
    assert corpus.lease_table(5).schema == full.lease_table(5).schema
    assert corpus.lease_table(5).num_rows == full.lease_table(0).num_rows == 0
    with pytest.raises(ValueError, match="seconds must be above 0"):
        full.lease_table(5, seconds=-1.0)


def test_coroutines_lease_tables(tmp_path: Path) -> None:
    async def main() -> int:
        async with recrawl.AsyncCorpus(tmp_path / "corpus") as corpus:
            await corpus.add(URLS)
            return int((await corpus.lease_table(2)).num_rows)

    assert asyncio.run(main()) == 2


def test_orders_are_made_when_they_are_asked_for(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    shares = [LeaseShare(10)]
    (rows,) = corpus._leasing._find(shares, seconds=None, exact=False, run=None)
    assert isinstance(rows, OrderRows)
    orders = list(rows)
    assert rows[3] == orders[3]
    assert rows[-1] == orders[-1]
    assert list(rows[2:5]) == orders[2:5]
    assert list(rows[8:] + rows[:2]) == orders[8:] + orders[:2]
    assert rows[:] is rows
    assert orders[0] in rows
    with pytest.raises(IndexError):
        rows[10]


def test_validators_of_failures_are_not_kept(open_corpus: Open, clock: ManualClock) -> None:
    """A server would say that a page has not changed whose body never arrived."""
    corpus = open_corpus()
    corpus.add(URLS)
    orders = corpus.lease(60)
    failed, forbidden, found = orders[:20], orders[20:40], orders[40:]
    corpus.report(
        Outcome(handle=order.handle, status=503, etag=b'"1"', digest=b"error") for order in failed
    )
    corpus.report(
        Outcome(handle=order.handle, status=0, disallowed=True, etag=b'"2"') for order in forbidden
    )
    corpus.report(Outcome(handle=order.handle, digest=b"a", etag=b'"3"') for order in found)
    expected = {
        **{order.url: None for order in [*failed, *forbidden]},
        **{order.url: b'"3"' for order in found},
    }
    for _ in range(2):
        clock.pass_seconds(90 * 86_400)
        orders = corpus.lease(60)
        assert {order.url: order.etag for order in orders} == expected
        corpus.report(
            Outcome(handle=order.handle, status=0, etag=b'"cut"', last_modified=b"x")
            for order in orders
        )
    # The page of an error is not what the page showed before.
    clock.pass_seconds(90 * 86_400)
    orders = corpus.lease(60)
    corpus.report(Outcome(handle=order.handle, digest=b"a") for order in orders)
    first = {order.url for order in failed}
    changes = [one for one in corpus.changes(limit=1000) if one.url in first]
    assert [one.what for one in changes] == [Transition.NEW] * 20
