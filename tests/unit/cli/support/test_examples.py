"""Commands with examples."""

import click
import pytest
from click.testing import CliRunner

from recrawl.cli.support.examples import CommandExample, example_command


@example_command(
    "go", examples=(CommandExample("recrawl go", "away"), CommandExample("recrawl go --far"))
)
@click.option("--far", is_flag=True, help="Far.")
def go(far: bool) -> None:
    """Go."""


def test_the_help_ends_with_the_examples() -> None:
    shown = CliRunner().invoke(go, ["--help"]).output
    assert shown.endswith("Examples:\n  # away\n  recrawl go\n  recrawl go --far\n")


def test_a_command_without_an_example_is_refused() -> None:
    with pytest.raises(ValueError, match="examples must be given for stay"):
        example_command("stay", examples=())(lambda: None)
