"""Corpora grouped by keys of the client: a page is identified by its key and its URL."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import recrawl
from recrawl import Outcome
from recrawl.corpus import Corpus, CorpusConfig
from recrawl.errors import ConfigError
from recrawl.readers import OBSERVED
from recrawl.testing.stores import contents_of

Open = Callable[..., Corpus]
URL = "https://example.com/a"
OTHER = "https://example.org/b"


def keyed(n_partitions: int = 1) -> CorpusConfig:
    return CorpusConfig.from_dict({"corpus": {"group_by": "key", "partitions": n_partitions}})


@pytest.fixture(params=[1, 3])
def corpus(request: pytest.FixtureRequest, open_corpus: Open) -> Corpus:
    shape = {"group_by": "key", "partitions": request.param}
    return open_corpus(corpus=shape, politeness={"in_flight_max": 1})


def test_one_url_under_two_keys_is_two_pages(corpus: Corpus) -> None:
    assert corpus.add([URL, URL, URL], key=["shop", "blog", "shop"]) == (2, 1, 0)
    orders = corpus.lease(10)
    assert {(order.key, order.url, order.fetch_url) for order in orders} == {
        ("shop", URL, URL),
        ("blog", URL, URL),
    }
    (shop,) = [order for order in orders if order.key == "shop"]
    corpus.report(Outcome(handle=shop.handle, digest=b"x"))
    (change,) = corpus.changes()
    assert (change.key, change.url) == ("shop", URL)
    assert corpus.remove([URL], key="blog") == 1
    assert corpus.n_pages == 1
    found = corpus.explain(URL, key="shop")
    assert found is not None
    assert (found.key, found.url, found.group) == ("shop", URL, "shop")
    assert corpus.explain(URL, key="blog") is None


def test_politeness_follows_the_key_and_not_the_host(corpus: Corpus) -> None:
    corpus.add([URL, OTHER], key="shop")
    corpus.add([URL], key="blog")
    # By default a group is asked for one page at a time.
    assert sorted(str(order.key) for order in corpus.lease(10)) == ["blog", "shop"]
    corpus.set_host("shop", in_flight_max=2)
    assert [order.key for order in corpus.lease(10)] == ["shop"]
    assert corpus.n_pages_of_host("shop") == 2


def test_every_method_takes_the_key_of_a_page(corpus: Corpus) -> None:
    keys = ["a", "b"]
    corpus.add([URL, URL], key=keys, doc_id=["1", "2"])
    assert corpus.set([URL], key="a", importance=8) == 1
    assert corpus.set_each([URL, URL], key=keys, cost=[2, 3], doc_id=["1", "3"]) == 2
    assert corpus.signal([URL], source="sitemap", key="b") == 1
    assert corpus.requests([URL, OTHER], key="b") == 1
    reported = corpus.report(
        [Outcome(url=URL, key="a", digest=b"1"), Outcome(url=URL, key="c", digest=b"1")]
    )
    assert reported.counted.tolist() == [True, False]
    table = pa.table({"url": [URL, URL], "key": ["b", None], "digest": [b"1", b"2"]})
    assert corpus.report(table).counted.tolist() == [True, False]
    rows = {row["key"]: row for batch in corpus.export_batches() for row in batch.to_pylist()}
    assert [rows[key]["url"] for key in keys] == [URL, URL]
    assert [rows[key]["doc_id"] for key in keys] == ["1", "3"]
    assert rows["a"]["importance"] == pytest.approx(8, rel=0.01)
    assert rows["b"]["importance"] != pytest.approx(8, rel=0.01)
    assert {row.group for row in corpus.sources().rows} == {"b"}
    history = corpus.history(URL, key="a")
    assert history is not None
    assert (history.url, len(history.polls)) == (URL, 1)
    assert corpus.n_log_records(URL, key="a") > 0
    assert corpus.n_log_records(URL, key="c") == 0
    past = corpus.explain(URL, key="b", at_ms=corpus.now_ms())
    assert past is not None
    assert past.key == "b"
    assert corpus.similar_urls(URL + "/") == [URL]


def test_given_urls_are_leased_by_key(corpus: Corpus) -> None:
    corpus.add([URL], key="shop")
    shop, blog = corpus.lease_urls(pa.chunked_array([[URL], [URL]]), key=["shop", "blog"])
    assert shop.order is not None
    assert (shop.order.key, shop.order.url) == ("shop", URL)
    assert (blog.order, blog.why.name) == (None, "NOT_TRACKED")
    (new,) = corpus.lease_urls([URL], key="new", add=True)
    assert new.order is not None
    assert new.order.key == "new"


def test_patterns_match_urls_and_not_keys(open_corpus: Open) -> None:
    pattern = [{"match": "/news/*", "importance": 4}]
    corpus = open_corpus(corpus={"group_by": "key"}, pattern=pattern)
    corpus.add(["https://h.example/news/1", "https://h.example/tag/1"], key="/news/")
    (batch,) = corpus.pages(["url", "importance", "key"])
    rows = {row["url"]: row for row in batch.to_pylist()}
    assert rows["https://h.example/news/1"]["importance"] == pytest.approx(4, rel=0.01)
    assert rows["https://h.example/tag/1"]["importance"] == pytest.approx(1, rel=0.01)
    assert corpus.set(pattern="/tag/*", cost=3) == 1
    assert corpus.remove(pattern="/news/*") == 1
    assert corpus.n_pages == 1


def test_rows_without_a_valid_key_are_refused(corpus: Corpus) -> None:
    keys = ["fine", None, "", "tab\tinside", "x" * 257, "\u202e", 7, "\ud800"]
    assert corpus.add([URL] * len(keys), key=keys) == (1, 0, 7)
    reasons = corpus.why_refused([URL] * len(keys), key=keys)
    assert list(reasons) == [1, 2, 3, 4, 5, 6, 7]
    assert "no key, or not text without control characters" in reasons[1]


def test_a_missing_or_invalid_key_is_an_error(corpus: Corpus) -> None:
    calls: list[Callable[[], object]] = [
        lambda: corpus.add([URL]),
        lambda: corpus.remove([URL]),
        lambda: corpus.set([URL], cost=2),
        lambda: corpus.signal([URL], source="x"),
        lambda: corpus.explain(URL),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="give the key of the pages"):
            call()
    with pytest.raises(ValueError, match="key must be text without control characters"):
        corpus.add([URL], key="a\nb")
    with pytest.raises(ValueError, match="must be the key of a group"):
        corpus.set_host("", delay=1)
    with pytest.raises(ValueError, match="key goes with urls"):
        corpus.remove(pattern="/a", key="shop")


@pytest.mark.parametrize("by", ["host", "domain"])
def test_other_corpora_refuse_a_key(open_corpus: Open, by: str) -> None:
    corpus = open_corpus(corpus={"group_by": by})
    with pytest.raises(ValueError, match=f'this one has "{by}"'):
        corpus.add([URL], key="shop")
    corpus.add([URL])
    with pytest.raises(ValueError, match=f'this one has "{by}"'):
        corpus.report(Outcome(url=URL, key="shop", digest=b"x"))
    assert corpus.lease(1)[0].key is None


def test_keys_survive_opening_again_and_a_replay_of_the_log(tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    urls = [f"https://h{i % 3}.example/{i}" for i in range(70)]
    keys = [f"key {i % 5}" for i in range(70)]
    with recrawl.open(folder, keyed(2)) as corpus:
        corpus.add(urls, key=keys)
        corpus.add(urls[:10], key="other")
        corpus.remove(urls[:20:2], key=keys[:20:2])
        corpus.report([Outcome(url=url, key="other", digest=b"x") for url in urls[:10]])
        n_slots = [int(node.shard.tables.registers.n_slots[0]) for node in corpus.nodes]
        before = [contents_of(n.store, k) for n, k in zip(corpus.nodes, n_slots, strict=True)]
        names = {row[0] for rows in before for row in rows["pages"].values()}
        assert "key 1\thttps://h1.example/1" in names
    for store in folder.glob("store/*"):
        store.rename(tmp_path / f"lost-{store.name}")
    with recrawl.open(folder) as corpus:
        after = [contents_of(n.store, k) for n, k in zip(corpus.nodes, n_slots, strict=True)]
        assert [rows["pages"] for rows in after] == [rows["pages"] for rows in before]
        assert [rows["changes"] for rows in after] == [rows["changes"] for rows in before]
        assert corpus.add(urls[20:], key=keys[20:]) == (0, 50, 0)
    with pytest.raises(ConfigError, match="cannot be changed"):
        recrawl.open(folder, CorpusConfig.from_dict({"corpus": {"partitions": 2}}))


def test_an_imported_crawl_has_keys(corpus: Corpus) -> None:
    columns = {
        "url": [URL, URL, URL, OTHER],
        "at_ms": [1_600_000_000_000, 1_600_100_000_000, 1_600_000_000_000, 1_600_000_000_000],
        "digest": [b"1", b"2", b"1", b"1"],
        "key": ["a", "a", "b", None],
    }
    arrays = [
        pa.array(columns[field.name], field.type)
        if field.name in columns
        else pa.nulls(4, field.type)
        for field in OBSERVED
    ]
    with corpus.import_crawl() as crawl:
        crawl.add_batch(pa.RecordBatch.from_arrays(arrays, schema=OBSERVED))
        *_, counts = crawl.learn()
    assert (counts.n_pages, counts.n_added, counts.n_fetches, counts.n_refused) == (2, 2, 3, 1)


def test_a_url_is_forgotten_under_all_keys(corpus: Corpus, tmp_path: Path) -> None:
    secret = "https://example.com/secret"
    urls = [f"https://example.com/{i}" for i in range(40)]
    corpus.add([*urls, secret], key="shop")
    corpus.add([secret, OTHER], key="blog")
    corpus.report([Outcome(url=secret, key=key, digest=b"x") for key in ("shop", "blog")])
    (forgotten,) = corpus.forget([secret])
    assert forgotten.n_pages == 2
    assert corpus.n_pages == 41
    assert corpus.changes() == []
    corpus.close()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if b"example.com/secret" in path.read_bytes()]


def test_configured_politeness_of_a_key(open_corpus: Open) -> None:
    hosts = {"Shop 1": {"in_flight_max": 3}}
    corpus = open_corpus(corpus={"group_by": "key"}, hosts=hosts)
    corpus.add([f"https://h.example/{i}" for i in range(5)], key="Shop 1")
    assert len(corpus.lease(10)) == 3


def test_the_store_of_another_corpus_pays_nothing(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add([URL])
    (node,) = corpus.nodes
    key, url = node.store.keys_and_urls_of(np.array([0]))
    assert (key, url.to_pylist()) == (None, [URL])
