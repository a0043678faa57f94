"""The record of forgets in a corpus: which are complete, and what is left of the others.

The URLs themselves are not recorded, but hashes of them with a random key; both are removed when a
forget is complete.
"""

import hashlib
import json
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from recrawl.atomic_files import replace_json
from recrawl.corpus.forgetting.remains import Remainder
from recrawl.errors import CorpusError
from recrawl.store import IsForgotten

__all__ = ["FORGETS_FILE", "PendingForget", "hash_texts", "read_forgets", "write_forgets"]

FORGETS_FILE = "forgets.json"
FORGETS_MAX = 1_000
"""Number of complete forgets that are kept in the record."""
_HASH_BYTES = 16


class PendingForget(NamedTuple):
    """One forget."""

    number: int
    began_at_ms: int
    n_pages: int
    is_erased: bool
    """Whether the pages are erased from the corpus itself; False after an interruption."""
    completed_at_ms: int | None
    remains: Sequence[Remainder]
    key: str
    hashes: Sequence[str]

    def matcher(self) -> IsForgotten:
        """Return a function that recognizes the forgotten URLs by their hashes."""
        known, key = set(self.hashes), self.key

        def is_forgotten(urls: pa.StringArray) -> np.ndarray[Any, np.dtype[np.bool_]]:
            texts = [(url or "").encode() for url in urls.to_pylist()]
            return np.array([one in known for one in hash_texts(texts, key)], np.bool_)

        return is_forgotten


def new_key() -> str:
    """Return a random key for the hashes of one forget."""
    return secrets.token_hex(_HASH_BYTES)


def hash_texts(texts: Iterable[bytes], key: str) -> list[str]:
    """Return the hashes of URLs with a key, as hexadecimal digits."""
    secret = bytes.fromhex(key)
    return [
        hashlib.blake2b(text, digest_size=_HASH_BYTES, key=secret).hexdigest() for text in texts
    ]


def read_forgets(folder: Path) -> list[PendingForget]:
    """Return all recorded forgets, oldest first.

    Raises
    ------
    CorpusError
        If the record cannot be read.
    """
    path = folder / FORGETS_FILE
    try:
        rows = json.loads(path.read_bytes())["forgets"]
        return [
            PendingForget(**{**row, "remains": [Remainder(**one) for one in row["remains"]]})
            for row in rows
        ]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorpusError(f"{path} cannot be read: {error}") from error


def write_forgets(folder: Path, forgets: Sequence[PendingForget]) -> None:
    """Record forgets, durably; of the complete ones only the latest are kept."""
    complete = [one for one in forgets if one.completed_at_ms is not None]
    dropped = {one.number for one in complete[:-FORGETS_MAX]}
    rows: list[dict[str, Any]] = [
        {**one._asdict(), "remains": [left._asdict() for left in one.remains]}
        for one in forgets
        if one.number not in dropped
    ]
    replace_json(folder / FORGETS_FILE, {"format": 1, "forgets": rows})
