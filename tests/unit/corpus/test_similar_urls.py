"""A URL that is not kept brings to mind those that are."""

from collections.abc import Callable

import pytest

from recrawl.corpus import Corpus
from recrawl.corpus import similar_urls as module
from recrawl.corpus.similar_urls import NEAR_MAX, near_urls

Open = Callable[..., Corpus]


@pytest.fixture(params=[1, 3])
def corpus(open_corpus: Open, request: pytest.FixtureRequest) -> Corpus:
    corpus = open_corpus(corpus={"partitions": request.param})
    corpus.add(
        [
            "https://shop.example/product/1",
            "https://shop.example/product/2",
            "https://shop.example/about/",
            "http://old.example/",
            "https://far.example/product/1",
        ]
    )
    return corpus


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ("http://shop.example/product/1", "https://shop.example/product/1"),
        ("https://www.shop.example/product/1", "https://shop.example/product/1"),
        ("https://shop.example/product/1/", "https://shop.example/product/1"),
        ("https://shop.example/product/1?utm=x", "https://shop.example/product/1"),
        ("https://shop.example/about", "https://shop.example/about/"),
        ("https://www.old.example", "http://old.example/"),
        ("shop.example/product/2", "https://shop.example/product/2"),
        ("https://shop.example/prodct/2", "https://shop.example/product/2"),
    ],
)
def test_the_nearest_comes_first(corpus: Corpus, asked: str, kept: str) -> None:
    assert near_urls(corpus, asked)[0] == kept


def test_they_are_few_and_of_the_same_host(corpus: Corpus) -> None:
    found = near_urls(corpus, "https://shop.example/product/3")
    assert 0 < len(found) <= NEAR_MAX
    assert all(url.startswith("https://shop.example/") for url in found)


@pytest.mark.parametrize("asked", ["", "no url at all", "https://[", "https://none.example/x"])
def test_where_nothing_is_near_there_is_nothing(corpus: Corpus, asked: str) -> None:
    assert near_urls(corpus, asked) == []


def test_a_large_corpus_is_not_scanned(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGES_SCANNED_MAX", 1)
    assert near_urls(corpus, "https://shop.example/prodct/2") == []
    assert near_urls(corpus, "http://shop.example/product/2") == ["https://shop.example/product/2"]
