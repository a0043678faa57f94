"""Leave out the attributes of a page that do not decide which text is its main text.

Half of the time that resiliparse takes for a page goes into attributes: it compares the class and
the id of each element with a score of expressions, twice.  Few attributes can decide anything.
`write_tag` copies those, replaces a class in which none of the expressions can be found by a short
one, and leaves out the others.  The main text stays the same.
"""

from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.kernel import table_kernel

__all__ = [
    "ATTRIBUTE_NAMES",
    "RULE_WORDS",
    "AttributeTables",
    "attribute_tables",
    "find_sign",
    "find_slot",
    "is_space",
    "write_tag",
]

# What an attribute is used for.
_CLASS, _ID, _STYLE, _KEPT, _DECIDING = range(1, 6)
ATTRIBUTE_NAMES: Final = {
    "class": _CLASS,
    "id": _ID,
    "style": _STYLE,
    # With one of these the class and the id of the element are kept as they are.
    "role": _DECIDING,
    "data-ad": _DECIDING,
    "data-advertisement": _DECIDING,
    "data-text-ad": _DECIDING,
    "alt": _KEPT,
    "aria-expanded": _KEPT,
    "aria-hidden": _KEPT,
    "encoding": _KEPT,
    "hidden": _KEPT,
    "itemprop": _KEPT,
    "rel": _KEPT,
    "type": _KEPT,
}
"""Attributes by which resiliparse decides, and what they are used for."""
_NAME_SLOTS: Final = 64

_RULE_TEXT = (
    "nav menu drop bread link trend recommended featured popular editor related read-next articles "
    "posts guides stories header footer copyright cookie consent legal fcontainer side sticky "
    "one-third search skip scroll next prev permalink pagination display-none hidden invisible "
    "collapsed h-0 nocontent expandable modal popup lightbox gallery carousel login log-in log_in "
    "sign account user- user_ googlead google-ad google_ad widead wide-ad wide_ad sponsor promoted "
    "paid banner donate social share syndication newsletter sharing follow email like feedback "
    "engagement facebook twitter subscribe jp _wa -wa logo print short-view-count spinner "
    "article-body articlebody contentbody article-text main-content postcontent post-content "
    "single-post"
)
RULE_WORDS: Final = (*_RULE_TEXT.split(), " ad", " wa")
"""Words without which no expression of resiliparse matches a class or an id.  A space stands for
the start of a word."""
_ID_WORDS: Final = ("head", "foot", "right")
_ARTICLE_WORDS: Final = ("article", "entry", "post", "story", "content", "body", "text", "page")
_STYLE_WORDS: Final = ("none", "hidden")
# Bits of what is found in a value.
_RULE, _ARTICLE, _ID_RULE, _HIDING, _BORDER = 1, 2, 4, 8, 16

# Signs are told apart by a number: letters from 1 on, then these.
_SIGNS: Final = 32
_DASH, _LOW_LINE, _SPACE, _ZERO, _UNUSUAL = 27, 28, 29, 30, 31
_FACTOR: Final = 0x9E3779B97F4A7C15
_WORD: Final = 1 << 64


class AttributeTables(NamedTuple):
    """Tables of attribute names, and of the words that are looked for in their values."""

    names: NDArray[np.uint64]
    """Hash table of names of attributes."""
    uses: NDArray[np.uint8]
    """What the attribute in each slot is used for."""
    signs: NDArray[np.uint8]
    """Number of each byte."""
    steps: NDArray[np.uint16]
    """State after each state and number of a byte."""
    found: NDArray[np.uint8]
    """Bits of the words that end in each state."""


@cache
def attribute_tables() -> AttributeTables:
    """Return the tables of names and words."""
    names = np.zeros(_NAME_SLOTS, dtype=np.uint64)
    uses = np.zeros(_NAME_SLOTS, dtype=np.uint8)
    for name, use in ATTRIBUTE_NAMES.items():
        packed = 0
        for byte in name.encode():
            packed = (packed * 257 + byte) % _WORD
        slot = (packed * _FACTOR % _WORD) >> 58
        while names[slot]:
            slot = (slot + 1) % _NAME_SLOTS
        names[slot] = packed
        uses[slot] = use
    signs = np.zeros(256, dtype=np.uint8)
    for k in range(26):
        signs[ord("a") + k] = signs[ord("A") + k] = k + 1
    for sign, number in (("-", _DASH), ("_", _LOW_LINE), ("0", _ZERO), ("&", _UNUSUAL)):
        signs[ord(sign)] = number
    for sign in "\t\n\f\r ":
        signs[ord(sign)] = _SPACE
    signs[0] = _UNUSUAL
    signs[128:] = _UNUSUAL
    return AttributeTables(names, uses, signs, *_word_automaton(signs))


def _word_automaton(signs: NDArray[np.uint8]) -> tuple[NDArray[np.uint16], NDArray[np.uint8]]:
    """Return the automaton of Aho and Corasick, which finds all words in one pass."""
    words: list[tuple[list[int], int]] = [([_UNUSUAL], _RULE | _ARTICLE | _ID_RULE | _HIDING)]
    for bit, listed in (
        (_RULE, RULE_WORDS),
        (_ID_RULE, _ID_WORDS),
        (_ARTICLE, _ARTICLE_WORDS),
        (_HIDING, _STYLE_WORDS),
    ):
        words += [([int(signs[ord(sign)]) for sign in word], bit) for word in listed]
    steps: list[list[int]] = [[0] * _SIGNS]
    found = [0]
    for word, bit in words:
        state = 0
        for sign in word:
            if not steps[state][sign]:
                steps.append([0] * _SIGNS)
                found.append(0)
                steps[state][sign] = len(steps) - 1
            state = steps[state][sign]
        found[state] |= bit
    shorter = [0] * len(steps)  # state of the longest ending that begins a word
    waiting = [state for state in steps[0] if state]
    for state in waiting:  # grows while it is read
        found[state] |= found[shorter[state]]
        for sign in range(_SIGNS):
            following = steps[state][sign]
            if following:
                shorter[following] = steps[shorter[state]][sign]
                waiting.append(following)
            else:
                steps[state][sign] = steps[shorter[state]][sign]
    return np.array(steps, dtype=np.uint16).ravel(), np.array(found, dtype=np.uint8)


@table_kernel
def find_slot(name: np.uint64, keys: NDArray[np.uint64], shift: int) -> int:
    """Return the slot of a name in a hash table; -1 if it is not there."""
    slot = np.int64((name * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(shift))
    while keys[slot] != np.uint64(0):
        if keys[slot] == name:
            return int(slot)
        slot = (slot + 1) & (keys.size - 1)
    return -1


@table_kernel
def find_sign(page: NDArray[np.uint8], words: NDArray[np.uint64], start: int, sign: int) -> int:
    """Return the first place from ``start`` on that holds a sign; the size of the page if none.

    Eight bytes are compared at once: a byte of ``word ^ pattern`` is zero where the sign is, and
    subtracting 1 from it sets its highest bit.
    """
    n = page.size
    i = start
    while i < n and i & 7 != 0:
        if page[i] == sign:
            return i
        i += 1
    ones = np.uint64(0x0101010101010101)
    pattern = ones * np.uint64(sign)
    k = i >> 3
    while k < words.size:
        word = words[k] ^ pattern
        if (word - ones) & ~word & np.uint64(0x8080808080808080) != np.uint64(0):
            break
        k += 1
    i = max(i, k << 3)
    while i < n and page[i] != sign:
        i += 1
    return i


@table_kernel
def is_space(sign: int) -> bool:
    """Return whether a sign is white space."""
    return sign == 32 or 9 <= sign <= 13


@table_kernel
def _copy(page: NDArray[np.uint8], start: int, end: int, out: NDArray[np.uint8], n_out: int) -> int:
    """Write a space and a part of the page; return the place after it."""
    out[n_out] = 32
    n_out += 1
    for k in range(start, end):
        out[n_out] = page[k]
        n_out += 1
    return n_out


@table_kernel
def _find_words(
    page: NDArray[np.uint8],
    start: int,
    end: int,
    signs: NDArray[np.uint8],
    steps: NDArray[np.uint16],
    found: NDArray[np.uint8],
) -> int:
    """Return the bits of the words in a value, and whether it has an empty word."""
    bits = 0
    state = int(steps[29])
    was_border = True
    for k in range(start, end):
        sign = int(signs[page[k]])
        is_border = 27 <= sign <= 29
        if is_border and was_border:
            bits |= 16
        was_border = is_border
        state = int(steps[(state << 5) | sign])
        bits |= int(found[state])
    if was_border:
        bits |= 16
    return bits


@table_kernel
def write_tag(  # noqa: PLR0912, PLR0913, PLR0915, PLR0917 - one pass over the tag
    page: NDArray[np.uint8],
    words: NDArray[np.uint64],
    start: int,
    is_division: bool,
    names: NDArray[np.uint64],
    uses: NDArray[np.uint8],
    signs: NDArray[np.uint8],
    steps: NDArray[np.uint16],
    found: NDArray[np.uint8],
    out: NDArray[np.uint8],
    n_out: int,
) -> tuple[int, int, int, int, int]:
    """Write the attributes of a tag that decide something.

    Returns the place where the tag ends, the number of its attributes, the place after what was
    written, and where the value of its class begins and ends.  The first is -1 if the tag is
    written in an unusual way; nothing is written then.

    Parameters
    ----------
    page, words
        Page as bytes, and as words of 8 bytes.
    start
        Place after the name of the element.
    is_division
        Whether the element is a ``div``: resiliparse looks whether it has a class at all.
    names, uses, signs, steps, found
        Tables of `attribute_tables`.
    out, n_out
        Page that is written, and its size so far.
    """
    n = page.size
    first_out = n_out
    n_attributes = 0
    class_start = class_end = id_start = id_end = style_start = style_end = 0
    class_place = id_place = style_place = 0
    class_place_end = id_place_end = style_place_end = 0
    is_decided = False
    i = start
    while True:
        while i < n and is_space(page[i]):
            i += 1
        if i >= n:
            return -1, 0, first_out, 0, 0
        sign = page[i]
        if sign == 62:
            break
        if sign == 47:
            if i + 1 < n and page[i + 1] == 62:
                break
            i += 1
            continue
        place = i
        name = np.uint64(0)
        while i < n:
            sign = page[i]
            if is_space(sign) or sign == 62 or sign == 47 or sign == 61:
                break
            if sign == 34 or sign == 39 or sign == 60 or sign == 0 or sign >= 128:
                return -1, 0, first_out, 0, 0
            if 65 <= sign <= 90:
                sign |= 32
            name = name * np.uint64(257) + np.uint64(sign)
            i += 1
        if i == place:  # it begins with a =
            return -1, 0, first_out, 0, 0
        value_start = value_end = i
        k = i
        while k < n and is_space(page[k]):
            k += 1
        if k < n and page[k] == 61:
            if k > i:
                return -1, 0, first_out, 0, 0
            i += 1
            while i < n and is_space(page[i]):
                i += 1
            if i >= n or page[i] == 62:
                return -1, 0, first_out, 0, 0
            sign = page[i]
            if sign == 34 or sign == 39:
                value_start = i + 1
                value_end = find_sign(page, words, value_start, sign)
                i = value_end + 1
                if i >= n:
                    return -1, 0, first_out, 0, 0
            else:
                value_start = i
                while i < n and page[i] != 62 and not is_space(page[i]):
                    sign = page[i]
                    if sign == 34 or sign == 39 or sign == 60 or sign == 61 or sign == 96:
                        return -1, 0, first_out, 0, 0
                    i += 1
                value_end = i
        n_attributes += 1
        slot = find_slot(name, names, 58)
        use = 0
        if slot >= 0:
            use = int(uses[slot])
        if use == 1:
            if class_place > 0:
                return -1, 0, first_out, 0, 0
            class_place, class_place_end = place, i
            class_start, class_end = value_start, value_end
        elif use == 2:
            if id_place > 0:
                return -1, 0, first_out, 0, 0
            id_place, id_place_end = place, i
            id_start, id_end = value_start, value_end
        elif use == 3:
            if style_place > 0:
                return -1, 0, first_out, 0, 0
            style_place, style_place_end = place, i
            style_start, style_end = value_start, value_end
        else:
            if use == 0:
                # Bytes that may be invalid are kept: they decide about the character set.
                wide = np.uint8(0)
                for k in range(value_start, value_end):
                    wide |= page[k]
                if wide >= 128:
                    use = 4
            if use == 5:
                is_decided = True
            if use >= 4:
                n_out = _copy(page, place, i, out, n_out)
    has_class = class_end > class_start
    has_id = id_end > id_start
    style_bits = 0
    if style_end > style_start:
        style_bits = _find_words(page, style_start, style_end, signs, steps, found)
        if style_bits & 8 != 0:
            n_out = _copy(page, style_place, style_place_end, out, n_out)
    if has_class or has_id:
        class_bits = id_bits = 0
        if has_class:
            class_bits = _find_words(page, class_start, class_end, signs, steps, found)
        if has_id:
            id_bits = _find_words(page, id_start, id_end, signs, steps, found)
        bits = class_bits | id_bits
        is_decided = is_decided or bits & 1 != 0 or id_bits & 4 != 0 or style_bits & 8 != 0
        is_kept = is_decided or (is_division and has_id and bits & 2 != 0)
        if is_kept or (is_division and bits & 16 != 0 and not has_class):
            if has_class:
                n_out = _copy(page, class_place, class_place_end, out, n_out)
            if has_id:
                n_out = _copy(page, id_place, id_place_end, out, n_out)
        elif is_division:
            if has_class:  # class=x
                for k in range(8):
                    out[n_out + k] = (0x20636C6173733D78 >> (56 - 8 * k)) & 255
                n_out += 8
            if has_id and bits & 16 == 0:  # id=y
                for k in range(5):
                    out[n_out + k] = (0x2069643D79 >> (32 - 8 * k)) & 255
                n_out += 5
    if page[i] == 47:
        out[n_out] = 32
        n_out += 1
    return i, n_attributes, n_out, class_start, class_end
