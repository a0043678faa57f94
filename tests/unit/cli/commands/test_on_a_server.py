"""Commands work on a corpus on a server as they do on a folder."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recrawl.corpus import Corpus
from recrawl.service.keys import KeyRing, create_key
from tests.corpus_fixtures import clock, open_corpus, small_table_without_jit
from tests.unit.cli.conftest import Recrawl
from tests.unit.service.running_server import RunningServer

__all__ = ["clock", "open_corpus", "small_table_without_jit"]


@pytest.fixture
def corpus(open_corpus: Callable[..., Corpus]) -> Corpus:
    return open_corpus()


@pytest.fixture
def url(corpus: Corpus) -> Iterator[str]:
    with RunningServer({"news": corpus}) as server:
        yield f"http://127.0.0.1:{server.port}/v1/corpora/news"


def test_pages_are_added_leased_reported_and_removed(
    recrawl: Recrawl, url: str, corpus: Corpus, tmp_path: Path
) -> None:
    urls = [f"https://h{i}.example/" for i in range(5)]
    (tmp_path / "urls.txt").write_text("\n".join([*urls, "not a url"]))
    added = recrawl("add", str(tmp_path / "urls.txt"), "-C", url)
    assert added.code == 0, added.err
    assert (added.row["n_added"], added.row["n_refused"]) == (5, 1)
    leased = recrawl("lease", "3", "-C", url)
    assert len(leased.rows) == 3
    lines = "".join(f'{{"handle": {row["handle"]}, "digest": "1"}}\n' for row in leased.rows)
    reported = recrawl("report", "-C", url, stdin=lines)
    assert reported.code == 0, reported.err
    assert corpus.stats().n_outcomes == 3
    assert recrawl("signal", "--source", "feed", urls[4], "-C", url).code == 0
    assert corpus.stats().n_signals == 1
    assert recrawl("set", "--importance", "3", urls[4], "-C", url).code == 0
    assert recrawl("set", "--host", "h4.example", "--delay", "5s", "-C", url).code == 0
    assert corpus.host("h4.example").delay_seconds == 5
    assert recrawl("set", "--budget", "30/h", "-C", url).code == 0
    stats = recrawl("stats", "-C", url)
    assert (stats.row["n_pages"], stats.row["budget"]) == (5, "30 fetches/h")
    assert recrawl("stats", "--sources", "-C", url).row["source"] == "feed"
    changes = recrawl("changes", "--consumer", "index", "-C", url)
    assert len(changes.rows) == 3
    assert recrawl("changes", "--consumer", "index", "-C", url).rows == []
    assert recrawl("remove", urls[0], "-C", url).code == 0
    assert corpus.n_pages == 4


def test_commands_on_files_say_that_they_need_the_folder(recrawl: Recrawl, url: str) -> None:
    for command in ("doctor", "export", "keys list"):
        ran = recrawl(*command.split(), "-C", url)
        assert ran.code == 2
        assert "needs the folder of the corpus" in ran.err


def test_errors_say_what_to_do(
    recrawl: Recrawl,
    open_corpus: Callable[..., Corpus],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    corpus = open_corpus()
    text, _ = create_key(corpus.folder, ["lease", "report"], now_ms=corpus.now_ms())
    with RunningServer({"news": corpus}, keys={"news": KeyRing(corpus.folder)}) as server:
        url = f"http://127.0.0.1:{server.port}/v1/corpora/news"
        denied = recrawl("lease", "1", "-C", url)
        assert denied.code == 1
        assert "Set RECRAWL_KEY" in denied.err
        monkeypatch.setenv("RECRAWL_KEY", text)
        assert recrawl("add", "https://a.example/", "-C", url).code == 0
        assert len(recrawl("lease", "1", "-C", url).rows) == 1
    monkeypatch.setattr("recrawl.cli.support.service_corpus._RETRY_SECONDS", 0.1)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1/corpora/news"
    gone = recrawl("stats", "-C", url)
    assert gone.code == 1
    assert "Check that the server runs" in gone.err
    wrong = recrawl("stats", "-C", "http://elsewhere.example/v1/corpora/news")
    assert wrong.code == 2
    assert "is not https" in wrong.err
