"""Read files in blocks of whole lines with line numbers."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from recrawl.readers.inputs import Input
from recrawl.readers.refused import Refused

__all__ = ["LINE_BYTES_MAX", "LineBlock", "line_blocks"]

LINE_BYTES_MAX = 1 << 20
"""Most bytes of a line; a longer one is refused."""

_TOO_LONG = f"a line of more than {LINE_BYTES_MAX:,} bytes"
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineBlock:
    """Consecutive lines; the last one of a file may lack its line end."""

    first_line: int
    data: bytes

    def as_utf8(self, refused: Refused) -> "LineBlock":
        """Return the lines as UTF-8; count lines with invalid bytes, and replace those bytes."""
        if self.data.isascii():
            return self
        try:
            self.data.decode()
        except UnicodeDecodeError:
            refused.n_replaced += sum(1 for line in self.data.split(b"\n") if not _is_utf8(line))
            data = self.data.decode("utf-8", "replace").encode()
            return LineBlock(first_line=self.first_line, data=data)
        return self

    def texts(self, refused: Refused) -> list[str]:
        """Return the lines as text without line ends; count lines that are not UTF-8."""
        text = self.as_utf8(refused).data.removesuffix(b"\n").decode()
        if "\r" in text:
            return [line.removesuffix("\r") for line in text.split("\n")]
        return text.split("\n")


def line_blocks(source: Input, refused: Refused) -> Iterator[LineBlock]:
    """Yield the lines of a file in blocks of about a mebibyte."""
    return _in_lines(source.blocks(refused), refused)


def _in_lines(blocks: Iterable[bytes], refused: Refused) -> Iterator[LineBlock]:
    line = 1
    rest = b""  # the beginning of an unfinished line
    is_skipping = False
    is_first = True
    for block in blocks:
        if is_first:
            block = block.removeprefix(_BOM)  # noqa: PLW2901 - the same block without its byte order mark
            is_first = False
        begin = 0
        if is_skipping:
            begin = block.find(b"\n") + 1
            if begin == 0:
                continue
            is_skipping = False
            line += 1
        end = block.rfind(b"\n") + 1
        if end > begin:
            first_end = block.find(b"\n", begin) + 1
            if len(rest) + first_end - begin > LINE_BYTES_MAX + 1:
                _refuse(refused, line, rest)
                line += 1
                rest, begin = b"", first_end
            data = rest + block[begin:end]
            if data:
                yield LineBlock(first_line=line, data=data)
                line += data.count(b"\n")
            rest = block[end:]
        else:
            rest += block[begin:]
        if len(rest) > LINE_BYTES_MAX:
            _refuse(refused, line, rest)
            rest, is_skipping = b"", True
    if rest:
        yield LineBlock(first_line=line, data=rest)


def _refuse(refused: Refused, line: int, data: bytes) -> None:
    refused.n_rows += 1
    refused.refuse(line, _TOO_LONG, data[:400])


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
