"""The short way of a few plain outcomes has the same effect as the general one."""

import random
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pytest

from recrawl.corpus import Corpus, Outcome
from recrawl.corpus.leasing import reports
from recrawl.errors import EventError
from recrawl.ledger import Record
from recrawl.node.few_reported import few_outcomes_entry, unpack_few
from recrawl.node.records import PagesReported, entry_of, record_of
from recrawl.node.reporting.few import begin_few, is_plain
from recrawl.store.fetch_records import Content
from recrawl.testing.stores import contents_of
from tests.manual_clock import ManualClock

Open: TypeAlias = Callable[..., Corpus]
PAGES = [f"https://{host}.example/{i}" for host in "abc" for i in range(40)]
FEW_SCHEMA = 137


def random_outcome(draw: random.Random, handle: int, now_ms: int) -> Outcome:
    found: dict[str, Any] = draw.choice(
        [
            {"digest": draw.choice([b"1", b"2", b"3" * 16])},
            {"digest": b"4", "etag": b'"e"', "last_modified": b"Tue, 17 Nov 2026 10:00:00 GMT"},
            {"changed": draw.random() < 0.5},
            {"changed": True, "digest": b"7", "status": 203},
            {"status": 304, "digest": b"8"},
            {"status": 304, "etag": b'"f"'},
        ]
    )
    at_ms = draw.choice([0, now_ms - 5_000, now_ms + 500_000])
    return Outcome(handle=handle, fetched_at_ms=at_ms, **found)


def random_failure(draw: random.Random, handle: int) -> Outcome:
    found: dict[str, Any] = draw.choice(
        [
            {"status": 0},
            {"status": 404, "digest": b"9", "etag": b'"g"'},
            {"status": 503, "retry_after_seconds": draw.choice([30.0, float("inf")])},
            {"status": 301, "moved_to": "https://a.example/moved"},
            {"status": 200, "disallowed": True},
            {"digest": b"5", "etag": b"x" * 2_000},
            {"digest": b"6", "last_modified": b"a\nb"},
        ]
    )
    if draw.random() < 0.1:
        found = draw.choice([{"digest": b"6", "divergence": 0.5}, {"digest": b"6", "sketch": b"1"}])
    return Outcome(handle=handle, **found)


def run(
    corpus: Corpus,
    clock: ManualClock,
    variant: int,
    monkeypatch: pytest.MonkeyPatch,
    n_few: int,
    *,
    has_failures: bool = False,
) -> list[Any]:
    draw = random.Random(variant)
    monkeypatch.setattr(reports, "FEW_OUTCOMES_MAX", n_few)
    corpus.add(PAGES)
    results: list[Any] = []
    held: list[int] = []
    for _ in range(25):
        clock.pass_seconds(draw.choice([1, 5, 60, 90_000]))
        held += sorted(order.handle for order in corpus.lease(draw.randrange(1, 12)))
        draw.shuffle(held)
        some = [held.pop() for _ in range(min(draw.randrange(5), len(held)))]
        outcomes = [random_outcome(draw, handle, clock.wall_ms()) for handle in some]
        if has_failures:
            # Most of what is held, because few of the older orders are still known.
            outcomes += [random_failure(draw, held.pop()) for _ in held[2:]]
        if draw.random() < 0.3:
            outcomes += [random_outcome(draw, handle, clock.wall_ms()) for handle in some[:1]]
        if draw.random() < 0.2:
            outcomes.append(Outcome(handle=1 << 40, changed=True))
        reported = corpus.report(outcomes)
        results += [column.tolist() for column in (reported.counted, reported.transition)]
        results += [reported.has_dropped.tolist(), reported.is_known.tolist()]
    results += [corpus.nodes[0].shard.digest(), contents_of(corpus.nodes[0].store, len(PAGES))]
    return results


@pytest.mark.parametrize("trusts", ["ignore", "trust"])
@pytest.mark.parametrize("has_failures", [False, True])
@pytest.mark.parametrize("variant", range(4))
def test_the_short_way_has_the_same_effect(
    open_corpus: Open,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    variant: int,
    has_failures: bool,
    trusts: str,
) -> None:
    sections: dict[str, Any] = {"learning": {"last_modified": trusts}}
    begin_ms = clock.wall_ms()
    general = run(
        open_corpus("general", **sections),
        clock,
        variant,
        monkeypatch,
        0,
        has_failures=has_failures,
    )
    clock.pass_seconds((begin_ms - clock.wall_ms()) / 1000)
    # Not from the log: meanwhile it may have been truncated after a snapshot.
    n_short = 0

    def count_short(*args: Any) -> Any:
        nonlocal n_short
        begun = begin_few(*args)
        n_short += begun is not None
        return begun

    monkeypatch.setattr(reports, "begin_few", count_short)
    corpus = open_corpus("few", **sections)
    found = run(corpus, clock, variant, monkeypatch, 64, has_failures=has_failures)
    assert n_short > 1
    # The identity of a corpus and its owner are random, so digests of the state may differ in them.
    assert found[:-2] == general[:-2]
    assert found[-1] == general[-1]


def test_a_replay_of_the_short_way_gives_the_same_state(
    open_corpus: Open, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = open_corpus()
    run(corpus, clock, 7, monkeypatch, 64)
    digest, position = corpus.nodes[0].shard.digest(), corpus.nodes[0].position
    stored = contents_of(corpus.nodes[0].store, len(PAGES))
    reader = open_corpus(read_only=True)
    assert reader.nodes[0].position == position
    assert reader.nodes[0].shard.digest() == digest
    assert contents_of(reader.nodes[0].store, len(PAGES))["pages"] == stored["pages"]


def test_partitions_get_their_own_outcomes(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(corpus={"partitions": 3})
    corpus.add(PAGES)
    orders = corpus.lease(len(PAGES))
    clock.pass_seconds(5)
    outcomes = [Outcome(handle=order.handle, digest=b"1") for order in orders]
    assert corpus.report(outcomes).counted.all()
    assert not corpus.report(outcomes).counted.any()


def test_a_large_report_is_short_for_partitions_with_few_outcomes(
    open_corpus: Open, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "FEW_OUTCOMES_MAX", 50)
    corpus = open_corpus(corpus={"partitions": 2}, politeness={"in_flight_max": 500, "delay": 0})
    corpus.add([f"https://{i}.example/" for i in range(300)])
    orders = corpus.lease_table(300)
    # All of one partition, and a few of the other one.
    partition = orders.column("handle").to_numpy() & 4095
    rows = np.concatenate([np.flatnonzero(partition == 0), np.flatnonzero(partition == 1)[:40]])
    handles = orders.column("handle").take(pa.array(np.random.default_rng(1).permutation(rows)))
    outcomes = pa.table({"handle": handles, "digest": [b"%d" % i for i in range(rows.size)]})
    clock.pass_seconds(5)
    assert corpus.report(outcomes).counted.all()
    for node, n_short in zip(corpus.nodes, (0, 1), strict=True):
        records = [record.schema for _, record in node.ledger.read(node.ledger.first)]
        assert records.count(FEW_SCHEMA) == n_short
    assert not corpus.report(outcomes).counted.any()


@pytest.mark.parametrize(
    "given",
    [
        {"handle": 0, "url": PAGES[0]},
        {"status": 404},
        {"status": 503},
        {"status": "200"},
        {"digest": "text"},
        {"digest": None},
        {"etag": b"a\nb"},
        {"etag": b"x" * 2_000},
        {"last_modified": "Tue"},
        {"moved_to": "https://a.example/"},
        {"disallowed": True},
        {"divergence": 0.5},
        {"sketch": b"1"},
        {"body": b"1"},
        {"text": "1"},
        {"retry_after_seconds": 1.0},
        {"changed": 1},
    ],
)
def test_other_outcomes_go_the_general_way(given: dict[str, Any]) -> None:
    assert is_plain(Outcome(handle=5, digest=b"1"))
    fields: dict[str, Any] = {"handle": 5, "digest": b"1"}
    assert not is_plain(Outcome(**(fields | given)))
    assert not is_plain("https://a.example/")


def few(n: int) -> Any:
    contents: list[Content] = [
        (bytes([i]) * 16, None if i % 2 else b"etag", None, None, None, None) for i in range(n)
    ]
    return few_outcomes_entry(
        contents,
        page=range(n),
        order=range(10, 10 + n),
        fetched_at_ms=[1 << 40] * n,
        last_modified_at_ms=[0] * n,
        divergence=[float("nan")] * n,
        retry_after_seconds=[0.5] * n,
        verdict=[1] * n,
        status_class=[2] * n,
    )


def test_a_record_is_read_as_it_was_written() -> None:
    entry = few(3)
    record = record_of(entry)
    assert record.schema == FEW_SCHEMA
    assert unpack_few(record.data).contents == entry.contents
    read = entry_of(record)
    assert isinstance(read, PagesReported)
    assert read.etag.to_pylist() == [b"etag", None, b"etag"]
    assert read.digest.to_pylist() == [bytes([i]) * 16 for i in range(3)]
    for column, written in zip(read.outcomes, entry.outcomes, strict=True):
        np.testing.assert_array_equal(column, written)
    assert len(record_of(few(1)).data) < 80


def test_damaged_records_are_errors() -> None:
    data = record_of(few(3)).data
    for n in range(len(data)):
        with pytest.raises(EventError):
            entry_of(Record(FEW_SCHEMA, data[:n]))
    with pytest.raises(EventError):
        entry_of(Record(FEW_SCHEMA, data + b"1"))
    with pytest.raises(EventError):
        entry_of(Record(FEW_SCHEMA, b"\xff" * 8 + data[8:]))
    wrong_digest = data.replace(b"\x10\x00" + b"\x02" * 16, b"\x0f\x00" + b"\x02" * 15)
    with pytest.raises(EventError):
        entry_of(Record(FEW_SCHEMA, wrong_digest))
