"""Numbers of outcomes that no column can hold are refused or cut, without a loss of others."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from recrawl import Corpus, Outcome


@pytest.mark.parametrize("name", ["handle", "status", "fetched_at_ms"])
def test_a_number_beyond_63_bits_is_refused_by_name(name: str) -> None:
    given: dict[str, Any] = {"url": "https://a.example/", name: 2**70}
    with pytest.raises(ValueError, match=f"{name} must be a whole number of up to 63 bits"):
        Outcome(**given)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seconds", [math.nan, math.inf, 1e308, -1.0, 1e300])
def test_any_retry_after_is_reported(open_corpus: Callable[..., Corpus], seconds: float) -> None:
    corpus = open_corpus()
    corpus.add(["https://a.example/", "https://b.example/"])
    wait = Outcome(url="https://a.example/", status=503, retry_after_seconds=seconds)
    reported = corpus.report([wait, Outcome(url="https://b.example/", digest=b"b")])
    assert reported.counted.all()
    page = corpus.explain("https://a.example/")
    assert page is not None
    assert page.state.not_before_ms is not None
    assert page.state.not_before_ms - corpus.now_ms() <= 366 * 86_400_000
