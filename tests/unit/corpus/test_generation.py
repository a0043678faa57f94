"""Handles and cursors carry the layout generation, and those of another one are recognised."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from recrawl import Corpus, Outcome
from recrawl.corpus.feed.change_feed import CorpusCursor
from recrawl.errors import RecrawlError
from recrawl.node.config.values import PARTITIONS_MAX
from recrawl.node.durability.corpus_format import GENERATION_MAX
from recrawl.node.orders import ORDERS_MAX, handle_of, order_of, partition_of
from recrawl.store import Cursor

Open = Callable[..., Corpus]
URLS = [f"https://h{i}.example/" for i in range(10)]


def set_generation(folder: Path, generation: int) -> None:
    values = json.loads((folder / "FORMAT").read_text())
    (folder / "FORMAT").write_text(json.dumps(values | {"generation": generation}))


def test_every_part_of_a_handle_comes_back() -> None:
    order = np.array([1, 7, 1 << 32, ORDERS_MAX - 1])
    for partition in (0, 5, PARTITIONS_MAX - 1):
        for generation in (0, 1, GENERATION_MAX):
            handle = handle_of(order, partition, generation)
            assert (handle > 0).all()
            assert order_of(handle).tolist() == order.tolist()
            assert (partition_of(handle, generation) == partition).all()
            assert (partition_of(handle, (generation + 1) % 16) == -1).all()
    # As in 0.1.0.
    assert handle_of(np.array([3]), 2).tolist() == [3 << 12 | 2]
    assert partition_of(np.array([0, -1, -(1 << 62)])).tolist() == [-1, -1, -1]


def test_orders_of_another_generation_are_ignored(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    handles = [order.handle for order in corpus.lease(10)]
    corpus.snapshot()  # the log of a new generation does not have its pages
    corpus.close()
    set_generation(corpus.folder, 1)
    corpus = open_corpus()
    assert corpus.format.generation == 1
    assert corpus.extend(handles, seconds=60) == 0
    assert corpus.release(handles) == 0
    outcomes = [Outcome(handle=handle, digest=b"1") for handle in handles]
    assert not corpus.report(outcomes).counted.any()
    assert corpus.stats().in_flight == 10
    ours = [handle + (1 << 59) for handle in handles]
    assert corpus.report([Outcome(handle=h, digest=b"1") for h in ours]).counted.all()
    corpus.add(["https://new.example/"])
    (order,) = corpus.lease(1)
    assert order.handle >> 59 == 1


def test_cursors_of_another_generation_are_refused(open_corpus: Open) -> None:
    corpus = open_corpus(corpus={"partitions": 2})
    corpus.add(URLS)
    corpus.report([Outcome(handle=order.handle, digest=b"1") for order in corpus.lease(10)])
    old = corpus.changes()[3].cursor
    corpus.commit_changes("nightly", old)
    corpus.snapshot()  # the log of a new generation does not have its pages
    corpus.close()
    set_generation(corpus.folder, 2)
    corpus = open_corpus(corpus={"partitions": 2})
    with pytest.raises(ValueError, match="generation 0, which this change feed does not know"):
        corpus.changes(old)
    (consumer,) = corpus.consumers()
    assert consumer.problem is not None
    assert "layout generation 0" in consumer.problem
    changes = corpus.changes()
    assert len(changes) == 10
    assert changes[4].cursor.startswith("g2_")
    assert corpus.changes(changes[4].cursor) == changes[5:]
    assert corpus.commit_changes("hourly", changes[4].cursor) == changes[4].cursor
    assert corpus.changes(consumer="hourly") == changes[5:]
    assert corpus.commit_changes("other", "newest").startswith("g2_")


def test_the_text_of_a_cursor_is_that_of_0_1_0_in_generation_0() -> None:
    places = (Cursor(5, 1), Cursor(7, 0))
    text = str(CorpusCursor(places))
    assert text == f"{places[0]}_{places[1]}"
    assert CorpusCursor.parse(text, 2) == CorpusCursor(places)
    later = CorpusCursor(places, 3)
    assert CorpusCursor.parse(str(later), 2, 3) == later
    for wrong in ("g_1", "g1", "g1_", "gx_5", "g1_g1_5"):
        with pytest.raises(ValueError, match="cursor"):
            CorpusCursor.parse(wrong, 1)


def test_a_partition_stops_when_its_order_numbers_are_used_up(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    registers = corpus.nodes[0].shard.tables.registers
    registers.first_order[0] = registers.next_order[0] = ORDERS_MAX - 3
    orders = corpus.lease(10)
    assert len(orders) == 3
    assert corpus.report([Outcome(handle=o.handle, digest=b"1") for o in orders]).counted.all()
    with pytest.raises(RecrawlError, match="all 140,737,488,355,328 order numbers"):
        corpus.lease(1)
