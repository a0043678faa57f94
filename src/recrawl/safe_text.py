r"""Make characters visible that could deceive a reader or control a terminal.

URLs, document ids, names of sources and error messages contain text from the web.  A terminal obeys
control characters in it, and bidirectional marks show text in another order than it has.  Every
place that prints text for people or programs escapes them with the functions here.
"""

import json
import re

__all__ = [
    "escape_controls",
    "escape_json",
    "is_formula",
    "protect_cell",
    "protect_formula",
    "unprotect_cell",
    "unprotect_formula",
]

# C0 and C1 controls; marks that are invisible or change the direction of text; separators of lines;
# lone surrogates; tags.  Joiners (U+200C, U+200D) stay: several scripts and emoji need them.
_UNSAFE = (
    "\x00-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f"
)
_CONTROL = re.compile(f"[{_UNSAFE}]")
_CONTROL_BUT_NEWLINE = re.compile(f"[{_UNSAFE}]".replace("\x00-\x1f", "\x00-\x09\x0b-\x1f"))

# What spreadsheets take for the beginning of a formula, also in full width.
_FORMULA = re.compile("[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_QUOTE = "'"
_ESCAPED = "'\\"


def escape_controls(text: str, *, keep_newlines: bool = False) -> str:
    r"""Return text with control and bidirectional characters as visible escapes.

    Parameters
    ----------
    text
        Text of any origin.
    keep_newlines
        Whether line feeds stay; for text that has lines of its own.

    Examples
    --------
    >>> print(escape_controls("a\x1b[31m\u202ecod.exe\n"))
    a\x1b[31m\u202ecod.exe\x0a
    """
    if text.isprintable():
        return text
    return (_CONTROL_BUT_NEWLINE if keep_newlines else _CONTROL).sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def escape_json(text: str) -> str:
    r"""Return JSON on one line with control and bidirectional characters as escapes of JSON.

    Examples
    --------
    >>> print(escape_json('{"url": "\u202e\x7f"}'))
    {"url": "\u202e\u007f"}
    """
    return text if text.isprintable() else _CONTROL.sub(_escape_in_json, text)


def _escape_in_json(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def is_formula(text: str) -> bool:
    """Return whether a spreadsheet may take the text of a cell for a formula.

    Examples
    --------
    >>> [is_formula(text) for text in ("=1+1", "@SUM(A1)", "-5.5", "https://example.com/")]
    [True, True, False, False]
    """
    return _FORMULA.match(text) is not None and _NUMBER.fullmatch(text) is None


def protect_formula(text: str) -> str:
    """Return the text of a CSV cell so that spreadsheets do not compute it.

    A quote before it says that the rest is text; `unprotect_formula` takes it away again.

    Examples
    --------
    >>> protect_formula("=HYPERLINK(A1)"), protect_formula("'=x"), protect_formula("-5")
    ("'=HYPERLINK(A1)", "''=x", '-5')
    """
    return _QUOTE + text if is_formula(text.lstrip(_QUOTE)) else text


def unprotect_formula(text: str) -> str:
    """Return the text that `protect_formula` was given.

    Examples
    --------
    >>> unprotect_formula("'=HYPERLINK(A1)"), unprotect_formula("'quoted'")
    ('=HYPERLINK(A1)', "'quoted'")
    """
    if text.startswith(_QUOTE) and is_formula(text.lstrip(_QUOTE)):
        return text[1:]
    return text


def protect_cell(text: str) -> str:
    r"""Return the text of a CSV cell without formulas, control and bidirectional characters.

    `unprotect_cell` returns the text again.  A cell that begins with a quote and a backslash has
    the escapes of JSON.

    Examples
    --------
    >>> print(protect_cell("a\u202ecod.exe"), protect_cell("=1+1"), protect_cell("plain"))
    '\a\u202ecod.exe '=1+1 plain
    """
    is_plain = text.isprintable() or _CONTROL.search(text) is None
    if is_plain and not text.startswith(_ESCAPED):
        return protect_formula(text)
    return _ESCAPED + escape_json(json.dumps(text, ensure_ascii=False))[1:-1]


def unprotect_cell(text: str) -> str:
    r"""Return the text that `protect_cell` was given.

    Examples
    --------
    >>> unprotect_cell("'\\a\\u202ecod.exe") == "a\u202ecod.exe"
    True
    """
    if not text.startswith(_ESCAPED):
        return unprotect_formula(text)
    try:
        plain = json.loads(f'"{text.removeprefix(_ESCAPED)}"')
    except ValueError:
        return text
    return plain if isinstance(plain, str) else text
