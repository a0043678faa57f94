"""The user's own data of pages: doc_id and metadata, from `add` to orders, changes and exports."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import recrawl
from recrawl import Outcome
from recrawl.corpus import Corpus, CorpusConfig
from recrawl.store import DOC_ID_BYTES_MAX, METADATA_BYTES_MAX
from recrawl.testing.stores import contents_of
from tests.manual_clock import ManualClock

Open = Callable[..., Corpus]
URL = "https://example.com/a"
URLS = [f"https://h{i % 3}.example/{i}" for i in range(40)]


def own_data(corpus: Corpus, url: str) -> tuple[str | None, dict[str, object] | None]:
    found = corpus.explain(url)
    assert found is not None
    return found.doc_id, found.metadata


def test_orders_and_changes_return_what_was_given_with_the_page(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(
        [URL, "https://example.org/"], doc_id=["doc-7", None], metadata=[{"b": 1, "a": [2]}, None]
    )
    orders = {order.url: order for order in corpus.lease(10)}
    assert orders[URL].doc_id == "doc-7"
    assert orders[URL].metadata == {"a": [2], "b": 1}
    assert orders["https://example.org/"][-2:] == (None, None)
    corpus.report([Outcome(handle=order.handle, digest=b"x") for order in orders.values()])
    changes = {change.url: change for change in corpus.changes()}
    assert (changes[URL].doc_id, changes[URL].metadata) == ("doc-7", {"a": [2], "b": 1})
    assert changes["https://example.org/"].doc_id is None


def test_exports_and_page_tables_have_the_data_of_each_page(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(
        [URL, "https://example.org/"], doc_id=["é", None], metadata=['{"b": 1, "a": "ü"}', None]
    )
    rows = {row["url"]: row for batch in corpus.export_batches() for row in batch.to_pylist()}
    assert rows[URL]["doc_id"] == "é"
    assert rows[URL]["metadata"] == '{"a":"ü","b":1}'
    assert rows["https://example.org/"]["doc_id"] is None
    (batch,) = corpus.pages(["doc_id", "url"])
    assert {"doc_id": "é", "url": URL} in batch.to_pylist()


def test_adding_again_changes_only_what_is_given(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add([URL], doc_id="one", metadata={"n": 1})
    assert corpus.add([URL]) == (0, 1, 0)
    assert own_data(corpus, URL) == ("one", {"n": 1})
    corpus.add([URL], doc_id="two")
    assert own_data(corpus, URL) == ("two", {"n": 1})
    corpus.add([URL], metadata={"n": 2})
    assert own_data(corpus, URL) == ("two", {"n": 2})
    corpus.add([URL], doc_id="", metadata={})
    assert own_data(corpus, URL) == (None, None)


def test_the_last_value_counts_if_one_call_names_a_page_twice(open_corpus: Open) -> None:
    corpus = open_corpus()
    assert corpus.add([URL, URL, URL], doc_id=["1", "2", None]) == (1, 2, 0)
    assert own_data(corpus, URL) == ("2", None)


def test_set_and_set_each_change_the_data_of_tracked_pages(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    assert corpus.set(URLS[:2], metadata={"team": "docs"}) == 2
    assert own_data(corpus, URLS[1]) == (None, {"team": "docs"})
    unknown = "https://unknown.example/"
    assert corpus.set_each([*URLS[:3], unknown], doc_id=["a", "b", "c", "d"]) == 3
    assert own_data(corpus, URLS[1]) == ("b", {"team": "docs"})
    assert corpus.set(pattern="/3*", doc_id="pattern") == 11
    assert own_data(corpus, URLS[31]) == ("pattern", None)
    with pytest.raises(ValueError, match="doc_id is not text"):
        corpus.set(URLS[:1], doc_id="x" * 300)


def nested(levels: int) -> dict[str, object]:
    inner: dict[str, object] = {}
    for _ in range(levels):
        inner = {"a": inner}
    return inner


WRONG = [
    {"doc_id": "x" * (DOC_ID_BYTES_MAX + 1)},
    {"doc_id": "é" * (DOC_ID_BYTES_MAX // 2 + 1)},
    {"doc_id": "\ud800"},
    {"doc_id": 7},
    {"metadata": "[1]"},
    {"metadata": "not JSON"},
    {"metadata": {"a": "x" * METADATA_BYTES_MAX}},
    {"metadata": {"a": float("nan")}},
    {"metadata": {1: 2}},
    {"metadata": {"a": "\ud800"}},
    {"metadata": {"a": object()}},
    {"metadata": nested(40)},
    {"metadata": '{"a":' + "[" * 5_000 + "]" * 5_000 + "}"},
]


@pytest.mark.parametrize("given", WRONG)
def test_a_row_with_invalid_data_is_refused_and_the_others_are_added(
    open_corpus: Open, given: dict[str, object]
) -> None:
    corpus = open_corpus()
    ((name, value),) = given.items()
    urls = ["https://example.com/1", "not a url", "https://example.com/2"]
    rows = {name: [value, None, None]}
    assert corpus.add(urls, **rows) == (1, 0, 2)
    reasons = corpus.why_refused(urls, **rows)
    assert list(reasons) == [0, 1]
    assert name in reasons[0]
    assert reasons[1] == "not a URL"


def test_the_largest_data_fit(open_corpus: Open) -> None:
    corpus = open_corpus()
    metadata = {"a": "x" * (METADATA_BYTES_MAX - len('{"a":""}'))}
    assert corpus.add([URL], doc_id="y" * DOC_ID_BYTES_MAX, metadata=metadata) == (1, 0, 0)
    assert own_data(corpus, URL) == ("y" * DOC_ID_BYTES_MAX, metadata)
    many = [f"https://example.com/{i}" for i in range(600)]
    # About 5 MB of metadata: more than one record of the log holds.
    assert corpus.add(many, metadata=metadata) == (600, 0, 0)
    assert corpus.set(many, metadata={"a": metadata["a"][:-1] + "y"}) == 600
    assert own_data(corpus, many[-1])[1] != metadata


def test_too_many_or_too_few_values_are_an_error(open_corpus: Open) -> None:
    with pytest.raises(ValueError, match="doc_id must be one value or 2, got 1"):
        open_corpus().add(["https://a.example/", "https://b.example/"], doc_id=["one"])


def test_arrow_columns_and_invalid_utf8(open_corpus: Open) -> None:
    corpus = open_corpus()
    broken = pa.array([b"fine", b"\xff\xfe", None], pa.binary()).view(pa.string())
    assert corpus.add(URLS[:3], doc_id=broken) == (2, 0, 1)
    assert own_data(corpus, URLS[0]) == ("fine", None)
    chunked = pa.chunked_array([['{"a":1}'], [None]])
    assert corpus.add(URLS[3:5], metadata=chunked) == (2, 0, 0)
    assert own_data(corpus, URLS[3]) == (None, {"a": 1})


def test_the_data_are_removed_with_the_page(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add([URL], doc_id="one", metadata={"n": 1})
    corpus.remove([URL])
    corpus.add([URL])
    assert own_data(corpus, URL) == (None, None)


def test_a_retired_page_that_is_added_again_keeps_its_data(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus()
    corpus.add([URL], doc_id="one", metadata={"n": 1})
    for _ in range(30):
        clock.pass_seconds(40 * 86_400)
        corpus.report(Outcome(url=URL, status=404))
    found = corpus.explain(URL)
    assert found is not None
    assert found.state.status.name == "RETIRED"
    assert corpus.add([URL], metadata={"n": 2}) == (1, 0, 0)
    assert own_data(corpus, URL) == ("one", {"n": 2})


def test_large_data_of_retired_pages_are_split_among_records(
    open_corpus: Open, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = open_corpus()
    pages = URLS[:6]
    corpus.add(pages, doc_id=pages, metadata={"a": "x" * 8_000})
    for _ in range(30):
        clock.pass_seconds(40 * 86_400)
        corpus.report([Outcome(url=url, status=404) for url in pages])
    end = corpus.nodes[0].ledger.end
    monkeypatch.setattr("recrawl.node.routing._BYTES_PER_BATCH", 20_000)
    assert corpus.add(pages).n_added == 6
    schemas = [record.schema for _, record in corpus.nodes[0].ledger.read(end)]
    assert schemas.count(120) == 3
    assert own_data(corpus, pages[5]) == (pages[5], {"a": "x" * 8_000})


@pytest.mark.parametrize("n_partitions", [1, 3])
def test_the_data_survive_opening_again_and_a_lost_store(tmp_path: Path, n_partitions: int) -> None:
    config = CorpusConfig.from_dict({"corpus": {"partitions": n_partitions}})
    folder = tmp_path / "corpus"
    with recrawl.open(folder, config) as corpus:
        corpus.add(URLS, doc_id=[f"doc-{i}" for i in range(len(URLS))])
        corpus.set_each(URLS[::2], metadata=[{"i": i} for i in range(len(URLS) // 2)])
        corpus.remove(URLS[:4])
        corpus.add(URLS[:2], doc_id="again")
        n_slots = [int(node.shard.tables.registers.n_slots[0]) for node in corpus.nodes]
        before = [contents_of(n.store, k) for n, k in zip(corpus.nodes, n_slots, strict=True)]
    for store in folder.glob("store/*"):
        shutil.rmtree(store)
    with recrawl.open(folder) as corpus:
        assert own_data(corpus, URLS[4]) == ("doc-4", {"i": 2})
        assert own_data(corpus, URLS[0]) == ("again", None)
        after = [contents_of(n.store, k) for n, k in zip(corpus.nodes, n_slots, strict=True)]
    assert [rows["pages"] for rows in after] == [rows["pages"] for rows in before]


def test_a_corpus_without_own_data_writes_the_records_of_0_1_0(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    (node,) = corpus.nodes
    schemas = {record.schema for _, record in node.ledger.read(0)}
    assert 101 in schemas
    assert not schemas & {120, 121}
    assert node.store.user_data_of(np.arange(3)).doc_id == [None] * 3


def test_equal_data_are_not_logged_again(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(URLS, doc_id=URLS, metadata=[{"b": i, "a": 1} for i in range(len(URLS))])
    end = corpus.nodes[0].ledger.end
    again = [json.dumps({"a": 1, "b": i}) for i in range(len(URLS))]
    assert corpus.add(URLS, doc_id=URLS, metadata=again) == (0, len(URLS), 0)
    assert corpus.nodes[0].ledger.end == end
