"""Links of pages: absolute, of the page's base, without those that are not to be followed."""

import pytest

from recrawl.run.discovery.links import LINKS_MAX, PageLinks, read_links

URL = "https://a.example/dir/page"
HTML = {"content-type": "text/html; charset=utf-8"}


def test_links_are_absolute_and_each_comes_once() -> None:
    page = b"""<html><head><title>T</title></head><body>
    <a href="b">1</a> <a href="b#part">2</a> <a href="/c?x=1&amp;y=2">3</a>
    <a href="//b.example/d">4</a> <a href="mailto:x@a.example">5</a> <a href="#top">6</a>
    <a href="javascript:void(0)">7</a> <a href="e" rel="noopener nofollow">8</a>
    <a href="http://[bad/">9</a> <a>10</a></body>"""
    assert read_links(page, HTML, URL).links == (
        "https://a.example/dir/b",
        "https://a.example/c?x=1&y=2",
        "https://b.example/d",
    )


def test_documents_and_the_canonical_url_of_the_head() -> None:
    page = b"""<html><head><link rel="alternate" type="application/rss+xml" href="/feed.xml">
    <link rel="alternate" type="application/atom+xml; charset=utf-8" href="atom.xml">
    <link rel="alternate" hreflang="de" href="/de/"> <link rel="sitemap" href="/map.xml">
    <link rel="Canonical" href="/page"></head><body>x</body>"""
    found = read_links(page, HTML, URL)
    assert found.documents == (
        ("https://a.example/feed.xml", "feed"),
        ("https://a.example/dir/atom.xml", "feed"),
        ("https://a.example/map.xml", "sitemap"),
    )
    assert found.canonical_url == "https://a.example/page"


@pytest.mark.parametrize(
    ("meta", "header", "is_noindex", "is_nofollow"),
    [
        ("", "", False, False),
        ('<meta name="robots" content="NOINDEX, follow">', "", True, False),
        ('<meta name="robots" content="none">', "", True, True),
        ('<meta name="Recrawl" content="nofollow">', "", False, True),
        ('<meta name="otherbot" content="none">', "", False, False),
        ("", "noindex, nofollow", True, True),
        ("", "otherbot: noindex, nofollow", False, False),
        ("", "otherbot: none, recrawl: noindex", True, False),
    ],
)
def test_what_a_page_forbids(meta: str, header: str, is_noindex: bool, is_nofollow: bool) -> None:
    page = f"<html><head>{meta}</head><body><a href='/x'>x</a></body>".encode()
    found = read_links(page, HTML | {"x-robots-tag": header}, URL)
    assert (found.is_noindex, found.is_nofollow) == (is_noindex, is_nofollow)
    assert bool(found.links) is not is_nofollow


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"%PDF-1.7", {"content-type": "application/pdf"}),
        (b"", HTML),
        (b"\xff\xfe\x00<a", HTML),
        (b"<div>" * 10_000 + b"<a href=x>", HTML),
        (b"<a href=x>" + b" " * 3_000_000, HTML),
    ],
)
def test_what_cannot_be_read_has_no_links(body: bytes, headers: dict[str, str]) -> None:
    assert read_links(body, headers, URL) == PageLinks()


def test_the_number_of_links_is_limited() -> None:
    page = b"<body>" + b"".join(b"<a href='/%d'>x</a>" % i for i in range(LINKS_MAX + 500))
    assert len(read_links(page, HTML, URL).links) == LINKS_MAX
