"""Snapshots on disk: whole or not there, wherever writing is cut off."""

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
    """Write a small snapshot with a folder in it, in two pieces, the later one first."""
    draft = snapshots.begin(position)
    draft.write(4, np.arange(4, 8, dtype=np.uint8))
    draft.write(0, bytes(range(4)))
    (draft.folder / "store").mkdir()
    (draft.folder / "store" / "CURRENT").write_text(f"store at {position}")
    return draft.commit(f"manifest of {position}{label}")


def contents(snapshots: SnapshotFolder) -> dict[int, tuple[str, bytes, str]]:
    """Return everything that counts, by position, newest first."""
    return {
        saved.position: (
            saved.manifest(),
            saved.columns().tobytes(),
            (saved.folder / "store" / "CURRENT").read_text(),
        )
        for saved in snapshots.saved()
    }


def of(position: int, label: str = "") -> tuple[str, bytes, str]:
    return f"manifest of {position}{label}", bytes(range(8)), f"store at {position}"


def test_what_is_committed_is_there(tmp_path: Path) -> None:
    snapshots = SnapshotFolder(tmp_path / "snapshots")
    assert snapshots.saved() == []
    saved = save(snapshots, 12345)
    assert saved.folder == tmp_path / "snapshots" / "00000000000000012345"
    assert snapshots.saved() == [saved]
    assert contents(SnapshotFolder(tmp_path / "snapshots")) == {12345: of(12345)}


def test_so_many_are_kept_and_the_newest_comes_first(tmp_path: Path) -> None:
    snapshots = SnapshotFolder(tmp_path, keep=3)
    for position in (5, 90, 1000, 20_000):
        save(snapshots, position)
    assert [saved.position for saved in snapshots.saved()] == [20_000, 1000, 90]
    assert len(list(tmp_path.iterdir())) == 3


def test_columns_may_be_written_to_and_the_file_stays_as_it_is(tmp_path: Path) -> None:
    saved = save(SnapshotFolder(tmp_path), 1)
    columns = saved.columns()
    assert type(columns) is np.ndarray
    assert columns.flags.writeable
    columns[:] = 0
    assert saved.columns().tolist() == list(range(8))


def test_columns_that_are_mapped_outlive_the_snapshot(tmp_path: Path) -> None:
    snapshots = SnapshotFolder(tmp_path, keep=1)
    columns = save(snapshots, 1).columns()
    save(snapshots, 2)
    assert columns.tolist() == list(range(8))
    assert [saved.position for saved in snapshots.saved()] == [2]


def test_a_snapshot_may_have_no_columns(tmp_path: Path) -> None:
    draft = SnapshotFolder(tmp_path).begin(0)
    draft.write(0, b"")
    saved = draft.commit("{}")
    assert saved.columns().size == 0
    assert saved.columns().dtype == np.uint8


def test_a_draft_that_is_abandoned_leaves_nothing(tmp_path: Path) -> None:
    snapshots = SnapshotFolder(tmp_path)
    draft = snapshots.begin(3)
    draft.write(0, b"half")
    draft.abandon()
    draft.abandon()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(LedgerError, match="at 3 is committed or abandoned"):
        draft.write(0, b"more")
    with pytest.raises(LedgerError, match="at 3 is committed or abandoned"):
        draft.commit("{}")


def test_a_draft_is_abandoned_when_its_block_is_left_early(tmp_path: Path) -> None:
    snapshots = SnapshotFolder(tmp_path)
    with pytest.raises(ZeroDivisionError), snapshots.begin(3):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    with snapshots.begin(4) as draft:
        draft.commit("{}")
    assert [saved.position for saved in snapshots.saved()] == [4]


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


def test_at_one_position_the_later_snapshot_counts(tmp_path: Path) -> None:
    snapshots = SnapshotFolder(tmp_path)
    save(snapshots, 1)
    for label in ("", " again", " for the third time"):
        save(snapshots, 7, label)
    assert contents(snapshots) == {7: of(7, " for the third time"), 1: of(1)}
    assert len(list(tmp_path.iterdir())) == 2


def test_a_broken_snapshot_that_is_discarded_does_not_count_among_those_kept(
    tmp_path: Path,
) -> None:
    snapshots = SnapshotFolder(tmp_path)
    for position in (1, 2):
        save(snapshots, position)
    snapshots.discard(snapshots.saved()[0])
    save(snapshots, 3)
    assert list(contents(snapshots)) == [3, 1]


def test_other_files_are_neither_taken_for_snapshots_nor_removed(tmp_path: Path) -> None:
    for name in ("notes.txt", "123", "00000000000000000001.old"):
        (tmp_path / name).write_text("mine")
    snapshots = SnapshotFolder(tmp_path, keep=1)
    save(snapshots, 1)
    save(snapshots, 2)
    assert [saved.position for saved in snapshots.saved()] == [2]
    assert (tmp_path / "00000000000000000001.old").exists()


def test_a_snapshot_with_files_missing_is_broken(tmp_path: Path) -> None:
    saved = save(SnapshotFolder(tmp_path), 1)
    for name, read in (("manifest.json", saved.manifest), ("columns", saved.columns)):
        (saved.folder / name).unlink()
        with pytest.raises(SnapshotError, match=f"cannot be read.*{name}"):
            read()


def test_a_disk_that_cannot_be_written_is_a_ledger_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshots = SnapshotFolder(tmp_path)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    for name in ("pwrite", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            with pytest.raises(LedgerError, match=r"at 5 cannot be written.*No space left"):
                save(snapshots, 5)
        assert not list(tmp_path.glob("temporary-*"))
        save(snapshots, 5)
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerError, match="no snapshots can be found"):
        SnapshotFolder(tmp_path / "file" / "below").begin(1)


class Cut(BaseException):
    """The process dies here."""


# Everything that changes the disk, as Python's own library calls it.
STEPS = ("open", "mkdir", "pwrite", "fsync", "rename", "unlink", "rmdir", "chmod")


def quick(file: int) -> None:
    """Bring nothing to disk: what dies here is the process, not the machine."""


@contextmanager
def cut_off_at(step: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Let the so-manieth change of the disk not happen, nor any later one."""
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
    """Yield what is on disk after each number of steps of one more snapshot."""
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
        (2, [], 9, {9: of(9, " new")}),
        (1, [3], 9, {9: of(9, " new")}),
        (2, [3, 5], 9, {9: of(9, " new"), 5: of(5)}),
        (2, [3, 9], 9, {9: of(9, " new"), 3: of(3)}),
        (1, [9], 9, {9: of(9, " new")}),
    ],
)
def test_cut_off_at_any_step_there_are_the_snapshots_of_before_or_of_after(
    keep: int,
    before: list[int],
    position: int,
    after: dict[int, tuple[str, bytes, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "fsync", quick)
    old = {at: of(at) for at in reversed(before)}
    seen = []
    for done, snapshots in run_until_cut_off(tmp_path, keep, before, position, monkeypatch):
        found = contents(snapshots)
        # Those beyond keep may still be there for a moment: they are whole, and older.
        kept = dict(list(found.items())[:keep])
        assert kept in (old, after), done
        seen.append(kept)
        # The next writer is not disturbed by what was left, and removes it.
        save(snapshots, position + 1, " later")
        assert next(iter(contents(snapshots).values())) == of(position + 1, " later")
        assert len(list(snapshots.folder.iterdir())) == min(keep, len(kept) + 1)
    assert seen[0] == old
    assert seen[-1] == after
    assert seen == sorted(seen, key=lambda kept: kept == after)  # and never goes back


def test_everything_is_on_disk_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut keeps what was synced: files, then the folders that name them, then the name."""
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
