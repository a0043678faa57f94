"""What counts as a change: passages of page bodies, compared across polls.

`observe` turns a body into an `Observation`.
"""

from recrawl.content.extract.words import passage_hash
from recrawl.content.judging import (
    HOST_MEMORY_BYTES_MAX,
    PAGE_MEMORY_BYTES_MAX,
    ContentVerdict,
    HostMemory,
    Judgement,
    PageMemory,
    WrongAnswer,
    judge,
)
from recrawl.content.markdown import render_markdown
from recrawl.content.merging import merge_passages
from recrawl.content.observation import (
    EXTRACTOR_VERSION,
    PASSAGES_MAX,
    PROBLEMS,
    ContentKind,
    Observation,
)
from recrawl.content.observing import observe, observe_bytes, observe_text
from recrawl.content.pool import ObserverPool, PageBody
from recrawl.content.settings import DEFAULT_CONTENT_SETTINGS, ContentSettings

__all__ = [
    "DEFAULT_CONTENT_SETTINGS",
    "EXTRACTOR_VERSION",
    "HOST_MEMORY_BYTES_MAX",
    "PAGE_MEMORY_BYTES_MAX",
    "PASSAGES_MAX",
    "PROBLEMS",
    "ContentKind",
    "ContentSettings",
    "ContentVerdict",
    "HostMemory",
    "Judgement",
    "Observation",
    "ObserverPool",
    "PageBody",
    "PageMemory",
    "WrongAnswer",
    "judge",
    "merge_passages",
    "observe",
    "observe_bytes",
    "observe_text",
    "passage_hash",
    "render_markdown",
]
