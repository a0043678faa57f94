"""Tests of ``recrawl lease`` and ``recrawl report``."""

import errno
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

import recrawl as library
from recrawl.cli.commands import lease, report
from recrawl.cli.support.output import Output
from recrawl.errors import LockedError
from tests.unit.cli.conftest import PAGES, Recrawl


def outcomes(*rows: Mapping[str, object]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_a_leased_page_is_reported_and_appears_in_changes(in_corpus: Recrawl) -> None:
    orders = in_corpus("lease", "10").rows
    assert len(orders) == 3  # one for each host
    assert set(orders[0]) == {
        *("handle", "url", "fetch_url", "etag", "last_modified", "reason", "expires_at_ms"),
        *("doc_id", "metadata", "key"),
    }
    told = [{**order, "status": 200, "body": "text", "etag": '"1"'} for order in orders]
    row = in_corpus("report", stdin=outcomes(*told)).row
    assert (row["n_lines"], row["n_counted"], row["n_new"], row["n_bad"]) == (3, 3, 3, 0)
    row = in_corpus("report", stdin=outcomes(*told)).row
    assert (row["n_counted"], row["n_void"]) == (0, 3)
    changes = in_corpus("changes").rows
    assert {change["url"] for change in changes} == {order["url"] for order in orders}


def test_a_fetch_without_a_lease_is_reported_by_url(in_corpus: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "found.jsonl").write_text(
        outcomes(
            {"url": PAGES[0], "status": 200, "digest": "1", "fetched_at_ms": 1_700_000_000_000}
        )
        + outcomes({"url": PAGES[0], "status": 200, "digest": "2"})
    )
    ran = in_corpus("report", "found.jsonl", "--no-json")
    assert ran.out == "2 outcomes counted (1 new, 1 changed).\n"


def test_bad_lines_are_counted_and_fail_only_if_all_are_bad(in_corpus: Recrawl) -> None:
    good = outcomes({"url": PAGES[0], "status": 200, "digest": "1"})
    ran = in_corpus(
        "report",
        stdin="nonsense\n" + good + outcomes({"url": "https://unknown.example/", "status": 304}),
    )
    assert ran.code == 0
    assert (ran.row["n_counted"], ran.row["n_void"], ran.row["n_bad"]) == (1, 1, 1)
    assert "line 1: not JSON" in ran.err
    ran = in_corpus("report", "--no-json", stdin="nonsense\n")
    assert ran.code == 1
    assert "no line was an outcome" in ran.err
    ran = in_corpus("report", "--no-json", stdin="")
    assert (ran.code, ran.out) == (0, "There were no outcomes to report.\n")


def test_many_outcomes_are_reported_in_batches(
    in_corpus: Recrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "OUTCOMES_PER_BATCH_MAX", 2)
    told = outcomes(*({"url": url, "status": 404} for url in PAGES))
    assert in_corpus("report", stdin=told).row["n_gone"] == 5


def test_report_opens_the_corpus_with_the_first_outcome(in_corpus: Recrawl, tmp_path: Path) -> None:
    with library.open(tmp_path):
        assert in_corpus("report", stdin="").code == 0


def err_of(recrawl: Recrawl, *arguments: str) -> str:
    """Return the notes of a command as one line."""
    return " ".join(recrawl(*arguments).err.split())


def test_nothing_to_fetch_gives_the_reason(recrawl: Recrawl) -> None:
    recrawl("init")
    assert "the corpus has no pages yet" in recrawl("lease", "1").err
    recrawl("add", PAGES[0])
    assert recrawl("lease", "1").rows
    assert "1 page is leased already and not reported (the first lease ends in" in err_of(
        recrawl, "lease", "1"
    )
    recrawl("set", "--budget", "1/h")
    recrawl("add", PAGES[2])
    recrawl("lease", "1")
    assert "1 fetch/h is spent for now, the next fetch is possible in" in err_of(
        recrawl, "lease", "1"
    )
    recrawl("set", "--budget", "0/run")
    assert "the budget is 0" in recrawl("lease", "1").err


def test_wait_returns_when_a_page_is_due(
    in_corpus: Recrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_corpus("lease", "10")
    naps: list[float] = []
    monkeypatch.setattr("recrawl.cli.commands.lease.time.sleep", naps.append)
    monkeypatch.setattr("recrawl.cli.commands.lease.time.monotonic", lambda: float(len(naps)))
    assert in_corpus("lease", "1", "--wait", "2s").rows == []
    assert len(naps) == 2
    assert in_corpus("lease", "1", "--wait", "1").code == 0
    assert in_corpus("lease", "1", "--wait", "soon").code == 2


def test_text_output_is_a_table(in_corpus: Recrawl) -> None:
    ran = in_corpus("lease", "1", "--no-json", "--lease-seconds", "60")
    assert "60 s" in ran.out
    assert "https://" in ran.out


@pytest.mark.parametrize("arguments", [("0",), ("x",), (), ("1", "--lease-seconds", "-1")])
def test_wrong_lease_arguments_are_usage_errors(
    in_corpus: Recrawl, arguments: tuple[str, ...]
) -> None:
    assert in_corpus("lease", *arguments).code == 2


def test_an_odd_line_does_not_affect_the_others(in_corpus: Recrawl) -> None:
    good = outcomes({"url": PAGES[0], "status": 200, "digest": "1"})
    odd = '{"url": "https://a.example/\\ud800", "status": 200, "digest": "1"}\n'
    row = in_corpus("report", stdin=odd + good).row
    assert (row["n_counted"], row["n_bad"]) == (1, 1)


@pytest.mark.parametrize("words", ["--json", "--no-json"])
def test_orders_that_could_not_be_printed_are_given_back(
    in_corpus: Recrawl, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Output, "row" if words == "--json" else "table", full)
        ran = in_corpus("lease", "10", words)
    assert ran.code == 1
    assert "Given back, to be leased again: 3 pages.\n" in ran.err
    assert "No space left on device." in ran.err
    assert in_corpus("stats").row["in_flight"] == 0


def test_only_orders_that_were_not_printed_are_given_back(
    in_corpus: Recrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, n_written = Output.row, 0

    def closes_after_one(out: Output, row: dict[str, object]) -> None:
        nonlocal n_written
        if n_written:
            raise BrokenPipeError
        write(out, row)
        n_written += 1

    with monkeypatch.context() as patched:
        patched.setattr(Output, "row", closes_after_one)
        ran = in_corpus("lease", "10", "--json")
    assert (ran.code, len(ran.rows)) == (141, 1)
    assert in_corpus("stats").row["in_flight"] == 1


def test_orders_that_cannot_be_given_back_are_noted(
    in_corpus: Recrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        monkeypatch.setattr(lease, "open_to_change", locked)
        raise OSError(errno.ENOSPC, "No space left on device")

    def locked(*_: object, **__: object) -> None:
        raise LockedError("it is open")

    monkeypatch.setattr(Output, "row", full)
    assert "until the lease ends: 3 pages (it is open).\n" in in_corpus("lease", "10", "--json").err


def test_fewer_orders_than_requested_give_the_reason(in_corpus: Recrawl) -> None:
    assert in_corpus("lease", "1").err == ""
    ran = in_corpus("lease", "9")
    assert len(ran.rows) == 2  # one of each other host
    assert ran.err.replace("\n", " ").startswith(
        "2 of 9 pages: 2 pages are on hosts that have as many fetches in flight as they may (see "
        "politeness.in_flight_max, or for one host `recrawl set --host HOST --in-flight-max N`); "
        "1 page is leased already and not reported (the first lease ends in "
    )


def test_report_at_a_terminal_says_what_it_reads(
    in_corpus: Recrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
    monkeypatch.setattr("recrawl.cli.commands.report._is_keyboard", lambda _: True)
    assert "end with Ctrl-D" in in_corpus("report").err


def test_given_urls_are_leased_or_refused_with_a_reason(in_corpus: Recrawl, tmp_path: Path) -> None:
    ran = in_corpus("lease", PAGES[0], PAGES[1], "https://new.example/")
    assert [row["url"] for row in ran.rows] == [PAGES[0]]
    assert " ".join(ran.err.split()) == (
        "1 of 3 URLs: 1 × its host has as many fetches in flight as it may; 1 × the URL is not "
        "tracked."
    )
    (tmp_path / "mine.txt").write_text("https://new.example/\n")
    ran = in_corpus("lease", "--urls", "mine.txt", "--add", "--run", "a")
    assert [row["url"] for row in ran.rows] == ["https://new.example/"]
    assert ran.err.startswith("The budget is not per run, so --run has no effect.")
    ran = in_corpus("lease", "--urls", "-", "--with-refused", stdin="https://new.example/\n")
    assert ran.row["why"] == "in_flight"
    assert ran.row["seconds"] > 0
    assert (
        "a fetcher has it already"
        in in_corpus("lease", "--with-refused", "--no-json", "https://new.example/").out
    )


@pytest.mark.parametrize(
    "arguments",
    [("5", "6"), ("5", "--add"), (PAGES[0], "--exact"), ("--urls", "-", "--wait", "5s")],
)
def test_numbers_and_urls_are_not_mixed(in_corpus: Recrawl, arguments: tuple[str, ...]) -> None:
    assert in_corpus("lease", *arguments).code == 2


def test_answers_that_are_not_the_page_are_counted(in_corpus: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "body.html").write_text(
        "<title>Just a moment...</title><p>Verify that you are not a robot.</p>"
    )
    row = {"url": PAGES[0], "body_path": "body.html", "content_type": "text/html"}
    ran = in_corpus("report", "--no-json", stdin=outcomes(row))
    assert ran.out == "1 outcome counted (1 not the page).\n"
    assert in_corpus("stats").row["wrong_answers"] == {"blocked": 1}
    assert "1: a block page" in in_corpus("stats", "--no-json").out
    explained = in_corpus("explain", PAGES[0], "--no-json").out
    assert "was not the page but a block page" in " ".join(explained.split())


def test_large_bodies_are_reported_a_few_at_a_time(
    in_corpus: Recrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "BODY_BYTES_PER_BATCH", 10)
    rows = [{"url": url, "body": "a body of more than ten bytes"} for url in PAGES]
    assert in_corpus("report", stdin=outcomes(*rows)).row["n_counted"] == len(PAGES)
