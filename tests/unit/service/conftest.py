"""A real server on a port of its own, with a real corpus."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recrawl.corpus import Corpus
from tests.corpus_fixtures import clock, open_corpus, small_table_without_jit
from tests.unit.service.running_server import RunningServer

__all__ = ["clock", "open_corpus", "small_table_without_jit"]

URLS = [f"https://site{i}.example/{j}" for i in range(4) for j in range(5)]


@pytest.fixture
def corpus(open_corpus: Callable[..., Corpus]) -> Corpus:
    return open_corpus()


@pytest.fixture
def server(corpus: Corpus, tmp_path: Path) -> Iterator[RunningServer]:
    with RunningServer({"news": corpus}, folders={"news": tmp_path / "corpus"}) as running:
        yield running
