"""A corpus in a folder, a server of it, and a client of the server."""

from collections.abc import Callable, Iterator

import pytest

from recrawl.client import Client
from recrawl.corpus import Corpus
from tests.corpus_fixtures import clock, open_corpus, small_table_without_jit
from tests.unit.client.unreliable_proxy import UnreliableProxy
from tests.unit.service.running_server import RunningServer

__all__ = ["clock", "open_corpus", "small_table_without_jit"]

URLS = [f"https://site{i}.example/{j}" for i in range(4) for j in range(5)]


@pytest.fixture
def corpus(open_corpus: Callable[..., Corpus]) -> Corpus:
    return open_corpus(politeness={})


@pytest.fixture
def server(corpus: Corpus) -> Iterator[RunningServer]:
    with RunningServer({"news": corpus}) as running:
        yield running


@pytest.fixture
def client(server: RunningServer) -> Iterator[Client]:
    with Client(f"http://127.0.0.1:{server.port}/v1/corpora/news") as one:
        yield one


@pytest.fixture
def proxy(server: RunningServer) -> Iterator[UnreliableProxy]:
    with UnreliableProxy(server.port) as one:
        yield one
