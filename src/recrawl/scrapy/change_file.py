"""A file to which the changes of pages are appended as JSON lines."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from recrawl.corpus import Corpus, PageChange

__all__ = ["CHANGES_CONSUMER", "append_changes"]

CHANGES_CONSUMER: Final = "scrapy"
"""Consumer of the change feed whose place says what the file already has."""
_CHANGES_MAX: Final = 1_000


def append_changes(corpus: "Corpus", path: Path) -> int:
    """Append the changes that the file does not have yet; return their number.

    Each change is in the file at least once, also if the crawl was killed.

    Parameters
    ----------
    corpus
        Corpus of the crawl.
    path
        File of JSON lines.
    """
    n_written = 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        while changes := corpus.changes(consumer=CHANGES_CONSUMER, limit=_CHANGES_MAX):
            file.write(b"".join(_line(change) for change in changes))
            file.flush()
            os.fsync(file.fileno())
            corpus.commit_changes(CHANGES_CONSUMER, changes[-1].cursor)
            n_written += len(changes)
    return n_written


def _line(change: "PageChange") -> bytes:
    fields: dict[str, Any] = {
        "url": change.url,
        "transition": change.what.name.lower(),
        "at_ms": change.at_ms,
    }
    if change.passages is not None:
        fields |= {
            "added": list(change.passages.added),
            "removed": list(change.passages.removed),
            "added_text": change.passages.added_text,
        }
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
