"""A record may carry the key of a client's request, which is remembered for a day."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import recrawl
from recrawl import Corpus, CorpusConfig, Outcome
from recrawl.errors import EventError
from recrawl.ledger import RocksLog, SnapshotFolder
from recrawl.node.durability.recovery import Partition, recover_node
from recrawl.node.node import Node
from recrawl.node.records import (
    NODE_SCHEMAS,
    RequestKey,
    entry_of,
    keyed_record,
    record_of,
    request_of,
    without_key,
)
from recrawl.shard import PagesRemoved, event_of
from recrawl.store import REQUEST_KEPT_MS, Store, request_keys
from recrawl.testing.stores import contents_of
from tests.corpus_fixtures import IMPOLITE
from tests.manual_clock import ManualClock
from tests.unit.node.durability.test_recovery import crashed_copy

Open = Callable[..., Corpus]
CONFIG = CorpusConfig.from_dict({"politeness": IMPOLITE})
URLS = [f"https://h{i}.example/" for i in range(5)]


def pages(node: Node, urls: list[str]) -> Any:
    return node.store.pages_of(pa.array(urls))


def test_a_record_with_a_key_contains_the_other_record() -> None:
    inner = record_of(event_of(PagesRemoved, page=[1, 2]))
    request = RequestKey(b"k" * 64, b"d" * 32)
    wrapped = keyed_record(inner, request)
    assert wrapped.schema == 111
    assert without_key(wrapped) == inner
    assert request_of(wrapped) == request
    assert request_of(inner) is None
    assert entry_of(wrapped).page.tolist() == [1, 2]  # type: ignore[union-attr]
    assert set(NODE_SCHEMAS[111].names) == {"key", "digest", "schema", "data"}


@pytest.mark.parametrize(("key", "digest"), [(b"", b"d"), (b"k" * 65, b"d"), (b"k", b"d" * 33)])
def test_keys_and_digests_have_limits(key: bytes, digest: bytes) -> None:
    inner = record_of(event_of(PagesRemoved, page=[1]))
    with pytest.raises(ValueError, match="bytes"):
        keyed_record(inner, RequestKey(key, digest))


def test_damaged_records_with_a_key_raise_event_errors() -> None:
    wrapped = keyed_record(record_of(event_of(PagesRemoved, page=[1])), RequestKey(b"k", b""))
    with pytest.raises(EventError):
        entry_of(wrapped._replace(data=wrapped.data[:40]))


def test_a_request_is_found_also_after_opening_again_and_after_a_replay(
    tmp_path: Path, clock: ManualClock
) -> None:
    folder = tmp_path / "a"
    with recrawl.open(folder, CONFIG, clock=clock) as corpus:
        corpus.add(URLS)
        node = corpus.nodes[0]
        assert node.find_request(b"one") is None
        position = node.position
        entries = [event_of(PagesRemoved, page=[p]) for p in pages(node, URLS[:2])]
        applied = node.submit(entries, request=RequestKey(b"one", b"digest"))
        assert [bool(one.valid[0]) for one in applied] == [True, True]
        expected = node.find_request(b"one")
        assert expected is not None
        assert expected == (position + 1, b"digest", node.shard.now_ms)
        # Only the last of several records carries the key.
        assert [request_of(r) is None for _, r in node.ledger.read(position)] == [True, False]
        killed = crashed_copy(folder, tmp_path / "killed")
    for path in (folder, killed):
        with recrawl.open(path, CONFIG, clock=clock) as corpus:
            assert corpus.nodes[0].find_request(b"one") == expected
            assert corpus.stats().n_pages == 3
        with recrawl.open(path, CONFIG, read_only=True, clock=clock) as corpus:
            assert corpus.nodes[0].find_request(b"one") == expected
    # From the log alone.
    with RocksLog.open(folder / "log") as log:
        anew = Partition(0, log.partition(0), tmp_path / "s", SnapshotFolder(tmp_path / "n"))
        node = recover_node(anew)
        assert node.find_request(b"one") == expected
        node.store.close()


def test_shard_and_store_are_those_without_keys(tmp_path: Path) -> None:
    states = []
    for is_keyed in (False, True):
        clock = ManualClock()
        with recrawl.open(tmp_path / str(is_keyed), CONFIG, clock=clock) as corpus:
            node = corpus.nodes[0]
            begin, n_requests = node.begin, 0

            def keyed(entries: Any, begin: Any = begin, **_: Any) -> Any:
                nonlocal n_requests
                n_requests += 1
                key = RequestKey(b"%d" % n_requests, b"")
                return begin(entries, request=key if entries else None)

            if is_keyed:
                node.begin = keyed  # type: ignore[method-assign]
            # The owner's number is random, and part of the shard.
            node.shard.tables.registers.owner[0] = 7
            corpus.add(URLS)
            clock.pass_seconds(60)
            orders = corpus.lease(4)
            corpus.report([Outcome(handle=o.handle, digest=b"1", etag=b"x") for o in orders])
            corpus.signal(URLS, source="feed")
            corpus.remove(URLS[:1])
            clock.pass_seconds(60)
            history = corpus.explain(URLS[1])
            n_slots = int(node.shard.tables.registers.n_slots[0])
            contents = contents_of(node.store, n_slots)
            states.append((node.shard.digest(), contents, node.position, history))
            assert (n_requests > 4) is is_keyed
    assert states[0] == states[1]


def test_the_history_of_a_page_includes_records_with_keys(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    node = corpus.nodes[0]
    submit = node.submit
    node.submit = lambda entries, **_: submit(  # type: ignore[method-assign]
        entries, request=RequestKey(b"r", b"") if entries else None
    )
    corpus.report([Outcome(handle=o.handle, digest=b"1") for o in corpus.lease(5)])
    history = corpus.history(URLS[0])
    assert history is not None
    assert (len(history.polls), len(history.orders)) == (1, 1)


def test_a_record_without_effect_completes_no_request(open_corpus: Open) -> None:
    node = open_corpus().nodes[0]
    node.submit([event_of(PagesRemoved, page=[123])], request=RequestKey(b"k", b""))
    assert node.find_request(b"k") is None
    with pytest.raises(ValueError, match="at least one entry"):
        node.submit([], request=RequestKey(b"k", b""))


def test_a_key_is_forgotten_after_a_day(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    node = corpus.nodes[0]
    page = pages(node, URLS)
    node.submit([event_of(PagesRemoved, page=page[:1])], request=RequestKey(b"k", b"1"))
    first = node.find_request(b"k")
    # A second request with the same key does not replace the first within a day.
    node.submit([event_of(PagesRemoved, page=page[1:2])], request=RequestKey(b"k", b"2"))
    assert node.find_request(b"k") == first
    clock.pass_seconds(REQUEST_KEPT_MS / 1000 + 60)
    node.tick(corpus.time)
    assert node.find_request(b"k") is None
    node.submit([event_of(PagesRemoved, page=page[2:3])], request=RequestKey(b"k", b"3"))
    found = node.find_request(b"k")
    assert found is not None
    assert found.digest == b"3"


@pytest.mark.parametrize("n_per_write", [1, 3, 100])
def test_only_so_many_keys_are_kept_however_records_are_grouped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_per_write: int
) -> None:
    monkeypatch.setattr(request_keys, "REQUESTS_MAX", 4)
    rng = np.random.default_rng(5)
    rows = [(b"%d" % rng.integers(8), b"%d" % i, i, 1000 * i) for i in range(60)]
    # What a client may rely on, computed row by row.
    expected: dict[bytes, tuple[int, int]] = {}
    n_added = 0
    for key, _, position, _ in rows:
        if key not in expected or expected[key][0] < n_added - 4:
            expected[key] = (n_added, position)
            n_added += 1
    with Store.open(tmp_path) as store:
        for start in range(0, len(rows), n_per_write):
            batch = store.batch()
            for key, digest, position, at_ms in rows[start : start + n_per_write]:
                batch.add_request(key, digest, position, at_ms)
            store.write(batch, start + n_per_write)
        for key in {row[0] for row in rows}:
            found = store.find_request(key, 60_000)
            number, position = expected[key]
            assert (found is None) == (number < n_added - 4)
            assert found is None or found.position == position
        # Nothing else is left once everything is written one by one.
        n_stored = sum(1 for _ in store._kv.scan(b"s", b"t"))
        assert n_stored <= (5 if n_per_write == 1 else 60)
