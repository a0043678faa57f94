"""Parse an HTML page with resiliparse: its main text, facts from its head, and selected parts."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree

__all__ = ["HtmlFacts", "PageTree"]

FACT_LENGTH_MAX: Final = 1000
"""Signs of a title, URL or directive that are kept."""
LINKS_MAX: Final = 10_000
"""Links of a page that are returned."""
SELECTED_MAX: Final = 2_000
"""Elements that a selector finds."""

_MARK = "data-recrawl-found"


class HtmlFacts(NamedTuple):
    """What an HTML page says about itself."""

    title: str
    language: str
    canonical_url: str
    robots: str
    links: tuple[str, ...] | None


class PageTree:
    """The elements of a page within the limits that `read_markup` checks.

    Parameters
    ----------
    page
        Page, decoded.
    """

    def __init__(self, page: str) -> None:
        self._tree: Any = HTMLTree.parse(page)

    def main_text(self) -> str:
        """Return the text without menus, footers and the like, as resiliparse finds it."""
        text: str = extract_plain_text(
            self._tree, main_content=True, links=False, list_bullets=False
        )
        return text

    def read_facts(self, *, with_links: bool) -> HtmlFacts:
        """Return what the page says about itself.

        Parameters
        ----------
        with_links
            Whether to return the targets of links.
        """
        tree = self._tree
        canonical = robots = language = ""
        head = tree.head
        if head is not None:
            language = head.parent.getattr("lang", "") or ""
            for link in head.get_elements_by_tag_name("link"):
                if "canonical" in (link.getattr("rel", "") or "").lower():
                    canonical = link.getattr("href", "") or ""
                    break
            for meta in head.get_elements_by_tag_name("meta"):
                if (meta.getattr("name", "") or "").lower() == "robots":
                    robots = meta.getattr("content", "") or ""
                    break
        links = None
        if with_links:
            anchors = tree.document.get_elements_by_tag_name("a")
            targets = (anchor.getattr("href", None) for anchor in anchors[:LINKS_MAX])
            links = tuple(target[:FACT_LENGTH_MAX] for target in targets if target)
        return HtmlFacts(
            " ".join((tree.title or "").split())[:FACT_LENGTH_MAX],
            language[:FACT_LENGTH_MAX].strip(),
            canonical[:FACT_LENGTH_MAX].strip(),
            robots[:FACT_LENGTH_MAX].strip(),
            links,
        )

    def keep_only(
        self, select: Sequence[str], ignore: Sequence[str]
    ) -> tuple[list[str], list[tuple[str, str]]]:
        """Remove the elements that do not count; return problems, and removed texts with reasons.

        Parameters
        ----------
        select, ignore
            CSS selectors of the elements that count, and of those that do not.
        """
        problems: list[str] = []
        removed = []
        for selector in ignore:
            for element in _outermost(self._find(selector, problems)):
                tag = element.tag
                if tag == "head":
                    continue
                removed.append((" ".join(element.text.split()), f"selector {selector}"))
                if tag in ("html", "body"):
                    # A tree without a body crashes resiliparse.
                    self._tree = HTMLTree.parse("")
                    return problems, removed
                element.decompose()
        if select:
            chosen = [e for selector in select for e in self._find(selector, problems)]
            pieces = [element.html for element in _outermost(chosen)]
            if pieces:
                self._tree = HTMLTree.parse("".join(f"<div>{piece}</div>" for piece in pieces))
            else:
                problems.append("nothing_selected")
        return problems, removed

    def html(self) -> str:
        """Return the page as it is now."""
        text: str = self._tree.document.html
        return text

    def _find(self, selector: str, problems: list[str]) -> list[Any]:
        try:
            return list(self._tree.document.query_selector_all(selector))[:SELECTED_MAX]
        except ValueError:
            problems.append("bad_selector")
            return []


def _outermost(elements: list[Any]) -> list[Any]:
    """Return the elements that are inside none of the others, each once."""
    for element in elements:
        element.setattr(_MARK, "")
    found = []
    for element in elements:
        # The same element may match several selectors.
        if not element.getattr(_MARK) and not _has_marked_ancestor(element):
            element.setattr(_MARK, "found")
            found.append(element)
    return found


def _has_marked_ancestor(element: Any) -> bool:
    parent = element.parent
    while parent is not None and parent.tag and not parent.tag.startswith("#"):
        if parent.hasattr(_MARK):
            return True
        parent = parent.parent
    return False
