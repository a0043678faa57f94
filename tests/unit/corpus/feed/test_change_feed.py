"""Changes of the feed carry the kind of their page and a number that orders them."""

from collections.abc import Callable
from itertools import pairwise
from typing import TypeAlias

import pytest

from recrawl.corpus import Corpus, Outcome
from tests.manual_clock import ManualClock

Open: TypeAlias = Callable[..., Corpus]
URLS = [f"https://h{i % 7}.example/{'a' if i % 2 else 'b'}/{i}" for i in range(20)]


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_later_change_of_a_page_has_a_greater_number(
    open_corpus: Open, clock: ManualClock, partitions: int
) -> None:
    corpus = open_corpus(corpus={"partitions": partitions})
    corpus.add(URLS)
    for digest in (b"1", b"2", b"3"):
        # Each page twice in one report, at the same instant.
        twice = [Outcome(url=url, digest=digest + part) for url in URLS for part in (b"x", b"y")]
        corpus.report(twice)
        clock.pass_seconds(60)
    changes = corpus.changes()
    assert len({change.sequence for change in changes}) == len(changes) >= 3 * len(URLS)
    assert len({len(change.sequence) for change in changes}) == 1
    for url in URLS:
        own = [change.sequence for change in changes if change.url == url]
        assert all(earlier < later for earlier, later in pairwise(own))
    # Wherever reading begins, a change has the same number.
    number_of = {(one.url, one.at_ms, one.what): one.sequence for one in changes}
    for one in corpus.changes(after=changes[6].cursor, limit=9):
        assert number_of[one.url, one.at_ms, one.what] == one.sequence


def test_changes_have_the_kind_that_their_page_has_now(open_corpus: Open) -> None:
    corpus = open_corpus(pattern=[{"match": "/a/*", "kind": "articles"}])
    corpus.add(URLS)
    corpus.report([Outcome(url=url, digest=b"1") for url in URLS])
    for change in corpus.changes():
        assert change.kind == ("articles" if "/a/" in change.url else None)
    corpus.remove(URLS)
    corpus.add([url.replace("/b/", "/a/new") for url in URLS])  # in the slots of the others
    assert {change.kind for change in corpus.changes()} == {None}
