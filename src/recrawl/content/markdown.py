"""Turn the body of a page into Markdown, for people and language models to read."""

import re

from recrawl.content.extract.charset import decode_body
from recrawl.content.extract.markdown_blocks import MARKDOWN_CHARACTERS_MAX, render_page
from recrawl.content.extract.markup import read_markup
from recrawl.content.observation import ContentKind, Observation
from recrawl.content.observing import observe
from recrawl.content.settings import DEFAULT_CONTENT_SETTINGS

__all__ = ["render_markdown"]

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_LINE_ENDS = re.compile(r"\r\n?")
_FENCED = {ContentKind.JSON: "json", ContentKind.XML: "xml", ContentKind.FEED: "xml"}


def render_markdown(
    body: bytes,
    content_type: str | None = None,
    url: str | None = None,
    *,
    observation: Observation | None = None,
) -> str:
    """Return the content of a body as Markdown; empty for a body that has no text.

    Headings, lists, tables, code and links of HTML stay; menus, footers and forms are left out
    where the page marks them.  JSON and XML become a block of code.  Nothing raises, and the result
    has a limited size.

    Parameters
    ----------
    body
        Body of the answer, without content encoding.
    content_type
        Value of the header ``Content-Type``.
    url
        URL of the page, to which its links are relative.
    observation
        Result of `observe` with ``with_texts``, if you have it already.

    Examples
    --------
    >>> print(render_markdown(b"<h1>Tea</h1><p>Buy <a href=/green>green tea</a>.", url="http://a.b/"))
    # Tea
    <BLANKLINE>
    Buy [green tea](http://a.b/green).
    <BLANKLINE>
    """
    found = observation or observe(body, content_type, url, with_texts=True)
    if found.kind is ContentKind.BYTES:
        return ""
    if found.kind is ContentKind.HTML:
        text = _html(body, content_type, url)
        if text is not None:
            return text
    elif found.kind is not ContentKind.PDF:
        n_max = DEFAULT_CONTENT_SETTINGS.text_bytes_max
        text = decode_body(body[:n_max], content_type).text
        text = _CONTROLS.sub("", _LINE_ENDS.sub("\n", text)).strip("\n")[:MARKDOWN_CHARACTERS_MAX]
        name = _FENCED.get(found.kind)
        if name is None or "```" in text:
            return text + "\n" if text else ""
        return f"```{name}\n{text}\n```\n"
    texts = [text for text in found.texts or () if text]
    return _CONTROLS.sub("", "\n\n".join(texts)[:MARKDOWN_CHARACTERS_MAX]) + "\n" * bool(texts)


def _html(body: bytes, content_type: str | None, url: str | None) -> str | None:
    """Return a page as Markdown; None if it is beyond the limits of the parser."""
    settings = DEFAULT_CONTENT_SETTINGS
    page = decode_body(body[: 2 * settings.text_bytes_max], content_type).text
    markup = read_markup(page.encode("utf-8", "replace"), n_text_max=settings.text_bytes_max)
    if markup.problem or len(markup.parsed) > settings.html_bytes_max:
        return None
    try:
        return render_page(markup.parsed.decode("utf-8", "replace"), url)
    except (RecursionError, ValueError):
        return None
