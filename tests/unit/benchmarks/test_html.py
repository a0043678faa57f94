"""The benchmark on real HTML reads truth from two git repositories."""

import os
import subprocess
from pathlib import Path

import pytest

from benchmarks import html
from benchmarks.html_histories import read_histories

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


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    for kind in ("snapshots", "versions"):
        subprocess.run(["git", "init", "-q", str(tmp_path / f"demo-{kind}")], check=True)
    for at in range(8):
        end = "ends well" if at < 5 else "ends in another way"
        body = f"<p>{at}{at}:15 o'clock, dear visitor{''.join(STORY)}<p>The story {end} for all."
        subject = "First record of" if at == 0 else "Record new changes of"
        message = f"{subject} Shop Terms\n\nX-source-document-location: https://shop.example/terms"
        snapshot = commit(tmp_path / "demo-snapshots", "Shop/Terms.html", body, message, at)
        if at in (0, 5):
            named = f"{subject} Shop Terms\n\nhttps://x/demo-snapshots/commit/{snapshot}"
            commit(tmp_path / "demo-versions", "Shop/Terms.md", f"The story {end}", named, at)
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


def test_without_a_folder_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RECRAWL_HTML", raising=False)
    assert "RECRAWL_HTML" in html.measure(["demo"])
