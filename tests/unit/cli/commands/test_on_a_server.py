"""Commands work on a corpus on a server as they do on a folder."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from recrawl.cli.support.service_corpus import ServiceCorpus
from recrawl.corpus import Corpus, Outcome
from recrawl.errors import ServiceUnavailable
from recrawl.service.keys import KeyRing, create_key
from tests.corpus_fixtures import clock, open_corpus, small_table_without_jit
from tests.unit.cli.conftest import Recrawl
from tests.unit.client.partly_away import PartlyAway
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


def test_pages_whose_partitions_cannot_be_reached_are_an_error(
    recrawl: Recrawl, open_corpus: Callable[..., Corpus], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recrawl.cli.support.service_corpus._ROW_RETRY_SECONDS", 0.1)
    partly = PartlyAway(open_corpus("away", corpus={"partitions": 4}), [1, 2])
    urls = [f"https://h{i}.example/" for i in range(20)]
    n_away = int(np.isin(partly.partitions(urls), partly.away).sum())
    assert 0 < n_away < 20
    with RunningServer({"news": partly}) as server:
        url = f"http://127.0.0.1:{server.port}/v1/corpora/news"

        def run_twice(*arguments: str, stdin: str = "") -> dict[str, int]:
            """Return the counts of a command while partitions are away; then let it pass."""
            partly.n_calls = 1_000
            failed = recrawl(*arguments, "-C", url, stdin=stdin)
            assert failed.code == 1, failed.err
            assert f"{n_away} " in failed.err
            assert "Run this again later" in failed.err
            assert failed.row["n_unavailable"] == n_away
            partly.n_calls = 0
            again = recrawl(*arguments, "-C", url, stdin=stdin)
            assert again.code == 0, again.err
            assert again.row["n_unavailable"] == 0
            return failed.row

        assert run_twice("add", *urls)["n_added"] == 20 - n_away
        assert partly.corpus.n_pages == 20
        assert run_twice("set", *urls, "--importance", "2")["n_set"] == 20 - n_away
        counts = run_twice("signal", *urls, "--source", "feed")
        assert (counts["n_heard"], counts["n_unknown"]) == (20 - n_away, 0)
        orders = partly.corpus.lease(20)
        lines = "".join(f'{{"handle": {one.handle}, "digest": "1"}}\n' for one in orders)
        counts = run_twice("report", stdin=lines)
        assert (counts["n_counted"], counts["n_void"]) == (20 - n_away, 0)
        assert partly.corpus.stats().n_outcomes == 20
        handles = [str(one.handle) for one in partly.corpus.lease(20)]
        if len(handles) == 20:
            assert run_twice("release", *handles)["n_released"] == 20 - n_away
        assert run_twice("remove", *urls)["n_removed"] == 20 - n_away
    assert partly.corpus.n_pages == 0


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


def test_a_page_is_explained_as_in_its_folder(
    recrawl: Recrawl, url: str, corpus: Corpus, tmp_path: Path
) -> None:
    page = "https://a.example/"
    corpus.add([page], metadata=[{"a": 1}])
    (order,) = corpus.lease(1)
    corpus.report(Outcome(handle=order.handle, digest=b"1"))
    corpus.signal([page], source="feed")
    text = recrawl("explain", page, "-C", url, "--no-json")
    assert text.code == 0, text.err
    (explained,) = recrawl("explain", page, "-C", url).rows
    for part in (explained["words"].split(".")[0], "metadata", "signals of feed", "a.example: 1"):
        assert part in text.out.replace("\n", " ")
    missing = recrawl("explain", "https://b.example/", "-C", url)
    assert missing.code == 1
    assert "is not in the corpus" in missing.err
    for option in (["--history"], ["--at", "1 day ago"], ["--plot", str(tmp_path / "a.svg")]):
        assert recrawl("explain", page, *option, "-C", url).code == 2


def test_a_plan_has_the_words_of_the_folder(recrawl: Recrawl, url: str, corpus: Corpus) -> None:
    corpus.add([f"https://h{i}.example/" for i in range(20)])
    rows = recrawl("plan", "-C", url, "--budget", "100/d", "--target", "90 %").rows
    assert rows[0]["part"] == "plan"
    assert {row["part"] for row in rows} == {"plan", "curve", "target"}
    ran = recrawl("plan", "-C", url, "--budget", "100/d", "--no-json")
    assert rows[0]["words"].split(".")[0] in ran.out.replace("\n", " ")
    assert recrawl("plan", "-C", url, "--target", "50 % of /nothing/*").code == 3
    assert recrawl("plan", "-C", url, "--unweighted").code == 2


def test_orders_are_given_back(recrawl: Recrawl, url: str, corpus: Corpus) -> None:
    corpus.add([f"https://h{i}.example/" for i in range(3)])
    leased = recrawl("lease", "3", "-C", url)
    first, *others = (row["handle"] for row in leased.rows)
    counts = {"n_given": 1, "n_released": 1, "n_unavailable": 0}
    assert recrawl("release", str(first), "-C", url).row == counts
    lines = "".join(f"{handle}\n" for handle in [first, *others])
    ran = recrawl("release", "-C", url, "--no-json", stdin=lines)
    assert ran.out == "2 pages given back, 1 ignored because they were not held any more.\n"
    assert corpus.stats().in_flight == 0
    assert recrawl("release", "-C", url, stdin="x\n").code == 2


def test_changes_are_followed_while_the_server_is_away(
    recrawl: Recrawl,
    url: str,
    corpus: Corpus,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    urls = [f"https://h{i}.example/" for i in range(4)]
    corpus.add(urls)
    report_two(corpus)
    n_calls = 0
    real = ServiceCorpus.changes

    def changes(self: ServiceCorpus, *args: object, **kwargs: object) -> object:
        nonlocal n_calls
        n_calls += 1
        if n_calls in (2, 3):
            raise ServiceUnavailable("the server is away")
        if n_calls == 4:
            report_two(corpus)
        return real(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(ServiceCorpus, "changes", changes)
    monkeypatch.setattr("recrawl.cli.commands.changes._AWAY_SECONDS", 0.01)
    ran = recrawl("changes", "--follow", "--limit", "4", "-C", url)
    assert ran.code == 0, ran.err
    assert len({row["cursor"] for row in ran.rows}) == len(ran.rows) == 4
    assert ran.err.count("the server is away") == 1
    assert "The server is back." in ran.err


def report_two(corpus: Corpus) -> None:
    orders = corpus.lease(2)
    corpus.report([Outcome(handle=one.handle, digest=one.url.encode()) for one in orders])


def test_addresses_that_are_wrong_say_what_is_right(
    recrawl: Recrawl,
    open_corpus: Callable[..., Corpus],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("recrawl.cli.support.service_corpus._RETRY_SECONDS", 0.1)
    corpus = open_corpus()
    text, _ = create_key(corpus.folder, ["read"], now_ms=corpus.now_ms())
    with RunningServer({"news": corpus}, keys={"news": KeyRing(corpus.folder)}) as server:
        monkeypatch.setenv("RECRAWL_KEY", text)
        address = f"http://127.0.0.1:{server.port}"
        other = recrawl("stats", "-C", f"{address}/v1/corpora/newz")
        assert "the API key is for the corpus news" in other.err
        deep = recrawl("stats", "-C", f"{address}/somewhere")
        assert deep.code == 1
        assert "/v1/corpora/NAME" in deep.err
        work = recrawl("run", "-C", f"{address}/v1/corpora/news", "--budget", "1/h")
        assert (work.code, "needs the folder" in work.err) == (2, True)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        gone = recrawl("stats", "-C", f"http://127.0.0.1:{unused.getsockname()[1]}")
    assert "the connection is refused" in gone.err
    assert "ssl" not in gone.err
    far = "http://elsewhere.invalid/v1/corpora/news"
    assert "--allow-http" in recrawl("stats", "-C", far).err
    allowed = recrawl("stats", "-C", far, "--allow-http")
    assert allowed.code == 1
    assert "cannot be reached" in allowed.err
    folder = recrawl("run", "-C", str(tmp_path), "--worker-folder", str(tmp_path))
    assert folder.code == 2
