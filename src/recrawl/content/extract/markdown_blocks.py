"""Write the elements of a page as Markdown: headings, paragraphs, lists, tables, code and links."""

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple
from urllib.parse import urljoin

from resiliparse.parse.html import HTMLTree, NodeType

__all__ = ["MARKDOWN_CHARACTERS_MAX", "render_page"]

MARKDOWN_CHARACTERS_MAX: Final = 2_000_000
"""Size after which the rest of a page is left out."""
_INDENTS_MAX = 10
_COLUMNS_MAX = 50
_URL_CHARACTERS_MAX = 2_000
_MAIN_SHARE_MIN = 0.25
_KEPT_SHARE_MIN = 0.2

_SILENT = frozenset(
    [
        "script",
        "style",
        "noscript",
        "template",
        "svg",
        "math",
        "iframe",
        "object",
        "embed",
        "canvas",
        "audio",
        "video",
        "head",
        "button",
        "input",
        "select",
        "textarea",
        "datalist",
        "dialog",
    ]
)
_BESIDE = frozenset(["nav", "footer", "aside"])
_BESIDE_ROLES = frozenset(["navigation", "banner", "contentinfo", "complementary", "search"])
_MARKS = {"b": "**", "strong": "**", "em": "*", "i": "*"}
_CODE = frozenset(["code", "kbd", "samp", "tt"])
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_INLINE = frozenset(
    [
        "a",
        "abbr",
        "b",
        "bdi",
        "bdo",
        "big",
        "cite",
        "code",
        "data",
        "del",
        "dfn",
        "em",
        "font",
        "i",
        "img",
        "ins",
        "kbd",
        "label",
        "mark",
        "nobr",
        "q",
        "s",
        "samp",
        "small",
        "span",
        "strike",
        "strong",
        "sub",
        "sup",
        "time",
        "tt",
        "u",
        "var",
        "wbr",
        "br",
    ]
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_ESCAPES = str.maketrans({sign: f"\\{sign}" for sign in "\\`*[]<"})
_UNDERSCORE = re.compile(r"(?<!\w)_|_(?!\w)")
_AT_START = re.compile(r"^(#{1,6}(?=\s|$)|[+>-]|=+$|~{3}|\d{1,9}(?=[.)](\s|$)))")
_UNSAFE_IN_URL = re.compile(r"[\s<>()\\\x00-\x20\x7f]")
_LINE_START = re.compile(r"^(?=.)", re.MULTILINE)
_LIST = re.compile(r"- |\d+\. ")
_TICKS = re.compile(r"`+")


def render_page(page: str, url: str | None = None) -> str:
    """Return a page as Markdown, without menus and the like where its elements say what they are.

    Parameters
    ----------
    page
        HTML within the limits that `read_markup` checks.
    url
        URL of the page, to which its links are relative; None to keep links as they are.
    """
    tree: Any = HTMLTree.parse(page)
    body = tree.body
    if body is None:
        return ""
    n_whole = len(body.text)
    root, is_main = _find_main(body, n_whole)
    text = _Renderer(url, leaves_out=True, in_main=is_main).render(root)
    if len(text) < _KEPT_SHARE_MIN * n_whole:
        # The page is a menu, or wrongly marked as one.
        text = _Renderer(url, leaves_out=False, in_main=True).render(body)
    return text


def _find_main(body: Any, n_whole: int) -> tuple[Any, bool]:
    """Return the element with the main text, and whether the page marks it as such."""
    for selector in ("main", "[role=main]", "article"):
        found = list(body.query_selector_all(selector))
        if len(found) == 1 and len(found[0].text) >= _MAIN_SHARE_MIN * n_whole:
            return found[0], True
    return body, False


class _Piece(NamedTuple):
    """Part of the content of an element: text in a line, or a block."""

    is_block: bool
    text: str


class _Renderer:
    """Writes the elements of one page."""

    def __init__(self, url: str | None, *, leaves_out: bool, in_main: bool) -> None:
        self._url = url
        self._leaves_out = leaves_out
        self._beside = _BESIDE if in_main else _BESIDE | {"header"}
        self._n_left = MARKDOWN_CHARACTERS_MAX

    def render(self, root: Any) -> str:
        text = "\n\n".join(self._blocks(root, 0))
        return text[:MARKDOWN_CHARACTERS_MAX] + "\n" if text else ""

    def _is_left_out(self, node: Any, tag: str) -> bool:
        if tag in _SILENT or node.hasattr("hidden") or node.getattr("aria-hidden") == "true":
            return True
        return self._leaves_out and (
            tag in self._beside or (node.getattr("role") or "") in _BESIDE_ROLES
        )

    def _pieces(self, parent: Any, depth: int) -> list[_Piece]:
        """Return the content of an element: text in lines, and blocks."""
        pieces: list[_Piece] = []
        node = parent.first_child
        while node is not None and self._n_left > 0:
            if node.type == NodeType.TEXT:
                pieces.append(_Piece(False, self._text(node.value or "")))
            elif node.type == NodeType.ELEMENT:
                tag = node.tag
                if self._is_left_out(node, tag):
                    pass
                elif tag in _INLINE:
                    pieces += self._inline(node, tag, depth)
                else:
                    pieces += [_Piece(True, text) for text in self._block(node, tag, depth)]
                    # Text before and after an empty block is not in one paragraph either.
                    pieces.append(_Piece(True, ""))
            node = node.next
        return pieces

    def _blocks(self, parent: Any, depth: int) -> list[str]:
        """Return the blocks inside an element; text between them becomes paragraphs."""
        return _join_lines(self._pieces(parent, depth))

    def _block(self, node: Any, tag: str, depth: int) -> list[str]:
        if tag in _HEADINGS:
            text = _one_line(self._pieces(node, depth))
            return [f"{'#' * _HEADINGS[tag]} {text}"] if text else []
        if tag in ("ul", "ol", "menu"):
            return self._list(node, tag == "ol", depth)
        if tag == "pre":
            return self._code_block(node)
        if tag == "hr":
            return ["---"]
        if tag == "table":
            return self._table(node, depth)
        blocks = self._blocks(node, depth)
        if tag == "blockquote" and blocks and depth < _INDENTS_MAX:
            quoted = "\n\n".join(blocks).split("\n")
            return ["\n".join(f"> {line}".rstrip() for line in quoted)]
        return blocks

    def _list(self, node: Any, is_ordered: bool, depth: int) -> list[str]:
        items = []
        number = 0
        child = node.first_child
        while child is not None and self._n_left > 0:
            if child.type == NodeType.ELEMENT and not self._is_left_out(child, child.tag):
                is_list = child.tag in ("ul", "ol", "menu")
                blocks = (
                    self._list(child, child.tag == "ol", depth + 1)
                    if is_list
                    else self._blocks(child, depth + 1)
                )
                if blocks:
                    number += 1
                    mark = f"{number}. " if is_ordered else "- "
                    is_tight = all(_LIST.match(block) for block in blocks[1:])
                    text = ("\n" if is_tight else "\n\n").join(blocks)
                    indent = " " * len(mark) if depth < _INDENTS_MAX else ""
                    items.append(mark + _LINE_START.sub(indent, text)[len(indent) :])
            child = child.next
        return ["\n".join(items)] if items else []

    def _code_block(self, node: Any) -> list[str]:
        text = _CONTROLS.sub("", node.text).strip("\n")
        self._n_left -= len(text)
        if not text.strip():
            return []
        fence = "`" * max([3, *(len(ticks) + 1 for ticks in _TICKS.findall(text))])
        return [f"{fence}\n{text}\n{fence}"]

    def _table(self, node: Any, depth: int) -> list[str]:
        rows: list[list[list[_Piece]]] = []
        self._read_rows(node, rows, depth)
        n_columns = max(map(len, rows), default=0)
        cells = [cell for row in rows for cell in row]
        if n_columns < 2 or any(piece.is_block for cell in cells for piece in cell):
            return [text for cell in cells for text in _join_lines(cell)]
        lines = []
        for row in rows:
            texts = [_one_line(cell).replace("|", "\\|") for cell in row]
            lines.append("| " + " | ".join(texts + [""] * (n_columns - len(texts))) + " |")
        lines.insert(1, "|" + " --- |" * n_columns)
        return ["\n".join(lines)]

    def _read_rows(self, node: Any, rows: list[list[list[_Piece]]], depth: int) -> None:
        """Add the rows of a table; an element that is not a cell becomes a row of its own."""
        for child in _elements(node):
            tag = child.tag
            if self._n_left <= 0 or self._is_left_out(child, tag):
                continue
            if tag in ("tbody", "thead", "tfoot"):
                self._read_rows(child, rows, depth)
            elif tag == "tr":
                cells = _elements(child)[:_COLUMNS_MAX]
                rows.append([self._pieces(cell, depth) for cell in cells])
            else:
                rows.append([self._pieces(child, depth)])

    def _inline(self, node: Any, tag: str, depth: int) -> list[_Piece]:
        if tag == "br":
            return [_Piece(False, "\v")]  # becomes a line break when the paragraph is whole
        if tag == "img":
            alt = self._text(node.getattr("alt") or "")
            target = self._target(node.getattr("src") or "")
            return [_Piece(False, f"![{alt}]({target})" if target and alt.strip() else alt)]
        if tag in _CODE:
            return [_Piece(False, self._inline_code(node))]
        pieces = self._pieces(node, depth)
        if any(piece.is_block for piece in pieces):
            return pieces
        text = "".join(piece.text for piece in pieces)
        inner = text.strip(" \v")
        if not inner or "\v" in inner:
            return [_Piece(False, text)]
        before, _, after = text.partition(inner)
        if tag == "a":
            target = self._target(node.getattr("href") or "")
            if target:
                inner = f"[{inner}]({target})"
        elif tag in _MARKS and inner[0] != "*" != inner[-1]:
            inner = f"{_MARKS[tag]}{inner}{_MARKS[tag]}"
        return [_Piece(False, before + inner + after)]

    def _inline_code(self, node: Any) -> str:
        text = " ".join(_CONTROLS.sub("", node.text).split())
        self._n_left -= len(text)
        if not text:
            return ""
        ticks = "`" * max([1, *(len(found) + 1 for found in _TICKS.findall(text))])
        space = " " if text.startswith("`") or text.endswith("`") else ""
        return f"{ticks}{space}{text}{space}{ticks}"

    def _text(self, text: str) -> str:
        words = " ".join(text.split())
        before = " " if text[:1].isspace() else ""
        after = " " if words and text[-1:].isspace() else ""
        text = before + words + after
        self._n_left -= len(text)
        if not text.isprintable():
            text = _CONTROLS.sub("", text)
        text = text.translate(_ESCAPES)
        return _UNDERSCORE.sub(r"\\_", text) if "_" in text else text

    def _target(self, link: str) -> str:
        """Return the target of a link as Markdown takes it; empty if it should not be one."""
        link = link.strip()
        if not link or link.startswith("#") or len(link) > _URL_CHARACTERS_MAX:
            return ""
        if self._url is not None:
            try:
                link = urljoin(self._url, link)
            except ValueError:
                return ""
        scheme, colon, _ = link.partition(":")
        if colon and re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme):
            if scheme.lower() not in ("http", "https", "mailto"):
                return ""
        elif self._url is not None:
            return ""
        link = _UNSAFE_IN_URL.sub(lambda found: f"%{ord(found[0]):02X}", link)
        link = _CONTROLS.sub("", link)
        self._n_left -= len(link)
        return link


def _elements(node: Any) -> list[Any]:
    return [one for one in node.child_nodes if one.type == NodeType.ELEMENT]


def _join_lines(pieces: Sequence[_Piece]) -> list[str]:
    """Return blocks, with the text between them as paragraphs."""
    blocks = []
    for is_block, group in groupby(pieces, key=lambda piece: piece.is_block):
        texts = [piece.text for piece in group]
        blocks += texts if is_block else [_paragraph("".join(texts))]
    return [text for text in blocks if text]


def _one_line(pieces: Sequence[_Piece]) -> str:
    texts = [f" {piece.text} " if piece.is_block else piece.text for piece in pieces]
    return " ".join("".join(texts).replace("\v", " ").split())


def _paragraph(text: str) -> str:
    """Return a paragraph whose beginning is not taken for a heading, a list or a quotation."""
    lines = [" ".join(line.split()) for line in text.split("\v")]
    lines = [_AT_START.sub(_escape_start, line) for line in lines if line]
    return "  \n".join(lines)


def _escape_start(found: re.Match[str]) -> str:
    text = found[0]
    return f"{text}\\" if text[0].isdigit() else f"\\{text}"
