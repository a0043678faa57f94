"""Self-contained HTML pages without scripts, for light mode, dark mode and print."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from recrawl.charts.svg_elements import FONTS
from recrawl.charts.text_layout import escape_text
from recrawl.charts.ticks import number_label

__all__ = [
    "Card",
    "Cell",
    "Section",
    "bullets",
    "cards",
    "code",
    "details",
    "figure",
    "html_page",
    "paragraph",
    "table_html",
]

Cell: TypeAlias = str | int | float | None

# A number with an optional sign and unit, or a range of numbers.
_NUMBER = re.compile(
    r"[<>≈~]?\s?[-−+±]?(\d[\d.,\s\u202f]*|∞)([kMGT%]|[×–-]\s?[\d.,⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?"
    r"(\s?[%×]|\s?[a-zA-Zµ/]{1,4}\d?)?"
)

_STYLE = (
    ":root{color-scheme:light dark;--ground:#fff;--ink:#1b2128;--quiet:#5c6672;--rule:#e1e5ea;"
    "--tint:#f5f7f9;--link:#0b65b0}"
    "@media (prefers-color-scheme:dark){:root{--ground:#14181d;--ink:#e8ebee;--quiet:#9aa4af;"
    "--rule:#2a313a;--tint:#1b2128;--link:#5eb1f5}}"
    "*{box-sizing:border-box}"
    "body{margin:0;background:var(--ground);color:var(--ink);"
    f"font:16px/1.55 {FONTS};-webkit-text-size-adjust:100%}}"
    "main{max-width:62rem;margin:0 auto;padding:2.5rem 1.25rem 4rem}"
    "h1{font-size:1.9rem;line-height:1.2;margin:0 0 .6rem;letter-spacing:-.01em;"
    "overflow-wrap:anywhere}"
    "h2{font-size:1.3rem;line-height:1.3;margin:2.8rem 0 .6rem;overflow-wrap:anywhere}"
    "p,ul{max-width:44rem;margin:.6rem 0;overflow-wrap:anywhere}li{margin:.25rem 0}"
    ".lead{font-size:1.15rem;color:var(--ink)}"
    ".cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(10.5rem,1fr));gap:.8rem;"
    "margin:1.4rem 0;padding:0}"
    ".card{background:var(--tint);border:1px solid var(--rule);border-radius:.5rem;"
    "padding:.8rem 1rem}"
    ".card b{display:block;font-size:1.7rem;font-weight:600;line-height:1.25;"
    "font-variant-numeric:tabular-nums}"
    ".card span{display:block;color:var(--ink);font-size:.92rem}"
    ".card small{display:block;color:var(--quiet);font-size:.82rem;margin-top:.15rem}"
    ".scroll{overflow-x:auto;margin:1rem 0}"
    "table{border-collapse:collapse;font-size:.92rem;font-variant-numeric:tabular-nums}"
    "th,td{text-align:left;padding:.4rem .9rem .4rem 0;border-bottom:1px solid var(--rule);"
    "vertical-align:top;max-width:32rem;overflow-wrap:break-word}"
    "th{color:var(--quiet);font-weight:600;vertical-align:bottom;"
    "border-bottom:1.5px solid var(--quiet)}"
    "th.n,td.n{text-align:right;white-space:nowrap;padding-left:.9rem}"
    "th:last-child,td:last-child{padding-right:0}"
    "tr.main td{font-weight:600}"
    "figure{margin:1.4rem 0}figure svg{display:block;max-width:100%;height:auto}"
    "figure .rc-ground{fill:none}"
    "figcaption{color:var(--quiet);font-size:.88rem;max-width:44rem;margin-top:.4rem}"
    "pre{background:var(--tint);border:1px solid var(--rule);border-radius:.4rem;"
    "padding:.8rem 1rem;overflow-x:auto;font-size:.86rem;line-height:1.45}"
    "details{border-top:1px solid var(--rule);margin:1rem 0;padding-top:.6rem}"
    "summary{cursor:pointer;font-weight:600}"
    "footer{margin-top:3rem;padding-top:.8rem;border-top:1px solid var(--rule);"
    "color:var(--quiet);font-size:.85rem}"
    "@media (max-width:34rem){main{padding:1.4rem .9rem 3rem}h1{font-size:1.5rem}"
    ".card b{font-size:1.35rem}figure{overflow-x:auto}figure svg{min-width:31rem}}"
    "@media print{main{max-width:none;padding:0}figure,.card,tr,pre{break-inside:avoid}"
    "h2{break-after:avoid}.scroll{overflow:visible}}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a page."""

    heading: str
    """Heading; empty for the content before the first heading."""
    body_html: str
    """HTML from the functions of this module, concatenated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A key figure, such as "−53 %", and its label."""

    value: str
    label: str
    note: str = ""
    """Small text below the label, such as an interval."""


def html_page(title: str, sections: Sequence[Section], *, lead: str = "", footer: str = "") -> str:
    """Return a complete HTML page.

    Parameters
    ----------
    title
        Heading of the page and title of the window.
    sections
        Sections of the page.
    lead
        Summary below the title.
    footer
        Small print at the end.
    """
    parts = [f"<h1>{escape_text(title)}</h1>"]
    if lead:
        parts.append(f'<p class="lead">{_prose(lead)}</p>')
    for section in sections:
        heading = f"<h2>{escape_text(section.heading)}</h2>\n" if section.heading else ""
        parts.append(f"<section>\n{heading}{section.body_html}\n</section>")
    if footer:
        parts.append(f"<footer>{escape_text(footer)}</footer>")
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        # The page is self-contained, so the policy forbids loading anything.
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">\n"
        f"<title>{escape_text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _prose(text: str) -> str:
    """Return escaped text, with no line break before a per cent sign."""
    return escape_text(text).replace(" %", "\N{NO-BREAK SPACE}%")


def paragraph(text: str) -> str:
    """Return a paragraph."""
    return f"<p>{_prose(text)}</p>\n"


def bullets(items: Sequence[str]) -> str:
    """Return a bulleted list."""
    rows = "".join(f"<li>{_prose(item)}</li>" for item in items)
    return f"<ul>{rows}</ul>\n" if rows else ""


def code(text: str) -> str:
    """Return preformatted text."""
    return f"<pre>{escape_text(text)}</pre>\n"


def cards(figures: Sequence[Card]) -> str:
    """Return a row of cards with key figures."""
    rows = []
    for card in figures:
        note = f"<small>{_prose(card.note)}</small>" if card.note else ""
        words = f"<b>{_prose(card.value)}</b><span>{_prose(card.label)}</span>"
        rows.append(f'<div class="card">{words}{note}</div>')
    return f'<div class="cards">{"".join(rows)}</div>\n' if rows else ""


def details(summary: str, body_html: str) -> str:
    """Return content that is folded away behind a summary line."""
    return f"<details><summary>{escape_text(summary)}</summary>\n{body_html}</details>\n"


def figure(svg: str, caption: str = "") -> str:
    """Return a figure with a chart of this package and a caption.  The chart is not escaped."""
    words = f"<figcaption>{_prose(caption)}</figcaption>" if caption else ""
    return f"<figure>{svg}{words}</figure>\n"


def table_html(
    columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, main_row: int | None = None
) -> str:
    """Return a table; columns that have only numbers are right-aligned.

    Parameters
    ----------
    columns
        Names of the columns.
    rows
        Cells of each row: text, numbers, or None for a dash.  Text that is a number with a unit,
        such as "41 %" or "2.5k", counts as a number.
    main_row
        Index of the row in bold type.
    """
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(f"a row must have {len(columns)} cells, got {len(row)}")
    is_numeric = [_is_numeric([row[i] for row in rows]) for i in range(len(columns))]
    attributes = [' class="n"' if numeric else "" for numeric in is_numeric]
    head = "".join(
        f"<th{a}>{escape_text(name)}</th>" for a, name in zip(attributes, columns, strict=True)
    )
    body = []
    for i, row in enumerate(rows):
        cells = "".join(f"<td{a}>{_cell(c)}</td>" for a, c in zip(attributes, row, strict=True))
        body.append(f'<tr class="main">{cells}</tr>' if i == main_row else f"<tr>{cells}</tr>")
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>\n"
    )


def _is_numeric(cells: Sequence[Cell]) -> bool:
    filled = [cell for cell in cells if cell is not None and cell not in ("", "–", "-")]
    return bool(filled) and all(
        not isinstance(cell, str) or _NUMBER.fullmatch(cell.strip()) for cell in filled
    )


def _cell(cell: Cell) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, float):
        return escape_text(number_label(cell))
    if isinstance(cell, int) and not isinstance(cell, bool):
        # Thin spaces separate thousands; a comma or a point would be ambiguous between languages.
        return f"{cell:,}".replace(",", "\u202f").replace("-", "−")
    return escape_text(cell)
