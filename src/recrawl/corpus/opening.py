"""Opening a corpus: its folder is made or recognised, its partitions come back."""

import json
import logging
import os
from pathlib import Path
from typing import Any

from recrawl.corpus.corpus import Corpus
from recrawl.errors import ConfigError, CorpusError
from recrawl.ledger import SnapshotFolder
from recrawl.node.clock import Clock, SystemClock
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.durability.open_log import open_log
from recrawl.node.durability.recovery import Partition, recovered
from recrawl.urls import CANON_VERSION

__all__ = ["FORMAT", "open_corpus"]

logger = logging.getLogger(__name__)

FORMAT = 1
_CONFIG_FILE = "recrawl.toml"
_FORMAT_FILE = "FORMAT"
_LAST_FILE = "last-config.json"


def _written(folder: Path, config: CorpusConfig) -> dict[str, Any]:
    """Make the folder of a new corpus, and return what it says of itself."""
    shape = {
        "format": FORMAT,
        "canonical_urls": CANON_VERSION,
        "partitions": config.corpus.partitions,
        "group_by": config.corpus.group_by,
        "ledger": config.ledger.kind,
    }
    folder.mkdir(parents=True, exist_ok=True)
    _write_json(folder / _FORMAT_FILE, shape)
    return shape


def _write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a file whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _last_config(folder: Path, shape: dict[str, Any]) -> CorpusConfig:
    """Return what the corpus was last opened with, or as much as it says of itself."""
    try:
        return CorpusConfig.from_dict(json.loads((folder / _LAST_FILE).read_text()))
    except FileNotFoundError:
        pass
    except (ValueError, TypeError, AttributeError) as error:
        logger.warning("%s is not used: %s", folder / _LAST_FILE, error)
    return CorpusConfig.from_dict(
        {"corpus": {key: shape[key] for key in ("partitions", "group_by")}}
    )


def _remember(folder: Path, config: CorpusConfig) -> None:
    """Keep what a corpus is opened with; not what the client of Kafka needs to log in."""
    tables = config.to_dict()
    tables.get("ledger", {}).pop("client_settings", None)
    _write_json(folder / _LAST_FILE, tables)


def _read(folder: Path) -> dict[str, Any] | None:
    try:
        content = (folder / _FORMAT_FILE).read_bytes()
    except FileNotFoundError:
        return None
    try:
        shape: dict[str, Any] = json.loads(content.decode("utf-8"))
        version = int(shape["format"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorpusError(f"{folder / _FORMAT_FILE} is not that of a corpus: {error}") from error
    if version > FORMAT:
        raise CorpusError(
            f"{folder} has format {version}, which a newer version of recrawl wrote; this one "
            f"reads formats up to {FORMAT}"
        )
    return shape


def _check_shape(folder: Path, shape: dict[str, Any], config: CorpusConfig) -> None:
    """Refuse a configuration that a corpus was not made with."""
    if shape["canonical_urls"] != CANON_VERSION:
        raise CorpusError(
            f"{folder} knows pages by canonical URLs of version {shape['canonical_urls']}, and "
            f"this version of recrawl makes those of version {CANON_VERSION}"
        )
    told = {
        "corpus.partitions": (shape["partitions"], config.corpus.partitions),
        "corpus.group_by": (shape["group_by"], config.corpus.group_by),
        "ledger.kind": (shape["ledger"], config.ledger.kind),
    }
    for name, (made, wanted) in told.items():
        if made != wanted:
            raise ConfigError(f"{name} is {made!r} since the corpus was made, got {wanted!r}")


def open_corpus(
    path: str | os.PathLike[str],
    config: CorpusConfig | None = None,
    *,
    read_only: bool = False,
    clock: Clock | None = None,
) -> Corpus:
    """Open a corpus, and make it if there is none.

    Parameters
    ----------
    path
        Of its folder.
    config
        What the owner chooses; ``recrawl.toml`` in the folder unless given, and without that what
        the corpus was last opened with.
    read_only
        Only to be asked (`Corpus.explain`, `changes`, `stats`, `plan`), while another process may
        be working with it.
    clock
        To go by; the machine's unless given.

    Raises
    ------
    LockedError
        If another process has it open for writing.
    CorpusError
        If it was made by a newer version, or there is nothing to read.
    ConfigError
        If the configuration is wrong, or not the one the corpus was made with.
    RecoveryError
        If what is on disk is not enough to go on from.
    """
    folder = Path(path).resolve()
    clock = clock or SystemClock()
    is_told = True
    if config is None:
        toml = folder / _CONFIG_FILE
        is_told = toml.exists()
        config = CorpusConfig.from_toml(toml) if is_told else None
    shape = _read(folder)
    if shape is None:
        if read_only:
            raise CorpusError(f"{folder} is no corpus")
        config = config or CorpusConfig()
        shape = _written(folder, config)
        is_told = True
    before = _last_config(folder, shape)
    config = config or before
    _check_shape(folder, shape, config)
    log = open_log(folder, config, mode="reader" if read_only else "writer")
    nodes = []
    try:
        partitions = [
            Partition(
                i,
                log.partition(i),
                folder / "store" / str(i),
                SnapshotFolder(folder / "snapshots" / str(i), keep=config.snapshots.keep),
                is_shared=config.ledger.kind == "kafka",
                changes_max=config.changes.kept_max,
            )
            for i in range(config.corpus.partitions)
        ]
        nodes += [recovered(partition, is_reader=read_only) for partition in partitions]
        corpus = Corpus(folder, nodes, partitions, log, config, clock)
        if not read_only:
            corpus.begin(is_told=is_told, before=before)
            if is_told:
                _remember(folder, config)
    except BaseException:
        for node in nodes:
            node.store.close()
        log.close()
        raise
    return corpus
