"""Tests of ``recrawl config``."""

from pathlib import Path

from tests.unit.cli.conftest import Recrawl

TOML = """
[budget]
rate = "30/h"
[[pattern]]
match = "/product/*"
max_age = "1d"
[hosts."slow.example"]
delay = "30s"
"""


def test_shows_settings_and_where_they_are_set(recrawl: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "recrawl.toml").write_text(TOML)
    recrawl("init")
    rows = {row["key"]: (row["value"], row["from"]) for row in recrawl("config").rows}
    assert rows["budget.rate"] == ('"30/h"', "recrawl.toml")
    assert rows["pattern[0].max_age"] == ('"1d"', "recrawl.toml")
    assert rows['hosts."slow.example".delay'] == ('"30s"', "recrawl.toml")
    assert rows["politeness.delay"] == ('"1s"', "default")
    words = recrawl("config", "--no-json").out
    assert "recrawl.toml" in words
    assert "politeness.delay" not in words
    assert "politeness.delay" in recrawl("config", "show", "--all", "--no-json").out


def test_without_recrawl_toml_the_last_configuration_is_shown(
    recrawl: Recrawl, tmp_path: Path
) -> None:
    (tmp_path / "recrawl.toml").write_text(TOML)
    recrawl("init")
    (tmp_path / "recrawl.toml").unlink()
    rows = {row["key"]: row["from"] for row in recrawl("config").rows}
    assert rows["budget.rate"] == "the program that opened it"
    (tmp_path / "last-config.json").write_text("{")
    assert "Nothing is set" in recrawl("config", "--no-json").out
    assert recrawl("config", "-C", "elsewhere").code == 1


def test_check_accepts_a_valid_file_or_names_the_mistake(recrawl: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "right.toml").write_text(TOML)
    assert recrawl("config", "check", "right.toml").row["n_set"] == 4
    assert "is valid" in recrawl("config", "check", "right.toml", "--no-json").out
    (tmp_path / "wrong.toml").write_text("[politeness]\ndelai = 3\n")
    ran = recrawl("config", "check", "wrong.toml")
    assert ran.code == 1
    assert ran.row["is_right"] is False
    assert "did you mean politeness.delay?" in ran.err
    assert recrawl("config", "check", "no-such.toml").code == 2


def test_a_setting_is_explained(recrawl: Recrawl) -> None:
    row = recrawl("config", "explain", "politeness.delay").row
    assert row["default"] == '"1s"'
    assert row["allowed"].startswith("a duration")
    assert len(recrawl("config", "explain", "budget").rows) == 7
    assert recrawl("config", "explain", "pattern[0].match").row["key"] == "pattern.match"
    words = recrawl("config", "explain", "pattern", "--no-json").out
    assert "[[pattern]]" in words
    assert "Required." in words


def test_an_unknown_setting_suggests_a_similar_one(recrawl: Recrawl) -> None:
    ran = recrawl("config", "explain", "delay")
    assert ran.code == 2
    assert "politeness.delay" in ran.err
    assert "budget.rate" in recrawl("config", "explain", "budget.rat").err
    assert recrawl("config", "explain", "zzzzzzzzz").code == 2


def test_checks_the_file_of_the_corpus_by_default(recrawl: Recrawl, tmp_path: Path) -> None:
    assert recrawl("config", "check").code == 2
    recrawl("init", "--budget", "30/h")
    assert recrawl("config", "check").row["is_right"] is True
    assert recrawl("config", "check", "-C", "elsewhere").code == 2
