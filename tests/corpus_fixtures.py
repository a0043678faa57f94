"""A corpus in a temporary folder, on a clock that is set by hand."""

import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import recrawl
from recrawl.corpus import Corpus, CorpusConfig
from recrawl.node.durability import snapshotter
from tests.conftest import JIT_DISABLED
from tests.manual_clock import ManualClock
from tests.reading_clock import reading_clock
from tests.reference.shards import with_small_table

__all__ = [
    "IMPOLITE",
    "clock",
    "extract_older_corpora",
    "no_history_kept",
    "open_corpus",
    "reading_clock",
    "small_table_without_jit",
]

# Politeness that allows fetching any number of pages of one host at once.
IMPOLITE: dict[str, Any] = {"delay": 0, "in_flight_max": 1000, "burst": 1000}


@pytest.fixture(autouse=True, scope="session")
def small_table_without_jit() -> Iterator[None]:
    """Use a small due table if kernels are interpreted, because the real one takes minutes."""
    if not JIT_DISABLED:
        yield
        return
    with with_small_table():
        yield


@pytest.fixture(autouse=True, scope="module")
def no_history_kept() -> Iterator[None]:
    """Truncate logs at the oldest snapshot, however small they are, as large ones are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshotter, "HISTORY_BYTES_MAX", 0)
        yield


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def open_corpus(tmp_path: Path, clock: ManualClock) -> Iterator[Callable[..., Corpus]]:
    """Return a function that opens a corpus with sections of a configuration."""
    opened = []

    def opener(folder: str = "corpus", *, read_only: bool = False, **sections: Any) -> Corpus:
        sections.setdefault("politeness", IMPOLITE)
        config = CorpusConfig.from_dict(sections)
        corpus = recrawl.open(tmp_path / folder, config, read_only=read_only, clock=clock)
        opened.append(corpus)
        return corpus

    yield opener
    for corpus in opened:
        corpus.close()


def extract_older_corpora(folder: Path) -> None:
    """Extract the corpora that 0.1.0 wrote into a folder."""
    with tarfile.open(Path(__file__).parent / "fixtures/corpus_0_1_0/corpora.tar.xz") as tar:
        # As an attribute: Python before 3.11.4 does not know the argument of extractall.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(folder)
