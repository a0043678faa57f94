"""The rebuilt disk keeps what was synced, and any part of the rest."""

import random
from collections.abc import Sequence
from pathlib import Path

from tests.power_loss.disk import Disk, Survival
from tests.power_loss.trace import Call, Op


def survivors(tmp_path: Path, calls: Sequence[Call], survival: Survival) -> set[str]:
    """Return what a power cut may leave: each result as text, for a hundred seeds."""
    (tmp_path / "empty").mkdir()
    disk = Disk(tmp_path / "empty")
    disk.adopt_root(1)
    for call in calls:
        disk.follow(call)
    found = set()
    for seed in range(100):
        target = tmp_path / f"seed-{seed}"
        disk.write_to(target, survival, random.Random(seed))
        files = sorted(path for path in target.rglob("*") if path.is_file())
        found.add(" ".join(f"{path.name}={path.read_text()}" for path in files))
    return found


def call(op: Op, *number: int, name: str = "", second: str = "", data: bytes = b"") -> Call:
    first, second_number, third, fourth = (*number, 0, 0, 0, 0)[:4]
    return Call(op, (first, second_number, third, fourth), name, second, data, 0)


REPLACED = [
    call(Op.CREATE, 1, 2, name="f"),
    call(Op.WRITE, 2, 0, data=b"old"),
    call(Op.SYNC, 2),
    call(Op.SYNC, 1),
    call(Op.CREATE, 1, 3, name="draft"),
    call(Op.WRITE, 3, 0, data=b"new"),
]


def test_a_rename_without_a_sync_of_the_file_may_leave_an_empty_one(tmp_path: Path) -> None:
    calls = [*REPLACED, call(Op.RENAME, 1, 1, name="draft", second="f"), call(Op.SYNC, 1)]
    assert survivors(tmp_path, calls, Survival.TORN) == {"f=", "f=new", "f=\0\0\0"}


def test_a_rename_without_a_sync_of_the_folder_may_be_lost(tmp_path: Path) -> None:
    calls = [*REPLACED, call(Op.SYNC, 3), call(Op.RENAME, 1, 1, name="draft", second="f")]
    assert survivors(tmp_path, calls, Survival.TORN) == {
        "f=old",
        "draft=new f=old",
        "f=new",
    }


def test_a_rename_with_both_syncs_is_safe(tmp_path: Path) -> None:
    calls = [
        *REPLACED,
        call(Op.SYNC, 3),
        call(Op.RENAME, 1, 1, name="draft", second="f"),
        call(Op.SYNC, 1),
    ]
    for survival in Survival:
        scratch = tmp_path / survival.name
        scratch.mkdir()
        assert survivors(scratch, calls, survival) == {"f=new"}


def test_writes_are_kept_in_any_order_until_a_sync(tmp_path: Path) -> None:
    calls = [
        call(Op.CREATE, 1, 2, name="f"),
        call(Op.SYNC, 1),
        call(Op.WRITE, 2, 0, data=b"a"),
        call(Op.SYNC, 2),
        call(Op.WRITE, 2, 0, data=b"b"),
        call(Op.WRITE, 2, 0, data=b"c"),
    ]
    assert survivors(tmp_path, calls, Survival.TORN) == {"f=a", "f=b", "f=c"}
    scratch = tmp_path / "prefix"
    scratch.mkdir()
    assert survivors(scratch, calls, Survival.PREFIX) == {"f=a", "f=b", "f=c"}


def test_a_new_folder_without_a_sync_of_its_parent_takes_synced_files_with_it(
    tmp_path: Path,
) -> None:
    calls = [
        call(Op.CREATE, 1, 2, 1, name="folder"),
        call(Op.CREATE, 2, 3, name="f"),
        call(Op.WRITE, 3, 0, data=b"a"),
        call(Op.SYNC, 3),
        call(Op.SYNC, 2),
    ]
    assert survivors(tmp_path, calls, Survival.NOTHING) == {""}
    scratch = tmp_path / "torn"
    scratch.mkdir()
    assert survivors(scratch, calls, Survival.TORN) == {"", "f=a"}
