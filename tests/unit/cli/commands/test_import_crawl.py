"""Tests of ``recrawl import``."""

import json
from pathlib import Path

import pytest

import recrawl as library
from tests.unit.cli.conftest import PAGES, Recrawl

DAY_MS = 86_400_000
START_MS = 1_700_000_000_000


def crawl_log(folder: Path, *, every_days: int = 10, n: int = 30) -> Path:
    """Write a log of two pages, one of which changes at every fetch; sorted by URL."""
    rows = [
        {"url": url, "at_ms": START_MS + k * every_days * DAY_MS, "status": 200, "digest": digest}
        for url, digests in (
            (PAGES[0], [f"v{k}" for k in range(n)]),
            ("https://new.example/", ["same"] * n),
        )
        for k, digest in enumerate(digests)
    ]
    rows += [{"url": PAGES[0], "at_ms": START_MS + 1, "status": 503}]
    rows += [{"url": PAGES[0], "at_ms": START_MS + 2, "status": 200}]
    path = folder / "crawl.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_import_learns_from_a_fetch_log(in_corpus: Recrawl, tmp_path: Path) -> None:
    crawl_log(tmp_path)
    row = in_corpus("import", "crawl.jsonl").row
    assert (row["n_pages"], row["n_added"], row["n_fetches"], row["n_changed"]) == (2, 1, 60, 29)
    assert (row["n_failed"], row["n_silent"], row["n_void"]) == (1, 1, 0)
    assert row["from_ms"] == START_MS
    with library.open(tmp_path, read_only=True) as corpus:
        fast, slow = corpus.explain(PAGES[0]), corpus.explain("https://new.example/")
        assert fast is not None
        assert slow is not None
        assert fast.state.change_rate_per_second > 20 * slow.state.change_rate_per_second
        assert corpus.stats().n_polls == 58


def test_importing_a_log_twice_changes_nothing(in_corpus: Recrawl, tmp_path: Path) -> None:
    crawl_log(tmp_path)
    in_corpus("import", "crawl.jsonl")
    ran = in_corpus("import", "crawl.jsonl", "--no-json")
    assert "nothing new" in ran.out
    assert "96.8 % imported before, or older" in ran.out
    assert ran.code == 0


def test_import_prints_a_summary(in_corpus: Recrawl, tmp_path: Path) -> None:
    crawl_log(tmp_path)
    with (tmp_path / "crawl.jsonl").open("a") as file:
        file.write("nonsense\n")
    ran = in_corpus("import", "crawl.jsonl", "--no-json")
    assert "2 pages (1 new), 60 fetches from 2023-11-14 to 2024-08-30" in ran.out.replace("\n", " ")
    assert "1 row refused" in ran.err


def test_a_log_without_usable_fetches_fails(in_corpus: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "crawl.csv").write_text("url,at,status\nhttps://a.example/,1700000000,503\n")
    ran = in_corpus("import", "crawl.csv")
    assert ran.code == 1
    assert ran.row["n_failed"] == 1
    assert "--column" in ran.err


def test_an_access_log_sets_importance(in_corpus: Recrawl, tmp_path: Path) -> None:
    line = '203.0.113.9 - - [10/Jun/2025:13:55:36 +0000] "GET {} HTTP/1.1" 200 9 "-" "Mozilla"\n'
    paths = ["/", "/", "/", "/", "/", "/", "/", "/", "/news", "/unknown"]
    (tmp_path / "access.log").write_text("".join(line.format(path) for path in paths))
    ran = in_corpus("import", "access.log", "--base-url", "https://a.example")
    assert (ran.row["n_pages"], ran.row["n_set"]) == (3, 2)
    with library.open(tmp_path, read_only=True) as corpus:
        page = corpus.explain(PAGES[0])
        assert page is not None
        assert page.state.importance == pytest.approx(8, rel=0.01)
    words = in_corpus("import", "access.log", "--base-url", "https://a.example", "--no-json").out
    assert "2 pages" in words


def test_files_of_other_kinds_suggest_the_right_command(in_corpus: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "urls.txt").write_text("https://a.example/\n")
    ran = in_corpus("import", "urls.txt")
    assert ran.code == 1
    assert "recrawl add urls.txt" in ran.err
    assert in_corpus("import", "no-such-file").code == 2
    (tmp_path / "noise").write_bytes(bytes(range(256)))
    assert in_corpus("import", "noise").code == 1
    assert in_corpus("import", "urls.txt", "--format", "no-such-format").code in (1, 2)


def test_a_log_without_a_known_time_lists_its_fields(in_corpus: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("url,wann,summe\nhttps://a.example/,2024-01-01,x\n")
    ran = in_corpus("import", "log.csv")
    assert ran.code == 1
    assert "Its fields are url, wann, summe." in ran.err
    assert "--column at=FIELD" in ran.err
    ran = in_corpus("import", "log.csv", "--column", "at=wann", "--column", "digest=summe")
    assert ran.row["n_fetches"] == 1
