"""Snapshots on disk are complete or absent, wherever a crash interrupts the writing."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recrawl.errors import LedgerError, SnapshotError
from recrawl.ledger.snapshots import SavedSnapshot, SnapshotFolder


def save(snapshots: SnapshotFolder, position: int, label: str = "") -> SavedSnapshot:
    """Write a small snapshot that contains a folder, in two pieces, the second one first."""
    draft = snapshots.begin(position)
    draft.write(4, np.arange(4, 8, dtype=np.uint8))
    draft.write(0, bytes(range(4)))
    (draft.folder / "store").mkdir()
    (draft.folder / "store" / "CURRENT").write_text(f"store at {position}")
    return draft.commit(f"manifest of {position}{label}")


def contents(snapshots: SnapshotFolder) -> dict[int, tuple[str, bytes, str]]:
    """Return the contents of every snapshot by position, newest first."""
    return {
        saved.position: (
            saved.manifest(),
            saved.columns().tobytes(),
            (saved.folder / "store" / "CURRENT").read_text(),
        )
        for saved in snapshots.list_saved()
    }


def expected_contents(position: int, label: str = "") -> tuple[str, bytes, str]:
    return f"manifest of {position}{label}", bytes(range(8)), f"store at {position}"


def test_a_committed_snapshot_can_be_read(tmp_path: Path) -> None:
    snapshots = SnapshotFolder(tmp_path / "snapshots")
    assert snapshots.list_saved() == []
    saved = save(snapshots, 12345)
    assert saved.folder == tmp_path / "snapshots" / "00000000000000012345"
    assert snapshots.list_saved() == [saved]
    assert contents(SnapshotFolder(tmp_path / "snapshots")) == {12345: expected_contents(12345)}


def test_the_newest_snapshots_are_kept(tmp_path: Path) -> None:
    snapshots = SnapshotFolder(tmp_path, keep=3)
    for position in (5, 90, 1000, 20_000):
        save(snapshots, position)
    assert [saved.position for saved in snapshots.list_saved()] == [20_000, 1000, 90]
    assert len(list(tmp_path.iterdir())) == 3


def test_writing_to_columns_does_not_change_the_file(tmp_path: Path) -> None:
    saved = save(SnapshotFolder(tmp_path), 1)
    columns = saved.columns()
    assert type(columns) is np.ndarray
    assert columns.flags.writeable
    columns[:] = 0
    assert saved.columns().tolist() == list(range(8))


def test_mapped_columns_stay_valid_when_the_snapshot_is_removed(tmp_path: Path) -> None:
    snapshots = SnapshotFolder(tmp_path, keep=1)
    columns = save(snapshots, 1).columns()
    save(snapshots, 2)
    assert columns.tolist() == list(range(8))
    assert [saved.position for saved in snapshots.list_saved()] == [2]


def test_a_snapshot_may_have_no_columns(tmp_path: Path) -> None:
    draft = SnapshotFolder(tmp_path).begin(0)
    draft.write(0, b"")
    saved = draft.commit("{}")
    assert saved.columns().size == 0
    assert saved.columns().dtype == np.uint8


def test_an_abandoned_draft_leaves_no_files(tmp_path: Path) -> None:
    snapshots = SnapshotFolder(tmp_path)
    draft = snapshots.begin(3)
    draft.write(0, b"half")
    draft.abandon()
    draft.abandon()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(LedgerError, match="at 3 is already committed or abandoned"):
        draft.write(0, b"more")
    with pytest.raises(LedgerError, match="at 3 is already committed or abandoned"):
        draft.commit("{}")


def test_an_exception_in_the_with_block_abandons_the_draft(tmp_path: Path) -> None:
    snapshots = SnapshotFolder(tmp_path)
    with pytest.raises(ZeroDivisionError), snapshots.begin(3):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    with snapshots.begin(4) as draft:
        draft.commit("{}")
    assert [saved.position for saved in snapshots.list_saved()] == [4]


def test_two_drafts_at_once_are_refused(tmp_path: Path) -> None:
    snapshots = SnapshotFolder(tmp_path)
    first = snapshots.begin(3)
    with pytest.raises(LedgerError, match="another snapshot is being written"):
        snapshots.begin(4)
    first.abandon()
    save(snapshots, 4)


def test_a_snapshot_older_than_the_newest_is_refused(tmp_path: Path) -> None:
    snapshots = SnapshotFolder(tmp_path)
    save(snapshots, 10)
    with pytest.raises(ValueError, match="position must be at least 10, got 9"):
        snapshots.begin(9)
    with pytest.raises(ValueError, match="keep must be at least 1, got 0"):
        SnapshotFolder(tmp_path, keep=0)


def test_a_second_snapshot_of_one_position_replaces_the_first(tmp_path: Path) -> None:
    snapshots = SnapshotFolder(tmp_path)
    save(snapshots, 1)
    for label in ("", " again", " for the third time"):
        save(snapshots, 7, label)
    assert contents(snapshots) == {
        7: expected_contents(7, " for the third time"),
        1: expected_contents(1),
    }
    assert len(list(tmp_path.iterdir())) == 2


def test_a_discarded_snapshot_does_not_count_among_those_kept(
    tmp_path: Path,
) -> None:
    snapshots = SnapshotFolder(tmp_path)
    for position in (1, 2):
        save(snapshots, position)
    snapshots.discard(snapshots.list_saved()[0])
    save(snapshots, 3)
    assert list(contents(snapshots)) == [3, 1]


def test_unrelated_files_are_ignored_and_kept(tmp_path: Path) -> None:
    for name in ("notes.txt", "123", "00000000000000000001.old"):
        (tmp_path / name).write_text("mine")
    snapshots = SnapshotFolder(tmp_path, keep=1)
    save(snapshots, 1)
    save(snapshots, 2)
    assert [saved.position for saved in snapshots.list_saved()] == [2]
    assert (tmp_path / "00000000000000000001.old").exists()


def test_a_missing_file_raises_snapshot_error(tmp_path: Path) -> None:
    saved = save(SnapshotFolder(tmp_path), 1)
    for name, read in (("manifest.json", saved.manifest), ("columns", saved.columns)):
        (saved.folder / name).unlink()
        with pytest.raises(SnapshotError, match=f"cannot be read.*{name}"):
            read()


def test_a_failed_write_raises_ledger_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshots = SnapshotFolder(tmp_path)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    for name in ("pwrite", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            with pytest.raises(
                LedgerError, match=r"(at 5 cannot|no snapshot can) be written.*No space left"
            ):
                save(snapshots, 5)
        assert not list(tmp_path.glob("temporary-*"))
        save(snapshots, 5)
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerError, match="no snapshots can be found"):
        SnapshotFolder(tmp_path / "file" / "below").begin(1)


class Cut(BaseException):
    """The process dies here."""


# Functions of `os` that change the disk.
STEPS = ("open", "mkdir", "pwrite", "fsync", "rename", "unlink", "rmdir", "chmod")


def quick(file: int) -> None:
    """Skip the sync: these tests simulate a crash of the process, not of the machine."""


@contextmanager
def cut_off_at(step: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Make the given change of the disk, counted from 0, and all later ones fail."""
    done: list[str] = []

    def counted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if len(done) >= step:
                raise Cut(name)
            done.append(name)
            return call(*args, **kwargs)

        return wrapper

    with monkeypatch.context() as patch:
        for name in STEPS:
            call = quick if name == "fsync" else getattr(os, name)
            patch.setattr(os, name, counted(name, call))
        patch.setattr(Path, "write_text", counted("write_text", Path.write_text))
        yield done


def run_until_cut_off(
    tmp_path: Path, keep: int, before: list[int], position: int, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[list[str], SnapshotFolder]]:
    """Interrupt one more snapshot after each number of steps; yield the steps and the folder."""
    for step in range(1000):
        folder = tmp_path / str(step)
        for old in before:
            save(SnapshotFolder(folder, keep), old)
        with cut_off_at(step, monkeypatch) as done:
            try:
                save(SnapshotFolder(folder, keep), position, " new")
                was_cut = False
            except Cut:
                was_cut = True
        yield done, SnapshotFolder(folder, keep)
        shutil.rmtree(folder, ignore_errors=True)
        if not was_cut:
            return


@pytest.mark.parametrize(
    ("keep", "before", "position", "after"),
    [
        (2, [], 9, {9: expected_contents(9, " new")}),
        (1, [3], 9, {9: expected_contents(9, " new")}),
        (2, [3, 5], 9, {9: expected_contents(9, " new"), 5: expected_contents(5)}),
        (2, [3, 9], 9, {9: expected_contents(9, " new"), 3: expected_contents(3)}),
        (1, [9], 9, {9: expected_contents(9, " new")}),
    ],
)
def test_a_crash_at_any_step_leaves_the_old_or_the_new_snapshots(
    keep: int,
    before: list[int],
    position: int,
    after: dict[int, tuple[str, bytes, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "fsync", quick)
    old = {at: expected_contents(at) for at in reversed(before)}
    seen = []
    for done, snapshots in run_until_cut_off(tmp_path, keep, before, position, monkeypatch):
        found = contents(snapshots)
        # Older snapshots beyond the limit may still exist; they are complete.
        kept = dict(list(found.items())[:keep])
        assert kept in (old, after), done
        seen.append(kept)
        # The next writer removes incomplete snapshots.
        save(snapshots, position + 1, " later")
        assert next(iter(contents(snapshots).values())) == expected_contents(position + 1, " later")
        assert len(list(snapshots.folder.iterdir())) == min(keep, len(kept) + 1)
    assert seen[0] == old
    assert seen[-1] == after
    assert seen == sorted(seen, key=lambda kept: kept == after)  # once new, always new


def test_all_files_are_synced_before_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order of syncs is: files, the folders that contain them, then the rename."""
    steps: list[str] = []
    fsync, rename = os.fsync, os.rename

    def watched_fsync(file: int) -> None:
        steps.append(Path(os.readlink(f"/proc/self/fd/{file}")).name)
        fsync(file)

    def watched_rename(source: Path, target: Path, **_: object) -> None:
        steps.append(f"rename to {Path(target).name}")
        rename(source, target)

    snapshots = SnapshotFolder(tmp_path / "snapshots", keep=1)
    save(snapshots, 1)
    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "rename", watched_rename)
    save(snapshots, 2)
    assert steps.pop(0) == tmp_path.name  # the entry of the folder itself
    draft = next(name for name in steps if name.startswith("temporary-"))
    aside = steps[-2].removeprefix("rename to ")
    assert sorted(steps[:4]) == sorted(["CURRENT", "store", "columns", "manifest.json"])
    assert steps.index("CURRENT") < steps.index("store")
    assert steps[4:] == [
        draft,
        "rename to 00000000000000000002",
        "snapshots",
        f"rename to {aside}",
        "snapshots",
    ]
