"""Where a corpus stands."""

import json
import re

import pytest

from tests.unit.cli.conftest import PAGES, Recrawl


def test_an_empty_corpus_says_what_to_do(recrawl: Recrawl) -> None:
    recrawl("init")
    assert recrawl("stats", "--no-json").out.startswith("No pages yet; `recrawl add")


def test_words_come_first(kept: Recrawl) -> None:
    told = [{"url": url, "status": 200, "digest": "1"} for url in PAGES]
    kept("report", stdin="\n".join(map(json.dumps, told)))
    kept("set", "--budget", "30/h")
    ran = kept("stats", "--no-json")
    first = ran.out.splitlines()[0]
    assert re.fullmatch(r"5 pages on 3 hosts; > 99.99 % fresh by the model; 30 fetches/h\.", first)
    assert "5 (5 active)" in ran.out
    assert kept("stats").row["pages_by_status"]["active"] == 5


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        ("100/h", "100 fetches/h"),
        ("5/s", "5 fetches/s"),
        ("1000/d", "1,000 fetches/day"),
        ("unlimited", "as many fetches as are asked for"),
        ("7/run", "7 fetches left of this run"),
        ("2.55/h", "2.55 fetches/h"),
    ],
)
def test_a_budget_is_said_as_its_owner_said_it(kept: Recrawl, rate: str, words: str) -> None:
    kept("set", "--budget", rate)
    assert words in kept("stats", "--no-json").out


def test_sources_are_listed_with_how_far_they_are_trusted(kept: Recrawl) -> None:
    assert kept("stats", "--sources", "--no-json").out.startswith("No signals yet; `recrawl signal")
    kept("signal", PAGES[0], PAGES[1], "--source", "ping")
    kept("signal", PAGES[0], "--source", "feed")
    rows = kept("stats", "--sources").rows
    assert {row["source"] for row in rows} == {"ping", "feed"}
    assert sum(row["n_signals"] for row in rows) == 3
    assert [row["n_signals"] for row in rows] == sorted(
        (row["n_signals"] for row in rows), reverse=True
    )
    assert all(0 < row["precision"] < 1 and not row["is_given"] for row in rows)
    shown = kept("stats", "--sources", "--no-json").out
    assert re.match(r"3 signals of \d sources, by host\.", shown)
    assert "ping" in shown


def test_only_the_sources_with_the_most_signals_are_shown(
    kept: Recrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recrawl.corpus.inspect.source_table.SOURCES_SHOWN_MAX", 1)
    kept("signal", *PAGES, "--source", "ping")
    assert len(kept("stats", "--sources").rows) == 1
    assert "more have fewer signals." in kept("stats", "--sources", "--no-json").out
