"""Names of files for pages: readable, safe on every file system, and different for each page.

A URL of plain lower-case parts becomes the same path of folders.  Anything else is shortened to
letters and digits, and gets ``~`` and a hash of what it was.  Plain names have no ``~``, so two
pages never share a name, also where upper and lower case are the same.
"""

import hashlib
import re
import unicodedata
from pathlib import PurePosixPath
from urllib.parse import unquote_to_bytes, urlsplit

__all__ = ["PATH_CHARACTERS_MAX", "page_path"]

PATH_CHARACTERS_MAX = 180
"""Longest path below the folder; a longer one is shortened to a hash."""
_PART_CHARACTERS_MAX = 60
_PARTS_MAX = 8
_HASH_DIGITS = 16
_SLUG_BYTES_MAX = 100
_PLAIN = re.compile(r"[a-z0-9_-]([a-z0-9._-]*[a-z0-9_-])?")
_NOT_WORD = re.compile(r"[^\w-]+|_{2,}")
_INDEX = "index"
# Windows opens devices by these names, whatever follows a dot.
_DEVICES = frozenset(
    (
        *("con", "prn", "aux", "nul", "conin$", "conout$", "clock$"),
        *(f"{name}{digit}" for name in ("com", "lpt") for digit in "0123456789¹²³"),
    )
)


def page_path(url: str, key: str | None, ending: str | None) -> PurePosixPath:
    """Return the path of a page's file, relative to the folder of all pages.

    Parameters
    ----------
    url
        URL of the page, or any other text.
    key
        Key of the page, in a corpus grouped by key.
    ending
        Ending that every file has, such as ``.md``; None to keep the ending of the URL.  Then a
        page without one has a name that ends with ``~``, to which you add one.

    Examples
    --------
    >>> str(page_path("https://example.com/tea/green", None, ".md"))
    'example.com/tea/green.md'
    >>> str(page_path("https://example.com/", None, ".md"))
    'example.com/index.md'
    >>> str(page_path("http://example.com:8080/../%2e%2e/Tea?page=2", None, ".md"))
    'http_example.com_8080/~5ec1f7e700f37c3d/~032f551e881f922f/tea_page_2~5fdae15e4dc4ce7d.md'
    """
    split = _split(url)
    top = [] if key is None else [_part(key, _is_plain(key))]
    if split is None:
        return PurePosixPath(*top, "~other", _name_with_hash(url, url) + (ending or "~"))
    host, parts, last, query = split
    top.append(host)
    folders = list(top)
    folders += [_part(part, _is_plain(part) and _is_folder(part, ending)) for part in parts]
    name = last or _INDEX
    is_plain = not query and _is_plain(name) and (not last or name != _INDEX)
    if ending is None:
        stem, dot, own = name.rpartition(".")
        has_ending = bool(stem) and bool(re.fullmatch(r"[A-Za-z0-9]{1,5}", own))
        if not has_ending:
            stem, dot, own = name, "", ""
        if not is_plain:
            stem = _name_with_hash(f"{stem} {query}", f"{last}?{query}")
        file = f"{stem}{dot}{own.lower()}" if has_ending else f"{stem}~"
    else:
        file = (
            name if is_plain else _name_with_hash(f"{name} {query}", f"{last}?{query}")
        ) + ending
    path = PurePosixPath(*folders, file)
    if len(folders) > _PARTS_MAX or len(str(path)) > PATH_CHARACTERS_MAX:
        short = _name_with_hash(f"{last} {query}", url) + (ending or "~")
        path = PurePosixPath(*top, "~long", short)
    return path


def _split(url: str) -> tuple[str, list[str], str, str] | None:
    """Return the folder of a URL's host, its folders, its last part and its query."""
    try:
        found = urlsplit(url)
        host, port = found.hostname, found.port
    except ValueError:
        return None
    if not host or found.scheme not in ("http", "https") or found.username is not None:
        return None
    name = host if found.scheme == "https" else f"http_{host}"
    if port is not None:
        name = f"{name}_{port}"
    is_plain = "_" not in host and _is_plain(host) and host == found.netloc.partition(":")[0]
    *parts, last = found.path.removeprefix("/").split("/")
    query = found.query + (f"#{found.fragment}" if found.fragment else "")
    # A URL that ends with "?" is another one than that without.
    if not query and url.endswith("?"):
        query = "?"
    folder = name if is_plain else _name_with_hash(name, f"{found.scheme}://{found.netloc}")
    return folder, parts, last, query


def _is_plain(part: str) -> bool:
    return (
        len(part) <= _PART_CHARACTERS_MAX
        and _PLAIN.fullmatch(part) is not None
        and part.partition(".")[0] not in _DEVICES
    )


def _is_folder(part: str, ending: str | None) -> bool:
    """Return whether a folder of this name can never be the file of another page."""
    return "." not in part if ending is None else not part.endswith(ending)


def _part(part: str, is_plain: bool) -> str:
    return part if is_plain else _name_with_hash(part, part)


def _name_with_hash(shown: str, whole: str) -> str:
    """Return what can be read of a text, and a hash of the whole."""
    text = unquote_to_bytes(shown.encode("utf-8", "replace")).decode("utf-8", "replace")
    text = _NOT_WORD.sub("_", unicodedata.normalize("NFKC", text).casefold()).strip("_-")
    text = unicodedata.normalize("NFC", text)[:_PART_CHARACTERS_MAX]
    text = text.encode("utf-8", "replace")[:_SLUG_BYTES_MAX].decode("utf-8", "ignore")
    digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
    return f"{text}~{digest}"
