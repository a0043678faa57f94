"""Tests of changing one value in a TOML file."""

import doctest

import pytest

from recrawl.cli.support import toml_lines
from recrawl.cli.support.toml_lines import replace_value


def test_the_doctests_pass() -> None:
    assert doctest.testmod(toml_lines).failed == 0


def test_only_the_key_of_that_section_changes() -> None:
    text = "[a]\nrate = 1\n# rate = 2\n[ budget ] # money\n# rate = 3\n rate='4' # h\n[b]\nrate = 5"
    assert replace_value(text, "budget", "rate", '"9"') == text.replace("rate='4'", 'rate="9"')


@pytest.mark.parametrize(
    "text", ["", "[budget]\n# rate = 1\n", 'budget = { rate = "1/h" }\n', "[budget.rate]\nx = 1"]
)
def test_a_key_that_is_not_on_one_line_is_not_found(text: str) -> None:
    assert replace_value(text, "budget", "rate", "1") is None
