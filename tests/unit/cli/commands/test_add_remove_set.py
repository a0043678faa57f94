"""Tests of ``recrawl add``, ``remove`` and ``set``."""

import gzip
import json
from pathlib import Path

import pytest

import recrawl as library
from recrawl.corpus import CorpusConfig
from tests.unit.cli.conftest import PAGES, Recrawl


def importance_of(folder: Path, url: str) -> float:
    with library.open(folder, read_only=True) as corpus:
        page = corpus.explain(url)
        assert page is not None
        return page.state.importance


def test_adds_urls_files_and_stdin(recrawl: Recrawl, tmp_path: Path) -> None:
    recrawl("init")
    (tmp_path / "urls.txt").write_text("https://a.example/1\nhttps://a.example/2\n")
    (tmp_path / "more.txt.gz").write_bytes(gzip.compress(b"https://a.example/3\n"))
    ran = recrawl("add", "https://a.example/1", "urls.txt", "more.txt.gz")
    assert ran.row == {
        "n_added": 3,
        "n_known": 1,
        "n_refused": 0,
        "refused_by_reason": {},
        "n_limited": 0,
        "n_unavailable": 0,
    }
    assert recrawl("add", stdin="https://a.example/4\n").row["n_added"] == 1
    assert recrawl("add", "-", stdin="https://a.example/5\n").row["n_added"] == 1


def test_importance_in_a_file_overrides_the_option(recrawl: Recrawl, tmp_path: Path) -> None:
    recrawl("init")
    (tmp_path / "pages.csv").write_text(
        "link,importance\nhttps://a.example/1,8\nhttps://a.example/2,\n"
    )
    ran = recrawl("add", "pages.csv", "--column", "url=link", "--importance", "4")
    assert ran.row["n_added"] == 2
    assert importance_of(tmp_path, "https://a.example/1") == pytest.approx(8, rel=0.01)
    assert importance_of(tmp_path, "https://a.example/2") == pytest.approx(4, rel=0.01)


OWN = "Link,DocID,team,Language\nhttps://a.example/1,d1,docs,de\nhttps://a.example/2,,,\n"


def own_data(folder: Path, url: str) -> tuple[object, object]:
    with library.open(folder, read_only=True) as corpus:
        page = corpus.explain(url)
        assert page is not None
        return page.doc_id, page.metadata


def test_further_columns_are_kept_as_metadata_or_named_as_ignored(
    recrawl: Recrawl, tmp_path: Path
) -> None:
    recrawl("init")
    (tmp_path / "pages.csv").write_text(OWN)
    ran = recrawl("add", "pages.csv")
    assert ran.row["n_added"] == 2
    assert own_data(tmp_path, "https://a.example/1") == ("d1", None)
    assert "ignored the fields team, Language." in " ".join(ran.err.split())
    assert "--metadata team,Language" in " ".join(ran.err.split())
    ran = recrawl("add", "pages.csv", "--metadata", "team")
    assert "ignored the fields Language." in ran.err
    assert own_data(tmp_path, "https://a.example/1") == ("d1", {"team": "docs"})
    ran = recrawl("add", "pages.csv", "--metadata", "all")
    assert "ignored" not in ran.err
    assert own_data(tmp_path, "https://a.example/1")[1] == {"team": "docs", "Language": "de"}
    assert own_data(tmp_path, "https://a.example/2") == (None, None)


def test_doc_id_and_metadata_are_in_every_output_and_are_imported_again(
    recrawl: Recrawl, tmp_path: Path
) -> None:
    recrawl("init")
    (tmp_path / "pages.csv").write_text(OWN)
    recrawl("add", "pages.csv", "--metadata", "all")
    (order,) = recrawl("lease", "1").rows
    assert order["doc_id"] == "d1"
    assert order["metadata"] == {"team": "docs", "Language": "de"}
    recrawl("report", stdin=json.dumps(order | {"status": 200, "digest": "x"}))
    (change,) = recrawl("changes").rows
    assert (change["doc_id"], change["metadata"]) == ("d1", order["metadata"])
    assert recrawl("explain", "https://a.example/1").row["doc_id"] == "d1"
    for name in ("pages.jsonl", "pages.parquet", "export.csv"):
        recrawl("export", "-o", name)
        copy = tmp_path / name.replace(".", "-")
        recrawl("init", copy)
        assert recrawl("import", name, "-C", copy).code == 0
        assert own_data(copy, "https://a.example/1") == ("d1", order["metadata"])
    log = {"Page URL": "https://a.example/9", "timestamp": 1700000000, "hash": "x"}
    (tmp_path / "log.jsonl").write_text(json.dumps(log | {"doc_id": 9, "team": "web"}))
    ran = recrawl("import", "log.jsonl", "--metadata", "team")
    assert ran.code == 0
    assert own_data(tmp_path, "https://a.example/9") == ("9", {"team": "web"})


def test_pages_of_a_corpus_grouped_by_key_have_keys_in_every_command(
    recrawl: Recrawl, tmp_path: Path
) -> None:
    assert recrawl("init", "--group-by", "key").code == 0
    page = "https://a.example/1"
    (tmp_path / "pages.csv").write_text(f"url,Key\n{page},blog\n{page},\n")
    assert recrawl("add", "pages.csv", "--key", "shop").row["n_added"] == 2
    ran = recrawl("add", "pages.csv")
    assert (ran.row["n_known"], ran.row["n_refused"]) == (1, 1)
    assert "no key, or not text" in ran.err
    ran = recrawl("add", page)
    assert ran.code == 2
    assert "give the key of the pages" in ran.err
    assert recrawl("set", page, "--key", "shop", "--importance", "4").row["n_set"] == 1
    assert recrawl("set", "--host", "shop", "--delay", "1s").row["n_pages"] == 1
    assert recrawl("signal", page, "--source", "ping", "--key", "shop").row["n_heard"] == 1
    orders = recrawl("lease", "5").rows
    assert {order["key"] for order in orders} == {"shop", "blog"}
    assert {order["url"] for order in orders} == {page}
    outcome = {"url": page, "key": "shop", "status": 200, "digest": "x"}
    assert recrawl("report", stdin=json.dumps(outcome)).row["n_counted"] == 1
    (change,) = recrawl("changes").rows
    assert (change["key"], change["url"]) == ("shop", page)
    assert recrawl("explain", page, "--key", "blog").row["key"] == "blog"
    assert "key" in recrawl("explain", page, "--key", "blog", "--no-json").out
    recrawl("export", "-o", "pages.jsonl")
    recrawl("init", "copy", "--group-by", "key")
    assert recrawl("import", "pages.jsonl", "-C", "copy").row["n_added"] == 2
    assert recrawl("explain", page, "--key", "shop", "-C", "copy").row["importance"] > 3.9
    recrawl("init", "plain")
    ran = recrawl("import", "pages.jsonl", "-C", "plain")
    assert ran.code == 1
    assert "this corpus has none" in ran.err
    assert recrawl("add", page, "--key", "shop", "-C", "plain").code == 2
    log = {"url": page, "at": 1700000000, "hash": "x"}
    (tmp_path / "log.jsonl").write_text(json.dumps(log))
    assert recrawl("import", "log.jsonl", "--key", "new").row["n_added"] == 1
    assert recrawl("remove", page, "--key", "blog").row["n_removed"] == 1
    assert "2 keys" in recrawl("stats", "--no-json").out


def test_a_fetchers_own_key_does_not_disturb_other_corpora(in_corpus: Recrawl) -> None:
    outcome = {"url": PAGES[0], "key": "s3://bucket", "status": 200, "digest": "x"}
    assert in_corpus("report", stdin=json.dumps(outcome)).row["n_counted"] == 1


def test_rows_with_invalid_own_data_are_refused_with_the_reason(
    recrawl: Recrawl, tmp_path: Path
) -> None:
    recrawl("init")
    (tmp_path / "pages.csv").write_text(f"url,doc_id\nhttps://a.example/1,{'x' * 300}\n")
    ran = recrawl("add", "pages.csv", "https://a.example/2")
    reason = "the doc_id is not text of at most 256 bytes"
    assert ran.row["refused_by_reason"] == {reason: 1}
    assert ran.row["n_added"] == 1
    assert f"{reason}: 'https://a.example/1'" in ran.err


def test_a_refused_file_lists_its_fields_and_the_option_that_accepts_it(
    recrawl: Recrawl, tmp_path: Path
) -> None:
    recrawl("init")
    (tmp_path / "pages.csv").write_text("titel,Seite\nA,https://a.example/\n")
    ran = recrawl("add", "pages.csv")
    assert ran.code != 0
    assert "Its fields are titel, Seite" in " ".join(ran.err.split())
    assert "--column url=Seite" in " ".join(ran.err.split())
    assert recrawl("add", "pages.csv", "--column", "url=Seite").row["n_added"] == 1


def test_refused_urls_are_counted_with_the_first_reasons(recrawl: Recrawl, tmp_path: Path) -> None:
    recrawl("init")
    ran = recrawl("add", "http://user:secret@a.example/", "https://", "https://a.example/")
    assert ran.code == 0
    assert ran.row["n_added"] == 1
    assert ran.row["refused_by_reason"] == {"not a URL": 1, "with a user or a password": 1}
    assert "not a URL: 'https://'" in ran.err
    words = recrawl("add", "https://", "--no-json")
    assert words.out == "0 pages added, 0 tracked already, 1 refused.\n"


def test_adding_a_fetch_log_suggests_import(in_corpus: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"url": "https://a.example/", "at": 1700000000}\n')
    ran = in_corpus("add", "log.jsonl")
    assert ran.code == 1
    assert "recrawl import log.jsonl" in ran.err


@pytest.mark.parametrize("command", ["add", "remove", "signal"])
def test_a_missing_file_is_a_usage_error(in_corpus: Recrawl, command: str) -> None:
    more = ("--source", "x") if command == "signal" else ()
    ran = in_corpus(command, "no-such-file", *more)
    assert ran.code == 2
    assert "there is no file no-such-file" in ran.err


def test_no_input_at_a_terminal_is_a_usage_error(
    in_corpus: Recrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
    assert "nothing to read" in in_corpus("add").err


@pytest.mark.parametrize("column", ["url", "=link", "url="])
def test_a_malformed_column_option_is_a_usage_error(
    in_corpus: Recrawl, tmp_path: Path, column: str
) -> None:
    (tmp_path / "pages.csv").write_text("link\nhttps://a.example/1\n")
    ran = in_corpus("add", "pages.csv", "--column", column)
    assert ran.code == 2
    assert "--column must be NAME=FIELD" in ran.err


def test_removes_pages_by_url_file_and_pattern(in_corpus: Recrawl, tmp_path: Path) -> None:
    removed = in_corpus("remove", PAGES[0], "https://unknown.example/")
    assert removed.row == {"n_removed": 1, "n_unavailable": 0}
    (tmp_path / "gone.txt").write_text(PAGES[1] + "\n")
    assert in_corpus("remove", "gone.txt").row["n_removed"] == 1
    assert in_corpus("remove", "--pattern", "/product/*", "--no-json").out == "2 pages removed.\n"
    assert in_corpus("stats").row["n_pages"] == 1
    assert in_corpus("remove", PAGES[0], "--pattern", "/*").code == 2


def test_changes_settings_of_pages(in_corpus: Recrawl, tmp_path: Path) -> None:
    ran = in_corpus("set", "--pattern", "/product/*", "--importance", 5, "--max-age", "1d")
    assert ran.row == {"n_set": 2, "n_unavailable": 0, "importance": 5.0, "max_age": "1d"}
    assert importance_of(tmp_path, PAGES[2]) == pytest.approx(5, rel=0.01)
    assert in_corpus("set", PAGES[0], "--kind", "home", "--no-json").out == "Set for 1 page.\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "nothing to set; give an option"),
        (("--importance", "2"), "name the pages that --importance applies to"),
        ((PAGES[0],), "nothing to set for https://a.example/"),
        (("--host", "a.example"), "--host goes with --delay"),
        (("--delay", "3s"), "--host goes with --delay"),
        ((PAGES[0], "--max-age", "soon"), "is not a duration"),
        ((PAGES[0], "--stale-for", "1d"), "give --stale-for together"),
        (("--budget", "many"), "is not a rate"),
        (("--host", "a.example", "--delay", "x"), "is not a duration"),
        (("--pattern", "shop", "--cost", "2"), "has no path"),
    ],
)
def test_settings_that_do_not_fit_together_are_usage_errors(
    in_corpus: Recrawl, arguments: tuple[str, ...], words: str
) -> None:
    ran = in_corpus("set", *arguments)
    assert ran.code == 2
    assert words in ran.err.replace("\n", " ")


def test_a_budget_applies_to_later_commands(in_corpus: Recrawl, tmp_path: Path) -> None:
    assert in_corpus("set", "--budget", "36/h").row == {"budget": "36/h", "config": None}
    assert in_corpus("stats").row["budget_per_second"] == pytest.approx(0.01)


def test_a_budget_in_recrawl_toml_is_changed_there(in_corpus: Recrawl, tmp_path: Path) -> None:
    toml = tmp_path / "recrawl.toml"
    toml.write_text('# mine\n[budget]\nrate = "3/h" # little\n')
    assert in_corpus("set", "--budget", "36/h").row["config"] == "recrawl.toml"
    assert toml.read_text() == '# mine\n[budget]\nrate = "36/h" # little\n'
    assert in_corpus("add", "https://d.example/").code == 0
    assert in_corpus("stats").row["budget_per_second"] == pytest.approx(0.01)
    toml.write_text('budget = { rate = "3/h" }\n')
    ran = in_corpus("set", "--budget", "36/h")
    assert ran.code == 1
    assert "Change it there" in ran.err


def test_an_unknown_host_suggests_similar_hosts(in_corpus: Recrawl) -> None:
    in_corpus(
        "add", "http://127.0.0.1:8765/a", "http://127.0.0.1:8765/b", "http://127.0.0.1:9000/c"
    )
    ran = in_corpus("set", "--host", "127.0.0.1", "--delay", "0s")
    assert ran.row["n_pages"] == 0
    assert "no pages in this corpus yet.  Did you mean 127.0.0.1:8765 or 127.0.0.1:9000?" in ran.err
    assert in_corpus("set", "--host", "127.0.0.1:8765", "--delay", "0s").row["n_pages"] == 2


def test_changes_settings_of_a_host(in_corpus: Recrawl, tmp_path: Path) -> None:
    ran = in_corpus("set", "--host", "a.example", "--delay", "5s", "--in-flight-max", "2")
    assert ran.row == {"host": "a.example", "n_pages": 2, "delay": 5.0, "in_flight_max": 2}
    assert in_corpus("set", "--host", "b.example", "--closed").row["is_closed"] is True
    (tmp_path / "recrawl.toml").write_text('[hosts."a.example"]\ndelay = "2s"\n')
    assert CorpusConfig.from_toml(tmp_path / "recrawl.toml").hosts
    ran = in_corpus("set", "--host", "a.example", "--delay", "5s")
    assert ran.code == 1
    assert "overrides this" in ran.err


def test_line_ends_of_recrawl_toml_are_kept(in_corpus: Recrawl, tmp_path: Path) -> None:
    toml = tmp_path / "recrawl.toml"
    toml.write_bytes(b'[budget]\r\nrate = "30/h"\r\n')
    toml.chmod(0o640)
    assert in_corpus("set", "--budget", "40/h").code == 0
    assert toml.read_bytes() == b'[budget]\r\nrate = "40/h"\r\n'
    assert toml.stat().st_mode & 0o777 == 0o640
    assert not list(tmp_path.glob(".recrawl.toml*"))


def test_a_failed_write_keeps_recrawl_toml(in_corpus: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "recrawl.toml").write_text('[budget]\nrate = "30/h"\n')
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Path, "replace", _refuse_recrawl_toml)
        assert in_corpus("set", "--budget", "40/h").code == 1
    assert (tmp_path / "recrawl.toml").read_text() == '[budget]\nrate = "30/h"\n'
    assert not list(tmp_path.glob(".recrawl.toml*"))


def _refuse_recrawl_toml(draft: Path, target: Path) -> None:
    if target.name == "recrawl.toml":
        raise PermissionError(13, "Permission denied")
    draft.rename(target)


def test_a_budget_of_0_stops_fetching(in_corpus: Recrawl) -> None:
    assert in_corpus("set", "--budget", "0/h").code == 0
    ran = in_corpus("lease", "1")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("Nothing to fetch now: the budget is 0")
    assert "budget: 0 fetches." in in_corpus("stats", "--no-json").out
    assert in_corpus("set", "--budget", "unlimited").code == 0
    assert len(in_corpus("lease", "1").rows) == 1


@pytest.mark.parametrize("option", ["--importance", "--cost"])
def test_importance_out_of_range_is_refused(in_corpus: Recrawl, option: str) -> None:
    ran = in_corpus("set", PAGES[0], option, "1e39")
    assert ran.code == 2
    assert f"{option[2:]} must be 0 to 1e+12" in ran.err


def test_a_bare_number_is_seconds(in_corpus: Recrawl) -> None:
    assert in_corpus("set", PAGES[0], "--max-age", "90").row["max_age"] == 90
    assert in_corpus("set", "--host", "a.example", "--delay", "0").row["delay"] == 0
    assert in_corpus("set", PAGES[0], "--max-age", "soon").code == 2


def test_all_reasons_are_counted_if_not_all_are_shown(in_corpus: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "odd.csv").write_text("url\n" + "ftp://a.example/\n" * 4 + "no url\n")
    ran = in_corpus("add", "odd.csv", "--no-json")
    assert "… in total: 4 neither http nor https, 1 not a URL" in ran.err


def test_removing_an_unknown_page_says_so(in_corpus: Recrawl) -> None:
    ran = in_corpus("remove", PAGES[0], "https://none.example/", "--no-json")
    assert ran.out == "1 page removed; 1 URL is not in the corpus.\n"


def test_a_table_format_is_accepted_by_its_common_name(in_corpus: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "pages.csv").write_text("url\nhttps://d.example/\n")
    assert in_corpus("add", "pages.csv", "--format", "csv").row["n_added"] == 1
    ran = in_corpus("add", "pages.csv", "--format", "xlsx")
    assert (ran.code, "must be one of csv, jsonl" in ran.err) == (2, True)
    assert "is a folder" in in_corpus("add", ".").err


def test_a_budget_with_spaces_is_explained(in_corpus: Recrawl) -> None:
    assert in_corpus("set", "--budget", "30 per hour").row["budget"] == "30/h"
    ran = in_corpus("set", "--budget", "30/h", "per", "hour")
    assert ran.code == 2
    assert "Write a budget without spaces" in ran.err
