"""Tests of ``recrawl stats``."""

import json
import re

import pytest

from tests.unit.cli.conftest import PAGES, Recrawl


def test_an_empty_corpus_suggests_add(recrawl: Recrawl) -> None:
    recrawl("init")
    assert recrawl("stats", "--no-json").out.startswith("No pages yet.  Add some with `recrawl add")


def test_text_starts_with_a_summary(in_corpus: Recrawl) -> None:
    told = [{"url": url, "status": 200, "digest": "1"} for url in PAGES]
    in_corpus("report", stdin="\n".join(map(json.dumps, told)))
    in_corpus("set", "--budget", "30/h")
    ran = in_corpus("stats", "--no-json")
    first = ran.out.splitlines()[0]
    summary = "5 pages on 3 hosts; estimated freshness: not known yet; budget: 30 fetches/h."
    assert first == summary
    assert "not known yet; known once most pages have been fetched three times" in ran.out
    assert "5 (5 active)" in ran.out
    assert in_corpus("stats").row["pages_by_status"]["active"] == 5


def test_audited_freshness_is_shown_by_kind_and_host(in_corpus: Recrawl) -> None:
    assert "No audits yet.  Set audit.share" in in_corpus("stats", "--audited", "--no-json").out
    rows = in_corpus("stats", "--audited").rows
    assert [row["part"] for row in rows] == ["corpus", "kind", "host", "host", "host"]
    assert rows[0]["n_pages"] == len(PAGES)


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        ("100/h", "100 fetches/h"),
        ("5/s", "5 fetches/s"),
        ("1000/d", "1,000 fetches/day"),
        ("unlimited", "budget: unlimited"),
        ("7/run", "7 fetches/run"),
        ("20000/d", "budget: 20,000 fetches/day."),
        ("1/week", "1 fetch/week"),
        ("300/month", "300 fetches/month"),
        ("2.55/h", "2.55 fetches/h"),
    ],
)
def test_a_budget_is_shown_in_whole_numbers(in_corpus: Recrawl, rate: str, words: str) -> None:
    in_corpus("set", "--budget", rate)
    assert words in in_corpus("stats", "--no-json").out


def test_sources_are_listed_with_their_reliability(in_corpus: Recrawl) -> None:
    assert in_corpus("stats", "--sources", "--no-json").out.startswith(
        "No signals yet.  `recrawl signal"
    )
    in_corpus("signal", PAGES[0], PAGES[1], "--source", "ping")
    in_corpus("signal", PAGES[0], "--source", "feed")
    rows = in_corpus("stats", "--sources").rows
    assert {row["source"] for row in rows} == {"ping", "feed"}
    assert sum(row["n_signals"] for row in rows) == 3
    assert [row["n_signals"] for row in rows] == sorted(
        (row["n_signals"] for row in rows), reverse=True
    )
    assert all(0 < row["precision"] < 1 and not row["is_given"] for row in rows)
    shown = in_corpus("stats", "--sources", "--no-json").out
    assert re.match(r"3 signals from \d sources, by host\.", shown)
    assert "ping" in shown


def test_only_the_sources_with_the_most_signals_are_shown(
    in_corpus: Recrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recrawl.corpus.inspect.source_table.SOURCES_SHOWN_MAX", 1)
    in_corpus("signal", *PAGES, "--source", "ping")
    assert len(in_corpus("stats", "--sources").rows) == 1
    assert "more sources have fewer signals." in in_corpus("stats", "--sources", "--no-json").out
