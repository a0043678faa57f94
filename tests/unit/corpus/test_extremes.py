"""Extremely long inputs are stored or rejected, and never stop a corpus."""

import os
from collections.abc import Callable

import numpy as np
import pytest

from recrawl.corpus import Corpus, Outcome
from recrawl.urls import URL_INPUT_BYTES_MAX

Open = Callable[..., Corpus]


def test_the_longest_url_is_added_or_rejected_and_the_corpus_continues(
    open_corpus: Open,
) -> None:
    corpus = open_corpus()
    stem = "http://a.example/#"
    url = stem + "x" * (URL_INPUT_BYTES_MAX - len(stem))
    try:
        corpus.add([url])
    finally:
        corpus.close()
        again = open_corpus()  # the log must not be poisoned for ever
        again.add(["http://b.example/"])


def test_outcomes_with_sketches_of_the_longest_kind_are_reported_in_records_that_fit(
    open_corpus: Open,
) -> None:
    corpus = open_corpus()
    urls = [f"http://a.example/{i}" for i in range(2000)]
    corpus.add(urls)
    rng = np.random.default_rng(1)
    found = [Outcome(url=u, digest=b"%d" % i, sketch=rng.bytes(4096)) for i, u in enumerate(urls)]
    assert corpus.report(found).counted.all()


def test_one_etag_that_is_too_long_does_not_stop_the_corpus(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(["http://a.example/", "http://b.example/"])
    corpus.report([Outcome(url="http://a.example/", changed=True, etag=os.urandom(8 << 20))])
    corpus.add(["http://c.example/"])


@pytest.mark.slow_without_jit
def test_long_urls_beside_many_short_ones_are_added_in_records_that_fit(open_corpus: Open) -> None:
    corpus = open_corpus()
    rng = np.random.default_rng(1)
    long = ["http://a.example/" + rng.bytes(950).hex() for _ in range(16384)]
    short = [f"http://b.example/{i}" for i in range(300_000)]
    assert corpus.add(long + short).n_added == len(long) + len(short)


def test_a_location_that_is_not_unicode_is_stored(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(["http://a.example/"])
    done = corpus.report([Outcome(url="http://a.example/", status=301, moved_to="http://b/\udcff")])
    assert done.counted.all()


def test_a_url_with_a_lone_surrogate_is_rejected_and_no_other_page_is_added(
    open_corpus: Open,
) -> None:
    corpus = open_corpus()
    corpus.add(["http://a.example/\ud800x"])
    assert corpus.explain("http://a.example/??x") is None
    assert corpus.explain("http://a.example/?x") is None
