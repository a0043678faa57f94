"""Control and bidirectional characters become visible, and formulas become text."""

import doctest
import json
import random
import sys
import unicodedata

import pytest

from recrawl import safe_text
from recrawl.safe_text import (
    escape_controls,
    escape_json,
    is_formula,
    protect_cell,
    protect_formula,
    unprotect_cell,
    unprotect_formula,
)

EVERY_CHARACTER = [chr(code) for code in range(sys.maxunicode + 1)]
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def test_the_doctests_pass() -> None:
    assert doctest.testmod(safe_text).failed == 0


def test_no_control_bidirectional_or_separating_character_is_left() -> None:
    text = escape_controls("".join(EVERY_CHARACTER))
    kinds = {unicodedata.category(character) for character in text}
    assert not kinds & {"Cc", "Cs", "Zl", "Zp"}
    assert not set(text) & set(BIDI)
    assert not {unicodedata.bidirectional(c) for c in text} & {
        *("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    }


def test_ordinary_text_of_all_scripts_stays() -> None:
    texts = ["Straße", "日本語", "العربية", "עברית", "نمی‌خواهم", "👩‍👩‍👧", "a\u00a0b", "\\x1b", ""]
    assert [escape_controls(text) for text in texts] == texts


def test_lines_stay_where_the_text_has_its_own() -> None:
    assert escape_controls("a\nb\r\n", keep_newlines=True) == "a\nb\\x0d\n"
    assert escape_controls("a\nb") == "a\\x0ab"


def test_escaped_json_has_the_same_meaning() -> None:
    characters = [c for c in EVERY_CHARACTER if not 0xD800 <= ord(c) < 0xE000]
    row = {"all": "".join(characters), BIDI: 1}
    text = escape_json(json.dumps(row, ensure_ascii=False))
    assert json.loads(text) == row
    assert escape_controls(text) == text


@pytest.mark.parametrize("text", ["=1", "+cmd|' /C calc'!A0", "-1+1", "@A1", "\t=1", "\r=1", "＝1"])
def test_formulas_are_protected(text: str) -> None:
    assert is_formula(text)
    assert protect_formula(text) == "'" + text
    assert not is_formula(protect_formula(text))


@pytest.mark.parametrize(
    "text", ["", "a=1", "-5", "+49.5", "-1e9", "'quoted'", "https://a.example/"]
)
def test_other_text_and_numbers_stay(text: str) -> None:
    assert protect_formula(text) == unprotect_formula(text) == text


def test_protected_text_is_read_back_as_it_was() -> None:
    draw = random.Random(5)
    for _ in range(20_000):
        text = "".join(draw.choices("''==+-@\t1.e5 x＝", k=draw.randrange(6)))
        assert unprotect_formula(protect_formula(text)) == text
        assert not is_formula(protect_formula(text))


def test_cells_with_marks_of_direction_are_read_back_as_they_were() -> None:
    draw = random.Random(6)
    for _ in range(20_000):
        text = "".join(draw.choices("''\\\\=\"nu2\u202e\n\x1b x＝", k=draw.randrange(7)))
        cell = protect_cell(text)
        assert unprotect_cell(cell) == text
        assert escape_controls(cell) == cell
        assert not is_formula(cell)
    assert protect_cell("Straße") == "Straße"
    assert unprotect_cell("'\\ not JSON \"") == "'\\ not JSON \""
