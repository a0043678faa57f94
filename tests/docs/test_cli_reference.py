"""Every command and option is said what it is for, and the manual shows what they print."""

import pytest

from scripts import cli_reference


def test_every_command_is_described_and_the_page_up_to_date(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = cli_reference.main(["--check"])
    assert status == 0, capsys.readouterr().out


def test_the_manual_has_the_commands_below_commands() -> None:
    paths = [path for path, _ in cli_reference.commands()]
    assert paths[0] == "recrawl"
    assert "recrawl config check" in paths
