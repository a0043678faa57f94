"""Tests of ``recrawl run``, against a web in another process."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from recrawl.corpus import CorpusConfig
from tests.unit.cli.conftest import Recrawl

ALLOWED = ("--allow-network", "127.0.0.0/8")


@pytest.fixture(autouse=True)
def reading_clock() -> None:
    """Use the system clock, because a run waits for delays of hosts in real time."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """Yield the URL of a small, well-behaved site that a process of its own serves."""
    command = [sys.executable, "-m", "recrawl.testing.web", "--hosts", "1", "--pages", "3"]
    with subprocess.Popen(
        [*command, "--well-behaved"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        json.loads(process.stdout.readline())
        url = json.loads(process.stdout.readline())["url"]
        # The first answers take long, and slow hosts are left alone for longer.
        with urlopen(url) as answer:
            answer.read()
        with urlopen(f"{url}0") as answer:
            answer.read()
        yield url
        process.terminate()


def test_an_empty_folder_becomes_a_corpus_with_pages(
    recrawl: Recrawl, tmp_path: Path, site: str
) -> None:
    ran = recrawl("run", site, *ALLOWED, "--once", "--budget", "500/h", "--contact", "a@b.example")
    assert ran.code == 0
    assert ran.row["end"] == "pass over"
    assert ran.row["results"].get("new", 0) >= 3, ran.err
    assert "Created a corpus in the current folder, with a budget of 500 fetches/h" in ran.err
    assert "(a@b.example)" in ran.err
    files = list((tmp_path / "pages").rglob("*.md"))
    assert len(files) >= 3
    config = CorpusConfig.from_toml(tmp_path / "recrawl.toml")
    assert config.run.allow_networks == ("127.0.0.0/8",)
    assert config.run.contact == "a@b.example"
    assert [one.min_age for one in config.patterns] == [600.0]
    # What is saved holds for the next run; other options do not, and the command says so.
    ran = recrawl("run", "--for", "1s", "--no-json", "--contact", "c@d.example")
    assert ran.code == 0
    assert '(add the section if it is missing):\n    contact = "c@d.example"' in ran.err
    assert "Opening the corpus …" in ran.err
    assert "The time is over, after" in ran.out
    assert "recrawl changes" in ran.out
    # Nothing is due so soon, and that is not a failure.
    ran = recrawl("run", "--once")
    assert ran.code == 0
    assert "Nothing was due, so nothing was fetched" in ran.err
    assert ran.row["n_fetches"] == 0
    assert recrawl("run", "--dry-run").rows == []
    assert recrawl("run", "--budget", "3/h").code == 2
    assert recrawl("run", "--min-age", "1h").code == 2


def test_private_addresses_are_not_fetched_unless_allowed(recrawl: Recrawl, site: str) -> None:
    ran = recrawl("run", site, "--once")
    assert ran.code == 1
    assert "Allow it with: --allow-network 127.0.0.1/32" in " ".join(ran.err.split())
    assert not Path("recrawl.toml").exists()
    # Only this network may be reached, and nothing is held against the page.
    other = site.replace("127.0.0.1", "127.0.0.2")
    ran = recrawl("run", other, "--allow-network", "127.0.0.2/32", "--once")
    assert ran.code == 3
    assert recrawl("run", site, "--once").row["problems"]["refused_address"] == 1
    assert recrawl("explain", site).row["why"] != "disallowed"


def test_a_folder_with_other_files_stays_clean(recrawl: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("")
    ran = recrawl("run", "http://127.0.0.1:9/", "--for", "1s", *ALLOWED)
    assert ran.code == 0
    assert (tmp_path / "127.0.0.1-9/recrawl.toml").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["127.0.0.1-9", "other"]


def test_a_dry_run_contacts_nothing(recrawl: Recrawl, in_corpus: Recrawl) -> None:
    ran = in_corpus("run", "--dry-run")
    assert {row["why"] for row in ran.rows} == {"never fetched"}
    ran = recrawl("run", "--dry-run", "-C", "new", "example.com")
    assert ran.rows == [{"url": "https://example.com", "why": "given"}]
    assert not Path("new").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 1, "recrawl run https://example.com/"),
        (("ftp://example.com/",), 2, "is not the URL of a site"),
        (("example.com", "--to", "nowhere"), 1, "a sink is KIND:TARGET"),
        (("example.com", "--for", "soon"), 2, "is not a duration"),
    ],
)
def test_mistakes_are_explained(
    recrawl: Recrawl, arguments: tuple[str, ...], code: int, message: str
) -> None:
    ran = recrawl("run", *arguments)
    assert ran.code == code
    assert message in " ".join(ran.err.split())


def test_what_is_missing_is_named(recrawl: Recrawl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recrawl.cli.commands.run._NEEDED", ("aiohttp_is_missing",))
    ran = recrawl("run", "https://example.com/")
    assert ran.code == 1
    assert 'pip install "recrawl[run]"' in ran.err


def test_a_file_with_settings_is_not_overruled_in_silence(recrawl: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "recrawl.toml").write_text("# nothing is set\n")
    ran = recrawl("run", "https://example.com/", "--for", "1s")
    assert ran.code == 1
    assert "sets no budget" in ran.err
    ran = recrawl("run", "https://example.com/", "--budget", "5/h")
    assert ran.code == 2
    assert "have no effect" in " ".join(ran.err.split())
