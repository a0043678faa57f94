"""Reading charts back: what a test asks of an SVG."""

from xml.etree import ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"


def parsed(svg: str) -> ET.Element:
    """Return a chart as a tree; a chart that is no XML fails here."""
    return ET.fromstring(svg)


def texts(svg: str) -> list[str]:
    """Return the words in a chart, without what is only shown on hovering."""
    found = []
    for element in parsed(svg).iter(f"{SVG}text"):
        title = element.find(f"{SVG}title")
        found.append((title.tail if title is not None else element.text) or "")
    return found


def of_class(svg: str, name: str) -> list[ET.Element]:
    """Return the elements of a class."""
    return [e for e in parsed(svg).iter() if name in (e.get("class") or "").split()]


def height_of(svg: str, words: str) -> float:
    """Return how far down a text stands."""
    for element in parsed(svg).iter(f"{SVG}text"):
        if words in "".join(element.itertext()):
            return float(element.get("y") or "nan")
    raise AssertionError(f"{words!r} is not in the chart")
