"""Tests of ``recrawl shadow`` and ``recrawl holdout``."""

from pathlib import Path

from tests.unit.cli.conftest import Recrawl


def test_a_shadow_needs_one_log(recrawl: Recrawl, tmp_path: Path) -> None:
    assert "name a LOG" in recrawl("shadow").err
    assert "need each other" in recrawl("shadow", "--kafka", "localhost:9").err
    assert "there is no file" in recrawl("shadow", str(tmp_path / "nothing.jsonl")).err
    assert recrawl("shadow", "--kafka", "localhost:9", "--topic", "a", "log").code == 2


def test_a_hold_out_is_planned_before_it_runs(in_corpus: Recrawl) -> None:
    assert "no hosts are held out" in in_corpus("holdout", "status").err
    assert "give a --share" in in_corpus("holdout", "plan").err
    row = in_corpus("holdout", "plan", "--share", "0.2").row
    assert row["is_running"] is False
    assert row["detectable"] is None
    text = in_corpus("holdout", "plan", "--share", "0.2", "--no-json").out
    assert "finds no difference" in text
