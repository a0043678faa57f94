"""SVG elements and their style: colour-blind safe colours for light and dark mode."""

from recrawl.charts.text_layout import escape_text

__all__ = [
    "CHART_CSS",
    "LABEL_SIZE",
    "N_COLOURS",
    "TEXT_SIZE",
    "TITLE_SIZE",
    "number",
    "svg",
    "text",
    "without_style",
]

TITLE_SIZE, TEXT_SIZE, LABEL_SIZE = 15.0, 12.0, 12.0
N_COLOURS = 6
"""Number of colours; further series repeat them, dashed, except the main series' colour."""

FONTS = 'system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif'

# The colours of Okabe & Ito, darkened to a contrast of at least 4.5 : 1 for text on white.
_LIGHT = ("#0b65b0", "#c2410c", "#047857", "#9d3d8a", "#8a6100", "#4b5563")
_DARK = ("#5eb1f5", "#ff9657", "#43cf9f", "#e79bd4", "#e9bf4a", "#a8b1bd")
_LIGHT_GROUND = {"ground": "#ffffff", "ink": "#1b2128", "quiet": "#5c6672", "grid": "#e6e9ed"}
_DARK_GROUND = {"ground": "#14181d", "ink": "#e8ebee", "quiet": "#9aa4af", "grid": "#2a313a"}


def _colours(colours: tuple[str, ...], ground: dict[str, str]) -> str:
    """Return the CSS rules of colours, without CSS variables, which some viewers lack."""
    rules = [
        f".rc-ground{{fill:{ground['ground']}}}",
        f".rc-title{{fill:{ground['ink']}}}",
        f".rc-text,.rc-label,.rc-note{{stroke:{ground['ground']}}}",
        f".rc-text{{fill:{ground['quiet']}}}.rc-note{{fill:{ground['ink']}}}",
        f".rc-grid{{stroke:{ground['grid']}}}.rc-base{{stroke:{ground['quiet']}}}",
        f".rc-whisker{{stroke:{ground['ink']}}}"
        f".rc-guide,.rc-leader{{stroke:{ground['quiet']}}}.rc-shade{{fill:{ground['grid']}}}",
        f".rc-dot{{stroke:{ground['ground']}}}.rc-spot{{fill:{ground['ink']}}}",
        f".rc-quiet{{stroke:{ground['quiet']};fill:{ground['quiet']}}}",
    ]
    for i, colour in enumerate(colours):
        rules.append(f".rc-line.rc-c{i}{{stroke:{colour}}}.rc-fill.rc-c{i}{{fill:{colour}}}")
    return "".join(rules)


_SHAPES = (
    f".rc-title,.rc-text,.rc-label,.rc-note{{font-family:{FONTS}}}"
    f".rc-title{{font-size:{TITLE_SIZE:g}px;font-weight:600}}"
    f".rc-text,.rc-label,.rc-note{{font-size:{TEXT_SIZE:g}px;stroke-width:3px;"
    "stroke-linejoin:round;paint-order:stroke;font-variant-numeric:tabular-nums}"
    ".rc-strong{font-weight:600}"
    ".rc-grid{stroke-width:1;fill:none}.rc-base{stroke-width:1;fill:none}"
    ".rc-guide{stroke-width:1;stroke-dasharray:4 3;fill:none}"
    ".rc-leader{stroke-width:.75;stroke-dasharray:1 2;fill:none}"
    ".rc-line{fill:none;stroke-width:1.75;stroke-linejoin:round;stroke-linecap:round}"
    ".rc-main{stroke-width:3}.rc-muted{stroke-width:1.5;opacity:.75}"
    ".rc-dashed{stroke-dasharray:6 4}.rc-band{opacity:.16}.rc-dot{stroke-width:1}"
    ".rc-whisker{stroke-width:1.25;fill:none}.rc-mark{stroke-width:1.75;stroke-linecap:round}"
)

CHART_CSS = (
    f"{_SHAPES}{_colours(_LIGHT, _LIGHT_GROUND)}"
    f"@media (prefers-color-scheme:dark){{{_colours(_DARK, _DARK_GROUND)}}}"
)
"""Style sheet of all charts."""
STYLE = f"<style>{CHART_CSS}</style>"


def without_style(chart: str) -> str:
    """Return a chart without its style, for a page that has `CHART_CSS` in a file.

    Browsers ignore styles within a page whose security policy does not allow them.

    Examples
    --------
    >>> "<style>" in without_style(svg([], title="Empty", width=10, height=10))
    False
    """
    return chart.replace(STYLE, "", 1)


def number(value: float) -> str:
    """Return a coordinate as text with at most one decimal."""
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")


def text(
    words: str, x: float, y: float, *, kind: str = "rc-text", anchor: str = "start", hover: str = ""
) -> str:
    """Return a text element anchored at the start, middle or end of its baseline."""
    where = f'x="{number(x)}" y="{number(y)}"'
    align = "" if anchor == "start" else f' text-anchor="{anchor}"'
    title = f"<title>{escape_text(hover)}</title>" if hover and hover != words else ""
    return f'<text class="{kind}" {where}{align}>{title}{escape_text(words)}</text>'


def svg(parts: list[str], *, title: str, width: float, height: float) -> str:
    """Return a picture that scales with the page, with its own style and background."""
    size = f"{number(width)} {number(height)}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" '
        f'width="{number(width)}" height="{number(height)}" class="rc-chart" role="img" '
        f'aria-label="{escape_text(title)}">{STYLE}'
        f'<rect class="rc-ground" width="{number(width)}" height="{number(height)}"/>'
        + "".join(parts)
        + "</svg>"
    )
