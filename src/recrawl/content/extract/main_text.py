"""Find the passages of a page that belong to its main text."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from recrawl.content.extract.words import PassageColumns, hash_shingles, share_found

__all__ = ["find_main"]

SHARE_MIN: Final = 0.5
"""Share of its shingles that a passage must have in the main text to belong to it."""
OTHERS_SHARE_MAX: Final = 0.05
"""Share of the main text whose lines may not be lines of the page before shingles are compared."""


def find_main(
    columns: PassageColumns, lines: Sequence[bytes], main_text: bytes
) -> NDArray[np.bool_]:
    """Return which passages are part of the main text.

    Lines are compared as they are, which is fast.  resiliparse divides some blocks into other
    lines; their shingles of words are compared.

    Parameters
    ----------
    columns
        Passages of the page.
    lines
        Lines of the text of the page, without repeated white space.
    main_text
        Main text of the page as resiliparse finds it, in UTF-8.
    """
    main = {line.strip() for line in main_text.split(b"\n")}
    own = [lines[line] for line in columns.lines.tolist()]
    found = np.array([line in main for line in own], dtype=bool)
    others = main.difference(own)
    if sum(map(len, others)) > OTHERS_SHARE_MAX * len(main_text):
        # The order of a set differs between processes; shingles are looked up in any order.
        found |= share_found(columns, hash_shingles(b"\n".join(others))) >= SHARE_MIN
    return found
