from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.charts.wording import escaped, shortened, text_width


@given(st.text())
def test_any_text_can_stand_in_xml_and_comes_back(text: str) -> None:
    element = ET.fromstring(f'<a b="{escaped(text)}">{escaped(text)}</a>')
    # XML itself makes one kind of line end of all.
    same = text.replace("\r\n", "\n").replace("\r", "\n")
    if escaped(text) == escaped(text).replace("\ufffd", ""):
        assert element.text == (same or None)


def test_control_characters_and_lone_surrogates_are_replaced() -> None:
    assert escaped("a\x00b\ud800c") == "a\ufffdb\ufffdc"


@given(st.text(), st.floats(0, 400))
def test_a_shortened_text_is_no_wider_than_it_may_be(text: str, width: float) -> None:
    short = shortened(text, 12.0, width)
    assert text_width(short, 12.0) <= max(width, text_width("…", 12.0))


def test_a_url_is_cut_in_its_middle() -> None:
    short = shortened("https://www.example.com/a/b/c/d/e/f/page.html", 12.0, 150)
    assert short.startswith("https://www")
    assert short.endswith(".html")
    assert "…" in short


@pytest.mark.parametrize("words", ["plain", "two words", ""])
def test_what_fits_stays_as_it_is(words: str) -> None:
    assert shortened(words, 12.0, 200) == words


def test_line_breaks_become_spaces() -> None:
    assert shortened("a\n\tb", 12.0, 200) == "a b"
