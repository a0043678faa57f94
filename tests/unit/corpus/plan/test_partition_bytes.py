"""What a plan needs of partitions survives being sent, and nothing else is accepted."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from recrawl.corpus import Corpus
from recrawl.corpus.plan.corpus_plan import plan_partitions
from recrawl.corpus.plan.partition_bytes import decode_partitions, encode_partitions
from recrawl.corpus.plan.planned_partition import read_nodes
from recrawl.corpus.plan.targets import Target

Open = Callable[..., Corpus]


@pytest.fixture
def corpus(open_corpus: Open) -> Corpus:
    corpus = open_corpus(
        corpus={"partitions": 4},
        pattern=[{"match": "/product/*", "kind": "product"}],
        budget={"rate": "10/d"},
    )
    corpus.add([f"https://h{i % 3}.example/{k}/{i}" for i in range(30) for k in ("product", "a")])
    return corpus


def test_partitions_are_the_same_after_being_sent(corpus: Corpus) -> None:
    nodes = corpus.nodes.all
    assert min(node.shard.n_pages for node in nodes) == 0  # also of a partition without pages
    table = nodes[0].shard.terms.table
    patterns = ["/a/*", "h1.example", "product", "ftp://x/*"]
    parts = read_nodes(nodes, 40, patterns=patterns, with_names=True)
    assert {pattern for part in parts for pattern in part.matches} >= {"/a/*", "h1.example"}
    assert not any("ftp://x/*" in part.matches for part in parts)
    found = decode_partitions(encode_partitions(parts), table)
    for ours, theirs in zip(found, parts, strict=True):
        for name in ("partition", "n_pages", "n_polls", "budget", "kinds"):
            assert getattr(ours, name) == getattr(theirs, name)
        for name in ("word", "n_represented", "cost_code", "is_important", "kind", "bounds"):
            column, other = getattr(ours, name), getattr(theirs, name)
            np.testing.assert_array_equal(column, other)
            assert column.dtype == other.dtype
        for column, other in zip(ours.hosts, theirs.hosts, strict=True):
            np.testing.assert_array_equal(column, other)
        np.testing.assert_array_equal(ours.group, theirs.group)
        assert ours.matches.keys() == theirs.matches.keys()
        for pattern, rows in ours.matches.items():
            np.testing.assert_array_equal(rows, theirs.matches[pattern])
        assert ours.terms.learning_horizon == theirs.terms.learning_horizon
        np.testing.assert_array_equal(ours.terms.recall, theirs.terms.recall)
    targets = [Target.parse("50 % of /a/*"), Target.parse("50 % of product")]
    one, other = (plan_partitions(each, now_ms=0, targets=targets) for each in (found, parts))
    np.testing.assert_array_equal(one.plan.curve.freshness, other.plan.curve.freshness)
    assert (one.hosts, one.targets, one.together) == (other.hosts, other.targets, other.together)


def test_what_is_sent_is_small(corpus: Corpus) -> None:
    parts = read_nodes(corpus.nodes.all, 0)
    assert [part.word.size for part in parts] == [0] * 4
    assert len(encode_partitions(parts)) < 20_000
    assert decode_partitions(encode_partitions([]), parts[0].terms.table) == []


def test_other_streams_are_refused(corpus: Corpus) -> None:
    node = corpus.nodes.all[0]
    table = node.shard.terms.table
    data = encode_partitions(read_nodes(corpus.nodes.all, 40))

    def encode(found: pa.Table) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, found.schema) as writer:
            writer.write_table(found)
        encoded: bytes = sink.getvalue().to_pybytes()
        return encoded

    with pa.ipc.open_stream(data) as reader:
        sent = reader.read_all()
    for wrong in (b"", b"nothing", data[: len(data) // 2]):
        with pytest.raises(ValueError, match=r"valid stream|version|columns"):
            decode_partitions(wrong, table)
    for key, words in ((b"2", "another version"), (b"1", "other columns")):
        other = sent.drop_columns(["kind"]).replace_schema_metadata({b"recrawl.plan": key})
        with pytest.raises(ValueError, match=words):
            decode_partitions(encode(other), table)
    smaller = table._replace(due=table.due[:, :, :-1])
    with pytest.raises(ValueError, match="another table"):
        decode_partitions(data, smaller)
    for name in ("group", "host_name", "is_match", "n_represented"):
        place = sent.schema.get_field_index(name)
        values = [[*row, row[-1] if row else 1] for row in sent.column(name).to_pylist()]
        if name == "group":
            values = [[9_999] * len(row) for row in sent.column(name).to_pylist()]
        field = sent.schema.field(name)
        if name == "host_name":
            values = [[*row, None] for row in sent.column(name).to_pylist()]
        if name == "is_match":
            values = [[True]] * sent.num_rows
        other = sent.set_column(place, field, pa.array(values, field.type))
        with pytest.raises(ValueError, match=r"wrong number|not sent"):
            decode_partitions(encode(other), table)
