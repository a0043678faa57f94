"""Files, pipes and what is compressed: bounded, and cut short in words where they break."""

import bz2
import gzip
import io
import os
import random
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from recrawl.errors import ReadError
from recrawl.readers import inputs
from recrawl.readers.inputs import HEAD_BYTES_MAX, Input
from recrawl.readers.refused import Refused

TEXT = "".join(f"https://example.com/{random.Random(n).random()}\n" for n in range(30_000)).encode()
PACKED = {
    "gzip": gzip.compress(TEXT),
    "gzip in parts": gzip.compress(TEXT[:99_999]) + gzip.compress(TEXT[99_999:]),
    "bz2": bz2.compress(TEXT),
    "bz2 in parts": bz2.compress(TEXT[:99_999]) + bz2.compress(TEXT[99_999:]),
    "zstd": pa.compress(TEXT, codec="zstd", asbytes=True),
    "zstd in parts": (
        pa.compress(TEXT[:99_999], codec="zstd", asbytes=True)
        + pa.compress(TEXT[99_999:], codec="zstd", asbytes=True)
    ),
    "plain": TEXT,
}
packed = pytest.mark.parametrize("data", PACKED.values(), ids=PACKED.keys())


def drawn(source: Input) -> tuple[bytes, Refused]:
    refused = Refused()
    return b"".join(source.blocks(refused)), refused


@packed
def test_files_of_every_compression_are_decompressed(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    for source in (Input(path), Input(io.BytesIO(data)), Input(str(path))):
        assert source.head.startswith(TEXT[:990])
        assert len(source.head) <= HEAD_BYTES_MAX
        found, refused = drawn(source)
        assert found == TEXT
        assert not refused.is_cut_short
        assert source.n_bytes_read == len(data)


@packed
def test_what_breaks_off_is_read_until_there(data: bytes) -> None:
    if data in (TEXT, PACKED["bz2"]):
        # One has no end to miss; the other is one block, which is whole or nothing.
        return
    found, refused = drawn(Input(io.BytesIO(data[: len(data) * 3 // 4])))
    assert TEXT.startswith(found)
    assert len(found) > 30_000
    assert refused.is_cut_short
    assert "reading failed" in str(refused.cut_short_reason)


def test_a_file_damaged_at_its_beginning_is_an_error() -> None:
    for data in (b"\x1f\x8bnothing of the kind at all", b"BZh9 neither", PACKED["bz2"][:9_999]):
        with pytest.raises(ReadError, match="download or create it again"):
            Input(io.BytesIO(data))


class Squeezed(io.RawIOBase):
    """A gigabyte of zeroes, compressed as it is read."""

    def __init__(self, n_bytes: int) -> None:
        self.left = n_bytes
        self.pack = zlib.compressobj(9, zlib.DEFLATED, 31)
        self.ready = b""

    def read(self, size: int = -1) -> bytes:
        while len(self.ready) < size and self.left > 0:
            n = min(self.left, 1 << 20)
            self.left -= n
            self.ready += self.pack.compress(bytes(n))
        data, self.ready = self.ready[:size], self.ready[size:]
        return data


def test_a_file_that_grows_too_much_when_decompressed_is_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inputs, "_INFLATION_UNCHECKED_BYTES", 1 << 23)
    source: Any = Squeezed(1 << 27)
    refused = Refused()
    n_bytes = sum(len(block) for block in Input(source).blocks(refused))
    assert n_bytes < 1 << 27
    assert "times its size" in str(refused.cut_short_reason)


class Failing(io.RawIOBase):
    """A stream that fails after a while."""

    def __init__(self, n_reads: int) -> None:
        self.n_reads = n_reads

    def read(self, size: int = -1) -> bytes:
        self.n_reads -= 1
        if self.n_reads < 0:
            raise OSError(5, "Input/output error")
        return b"https://example.com/\n" * 4_000


def test_an_input_output_error_is_reported() -> None:
    broken: Any = Failing(3)
    found, refused = drawn(Input(broken))
    assert found
    assert refused.cut_short_reason == "reading failed: Input/output error"
    broken = Failing(0)
    with pytest.raises(ReadError, match="Input/output error"):
        Input(broken)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_read_permission_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch(mode=0)
    with pytest.raises(ReadError, match="Permission denied"):
        Input(path)


def test_plain_names_have_no_suffix_of_the_compression() -> None:
    stream = io.BytesIO()
    stream.name = "Pages.TXT.gz"
    assert Input(stream).plain_name == "pages.txt"
