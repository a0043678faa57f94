"""Tests of ``recrawl export``, and of importing its files."""

import csv
import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.unit.cli.conftest import PAGES, Recrawl


@pytest.fixture
def fetched(in_corpus: Recrawl) -> Recrawl:
    told = {"url": PAGES[0], "status": 200, "digest": "1", "etag": '"é"', "last_modified": "then"}
    in_corpus("report", stdin=json.dumps(told | {"fetched_at_ms": 1_700_000_000_000}))
    in_corpus("report", stdin=json.dumps({"url": PAGES[1], "status": 404}))
    in_corpus(
        "set", "--pattern", "/product/*", "--importance", "5", "--max-age", "1d", "--kind", "shop"
    )
    return in_corpus


def test_a_row_has_all_columns_of_a_page(fetched: Recrawl) -> None:
    rows = {row["url"]: row for row in fetched("export").rows}
    assert set(rows) == set(PAGES)
    home, gone, product = rows[PAGES[0]], rows[PAGES[1]], rows[PAGES[2]]
    assert (home["status"], home["fetched_at_ms"]) == ("active", 1_700_000_000_000)
    assert (home["etag"], home["last_modified"], home["host"]) == ('"é"', "then", "a.example")
    assert gone["status"] == "gone"
    assert (product["kind"], product["max_age_seconds"]) == ("shop", 86_400)
    assert product["importance"] == pytest.approx(5, rel=0.01)
    assert product["fetched_at_ms"] is None
    assert 0 < home["freshness_probability"] < 1
    assert home["change_period_days_low"] < 1 / home["change_rate_per_day"]
    assert home["change_period_days_high"] > 1 / home["change_rate_per_day"]


def test_csv_and_parquet_have_the_same_content(fetched: Recrawl, tmp_path: Path) -> None:
    rows = fetched("export").rows
    ran = fetched("export", "-o", "pages.csv")
    assert ran.err == "5 pages written to pages.csv (csv).\n"
    with (tmp_path / "pages.csv").open() as file:
        assert [row["url"] for row in csv.DictReader(file)] == [row["url"] for row in rows]
    assert fetched("export", "--output", "pages.parquet").code == 0
    table = pq.read_table(tmp_path / "pages.parquet")
    assert table.column("digest").to_pylist() == [row["digest"] for row in rows]
    assert not list(tmp_path.glob(".*.part"))


def test_a_failed_export_leaves_no_file(fetched: Recrawl, tmp_path: Path) -> None:
    ran = fetched("export", "-o", "nowhere/pages.csv")
    assert ran.code == 2
    assert "there is no folder nowhere to write pages.csv to." in ran.err
    (tmp_path / "pages.csv").mkdir()
    ran = fetched("export", "-o", "pages.csv")
    assert ran.code != 0
    assert "pages.csv" in ran.err
    assert not any(path.name.endswith(".part") for path in tmp_path.iterdir())
    assert not list((tmp_path / "pages.csv").iterdir())


def test_parquet_is_not_printed_to_a_terminal(
    fetched: Recrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
    assert "name a file" in fetched("export", "--format", "parquet").err


@pytest.mark.parametrize("name", ["pages.jsonl", "pages.csv", "pages.parquet"])
def test_an_export_can_be_imported(fetched: Recrawl, tmp_path: Path, name: str) -> None:
    assert fetched("export", "-o", name).code == 0
    assert fetched("init", "other").code == 0
    row = fetched("import", name, "-C", "other").row
    assert row == {"file": name, "format": "export", "n_pages": 5, "n_added": 5}
    before = {row["url"]: row for row in fetched("export").rows}
    after = {row["url"]: row for row in fetched("export", "-C", "other").rows}
    for url, was in before.items():
        for key in ("fetched_at_ms", "kind", "status", "etag", "digest", "max_age_seconds"):
            assert after[url][key] == was[key], (url, key)
        assert after[url]["importance"] == pytest.approx(was["importance"], rel=0.01)


def test_a_broken_export_names_the_line(fetched: Recrawl, tmp_path: Path) -> None:
    text = fetched("export").out
    (tmp_path / "broken.jsonl").write_text(text.splitlines()[0] + "\n{broken\n")
    ran = fetched("import", "broken.jsonl")
    assert ran.code == 1
    assert "broken.jsonl, line 2: not JSON" in ran.err
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    ran = fetched("import", "broken.parquet")
    assert ran.code == 1
    assert "broken Parquet" in ran.err


def test_importing_an_export_updates_tracked_pages(fetched: Recrawl) -> None:
    fetched("set", PAGES[0], "--cost", "3")
    fetched("export", "-o", "pages.jsonl")
    fetched("set", "--pattern", "*", "--importance", "1", "--cost", "1")
    assert fetched("import", "pages.jsonl").row["n_added"] == 0
    rows = {row["url"]: row for row in fetched("export").rows}
    assert rows[PAGES[2]]["importance"] == pytest.approx(5, rel=0.01)
    assert rows[PAGES[0]]["cost"] == pytest.approx(3, rel=0.01)


@pytest.mark.parametrize("format_name", ["jsonl", "csv"])
def test_an_export_can_be_imported_from_a_pipe(
    fetched: Recrawl, format_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = fetched("export", "--format", format_name).out
    fetched("init", "other")
    row = fetched("import", "-", "-C", "other", stdin=text).row
    assert row == {"file": "-", "format": "export", "n_pages": 5, "n_added": 5}
    monkeypatch.setattr("recrawl.cli.support.input_files.STDIN_BYTES_FEW", 1_000)
    assert fetched("import", "-", "-C", "other", stdin=text).row["n_pages"] == 5
    assert not list(Path("other").glob(".import-*"))


def test_disallowed_pages_stay_disallowed(fetched: Recrawl) -> None:
    fetched("report", stdin=json.dumps({"url": PAGES[4], "disallowed": True}))
    fetched("export", "-o", "pages.jsonl")
    fetched("init", "other")
    fetched("import", "pages.jsonl", "-C", "other")
    status = {row["url"]: row["status"] for row in fetched("export", "-C", "other").rows}
    assert [url for url in PAGES if status[url] == "disallowed"] == [PAGES[4]]


def test_a_kind_may_be_called_na_in_csv(fetched: Recrawl) -> None:
    fetched("set", PAGES[4], "--kind", "NA")
    fetched("export", "-o", "pages.csv")
    fetched("init", "other")
    fetched("import", "pages.csv", "-C", "other")
    kinds = {row["url"]: row["kind"] for row in fetched("export", "-C", "other").rows}
    assert (kinds[PAGES[4]], kinds[PAGES[0]]) == ("NA", None)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
def test_exporting_to_a_device_does_not_replace_it(in_corpus: Recrawl, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # Opened for reading and writing, so that neither end blocks; a few rows fit into the pipe.
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        assert in_corpus("export", "-o", pipe).code == 0
        assert os.read(reader, 65_536).count(b"\n") == len(PAGES)
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_exporting_to_a_link_keeps_the_link(in_corpus: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    assert in_corpus("export", "-o", "link.csv").code == 0
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith('"url"')


def test_a_file_name_of_another_format_is_a_usage_error(in_corpus: Recrawl, tmp_path: Path) -> None:
    ran = in_corpus("export", "-o", "pages.xlsx")
    assert ran.code == 2
    assert "name it .jsonl, .csv or .parquet" in ran.err
    assert not (tmp_path / "pages.xlsx").exists()
    assert in_corpus("export", "-o", "pages.xlsx", "--format", "csv").code == 0
