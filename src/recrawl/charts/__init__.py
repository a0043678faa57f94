"""Draw charts as SVG and reports as self-contained HTML pages.

The package depends only on numpy, and does no I/O.  A chart is an ``<svg>`` element that scales,
follows the reader's light or dark mode, and is a complete file itself; a page needs no other file
and no script.  All text is escaped.  Numbers that are not finite leave gaps.
"""

from typing import TYPE_CHECKING

from recrawl.charts.axes import Axis
from recrawl.charts.bars import Bar, bar_chart
from recrawl.charts.frames import Note
from recrawl.charts.lines import line_chart
from recrawl.charts.pages import (
    Card,
    Section,
    bullets,
    cards,
    code,
    details,
    figure,
    html_page,
    paragraph,
    table_html,
)
from recrawl.charts.series import Series
from recrawl.charts.svg_elements import CHART_CSS, without_style
from recrawl.charts.ticks import number_label, share_label
from recrawl.charts.timelines import MARK_KINDS, Lane, Panel, timeline
from recrawl.deprecated_names import find_moved_names

__all__ = [
    "CHART_CSS",
    "MARK_KINDS",
    "Axis",
    "Bar",
    "Card",
    "Lane",
    "Note",
    "Panel",
    "Section",
    "Series",
    "bar_chart",
    "bullets",
    "cards",
    "code",
    "details",
    "figure",
    "html_page",
    "line_chart",
    "number_label",
    "paragraph",
    "share_label",
    "table_html",
    "timeline",
    "without_style",
]

# Names of recrawl 0.1.0.
_MOVED = {
    "number_text": "recrawl.charts.number_label",
    "share_text": "recrawl.charts.share_label",
}
# mypy would accept any attribute of a module that has this function.
if not TYPE_CHECKING:
    __getattr__ = find_moved_names(__name__, _MOVED)
