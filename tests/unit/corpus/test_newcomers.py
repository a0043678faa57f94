"""Users see which pages wait because their host has used its share of the budget."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from recrawl import Corpus, Outcome
from recrawl.cli import main
from recrawl.corpus import explanation_words, newcomers_words
from recrawl.shard.explain import Why
from tests.manual_clock import ManualClock

OLD = [f"https://h{i % 5}.example/{i}" for i in range(50)]
NEW = [f"https://n{i % 7}.flood.example/{i}" for i in range(200)]
URL = NEW[-1]


@pytest.fixture
def corpus(open_corpus: Callable[..., Corpus], clock: ManualClock) -> Corpus:
    """Return an established corpus to which one domain adds many pages."""
    corpus = open_corpus()
    corpus.add(OLD)
    for k in range(4):
        fetch(corpus, 50, b"%d" % k)
        clock.sleep(86_400)
    added = corpus.add(NEW)
    assert (added.n_added, added.n_limited) == (200, 180)
    assert added.limited_until_ms > corpus.now_ms()
    return corpus


def fetch(corpus: Corpus, n: int, digest: bytes) -> None:
    orders = corpus.lease(n)
    corpus.report([Outcome(handle=order.handle, digest=digest) for order in orders])


def test_newcomers_are_counted_by_host(corpus: Corpus) -> None:
    assert sum(corpus.newcomers().values()) == 180
    assert set(corpus.newcomers()) == {f"n{i}.flood.example" for i in range(7)}
    assert newcomers_words({"a.example": 1}) == (
        "1 page is a newcomer with a limited share of the budget, because many were added at once: "
        "a.example (1).  `recrawl set --host HOST --unlimited` lifts the limit."
    )
    assert "and 4 more hosts" in newcomers_words(corpus.newcomers())


def test_explain_says_that_the_host_has_used_its_share(corpus: Corpus, clock: ManualClock) -> None:
    for _ in range(10):
        fetch(corpus, 10, b"new")
        clock.sleep(60)
    page = corpus.explain(URL)
    assert page is not None
    assert page.state.why == Why.SHARE_SPENT
    text = explanation_words(page)
    assert "n3.flood.example has used its share of the budget" in text
    corpus.set_host("n3.flood.example", is_unlimited=True)
    page = corpus.explain(URL)
    assert page is not None
    assert page.state.why == Why.DUE
    assert page.state.newcomer_until_ms is None
    assert "n3.flood.example" not in corpus.newcomers()


def test_add_says_so_at_once(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, corpus: Corpus
) -> None:
    corpus.close()
    monkeypatch.setattr("recrawl.corpus.opening.SystemClock", lambda: clock)
    more = tmp_path / "more.txt"
    more.write_text("".join(f"https://second.example/{i}\n" for i in range(100)))
    result = CliRunner().invoke(main, ["add", str(more), "-C", str(tmp_path / "corpus")])
    assert result.exit_code == 0, result.output
    text = " ".join(result.stderr.split())
    assert "80 of these pages are newcomers" in text
    assert "those of one domain get up to 5 % of the fetches" in text


@pytest.mark.usefixtures("corpus")
def test_stats_and_plan_show_them(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recrawl.corpus.opening.SystemClock", lambda: clock)
    for command in ("stats", "plan"):
        result = CliRunner().invoke(main, [command, "--no-json", "-C", str(tmp_path / "corpus")])
        assert result.exit_code == 0, result.output
        text = " ".join(result.output.split())
        assert "180 pages are newcomers with a limited share of the budget" in text
