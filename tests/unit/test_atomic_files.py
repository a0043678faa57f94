"""A file is replaced completely or not at all."""

import os
import stat
from pathlib import Path

import pytest

from recrawl.atomic_files import create_folder, replace_file


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
