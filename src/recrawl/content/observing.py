"""Turn a body into an observation: a pure function that never raises and reads in bounded time."""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from recrawl.content.answer_hints import find_hints
from recrawl.content.extract.charset import decode_body
from recrawl.content.extract.coarse import chunk_bytes, strip_tags
from recrawl.content.extract.html_page import read_html
from recrawl.content.extract.words import PassageColumns, split_passages
from recrawl.content.merging import merge_to_limit
from recrawl.content.observation import ContentKind, Observation
from recrawl.content.settings import DEFAULT_CONTENT_SETTINGS, ContentSettings

__all__ = ["observe", "observe_bytes", "observe_text"]

TAGS_MAX = 8000
"""Tags up to which a page is parsed."""

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
    reader = _READERS[_kind_of(body, content_type, url)]
    try:
        return reader(_Request(body, content_type, settings, with_texts, with_links))
    except Exception:
        return observe_bytes(body, problems=("not_parsed",))


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
    request = _Request(text.encode("utf-8", "surrogatepass"), None, settings, with_texts, False)
    return _observation(ContentKind.TEXT, request, text, None, charset="utf-8")


def _kind_of(body: bytes, content_type: str | None, url: str | None) -> ContentKind:
    named = (content_type or "").partition(";")[0].strip().lower()
    if body[:1024].lstrip().startswith(b"%PDF-"):
        return ContentKind.PDF
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
    problem = ""
    if len(body) > settings.html_bytes_max:
        problem = "too_large"
    elif body.count(b"<") > TAGS_MAX * 2:
        problem = "too_many_tags"
    if problem:
        text, charset, _ = decode_body(body[: settings.text_bytes_max], content_type)
        return _observation(
            ContentKind.HTML,
            request,
            strip_tags(text),
            None,
            charset=charset,
            is_coarse=True,
            rest=body[settings.text_bytes_max :],
            problems=(problem,),
        )
    text, charset, has_bad_bytes = decode_body(body, content_type)
    page = read_html(text, select=settings.select, ignore=settings.ignore, with_links=with_links)
    return _observation(
        ContentKind.HTML,
        request,
        page.text,
        page.main_text,
        charset=charset,
        title=page.title,
        language=page.language,
        canonical_url=page.canonical_url,
        robots=page.robots,
        n_links=page.n_links,
        links=page.links,
        problems=(*_bad_bytes(has_bad_bytes), *page.problems),
    )


def _observe_plain(request: _Request) -> Observation:
    n_max = request.settings.text_bytes_max
    text, charset, has_bad_bytes = decode_body(request.body[:n_max], request.content_type)
    rest = request.body[n_max:]
    return _observation(
        ContentKind.TEXT,
        request,
        text,
        None,
        charset=charset,
        rest=rest,
        is_coarse=bool(rest),
        problems=(*_bad_bytes(has_bad_bytes), *(("too_large",) if rest else ())),
    )


def _observe_other(request: _Request) -> Observation:
    return observe_bytes(request.body)


def _bad_bytes(has_bad_bytes: bool) -> tuple[str, ...]:
    return ("bad_bytes",) if has_bad_bytes else ()


_READERS: dict[ContentKind, Callable[[_Request], Observation]] = {
    ContentKind.HTML: _observe_html,
    ContentKind.TEXT: _observe_plain,
    ContentKind.JSON: _observe_plain,
    ContentKind.XML: _observe_plain,
    ContentKind.PDF: _observe_other,
    ContentKind.BYTES: _observe_other,
}


def _observation(
    kind: ContentKind,
    request: _Request,
    text: str,
    main_text: str | None,
    *,
    rest: bytes = b"",
    **facts: Any,
) -> Observation:
    """Return the observation of a text, one passage per line."""
    body, _, settings, with_texts, _ = request
    columns = split_passages(text)
    lines: list[str] = []
    if with_texts or main_text is not None or settings.ignore_patterns:
        lines = [" ".join(line.split()) for line in text.split("\n")]
    is_main = _is_main(columns, lines, main_text)
    texts = [lines[line] for line in columns.lines] if lines else None
    ignored: tuple[tuple[str, str], ...] | None = None
    if settings.ignore_patterns and texts is not None:
        columns, is_main, texts, ignored = _ignore(columns, is_main, texts, settings)
    if rest:
        chunks = chunk_bytes(rest)
        columns = _joined_columns(columns, chunks)
        is_main = np.concatenate([is_main, np.ones(chunks.hashes.size, dtype=bool)])
        texts = None if texts is None else [*texts, *([""] * chunks.hashes.size)]
    hints = 0
    if kind == ContentKind.HTML:
        hints = find_hints(facts.get("title", ""), text, int(columns.n_words.sum()))
    return merge_to_limit(
        Observation(
            kind=kind,
            body_digest=xxhash.xxh3_128_digest(body),
            n_bytes=len(body),
            passages=columns.hashes,
            is_main=is_main,
            n_words=np.minimum(columns.n_words, 0xFFFF).astype(np.uint16),
            shapes=columns.shapes,
            shingles=columns.shingles,
            shingle_offsets=columns.shingle_offsets,
            texts=tuple(texts) if with_texts and texts is not None else None,
            ignored_texts=ignored if with_texts else None,
            hints=hints,
            **facts,
        )
    )


def _is_main(
    columns: PassageColumns, lines: Sequence[str], main_text: str | None
) -> NDArray[np.bool_]:
    if main_text is None:
        return np.ones(columns.hashes.size, dtype=bool)
    main = {" ".join(line.split()) for line in main_text.split("\n")}
    return np.array([lines[line] in main for line in columns.lines], dtype=bool)


def _ignore(
    columns: PassageColumns,
    is_main: NDArray[np.bool_],
    texts: Sequence[str],
    settings: ContentSettings,
) -> tuple[PassageColumns, NDArray[np.bool_], list[str], tuple[tuple[str, str], ...]]:
    """Return the passages in which no pattern is found, and the others with the pattern."""
    patterns = [re.compile(pattern) for pattern in settings.ignore_patterns]
    reasons = [next((p.pattern for p in patterns if p.search(text)), None) for text in texts]
    is_kept = np.array([reason is None for reason in reasons], dtype=bool)
    n_shingles = np.diff(columns.shingle_offsets)
    kept = PassageColumns(
        columns.hashes[is_kept],
        columns.n_words[is_kept],
        columns.shapes[is_kept],
        columns.shingles[np.repeat(is_kept, n_shingles)],
        np.concatenate([[0], np.cumsum(n_shingles[is_kept])]),
        columns.lines[is_kept],
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
    )
