"""Bodies are observed in other processes, and a process that dies loses nothing else."""

import os
import signal
import time

import pytest

from recrawl.content import ContentKind, ObserverPool, PageBody, observe, pool
from recrawl.content.observation import Observation
from recrawl.content.settings import ContentSettings


def page(number: int) -> PageBody:
    return PageBody(b"<title>%d</title><p>Page number %d" % (number, number), "text/html")


def _misbehave(
    pages: list[PageBody], settings: ContentSettings, with_texts: bool
) -> list[Observation]:
    """Observe pages in a process of the pool, which two bodies make misbehave."""
    for page in pages:
        if page.body == b"crash":
            os.kill(os.getpid(), signal.SIGKILL)
        if page.body == b"hang":
            time.sleep(600)
    return [observe(*page, settings=settings, with_texts=with_texts) for page in pages]


def test_a_pool_observes_as_one_process_does() -> None:
    pages = [page(number) for number in range(20)]
    with ObserverPool(2) as observers:
        found = list(observers.observe_all(iter(pages), with_texts=True))
    expected = [observe(*one, with_texts=True) for one in pages]
    assert [one.title for one in found] == [one.title for one in expected]
    assert [one.texts for one in found] == [one.texts for one in expected]
    assert [one.passages.tolist() for one in found] == [one.passages.tolist() for one in expected]


def test_bodies_that_kill_or_hold_up_a_process_are_compared_by_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool, "_observe", _misbehave)
    pages = [page(0), PageBody(b"crash"), page(1), PageBody(b"hang"), page(2)]
    # Long enough for a busy machine to read a page, and to begin to.
    with ObserverPool(1, timeout_seconds=5.0) as observers:
        found = list(observers.observe_all(pages))
    assert [one.problems for one in found] == [(), ("crashed",), (), ("timed_out",), ()]
    assert found[1].kind is ContentKind.BYTES
    assert found[4].title == "2"


def test_a_process_gets_few_bodies_and_bytes_at_once() -> None:
    large = PageBody(bytes(3 << 20))
    sizes = [len(group) for group in pool._groups([page(n) for n in range(40)])]
    assert sizes == [16, 16, 8]
    assert [len(group) for group in pool._groups([large, large, page(1), large])] == [1, 2, 1]
    assert list(pool._groups([])) == []


def test_a_pool_needs_a_process() -> None:
    with pytest.raises(ValueError, match="n_processes must be at least 1, got 0"):
        ObserverPool(0)
