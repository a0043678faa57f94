"""Tests of ``recrawl forget``."""

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Recrawl

PAGES = ["https://a.example/1", "https://a.example/user/jane", "https://b.example/user/jane"]


@pytest.fixture
def corpus(recrawl: Recrawl, tmp_path: Path) -> Path:
    assert recrawl("init", "corpus").code == 0
    assert recrawl("add", *PAGES, "-C", "corpus").code == 0
    return tmp_path / "corpus"


@pytest.mark.usefixtures("corpus")
def test_pages_are_forgotten_by_url_and_by_pattern(recrawl: Recrawl) -> None:
    row = recrawl("forget", PAGES[1], "-C", "corpus").row
    assert (row["n_pages"], row["is_complete"], row["remains"]) == (1, True, [])
    assert recrawl("backup", "backups", "-C", "corpus").code == 0
    ran = recrawl(
        "forget", "--pattern", "/user/*", "--backup", "backups", "-C", "corpus", "--no-json"
    )
    assert ran.code == 0
    assert "1 tracked page; erased completely." in ran.out
    assert recrawl("stats", "-C", "corpus").row["n_pages"] == 1
    assert [row["is_complete"] for row in recrawl("forget", "--status", "-C", "corpus").rows] == [
        True,
        True,
    ]


def test_what_remains_is_shown_with_exit_code_3(recrawl: Recrawl, corpus: Path) -> None:
    (corpus / "store/0.broken").mkdir()
    ran = recrawl("forget", PAGES[1], "-C", "corpus", "--no-json")
    assert ran.code == 3
    assert "file store/0.broken: kept by a repair" in ran.out
    assert recrawl("forget", "--status", "-C", "corpus").code == 3
    (corpus / "store/0.broken").rmdir()
    assert recrawl("forget", "--status", "-C", "corpus").row["is_complete"]
    assert recrawl("forget", "--finish", "-C", "corpus").rows == []


def test_only_one_way_of_naming_pages_is_accepted(recrawl: Recrawl, corpus: Path) -> None:
    ran = recrawl("forget", PAGES[0], "--pattern", "/user/*", "-C", corpus)
    assert ran.code == 2
    assert "only one of" in ran.err
    assert recrawl("forget", "--status", "-C", "nowhere").code == 1
