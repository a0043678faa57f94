"""The FORMAT file of a corpus: its id, and the properties that never change.

The file is written once, before the log, the store and the first snapshot exist.  So a folder that
has these parts without the file was a corpus, and nothing may be created over it.
"""

import hashlib
import json
import re
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from recrawl.atomic_files import replace_json
from recrawl.errors import CorpusError
from recrawl.ledger.contract import N_PARTITIONS_MAX

__all__ = [
    "FORMAT",
    "FORMAT_FILE",
    "GENERATION_MAX",
    "CorpusFormat",
    "logs_lack_pages",
    "new_corpus_id",
    "parts_in",
    "read_format",
    "successor_id",
    "write_format",
]

FORMAT = 2
"""Version of the file.  Version 1 (0.1.0) has neither an id nor a generation."""
FORMAT_FILE = "FORMAT"
GENERATION_MAX = 15
"""The highest layout generation, which takes four bits of a handle."""
_PARTS = ("log", "store", "snapshots")
_ID_BYTES = 16
_ID = re.compile(r"[0-9a-f]{32}")
_LEDGERS = ("rocksdb", "kafka")


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusFormat:
    """The content of a FORMAT file.

    Parameters
    ----------
    corpus_id
        Random id of the corpus, 32 hexadecimal digits; None in a file of version 1.
    generation
        Number of times that the division into partitions has changed.
    canonical_urls
        Version of the canonical form of URLs.
    partitions
        Number of partitions.
    group_by
        Property of a URL that pages of one group share.
    ledger
        Kind of log: "rocksdb" or "kafka".
    topic
        Topic of the log, if the number of partitions of a corpus on Kafka has changed.
    earlier
        Numbers of partitions that the corpus had before: a configuration may still name them.
    """

    corpus_id: str | None
    generation: int = 0
    canonical_urls: int
    partitions: int
    group_by: str
    ledger: str
    topic: str | None = None
    earlier: tuple[int, ...] = ()

    @property
    def logs_lack_pages(self) -> bool:
        """Whether the first snapshots have pages that the logs do not: those of older partitions.

        Then a log that has its beginning is not the whole partition.
        """
        return self.generation > 0


def new_corpus_id(topic_id: str | None = None) -> str:
    """Return a new id: 128 bits as hexadecimal digits.

    Parameters
    ----------
    topic_id
        Id of the topic of its log; the corpus's id follows from it.  Random without one.
    """
    if topic_id is not None:
        return hashlib.blake2b(topic_id.encode(), digest_size=_ID_BYTES).hexdigest()
    return secrets.token_hex(_ID_BYTES)


def successor_id(corpus_id: str | None, generation: int, partitions: int) -> str:
    """Return the id of a corpus after a change of its partitions.

    It follows from the old one, so that repeated attempts agree, and files of the old partitions
    are never taken for those of the new ones.

    Parameters
    ----------
    corpus_id
        Id before the change.
    generation, partitions
        Layout generation and number of partitions after it.
    """
    return new_corpus_id(f"{corpus_id} {generation} {partitions}")


def parts_in(folder: Path) -> list[str]:
    """Return which parts of a corpus a folder has: log, store or snapshots, if not empty."""
    return [name for name in _PARTS if (folder / name).is_dir() and any((folder / name).iterdir())]


def logs_lack_pages(folder: Path) -> bool:
    """Return whether the logs of a corpus lack pages; see `CorpusFormat.logs_lack_pages`."""
    content = read_format(folder)
    return content is not None and content.logs_lack_pages


def write_format(folder: Path, content: CorpusFormat) -> None:
    """Write the FORMAT file, durably."""
    values = {"format": FORMAT, **asdict(content)}
    values["id"] = values.pop("corpus_id")
    if content.generation == 0:
        del values["topic"], values["earlier"]
    replace_json(folder / FORMAT_FILE, values)


def read_format(folder: Path) -> CorpusFormat | None:
    """Return the content of the FORMAT file; None if the folder is not a corpus.

    Raises
    ------
    CorpusError
        If the file is malformed, a newer version wrote it, or it is missing although the folder
        has the parts of a corpus.
    """
    path = folder / FORMAT_FILE
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        parts = parts_in(folder)
        if not parts:
            return None
        raise CorpusError(
            f"{folder} has no file FORMAT, but it has {', '.join(f'{name}/' for name in parts)}: "
            "it is a corpus whose FORMAT file was lost, or the folder of something else. Nothing "
            "was changed. Restore FORMAT from a backup, or choose an empty folder."
        ) from None
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error}") from error
    try:
        values = json.loads(content.decode("utf-8"))
    except ValueError as error:
        raise CorpusError(
            f"{path} cannot be read: {error}. Restore the file from a backup."
        ) from error
    if not isinstance(values, dict):
        raise CorpusError(f"{path} cannot be read: it is not a JSON object")
    version = _integer(path, values, "format", 1, 1 << 31)
    if version > FORMAT:
        raise CorpusError(
            f"{folder} has format {version}, which a newer version of recrawl wrote; this one "
            f"reads formats up to {FORMAT}"
        )
    is_first = version == 1
    return CorpusFormat(
        corpus_id=None if is_first else _text(path, values, "id", _ID, "32 hexadecimal digits"),
        generation=0 if is_first else _integer(path, values, "generation", 0, GENERATION_MAX),
        canonical_urls=_integer(path, values, "canonical_urls", 1, 1 << 31),
        partitions=_integer(path, values, "partitions", 1, N_PARTITIONS_MAX),
        group_by=_text(path, values, "group_by", re.compile(r"\w+"), "a word"),
        ledger=_text(path, values, "ledger", re.compile("|".join(_LEDGERS)), "rocksdb or kafka"),
        topic=values.get("topic"),
        earlier=tuple(values.get("earlier", ())),
    )


def _value(path: Path, values: dict[str, Any], key: str) -> Any:
    if key not in values:
        raise CorpusError(
            f"{path} is incomplete: it has no key {key!r}. Restore the file from a backup."
        )
    return values[key]


def _integer(path: Path, values: dict[str, Any], key: str, low: int, high: int) -> int:
    value = _value(path, values, key)
    if type(value) is not int or not low <= value <= high:
        raise CorpusError(
            f"{path} is malformed: {key!r} must be an integer from {low} to {high}, got "
            f"{value!r}. Restore the file from a backup."
        )
    return value


def _text(path: Path, values: dict[str, Any], key: str, pattern: re.Pattern[str], what: str) -> str:
    value = _value(path, values, key)
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise CorpusError(
            f"{path} is malformed: {key!r} must be {what}, got {value!r}. Restore the file from a "
            "backup."
        )
    return value
