from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.charts.text_layout import escape_text, shorten_text, text_width
from recrawl.safe_text import escape_controls


@given(st.text())
def test_any_text_survives_escaping_in_xml(text: str) -> None:
    element = ET.fromstring(f'<a b="{escape_text(text)}">{escape_text(text)}</a>')
    if "\ufffd" not in escape_text(text):
        assert element.text == (escape_controls(text, keep_newlines=True) or None)


def test_control_characters_and_lone_surrogates_become_visible() -> None:
    assert escape_text("a\x00b\ud800c\u202ed\n\uffff") == "a\\x00b\\ud800c\\u202ed\n\ufffd"


@given(st.text(), st.floats(0, 400))
def test_a_shortened_text_fits_the_width(text: str, width: float) -> None:
    short = shorten_text(text, 12.0, width)
    assert text_width(short, 12.0) <= max(width, text_width("…", 12.0))


def test_a_url_is_cut_in_its_middle() -> None:
    short = shorten_text("https://www.example.com/a/b/c/d/e/f/page.html", 12.0, 150)
    assert short.startswith("https://www")
    assert short.endswith(".html")
    assert "…" in short


@pytest.mark.parametrize("words", ["plain", "two words", ""])
def test_a_text_that_fits_is_unchanged(words: str) -> None:
    assert shorten_text(words, 12.0, 200) == words


def test_line_breaks_become_spaces() -> None:
    assert shorten_text("a\n\tb", 12.0, 200) == "a b"
