"""Making a corpus."""

import re
import tomllib
from pathlib import Path

import pytest

from recrawl.cli.commands.init import toml_of
from recrawl.corpus import CorpusConfig
from tests.unit.cli.conftest import Recrawl


def test_makes_a_corpus_and_says_what_to_do_next(recrawl: Recrawl, tmp_path: Path) -> None:
    ran = recrawl("init", "shop", "--budget", "30/h", "--no-json")
    assert ran.code == 0
    assert "recrawl add -C shop urls.txt" in ran.out
    assert "--budget" not in ran.out
    config = CorpusConfig.from_toml(tmp_path / "shop/recrawl.toml")
    assert str(config.budget.rate) == "30.0/h"
    assert recrawl("stats", "-C", "shop").row["budget_per_second"] == pytest.approx(30 / 3_600)


def test_is_harmless_when_repeated(kept: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "recrawl.toml").write_text("[politeness]\ndelay = 3\n")
    assert kept("init").row["is_new"] is False
    assert (tmp_path / "recrawl.toml").read_text() == "[politeness]\ndelay = 3\n"
    assert kept("stats").row["n_pages"] == 5
    ran = kept("init", "--budget", "3/h")
    assert ran.code == 2
    assert "recrawl set --budget" in ran.err


def test_uses_a_recrawl_toml_that_is_there(recrawl: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "recrawl.toml").write_text("[corpus]\npartitions = 2\n")
    assert recrawl("init").row["is_new"] is True
    assert recrawl("init").row == {"folder": ".", "is_new": False, "config": "recrawl.toml"}
    assert '"partitions": 2' in (tmp_path / "FORMAT").read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--budget", "many"), 1, "budget.rate must be a rate"),
        (("--ledger", "postgres"), 2, "--ledger must be rocksdb or kafka://"),
        (("--partitions", "0"), 1, "corpus.partitions must be"),
    ],
)
def test_a_wrong_wish_makes_nothing(
    recrawl: Recrawl, tmp_path: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    ran = recrawl("init", "shop", *arguments)
    assert ran.code == code
    assert words in ran.err
    assert not (tmp_path / "shop").exists()


def test_a_log_that_cannot_be_reached_leaves_no_settings_behind(
    recrawl: Recrawl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_: object) -> None:
        raise OSError("no broker")

    monkeypatch.setattr("recrawl.open", unreachable)
    assert "no broker" in recrawl("init", "--ledger", "kafka://localhost:1/topic").err
    assert not (tmp_path / "recrawl.toml").exists()


@pytest.mark.parametrize("is_full", [False, True])
def test_what_is_written_sets_what_was_given_and_nothing_else(is_full: bool) -> None:
    text = toml_of({"budget": {"rate": '"5/s"'}}, is_full=is_full)
    told = {name: table for name, table in tomllib.loads(text).items() if table}
    assert told == {"budget": {"rate": "5/s"}}
    assert max(map(len, text.splitlines())) <= 100
    assert ("[audit]" in text) == is_full


def test_every_default_shown_is_one_that_may_be_set() -> None:
    lines = [line.removeprefix("# ") for line in toml_of({}, is_full=True).splitlines()]
    shown = [line for line in lines if re.match(r"\[|[a-z_]+ = [^…]", line)]
    config = CorpusConfig.from_toml("\n".join(shown))
    assert config.patterns[0].match == "/product/*"
    assert config.snapshots == CorpusConfig().snapshots


def test_a_folder_that_cannot_be_made_is_said(recrawl: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = recrawl("init", "file/shop")
    assert ran.code == 1
    assert ran.err.startswith("Error: no corpus can be made in file/shop: Not a directory.\n")
