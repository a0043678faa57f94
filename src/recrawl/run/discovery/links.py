"""Read the links of an HTML page: to other pages, to feeds and sitemaps, and what it forbids."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urljoin

from resiliparse.parse.html import HTMLTree

from recrawl.content.extract.charset import decode_body
from recrawl.content.extract.markup import read_markup
from recrawl.signals import read_link_header

__all__ = ["LINKS_MAX", "PAGE_BYTES_MAX", "PageLinks", "read_links"]

PAGE_BYTES_MAX: Final = 2_000_000
"""Size of a page up to which its links are read."""
LINKS_MAX: Final = 2_000
"""Number of links of one page that are read."""
_URL_CHARACTERS_MAX: Final = 2_048
_DOCUMENT_TYPES: Final = {
    "application/rss+xml": "feed",
    "application/atom+xml": "feed",
    "application/rdf+xml": "feed",
}
_WORD: Final = re.compile(r"[\w-]+")
# A robots header may address other crawlers: "otherbot: noindex".
_ADDRESSED: Final = re.compile(r"\s*([\w-]+)\s*:(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLinks:
    """What an HTML page leads to.

    Parameters
    ----------
    links
        Absolute URLs of its links, each once, without those that it says not to follow.
    documents
        Sitemaps and feeds that it names, each with its kind, "sitemap" or "feed".
    canonical_url
        URL under which the page wants to be known; empty if it does not say.
    is_noindex, is_nofollow
        Whether it asks not to be indexed, and that none of its links be followed.
    """

    links: tuple[str, ...] = ()
    documents: tuple[tuple[str, str], ...] = ()
    canonical_url: str = ""
    is_noindex: bool = False
    is_nofollow: bool = False


NO_LINKS: Final = PageLinks()


def read_links(
    body: bytes, headers: Mapping[str, str], url: str, *, product: str = "recrawl"
) -> PageLinks:
    """Return what an HTML page leads to; nothing if it is not HTML or too large to be parsed.

    Parameters
    ----------
    body
        Body of the page.
    headers
        Headers of the answer, with lower-case names.
    url
        URL that gave the answer, to which relative links are relative.
    product
        Name by which a page may address the crawler.

    Examples
    --------
    >>> page = b'<head><base href="/b/"></head><a href=c>C</a> <a href="/d" rel="nofollow">D</a>'
    >>> read_links(page, {"content-type": "text/html"}, "https://a.example/").links
    ('https://a.example/b/c',)
    """
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in ("text/html", "application/xhtml+xml", "") or len(body) > PAGE_BYTES_MAX:
        return NO_LINKS
    text = decode_body(body, headers.get("content-type"))[0]
    # The limits of a parser: too deep a page would take it seconds.
    markup = read_markup(text.encode("utf-8", "replace"), n_text_max=PAGE_BYTES_MAX)
    if markup.problem:
        return NO_LINKS
    tree: Any = HTMLTree.parse(markup.parsed.decode("utf-8", "replace"))
    return _links_of(tree, headers, url, product)


def _links_of(tree: Any, headers: Mapping[str, str], url: str, product: str) -> PageLinks:
    rules = _header_rules(headers.get("x-robots-tag", ""), product)
    base, canonical_url = url, ""
    documents: dict[str, str] = {}
    for element in list(tree.document.query_selector_all("base[href], link[href], meta[name]")):
        tag = element.tag
        if tag == "base":
            base = _join(url, element.getattr("href", "")) or url if base == url else base
        elif tag == "meta":
            if (element.getattr("name", "") or "").lower() in ("robots", product.lower()):
                rules |= set(_WORD.findall((element.getattr("content", "") or "").lower()))
        else:
            relations = (element.getattr("rel", "") or "").lower().split()
            target = _join(base, element.getattr("href", ""))
            if target is None:
                continue
            if "canonical" in relations:
                canonical_url = canonical_url or target
            kind = _document_kind(relations, element.getattr("type", "") or "")
            if kind:
                documents.setdefault(target, kind)
    for link in read_link_header([headers.get("link", "")]):
        target = _join(url, link.url)
        if target is not None and "canonical" in link.relations:
            canonical_url = canonical_url or target
    is_nofollow = bool(rules & {"nofollow", "none"})
    links: dict[str, None] = {}
    if not is_nofollow:
        for anchor in list(tree.document.query_selector_all("a[href]"))[:LINKS_MAX]:
            if "nofollow" not in (anchor.getattr("rel", "") or "").lower().split():
                target = _join(base, anchor.getattr("href", ""))
                if target is not None:
                    links.setdefault(target)
    return PageLinks(
        links=tuple(links),
        documents=tuple(documents.items()),
        canonical_url=canonical_url,
        is_noindex=bool(rules & {"noindex", "none"}),
        is_nofollow=is_nofollow,
    )


def _header_rules(text: str, product: str) -> set[str]:
    """Return the rules of the header ``X-Robots-Tag`` that hold for this crawler."""
    rules: set[str] = set()
    is_ours = True
    for part in text.lower().split(","):
        addressed = _ADDRESSED.match(part)
        if addressed is not None and addressed[1] != "unavailable_after":
            is_ours = addressed[1] == product.lower()
        if is_ours:
            rules |= set(_WORD.findall(part))
    return rules


def _document_kind(relations: list[str], media_type: str) -> str:
    if "sitemap" in relations:
        return "sitemap"
    if "alternate" in relations:
        return _DOCUMENT_TYPES.get(media_type.partition(";")[0].strip().lower(), "")
    return ""


def _join(base: str, target: str | None) -> str | None:
    """Return an absolute http(s) URL without its fragment; None if there is none."""
    target = (target or "").strip()
    if not target or target.startswith("#") or len(target) > _URL_CHARACTERS_MAX:
        return None
    try:
        url = urljoin(base, target)
    except ValueError:
        return None
    url = url.partition("#")[0]
    is_http = url[:8].lower().startswith(("http://", "https://"))
    return url if is_http and len(url) <= _URL_CHARACTERS_MAX else None
