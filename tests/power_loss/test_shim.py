"""The shim records every way to change a file or a folder, or refuses."""

import random
from pathlib import Path

import pytest

from tests.power_loss.disk import Survival
from tests.power_loss.folders import assert_equal_folders, disk_after
from tests.power_loss.strace_calls import count_seen
from tests.power_loss.trace import Call, read_trace, run_traced

ODD_CALLS = """
import os, sys
root = sys.argv[1]
os.chdir(root)
at = os.open(".", os.O_RDONLY)
file = os.open("a", os.O_WRONLY | os.O_CREAT, dir_fd=at)
os.writev(file, [b"one", b"two"])
os.pwritev(file, [b"TWO"], 3)
again = os.dup(file)
os.write(again, b"three")
os.ftruncate(file, 9)
os.posix_fallocate(file, 0, 20)
os.mkdir("folder", dir_fd=at)
os.rename("a", "folder/b", src_dir_fd=at, dst_dir_fd=at)
os.write(file, b"after the rename")
os.link("folder/b", "c", src_dir_fd=at, dst_dir_fd=at)
os.unlink("folder/b", dir_fd=at)
nameless = os.open("folder", os.O_WRONLY | os.O_TMPFILE)
os.write(nameless, b"nameless")
os.link(f"/proc/self/fd/{nameless}", "named", dst_dir_fd=at, follow_symlinks=True)
other = os.open("d", os.O_RDWR | os.O_CREAT)
os.copy_file_range(os.open("c", os.O_RDONLY), other, 10)
os.sendfile(other, os.open("named", os.O_RDONLY), 0, 8)
os.truncate("d", 12)
os.open("d", os.O_WRONLY | os.O_APPEND)
with open("d", "ab") as stream:
    stream.write(b"appended")
with open("e", "w") as stream:
    stream.write("old")
with open("e", "w") as stream:
    stream.write("new")
os.rmdir("folder", dir_fd=at)
os.fdatasync(other)
os.fsync(at)
if len(sys.argv) > 2:
    exec(sys.argv[2])
"""


def run_odd_calls(shim: Path, folder: Path, *more: str) -> list[Call]:
    root = folder / "disk"
    root.mkdir()
    run_traced(shim, root, folder / "trace", ["-c", ODD_CALLS, str(root), *more])
    return list(read_trace(folder / "trace"))


def test_the_shim_follows_descriptors_links_and_folders(shim: Path, tmp_path: Path) -> None:
    calls = run_odd_calls(shim, tmp_path)
    disk = disk_after(calls, tmp_path)
    disk.write_to(tmp_path / "rebuilt", Survival.EVERYTHING, random.Random(0))
    assert sorted(path.name for path in (tmp_path / "rebuilt").iterdir()) == [
        "c",
        "d",
        "e",
        "named",
    ]
    assert_equal_folders(tmp_path / "disk", tmp_path / "rebuilt")
    disk.write_to(tmp_path / "lost", Survival.NOTHING, random.Random(0))
    content = {path.name: path.read_bytes() for path in (tmp_path / "lost").iterdir()}
    # The folder was synced with its names, and of the files only one.
    assert content == {
        "c": b"",
        "d": (tmp_path / "disk" / "d").read_bytes(),
        "e": b"",
        "named": b"",
    }


@pytest.mark.parametrize(
    "call",
    [
        "import mmap; mmap.mmap(os.open('e', os.O_RDWR), 3)",
        "os.symlink('e', 'link')",
        "os.rename('e', root + '-outside')",
    ],
)
def test_a_call_that_cannot_be_followed_is_refused(call: str, shim: Path, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="cannot follow"):
        run_odd_calls(shim, tmp_path, call)


def test_a_failing_program_is_an_error(shim: Path, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="the traced program failed"):
        run_odd_calls(shim, tmp_path, "raise ValueError")


def test_strace_lines_of_unknown_calls_are_errors(tmp_path: Path) -> None:
    (tmp_path / "strace.1").write_text(f'setxattr("{tmp_path}/file", "user.x", "y", 1, 0) = 0\n')
    with pytest.raises(AssertionError, match="not known to be harmless"):
        count_seen([tmp_path / "strace.1"], tmp_path)
