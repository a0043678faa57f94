"""Charts as SVG and reports as one HTML page: text out, nothing in but numbers and words.

No I/O, no clock, nothing but numpy.  A chart is an ``<svg>`` element that scales, follows the
reader's choice of light or dark, and is a whole file as it stands; a page needs no other file and
no script.  Everything that is not a chart is escaped.  Numbers that are not finite leave gaps.
"""

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
from recrawl.charts.ticks import number_text, share_text
from recrawl.charts.timelines import MARK_KINDS, Lane, Panel, timeline

__all__ = [
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
    "number_text",
    "paragraph",
    "share_text",
    "table_html",
    "timeline",
]
