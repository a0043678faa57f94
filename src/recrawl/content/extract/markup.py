"""Read HTML in one linear pass: its text by passages, and whether a parser could take too long.

A parser builds a tree, and needs quadratic time for deeply nested elements, very many blocks or
very many attributes: resiliparse takes 25 seconds for 3×10⁴ nested elements.  This module reads a
page as a tokeniser does.  It writes the text of the page with one passage per line, so the passages
of a page do not depend on any limit; it leaves out scripts and style sheets, which are more than
half of most pages; and it follows the open elements on a small stack, to find out whether the rest
may be given to the parser.  Where the rules of HTML are too intricate to follow, it counts elements
as open that may be closed, never the other way round.
"""

import html.entities
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.content.extract.attributes import (
    attribute_tables,
    find_sign,
    find_slot,
    is_space,
    write_tag,
)
from recrawl.content.extract.utf8 import write_code
from recrawl.core.kernel import ignore_overflow, table_kernel

__all__ = [
    "ATTRIBUTES_MAX",
    "BLOCKS_MAX",
    "DEPTH_MAX",
    "TAGS_MAX",
    "MarkupText",
    "read_markup",
]

TAGS_MAX: Final = 15_000
"""Elements up to which a page is parsed."""
BLOCKS_MAX: Final = 4_000
"""Elements that are not inline, such as paragraphs, up to which a page is parsed."""
DEPTH_MAX: Final = 150
"""Depth of nested elements up to which a page is parsed."""
BLOCKS_TIMES_TEXT_MAX: Final = 3_000_000_000
"""Blocks times bytes of text up to which a page is parsed: 2 000 blocks and 1.5 MB."""
ATTRIBUTES_MAX: Final = 150
"""Attributes of one element up to which a page is parsed."""
HEX_LETTERS_MIN: Final = 6
"""Letters of a part of a class name that is hexadecimal digits rather than a word, at least."""
LINES_MAX: Final = 100_000
"""Lines of the text whose paths are known."""

# Classes of elements.  Those from _ITEM on end an inline context.
_VOID = 1
_INLINE = 2
_FORMATTING = 3  # a parser opens these again in the next block if they are not closed
_ANCHOR = 4
_FREE = 5  # closed by the next of its kind, wherever it is
_ITEM = 6
_DIVISION = 7
_MARKER = 8  # formatting is not closed across its border
_TABLE = 9
_RAW = 10  # its content is text, in most contexts
_SCRIPT = 11
_FOREIGN = 12
_LINE = 13  # void, and begins a line
_CELL = 14
_NAMES = {
    _VOID: "area base col embed img input link meta param source track wbr basefont bgsound "
    "frame keygen image",
    _INLINE: "abbr bdi bdo cite data del dfn ins kbd label mark q samp span sub sup time var",
    _FORMATTING: "b big code em font i nobr s small strike strong tt u",
    _ANCHOR: "a",
    _FREE: "p option tr tbody thead tfoot colgroup html head body",
    _ITEM: "li dd dt",
    _DIVISION: "div address",
    _MARKER: "applet object marquee template caption",
    _TABLE: "table",
    _RAW: "textarea title xmp iframe noembed noframes noscript plaintext",
    _SCRIPT: "script style",
    _FOREIGN: "svg math",
    _LINE: "br hr",
    _CELL: "td th",
}
# Elements whose content is not text of the page.
_SILENT = "textarea title iframe noembed noframes noscript template svg select datalist object"
# A table cell is inside table, tbody, tr and td, and may be inside a paragraph of its own.
_TABLE_DEPTH = 5
_SLOTS = 1 << 9
_ENTITY_SLOTS = 1 << 13
_FACTOR = 0x9E3779B97F4A7C15
_WORD = 1 << 64

_PROBLEMS = ("", "too_many_tags", "too_deep", "too_many_attributes")


class MarkupText(NamedTuple):
    """Text of an HTML page, and what a parser may be given."""

    text: bytes
    """Text in UTF-8, one passage per line."""
    parsed: bytes
    """Page without the contents of scripts, style sheets, images and the like; if asked for, also
    without attributes that do not decide which text is its main text."""
    title: bytes
    """Content of the first title element, with its entities."""
    problem: str
    """Code of the limit that the page exceeds; empty if it may be parsed."""
    n_links: int
    """Elements that are links."""
    n_parsed: int
    """Size of the page without the contents of scripts, style sheets, images and the like."""
    end: int
    """Place in the page up to which its text was read; the size of the page unless it is huge."""
    paths: NDArray[np.uint32]
    """Key of the elements around each line of the text: their names, and classes that are words."""
    is_closed: bool
    """Whether the end tag of the page is there."""


def _pack(name: str) -> int:
    packed = 0
    for sign in name.encode():
        packed = (packed * 256 + sign) % _WORD
    return packed


@cache
def _name_table() -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    """Return a hash table of element names, packed into 8 bytes, and their classes.

    Names of silent elements have 128 added to their class.
    """
    keys = np.zeros(_SLOTS, dtype=np.uint64)
    classes = np.zeros(_SLOTS, dtype=np.uint8)
    known = {name: kind for kind, names in _NAMES.items() for name in names.split()}
    for name in {*known, *_SILENT.split()}:
        packed = _pack(name)
        slot = (packed * _FACTOR % _WORD) >> 55
        while keys[slot]:
            slot = (slot + 1) % _SLOTS
        keys[slot] = packed
        classes[slot] = known.get(name, 0) | (128 if name in _SILENT.split() else 0)
    return keys, classes


@cache
def _entity_table() -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """Return a hash table of entity names and the code points that they stand for."""
    keys = np.zeros(_ENTITY_SLOTS, dtype=np.uint64)
    codes = np.zeros((_ENTITY_SLOTS, 2), dtype=np.uint32)
    for name, value in html.entities.html5.items():
        packed = 0
        for sign in name.encode():
            packed = (packed * 257 + sign) % _WORD
        slot = (packed * _FACTOR % _WORD) >> 51
        while keys[slot]:
            slot = (slot + 1) % _ENTITY_SLOTS
        keys[slot] = packed
        codes[slot, : len(value)] = [ord(sign) for sign in value]
    return keys, codes


@table_kernel
def _read_entity(
    page: NDArray[np.uint8],
    start: int,
    keys: NDArray[np.uint64],
    codes: NDArray[np.uint32],
    out: NDArray[np.uint8],
    n_out: int,
) -> tuple[int, int]:
    """Write what the entity at ``start`` stands for; return the place after it, and in ``out``.

    What is not an entity is written as it is.
    """
    n = page.size
    i = start + 1
    if i < n and page[i] == 35:  # a number
        i += 1
        base = 10
        if i < n and page[i] | 32 == 120:
            base = 16
            i += 1
        first = i
        code = 0
        while i < n and i - first < 8:
            sign = int(page[i])
            if 48 <= sign <= 57:
                code = code * base + sign - 48
            elif base == 16 and 97 <= sign | 32 <= 102:
                code = code * base + (sign | 32) - 87
            else:
                break
            i += 1
        if i > first:
            if i < n and page[i] == 59:
                i += 1
            if code == 0 or code > 0x10FFFF or 0xD800 <= code < 0xE000:
                code = 0xFFFD
            elif code == 0x92 or code == 0x91:  # quotes of Windows-1252, which browsers accept
                code = 0x27
            elif 0x80 <= code < 0xA0 or code == 10 or code == 13:
                code = 32
            return i, write_code(out, n_out, code)
    else:
        name = np.uint64(0)
        while i < n and i - start <= 32:
            sign = int(page[i])
            is_name = 48 <= sign <= 57 or 97 <= sign | 32 <= 122
            if not is_name and sign != 59:
                break
            name = name * np.uint64(257) + np.uint64(sign)
            i += 1
            if sign == 59:
                break
        if i > start + 1:
            slot = find_slot(name, keys, 51)
            if slot >= 0:
                n_out = write_code(out, n_out, int(codes[slot, 0]))
                if codes[slot, 1]:
                    n_out = write_code(out, n_out, int(codes[slot, 1]))
                return i, n_out
    out[n_out] = 38
    return start + 1, n_out + 1


@table_kernel
def _copy(page: NDArray[np.uint8], start: int, end: int, out: NDArray[np.uint8], n_out: int) -> int:
    """Write a part of the page; return the place after it."""
    for k in range(start, end):
        out[n_out] = page[k]
        n_out += 1
    return n_out


@table_kernel
def _is_ascii(page: NDArray[np.uint8], start: int, end: int) -> bool:
    wide = np.uint8(0)
    for k in range(start, end):
        wide |= page[k]
    return bool(wide < 128)


@table_kernel
def _skip_tag(
    page: NDArray[np.uint8], words: NDArray[np.uint64], start: int
) -> tuple[int, int, int, int]:
    """Return the place of the end of a tag, after its name, and how many attributes it has.

    The last two are the start and the end of the value of its attribute ``class``.
    """
    n = page.size
    i = start
    n_attributes = 0
    class_start = class_end = 0
    is_class = False
    is_in_name = False
    is_before_value = False
    while i < n and page[i] != 62:
        sign = page[i]
        if is_space(sign):
            if not is_before_value:
                is_in_name = False
        elif is_before_value:
            is_before_value = False
            is_in_name = False
            value_start = i
            if sign == 34 or sign == 39:
                value_start = i + 1
                i = find_sign(page, words, i + 1, sign)
            else:
                while i < n and page[i] != 62 and not is_space(page[i]):
                    i += 1
            if is_class and class_start == 0:
                class_start, class_end = value_start, i
            if sign != 34 and sign != 39:
                continue
        elif sign == 47:
            is_in_name = False
        elif sign == 61 and is_in_name:
            is_before_value = True
        elif not is_in_name:
            is_in_name = True
            n_attributes += 1
            is_class = sign | 32 == 99 and _is_class(page, i)
        i += 1
    return min(i, n), n_attributes, class_start, class_end


@table_kernel
def _is_class(page: NDArray[np.uint8], start: int) -> bool:
    """Return whether the name of an attribute is ``class``."""
    if start + 6 > page.size:
        return False
    name = 0
    for k in range(1, 5):
        name = name * 256 + int(page[start + k] | 32)
    after = page[start + 5]
    return name == 0x6C617373 and (after == 61 or is_space(after))


@table_kernel
def _classes_key(page: NDArray[np.uint8], start: int, end: int) -> np.uint64:
    """Return a key of the classes of an element, whose value stands from ``start`` to ``end``.

    Only names of small letters count: names with digits or capitals are often made anew with each
    build of a site.  So are those with a part of hexadecimal digits, which may all be letters.
    """
    key = np.uint64(0)
    word = np.uint64(0)
    is_word = True
    n_hex = 0  # letters of the present part if all are hexadecimal digits, negative if not
    end = min(end, start + 256)
    for i in range(start, end + 1):
        sign = int(page[i]) if i < end else 32  # as if a space followed
        is_end = is_space(sign)
        if is_end or sign == 45 or sign == 95:
            is_word &= n_hex < HEX_LETTERS_MIN
            n_hex = 0
        if is_end:
            if is_word:
                key += word * np.uint64(0x9E3779B97F4A7C15)
            word = np.uint64(0)
            is_word = True
        elif 97 <= sign <= 122 or sign == 45 or sign == 95:
            word = word * np.uint64(0xC2B2AE3D27D4EB4F) + np.uint64(sign)
            if sign > 102:
                n_hex = -256
            elif sign >= 97:
                n_hex += 1
        else:
            is_word = False
    return key


@table_kernel
def _join_path(path: np.uint64, name: np.uint64, classes: np.uint64) -> np.uint64:
    """Return the key of the path to an element inside another."""
    path = (path + name) * np.uint64(0x9FB21C651E98DF25) + classes
    return path ^ (path >> np.uint64(29))


@table_kernel
def _skip_comment(page: NDArray[np.uint8], words: NDArray[np.uint64], start: int) -> int:
    """Return the place of the last sign of a comment that begins at ``start`` with an ``!``."""
    n = page.size
    i = find_sign(page, words, start + 2, 62)
    while i < n:
        if page[i - 1] == 45 and page[i - 2] == 45:
            return i
        if page[i - 1] == 33 and page[i - 2] == 45 and page[i - 3] == 45:
            return i
        i = find_sign(page, words, i + 1, 62)
    return n


@table_kernel
def _skip_script(
    page: NDArray[np.uint8], words: NDArray[np.uint64], start: int, name: np.uint64
) -> int:
    """Return the place of the end tag of a script or style sheet."""
    n = page.size
    size = 6 if name == np.uint64(0x736372697074) else 5
    i = find_sign(page, words, start, 60)
    while i + size + 1 < n:
        if page[i + 1] == 47:
            found = np.uint64(0)
            for k in range(size):
                found = found * np.uint64(256) + np.uint64(page[i + 2 + k] | 32)
            if found == name:
                return i
        i = find_sign(page, words, i + 1, 60)
    return n


@table_kernel
def _pop(stack_classes: NDArray[np.uint8], top: int, k: int, open_counts: NDArray[np.int64]) -> int:
    """Take the elements from ``k`` on off the stack; return its new height."""
    while top > k:
        top -= 1
        kind = stack_classes[top]
        if kind == 9:
            open_counts[0] -= 5
        elif kind == 4:
            open_counts[1] -= 1
    return top


@table_kernel
def _read(  # noqa: PLR0912, PLR0913, PLR0915, PLR0917 - one pass keeps all of it at hand
    page: NDArray[np.uint8],
    words: NDArray[np.uint64],
    keys: NDArray[np.uint64],
    classes: NDArray[np.uint8],
    entity_keys: NDArray[np.uint64],
    entity_codes: NDArray[np.uint32],
    stack: NDArray[np.uint64],
    stack_classes: NDArray[np.uint8],
    limits: NDArray[np.int64],
    attribute_names: NDArray[np.uint64],
    attribute_uses: NDArray[np.uint8],
    signs: NDArray[np.uint8],
    steps: NDArray[np.uint16],
    found: NDArray[np.uint8],
    out: NDArray[np.uint8],
    parsed: NDArray[np.uint8],
    open_counts: NDArray[np.int64],
    results: NDArray[np.int64],
    stack_paths: NDArray[np.uint64],
    line_paths: NDArray[np.uint32],
) -> None:
    n = page.size
    n_out_max = out.size - 8
    depth_max = stack.size
    i = 0
    n_out = 0
    n_parsed = 0
    kept = 0  # place from which on the page is still to be copied to what is parsed
    n_left_out = 0
    is_reduced = limits[3] != 0
    top = 0  # elements on the stack
    problem = 0
    n_tags = 0
    n_blocks = 0
    n_formatting = 0
    n_links = 0
    raw = np.uint64(0)  # element whose content may be text only
    raw_top = 0
    silent = np.uint64(0)  # element whose content is not text of the page
    n_silent = 0
    silent_start = 0
    silent_parsed = 0
    silent_left_out = 0
    n_preformatted = 0
    title_start = -1
    title_end = -1
    is_closed = 0
    is_after_term = False
    line = 0
    loose = np.uint64(0)  # element in which the text stands that is not on the stack, such as p
    while i < n:
        if page[i] != 60:
            if silent != np.uint64(0):
                i = find_sign(page, words, i, 60)
                continue
            if (n_out == 0 or out[n_out - 1] == 10) and line < line_paths.size:
                path = stack_paths[top - 1] if top > 0 else np.uint64(0)
                path = (path + loose) * np.uint64(0xD6E8FEB86659FD93)
                line_paths[line] = np.uint32(path >> np.uint64(32))
            # Text: white space becomes one space, none at the start of a line.
            while i < n and n_out < n_out_max:
                sign = page[i]
                if sign > 32:
                    if sign == 60:
                        break
                    if sign == 38:
                        i, n_out = _read_entity(page, i, entity_keys, entity_codes, out, n_out)
                        continue
                    out[n_out] = sign
                    n_out += 1
                elif sign == 10 and n_preformatted > 0:
                    out[n_out] = 10
                    n_out += 1
                    line += 1
                    if line < line_paths.size:
                        line_paths[line] = line_paths[line - 1]
                elif n_out > 0 and out[n_out - 1] > 32:
                    out[n_out] = 32
                    n_out += 1
                i += 1
            if n_out >= n_out_max:
                break
            continue
        i += 1
        if i >= n:
            break
        sign = page[i]
        if sign == 33 or sign == 63:  # ! or ?
            if sign == 33 and i + 2 < n and page[i + 1] == 45 and page[i + 2] == 45:
                start = i - 1
                i = _skip_comment(page, words, i) + 1
                is_left_out = is_reduced and silent == np.uint64(0) and raw == np.uint64(0)
                is_left_out = is_left_out and start + 7 < i <= n and page[i - 2] == 45
                if is_left_out and page[i - 3] == 45 and _is_ascii(page, start, i):
                    n_parsed = _copy(page, kept, start + 4, parsed, n_parsed)
                    kept = i - 3
            else:
                i = find_sign(page, words, i, 62) + 1
            continue
        is_end = sign == 47
        if is_end:
            i += 1
            if i >= n:
                break
            sign = page[i]
        if not 97 <= sign | 32 <= 122:
            if is_end:  # a wrong comment
                i = find_sign(page, words, i, 62) + 1
            elif silent == np.uint64(0) and n_out < n_out_max:
                out[n_out] = 60
                n_out += 1
            continue
        tag_start = i - 1
        name = np.uint64(0)
        while i < n:
            sign = page[i]
            if is_space(sign) or sign == 62 or sign == 47:
                break
            if 65 <= sign <= 90:
                sign |= 32
            name = name * np.uint64(256) + np.uint64(sign)
            i += 1
        slot = find_slot(name, keys, 55)
        kind = 0
        is_silent = False
        if slot >= 0:
            kind = int(classes[slot]) & 127
            is_silent = classes[slot] >= 128
        n_attributes = -1
        if is_reduced and not is_end and i < n and page[i] != 62:
            # Facts are read from html, meta and link; attributes of formatting tell it apart.
            is_read = name == np.uint64(0x68746D6C) or name == np.uint64(0x6D657461)
            is_read = is_read or name == np.uint64(0x6C696E6B) or kind == 3 or kind == 12
            if not is_read and silent == np.uint64(0) and raw == np.uint64(0):
                n_parsed = _copy(page, kept, i, parsed, n_parsed)
                kept = i
                place, count, n_parsed, class_start, class_end = write_tag(
                    page,
                    words,
                    i,
                    name == np.uint64(0x646976),
                    attribute_names,
                    attribute_uses,
                    signs,
                    steps,
                    found,
                    parsed,
                    n_parsed,
                )
                if place >= 0:
                    n_attributes = count
                    kept = place
                    i = place
                    if page[i] == 47:
                        i += 1
        if n_attributes < 0:
            i, n_attributes, class_start, class_end = _skip_tag(page, words, i)
        i += 1
        if n_attributes > limits[2]:
            problem = 3
        if kind == 4 and not is_end:
            n_links += 1

        # Text: a tag that is not inline begins a new line.
        if silent == np.uint64(0):
            if (kind == 0 or kind >= 5) and kind != 12:
                if n_out >= n_out_max:
                    i = tag_start - 1
                    break
                if n_out > 0 and out[n_out - 1] == 32:
                    n_out -= 1
                # A cell stands in the line of its row, a definition in that of its term.
                is_term = name == np.uint64(0x6474)
                is_joined = kind == 14 or (is_term and is_end)
                if name == np.uint64(0x6464) and is_after_term and not is_end:
                    is_joined = True
                if n_out > 0 and out[n_out - 1] != 10:
                    out[n_out] = 32 if is_joined else 10
                    n_out += 1
                    if not is_joined:
                        line += 1
                is_after_term = is_term
            if name == np.uint64(0x707265):  # pre
                n_preformatted = 0 if is_end else 1
            if is_silent and not is_end:
                silent = name
                n_silent = 1
                silent_start = i
                n_parsed = _copy(page, kept, i, parsed, n_parsed)
                kept = i
                silent_parsed = n_parsed
                silent_left_out = n_left_out
                if name == np.uint64(0x7469746C65) and title_start < 0:
                    title_start = i
        elif name == silent:
            n_silent += -1 if is_end else 1
            if is_end and title_start >= 0 and title_end < 0:
                title_end = tag_start - 1
            if n_silent == 0:
                silent = np.uint64(0)
                # The parser does not need what is not text, except the title.
                n_parsed = silent_parsed
                n_left_out = silent_left_out
                kept = silent_start
                if name != np.uint64(0x7469746C65):
                    kept = tag_start - 1
                    n_left_out += kept - silent_start
        elif silent == np.uint64(0x737667) and not is_end and (kind == 7 or kind == 9 or kind == 6):
            silent = np.uint64(0)  # HTML inside an image, or after one that is not closed

        if kind == 11 and not is_end:
            start = i
            i = _skip_script(page, words, start, name)
            n_parsed = _copy(page, kept, start, parsed, n_parsed)
            kept = i
            n_left_out += i - start
            continue
        if is_end and (name == np.uint64(0x68746D6C) or name == np.uint64(0x626F6479)):
            is_closed = 1  # html or body
        if problem != 0:
            continue

        # Path: in which elements the next text stands.
        if kind == 5:
            loose = (
                np.uint64(0)
                if is_end
                else _join_path(name, name, _classes_key(page, class_start, class_end))
            )
        elif kind == 0 or 6 <= kind <= 10:
            loose = np.uint64(0)

        # Depth: which elements are open.
        if name == np.uint64(0x6474):  # dt and dd close each other
            name = np.uint64(0x6464)
        if is_end:
            if raw != np.uint64(0):
                if name == raw:
                    raw = np.uint64(0)
                    top = _pop(stack_classes, top, raw_top, open_counts)
                continue
            k = top - 1
            while k >= 0 and stack[k] != name:
                if (kind == 3 or kind == 4) and stack_classes[k] >= 8:
                    k = -1
                    break
                k -= 1
            if k >= 0:
                if kind == 3:
                    n_formatting -= 1
                top = _pop(stack_classes, top, k, open_counts)
            continue
        n_tags += 1
        if kind == 0 or kind >= 5:
            n_blocks += 1
        if n_tags > limits[0] or n_blocks > limits[1]:
            problem = 1
            continue
        if kind == 1 or kind == 13 or kind == 5 or kind == 14:
            continue
        if kind == 4 and open_counts[1] > 0:
            continue
        if kind == 10 and raw == np.uint64(0):
            raw = name
            raw_top = top
            continue
        if kind == 6:
            # A list item closes the one before it, unless another list is open in between.
            k = top - 1
            while k >= 0 and stack[k] != name:
                between = stack_classes[k]
                if not (2 <= between <= 4 or between == 7):
                    k = -1
                    break
                k -= 1
            if k >= 0:
                top = _pop(stack_classes, top, k, open_counts)
        if kind == 3:
            n_formatting += 1
        elif kind == 4:
            open_counts[1] += 1
        elif kind == 9:
            open_counts[0] += 5
        if top + open_counts[0] + n_formatting >= depth_max:
            problem = 2
            continue
        stack[top] = name
        stack_classes[top] = kind
        path = stack_paths[top - 1] if top > 0 else np.uint64(0)
        if kind == 0 or kind >= 6:
            path = _join_path(path, name, _classes_key(page, class_start, class_end))
        stack_paths[top] = path
        top += 1
    n_parsed = _copy(page, kept, n, parsed, n_parsed)
    results[0] = problem
    results[1] = n_out
    results[2] = n_parsed
    results[3] = title_start
    results[4] = title_end
    results[5] = n_links
    results[6] = min(i, n)
    results[7] = n_blocks
    results[8] = n - n_left_out
    results[9] = is_closed


_read_page = ignore_overflow(_read)


def read_markup(
    page: bytes,
    *,
    n_text_max: int,
    is_reduced: bool = False,
    n_tags_max: int = TAGS_MAX,
    n_blocks_max: int = BLOCKS_MAX,
    depth_max: int = DEPTH_MAX,
    n_attributes_max: int = ATTRIBUTES_MAX,
) -> MarkupText:
    """Return the text of an HTML page, and the part of it that a parser needs.

    Parameters
    ----------
    page
        Page in UTF-8, or in another character set that contains ASCII: then the entities of the
        text are in UTF-8 all the same.
    n_text_max
        Size of the text at most, in bytes; the page is read up to there.
    is_reduced
        Whether to leave out attributes that do not decide which text is the main text.
    n_tags_max, n_blocks_max, depth_max, n_attributes_max
        Limits up to which a page may be parsed.
    """
    signs = np.frombuffer(page, dtype=np.uint8)
    words = np.frombuffer(page, dtype=np.uint64, count=len(page) >> 3)
    out = np.empty(min(len(page), n_text_max) + 16, dtype=np.uint8)
    open_counts = np.zeros(2, dtype=np.int64)  # depth that tables add, and anchors
    parsed = np.empty(len(page) + len(page) // 4 + 64, dtype=np.uint8)
    results = np.zeros(10, dtype=np.int64)
    limits = np.array([n_tags_max, n_blocks_max, n_attributes_max, is_reduced], dtype=np.int64)
    stack = np.empty((2, depth_max), dtype=np.uint64)
    line_paths = np.zeros(min(out.size // 2 + 1, LINES_MAX), dtype=np.uint32)
    tables = attribute_tables()
    _read_page(
        signs,
        words,
        *_name_table(),
        *_entity_table(),
        stack[0],
        np.empty(depth_max, dtype=np.uint8),
        limits,
        tables.names,
        tables.uses,
        tables.signs,
        tables.steps,
        tables.found,
        out,
        parsed,
        open_counts,
        results,
        stack[1],
        line_paths,
    )
    (
        problem,
        n_out,
        n_written,
        title_start,
        title_end,
        n_links,
        end,
        n_blocks,
        n_parsed,
        is_closed,
    ) = results.tolist()
    title = page[title_start:title_end] if 0 <= title_start <= title_end else b""
    if not problem and n_blocks * n_out > BLOCKS_TIMES_TEXT_MAX:
        problem = _PROBLEMS.index("too_many_tags")
    return MarkupText(
        out[:n_out].tobytes(),
        parsed[:n_written].tobytes(),
        title,
        _PROBLEMS[problem],
        n_links,
        n_parsed,
        end,
        line_paths,
        bool(is_closed),
    )
