"""Similar URLs are suggested for a URL that is not tracked."""

from collections.abc import Callable

import pytest

from recrawl.corpus import Corpus
from recrawl.corpus import similar_urls as module
from recrawl.corpus.similar_urls import SIMILAR_MAX, similar_urls

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
def test_the_most_similar_url_comes_first(corpus: Corpus, asked: str, kept: str) -> None:
    assert similar_urls(corpus, asked)[0] == kept


def test_they_are_few_and_of_the_same_host(corpus: Corpus) -> None:
    found = similar_urls(corpus, "https://shop.example/product/3")
    assert 0 < len(found) <= SIMILAR_MAX
    assert all(url.startswith("https://shop.example/") for url in found)


@pytest.mark.parametrize("asked", ["", "no url at all", "https://[", "https://none.example/x"])
def test_without_similar_urls_the_list_is_empty(corpus: Corpus, asked: str) -> None:
    assert similar_urls(corpus, asked) == []


def test_a_large_corpus_is_not_scanned(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGES_SCANNED_MAX", 1)
    assert similar_urls(corpus, "https://shop.example/prodct/2") == []
    assert similar_urls(corpus, "http://shop.example/product/2") == [
        "https://shop.example/product/2"
    ]
