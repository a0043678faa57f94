"""Read an HTML page with resiliparse: its text by passages, and facts from its head."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree

__all__ = ["HtmlPage", "read_html"]

FACT_LENGTH_MAX = 1000
LINKS_MAX = 10_000


class HtmlPage(NamedTuple):
    """Text of an HTML page, one passage per line, and facts about it."""

    text: str
    main_text: str
    ignored_text: str
    title: str
    language: str
    canonical_url: str
    robots: str
    n_links: int
    links: tuple[str, ...] | None
    problems: tuple[str, ...]


def read_html(
    text: str,
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    with_links: bool = False,
) -> HtmlPage:
    """Parse a page and return its text.

    Parameters
    ----------
    text
        Page, decoded.
    select, ignore
        CSS selectors of the elements whose text counts, and of those whose text does not.
    with_links
        Whether to return the targets of links.
    """
    tree: Any = HTMLTree.parse(text)
    problems: list[str] = []
    facts = _read_head(tree)
    anchors = tree.document.get_elements_by_tag_name("a")
    links = None
    if with_links:
        links = tuple(
            anchor.getattr("href", "")[:FACT_LENGTH_MAX]
            for anchor in anchors[:LINKS_MAX]
            if anchor.hasattr("href")
        )
    if select:
        tree = _select(tree, select, problems)
    whole, main = _texts(tree, ignore, problems)
    return HtmlPage(whole, main, "", *facts, len(anchors), links, tuple(problems))


def _texts(tree: Any, ignore: Sequence[str], problems: list[str]) -> tuple[str, str]:
    options: dict[str, Any] = {"links": False, "list_bullets": False}
    if ignore:
        options["skip_elements"] = list(ignore)
    try:
        whole = extract_plain_text(tree, **options)
    except ValueError:
        problems.append("bad_selector")
        options.pop("skip_elements", None)
        whole = extract_plain_text(tree, **options)
    return whole, extract_plain_text(tree, main_content=True, **options)


def _select(tree: Any, select: Sequence[str], problems: list[str]) -> Any:
    """Return a tree of the selected elements only; the whole tree if there are none."""
    try:
        selected = tree.document.query_selector_all(", ".join(select))
    except ValueError:
        problems.append("bad_selector")
        return tree
    pieces = [element.html for element in selected if not _is_inside(element, selected)]
    if not pieces:
        problems.append("nothing_selected")
        return tree
    return HTMLTree.parse("".join(f"<div>{piece}</div>" for piece in pieces))


def _is_inside(element: Any, others: Any) -> bool:
    parent = element.parent
    while parent is not None:
        if any(parent == other for other in others):
            return True
        parent = parent.parent
    return False


def _read_head(tree: Any) -> tuple[str, str, str, str]:
    """Return title, language, canonical URL and robots directives."""
    root = tree.document.query_selector("html")
    language = (root.getattr("lang", "") or "") if root is not None else ""
    canonical = robots = ""
    head = tree.head
    if head is not None:
        for link in head.get_elements_by_tag_name("link"):
            if "canonical" in (link.getattr("rel", "") or "").lower():
                canonical = link.getattr("href", "") or ""
                break
        for meta in head.get_elements_by_tag_name("meta"):
            if (meta.getattr("name", "") or "").lower() == "robots":
                robots = meta.getattr("content", "") or ""
                break
    title = " ".join((tree.title or "").split())
    facts = (title, language, canonical.strip(), robots.strip())
    return tuple(fact[:FACT_LENGTH_MAX] for fact in facts)  # type: ignore[return-value]
