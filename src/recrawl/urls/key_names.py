r"""Names of pages: canonical URLs, or keys and canonical URLs in a corpus that is grouped by key.

A client may name the groups of its pages itself.  A page is then identified by the key of its group
and its URL, and the same URL may be tracked under several keys.  The name of such a page is its
key, a tab and its canonical URL; neither keys nor canonical URLs contain tabs.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["KEY_BYTES_MAX", "is_key", "page_names", "split_page_names"]

KEY_BYTES_MAX = 256
"""Limit of a key, in bytes of UTF-8."""

_SEPARATOR = "\t"


def is_key(value: object) -> bool:
    r"""Return whether a value is a valid key: text without control characters, of limited length.

    Examples
    --------
    >>> is_key("shop 17"), is_key("a\tb"), is_key("")
    (True, False, False)
    """
    if not isinstance(value, str) or not value or not value.isprintable():
        return False
    return len(value) <= KEY_BYTES_MAX and len(value.encode("utf-8")) <= KEY_BYTES_MAX


def page_names(key: pa.StringArray | None, url: pa.StringArray) -> pa.StringArray:
    r"""Return the names of pages, null where the key or the URL is null.

    Parameters
    ----------
    key
        Key of each page; None if pages have no keys.
    url
        Canonical URL of each page.

    Examples
    --------
    >>> page_names(pa.array(["shop"]), pa.array(["https://a.example/"])).to_pylist()
    ['shop\thttps://a.example/']
    """
    return url if key is None else pc.binary_join_element_wise(key, url, _SEPARATOR)


def split_page_names(name: pa.StringArray) -> tuple[pa.StringArray | None, pa.StringArray]:
    r"""Return the keys and the URLs in the names of pages; no keys if pages have none.

    Examples
    --------
    >>> key, url = split_page_names(pa.array(["shop\thttps://a.example/", None]))
    >>> key.to_pylist(), url.to_pylist()
    (['shop', None], ['https://a.example/', None])
    """
    if len(name) == 0:
        return None, name
    _, offsets, data = name.buffers()
    span = np.frombuffer(offsets, np.int32)[name.offset : name.offset + len(name) + 1]
    first, end = int(span[0]), int(span[-1])
    # One fast pass over the bytes spares all other corpora the rest.
    if data is None or _SEPARATOR.encode() not in data[first:end].to_pybytes():
        return None, name
    parts = pc.split_pattern(name, _SEPARATOR, max_splits=1)
    return pc.list_element(parts, 0), pc.list_element(parts, 1)
