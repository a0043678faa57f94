"""Lines in blocks: none lost, none joined, numbered right, none too long."""

import io
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.readers.inputs import BLOCK_BYTES, Input
from recrawl.readers.lines import LINE_BYTES_MAX, _in_lines, line_blocks
from recrawl.readers.refused import Refused


def numbered(blocks: list[bytes]) -> tuple[dict[int, str], Refused]:
    refused = Refused()
    found: dict[int, str] = {}
    for block in _in_lines(blocks, refused):
        for line, text in enumerate(block.texts(refused), block.first_line):
            assert line not in found
            found[line] = text
    return found, refused


@given(
    lines=st.lists(st.text("abc é", max_size=5)),
    cuts=st.lists(st.integers(0, 200), max_size=10),
    has_end=st.booleans(),
)
def test_lines_are_the_same_wherever_blocks_end(
    lines: list[str], cuts: list[int], has_end: bool
) -> None:
    data = "\n".join(lines).encode() + (b"\n" if has_end else b"")
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    blocks = [data[a:b] for a, b in pairwise(places)]
    found, refused = numbered(blocks)
    whole = data.decode().removesuffix("\n").split("\n") if data else []
    assert found == dict(enumerate(whole, 1))
    assert refused.n_replaced == 0


@pytest.mark.parametrize("block_bytes", [BLOCK_BYTES, 1_000_003, 300_000, LINE_BYTES_MAX + 1])
@pytest.mark.parametrize("n_over", [1, 2, 5_000_000])
def test_a_line_too_long_is_refused_and_the_rest_is_read(block_bytes: int, n_over: int) -> None:
    data = b"a\n" + b"x" * (LINE_BYTES_MAX + n_over) + b"\nb\n" + b"y" * LINE_BYTES_MAX + b"\nc\n"
    blocks = [data[n : n + block_bytes] for n in range(0, len(data), block_bytes)]
    found, refused = numbered(blocks)
    assert {line: text[:2] for line, text in found.items()} == {1: "a", 3: "b", 4: "yy", 5: "c"}
    assert [row.line for row in refused.examples] == [2]
    assert refused.examples[0].excerpt.startswith("xxx")


def test_a_line_too_long_without_an_end_is_refused() -> None:
    found, refused = numbered([b"a\n", b"x" * LINE_BYTES_MAX, b"x"])
    assert found == {1: "a"}
    assert refused.n_refused == 1


def test_bytes_that_are_not_utf8_are_replaced_and_counted() -> None:
    found, refused = numbered([b"a\xff\n\xe2\x82\xac\n\xed\xa0\x80"])
    assert found == {1: "a\ufffd", 2: "€", 3: "\ufffd\ufffd\ufffd"}
    assert refused.n_replaced == 2


def test_carriage_returns_and_byte_order_marks_are_removed() -> None:
    refused = Refused()
    source = Input(io.BytesIO(b"\xef\xbb\xbfa\r\n\r\nb\x0bc\xe2\x80\xa8d\r\n"))
    [block] = line_blocks(source, refused)
    assert block.texts(refused) == ["a", "", "b\x0bc\u2028d"]
