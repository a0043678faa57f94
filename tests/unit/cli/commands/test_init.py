"""Tests of ``recrawl init``."""

import re
import tomllib
from pathlib import Path

import pytest

from recrawl.cli.commands.init import toml_of
from recrawl.corpus import CorpusConfig
from recrawl.node.config.sections import LedgerConfig
from tests.unit.cli.conftest import Recrawl


def test_creates_a_corpus_and_suggests_next_steps(recrawl: Recrawl, tmp_path: Path) -> None:
    ran = recrawl("init", "shop", "--budget", "30/h", "--no-json")
    assert ran.code == 0
    assert "recrawl add -C shop urls.txt" in ran.out
    assert "--budget" not in ran.out
    config = CorpusConfig.from_toml(tmp_path / "shop/recrawl.toml")
    assert str(config.budget.rate) == "30/h"
    assert recrawl("stats", "-C", "shop").row["budget_per_second"] == pytest.approx(30 / 3_600)


def test_is_harmless_when_repeated(in_corpus: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "recrawl.toml").write_text("[politeness]\ndelay = 3\n")
    assert in_corpus("init").row["is_new"] is False
    assert (tmp_path / "recrawl.toml").read_text() == "[politeness]\ndelay = 3\n"
    assert in_corpus("stats").row["n_pages"] == 5
    ran = in_corpus("init", "--budget", "3/h")
    assert ran.code == 2
    assert "recrawl set --budget" in ran.err


def test_uses_an_existing_recrawl_toml(recrawl: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "recrawl.toml").write_text("[corpus]\npartitions = 2\n")
    assert recrawl("init").row["is_new"] is True
    assert recrawl("init").row == {"folder": ".", "is_new": False, "config": "recrawl.toml"}
    assert '"partitions": 2' in (tmp_path / "FORMAT").read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--budget", "many"), 1, "--budget: 'many' is not a rate"),
        (("--ledger", "postgres"), 2, "--ledger must be rocksdb or kafka://"),
        (("--partitions", "0"), 1, "corpus.partitions must be"),
    ],
)
def test_a_wrong_option_creates_nothing(
    recrawl: Recrawl, tmp_path: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    ran = recrawl("init", "shop", *arguments)
    assert ran.code == code
    assert words in ran.err
    assert not (tmp_path / "shop").exists()


def test_an_unreachable_log_leaves_no_recrawl_toml(
    recrawl: Recrawl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_: object) -> None:
        raise OSError("no broker")

    monkeypatch.setattr("recrawl.open", unreachable)
    assert "no broker" in recrawl("init", "--ledger", "kafka://localhost:1/topic").err
    assert not (tmp_path / "recrawl.toml").exists()
    assert "no broker" in recrawl("init", "a/b", "--ledger", "kafka://localhost:1/topic").err
    assert list(tmp_path.iterdir()) == []


def test_an_unreachable_broker_leaves_nothing_behind(
    recrawl: Recrawl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("confluent_kafka")
    monkeypatch.setattr(LedgerConfig, "__post_init__", _give_up_soon)
    ran = recrawl("init", "a/b", "--ledger", "kafka://127.0.0.1:1/topic")
    assert ran.code == 1
    assert "Kafka at 127.0.0.1:1 did not answer" in ran.err
    assert list(tmp_path.iterdir()) == []


def _give_up_soon(section: LedgerConfig) -> None:
    object.__setattr__(section, "give_up_after", 0.5)


@pytest.mark.parametrize("is_full", [False, True])
def test_recrawl_toml_sets_the_given_options_only(is_full: bool) -> None:
    text = toml_of({"budget": {"rate": '"5/s"'}}, is_full=is_full)
    told = {name: table for name, table in tomllib.loads(text).items() if table}
    assert told == {"budget": {"rate": "5/s"}}
    assert max(map(len, text.splitlines())) <= 100
    assert ("[audit]" in text) == is_full


def test_every_default_in_recrawl_toml_can_be_uncommented() -> None:
    lines = [line.removeprefix("# ") for line in toml_of({}, is_full=True).splitlines()]
    shown = [line for line in lines if re.match(r"\[|[a-z_]+ = [^…]", line)]
    config = CorpusConfig.from_toml("\n".join(shown))
    assert config.patterns[0].match == "/product/*"
    assert config.snapshots == CorpusConfig().snapshots


def test_a_folder_that_cannot_be_created_is_a_message(recrawl: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = recrawl("init", "file/shop")
    assert ran.code == 1
    assert ran.err.startswith("Error: no corpus can be created in file/shop: Not a directory.\n")
