"""Tests of ``recrawl signal``."""

from pathlib import Path

from tests.unit.cli.conftest import PAGES, Recrawl

SITEMAP = f"""<?xml version="1.0"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
<url><loc>{PAGES[0]}</loc><lastmod>2025-06-10</lastmod></url>
<url><loc>https://unknown.example/</loc></url>
</urlset>
"""


def test_signals_come_from_urls_lists_and_stdin(in_corpus: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "urls.txt").write_text("\n".join(PAGES[:3]))
    row = in_corpus("signal", PAGES[4], "urls.txt", "--source", "ping").row
    counts = {"n_read": 4, "n_heard": 4, "n_unknown": 0, "n_unavailable": 0}
    assert row == {**counts, "source": "ping"}
    assert in_corpus("signal", "--source", "feed", stdin=PAGES[0]).row["n_heard"] == 1


def test_the_same_sitemap_counts_once(in_corpus: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "sitemap.xml").write_text(SITEMAP)
    ran = in_corpus("signal", "sitemap.xml", "--source", "sitemap", "--no-json")
    assert ran.out == "1 signal counted, 1 ignored because the page is not tracked.\n"
    assert in_corpus("signal", "sitemap.xml", "--source", "sitemap").row["n_heard"] == 0


def test_a_missing_source_or_a_fetch_log_is_a_usage_error(
    in_corpus: Recrawl, tmp_path: Path
) -> None:
    assert in_corpus("signal", PAGES[0]).code == 2
    assert in_corpus("signal", PAGES[0], "--source", "\n").code == 2
    (tmp_path / "log.jsonl").write_text('{"url": "https://a.example/", "at": 1700000000}\n')
    ran = in_corpus("signal", "log.jsonl", "--source", "x")
    assert ran.code == 2
    assert "is not a list of pages" in ran.err
