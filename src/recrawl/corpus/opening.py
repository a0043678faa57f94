"""Open a corpus: create or check its folder, and recover its partitions."""

import json
import logging
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from recrawl.atomic_files import create_folder, replace_json
from recrawl.corpus.corpus import Corpus
from recrawl.corpus.leasing.old_handles import OldHandles
from recrawl.errors import ConfigError, CorpusError, LockedError, RecoveryError, RecrawlError
from recrawl.folder_lock import FolderLock
from recrawl.kernel_mode import uncached_notice
from recrawl.kv import allow_databases
from recrawl.ledger import Log, ReopenableLog, SnapshotFolder, SnapshotOrigin
from recrawl.ledger.contract import check_partition
from recrawl.node.clock import Clock, SystemClock, check_gap
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.durability.corpus_format import (
    FORMAT_FILE,
    CorpusFormat,
    new_corpus_id,
    read_format,
    write_format,
)
from recrawl.node.durability.layout_switch import finish_switch, has_next_layout
from recrawl.node.durability.log_damage import (
    LOG_ENDS_FILE,
    check_log,
    is_log_missing,
    lost_records_error,
    refuse_unfinished_repair,
)
from recrawl.node.durability.log_opening.open_log import (
    check_log_client,
    id_for_log,
    note_log,
    open_log,
)
from recrawl.node.durability.log_opening.successor import (
    Successor,
    find_successor,
    format_of_successor,
    generation_of_topic,
    in_present_layout,
)
from recrawl.node.durability.log_opening.topic_identity import TOPIC_FILE
from recrawl.node.durability.recovery import Partition, recover_node
from recrawl.node.durability.shared_copies import SharedPartitions
from recrawl.node.node import Node
from recrawl.urls import CANON_VERSION

__all__ = [
    "RecoveredCorpus",
    "adopt_successor",
    "open_corpus",
    "open_folder",
    "present_config",
    "recover_corpus",
]

logger = logging.getLogger(__name__)

_CONFIG_FILE = "recrawl.toml"
_LAST_CONFIG_FILE = "last-config.json"


def _new_format(config: CorpusConfig) -> CorpusFormat:
    """Return the content of the FORMAT file of a new corpus, without an id."""
    return CorpusFormat(
        corpus_id=None,
        # Other machines may have changed the number of partitions before.
        generation=generation_of_topic(config.ledger.topic),
        canonical_urls=CANON_VERSION,
        partitions=config.corpus.partitions,
        group_by=config.corpus.group_by,
        ledger=config.ledger.kind,
    )


def _open_identified_log(
    folder: Path, config: CorpusConfig, shape: CorpusFormat, *, read_only: bool
) -> tuple[Log, CorpusFormat]:
    """Open the log, and give an id to a corpus that has none; return the log and the format.

    The FORMAT file of a new corpus is written before a log in its folder is created, and after a
    topic has been reached: so a folder never has a log without the file, and a broker that does
    not answer leaves nothing behind.
    """
    is_new = not (folder / FORMAT_FILE).exists()
    if is_new and shape.ledger == "rocksdb":
        shape = _give_id(folder, shape, new_corpus_id())
    mode: Literal["reader", "writer"] = "reader" if read_only else "writer"
    log = open_log(folder, config, mode=mode, corpus_id=shape.corpus_id)
    try:
        if shape.corpus_id is None and not read_only:
            # A topic that another machine works with already, or a FORMAT file of 0.1.0.
            if log.corpus_id is None:
                _refuse_emptied_log(log)
            shape = _give_id(folder, shape, id_for_log(log))
            assert shape.corpus_id is not None
            log.identify(shape.corpus_id)
        if not read_only:
            note_log(folder, config, log)
    except BaseException:
        log.close()
        raise
    return log, shape


def _refuse_emptied_log(log: Log) -> None:
    """Raise `RecoveryError` if a log has no records any more, which would name its corpus."""
    ledgers = [log.partition(i) for i in range(log.n_partitions)]
    if any(ledger.end > 0 for ledger in ledgers) and all(
        ledger.first == ledger.end for ledger in ledgers
    ):
        raise RecoveryError(
            "the log has no records any more, so it does not say which corpus it belongs to. Try "
            "again when its owner has written to it, or copy FORMAT from another machine."
        )


def _give_id(folder: Path, shape: CorpusFormat, corpus_id: str) -> CorpusFormat:
    shape = replace(shape, corpus_id=corpus_id)
    create_folder(folder)
    write_format(folder, shape)
    return shape


def _last_config(folder: Path, shape: CorpusFormat) -> CorpusConfig:
    """Return the previous configuration, or one with only what the FORMAT file has."""
    try:
        return CorpusConfig.from_dict(json.loads((folder / _LAST_CONFIG_FILE).read_text()))
    except FileNotFoundError:
        pass
    except (ValueError, TypeError, AttributeError) as error:
        logger.warning("%s is not used: %s", folder / _LAST_CONFIG_FILE, error)
    return CorpusConfig.from_dict(
        {"corpus": {"partitions": shape.partitions, "group_by": shape.group_by}}
    )


def _save_config(folder: Path, config: CorpusConfig) -> None:
    """Save the configuration for the next opening, without credentials."""
    tables = config.to_dict()
    tables.get("ledger", {}).pop("client_settings", None)
    if config.snapshots.shared is not None:
        parts = urlsplit(config.snapshots.shared)
        host = parts.netloc.rpartition("@")[2]
        tables["snapshots"]["shared"] = parts._replace(netloc=host).geturl()
    replace_json(folder / _LAST_CONFIG_FILE, tables)


def adopt_successor(folder: Path, shape: CorpusFormat, successor: Successor) -> None:
    """Let a folder go on with the partitions that a corpus on Kafka has now.

    Its store and snapshots are those of the old partitions.  They are removed before the FORMAT
    file changes; a crash in between leaves a folder that is empty, and adopts again.

    Parameters
    ----------
    folder
        Folder of the corpus.
    shape
        Content of its FORMAT file.
    successor
        Where the corpus goes on.
    """
    for name in ("store", "snapshots"):
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in (LOG_ENDS_FILE, TOPIC_FILE):
        (folder / name).unlink(missing_ok=True)
    OldHandles(successor.old_handles, successor.new_handles).save(folder)
    write_format(folder, format_of_successor(shape, successor))
    logger.info("the corpus goes on in topic %s", successor.topic)


def _check_shape(folder: Path, shape: CorpusFormat, config: CorpusConfig) -> None:
    """Reject a configuration that differs from what the corpus was created with."""
    if shape.canonical_urls != CANON_VERSION:
        raise CorpusError(
            f"{folder} has canonical URLs of version {shape.canonical_urls}, and this version "
            f"of recrawl makes version {CANON_VERSION}"
        )
    fixed = {
        "corpus.partitions": (shape.partitions, config.corpus.partitions),
        "corpus.group_by": (shape.group_by, config.corpus.group_by),
        "ledger.kind": (shape.ledger, config.ledger.kind),
    }
    for name, (made, wanted) in fixed.items():
        if made != wanted:
            raise ConfigError(
                f"{name} is {made!r} and cannot be changed after the corpus was created, "
                f"got {wanted!r}"
            )


def _numbers_to_open(partitions: Iterable[int] | None, config: CorpusConfig) -> list[int]:
    """Return the numbers of the partitions to open, in order."""
    n_partitions = config.corpus.partitions
    if partitions is None:
        return [*range(n_partitions)]
    if config.ledger.kind != "kafka":
        raise ConfigError(
            "partitions are opened one by one only if the log is on Kafka (ledger.kind = "
            f'"kafka"), got ledger.kind = "{config.ledger.kind}": its log belongs to one process. '
            "Open the corpus without partitions."
        )
    numbers = sorted({*partitions})
    for i in numbers:
        check_partition(i, n_partitions)
    return numbers


def _files_of(
    i: int,
    folder: Path,
    config: CorpusConfig,
    shape: CorpusFormat,
    log: Log,
    shared: SharedPartitions,
) -> Partition:
    """Return log, store and snapshots of a partition."""
    corpus_id, reopen = shape.corpus_id, None
    if isinstance(log, ReopenableLog):
        reopen = partial(log.reopen_partition, i)
    return Partition(
        i,
        log.partition(i),
        folder / "store" / str(i),
        SnapshotFolder(
            folder / "snapshots" / str(i),
            keep=config.snapshots.keep,
            origin=None if corpus_id is None else SnapshotOrigin(corpus_id, i),
            shared=shared.of(corpus_id, i),
        ),
        is_shared=config.ledger.kind == "kafka",
        changes_max=config.changes.kept_max,
        is_synced=config.ledger.kind == "kafka" or config.ledger.durability == "sync",
        corpus_id=corpus_id,
        generation=shape.generation,
        reopen_ledger=reopen,
        n_partitions=config.corpus.partitions,
        # Also with a FORMAT file that was made from a configuration with the new topic.
        begins_with_snapshot=shape.logs_lack_pages,
    )


def _goes_on_elsewhere(folder: Path, log: Log, shape: CorpusFormat, *, read_only: bool) -> bool:
    """Return whether a corpus goes on in another topic, and let the folder go on there."""
    try:
        successor = find_successor(log)
        if successor is None:
            return False
        if read_only:
            raise CorpusError(
                f"the number of partitions of the corpus in {folder} has changed to "
                f"{successor.n_partitions}. Open it for writing once, which brings the new files"
            )
    except BaseException:
        log.close()
        raise
    log.close()
    adopt_successor(folder, shape, successor)
    return True


class _FolderUse:
    """The lock of the folder of a corpus on Kafka.

    A log in the folder has a lock itself.  With one on Kafka, the store of each partition has: a
    process without partitions, such as a worker that begins, would keep no other away.

    Parameters
    ----------
    folder
        Folder of the corpus.
    config
        Configuration of the corpus.
    read_only
        Whether the process only reads, so that others may use the folder.
    """

    def __init__(self, folder: Path, config: CorpusConfig, *, read_only: bool) -> None:
        self._folder = folder
        self._is_needed = config.ledger.kind == "kafka" and not read_only
        self._lock: FolderLock | None = None

    def begin(self) -> None:
        """Lock the folder, unless that was done before, or the folder does not exist yet."""
        if self._is_needed and self._lock is None and self._folder.exists():
            self._lock = FolderLock.take(self._folder)

    def end(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.release()


class _OpenedLog(NamedTuple):
    log: Log
    shape: CorpusFormat
    use: _FolderUse


def _open_present_log(
    folder: Path, config: CorpusConfig, shape: CorpusFormat, *, read_only: bool
) -> _OpenedLog | None:
    """Lock the folder and open the log.

    None if the corpus goes on in another topic, which the folder names now.
    """
    use = _FolderUse(folder, config, read_only=read_only)
    try:
        use.begin()
        log, shape = _open_identified_log(folder, config, shape, read_only=read_only)
        try:
            use.begin()
        except BaseException:
            log.close()
            raise
        if shape.ledger == "kafka" and _goes_on_elsewhere(folder, log, shape, read_only=read_only):
            use.end()
            return None
    except BaseException:
        use.end()
        raise
    return _OpenedLog(log, shape, use)


class RecoveredCorpus(NamedTuple):
    """All partitions of a corpus, without a claim: nothing has changed."""

    config: CorpusConfig
    shape: CorpusFormat
    log: Log
    nodes: list[Node]
    use: "_FolderUse"

    def close_files(self) -> None:
        """Close everything, and keep others from using the folder."""
        for close in (*(node.close for node in self.nodes), self.log.close):
            with suppress(RecrawlError):
                close()

    def close(self) -> None:
        """Close everything."""
        self.close_files()
        self.use.end()


def present_config(folder: Path) -> CorpusConfig:
    """Return the configuration of a corpus, with the partitions and the topic that it has now.

    Parameters
    ----------
    folder
        Folder of the corpus, or only with its ``recrawl.toml``.

    Raises
    ------
    CorpusError
        If it has neither.
    """
    shape, toml = read_format(folder), folder / _CONFIG_FILE
    if shape is None and not toml.exists():
        raise CorpusError(f"{folder} is not a corpus.\nRun `recrawl init {folder}` to create one.")
    if shape is None:
        return CorpusConfig.from_toml(toml)
    config = CorpusConfig.from_toml(toml) if toml.exists() else _last_config(folder, shape)
    return in_present_layout(config, shape)


def recover_corpus(folder: Path) -> RecoveredCorpus:
    """Recover all partitions of a corpus that no other process uses, and claim none.

    Raises
    ------
    CorpusError
        If the folder is not a corpus.
    """
    config = present_config(folder)
    shape = read_format(folder)
    if shape is None:
        if config.ledger.kind != "kafka":
            raise CorpusError(f"{folder} is not a corpus")
        shape = _new_format(config)
    _check_shape(folder, shape, config)
    shared = SharedPartitions(config.snapshots)
    check_log(folder, config)
    opened = _open_present_log(folder, config, shape, read_only=False)
    if opened is None:
        return recover_corpus(folder)
    recovered = RecoveredCorpus(config, opened.shape, opened.log, [], opened.use)
    log, shape = opened.log, opened.shape
    try:
        for i in range(shape.partitions):
            files = _files_of(i, folder, config, shape, log, shared)
            recovered.nodes.append(recover_node(files))
    except BaseException:
        recovered.close()
        raise
    return recovered


def open_corpus(
    path: str | os.PathLike[str],
    config: CorpusConfig | None = None,
    *,
    read_only: bool = False,
    clock: Clock | None = None,
    accept_clock: bool = False,
    partitions: Iterable[int] | None = None,
) -> Corpus:
    """Open the corpus in a folder, and create it if there is none.

    Parameters
    ----------
    path
        Folder of the corpus.
    config
        Configuration; by default ``recrawl.toml`` in the folder, or without that file the
        configuration of the previous opening.
    read_only
        Whether to open it only for reading (`Corpus.explain`, `changes`, `stats`, `plan` …), also
        while another process uses it.
    clock
        Time source; the system clock by default.
    accept_clock
        Whether to open a corpus whose last change is longer ago than ``clock.gap_max``.
    partitions
        Numbers of the partitions to open, if the log is on Kafka; other processes, each with a
        folder of its own, may open the others.  All by default.  Rows of partitions that are not
        open have the status UNAVAILABLE, and the budget is that of as many partitions.

    Raises
    ------
    ClockError
        If the system clock is further ahead of the last change than ``clock.gap_max``.
    LockedError
        If another process has it open for writing.
    CorpusError
        If a newer version of recrawl wrote it, there is no corpus to read, or its FORMAT file is
        missing or malformed.
    IdentityError
        If its log, its store or a snapshot belongs to another corpus.
    ConfigError
        If the configuration is invalid, or differs in what cannot be changed.
    LogDamagedError
        If its log is missing or has lost records; ``recrawl doctor --repair`` continues.
    RecoveryError
        If log and snapshots on disk are not enough to recover from.
    """
    if config is not None and not isinstance(config, CorpusConfig):
        raise TypeError(
            "config must be a CorpusConfig, such as CorpusConfig.from_dict({...}), got "
            f"{type(config).__name__}"
        )
    folder = Path(path).resolve()
    if folder.is_file():
        raise CorpusError(f"{folder} is a file, not the folder of a corpus")
    refuse_unfinished_repair(folder)
    if notice := uncached_notice():
        logger.warning("%s", notice)
    return open_folder(
        folder,
        config,
        read_only=read_only,
        clock=clock or SystemClock(),
        accept_clock=accept_clock,
        partitions=partitions,
    )


def open_folder(
    folder: Path,
    config: CorpusConfig | None,
    *,
    read_only: bool = False,
    clock: Clock,
    accept_clock: bool = True,
    partitions: Iterable[int] | None = None,
) -> Corpus:
    """Open or create a corpus, also one that is being repaired."""
    given = config
    if not read_only:
        finish_switch(folder)
    config_given = True
    if config is None:
        toml = folder / _CONFIG_FILE
        config_given = toml.exists()
        config = CorpusConfig.from_toml(toml) if config_given else None
    shape = read_format(folder)
    if shape is None:
        if read_only:
            raise CorpusError(
                f"{folder} is not a corpus.\nRun `recrawl init {folder}` to create one."
            )
        config = config or CorpusConfig()
        check_log_client(config)
        shape = _new_format(config)
        config_given = True
    before = _last_config(folder, shape)
    config = in_present_layout(config or before, shape)
    _check_shape(folder, shape, config)
    if partitions is not None:
        partitions = [*partitions]
    numbers = _numbers_to_open(partitions, config)
    # Also of partitions that are opened later.
    allow_databases(config.corpus.partitions)
    if read_only and shape.ledger == "rocksdb" and is_log_missing(folder):
        raise lost_records_error(folder, "its log is missing")
    shared = SharedPartitions(config.snapshots)
    if not read_only:
        check_log(folder, config)
    opened = _open_present_log(folder, config, shape, read_only=read_only)
    if opened is None:
        return open_folder(
            folder,
            given,
            read_only=read_only,
            clock=clock,
            accept_clock=accept_clock,
            partitions=partitions,
        )
    log, shape, use = opened
    if not read_only and has_next_layout(folder):
        # New partitions were completed after this process had looked for them.
        log.close()
        use.end()
        raise LockedError(f"the number of partitions of {folder} was changed; try again")
    nodes = []
    try:
        files = {i: _files_of(i, folder, config, shape, log, shared) for i in numbers}
        nodes += [recover_node(partition, is_reader=read_only) for partition in files.values()]
        if not (read_only or accept_clock):
            last_ms = max((node.shard.now_ms for node in nodes), default=0)
            accept = f"recrawl doctor -C {folder} --accept-clock"
            check_gap(clock, last_ms, config.clock.gap_max, accept)
        corpus = Corpus(
            folder,
            nodes,
            files,
            log,
            config,
            clock,
            shape,
            is_reader=read_only,
            find_partition=lambda i: _files_of(i, folder, config, shape, log, shared),
            on_closed=use.end,
        )
        if not read_only:
            corpus.begin(config_given=config_given, before=before)
            if config_given:
                _save_config(folder, config)
    except BaseException:
        closing = [*(node.store.close for node in nodes), log.close, use.end]
        for close in closing:
            # A damaged store may raise again; the first error says more, and the log must close.
            with suppress(RecrawlError):
                close()
        raise
    return corpus
