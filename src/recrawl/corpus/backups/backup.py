"""Back up a corpus: copy its newest snapshots and its log, and check the copies.

Snapshots, the stores and the log are copied as files, without opening the corpus, so a backup can
be made while another process writes.  The log is read last, so it reaches at least as far as they.
"""

import logging
import os
import resource
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from recrawl.corpus.backups.backup_folder import BackedUpFile, BackupFolder, BackupList
from recrawl.corpus.backups.captured_files import (
    CapturedFile,
    capture_database,
    capture_files,
    capture_tree,
)
from recrawl.errors import BackupError, LedgerError, LockedError, SnapshotError, StorageError
from recrawl.ledger import RocksLog, SavedSnapshot, SnapshotFolder
from recrawl.node.clock import Clock, SystemClock
from recrawl.node.durability.corpus_format import CorpusFormat, read_format
from recrawl.node.durability.file_checks import check_database, check_snapshot

__all__ = ["BACKUPS_KEPT", "BackupCheck", "BackupResult", "back_up_corpus", "check_backups"]

logger = logging.getLogger(__name__)

BACKUPS_KEPT = 7
"""Default number of backups kept in a folder."""
COPIED_FILES = ("recrawl.toml", "last-config.json", "forgets.json", "holdout.npz", "FORMAT")
# The cursors of named consumers of the change feed.
COPIED_FOLDER = "consumers"
_ATTEMPTS_MAX = 100


class BackupResult(NamedTuple):
    """A backup that was made."""

    name: str
    n_files: int
    n_bytes: int
    n_files_copied: int
    """Number of files that the folder did not have yet."""
    n_bytes_copied: int
    n_backups: int
    """Number of backups that the folder holds now."""
    log_in: str
    """Where the log is: "rocksdb" if it is in the backup, "kafka" if it is only in the topic."""


class BackupCheck(NamedTuple):
    """The state of one backup."""

    name: str
    made_at_ms: int | None
    """Instant of the backup, in milliseconds since 1970; None if its list cannot be read."""
    n_files: int
    n_bytes: int
    problems: Sequence[str]
    """What is wrong with it; empty if the backup is intact."""


class _LogTruncated(Exception):  # noqa: N818 - a condition, handled here
    """The writer has truncated the log beyond the snapshots meanwhile."""


def back_up_corpus(
    folder: str | os.PathLike[str],
    dest: str | os.PathLike[str],
    *,
    keep: int = BACKUPS_KEPT,
    clock: Clock | None = None,
) -> BackupResult:
    """Copy a corpus into a folder of backups; another process may use the corpus meanwhile.

    The backup contains everything for which a call had returned when the backup began.  Files that
    the folder already has are not copied again.

    Parameters
    ----------
    folder
        Folder of the corpus.
    dest
        Folder of the backups, on another disk if possible; created if it does not exist.
    keep
        Number of backups to keep in ``dest``; older ones are removed.
    clock
        Time source; the system clock by default.

    Raises
    ------
    BackupError
        If the corpus is damaged, or ``dest`` holds something else.
    LockedError
        If another backup to the same folder is running.
    """
    if keep < 1:
        raise ValueError(f"keep must be at least 1, got {keep}")
    source, target = Path(folder).resolve(), Path(dest).resolve()
    if target.is_relative_to(source) or source.is_relative_to(target):
        raise BackupError(f"{target} must be outside the folder of the corpus, {source}")
    shape = read_format(source)
    if shape is None:
        raise BackupError(f"{source} is not a corpus")
    try:
        backups = BackupFolder(target)
        backups.create()
        with backups.lock():
            numbers = backups.numbers()
            _check_same_corpus(backups, numbers, shape.corpus_id)
            for attempt in range(_ATTEMPTS_MAX):
                try:
                    made = _Copy(source, backups, shape)
                    break
                except (_LogTruncated, FileNotFoundError) as error:
                    # The writer has removed a snapshot meanwhile; there are newer ones.
                    if attempt == _ATTEMPTS_MAX - 1:
                        raise BackupError(f"{source} changes faster than it is copied") from error
            listed = BackupList(
                number=max(numbers, default=0) + 1,
                made_at_ms=(clock or SystemClock()).wall_ms(),
                corpus=shape.corpus_id,
                log_in=shape.ledger,
                positions=made.positions,
                files=made.files,
            )
            backups.write_list(listed)
            backups.prune(keep)
            n_backups = len(backups.numbers())
    except LockedError:
        raise
    except StorageError as error:
        raise BackupError(
            f"{source} is damaged, so no backup was made. Run `recrawl doctor`. {error}"
        ) from error
    except OSError as error:
        raise BackupError(f"{target}: the backup cannot be written: {error}") from error
    return BackupResult(
        listed.name,
        len(listed.files),
        listed.n_bytes,
        made.n_files_copied,
        made.n_bytes_copied,
        n_backups,
        listed.log_in,
    )


def _check_same_corpus(backups: BackupFolder, numbers: Sequence[int], corpus: str | None) -> None:
    for number in numbers:
        try:
            before = backups.read_list(number).corpus
        except BackupError:
            continue  # an older list may say it
        if before is not None and corpus is not None and before != corpus:
            raise BackupError(
                f"{backups.folder} holds backups of another corpus ({before}); this one is "
                f"{corpus}. Give each corpus a folder of its own."
            )
        return


class _Opened(NamedTuple):
    """The files of a corpus, all opened at nearly the same moment."""

    small: list[CapturedFile]
    snapshots: list[list[tuple[SavedSnapshot, list[CapturedFile]]]]
    """Snapshots of each partition, newest first."""
    stores: list[list[CapturedFile]]
    log: list[CapturedFile] | None
    """Files of the log; None if it is on Kafka."""


def _open_files(source: Path, shape: CorpusFormat, closing: ExitStack) -> _Opened:
    """Open all files to copy: snapshots and stores before the log, which must reach further.

    Copying takes long, and the writer removes snapshots and truncates the log meanwhile.
    """
    small = closing.enter_context(capture_files(source, COPIED_FILES))
    folder = source / COPIED_FOLDER
    if folder.is_dir() and any(folder.iterdir()):
        small = [*closing.enter_context(capture_tree(folder, COPIED_FOLDER)), *small]
    snapshots: list[list[tuple[SavedSnapshot, list[CapturedFile]]]] = []
    for i in range(shape.partitions):
        saved = SnapshotFolder(source / "snapshots" / str(i)).list_saved()
        paths = [f"snapshots/{i}/{one.folder.name}" for one in saved]
        snapshots.append(
            [
                (one, closing.enter_context(capture_tree(one.folder, path)))
                for one, path in zip(saved, paths, strict=True)
            ]
        )
    stores = [_open_store(source, i, snapshots[i], closing) for i in range(shape.partitions)]
    log = None
    if shape.ledger == "rocksdb":
        log = closing.enter_context(capture_database(source / "log", "log"))
    for opened in snapshots:
        # A writer removes a snapshot before it truncates the log beyond it.
        if not all(one.folder.exists() for one, _ in opened):
            raise _LogTruncated
    return _Opened(small, snapshots, stores, log)


def _open_store(
    source: Path,
    i: int,
    snapshots: list[tuple[SavedSnapshot, list[CapturedFile]]],
    closing: ExitStack,
) -> list[CapturedFile]:
    store = f"store/{i}"
    try:
        return closing.enter_context(capture_database(source / store, store))
    except BackupError:
        if not snapshots:
            raise
        return []  # the copy in a snapshot takes its place


@contextmanager
def _many_open_files() -> Iterator[None]:
    """Allow this process to open as many files as the system permits."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems do not permit their own limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    try:
        yield
    finally:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, before)


class _Copy:
    """The files of one backup, copied and checked.

    Parameters
    ----------
    source
        Folder of the corpus.
    backups
        Folder of the backups.
    shape
        Content of the FORMAT file of the corpus.
    """

    def __init__(self, source: Path, backups: BackupFolder, shape: CorpusFormat) -> None:
        self._source = source
        self._backups = backups
        self.files: list[BackedUpFile] = []
        self.positions: list[int] = []
        self.n_files_copied = self.n_bytes_copied = 0
        with backups.scratch() as scratch, _many_open_files(), ExitStack() as closing:
            opened = _open_files(source, shape, closing)
            for i, snapshots in enumerate(opened.snapshots):
                self.positions.append(self._copy_snapshot(snapshots, scratch))
                self._copy_store(i, opened.stores[i], scratch)
            if opened.log is not None:
                self._add(opened.log, scratch)
                self._check_log(scratch)
            self._add(opened.small, scratch)

    def _add(self, captured: Iterable[CapturedFile], scratch: Path) -> None:
        for path, descriptor, n_bytes in captured:
            file, is_new = self._backups.add_file(path, descriptor, n_bytes, scratch)
            self.files.append(file)
            if is_new:
                self.n_files_copied += 1
                self.n_bytes_copied += n_bytes

    def _copy_snapshot(
        self, snapshots: list[tuple[SavedSnapshot, list[CapturedFile]]], scratch: Path
    ) -> int:
        """Copy the newest intact snapshot of a partition; return its position, 0 if none."""
        problems = []
        for saved, captured in snapshots:
            n_files = len(self.files)
            self._add(captured, scratch)
            try:
                path = saved.folder.relative_to(self._source).as_posix()
                self._check_snapshot(saved.position, path, scratch)
            except (SnapshotError, StorageError) as error:
                problems.append(str(error))
                del self.files[n_files:]
                continue
            return saved.position
        if problems:
            raise BackupError(
                "no snapshot is intact, so no backup was made. Run `recrawl doctor`. "
                + "; ".join(problems)
            )
        return 0

    def _copy_store(self, i: int, captured: list[CapturedFile], scratch: Path) -> None:
        """Copy the store of a partition as it is now, unless it is damaged.

        Most of its files are in the snapshot, too, and are not copied again.  A damaged one is left
        out if there is a snapshot, whose copy then takes its place.
        """
        if not captured:
            return
        n_files = len(self.files)
        self._add(captured, scratch)
        try:
            with ExitStack() as closing:
                for _ in check_database(self._assemble(f"store/{i}", scratch, closing)):
                    pass
        except StorageError as error:
            if self.positions[i] == 0:
                raise
            logger.warning("store/%d of %s is left out of the backup: %s", i, self._source, error)
            del self.files[n_files:]

    def _check_snapshot(self, position: int, path: str, scratch: Path) -> None:
        with ExitStack() as closing:
            folder = self._assemble(path, scratch, closing)
            for _ in check_snapshot(SavedSnapshot(position=position, folder=folder)):
                pass
            if (folder / "store").is_dir():
                for _ in check_database(folder / "store"):
                    pass

    def _check_log(self, scratch: Path) -> None:
        """Read the copy of the log, and check that it reaches back to the snapshots."""
        with ExitStack() as closing:
            folder = self._assemble("log", scratch, closing)
            try:
                for _ in check_database(folder):
                    pass
                log = closing.enter_context(RocksLog.open(folder, mode="reader"))
                bounds = [
                    (log.partition(i).first, log.partition(i).end)
                    for i in range(len(self.positions))
                ]
            except (StorageError, LedgerError) as error:
                raise BackupError(
                    f"the log in {self._source} is damaged, so no backup was made. Run `recrawl "
                    f"doctor`. {error}"
                ) from error
        for position, (first, end) in zip(self.positions, bounds, strict=True):
            if first > position:
                raise _LogTruncated
            if end < position:
                raise BackupError(
                    f"the log in {self._source} ends at {end}, before the snapshot at {position}: "
                    "it has lost records, so no backup was made. Run `recrawl doctor`."
                )

    def _assemble(self, path: str, scratch: Path, closing: ExitStack) -> Path:
        """Put the copies of the files below a path into one folder, as in the corpus."""
        root = scratch / "assembled"
        closing.callback(shutil.rmtree, root, ignore_errors=True)
        for file in self.files:
            if file.path.startswith(f"{path}/"):
                target = root / file.path
                target.parent.mkdir(parents=True, exist_ok=True)
                content = self._backups.path_of(file)
                if target.suffix == ".sst" or target.name == "columns":
                    try:
                        os.link(content, target)
                        continue
                    except OSError:
                        pass  # a file system without hard links
                # Copied, because an opening may rewrite it.
                shutil.copyfile(content, target)
        return root / path


def check_backups(dest: str | os.PathLike[str]) -> list[BackupCheck]:
    """Read all files of all backups in a folder and compare their checksums; newest first.

    Raises
    ------
    BackupError
        If the folder holds no backups.
    """
    backups = BackupFolder(Path(dest).resolve())
    backups.check_format()
    problem_by_content: dict[str, str | None] = {}
    checks = []
    for number in backups.numbers():
        try:
            listed = backups.read_list(number)
        except BackupError as error:
            checks.append(BackupCheck(f"{number:06d}", None, 0, 0, [str(error)]))
            continue
        problems = []
        for file in listed.files:
            if file.sha256 not in problem_by_content:
                problem_by_content[file.sha256] = backups.problem_of(file)
            problem = problem_by_content[file.sha256]
            if problem is not None:
                problems.append(f"{file.path}: {problem}")
        checks.append(
            BackupCheck(listed.name, listed.made_at_ms, len(listed.files), listed.n_bytes, problems)
        )
    return checks
