"""Tests of ``recrawl completion``."""

import pytest

from tests.unit.cli.conftest import Recrawl


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_prints_the_completion_script(recrawl: Recrawl, shell: str) -> None:
    assert f"_RECRAWL_COMPLETE={shell}_complete" in recrawl("completion", shell).out


def test_an_unknown_shell_is_a_usage_error(recrawl: Recrawl) -> None:
    assert recrawl("completion", "cmd").code == 2


def test_commands_complete(recrawl: Recrawl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_RECRAWL_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "recrawl ex")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert "plain,export" in recrawl().out.splitlines()
