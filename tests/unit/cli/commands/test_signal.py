"""Signals."""

from pathlib import Path

from tests.unit.cli.conftest import PAGES, Recrawl

SITEMAP = f"""<?xml version="1.0"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
<url><loc>{PAGES[0]}</loc><lastmod>2025-06-10</lastmod></url>
<url><loc>https://unknown.example/</loc></url>
</urlset>
"""


def test_hears_urls_lists_and_stdin(kept: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "urls.txt").write_text("\n".join(PAGES[:3]))
    row = kept("signal", PAGES[4], "urls.txt", "--source", "ping").row
    assert row == {"n_read": 4, "n_heard": 4, "source": "ping"}
    assert kept("signal", "--source", "feed", stdin=PAGES[0]).row["n_heard"] == 1


def test_a_sitemap_told_twice_is_news_once(kept: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "sitemap.xml").write_text(SITEMAP)
    ran = kept("signal", "sitemap.xml", "--source", "sitemap", "--no-json")
    assert ran.out == "1 hint heard, 1 of no page that is kept, or no news.\n"
    assert kept("signal", "sitemap.xml", "--source", "sitemap").row["n_heard"] == 0


def test_a_source_is_named_and_a_log_is_none(kept: Recrawl, tmp_path: Path) -> None:
    assert kept("signal", PAGES[0]).code == 2
    assert kept("signal", PAGES[0], "--source", "\n").code == 2
    (tmp_path / "log.jsonl").write_text('{"url": "https://a.example/", "at": 1700000000}\n')
    ran = kept("signal", "log.jsonl", "--source", "x")
    assert ran.code == 2
    assert "is no list of pages" in ran.err
