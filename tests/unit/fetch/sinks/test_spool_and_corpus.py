"""A spool beside a real corpus: the change feed decides what is a version."""

from pathlib import Path

import pytest

import recrawl
from recrawl.fetch.sinks import FetchedPage, Spool
from recrawl.shard import Transition

URLS = [f"https://{name}.example/tea" for name in "abc"]
AT_MS = 1_790_000_000_000


TEXTS = [
    "Green tea from the hills is poured into small white cups.",
    "The harbour opens before sunrise, and the ferries leave full of travellers.",
]


def body_of(url: str, day: int) -> bytes:
    return f"<h1>Shop at {url}</h1><p>{TEXTS[day]}</p>".encode()


def fetch(corpus: recrawl.Corpus, spool: Spool, day: int, *, settles: bool = True) -> None:
    """Fetch all pages, with the same text as on the day before where the URL has an ``a``."""
    at_ms = AT_MS + day * 86_400_000
    for url in URLS:
        body = body_of(url, 0 if "a.example" in url else day)
        page = FetchedPage(url=url, fetched_at_ms=at_ms, body=body, content_type="text/html")
        done = spool.append([page])
        outcome = recrawl.Outcome(url=url, body=body, content_type="text/html", fetched_at_ms=at_ms)
        assert corpus.report(outcome).counted.all()
        if settles:
            spool.settle_feed(corpus, done)


@pytest.mark.parametrize("settles", [True, False], ids=["settled", "killed_after_report"])
def test_every_change_has_its_body(tmp_path: Path, settles: bool) -> None:
    with recrawl.open(tmp_path / "corpus") as corpus:
        corpus.add(URLS)
        with Spool.open(tmp_path / "spool") as spool:
            fetch(corpus, spool, 0)
            fetch(corpus, spool, 1, settles=settles)
            assert (spool.pending == ()) is settles
    with recrawl.open(tmp_path / "corpus") as corpus, Spool.open(tmp_path / "spool") as spool:
        assert spool.settle_feed(corpus, spool.pending) == (0 if settles else 2)
        versions = spool.read(1)
        assert spool.pending == ()
        assert spool.settle_feed(corpus) == 0
    found = [(version.url, version.transition, version.body) for version in versions]
    new = [(url, Transition.NEW, body_of(url, 0)) for url in URLS]
    assert found == new + [(url, Transition.CHANGED, body_of(url, 1)) for url in URLS[1:]]
    last = versions[-1]
    assert [text for _, text in last.added_passages] == [TEXTS[1]]
    assert len(last.removed_passages) == 1
