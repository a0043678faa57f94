"""Open a corpus: create or check its folder, and recover its partitions."""

import json
import logging
import os
from pathlib import Path
from typing import Any

from recrawl.atomic_files import replace_file
from recrawl.corpus.corpus import Corpus
from recrawl.errors import ConfigError, CorpusError
from recrawl.ledger import SnapshotFolder
from recrawl.node.clock import Clock, SystemClock
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.durability.open_log import check_log_client, open_log
from recrawl.node.durability.recovery import Partition, recover_node
from recrawl.urls import CANON_VERSION

__all__ = ["FORMAT", "open_corpus"]

logger = logging.getLogger(__name__)

FORMAT = 1
_CONFIG_FILE = "recrawl.toml"
_FORMAT_FILE = "FORMAT"
_LAST_CONFIG_FILE = "last-config.json"


def _create_folder(folder: Path, config: CorpusConfig) -> dict[str, Any]:
    """Create the folder of a new corpus, and return the content of its FORMAT file."""
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
    with replace_file(path, is_durable=True) as file:
        file.write(json.dumps(content).encode())


def _last_config(folder: Path, shape: dict[str, Any]) -> CorpusConfig:
    """Return the previous configuration, or one with only what the FORMAT file has."""
    try:
        return CorpusConfig.from_dict(json.loads((folder / _LAST_CONFIG_FILE).read_text()))
    except FileNotFoundError:
        pass
    except (ValueError, TypeError, AttributeError) as error:
        logger.warning("%s is not used: %s", folder / _LAST_CONFIG_FILE, error)
    return CorpusConfig.from_dict(
        {"corpus": {key: shape[key] for key in ("partitions", "group_by")}}
    )


def _save_config(folder: Path, config: CorpusConfig) -> None:
    """Save the configuration for the next opening, without the credentials of the Kafka client."""
    tables = config.to_dict()
    tables.get("ledger", {}).pop("client_settings", None)
    _write_json(folder / _LAST_CONFIG_FILE, tables)


def _read_format(folder: Path) -> dict[str, Any] | None:
    try:
        content = (folder / _FORMAT_FILE).read_bytes()
    except FileNotFoundError:
        return None
    try:
        shape: dict[str, Any] = json.loads(content.decode("utf-8"))
        version = int(shape["format"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorpusError(f"{folder / _FORMAT_FILE} cannot be read: {error}") from error
    if version > FORMAT:
        raise CorpusError(
            f"{folder} has format {version}, which a newer version of recrawl wrote; this one "
            f"reads formats up to {FORMAT}"
        )
    return shape


def _check_shape(folder: Path, shape: dict[str, Any], config: CorpusConfig) -> None:
    """Reject a configuration that differs from what the corpus was created with."""
    if shape["canonical_urls"] != CANON_VERSION:
        raise CorpusError(
            f"{folder} has canonical URLs of version {shape['canonical_urls']}, and this version "
            f"of recrawl makes version {CANON_VERSION}"
        )
    fixed = {
        "corpus.partitions": (shape["partitions"], config.corpus.partitions),
        "corpus.group_by": (shape["group_by"], config.corpus.group_by),
        "ledger.kind": (shape["ledger"], config.ledger.kind),
    }
    for name, (made, wanted) in fixed.items():
        if made != wanted:
            raise ConfigError(
                f"{name} is {made!r} and cannot be changed after the corpus was created, "
                f"got {wanted!r}"
            )


def open_corpus(
    path: str | os.PathLike[str],
    config: CorpusConfig | None = None,
    *,
    read_only: bool = False,
    clock: Clock | None = None,
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

    Raises
    ------
    LockedError
        If another process has it open for writing.
    CorpusError
        If a newer version of recrawl wrote it, or there is no corpus to read.
    ConfigError
        If the configuration is invalid, or differs in what cannot be changed.
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
    clock = clock or SystemClock()
    config_given = True
    if config is None:
        toml = folder / _CONFIG_FILE
        config_given = toml.exists()
        config = CorpusConfig.from_toml(toml) if config_given else None
    shape = _read_format(folder)
    if shape is None:
        if read_only:
            raise CorpusError(
                f"{folder} is not a corpus.\nRun `recrawl init {folder}` to create one."
            )
        config = config or CorpusConfig()
        check_log_client(config)
        shape = _create_folder(folder, config)
        config_given = True
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
        nodes += [recover_node(partition, is_reader=read_only) for partition in partitions]
        corpus = Corpus(folder, nodes, partitions, log, config, clock)
        if not read_only:
            corpus.begin(config_given=config_given, before=before)
            if config_given:
                _save_config(folder, config)
    except BaseException:
        for node in nodes:
            node.store.close()
        log.close()
        raise
    return corpus
