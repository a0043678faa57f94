"""Check the rules by which users select and ignore text: CSS selectors and regular expressions.

The configuration checks them when it is read, and `recrawl.content` uses them.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from resiliparse.parse.html import HTMLTree

__all__ = ["check_patterns", "check_selectors", "find_patterns"]


def check_selectors(name: str, selectors: Sequence[str]) -> None:
    """Raise `ValueError` for a CSS selector that cannot be used.

    Parameters
    ----------
    name
        Name of the setting, for the message.
    selectors
        CSS selectors.
    """
    if not selectors:
        return
    document: Any = HTMLTree.parse("<p>text</p>").document
    for selector in selectors:
        try:
            document.query_selector_all(selector)
        except ValueError:
            raise ValueError(
                f'{name} must be CSS selectors, such as ".comments" or "main > p", got {selector!r}'
            ) from None


def check_patterns(name: str, patterns: Sequence[str]) -> None:
    """Raise `ValueError` for a regular expression that cannot be used.

    Parameters
    ----------
    name
        Name of the setting, for the message.
    patterns
        Regular expressions.
    """
    for pattern in patterns:
        try:
            find_patterns([""], [pattern])
        except pa.ArrowInvalid as error:
            raise ValueError(
                f"{name} must be regular expressions of RE2, which has no lookahead and no "
                f"backreferences, got {pattern!r}: {error}"
            ) from None


def find_patterns(texts: Sequence[str], patterns: Sequence[str]) -> list[str | None]:
    r"""Return the first pattern that is found in each text; None where none is.

    Arrow searches with RE2, whose time grows linearly with a text: with Python's own expressions,
    ``(a+)+$`` takes for ever on forty letters.

    Parameters
    ----------
    texts
        Texts of passages.
    patterns
        Regular expressions.

    Examples
    --------
    >>> find_patterns(["Updated 5 minutes ago", "Tea"], [r"^Updated \d+"])
    ['^Updated \\d+', None]
    """
    column = pa.array(texts, pa.string())
    found: list[str | None] = [None] * len(texts)
    for pattern in patterns:
        for i, is_found in enumerate(pc.match_substring_regex(column, pattern).to_pylist()):
            if is_found and found[i] is None:
                found[i] = pattern
    return found
