"""Decode bodies: find the character set and turn bytes into text, without ever failing."""

import codecs
import re
from typing import Final, NamedTuple

from resiliparse.parse.encoding import detect_encoding, map_encoding_to_html5

__all__ = [
    "DecodedText",
    "decode_body",
    "encode_back",
    "find_second_charset",
    "find_wide_charset",
]

HEAD_BYTES: Final = 4096
"""Start of a page in which a meta tag or an XML declaration names the character set."""
DETECTED_BYTES_MAX: Final = 1 << 15
"""Part of a body that the detection of character sets reads."""

# A longer mark comes first: that of UTF-32 begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MARK_STARTS = {mark[:1] for mark, _ in _MARKS}
_WIDE = {
    "utf-16": "utf-16-le",
    "utf-16le": "utf-16-le",
    "utf-16be": "utf-16-be",
    "utf-32": "utf-32-le",
    "utf-32le": "utf-32-le",
    "utf-32be": "utf-32-be",
}
_HEADER_LABEL = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.ASCII | re.IGNORECASE)
_META_LABEL = re.compile(
    rb"<meta\s[^>]{0,400}?charset\s{0,9}=\s{0,9}[\"']?\s{0,9}([\w.:-]{1,40})"
    rb"|<\?xml\s[^>]{0,200}?encoding\s{0,9}=\s{0,9}[\"']([\w.:-]{1,40})",
    re.IGNORECASE,
)

# As browsers read Windows-1252: the five bytes that it leaves undefined are control characters.
_WINDOWS_SIGNS = bytes(range(256)).decode("cp1252", "replace")
_WINDOWS_SIGNS = "".join(
    chr(i) if sign == "\ufffd" else sign for i, sign in enumerate(_WINDOWS_SIGNS)
)
_WINDOWS_BYTES = codecs.charmap_build(_WINDOWS_SIGNS)


class DecodedText(NamedTuple):
    """Text of a body, the character set that it was read in, and whether some bytes were wrong."""

    text: str
    charset: str
    has_bad_bytes: bool


def decode_body(body: bytes, content_type: str | None = None) -> DecodedText:
    """Return the text of a body.

    A byte order mark decides; then UTF-8, if the whole body is valid UTF-8; then the label of the
    header, that of a meta tag or XML declaration, and detection.  Valid UTF-8 is taken before the
    labels because text in another character set is practically never valid UTF-8, and a page whose
    header is missing or wrong in some answers would otherwise seem to change.  For the same reason
    a text that was encoded twice is read as it was meant, and a label that says UTF-8 does not
    count if most signs beyond ASCII are not valid in it.

    Parameters
    ----------
    body
        Body, without content encoding.
    content_type
        Value of the header ``Content-Type``.
    """
    wide = find_wide_charset(body, content_type)
    if wide is not None:
        mark = next((mark for mark, _ in _MARKS if body.startswith(mark)), b"")
        return _decode(body[len(mark) :], wide)
    try:
        return DecodedText(_read_once(body.decode()), "utf-8", False)
    except UnicodeDecodeError as error:
        if error.start >= len(body) - 3 and not body[: error.start].isascii():
            text = body[: error.start].decode()
            return DecodedText(_read_once(text), "utf-8", True)  # cut inside a sign
    for label in (_header_label(content_type), _meta_label(body)):
        codec = _codec(label)
        if codec is not None:
            found = _decode(body, codec)
            if codec != "utf-8" or not _is_mostly_bad(found.text):
                return found
    return _decode(body, _detect(body))


def find_second_charset(text: str) -> str | None:
    """Return the character set that a server took UTF-8 for before it encoded a text again.

    Such a server makes ``Ã©`` of ``é`` and ``â€™`` of ``’``.  None if the text was encoded once:
    its letters are then not valid UTF-8 when they are written in Latin-1 or Windows-1252.  For
    Windows-1252 at least two characters must be superfluous, since a word in capitals with an
    ellipsis may end like such a sign.

    Parameters
    ----------
    text
        Decoded text; its last sign may be cut.
    """
    if text.isascii():
        return None
    for charset, n_superfluous_min in (("latin-1", 1), ("cp1252", 2)):
        try:
            once = encode_back(text, charset)
        except UnicodeError:
            continue
        try:
            meant, n_read = codecs.utf_8_decode(once, "strict", False)
        except UnicodeError:
            return None  # the same bytes are wrong in the other character set
        return charset if n_read - len(meant) >= n_superfluous_min else None
    return None


def encode_back(text: str, charset: str, errors: str = "strict") -> bytes:
    """Return the bytes that a server has read in a character set and encoded again.

    Parameters
    ----------
    text
        Text that was encoded twice.
    charset
        Result of `find_second_charset`.
    errors
        Treatment of other characters, as for ``str.encode``.
    """
    if charset == "latin-1":
        return text.encode(charset, errors)
    return codecs.charmap_encode(text, errors, _WINDOWS_BYTES)[0]


def find_wide_charset(body: bytes, content_type: str | None = None) -> str | None:
    """Return the character set of a body whose letters are not those of ASCII; None if they are.

    Parameters
    ----------
    body
        Body, without content encoding.
    content_type
        Value of the header ``Content-Type``.
    """
    if body[:1] in _MARK_STARTS:
        for mark, charset in _MARKS:
            if body.startswith(mark):
                return charset
    if body.find(b"\0", 0, HEAD_BYTES) >= 0:
        wide = _WIDE.get(_header_label(content_type).lower().replace("_", "-"))
        return wide or _wide_without_mark(body[:HEAD_BYTES])
    if body.find(b"\x1b", 0, HEAD_BYTES) >= 0:
        label = _header_label(content_type) or _meta_label(body)
        return "iso2022_jp" if _codec(label) == "iso2022_jp" else None
    return None


def _read_once(text: str) -> str:
    """Return a text as it was meant if it was encoded twice."""
    charset = find_second_charset(text)
    return text if charset is None else encode_back(text, charset).decode("utf-8", "ignore")


def _is_mostly_bad(text: str) -> bool:
    """Return whether a text has more replacements of bad bytes than other signs beyond ASCII."""
    n_ascii = len(text.encode("ascii", "ignore"))
    return 2 * text.count("\ufffd") > len(text) - n_ascii


def _decode(body: bytes, charset: str) -> DecodedText:
    try:
        return DecodedText(body.decode(charset), charset, False)
    except (UnicodeError, LookupError):
        pass
    try:
        return DecodedText(body.decode(charset, "replace"), charset, True)
    except (UnicodeError, LookupError):  # a codec that does not support replacement
        return DecodedText(body.decode("cp1252", "replace"), "cp1252", True)


def _header_label(content_type: str | None) -> str:
    found = _HEADER_LABEL.search(content_type[:1000]) if content_type else None
    return found[1] if found else ""


def _meta_label(body: bytes) -> str:
    found = _META_LABEL.search(body[:HEAD_BYTES])
    return (found[1] or found[2]).decode("ascii", "ignore") if found else ""


def _codec(label: str) -> str | None:
    """Return the codec of a label of the Encoding Standard; None if it is not one.

    Python knows codecs that are not character sets, some of which are slow or decompress.
    """
    if not label:
        return None
    try:
        codec: str | None = map_encoding_to_html5(label, False)
    except (UnicodeError, ValueError, LookupError):
        return None
    return codec


def _detect(body: bytes) -> str:
    try:
        return detect_encoding(body, max_len=DETECTED_BYTES_MAX) or "cp1252"
    except (UnicodeError, ValueError, LookupError):
        return "cp1252"


def _wide_without_mark(head: bytes) -> str | None:
    """Return UTF-16 where every other byte of the start of a body is zero."""
    if head.count(0) * 4 < len(head) or len(head) < 8:
        return None
    even, odd = head[::2].count(0), head[1::2].count(0)
    if odd * 10 > len(head) * 4 and even * 20 < len(head):
        return "utf-16-le"
    if even * 10 > len(head) * 4 and odd * 20 < len(head):
        return "utf-16-be"
    return None
