"""URLs that can be sent in a request as they are.

A line break or another control character in a URL could end the request line, and let the URL add
headers or requests of its own.  A space ends the URL for many servers and clients.
"""

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["are_sendable", "have_control_characters"]

# The URL Standard's parser removes these from both ends of a string.
_C0_AND_SPACE = "".join(map(chr, range(0x21)))
_CONTROL = r"[\x00-\x1f\x7f-\x{9f}]"
_GRAPHIC = r"\A[!-~]+\z"


def have_control_characters(urls: pa.StringArray) -> pa.BooleanArray:
    r"""Return which strings have a control character, other than at their ends.

    Examples
    --------
    >>> given = ["https://a.example/\n", "https://a.example/ HTTP/1.1\r\nX: y"]
    >>> have_control_characters(pa.array(given)).to_pylist()
    [False, True]
    """
    trimmed = pc.utf8_trim(urls, _C0_AND_SPACE)
    return pc.match_substring_regex(trimmed, _CONTROL).fill_null(False)


def are_sendable(urls: pa.StringArray) -> pa.BooleanArray:
    """Return which strings have only visible ASCII characters, and so can be sent as they are.

    Examples
    --------
    >>> are_sendable(pa.array(["https://a.example/b#c", "https://a.example/b c"])).to_pylist()
    [True, False]
    """
    return pc.match_substring_regex(urls, _GRAPHIC).fill_null(False)
