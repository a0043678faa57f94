"""The benchmark on real HTML reads truth from two git repositories."""

import os
import subprocess
from pathlib import Path

import pytest

from benchmarks import html
from benchmarks.html_histories import read_histories

SUBJECT = "Record new changes of Shop Terms"
STORY = [f"<p>Paragraph {word} says something that matters to you." for word in "abcdefghijkl"]


def commit(repository: Path, path: str, text: str, message: str, at: int) -> str:
    file = repository / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    moment = f"{1_700_000_000 + at * 40_000} +0000"
    environment = os.environ | {
        "GIT_AUTHOR_DATE": moment,
        "GIT_COMMITTER_DATE": moment,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    names = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(repository), *names]
    subprocess.run([*command, "add", "-A"], check=True, env=environment)
    subprocess.run([*command, "commit", "-qm", message], check=True, env=environment)
    found = subprocess.run([*command, "rev-parse", "HEAD"], check=True, capture_output=True)
    return found.stdout.decode().strip()


def record_page(folder: Path, service: str) -> None:
    """Record eight answers of a page, of which the sixth changed the text."""
    for at in range(8):
        end = "ends well" if at < 5 else "ends in another way"
        body = f"<p>{at}{at}:15 o'clock, dear visitor{''.join(STORY)}<p>The story {end} for all."
        subject = "First record of" if at == 0 else "Record new changes of"
        address = f"https://{service.lower()}.example/terms"
        message = f"{subject} {service} Terms\n\nX-source-document-location: {address}"
        snapshot = commit(folder / "demo-snapshots", f"{service}/Terms.html", body, message, at)
        if at in (0, 5):
            named = f"{subject} {service} Terms\n\nhttps://x/demo-snapshots/commit/{snapshot}"
            commit(folder / "demo-versions", f"{service}/Terms.md", f"The story {end}", named, at)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    for kind in ("snapshots", "versions"):
        subprocess.run(["git", "init", "-q", str(tmp_path / f"demo-{kind}")], check=True)
    record_page(tmp_path, "Shop")
    return tmp_path


def test_a_text_change_is_found_and_a_clock_is_not_one(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECRAWL_HTML", str(archive))
    monkeypatch.delenv("RECRAWL_HTML_CACHE", raising=False)
    history = next(iter(read_histories(archive, "demo")))
    assert [answer.truth for answer in history.answers] == [
        "first",
        *["none"] * 4,
        "text",
        *["none"] * 2,
    ]
    found = html.measure(["demo"], 3)["demo"]
    assert found["rules"]["all rules"]["missed"] == 0
    assert found["rules"]["all rules"]["verdicts_of_unchanged"]["UNCHANGED"] >= 4
    assert found["rules"]["without any"]["false"] == 1
    assert 0 < found["share_to_embed"] < 0.5
    assert found["runs"] == found["runs_chosen"] == 1
    # Without any main text all text is compared, and the change is found as well.
    assert found["by_main_share"]["2.0"]["missed"] == 0


def test_no_run_begins_after_the_time_limit(
    archive: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RECRAWL_HTML", str(archive))
    cache = archive / "observations"
    cache.mkdir()
    monkeypatch.setenv("RECRAWL_HTML_CACHE", str(cache))
    record_page(archive, "Store")
    found = html.measure(["demo"], whole=True, minutes=0)["demo"]
    assert (found["runs"], found["runs_chosen"]) == (1, 2)
    assert "1 of 2 runs, 8 answers" in capsys.readouterr().err
    assert len(list(cache.iterdir())) == 2  # the histories and one run
    again = html.measure(["demo"], whole=True, minutes=60)["demo"]
    assert (again["runs"], again["rules"]["all rules"]["answers"]) == (2, 14)
    assert len(list(cache.iterdir())) == 3
    table = html.as_markdown({"demo": again})
    assert "| demo | 14 | 2 | 0.0 % | 0.0 % of 2 | " in table
    assert "| main text from 2.0 of all words | 0.0 % | " in table


def test_a_change_that_the_page_does_not_show_is_reported_apart(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive selects a heading that the page always had, and then moves it."""
    monkeypatch.setenv("RECRAWL_HTML", str(archive))
    monkeypatch.delenv("RECRAWL_HTML_CACHE", raising=False)
    texts = {
        8: "Dear visitor, the story _ends_ in another way",
        9: "The story ends in another way, dear visitor",
    }
    for at in (8, 9, 10):
        end = "The story ends in another way for all."
        body = f"<p>{at}{at}:15 o'clock, dear visitor{''.join(STORY)}<p>{end}"
        snapshot = commit(archive / "demo-snapshots", "Shop/Terms.html", body, SUBJECT, at)
        if at in texts:
            named = f"{SUBJECT}\n\nhttps://x/demo-snapshots/commit/{snapshot}"
            commit(archive / "demo-versions", "Shop/Terms.md", texts[at], named, at)
    found = html.measure(["demo"], whole=True)["demo"]["rules"]["all rules"]
    assert (found["text_changes"], found["text_changes_in_page"]) == (3, 1)
    assert found["missed_in_page"] == 0
    assert sum(found["moved"].values()) == sum(found["elsewhere"].values()) == 1


def test_without_a_folder_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RECRAWL_HTML", raising=False)
    assert "RECRAWL_HTML" in html.measure(["demo"])
