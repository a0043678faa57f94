"""Tests of ``recrawl backup`` and ``recrawl restore``."""

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Recrawl


@pytest.fixture
def corpus(recrawl: Recrawl, tmp_path: Path) -> Path:
    assert recrawl("init", "corpus").code == 0
    assert recrawl("add", "https://a.example/", "-C", "corpus").code == 0
    return tmp_path / "corpus"


@pytest.mark.usefixtures("corpus")
def test_a_corpus_is_backed_up_checked_and_restored(recrawl: Recrawl) -> None:
    row = recrawl("backup", "backups", "-C", "corpus").row
    assert row["name"] == "000001"
    assert row["n_files_copied"] > 0
    text = recrawl("backup", "backups", "-C", "corpus", "--no-json").out
    assert "of which 0 were new" in text
    assert "2 backups" in text
    assert [row["is_intact"] for row in recrawl("backup", "--check", "backups").rows] == [True] * 2
    assert "All are intact." in recrawl("backup", "--check", "backups", "--no-json").out
    assert recrawl("restore", "backups", "restored").row["name"] == "000002"
    assert recrawl("stats", "-C", "restored").row["n_pages"] == 1
    again = recrawl("restore", "backups", "restored")
    assert again.code == 1
    assert "is not empty" in again.err


@pytest.mark.usefixtures("corpus")
def test_a_damaged_backup_exits_with_3(recrawl: Recrawl, tmp_path: Path) -> None:
    recrawl("backup", "backups", "-C", "corpus")
    one = next(path for path in (tmp_path / "backups/files").glob("*/*") if path.stat().st_size)
    one.write_bytes(b"something else")
    ran = recrawl("backup", "--check", "backups", "--no-json")
    assert ran.code == 3
    assert one.name in ran.out.replace("\n", "")
    assert "1 backup is damaged." in ran.out
    assert recrawl("restore", "backups", "restored").code == 1


@pytest.mark.usefixtures("corpus")
def test_lost_backups_are_not_taken_for_intact_ones(recrawl: Recrawl, tmp_path: Path) -> None:
    recrawl("backup", "backups", "-C", "corpus")
    for path in (tmp_path / "backups/backups").iterdir():
        path.unlink()
    ran = recrawl("backup", "--check", "backups")
    assert ran.code == 3
    assert "holds no backup" in ran.err


def test_wrong_folders_have_messages(recrawl: Recrawl, tmp_path: Path) -> None:
    ran = recrawl("backup", "backups", "-C", str(tmp_path))
    assert ran.code == 1
    assert "must be outside" in ran.err
    ran = recrawl("backup", "--check", "nothing")
    assert ran.code == 1
    assert "holds no backups of recrawl" in ran.err
