"""A disk that remembers what is synced, and what a power cut may leave of the rest.

Two promises hold, and nothing else: a sync of a file keeps its bytes and its size, and a sync of a
folder keeps the changes of its entries.  Everything since then may be kept or lost: any sector of
any write, any change of a name, in any order, except that the changes of one name happen in order
and that a rename happens as a whole.  Linux file systems keep more than that; a program that is
safe here is safe on all of them.
"""

import os
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TypeAlias

from tests.power_loss.trace import Call, Op

__all__ = ["Disk", "Survival"]

_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE
_PUNCH_HOLE = 2
_ZERO_RANGE = 16
_EXCHANGE = 2  # RENAME_EXCHANGE
_SECTORS = (512, 4096)


class Survival(Enum):
    """Which changes without a sync survive the power cut."""

    NOTHING = "no change"
    EVERYTHING = "every change"
    NAMES = "every change of a name, and no data"
    DATA = "all data, and no change of a name"
    PREFIX = "every change before a random moment"
    ORDERED_NAMES = "changes of names before a random moment, and random sectors of data"
    TORN = "random changes of names, and random sectors of data"


@dataclass(eq=False)
class _Change:
    """One change of a file's bytes that is not synced: a write, or a new size."""

    moment: int
    offset: int
    data: bytes | None
    """None sets the size to the offset."""


@dataclass(eq=False)
class _File:
    synced: bytearray = field(default_factory=bytearray)
    pending: list[_Change] = field(default_factory=list)


@dataclass(eq=False)
class _Folder:
    synced: dict[str, "_Node"] = field(default_factory=dict)
    now: dict[str, "_Node"] = field(default_factory=dict)


_Node: TypeAlias = _File | _Folder


@dataclass(eq=False)
class _NameChange:
    """Entries that change together: the folder, the name, and what it names afterwards."""

    moment: int
    entries: list[tuple[_Folder, str, _Node | None]]

    def keys(self) -> set[tuple[int, str]]:
        return {(id(folder), name) for folder, name, _ in self.entries}


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        if offset <= len(content):
            del content[offset:]
        else:
            content.extend(bytes(offset - len(content)))
        return
    if offset > len(content):
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _assign(entries: dict[str, _Node], name: str, node: _Node | None) -> None:
    if node is None:
        entries.pop(name, None)
    else:
        entries[name] = node


class Disk:
    """The files and folders below one folder, as a trace changes them.

    Parameters
    ----------
    root
        Folder that the trace watched, as it is before the program starts; all of it counts as
        synced.
    """

    def __init__(self, root: Path) -> None:
        self._nodes: dict[int, _Node] = {}
        self._names: list[_NameChange] = []
        self._moment = 0
        self._root = self._load(root)
        assert isinstance(self._root, _Folder)

    def _load(self, path: Path) -> _Node:
        inode = path.stat().st_ino
        if inode in self._nodes:
            return self._nodes[inode]
        node: _Node
        if path.is_dir():
            node = _Folder({child.name: self._load(child) for child in path.iterdir()})
            node.now = dict(node.synced)
        else:
            node = _File(bytearray(path.read_bytes()))
        self._nodes[inode] = node
        return node

    def adopt_root(self, inode: int) -> None:
        """Give the root the inode that it has in a trace of an equal folder elsewhere."""
        self._nodes[inode] = self._root

    # ------------------------------------------------------------------ following the trace

    def follow(self, call: Call) -> None:
        """Apply one call of the trace."""
        self._moment += 1
        first, second, third, fourth = call.number
        match call.op:
            case Op.CREATE:
                self._nodes[second] = node = _Folder() if third else _File()
                if call.name:
                    self._rename([(self._folder(first), call.name, node)])
            case Op.WRITE:
                self._change(first, second, call.data)
            case Op.TRUNCATE:
                self._change(first, second, None)
            case Op.ALLOCATE:
                self._allocate(first, second, third, fourth)
            case Op.SYNC:
                self._sync(self._nodes[first])
            case Op.SYNC_ALL:
                for node in list(self._nodes.values()):
                    self._sync(node)
            case Op.RENAME:
                self._follow_rename(call)
            case Op.LINK:
                self._rename([(self._folder(second), call.name, self._nodes[first])])
            case Op.UNLINK | Op.RMDIR:
                self._rename([(self._folder(first), call.name, None)])

    def _folder(self, inode: int) -> _Folder:
        node = self._nodes[inode]
        assert isinstance(node, _Folder)
        return node

    def _change(self, inode: int, offset: int, data: bytes | None) -> None:
        node = self._nodes[inode]
        assert isinstance(node, _File)
        node.pending.append(_Change(self._moment, offset, data))

    def _allocate(self, inode: int, mode: int, offset: int, n_bytes: int) -> None:
        if mode & (_PUNCH_HOLE | _ZERO_RANGE):
            node = self._nodes[inode]
            assert isinstance(node, _File)
            size = len(_content(node, node.pending))
            end = offset + n_bytes if mode & _KEEP_SIZE == 0 else min(size, offset + n_bytes)
            if end > offset:
                self._change(inode, offset, bytes(end - offset))
        elif not mode & _KEEP_SIZE:
            node = self._nodes[inode]
            assert isinstance(node, _File)
            if offset + n_bytes > len(_content(node, node.pending)):
                self._change(inode, offset + n_bytes, None)

    def _rename(self, entries: list[tuple[_Folder, str, _Node | None]]) -> None:
        self._names.append(_NameChange(self._moment, entries))
        for folder, name, node in entries:
            _assign(folder.now, name, node)

    def _follow_rename(self, call: Call) -> None:
        old, new = self._folder(call.number[0]), self._folder(call.number[1])
        moved = old.now[call.name]
        replaced = new.now[call.second_name] if call.number[2] & _EXCHANGE else None
        self._rename([(old, call.name, replaced), (new, call.second_name, moved)])

    def _sync(self, node: _Node) -> None:
        if isinstance(node, _File):
            node.synced = _content(node, node.pending)
            node.pending.clear()
            return
        # Changes of names in this folder, and earlier ones that those build on.
        needed: set[tuple[int, str]] = set()
        kept: list[_NameChange] = []
        rest: list[_NameChange] = []
        for change in reversed(self._names):
            is_here = any(folder is node for folder, _, _ in change.entries)
            if is_here or needed & change.keys():
                needed |= change.keys()
                kept.append(change)
            else:
                rest.append(change)
        for change in reversed(kept):
            for folder, name, named in change.entries:
                _assign(folder.synced, name, named)
        self._names = rest[::-1]

    # ------------------------------------------------------------------ after the power cut

    def write_to(self, target: Path, survival: Survival, rng: random.Random) -> None:
        """Write the disk as it may look if the power fails now.

        Parameters
        ----------
        target
            Folder to create.
        survival
            Which changes without a sync survive.
        rng
            Source of randomness for what survives.
        """
        until = rng.randrange(self._moment + 1) if self._moment else 0
        sector = rng.choice(_SECTORS)
        share = rng.choice((0.1, 0.5, 0.9))
        everything = survival == Survival.EVERYTHING

        def keeps_name(change: _NameChange) -> bool:
            if survival in (Survival.PREFIX, Survival.ORDERED_NAMES):
                return change.moment <= until
            if survival == Survival.TORN:
                return rng.random() < share
            return everything or survival == Survival.NAMES

        def content(file: _File) -> bytes:
            if everything or survival == Survival.DATA:
                return bytes(_content(file, file.pending))
            if survival == Survival.PREFIX:
                return bytes(_content(file, [c for c in file.pending if c.moment <= until]))
            if survival in (Survival.TORN, Survival.ORDERED_NAMES):
                return _torn_content(file, sector, share, rng)
            return bytes(file.synced)

        entries = self._entries_after(keeps_name)
        _write_folder(target, self._root, entries, content)

    def _entries_after(self, keeps: Callable[[_NameChange], bool]) -> dict[int, dict[str, _Node]]:
        """Return the entries of folders with pending changes, by the folder's identity."""
        entries: dict[int, dict[str, _Node]] = {}
        lost: set[tuple[int, str]] = set()
        for change in self._names:
            # A later change of a name is not there without the earlier ones.
            if lost & change.keys() or not keeps(change):
                lost |= change.keys()
                continue
            for folder, name, node in change.entries:
                _assign(entries.setdefault(id(folder), dict(folder.synced)), name, node)
        return entries


def _content(file: _File, changes: Iterable[_Change]) -> bytearray:
    content = bytearray(file.synced)
    for change in changes:
        _apply(content, change.offset, change.data)
    return content


def _torn_content(file: _File, sector: int, share: float, rng: random.Random) -> bytes:
    """Return the bytes of a file of which random sectors were written."""
    content = bytearray(file.synced)
    for change in file.pending:
        if change.data is None:
            if rng.random() < share:
                _apply(content, change.offset, None)
            continue
        at, end = change.offset, change.offset + len(change.data)
        while at < end:
            until = min((at // sector + 1) * sector, end)
            if rng.random() < share:
                piece = change.data[at - change.offset : until - change.offset]
                _apply(content, at, piece)
            at = until
        if rng.random() < share / 2 and end > len(content):
            _apply(content, end, None)  # the size is there, but not the bytes
    return bytes(content)


def _write_folder(
    path: Path,
    root: _Node,
    entries: dict[int, dict[str, _Node]],
    content: Callable[[_File], bytes],
) -> None:
    written: dict[int, Path] = {}

    def write(path: Path, node: _Node) -> None:
        if isinstance(node, _Folder):
            path.mkdir()
            for name, child in sorted(entries.get(id(node), node.synced).items()):
                write(path / name, child)
        elif id(node) in written:
            os.link(written[id(node)], path)
        else:
            path.write_bytes(content(node))
            written[id(node)] = path

    write(path, root)
