"""Leasing and reporting, as in a pipe."""

import errno
import json
from pathlib import Path

import pytest

import recrawl as library
from recrawl.cli.commands import lease, report
from recrawl.cli.support.presenting import Output
from recrawl.errors import LockedError
from tests.unit.cli.conftest import PAGES, Recrawl


def outcomes(*rows: dict[str, object]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_an_order_is_leased_reported_and_followed(kept: Recrawl) -> None:
    orders = kept("lease", "10").rows
    assert len(orders) == 3  # one for each host
    assert set(orders[0]) == {
        *("handle", "url", "fetch_url", "etag", "last_modified", "reason", "expires_at_ms"),
    }
    told = [{**order, "status": 200, "body": "text", "etag": '"1"'} for order in orders]
    row = kept("report", stdin=outcomes(*told)).row
    assert (row["n_lines"], row["n_counted"], row["n_new"], row["n_bad"]) == (3, 3, 3, 0)
    row = kept("report", stdin=outcomes(*told)).row
    assert (row["n_counted"], row["n_void"]) == (0, 3)
    changes = kept("changes").rows
    assert {change["url"] for change in changes} == {order["url"] for order in orders}


def test_a_fetch_that_nobody_ordered_is_reported_by_url(kept: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "found.jsonl").write_text(
        outcomes(
            {"url": PAGES[0], "status": 200, "digest": "1", "fetched_at_ms": 1_700_000_000_000}
        )
        + outcomes({"url": PAGES[0], "status": 200, "digest": "2"})
    )
    ran = kept("report", "found.jsonl", "--no-json")
    assert ran.out == "2 outcomes counted (1 new, 1 changed).\n"


def test_bad_lines_are_counted_and_only_all_of_them_fail(kept: Recrawl) -> None:
    good = outcomes({"url": PAGES[0], "status": 200, "digest": "1"})
    ran = kept(
        "report",
        stdin="nonsense\n" + good + outcomes({"url": "https://unknown.example/", "status": 304}),
    )
    assert ran.code == 0
    assert (ran.row["n_counted"], ran.row["n_void"], ran.row["n_bad"]) == (1, 1, 1)
    assert "line 1: not JSON" in ran.err
    ran = kept("report", "--no-json", stdin="nonsense\n")
    assert ran.code == 1
    assert "no line was an outcome" in ran.err
    ran = kept("report", "--no-json", stdin="")
    assert (ran.code, ran.out) == (0, "No outcomes were given.\n")


def test_many_outcomes_go_in_batches(kept: Recrawl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "OUTCOMES_PER_BATCH_MAX", 2)
    told = outcomes(*({"url": url, "status": 404} for url in PAGES))
    assert kept("report", stdin=told).row["n_gone"] == 5


def test_a_report_leaves_the_corpus_alone_until_something_arrives(
    kept: Recrawl, tmp_path: Path
) -> None:
    with library.open(tmp_path):
        assert kept("report", stdin="").code == 0


def test_nothing_to_fetch_says_why(recrawl: Recrawl) -> None:
    recrawl("init")
    assert "there are no pages yet" in recrawl("lease", "1").err
    recrawl("add", PAGES[0])
    assert recrawl("lease", "1").rows
    assert "1 order in flight" in recrawl("lease", "1").err
    recrawl("set", "--budget", "1/h")
    recrawl("add", PAGES[2])
    recrawl("lease", "1")
    assert "the budget allows the next fetch in" in recrawl("lease", "1").err
    recrawl("set", "--budget", "0/run")
    assert "the budget is 0, or that of this run is spent" in recrawl("lease", "1").err


def test_waits_for_something_to_do(kept: Recrawl, monkeypatch: pytest.MonkeyPatch) -> None:
    kept("lease", "10")
    naps: list[float] = []
    monkeypatch.setattr("recrawl.cli.commands.lease.time.sleep", naps.append)
    monkeypatch.setattr("recrawl.cli.commands.lease.time.monotonic", lambda: float(len(naps)))
    assert kept("lease", "1", "--wait", "2s").rows == []
    assert len(naps) == 2
    assert kept("lease", "1", "--wait", "1").code == 0
    assert kept("lease", "1", "--wait", "soon").code == 2


def test_people_see_a_table(kept: Recrawl) -> None:
    ran = kept("lease", "1", "--no-json", "--lease-seconds", "60")
    assert "60 s" in ran.out
    assert "https://" in ran.out


@pytest.mark.parametrize("arguments", [("0",), ("x",), (), ("1", "--lease-seconds", "-1")])
def test_what_cannot_be_leased_is_wrong_usage(kept: Recrawl, arguments: tuple[str, ...]) -> None:
    assert kept("lease", *arguments).code == 2


def test_an_odd_line_does_not_lose_the_others(kept: Recrawl) -> None:
    good = outcomes({"url": PAGES[0], "status": 200, "digest": "1"})
    odd = '{"url": "https://a.example/\\ud800", "status": 200, "digest": "1"}\n'
    row = kept("report", stdin=odd + good).row
    assert (row["n_counted"], row["n_bad"]) == (1, 1)


@pytest.mark.parametrize("words", ["--json", "--no-json"])
def test_orders_that_could_not_be_printed_are_given_back(
    kept: Recrawl, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Output, "row" if words == "--json" else "table", full)
        ran = kept("lease", "10", words)
    assert ran.code == 1
    assert "Given back, as they could not be printed: 3 orders.\n" in ran.err
    assert "No space left on device." in ran.err
    assert kept("stats").row["in_flight"] == 0


def test_only_orders_that_nobody_saw_are_given_back(
    kept: Recrawl, monkeypatch: pytest.MonkeyPatch
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
        ran = kept("lease", "10", "--json")
    assert (ran.code, len(ran.rows)) == (141, 1)
    assert kept("stats").row["in_flight"] == 1


def test_orders_that_cannot_be_given_back_are_told_of(
    kept: Recrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        monkeypatch.setattr(lease, "open_to_change", locked)
        raise OSError(errno.ENOSPC, "No space left on device")

    def locked(*_: object, **__: object) -> None:
        raise LockedError("it is open")

    monkeypatch.setattr(Output, "row", full)
    assert "could not be printed: 3 orders (it is open).\n" in kept("lease", "10", "--json").err


def test_people_are_told_why_there_are_fewer_than_asked_for(
    kept: Recrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kept("lease", "1").err == ""
    monkeypatch.setattr("recrawl.cli.commands.lease._is_watched", lambda: True)
    ran = kept("lease", "9")
    assert len(ran.rows) == 2  # one of each other host
    assert ran.err == "2 of 9 now: 3 orders in flight, and no other host is ready.\n"
