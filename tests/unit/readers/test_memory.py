"""Files are read in the memory of a few blocks, however long they are."""

import io
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from benchmarks.cdx_stream import cdx_blocks, measure
from recrawl.readers import inputs, open_source

pytestmark = pytest.mark.slow


class Made(io.RawIOBase):
    """A file that is made as it is read."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self.blocks = blocks
        self.left = b""

    def read(self, size: int = -1) -> bytes:
        while len(self.left) < size and (block := next(self.blocks, b"")):
            self.left += block
        data, self.left = self.left[:size], self.left[size:]
        return data


def most_memory(data: Any, **options: Any) -> int:
    """Return the most bytes that Python and Arrow held while a file was read."""
    source = open_source(data, **options)
    pool = pa.default_memory_pool()
    before, most = pool.bytes_allocated(), 0
    tracemalloc.start()
    try:
        for _ in source.batches():
            most = max(most, pool.bytes_allocated() - before)
        return most + tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_cdx_file_eight_times_as_long_takes_no_more_memory() -> None:
    short = most_memory(Made(cdx_blocks(4 << 20)))
    long = most_memory(Made(cdx_blocks(32 << 20)))
    assert long < 1.3 * short
    assert long < 48 << 20


LINES = {
    "list": b"https://example.com/some/page\n",
    "crawl-log": b'{"url": "https://example.com/some/page", "at": 1700000000, "changed": true}\n',
    "cdxj": b'com,example)/ 20240101000000 {"url": "https://example.com/", "digest": "AAAA"}\n',
    "access-log": b'1.2.3.4 - - [10/Oct/2023:13:55:36 +0000] "GET /a HTTP/1.1" 200 1 "-" "-"\n',
}


@pytest.mark.parametrize("name", sorted(LINES))
def test_other_lines_take_no_more_memory_either(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "BLOCK_BYTES", 1 << 16)

    def most(n_pieces: int) -> int:
        pieces = [LINES[name] * 200] * n_pieces
        return most_memory(Made(iter(pieces)), format=name, base_url="https://example.com")

    most(10)
    assert most(80) < 1.3 * most(20)


def test_one_endless_line_takes_no_memory() -> None:
    endless = Made(iter([b"x" * (1 << 20)] * 64))
    assert most_memory(endless, format="list") < 8 << 20


def test_the_measurement_through_a_pipe_says_that_memory_is_bounded() -> None:
    found = measure(32 << 20)
    assert found["format"] == "cdx"
    assert found["rows"] > 100_000
    assert not found["is_cut_short"]
    assert found["resident_mib_growth"] < 64
