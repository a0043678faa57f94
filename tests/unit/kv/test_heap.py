"""Free memory goes back to the operating system."""

import sys
from pathlib import Path

import pytest

from recrawl.kv import return_free_memory


def resident_pages() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks the C library of Linux")
def test_holes_in_the_heap_are_returned() -> None:
    # Small pieces with every thousandth kept, so that the heap cannot simply shrink.
    pieces = [bytes(1000) for _ in range(100_000)]
    kept = pieces[::1000]
    full = resident_pages()
    del pieces
    if return_free_memory():  # otherwise the C library returns memory by itself
        assert resident_pages() < full
    assert len(kept) == 100
