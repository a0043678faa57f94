"""Compare what strace saw of a program with what the shim recorded."""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.power_loss.trace import Call, Op

__all__ = ["count_recorded", "count_seen"]

_LINE = re.compile(r"^(?P<name>\w+)\((?P<arguments>.*)\)\s*= (?P<result>-?\w+)")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
# Calls that change neither bytes nor names.  Permissions and times are left out on purpose: no
# file of a corpus depends on them.
_HARMLESS = {
    "access", "chdir", "chmod", "close", "dup", "dup2", "dup3", "execve", "faccessat",
    "faccessat2", "fadvise64", "fchmod", "fchmodat", "fcntl", "flock", "fstat", "fstatfs",
    "futimens", "getcwd", "getdents64", "getxattr", "fgetxattr", "inotify_add_watch", "ioctl",
    "lgetxattr", "listxattr", "flistxattr", "llistxattr", "lseek", "lstat", "munmap",
    "name_to_handle_at", "newfstatat", "open_by_handle_at", "pread64", "preadv", "preadv2",
    "read", "readahead", "readlink", "readlinkat", "readv", "stat", "statfs", "statx",
    "sync_file_range", "utimensat",
}  # fmt: skip
_WRITES = {"write", "writev", "pwrite64", "pwritev", "pwritev2", "sendfile", "copy_file_range"}
_ALLOCATES = {"fallocate"}
_SYNCS = {"fsync", "fdatasync"}
_NAMES = {
    "mkdir": "mkdir",
    "mkdirat": "mkdir",
    "rename": "rename",
    "renameat": "rename",
    "renameat2": "rename",
    "link": "link",
    "linkat": "link",
    "unlink": "unlink",
    "unlinkat": "unlink",
    "rmdir": "unlink",
}
Seen = Counter[tuple[object, ...]]


def _last_names(arguments: str) -> tuple[str, ...]:
    return tuple(text.rstrip("/").rpartition("/")[2] for text in _STRING.findall(arguments))


def count_seen(files: Iterable[Path], root: Path) -> Seen:
    """Count the calls below a folder that change files, in the files that strace wrote.

    Raises
    ------
    AssertionError
        If a call below the folder is of a kind that is not known to be harmless, or writes in a
        way that strace cannot show.
    """
    seen: Seen = Counter()
    for path in files:
        for line in path.read_text(errors="replace").splitlines():
            found = _LINE.match(line)
            if found is None:
                continue
            name, arguments = found["name"], found["arguments"]
            assert not name.startswith("io_uring"), f"strace cannot see what it writes: {line}"
            if str(root) not in arguments or found["result"].startswith("-"):
                continue
            if name in _WRITES:
                target = arguments.split(", ")[2 if name == "copy_file_range" else 0]
                if str(root) in target:
                    seen["write", int(found["result"])] += 1
            elif name in _SYNCS:
                seen[("sync",)] += 1
            elif name in _ALLOCATES:
                seen[("allocate",)] += 1
            elif name in ("ftruncate", "truncate"):
                seen["truncate", int(arguments.rpartition(", ")[2])] += 1
            elif name in _NAMES:
                seen[_NAMES[name], _last_names(arguments)[-2 if "rename" in name else -1 :]] += 1
            elif name in ("open", "openat", "creat"):
                if "O_CREAT" in arguments or name == "creat" or "O_TMPFILE" in arguments:
                    seen["create", _last_names(arguments)] = 1
            elif name == "mmap":
                is_shared = "MAP_SHARED" in arguments and "PROT_WRITE" in arguments
                assert not is_shared, f"a write to memory is not seen: {line}"
            else:
                assert name in _HARMLESS, f"a call that is not known to be harmless: {line}"
    return seen


def count_recorded(calls: Iterable[Call]) -> Seen:
    """Count the calls of a trace in the same way.

    strace cannot tell whether opening a file created it, and whether it cut an existing one: so
    of files that are created, only the names count.
    """
    recorded: Seen = Counter()
    for call in calls:
        match call.op:
            case Op.WRITE:
                recorded["write", len(call.data)] += 1
            case Op.SYNC:
                recorded[("sync",)] += 1
            case Op.ALLOCATE:
                recorded[("allocate",)] += 1
            case Op.TRUNCATE if call.function_name in ("ftruncate", "truncate"):
                recorded["truncate", call.number[1]] += 1
            case Op.RENAME:
                recorded["rename", (call.name, call.second_name)] += 1
            case Op.LINK:
                recorded["link", (call.name,)] += 1
            case Op.UNLINK | Op.RMDIR:
                recorded["unlink", (call.name,)] += 1
            case Op.CREATE:
                if call.number[2]:
                    recorded["mkdir", (call.name,)] += 1
                else:
                    recorded["create", (call.name,)] = 1
    return recorded
