"""Sitemaps and feeds, whole, broken and hostile."""

import pytest

from recrawl.errors import ReadError
from recrawl.readers.formats import sitemap
from recrawl.signals.hints import SITEMAP_ENTRIES_MAX
from tests.unit.readers.samples import ATOM, RSS, SITEMAP, opened, read, rows_of


def test_pages_and_their_last_modification_are_read() -> None:
    rows = read(SITEMAP)
    assert [(row["url"], row["last_modified_at_ms"]) for row in rows] == [
        ("https://example.com/?a=1&b=2", 1_704_153_600_000),
        ("https://example.com/b", 1_704_161_045_000),
        ("https://example.com/c", None),
    ]
    # What sites say of priority is not what pages are worth.
    assert {row["importance"] for row in rows} == {None}


@pytest.mark.parametrize("data", [RSS, ATOM])
def test_a_feed_is_read_like_a_sitemap(data: bytes) -> None:
    assert read(data) == [
        {
            "url": "https://example.com/a",
            "importance": None,
            "cost": None,
            "last_modified_at_ms": 1_704_164_645_000,
            "doc_id": None,
            "metadata": None,
            "key": None,
        }
    ]


def test_a_prefix_or_another_encoding_makes_no_difference() -> None:
    prefixed = SITEMAP.replace(b"<", b"<s:").replace(b"<s:/", b"</s:").replace(b"<s:?", b"<?")
    prefixed = prefixed.replace(b"xmlns=", b"xmlns:s=")
    assert read(prefixed) == read(SITEMAP)
    wide = SITEMAP.decode().replace("UTF-8", "UTF-16").encode("utf-16")
    assert read(wide) == read(SITEMAP)


def test_an_index_is_refused_with_the_sitemaps_it_names() -> None:
    entries = "".join(
        f"<sitemap><loc>https://example.com/{n}.xml</loc></sitemap>" for n in range(8)
    )
    data = f"<sitemapindex>{entries}</sitemapindex>".encode()
    with pytest.raises(ReadError, match=r"index of sitemaps.*/0\.xml.*/4\.xml and 3 more"):
        read(data)
    with pytest.raises(ReadError, match="read those: none"):
        read(b"<sitemapindex></sitemapindex>")


def test_entities_are_refused_and_nothing_is_expanded() -> None:
    bomb = (
        b'<!DOCTYPE u [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
        b"<urlset><url><loc>&b;</loc></url></urlset>"
    )
    with pytest.raises(ReadError, match="declares entities"):
        read(bomb)
    outside = b'<!DOCTYPE u SYSTEM "file:///etc/passwd"><urlset><url><loc>x</loc></url></urlset>'
    assert [row["url"] for row in read(outside)] == ["x"]


def test_what_breaks_off_is_read_until_there() -> None:
    source = opened(SITEMAP[: SITEMAP.index(b"https://example.com/c")])
    assert len(rows_of(source)) == 2
    assert "XML is broken" in str(source.refused.cut_short_reason)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"<html><body></body></html>", "root element <html>"),
        (b"<urlset>" + b"<a>" * 200, "nested more than 100 deep"),
        (b"<urlset", "XML is broken"),
        (b"", "XML is broken"),
        (b'<?xml version="1.0" encoding="no-such"?><urlset/>', "XML is broken"),
    ],
)
def test_a_file_that_is_not_a_sitemap_is_an_error(data: bytes, words: str) -> None:
    with pytest.raises(ReadError, match=words):
        read(data, format="sitemap")


def test_an_entry_without_a_url_or_with_one_too_long_is_refused() -> None:
    long = b"x" * 70_000
    source = opened(
        b"<urlset><url><lastmod>2024</lastmod></url>\n<url><loc>" + long + b"</loc></url>\n"
        b"<url><loc>https://a.example/</loc><lastmod>soon</lastmod></url></urlset>"
    )
    [row] = rows_of(source)
    assert row["last_modified_at_ms"] is None
    assert [row.line for row in source.refused.examples] == [2, 1]
    assert "dates of last modification" in source.refused.notes[0]


def test_a_sitemap_beyond_the_protocol_is_read_with_a_note(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sitemap, "SITEMAP_BYTES_MAX", 1 << 20)
    n = SITEMAP_ENTRIES_MAX + 1
    entries = b"".join(b"<url><loc>https://a.example/%d</loc></url>" % n for n in range(n))
    source = opened(b"<urlset>" + entries + b"</urlset>")
    assert len(rows_of(source)) == n
    assert len(source.refused.notes) == 2


def test_other_links_of_an_entry_are_not_its_page() -> None:
    data = (
        b"<feed><entry><link rel='self' href='https://a.example/self'/>"
        b"<link href='https://a.example/page'/><link href='https://a.example/other'/>"
        b"<source><link>https://a.example/source</link></source></entry></feed>"
    )
    assert [row["url"] for row in read(data)] == ["https://a.example/page"]


@pytest.mark.parametrize("begin", [b"<!--", b"<url a='", b"<?x ", b"<!DOCTYPE u [<!ELEMENT a ("])
def test_reading_stops_at_an_endless_tag_or_comment(begin: bytes) -> None:
    for data in (begin, b"<urlset><url><loc>https://a.example/</loc></url>" + begin):
        try:
            source = opened(data + b"x" * (4 << 20), format="sitemap")
            rows_of(source)
        except ReadError as error:
            assert "is not a sitemap" in str(error)  # noqa: PT017 - where there is no page
        else:
            assert source.refused.is_cut_short


def test_reading_goes_on_after_a_long_text() -> None:
    text = b"x" * (3 << 20)
    data = b"<urlset><url><loc>https://a.example/</loc><note>" + text + b"</note></url></urlset>"
    assert len(read(data)) == 1
