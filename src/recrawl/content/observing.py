"""Turn a body into an observation: a pure function that never raises and reads in bounded time."""

import html
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from recrawl.content.extract.charset import (
    decode_body,
    encode_back,
    find_second_charset,
    find_wide_charset,
)
from recrawl.content.extract.chunks import chunk_bytes
from recrawl.content.extract.html_page import FACT_LENGTH_MAX, PageTree
from recrawl.content.extract.main_text import find_main
from recrawl.content.extract.markup import read_markup
from recrawl.content.extract.pdf import PDF_BYTES_MAX, PdfTimeoutError, read_pdf
from recrawl.content.extract.structured import StructuredText, read_json, read_xml
from recrawl.content.extract.words import PassageColumns, split_passages
from recrawl.content.merging import merge_to_limit
from recrawl.content.observation import (
    OPENING_BYTES,
    OPENING_WORDS_MAX,
    ContentKind,
    Observation,
)
from recrawl.content.settings import DEFAULT_CONTENT_SETTINGS, ContentSettings
from recrawl.text_rules import find_patterns

__all__ = ["observe", "observe_bytes", "observe_text"]

STRUCTURED_BYTES_MAX: Final = 1_000_000
"""Size of a JSON or XML text up to which its structure is read."""

_NO_PATHS: Final = np.empty(0, dtype=np.uint32)
_TYPES = {
    "text/html": ContentKind.HTML,
    "application/xhtml+xml": ContentKind.HTML,
    "application/pdf": ContentKind.PDF,
    "application/json": ContentKind.JSON,
    "application/xml": ContentKind.XML,
    "text/xml": ContentKind.XML,
}
_HTML_START = re.compile(
    rb"\s*(?:<!--.{0,2000}?-->\s*)*"
    rb"<(?:!doctype html|html|head|body|title|meta|div|p|h1|script|table)\b",
    re.DOTALL | re.IGNORECASE,
)


class _Request(NamedTuple):
    """What `observe` was called with."""

    body: bytes
    content_type: str | None
    settings: ContentSettings
    with_texts: bool
    with_links: bool


def observe(
    body: bytes,
    content_type: str | None = None,
    url: str | None = None,
    *,
    settings: ContentSettings = DEFAULT_CONTENT_SETTINGS,
    with_texts: bool = False,
    with_links: bool = False,
) -> Observation:
    """Return what recrawl sees of a body.

    The result depends only on the arguments.  Nothing raises: a body that cannot be read is
    compared by its bytes, and ``problems`` says why.

    Parameters
    ----------
    body
        Body of the answer, without content encoding.
    content_type
        Value of the header ``Content-Type``; the start of the body decides if there is none.
    url
        URL of the page, whose ending helps to recognise the kind of a body without a type.
    settings
        Limits, and which parts of the body count.
    with_texts
        Whether to keep the text of each passage.
    with_links
        Whether to keep the targets of links.

    Examples
    --------
    >>> page = observe(b"<title>Tea</title><h1>Tea</h1><p>Green tea, 5 euros.", with_texts=True)
    >>> page.kind.name, page.title, page.texts
    ('HTML', 'Tea', ('Tea', 'Green tea, 5 euros.'))
    """
    given: object = body  # callers without a type checker give other things
    if not isinstance(given, bytes):
        return observe_bytes(_as_bytes(given), problems=("not_parsed",))
    try:
        reader = _READERS[_kind_of(body, content_type, url)]
        return reader(_Request(body, content_type, settings, with_texts, with_links))
    except Exception:
        return observe_bytes(body, problems=("not_parsed",))


def _as_bytes(body: object) -> bytes:
    """Return the bytes of a body of a wrong type; no bytes if it has none."""
    if isinstance(body, bytearray | memoryview):
        return bytes(body)
    return body.encode("utf-8", "replace") if isinstance(body, str) else b""


def observe_bytes(body: bytes, *, problems: Sequence[str] = ()) -> Observation:
    """Return the observation of a body that is compared by its bytes, as one passage.

    Parameters
    ----------
    body
        Body of the answer.
    problems
        Codes that say why it is not read otherwise.
    """
    hashes = np.array([xxhash.xxh3_64_intdigest(body)], dtype=np.uint64)
    shingles = (hashes >> np.uint64(32)).astype(np.uint32)
    return Observation(
        kind=ContentKind.BYTES,
        body_digest=xxhash.xxh3_128_digest(body),
        n_bytes=len(body),
        passages=hashes,
        is_main=np.ones(1, dtype=bool),
        n_words=np.ones(1, dtype=np.uint16),
        shapes=shingles,
        shingles=shingles,
        shingle_offsets=np.array([0, 1], dtype=np.int64),
        problems=tuple(problems),
    )


def observe_text(
    text: str,
    *,
    settings: ContentSettings = DEFAULT_CONTENT_SETTINGS,
    with_texts: bool = False,
) -> Observation:
    """Return the observation of a text that the user extracted, one passage per line.

    Parameters
    ----------
    text
        Text of the page.
    settings
        Limits, and which parts of the text count.
    with_texts
        Whether to keep the text of each passage.
    """
    request = _Request(text.encode("utf-8", "replace"), None, settings, with_texts, False)
    return _observe_plain(request)


def _kind_of(body: bytes, content_type: str | None, url: str | None) -> ContentKind:
    if body.find(b"%PDF-", 0, 1024) >= 0 and body[:1024].lstrip().startswith(b"%PDF-"):
        return ContentKind.PDF
    if content_type in _TYPES:
        return _TYPES[content_type]
    named = (content_type or "").partition(";")[0].strip().lower()
    if named in _TYPES:
        return _TYPES[named]
    if named.endswith("+json"):
        return ContentKind.JSON
    if named.endswith("+xml"):
        return ContentKind.XML
    if named and named.startswith(("image/", "audio/", "video/", "font/")):
        return ContentKind.BYTES
    if named.startswith("text/"):
        return ContentKind.TEXT
    if not named and url is not None and url.partition("?")[0].endswith(".txt"):
        return ContentKind.TEXT
    return _sniff(body)


def _sniff(body: bytes) -> ContentKind:
    head = body[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    if _HTML_START.match(head):
        return ContentKind.HTML
    if head.startswith(b"<?xml"):
        return ContentKind.HTML if b"<html" in head.lower() else ContentKind.XML
    if head.startswith((b"{", b"[")):
        return ContentKind.JSON
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return ContentKind.TEXT
    if b"\0" in head:
        return ContentKind.BYTES
    return ContentKind.TEXT


def _observe_html(request: _Request) -> Observation:
    body, content_type, settings, _, with_links = request
    n_max = settings.text_bytes_max
    page = body[: 2 * n_max]
    charset = find_wide_charset(page, content_type) or ""
    has_bad_bytes = False
    if charset:
        page, charset, has_bad_bytes = _to_utf8(page, content_type)
    is_reduced = not (settings.select or settings.ignore or with_links)
    markup = read_markup(page, n_text_max=n_max, is_reduced=is_reduced)
    decoded = _decode_strictly(markup.parsed)
    if decoded is None:
        page, charset, has_bad_bytes = _to_utf8(page, content_type)
        markup = read_markup(page, n_text_max=n_max, is_reduced=is_reduced)
        decoded = markup.parsed.decode("utf-8", "replace")
    elif (second := find_second_charset(decoded)) is not None:
        page = encode_back(page.decode("utf-8", "replace"), second, "replace")
        markup = read_markup(page, n_text_max=n_max, is_reduced=is_reduced)
        decoded = markup.parsed.decode("utf-8", "replace")
    rest: tuple[memoryview, ...] = ()
    if markup.end < len(page) or len(body) > 2 * n_max:
        rest = (memoryview(page)[markup.end :], memoryview(body)[2 * n_max :])
    problems = ["bad_bytes"] if has_bad_bytes else []
    problem, n_links, is_closed = markup.problem, markup.n_links, markup.is_closed
    if not problem and markup.n_parsed > settings.html_bytes_max:
        problem = "not_parsed_too_large"
    main: bytes | None = None
    facts: dict[str, Any] = {}
    removed: list[tuple[str, str]] = []
    if problem:
        problems.append(problem)
        title = html.unescape(markup.title[:FACT_LENGTH_MAX].decode("utf-8", "replace"))
        facts = {"title": " ".join(title.split())}
    else:
        tree = PageTree(decoded)
        facts = tree.read_facts(with_links=with_links)._asdict()
        if settings.select or settings.ignore:
            found, removed = tree.keep_only(settings.select, settings.ignore)
            problems += found
            markup = read_markup(tree.html().encode("utf-8", "replace"), n_text_max=n_max)
        main = tree.main_text().encode("utf-8", "replace")
    return _observation(
        ContentKind.HTML,
        request,
        markup.text,
        main,
        line_paths=markup.paths,
        rest=rest,
        ignored=removed,
        charset=charset or "utf-8",
        is_coarse=bool(problem),
        is_closed=is_closed,
        n_links=n_links,
        problems=tuple(problems),
        **facts,
    )


def _to_utf8(page: bytes, content_type: str | None) -> tuple[bytes, str, bool]:
    """Return a page in UTF-8, the character set it was in, and whether some bytes were wrong."""
    text, charset, has_bad_bytes = decode_body(page, content_type)
    return text.encode("utf-8", "replace"), charset, has_bad_bytes


def _decode_strictly(page: bytes) -> str | None:
    try:
        return page.decode()
    except UnicodeDecodeError:
        return None


def _observe_plain(request: _Request, kind: ContentKind = ContentKind.TEXT) -> Observation:
    n_max = request.settings.text_bytes_max
    text, charset, has_bad_bytes = decode_body(request.body[:n_max], request.content_type)
    problems = ["bad_bytes"] if has_bad_bytes else []
    if kind is not ContentKind.TEXT:
        problems.append("not_parsed")
    return _observation(
        kind,
        request,
        text.encode("utf-8", "replace"),
        None,
        charset=charset,
        rest=[memoryview(request.body)[n_max:]],
        problems=tuple(problems),
    )


def _observe_json(request: _Request) -> Observation:
    if len(request.body) > STRUCTURED_BYTES_MAX:
        return _observe_plain(request, ContentKind.JSON)
    text, charset, has_bad_bytes = decode_body(request.body, request.content_type)
    found = read_json(text)
    if found is None:
        return _observe_plain(request, ContentKind.JSON)
    return _observe_structured(request, ContentKind.JSON, found, charset, has_bad_bytes)


def _observe_xml(request: _Request) -> Observation:
    if len(request.body) > STRUCTURED_BYTES_MAX:
        return _observe_plain(request, ContentKind.XML)
    text, charset, has_bad_bytes = decode_body(request.body, request.content_type)
    found = read_xml(text.encode("utf-8", "replace"), "utf-8")
    if found is None:
        return _observe_plain(request, ContentKind.XML)
    kind = ContentKind.FEED if found.is_feed else ContentKind.XML
    return _observe_structured(request, kind, found, charset, has_bad_bytes)


def _observe_structured(
    request: _Request, kind: ContentKind, found: StructuredText, charset: str, has_bad_bytes: bool
) -> Observation:
    return _observation(
        kind,
        request,
        found.text.encode("utf-8", "replace"),
        None,
        n_main_lines=found.n_main_lines,
        line_paths=found.paths,
        charset=charset,
        problems=("bad_bytes",) if has_bad_bytes else (),
    )


def _observe_pdf(request: _Request) -> Observation:
    if len(request.body) > PDF_BYTES_MAX:
        return observe_bytes(request.body, problems=("too_large",))
    try:
        found = read_pdf(request.body)
    except PdfTimeoutError:
        return observe_bytes(request.body, problems=("timed_out",))
    if found is None:
        return observe_bytes(request.body, problems=("no_extra",))
    return _observation(
        ContentKind.PDF,
        request,
        found.text.encode("utf-8", "replace"),
        None,
        title=found.title,
        is_coarse=found.is_partial,
        problems=("too_large",) if found.is_partial else (),
    )


def _observe_other(request: _Request) -> Observation:
    return observe_bytes(request.body)


_READERS: dict[ContentKind, Callable[[_Request], Observation]] = {
    ContentKind.HTML: _observe_html,
    ContentKind.TEXT: _observe_plain,
    ContentKind.JSON: _observe_json,
    ContentKind.XML: _observe_xml,
    ContentKind.PDF: _observe_pdf,
    ContentKind.BYTES: _observe_other,
}


def _observation(
    kind: ContentKind,
    request: _Request,
    text: bytes,
    main: bytes | None,
    *,
    n_main_lines: int | None = None,
    line_paths: NDArray[np.uint32] | None = None,
    rest: Sequence[memoryview] = (),
    is_coarse: bool = False,
    problems: tuple[str, ...] = (),
    ignored: Sequence[tuple[str, str]] = (),
    **facts: Any,
) -> Observation:
    """Return the observation of a text in UTF-8, one passage per line."""
    body, _, settings, with_texts, _ = request
    columns = split_passages(text)
    if main is not None:
        is_main = find_main(columns, text, main)
    elif n_main_lines is not None:
        is_main = columns.lines < n_main_lines
    else:
        is_main = np.ones(columns.hashes.size, dtype=bool)
    texts: list[str] | None = None
    if with_texts or settings.ignore_patterns:
        lines = text.split(b"\n")
        texts = [" ".join(lines[k].decode("utf-8", "replace").split()) for k in columns.lines]
    if settings.ignore_patterns and texts is not None:
        columns, is_main, texts, found = _ignore(columns, is_main, texts, settings)
        ignored = [*ignored, *found]
    paths = _NO_PATHS
    if line_paths is not None:
        if columns.lines.size and columns.lines[-1] >= line_paths.size:
            is_known = columns.lines < line_paths.size
            paths = line_paths[np.where(is_known, columns.lines, 0)] * is_known
        else:
            paths = line_paths[columns.lines]
    if columns.end < len(text):
        rest = (memoryview(text)[columns.end :], *rest)
    for piece in rest:
        if not piece:
            continue
        is_coarse = True
        problems = (*problems, "too_large")
        chunks = chunk_bytes(piece)
        columns = _joined_columns(columns, chunks)
        is_main = np.concatenate([is_main, np.ones(chunks.hashes.size, dtype=bool)])
        if paths.size:
            paths = np.concatenate([paths, np.zeros(chunks.hashes.size, dtype=np.uint32)])
        texts = None if texts is None else [*texts, *([""] * chunks.hashes.size)]
    opening = ""
    # A text has at most as many shingles as words, and most texts have more than the limit.
    is_short = columns.shingles.size <= OPENING_WORDS_MAX
    if kind is ContentKind.HTML and is_short and columns.n_words.sum() <= OPENING_WORDS_MAX:
        opening = text[:OPENING_BYTES].decode("utf-8", "replace")
    return merge_to_limit(
        Observation(
            kind=kind,
            body_digest=xxhash.xxh3_128_digest(body),
            n_bytes=len(body),
            passages=columns.hashes,
            is_main=is_main,
            n_words=columns.n_words,
            shapes=columns.shapes,
            paths=paths,
            shingles=columns.shingles,
            shingle_offsets=columns.shingle_offsets,
            texts=tuple(texts) if with_texts and texts is not None else None,
            ignored_texts=tuple(ignored) if with_texts else None,
            opening=opening,
            is_coarse=is_coarse,
            problems=tuple(dict.fromkeys(problems)),
            **facts,
        )
    )


def _ignore(
    columns: PassageColumns,
    is_main: NDArray[np.bool_],
    texts: Sequence[str],
    settings: ContentSettings,
) -> tuple[PassageColumns, NDArray[np.bool_], list[str], tuple[tuple[str, str], ...]]:
    """Return the passages in which no pattern is found, and the others with the pattern."""
    reasons = find_patterns(texts, settings.ignore_patterns)
    is_kept = np.array([reason is None for reason in reasons], dtype=bool)
    n_shingles = np.diff(columns.shingle_offsets)
    kept = PassageColumns(
        columns.hashes[is_kept],
        columns.n_words[is_kept],
        columns.shapes[is_kept],
        columns.shingles[np.repeat(is_kept, n_shingles)],
        np.concatenate([[0], np.cumsum(n_shingles[is_kept])]),
        columns.lines[is_kept],
        columns.end,
    )
    ignored = tuple(
        (text, f"pattern {reason}")
        for text, reason in zip(texts, reasons, strict=True)
        if reason is not None
    )
    kept_texts = [text for text, reason in zip(texts, reasons, strict=True) if reason is None]
    return kept, is_main[is_kept], kept_texts, ignored


def _joined_columns(first: PassageColumns, second: PassageColumns) -> PassageColumns:
    return PassageColumns(
        np.concatenate([first.hashes, second.hashes]),
        np.concatenate([first.n_words, second.n_words]),
        np.concatenate([first.shapes, second.shapes]),
        np.concatenate([first.shingles, second.shingles]),
        np.concatenate(
            [first.shingle_offsets, second.shingle_offsets[1:] + first.shingle_offsets[-1]]
        ),
        np.concatenate([first.lines, second.lines]),
        first.end,
    )
