from html.parser import HTMLParser

import pytest

from recrawl.charts import (
    Axis,
    Card,
    Section,
    Series,
    bullets,
    cards,
    code,
    details,
    figure,
    html_page,
    line_chart,
    paragraph,
    table_html,
)
from recrawl.charts.pages import Cell

_EVIL = "</style><script>alert(1)</script>\"'&\x00"


class _Tags(HTMLParser):
    """Every tag that a page opens, in order, and how many are left open."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.open: list[str] = []
        self.attributes: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.opened.append(tag)
        self.attributes.extend(name for name, _ in attrs)
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def _page() -> str:
    chart = line_chart([Series(name=_EVIL, x=[1, 2], y=[1, 2])], title=_EVIL, x=Axis(), y=Axis())
    body = (
        cards([Card(value=_EVIL, label=_EVIL, note=_EVIL), Card(value="1", label="one")])
        + paragraph(_EVIL)
        + figure(chart, _EVIL)
        + table_html([_EVIL, "n"], [[_EVIL, 1], ["a", None]], main_row=0)
        + details(_EVIL, bullets([_EVIL]) + code(_EVIL))
    )
    sections = [Section(heading="", body_html=""), Section(heading=_EVIL, body_html=body)]
    return html_page(_EVIL, sections, lead=_EVIL, footer=_EVIL)


def test_a_page_with_any_text_is_valid_and_has_no_script() -> None:
    tags = _Tags()
    tags.feed(_page())
    assert tags.open == []
    assert "script" not in tags.opened
    assert {"h1", "h2", "figure", "table", "details", "footer"} <= set(tags.opened)


def test_a_page_loads_no_other_file() -> None:
    tags = _Tags()
    tags.feed(_page())
    assert not {"src", "href", "onload"} & set(tags.attributes)
    assert "url(" not in _page()
    assert "default-src 'none'" in _page()


def test_a_page_has_styles_for_phones_print_and_dark_mode() -> None:
    page = _page()
    assert "width=device-width" in page
    assert "@media print" in page
    assert "prefers-color-scheme:dark" in page


def test_columns_of_numbers_are_right_aligned() -> None:
    rows: list[list[Cell]] = [
        ["a", 1, "41 %", "2.5k", "−53 %", 2.0],
        ["b", None, "–", "3 h", "40–60 %", None],
    ]
    table = table_html(["name", "n", "share", "size", "range", "x"], rows)
    assert table.count('<th class="n">') == 5
    assert "<th>name</th>" in table


@pytest.mark.parametrize("words", ["2026-11-15 12:00", "3 apples", "n/a", "v1", "/product/1"])
def test_text_with_digits_is_left_aligned(words: str) -> None:
    assert '"n"' not in table_html(["c"], [[words]])


def test_numbers_in_cells_are_readable() -> None:
    table = table_html(["a", "b", "c", "d"], [[1234567, 0.1234567, None, True]])
    assert ">1\u202f234\u202f567<" in table
    assert ">0.123<" in table
    assert ">–<" in table
    assert ">True<" in table


def test_a_row_of_the_wrong_length_raises() -> None:
    with pytest.raises(ValueError, match="a row must have 2 cells, got 1"):
        table_html(["a", "b"], [["x"]])


def test_empty_lists_make_empty_html() -> None:
    assert cards([]) == bullets([]) == ""


def test_a_per_cent_sign_stays_with_its_number() -> None:
    page = html_page("t", [], lead="needs 58 % more")
    assert "58\N{NO-BREAK SPACE}% more" in page
    assert "41\N{NO-BREAK SPACE}%" in cards([Card(value="41 %", label="l", note="n")])
