"""The log of a new partition begins with pages that it does not have: the past begins there."""

from pathlib import Path

import pytest

import recrawl
from recrawl.corpus import CorpusConfig, resize_corpus
from recrawl.errors import TimeLost
from tests.manual_clock import ManualClock
from tests.unit.corpus.resize.filled import SETTINGS, Filled, fill

pytestmark = pytest.mark.slow_without_jit


@pytest.fixture
def filled(tmp_path: Path, clock: ManualClock) -> Filled:
    config = CorpusConfig.from_dict({"corpus": {"partitions": 3}, **SETTINGS})
    return fill(tmp_path / "corpus", config, clock)


def test_the_past_begins_with_the_pages_that_came_from_other_partitions(
    filled: Filled, clock: ManualClock
) -> None:
    url = str(filled.pages[10]["url"])
    before_ms = clock.wall_ms() - 5_000
    with recrawl.open(filled.folder, clock=clock) as corpus:
        assert corpus.explain(url, at_ms=before_ms) is not None
        n_changes = len([one for one in corpus.changes(limit=10_000) if one.url == url])
    resize_corpus(filled.folder, 2)
    begin_ms = clock.wall_ms()
    with recrawl.open(filled.folder, clock=clock) as corpus:
        for i in range(4):
            clock.pass_seconds(100)
            corpus.add([f"https://new{i}.example/"])
            corpus.lease(20)
        with pytest.raises(TimeLost, match="no longer reaches back"):
            corpus.explain(url, at_ms=before_ms)
        for at_ms in (begin_ms, clock.wall_ms() - 150_000):
            then = corpus.explain(url, at_ms=at_ms)
            assert then is not None
            assert then.state.added_at_ms < begin_ms
        history = corpus.history(url)
        assert history is not None
        assert not history.is_whole
        assert len(history.earlier) == n_changes > 0
        assert history.believed is not None
        assert history.believed.freshness.size > 0
