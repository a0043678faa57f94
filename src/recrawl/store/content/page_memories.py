"""What recrawl remembers of the text of each page, to judge its next version.

The memory itself is bytes that `recrawl.content` reads and writes.  The store adds how many wrong
answers came instead of the page.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

from recrawl.kv import KeyValues
from recrawl.shard.events import slot_of_page
from recrawl.store.content.differences import unpack_difference
from recrawl.store.keys import PAGE_MEMORY, PageArray, Writes, keys_of, stored_values

__all__ = [
    "PAGE_MEMORY_BYTES_STORED_MAX",
    "ContentRow",
    "PageContents",
    "page_contents_in",
    "put_page_contents",
    "stored_page_contents",
]

PAGE_MEMORY_BYTES_STORED_MAX = 1 << 16
"""Limit of the memory of a page; a longer one is not kept."""

# Layout of a value: generation, kind of the last wrong answer; if there was one, the number of
# wrong answers and the time of the last one; then the memory.
_HEAD = struct.Struct("<BB")
_WRONG = struct.Struct("<Iq")
_N_WRONG_MAX = 0xFFFFFFFF


class ContentRow(NamedTuple):
    """The effect of one outcome on what is kept of a page."""

    page: int
    memory: bytes | None
    """New memory of the page, None to keep the old one."""
    is_difference: bool
    """Whether the memory is written as its difference from the old one."""
    wrong_answer: int
    """Kind of wrong answer, 0 for none."""
    at_ms: int


class PageContents(NamedTuple):
    """What is kept of pages as columns, a row per page."""

    memory: list[bytes | None]
    wrong_answer: list[int]
    """Kind of the last wrong answer, 0 if there was none."""
    n_wrong_answers: list[int]
    wrong_answer_at_ms: list[int]
    """Time of the last wrong answer, 0 if there was none."""


class _Parts(NamedTuple):
    wrong_answer: int = 0
    n_wrong_answers: int = 0
    wrong_answer_at_ms: int = 0
    memory: bytes = b""


def stored_page_contents(kv: KeyValues, page: PageArray) -> list[bytes | None]:
    """Return the stored bytes of pages, None for pages without any."""
    return stored_values(kv, PAGE_MEMORY, page)


def _parts_of(value: bytes | None) -> _Parts:
    if value is None:
        return _Parts()
    _, wrong_answer = _HEAD.unpack_from(value)
    if not wrong_answer:
        return _Parts(memory=value[_HEAD.size :])
    n_wrong, at_ms = _WRONG.unpack_from(value, _HEAD.size)
    return _Parts(wrong_answer, n_wrong, at_ms, value[_HEAD.size + _WRONG.size :])


def _value_of(generation: int, parts: _Parts) -> bytes:
    wrong = b""
    if parts.wrong_answer:
        wrong = _WRONG.pack(parts.n_wrong_answers, parts.wrong_answer_at_ms)
    return _HEAD.pack(generation, parts.wrong_answer) + wrong + parts.memory


def page_contents_in(values: list[bytes | None]) -> PageContents:
    """Return what the bytes from `stored_page_contents` hold."""
    parts = [_parts_of(value) for value in values]
    return PageContents(
        [one.memory or None for one in parts],
        [one.wrong_answer for one in parts],
        [one.n_wrong_answers for one in parts],
        [one.wrong_answer_at_ms for one in parts],
    )


def _memory_after(old: bytes, row: ContentRow) -> bytes:
    memory = row.memory or b""
    if row.is_difference:
        # Two outcomes that were judged at the same time: the first one's memory stays.
        read = unpack_difference(memory, old, n_bytes_max=PAGE_MEMORY_BYTES_STORED_MAX)
        return old if read is None else read
    return memory if len(memory) <= PAGE_MEMORY_BYTES_STORED_MAX else b""


def put_page_contents(
    writes: Writes, page: PageArray, values: list[bytes | None], rows: Iterable[ContentRow]
) -> None:
    """Collect the writes that update what is kept of pages, in the given order.

    Parameters
    ----------
    writes
        Collection that receives the writes.
    page, values
        All pages of ``rows``, and their stored bytes as `stored_page_contents` returns them.
    rows
        Effects of outcomes.
    """
    known = {row: _parts_of(value) for row, value in zip(page.tolist(), values, strict=True)}
    for row in rows:
        parts = known[row.page]
        if row.memory is not None:
            parts = parts._replace(memory=_memory_after(parts.memory, row))
        if row.wrong_answer:
            parts = parts._replace(
                wrong_answer=row.wrong_answer,
                n_wrong_answers=min(parts.n_wrong_answers + 1, _N_WRONG_MAX),
                wrong_answer_at_ms=row.at_ms,
            )
        known[row.page] = parts
    writes.keys += keys_of(PAGE_MEMORY, slot_of_page(page), 4)
    writes.values += [_value_of(row >> 32, parts) for row, parts in known.items()]
