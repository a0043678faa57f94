"""Recognise a Kafka topic that was deleted and created again.

Brokers give every topic an id of its own.  A corpus notes that of its topic in a small file, and
refuses a topic with the same name and another id.  A topic without this corpus's records is also
recognised by the ids of corpora in its messages, and by positions of the store and the snapshots
that it does not reach; but a new topic may be written to, until it reaches them.
"""

import json
from pathlib import Path

from recrawl.atomic_files import replace_json
from recrawl.errors import IdentityError

__all__ = ["TOPIC_FILE", "check_topic", "missing_topic_error", "note_topic"]

TOPIC_FILE = "topic.json"


def check_topic(folder: Path, topic: str, topic_id: str | None) -> None:
    """Raise `IdentityError` if a topic was created again since the corpus was last opened.

    Parameters
    ----------
    folder
        Folder of the corpus.
    topic
        Name of the topic.
    topic_id
        Id of the topic; None if the brokers do not tell.
    """
    noted = _last_topic(folder)
    if topic_id is None or noted.get("topic") != topic or noted.get("id") in (None, topic_id):
        return
    raise IdentityError(
        f"the topic {topic} was deleted and created again: its id was {noted['id']} when the "
        f"corpus in {folder} was last opened, and is {topic_id} now.  Nothing was changed.\n"
        "Check ledger.topic and ledger.bootstrap.  If you have copied all records into the new "
        f"topic, at the same offsets, delete {folder / TOPIC_FILE} and try again."
    )


def note_topic(folder: Path, topic: str, topic_id: str | None) -> None:
    """Note the id of a topic for the next opening, if the brokers tell it."""
    if topic_id is None or _last_topic(folder) == {"topic": topic, "id": topic_id}:
        return
    replace_json(folder / TOPIC_FILE, {"topic": topic, "id": topic_id})


def _last_topic(folder: Path) -> dict[str, str]:
    """Return the name and the id of the topic at the last opening; empty if unknown."""
    try:
        noted = json.loads((folder / TOPIC_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return noted if isinstance(noted, dict) else {}


def missing_topic_error(folder: Path, topic: str, bootstrap: str) -> IdentityError:
    """Return the error for a corpus whose topic does not exist any more."""
    return IdentityError(
        f"the topic {topic} with the log of the corpus in {folder} does not exist at {bootstrap}: "
        "it was deleted, or ledger.topic or ledger.bootstrap is wrong.  Nothing was changed, and "
        "no topic was created."
    )
