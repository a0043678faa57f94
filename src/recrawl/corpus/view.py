"""The interface of `recrawl.corpus.corpus.Corpus` that the modules which it imports may use.

These modules take a `CorpusView` instead of a `Corpus`, which avoids circular imports: the class
imports them and offers their functions as methods.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from recrawl.messages.results import Added, CountedRows, RowStatus, Signalled
from recrawl.node.clock import NodeTime
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.durability.recovery import Partition
from recrawl.node.open_nodes import OpenNodes
from recrawl.node.routing import Urls

__all__ = ["Added", "CorpusView", "CountedRows", "RowStatus", "Signalled"]


class CorpusView(Protocol):
    """An open corpus, as seen by functions that read it or import into it."""

    folder: Path
    config: CorpusConfig
    time: NodeTime
    is_for_parts: bool

    @property
    def nodes(self) -> OpenNodes:
        """The nodes of the open partitions."""
        ...

    @property
    def partitions(self) -> Mapping[int, Partition]:
        """The log, store and snapshots of each open partition, by its number."""
        ...

    def add(
        self,
        urls: Urls,
        *,
        importance: Any = None,
        cost: Any = None,
        doc_id: Any = None,
        metadata: Any = None,
        key: Any = None,
    ) -> Added:
        """Add pages to track."""
        ...
