"""Keeping pages, and what holds for them."""

import gzip
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
    assert ran.row == {"n_added": 3, "n_known": 1, "n_refused": 0, "refused_by_reason": {}}
    assert recrawl("add", stdin="https://a.example/4\n").row["n_added"] == 1
    assert recrawl("add", "-", stdin="https://a.example/5\n").row["n_added"] == 1


def test_a_file_says_importance_itself_and_an_option_for_the_rest(
    recrawl: Recrawl, tmp_path: Path
) -> None:
    recrawl("init")
    (tmp_path / "pages.csv").write_text(
        "link,importance\nhttps://a.example/1,8\nhttps://a.example/2,\n"
    )
    ran = recrawl("add", "pages.csv", "--column", "url=link", "--importance", "4")
    assert ran.row["n_added"] == 2
    assert importance_of(tmp_path, "https://a.example/1") == pytest.approx(8, rel=0.01)
    assert importance_of(tmp_path, "https://a.example/2") == pytest.approx(4, rel=0.01)


def test_what_is_refused_is_counted_with_the_first_reasons(
    recrawl: Recrawl, tmp_path: Path
) -> None:
    recrawl("init")
    ran = recrawl("add", "http://user:secret@a.example/", "https://", "https://a.example/")
    assert ran.code == 0
    assert ran.row["n_added"] == 1
    assert ran.row["refused_by_reason"] == {"not a URL": 1, "with a user or a password": 1}
    assert "not a URL: 'https://'" in ran.err
    words = recrawl("add", "https://", "--no-json")
    assert words.out == "0 pages added, 0 known already, 1 refused.\n"


def test_a_log_of_fetches_is_not_added(kept: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"url": "https://a.example/", "at": 1700000000}\n')
    ran = kept("add", "log.jsonl")
    assert ran.code == 1
    assert "recrawl import log.jsonl" in ran.err


@pytest.mark.parametrize("command", ["add", "remove", "signal"])
def test_a_file_that_is_not_there_is_wrong_usage(kept: Recrawl, command: str) -> None:
    more = ("--source", "x") if command == "signal" else ()
    ran = kept(command, "no-such-file", *more)
    assert ran.code == 2
    assert "no-such-file is no file" in ran.err


def test_nothing_to_read_is_wrong_usage(kept: Recrawl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
    assert "nothing to read" in kept("add").err


@pytest.mark.parametrize("column", ["url", "=link", "url="])
def test_a_column_is_a_name_and_a_field(kept: Recrawl, tmp_path: Path, column: str) -> None:
    (tmp_path / "pages.csv").write_text("link\nhttps://a.example/1\n")
    ran = kept("add", "pages.csv", "--column", column)
    assert ran.code == 2
    assert "--column must be NAME=FIELD" in ran.err


def test_removes_pages_by_url_file_and_pattern(kept: Recrawl, tmp_path: Path) -> None:
    assert kept("remove", PAGES[0], "https://unknown.example/").row == {"n_removed": 1}
    (tmp_path / "gone.txt").write_text(PAGES[1] + "\n")
    assert kept("remove", "gone.txt").row["n_removed"] == 1
    assert kept("remove", "--pattern", "/product/*", "--no-json").out == "2 pages removed.\n"
    assert kept("stats").row["n_pages"] == 1
    assert kept("remove", PAGES[0], "--pattern", "/*").code == 2


def test_sets_what_holds_for_pages(kept: Recrawl, tmp_path: Path) -> None:
    ran = kept("set", "--pattern", "/product/*", "--importance", 5, "--max-age", "1d")
    assert ran.row == {"n_set": 2, "importance": 5.0, "max_age": "1d"}
    assert importance_of(tmp_path, PAGES[2]) == pytest.approx(5, rel=0.01)
    assert kept("set", PAGES[0], "--kind", "home", "--no-json").out == "Set for 1 page.\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "say what to set"),
        (("--importance", "2"), "say for which pages --importance is to hold"),
        ((PAGES[0],), "say what to set for these pages"),
        (("--host", "a.example"), "--host goes with --delay"),
        (("--delay", "3s"), "--host goes with --delay"),
        ((PAGES[0], "--max-age", "soon"), "must be a duration"),
        ((PAGES[0], "--stale-for", "1d"), "stale_for must be given together"),
        (("--budget", "many"), "must be a rate"),
        (("--host", "a.example", "--delay", "x"), "must be a duration"),
        (("--pattern", "shop", "--cost", "2"), "has no path"),
    ],
)
def test_what_cannot_be_set_is_wrong_usage(
    kept: Recrawl, arguments: tuple[str, ...], words: str
) -> None:
    ran = kept("set", *arguments)
    assert ran.code == 2
    assert words in ran.err.replace("\n", " ")


def test_a_budget_holds_for_the_commands_after(kept: Recrawl, tmp_path: Path) -> None:
    assert kept("set", "--budget", "36/h").row == {"budget": "36.0/h", "config": None}
    assert kept("stats").row["budget_per_second"] == pytest.approx(0.01)


def test_a_budget_in_recrawl_toml_is_changed_there(kept: Recrawl, tmp_path: Path) -> None:
    toml = tmp_path / "recrawl.toml"
    toml.write_text('# mine\n[budget]\nrate = "3/h" # little\n')
    assert kept("set", "--budget", "36/h").row["config"] == "recrawl.toml"
    assert toml.read_text() == '# mine\n[budget]\nrate = "36/h" # little\n'
    assert kept("add", "https://d.example/").code == 0
    assert kept("stats").row["budget_per_second"] == pytest.approx(0.01)
    toml.write_text('budget = { rate = "3/h" }\n')
    ran = kept("set", "--budget", "36/h")
    assert ran.code == 1
    assert "Change it there" in ran.err


def test_a_host_meant_at_another_port_is_named(kept: Recrawl) -> None:
    kept("add", "http://127.0.0.1:8765/a", "http://127.0.0.1:8765/b", "http://127.0.0.1:9000/c")
    ran = kept("set", "--host", "127.0.0.1", "--delay", "0s")
    assert ran.row["n_pages"] == 0
    assert "no page is kept yet.  Did you mean 127.0.0.1:8765 or 127.0.0.1:9000?" in ran.err
    assert kept("set", "--host", "127.0.0.1:8765", "--delay", "0s").row["n_pages"] == 2


def test_sets_how_often_a_host_may_be_asked(kept: Recrawl, tmp_path: Path) -> None:
    ran = kept("set", "--host", "a.example", "--delay", "5s", "--in-flight-max", "2")
    assert ran.row == {"host": "a.example", "n_pages": 2, "delay": 5.0, "in_flight_max": 2}
    assert kept("set", "--host", "b.example", "--closed").row["is_closed"] is True
    (tmp_path / "recrawl.toml").write_text('[hosts."a.example"]\ndelay = "2s"\n')
    assert CorpusConfig.from_toml(tmp_path / "recrawl.toml").hosts
    ran = kept("set", "--host", "a.example", "--delay", "5s")
    assert ran.code == 1
    assert "would undo this" in ran.err


def test_the_ends_of_lines_stay_in_recrawl_toml(kept: Recrawl, tmp_path: Path) -> None:
    toml = tmp_path / "recrawl.toml"
    toml.write_bytes(b'[budget]\r\nrate = "30/h"\r\n')
    toml.chmod(0o640)
    assert kept("set", "--budget", "40/h").code == 0
    assert toml.read_bytes() == b'[budget]\r\nrate = "40/h"\r\n'
    assert toml.stat().st_mode & 0o777 == 0o640
    assert not list(tmp_path.glob(".recrawl.toml*"))


def test_a_recrawl_toml_that_cannot_be_written_stays(kept: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "recrawl.toml").write_text('[budget]\nrate = "30/h"\n')
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("shutil.copymode", _refused)
        assert kept("set", "--budget", "40/h").code == 1
    assert (tmp_path / "recrawl.toml").read_text() == '[budget]\nrate = "30/h"\n'
    assert not list(tmp_path.glob(".recrawl.toml*"))


def _refused(*_: object) -> None:
    raise PermissionError(13, "Permission denied")


def test_a_budget_of_nothing_is_a_pause(kept: Recrawl) -> None:
    assert kept("set", "--budget", "0/h").code == 0
    ran = kept("lease", "1")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("Nothing to fetch: the budget is 0")
    assert "no fetches: the budget is 0 or spent" in kept("stats", "--no-json").out
    assert kept("set", "--budget", "unlimited").code == 0
    assert len(kept("lease", "1").rows) == 1


@pytest.mark.parametrize("option", ["--importance", "--cost"])
def test_an_amount_that_means_nothing_is_refused(kept: Recrawl, option: str) -> None:
    ran = kept("set", PAGES[0], option, "1e39")
    assert ran.code == 2
    assert f"{option[2:]} must be 0 to 1e+12" in ran.err


def test_a_bare_number_is_seconds(kept: Recrawl) -> None:
    assert kept("set", PAGES[0], "--max-age", "90").row["max_age"] == 90
    assert kept("set", "--host", "a.example", "--delay", "0").row["delay"] == 0
    assert kept("set", PAGES[0], "--max-age", "soon").code == 2


def test_all_reasons_are_counted_where_not_all_are_shown(kept: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "odd.csv").write_text("url\n" + "ftp://a.example/\n" * 4 + "no url\n")
    ran = kept("add", "odd.csv", "--no-json")
    assert "… in all 4 neither http nor https, 1 not a URL" in ran.err
