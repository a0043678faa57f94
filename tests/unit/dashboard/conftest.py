"""A real server with the dashboard, and a real corpus."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recrawl.corpus import Corpus
from recrawl.dashboard import attach_dashboard
from recrawl.service.keys import KeyRing
from tests.corpus_fixtures import clock, open_corpus, small_table_without_jit
from tests.unit.service.running_server import RunningServer

__all__ = ["clock", "open_corpus", "small_table_without_jit"]

URLS = [f"https://site{i}.example/{j}" for i in range(4) for j in range(5)]


@pytest.fixture
def corpus(open_corpus: Callable[..., Corpus]) -> Corpus:
    found = open_corpus()
    found.add(URLS)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "corpus"


@pytest.fixture
def open_server(corpus: Corpus, folder: Path) -> Iterator[RunningServer]:
    """A server without keys, for people on this machine."""
    with RunningServer(
        {"news": corpus}, folders={"news": folder}, dashboard=attach_dashboard
    ) as running:
        yield running


@pytest.fixture
def keyed_server(corpus: Corpus, folder: Path) -> Iterator[RunningServer]:
    """A server whose corpus has keys, once a test creates some."""
    with RunningServer(
        {"news": corpus},
        folders={"news": folder},
        keys={"news": KeyRing(folder)},
        is_local=False,
        dashboard=attach_dashboard,
    ) as running:
        yield running
