"""Rebuild disks from traces, and compare folders."""

import filecmp
from collections.abc import Sequence
from pathlib import Path

from tests.power_loss.disk import Disk
from tests.power_loss.trace import Call

__all__ = ["assert_equal_folders", "disk_after"]


def disk_after(calls: Sequence[Call], folder: Path) -> Disk:
    """Return the disk after all calls of a run in ``folder/disk`` that began with it empty."""
    empty = folder / "empty"
    empty.mkdir()
    disk = Disk(empty)
    disk.adopt_root((folder / "disk").stat().st_ino)
    for call in calls:
        disk.follow(call)
    return disk


def assert_equal_folders(first: Path, second: Path) -> None:
    compared = filecmp.dircmp(first, second)
    assert not compared.left_only + compared.right_only
    _, different, failed = filecmp.cmpfiles(first, second, compared.common_files, shallow=False)
    assert not different + failed
    for name in compared.common_dirs:
        assert_equal_folders(first / name, second / name)
