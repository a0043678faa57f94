"""What is known of one page, with the names that users gave instead of numbers."""

from dataclasses import dataclass

import pyarrow as pa

from recrawl.runtime.node import Node
from recrawl.shard.explain import Explanation
from recrawl.store import Names

__all__ = ["PageExplanation", "explained"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageExplanation:
    """Everything known of a page, and why it is or is not due."""

    url: str
    fetch_url: str
    group: str
    """Host or domain that politeness belongs to."""
    kind: str | None
    """Name of its kind, None where no pattern covers it."""
    sources: tuple[str, ...]
    """Who signalled it, in the order of ``state.sources``."""
    etag: bytes | None
    last_modified: bytes | None
    moved_to: str | None
    now_ms: int
    state: Explanation
    """As the shard sees it."""


def explained(node: Node, url: pa.StringArray, now_ms: int) -> PageExplanation | None:
    """Return what is known of the page with a canonical URL; None if there is none."""
    with node.lock:
        page = node.store.pages_of(url)
        if page[0] < 0:
            return None
        state = node.shard.explain(int(page[0]), max(now_ms, node.shard.now_ms))
        if state is None:
            return None
        store = node.store
        record = store.records_of(page)
        kind = store.names_of(Names.KIND, [state.kind])[0] if state.kind else None
        sources = store.names_of(Names.SOURCE, [view.source for view in state.sources])
        return PageExplanation(
            url=url[0].as_py(),
            fetch_url=store.fetch_urls_of(page)[0].as_py(),
            group=store.names_of(Names.GROUP, [state.group])[0] or "",
            kind=kind,
            sources=tuple((name or "").partition("\t")[0] for name in sources),
            etag=record.etag[0],
            last_modified=record.last_modified[0],
            moved_to=record.moved_to[0],
            now_ms=max(now_ms, node.shard.now_ms),
            state=state,
        )
