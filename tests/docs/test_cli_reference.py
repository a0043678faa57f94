"""Every command and option has a help text, and the manual shows it."""

import pytest

from scripts import cli_reference


def test_every_command_has_help_and_the_page_is_up_to_date(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = cli_reference.main(["--check"])
    assert status == 0, capsys.readouterr().out


def test_the_manual_has_subcommands() -> None:
    paths = [path for path, _ in cli_reference.commands()]
    assert paths[0] == "recrawl"
    assert "recrawl config check" in paths
