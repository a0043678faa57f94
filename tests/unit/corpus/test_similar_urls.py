"""Similar URLs are suggested for a URL that is not tracked."""

from collections.abc import Callable
from random import Random
from typing import Any

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


@pytest.mark.parametrize("by", ["host", "domain", "key"])
def test_a_url_with_a_typing_error_is_found_among_many(open_corpus: Open, by: str) -> None:
    corpus = open_corpus(corpus={"group_by": by})
    urls = [f"https://shop.example/category/{i % 7}/{i}-tea-for-{i * i}-cups" for i in range(300)]
    key = "k" if by == "key" else None
    corpus.add([*urls, "https://shop.example.org/category/1/1-tea"], key=key)
    random = Random(8)
    for url in random.sample(urls, 20):
        place = random.randrange(len("https://shop.example/c"), len(url))
        left_out = url[:place] + url[place + 1 :]
        wrong = url[:place] + "~" + url[place + 1 :]
        for asked in {left_out, wrong} - set(urls):
            found = similar_urls(corpus, asked)
            # Without a digit, another page may be as similar.
            assert url in found, asked
            assert all(one.startswith("https://shop.example/") for one in found)


def test_texts_beyond_ascii_and_very_long_ones_are_compared(corpus: Corpus) -> None:
    corpus.add(["https://shop.example/t%C3%A4e", f"https://shop.example/{'long/' * 300}end"])
    assert similar_urls(corpus, "https://shop.example/täe") is not None
    assert similar_urls(corpus, f"https://shop.example/{'long/' * 300}and")[0].endswith("/end")
    assert similar_urls(corpus, f"https://shop.example/{'a' * 3_000}") == []


def test_of_a_host_with_many_pages_some_are_read(
    open_corpus: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = open_corpus()
    corpus.add([f"https://shop.example/{i}/of/many" for i in range(50)])
    compared = []
    outer = module._outer_likeness

    def count(urls: Any, *rest: Any) -> Any:
        compared.append(len(urls))
        return outer(urls, *rest)

    monkeypatch.setattr(module, "_outer_likeness", count)
    monkeypatch.setattr(module, "_URLS_PER_READ", 8)
    monkeypatch.setattr(module, "URLS_READ_MAX", 20)
    assert similar_urls(corpus, "https://shop.example/7/of/mny")[0].endswith("/7/of/many")
    assert sum(compared) == 20
