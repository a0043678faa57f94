"""Judge what differs between two answers of a page, with what the page and its host have shown."""

from recrawl.content.judging.host_memory import HOST_MEMORY_BYTES_MAX, HostMemory
from recrawl.content.judging.judge import judge
from recrawl.content.judging.page_memory import (
    PAGE_MEMORY_BYTES_MAX,
    PageMemory,
    PassageFlag,
    TextChoice,
)
from recrawl.content.judging.verdicts import ContentVerdict, Judgement, WrongAnswer

__all__ = [
    "HOST_MEMORY_BYTES_MAX",
    "PAGE_MEMORY_BYTES_MAX",
    "ContentVerdict",
    "HostMemory",
    "Judgement",
    "PageMemory",
    "PassageFlag",
    "TextChoice",
    "WrongAnswer",
    "judge",
]
