"""Bodies are unpacked within limits of size and expansion."""

import gzip
import random
import tracemalloc
import zlib

import brotli
import pytest

from recrawl.fetch import unpacking
from recrawl.fetch.fetcher import FetchProblem
from recrawl.fetch.unpacking import ACCEPT_ENCODING, BodyUnpacker

zstd = unpacking._ZSTD

TEXT = b"".join(b"line %d\n" % i for i in range(20_000))


def deflate_raw(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


PACKED = {
    "": TEXT,
    "utf-8": TEXT,
    "GZIP": gzip.compress(TEXT),
    "x-gzip": gzip.compress(TEXT[:1000]) + gzip.compress(TEXT[1000:]),
    "deflate": zlib.compress(TEXT),
    "deflate ": deflate_raw(TEXT),
    "br": brotli.compress(TEXT),
    "zstd": zstd.compress(TEXT),
    "zstd ": zstd.compress(TEXT[:1000]) + zstd.compress(TEXT[1000:]),
}


def read(coding: str, data: bytes, step: int = 1000, bytes_max: int = 1 << 20) -> BodyUnpacker:
    reader = BodyUnpacker(coding, bytes_max=bytes_max, ratio_max=200)
    for start in range(0, len(data), step):
        reader.feed(data[start : start + step])
    reader.finish()
    return reader


@pytest.mark.parametrize("coding", PACKED)
@pytest.mark.parametrize("step", [1, 7, 10_000, 1_000_000])
def test_bodies_come_whole_in_pieces_of_any_size(coding: str, step: int) -> None:
    data = PACKED[coding]
    reader = read(coding, data[:300_000] if step > 1 else data, step)
    assert reader.problem is None
    assert reader.body == TEXT
    assert reader.n_bytes_packed == len(data)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_bombs_are_stopped_with_little_memory(coding: str) -> None:
    zeros = bytes(50_000_000)
    if coding == "zstd":
        data = zstd.compress(zeros)
    elif coding == "br":
        data = brotli.compress(zeros, quality=2)
    else:
        data = zlib.compress(zeros, level=1, wbits=31 if coding == "gzip" else 15)
    tracemalloc.start()
    reader = read(coding, data, 1 << 16, bytes_max=1 << 30)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert reader.problem == FetchProblem.BOMB
    assert peak < 20_000_000


@pytest.mark.parametrize("coding", ["", "gzip", "deflate", "br", "zstd"])
def test_large_bodies_are_cut(coding: str) -> None:
    reader = read(coding, PACKED[{"gzip": "GZIP"}.get(coding, coding)], bytes_max=5_000)
    assert reader.problem == FetchProblem.TOO_LARGE
    assert reader.body == TEXT[:5_000]


@pytest.mark.parametrize("coding", ["GZIP", "deflate", "br", "zstd"])
def test_cut_and_empty_bodies(coding: str) -> None:
    assert read(coding, PACKED[coding][:-20]).problem == FetchProblem.BAD_ENCODING
    assert read(coding, b"").problem is None
    assert read(coding, PACKED[coding] + b"more").problem in (None, FetchProblem.BAD_ENCODING)


@pytest.mark.parametrize("coding", ["zstd", "gzip, gzip", "compress"])
def test_codings_that_nobody_asked_for_are_refused(coding: str) -> None:
    assert read(coding, TEXT).problem == FetchProblem.BAD_ENCODING


def test_mutated_bodies_never_raise() -> None:
    rng = random.Random(5)
    for coding in ("GZIP", "deflate", "deflate ", "br", "zstd", "zstd "):
        for _ in range(60):
            data = bytearray(PACKED[coding][: rng.choice([50, 500, 100_000])])
            for _ in range(rng.randint(1, 5)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            reader = read(coding, bytes(data), rng.choice([13, 100_000]))
            assert len(reader.body) <= 1 << 20


def test_zstd_is_asked_for_where_it_can_be_unpacked() -> None:
    assert ACCEPT_ENCODING == "gzip, deflate, br, zstd"
    # A frame that asks for a window of 64 MiB, eight times what the coding allows.
    options = {zstd.CompressionParameter.window_log: 26}
    packer = zstd.ZstdCompressor(options=options)
    data = packer.compress(random.Random(1).randbytes(9 << 20)) + packer.flush()
    assert read("zstd", data, 1 << 16, bytes_max=1 << 26).problem == FetchProblem.BAD_ENCODING


def test_without_a_decoder_zstd_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "_ZSTD", None)
    assert read("zstd", PACKED["zstd"]).problem == FetchProblem.BAD_ENCODING
