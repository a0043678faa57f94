"""A file is replaced completely or not at all."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from recrawl.atomic_files import create_folder, hold_lock, replace_file


def test_a_file_has_its_new_content_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with replace_file(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_after_an_error_the_old_content_is_left_and_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), replace_file(path) as file:
        file.writelines([b"half", None])  # type: ignore[list-item]
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_stay(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o640)
    with replace_file(path) as file:
        file.write(b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_bytes(b"old")
    link.symlink_to(path)
    with replace_file(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"


def test_a_durable_write_reaches_the_disk_before_the_file_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def watched_fsync(file: int) -> None:
        steps.append("sync")
        fsync(file)

    def watched_replace(old: str, new: str) -> None:
        steps.append("name")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_replace)
    with replace_file(path, is_durable=True) as file:
        file.write(b"content")
    assert steps == ["sync", "name", "sync"]


def test_the_entry_of_every_new_folder_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def watched_fsync(file: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{file}"))
        fsync(file)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    folder = tmp_path / "a" / "b" / "c"
    create_folder(folder)
    assert folder.is_dir()
    assert synced == [str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a" / "b")]
    synced.clear()
    create_folder(folder)  # the process that created it may have died before its sync
    assert synced == [str(tmp_path / "a" / "b")]


# ---------------------------------------------------------------------- planted files and links


def plant(monkeypatch: pytest.MonkeyPatch, names: list[str]) -> None:
    """Make the random names of drafts the given ones."""
    left = iter(names)
    monkeypatch.setattr("recrawl.atomic_files.secrets.token_hex", lambda _: next(left))


@pytest.mark.parametrize("what", ["link", "dangling link", "file", "folder"])
def test_a_planted_draft_is_neither_followed_nor_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    victim, planted = tmp_path / "victim", tmp_path / "out" / ".file.guessed.part"
    planted.parent.mkdir()
    victim.write_bytes(b"precious")
    if what == "link":
        planted.symlink_to(victim)
    elif what == "dangling link":
        planted.symlink_to(tmp_path / "created")
    elif what == "file":
        os.link(victim, planted)
    else:
        planted.mkdir()
    plant(monkeypatch, ["guessed", "free"])
    path = planted.parent / "file"
    with replace_file(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"
    assert not path.is_symlink()
    assert victim.read_bytes() == b"precious"
    assert not (tmp_path / "created").exists()
    assert {found.name for found in planted.parent.iterdir()} == {"file", planted.name}


def test_the_name_of_a_draft_cannot_be_guessed(tmp_path: Path) -> None:
    names = set()
    for _ in range(20):
        with replace_file(tmp_path / "file"):
            names |= {path.name for path in tmp_path.glob(".file.*.part")}
    assert len(names) == 20
    assert min(map(len, names)) >= len(".file..part") + 16


def test_after_many_planted_names_it_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recrawl.atomic_files.secrets.token_hex", lambda _: "guessed")
    (tmp_path / ".file.guessed.part").write_bytes(b"planted")
    with pytest.raises(FileExistsError), replace_file(tmp_path / "file"):
        pass
    assert not (tmp_path / "file").exists()


def test_a_draft_is_never_more_readable_than_its_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"secret")
    path.chmod(0o600)
    with replace_file(path) as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600


def test_drafts_of_killed_processes_are_removed_later(tmp_path: Path) -> None:
    old, young = tmp_path / ".file.00.part", tmp_path / ".file.11.part"
    other = tmp_path / ".other.00.part"
    for path in (old, young, other):
        path.write_bytes(b"half")
    for path in (old, other):
        os.utime(path, (1, 1))
    with replace_file(tmp_path / "file") as file:
        file.write(b"whole")
    assert {path.name for path in tmp_path.iterdir()} == {"file", young.name, other.name}


def test_a_lock_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / ".lock").symlink_to(tmp_path / "created")
    with pytest.raises(OSError, match="link"), hold_lock(tmp_path / ".lock"):
        pass
    assert not (tmp_path / "created").exists()


# Everything that creates files with Python, in a process that records how they are opened.
SCRIPT = """
import json, os, sys
created = []

def record(event, arguments):
    # A file number instead of a name is one that `os.open` has already recorded.
    if event == "open" and not isinstance(arguments[0], int) and arguments[2] & os.O_CREAT:
        created.append((os.path.abspath(os.fsdecode(arguments[0])), arguments[2]))

sys.addaudithook(record)
from click.testing import CliRunner
from recrawl.cli import main

def run(*arguments, stdin=""):
    result = CliRunner().invoke(main, arguments, input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, (arguments, result.output)

os.chdir(sys.argv[1])
run("init", "corpus", "--budget", "100/h")
os.chdir("corpus")
run("add", "https://a.example/")
run("report", stdin=json.dumps({"url": "https://a.example/", "status": 200, "digest": "1"}))
run("changes", "--consumer", "nightly")
run("set", "--budget", "200/h")
run("export", "-o", "pages.csv")
run("export", "-o", "pages.parquet")
run("import", "pages.csv")
import recrawl
with recrawl.open(".") as corpus:
    corpus.snapshot()
print(json.dumps([os.path.abspath(sys.argv[1]), created]))
"""


def test_files_in_a_corpus_are_created_exclusively(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    root, created = json.loads(done.stdout.splitlines()[-1])
    own = [(Path(path), flags) for path, flags in created if path.startswith(root)]
    kinds = {path.name.split(".")[1] for path, _ in own if path.suffix == ".part"}
    assert kinds >= {"FORMAT", "nightly", "pages", "recrawl"}
    for path, flags in own:
        parts = path.relative_to(root).parts
        if path.name == ".lock":
            assert flags & os.O_NOFOLLOW, path
        elif not any(part.startswith((".", "temporary-")) for part in parts[:-1]):
            # Such folders have random names of their own, and only their owner can enter them.
            assert flags & os.O_EXCL, path  # which does not follow links either
