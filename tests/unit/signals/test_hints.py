"""Sitemaps and feeds as they are found on the web: right, odd, broken and hostile."""

import gzip
import random

import pytest

from recrawl.signals import DocumentKind, HintLimits, HintReader, parse_date
from recrawl.signals.inflating import INFLATED_RATIO_MAX

HEAD = b'<?xml version="1.0" encoding="UTF-8"?>\n'
URLSET = (
    HEAD
    + b"""<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
 xmlns:xhtml="http://www.w3.org/1999/xhtml">
<url><loc>https://a.example/1</loc><lastmod>2026-11-16</lastmod><changefreq>daily</changefreq></url>
<url><xhtml:link rel="alternate" hreflang="de" href="https://a.example/de/2"/>
 <loc> https://a.example/2?a=1&amp;b=2 </loc></url>
</urlset>"""
)
NEWS = (
    HEAD
    + b"""<urlset xmlns:news="http://www.google.com/schemas/sitemap-news/0.9"><url>
<loc>https://a.example/n</loc><news:news><news:publication><news:name>N</news:name></news:publication>
<news:publication_date>2026-11-15T10:00Z</news:publication_date></news:news></url></urlset>"""
)
INDEX = b"""<sitemapindex><sitemap><loc>https://a.example/s1.xml</loc>
<lastmod>2026-11-16T08:00:00Z</lastmod></sitemap></sitemapindex>"""
RSS = b"""<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel><title>T</title>
<link>https://a.example/</link><ttl>60</ttl>
<atom:link rel="hub" href="https://hub.example/"/>
<atom:link rel="self" href="https://a.example/feed"/>
<item><title>x</title><link>https://a.example/p</link>
<pubDate>Mon, 16 Nov 2026 09:30:00 GMT</pubDate></item></channel></rss>"""
ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom"><link rel="hub" href="https://hub.example/"/>
<entry><link rel="replies" href="https://a.example/no"/><link href="https://a.example/e"/>
<published>2026-11-01T00:00:00Z</published><updated>2026-11-16T00:00:00Z</updated></entry></feed>"""


def read(body: bytes, *, piece: int = 1 << 20, **limits: int) -> tuple[HintReader, list[str]]:
    pieces = [body[i : i + piece] for i in range(0, len(body), piece)]
    reader = HintReader(pieces, HintLimits(**limits))
    return reader, [url for hints in reader for url in hints.url]


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_sitemap_in_pieces_of_any_size(piece: int, pack: object) -> None:
    reader, urls = read(pack(URLSET), piece=piece)  # type: ignore[operator]
    assert urls == ["https://a.example/1", "https://a.example/2?a=1&b=2"]
    assert reader.kind == DocumentKind.PAGES
    assert reader.problems.counts == {}


def test_a_date_is_an_interval() -> None:
    (hints,) = HintReader([URLSET])
    assert (hints.earliest_ms[0], hints.latest_ms[0]) == parse_date("2026-11-16")
    assert (hints.earliest_ms[1], hints.latest_ms[1]) == (0, 0)


def test_kinds_of_documents() -> None:
    assert read(INDEX)[0].kind == DocumentKind.INDEX
    assert read(INDEX)[1] == ["https://a.example/s1.xml"]
    reader, urls = read(NEWS)
    assert (reader.kind, urls) == (DocumentKind.PAGES, ["https://a.example/n"])
    (hints,) = HintReader([NEWS])
    assert (hints.earliest_ms[0], hints.latest_ms[0]) == parse_date("2026-11-15T10:00Z")


def test_feeds_name_their_hub() -> None:
    reader, urls = read(RSS)
    assert (reader.kind, urls) == (DocumentKind.FEED, ["https://a.example/p"])
    assert reader.hub_urls == ["https://hub.example/"]
    assert reader.self_url == "https://a.example/feed"
    assert reader.ttl_seconds == 3600.0
    (hints,) = HintReader([ATOM])
    assert hints.url == ["https://a.example/e"]
    assert hints.earliest_ms[0] == parse_date("2026-11-16T00:00:00Z").earliest_ms  # type: ignore[union-attr]


def test_a_list_of_urls() -> None:
    reader, urls = read(b"\xef\xbb\xbfhttps://a.example/1\r\n\r\nhttps://a.example/2\nnot a url\n")
    assert urls == ["https://a.example/1", "https://a.example/2"]
    assert reader.kind == DocumentKind.LINES
    assert reader.problems.counts == {"bad_url": 1}


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "not_a_sitemap"),
        (b"<html><body>Not found</body></html>", "not_a_sitemap"),
        (b"Not found", "not_a_sitemap"),
        (b"\0\1\2\3" * 100, "not_a_sitemap"),
        (URLSET[:-30], "broken_xml"),
        (URLSET.replace(b"<loc>", b"<loc>\x01"), "broken_xml"),
        (gzip.compress(URLSET)[:-20], "broken_gzip"),
        (b"<urlset>" + b"<a>" * 200, "too_deep"),
        (b"<urlset><!--" + b"x" * (3 << 20), "too_long"),
        (b'<!DOCTYPE u [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><urlset>&b;</urlset>', "entities"),
        (b"<urlset><url><loc>ftp://a.example/</loc></url></urlset>", "bad_url"),
        (
            b"<urlset><url><loc>https://a.example/%s</loc></url></urlset>" % (b"x" * 70_000),
            "bad_url",
        ),
        (b"<urlset><url></url></urlset>", "bad_url"),
    ],
)
def test_what_is_wrong_is_counted(body: bytes, problem: str) -> None:
    reader, _ = read(body)
    assert reader.problems.counts.get(problem) == 1
    assert reader.problems.texts


def test_what_comes_before_a_break_is_used() -> None:
    assert read(URLSET[:-30])[1][0] == "https://a.example/1"


def test_limits() -> None:
    many = b"<urlset>" + b"<url><loc>https://a.example/</loc></url>" * 20_000 + b"</urlset>"
    reader, urls = read(many, n_entries_max=9_000)
    assert len(urls) == 9_000
    assert reader.problems.counts == {"too_many": 1}
    reader, urls = read(many, n_bytes_max=400_000)
    assert 0 < len(urls) < 20_000
    assert "too_large" in reader.problems.counts
    reader, urls = read(b"https://a.example/\n" * 20_000, n_entries_max=9_000)
    assert len(urls) == 9_000


def test_a_bomb_is_not_unpacked() -> None:
    bomb = gzip.compress(b"<urlset>" + b" " * (40 << 20))
    assert len(bomb) * INFLATED_RATIO_MAX < 40 << 20
    reader, urls = read(bomb)
    assert urls == []
    assert reader.problems.counts == {"inflates_too_much": 1, "broken_xml": 1}


def test_mutated_documents_never_raise() -> None:
    rng = random.Random(1)
    samples = [URLSET, NEWS, INDEX, RSS, ATOM, gzip.compress(URLSET), b"https://a.example/\n" * 9]
    for _ in range(3_000):
        body = bytearray(rng.choice(samples))
        for _ in range(rng.randint(1, 8)):
            at = rng.randrange(len(body))
            match rng.randrange(4):
                case 0:
                    body[at] = rng.randrange(256)
                case 1:
                    del body[at : at + rng.randint(1, 20)]
                case 2:
                    body[at:at] = rng.randbytes(rng.randint(1, 20))
                case _:
                    body[at:at] = body[: rng.randint(1, 200)]
            if not body:
                break
        _, urls = read(bytes(body), piece=rng.choice((1 << 16, 13)))
        assert all(url.lower().startswith(("http://", "https://")) for url in urls)
